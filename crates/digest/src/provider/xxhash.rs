//! The xxHash family with seed 0. Digests are the big-endian bytes of the number, as `xxhsum` prints it.

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::{XxHash3_64, XxHash3_128, XxHash32, XxHash64};

use super::{DigestStream, Fresh, Policy, StreamFactory};
use crate::algorithm::Algorithm;
use crate::error::DigestError;

/// Adapts one of the crate's hashers; each has methods of the same names and no trait in common.
macro_rules! xxhash {
    ($function:ident, $hasher:ident, $write:expr, $finish:expr, $whole:expr) => {
        pub fn $function(_: &'static Algorithm, _: &Policy) -> Result<Arc<dyn StreamFactory>, DigestError> {
            struct Adapter($hasher);

            impl DigestStream for Adapter {
                fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
                    $write(&mut self.0, data);
                    Ok(())
                }

                fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
                    digest.copy_from_slice(&$finish(&self.0).to_be_bytes());
                    self.0 = $hasher::with_seed(0);
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

            Ok(Arc::new(Fresh(|| Adapter($hasher::with_seed(0)))))
        }
    };
}

xxhash!(xxh32, XxHash32, |h: &mut XxHash32, data| h.write(data), |h: &XxHash32| h.finish_32(), |data| {
    XxHash32::oneshot(0, data)
});
xxhash!(xxh64, XxHash64, |h: &mut XxHash64, data| h.write(data), |h: &XxHash64| h.finish(), |data| {
    XxHash64::oneshot(0, data)
});
xxhash!(
    xxh3_64,
    XxHash3_64,
    |h: &mut XxHash3_64, data| h.write(data),
    |h: &XxHash3_64| h.finish(),
    XxHash3_64::oneshot
);
xxhash!(
    xxh3_128,
    XxHash3_128,
    |h: &mut XxHash3_128, data| h.write(data),
    |h: &XxHash3_128| h.finish_128(),
    XxHash3_128::oneshot
);
