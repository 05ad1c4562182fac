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
        digest.copy_from_slice(self.0.finalize().as_bytes());
        self.0.reset();
        Ok(())
    }

    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new(Blake3(self.0.clone())))
    }
}

struct Blake3Factory;

impl StreamFactory for Blake3Factory {
    fn start(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new(Blake3(blake3::Hasher::new())))
    }

    fn parts(&self) -> Option<Parts> {
        Some(Parts::of_blake3())
    }
}

pub fn stream(_: &'static Algorithm, _: &Policy) -> Result<Arc<dyn StreamFactory>, DigestError> {
    Ok(Arc::new(Blake3Factory))
}
