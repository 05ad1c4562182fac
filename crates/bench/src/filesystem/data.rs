//! The checksums of btrfs, and the data that they are measured on.

use std::io::Write;
use std::path::Path;

use crate::measure::MeasureError;

/// A checksum of btrfs.
#[derive(Debug, PartialEq, Eq)]
pub struct BtrfsChecksum {
    /// The name that mkfs.btrfs knows, and that of a row.
    pub name: &'static str,
    /// The digest of ours that costs the same: for BLAKE2b any length does.
    pub digest: &'static str,
    /// Whether data gets none: a control.
    pub none: bool,
}

/// The four of btrfs, and none.
pub static CHECKSUMS: [BtrfsChecksum; 5] = [
    BtrfsChecksum { name: "crc32c", digest: "crc32c", none: false },
    BtrfsChecksum { name: "xxhash", digest: "xxh64", none: false },
    BtrfsChecksum { name: "sha256", digest: "sha256", none: false },
    BtrfsChecksum { name: "blake2", digest: "blake2b512", none: false },
    BtrfsChecksum { name: "nodatasum", digest: "crc32c", none: true },
];

impl BtrfsChecksum {
    /// What mkfs.btrfs is told; metadata always have one.
    pub(super) fn of_mkfs(&self) -> &'static str {
        if self.none { "crc32c" } else { self.name }
    }
}

/// The length of each write.
pub const WRITE: usize = 4 << 20;

/// The most of the data that differs: after it, it begins anew.
const MOST_DATA: u64 = 64 << 20;

/// What is written: prepared, so that making it costs no time that counts.
#[derive(Debug)]
pub struct Data {
    pub(super) bytes: Vec<u8>,
    /// How much of it is written.
    pub length: u64,
}

impl Data {
    /// Bytes that nothing can compress, the same in every run; whole writes.
    pub fn new(length: u64) -> Data {
        let length = length.next_multiple_of(WRITE as u64).max(WRITE as u64);
        let mut bytes = vec![0; length.min(MOST_DATA) as usize];
        fastrand::Rng::with_seed(1).fill(&mut bytes);
        Data { bytes, length }
    }

    /// The pieces in which it is written.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(WRITE).cycle().take((self.length / WRITE as u64) as usize)
    }

    /// Writes it into a new file.
    pub(super) fn write(&self, path: &Path) -> Result<std::fs::File, MeasureError> {
        let failed = |error| MeasureError::io(path, "write", error);
        let mut file = std::fs::File::create(path).map_err(failed)?;
        for piece in self.pieces() {
            file.write_all(piece).map_err(failed)?;
        }
        Ok(file)
    }

    /// Whether a file holds it.
    pub(super) fn is_in(&self, path: &Path) -> Result<bool, MeasureError> {
        use std::io::Read;
        let failed = |error| MeasureError::io(path, "read", error);
        let mut file = std::fs::File::open(path).map_err(failed)?;
        let mut buffer = vec![0; WRITE];
        for piece in self.pieces() {
            file.read_exact(&mut buffer).map_err(failed)?;
            if buffer != piece {
                return Ok(false);
            }
        }
        Ok(file.read(&mut buffer).map_err(failed)? == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_whole_writes_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let data = Data::new(5 << 20);
        assert_eq!(data.length, 8 << 20);
        drop(data.write(&path).unwrap());
        assert!(data.is_in(&path).unwrap());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[6 << 20] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(!data.is_in(&path).unwrap());
    }

    #[test]
    fn every_checksum_is_a_digest_of_ours() {
        for checksum in &CHECKSUMS {
            assert!(verisum_digest::Algorithm::find(checksum.digest).is_some(), "{}", checksum.name);
        }
        assert_eq!(CHECKSUMS.iter().filter(|one| one.none).count(), 1);
    }
}
