//! The xxHash family with seed 0. Digests are the big-endian bytes of the number, as `xxhsum` prints it.

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::xxhash3_64::{self, DEFAULT_SECRET_LENGTH, SecretBuffer};
use twox_hash::{XxHash3_64, XxHash3_128, XxHash32, XxHash64, xxhash3_128};

use super::{DigestStream, Fresh, Policy, StreamFactory};
use crate::algorithm::Algorithm;
use crate::error::DigestError;

/// Shares the secret: the crate's own types with that name copy it for each message.
type Secret = &'static [u8; DEFAULT_SECRET_LENGTH];

/// Adapts one of the crate's hashers; each has methods of the same names and no trait in common.
macro_rules! xxhash {
    ($function:ident, $hasher:ty, $new:expr, $write:expr, $finish:expr, $whole:expr) => {
        pub fn $function(_: &'static Algorithm, _: &Policy) -> Result<Arc<dyn StreamFactory>, DigestError> {
            struct Adapter($hasher);

            impl DigestStream for Adapter {
                fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
                    $write(&mut self.0, data);
                    Ok(())
                }

                fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
                    digest.copy_from_slice(&$finish(&self.0).to_be_bytes());
                    self.0 = $new;
                    Ok(())
                }

                fn hash(&mut self, message: &[u8], digest: &mut [u8]) -> Result<(), DigestError> {
                    digest.copy_from_slice(&$whole(message).to_be_bytes());
                    Ok(())
                }

                fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
                    Ok(Box::new(Adapter(self.0.clone())))
                }
            }

            Ok(Arc::new(Fresh(|| Adapter($new))))
        }
    };
}

xxhash!(xxh32, XxHash32, XxHash32::with_seed(0), XxHash32::write, XxHash32::finish_32, |message| {
    XxHash32::oneshot(0, message)
});
xxhash!(xxh64, XxHash64, XxHash64::with_seed(0), XxHash64::write, XxHash64::finish, |message| {
    XxHash64::oneshot(0, message)
});
xxhash!(
    xxh3_64,
    xxhash3_64::RawHasher<Secret>,
    xxhash3_64::RawHasher::new(SecretBuffer::default()),
    xxhash3_64::RawHasher::write,
    xxhash3_64::RawHasher::finish,
    XxHash3_64::oneshot
);
xxhash!(
    xxh3_128,
    xxhash3_128::RawHasher<Secret>,
    xxhash3_128::RawHasher::new(SecretBuffer::default()),
    xxhash3_128::RawHasher::write,
    xxhash3_128::RawHasher::finish_128,
    XxHash3_128::oneshot
);
