//! The digests of parity: BLAKE3, whole or its first half.

use verisum_digest::{Batch, Digest};

use crate::ParityError;
use crate::head::PartDigest;

/// BLAKE3 of many parts, for one thread.
pub(crate) struct Hasher(Batch);

impl Hasher {
    pub(crate) fn new() -> Result<Hasher, ParityError> {
        Ok(Hasher(Digest::find("blake3")?.batch()?))
    }

    /// The digest of a part.
    pub(crate) fn part(&mut self, bytes: &[u8]) -> Result<PartDigest, ParityError> {
        let mut digest = [0; 32];
        self.0.hash(&[bytes], &mut digest)?;
        let (half, _) = digest.split_at(size_of::<PartDigest>());
        let mut part = PartDigest::default();
        part.copy_from_slice(half);
        Ok(part)
    }
}

/// All 32 bytes of BLAKE3; zeros, which seal nothing, where it cannot be computed.
pub(crate) fn whole(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    if let Ok(found) = Digest::find("blake3").and_then(|blake3| blake3.hash(bytes)) {
        digest.copy_from_slice(found.as_bytes());
    }
    digest
}
