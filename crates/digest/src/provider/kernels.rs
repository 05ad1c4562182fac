//! Our own SIMD kernels.

use std::sync::Arc;

use verisum_kernels::{Kernel, Level, Single};

use super::{DigestStream, Policy, StreamFactory};
use crate::algorithm::Algorithm;
use crate::error::DigestError;

struct KernelStream(Single);

impl DigestStream for KernelStream {
    fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
        self.0.update(data);
        Ok(())
    }

    fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
        self.0.finish_into_and_reset(digest);
        Ok(())
    }

    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new(KernelStream(self.0.clone())))
    }
}

impl StreamFactory for Kernel {
    fn start(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new(KernelStream(self.single())))
    }

    fn kernel_level(&self) -> Option<Level> {
        Some(self.level())
    }
}

fn kernel_algorithm(algorithm: &Algorithm) -> verisum_kernels::KernelAlgorithm {
    verisum_kernels::KernelAlgorithm::ALL
        .iter()
        .copied()
        .find(|known| known.name() == algorithm.id)
        .expect("a test checks that every kernels row has a kernel")
}

/// Single streams by the processor's SHA instructions.
pub fn instruction_stream(
    algorithm: &'static Algorithm,
    policy: &Policy,
) -> Result<Arc<dyn StreamFactory>, DigestError> {
    match Kernel::by_instructions(kernel_algorithm(algorithm), policy.max_level) {
        Some(kernel) => Ok(Arc::new(kernel)),
        None => Err(DigestError::Unavailable {
            name: algorithm.id.to_string(),
            reason: "this processor has no instructions for it".to_string(),
        }),
    }
}

/// Single streams by portable code.
pub fn portable_stream(
    algorithm: &'static Algorithm,
    _: &Policy,
) -> Result<Arc<dyn StreamFactory>, DigestError> {
    let kernel = Kernel::at(kernel_algorithm(algorithm), Level::Portable);
    Ok(Arc::new(kernel.expect("the portable level has every algorithm")))
}

/// Batches, where the processor has lanes or instructions for them. At the portable level messages are
/// hashed one by one, by whoever computes single streams.
pub fn batch(algorithm: &'static Algorithm, policy: &Policy) -> Option<Kernel> {
    let kernel = Kernel::best(kernel_algorithm(algorithm), policy.max_level);
    (kernel.level() > Level::Portable).then_some(kernel)
}

/// BLAKE2b with a digest of 1 to 64 bytes: the implementation of single streams, and that of batches.
pub(crate) fn blake2b(digest_len: usize, policy: &Policy) -> (Kernel, Option<Kernel>) {
    let algorithm = verisum_kernels::KernelAlgorithm::Blake2b512;
    let of_length = |kernel: Kernel| kernel.with_digest_len(digest_len).expect("it has all of 1 to 64");
    let portable = Kernel::at(algorithm, Level::Portable).expect("the portable level has every algorithm");
    let best = Kernel::best(algorithm, policy.max_level);
    (of_length(portable), (best.level() > Level::Portable).then(|| of_length(best)))
}
