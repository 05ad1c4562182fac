//! BLAKE3 by its authors' crate, which chooses its SIMD level itself.

use std::sync::Arc;

use super::{DigestStream, Policy, StreamFactory};
use crate::algorithm::Algorithm;
use crate::error::DigestError;
use crate::parts::Parts;

struct Blake3(blake3::Hasher);

impl DigestStream for Blake3 {
    fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
        self.0.update(data);
        Ok(())
    }

    fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
        self.0.finalize_xof().fill(digest);
        self.0.reset();
        Ok(())
    }

    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new(Blake3(self.0.clone())))
    }
}

/// Of a digest of so many bytes.
struct Blake3Factory(usize);

impl StreamFactory for Blake3Factory {
    fn start(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new(Blake3(blake3::Hasher::new())))
    }

    fn parts(&self) -> Option<Parts> {
        (self.0 == blake3::OUT_LEN).then(Parts::of_blake3)
    }
}

pub fn stream(_: &'static Algorithm, _: &Policy) -> Result<Arc<dyn StreamFactory>, DigestError> {
    Ok(of_length(blake3::OUT_LEN))
}

/// Digests of so many bytes.
pub fn of_length(len: usize) -> Arc<dyn StreamFactory> {
    Arc::new(Blake3Factory(len))
}
