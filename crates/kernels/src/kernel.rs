//! The choice of an implementation, made once.

use core::fmt;

use crate::arch::{self, Stage};
use crate::single::Single;
use crate::spec::{Compression, Spec};
use crate::{KernelAlgorithm, Level};

/// An implementation of one algorithm at one level, which this processor has.
#[derive(Clone, Copy)]
pub struct Kernel {
    pub(crate) spec: &'static Spec,
    level: Level,
    /// Widest first; the last has one lane. Their functions may be called on
    /// this processor: that is why the fields are private.
    pub(crate) stages: &'static [Stage],
    /// Whether stages that are slow on this processor are left out.
    pub(crate) is_tuned: bool,
}

impl Kernel {
    /// Returns the fastest kernel at or below `cap`.
    ///
    /// That need not be the highest level: the SHA extensions beat AVX2 in SHA-256
    /// (1.5 times; in SHA-1 they are a little slower). On a processor on which the
    /// kernels were not measured each is measured once, after it hashed some
    /// MiB, and hashes side by side from then on only what is sooner done so. On ARM it may find that the
    /// SHA-3 instructions take longer than the lanes of NEON, and use those.
    pub fn best(algorithm: KernelAlgorithm, cap: Level) -> Kernel {
        // Highest preference first.
        let order = match algorithm.spec().compression {
            Compression::Sha256 => [Level::Avx512, Level::ShaNi, Level::Avx2],
            _ => [Level::Avx512, Level::Avx2, Level::ShaNi],
        };
        // Of ARM's, instructions for the very algorithm come before lanes.
        let order = order.into_iter().chain([Level::Sha3, Level::Sha2, Level::Neon, Level::Portable]);
        let allowed = order.filter(|&level| level <= cap);
        let best = allowed.filter_map(|level| Kernel::at(algorithm, level)).next();
        let best = best.expect("the portable level has every algorithm");
        Kernel { is_tuned: true, ..best }
    }

    /// Returns the kernel of exactly this level, or `None` where the level has
    /// none of this algorithm or the processor lacks it.
    ///
    /// A kernel gives the last few messages of a batch to narrower code, from the
    /// same count on everywhere.
    pub fn at(algorithm: KernelAlgorithm, level: Level) -> Option<Kernel> {
        let spec = algorithm.spec();
        let stages = arch::stages(spec.compression, level)?;
        Some(Kernel { spec, level, stages, is_tuned: false })
    }

    /// Returns the kernel at or below `cap` that hashes a single message by instructions made for the
    /// algorithm, or `None` where there are none.
    pub fn by_instructions(algorithm: KernelAlgorithm, cap: Level) -> Option<Kernel> {
        let level = match algorithm.spec().compression {
            Compression::Sha1 | Compression::Sha256 => [Level::ShaNi, Level::Sha2],
            // Those for SHA-3 are of use for two messages only.
            Compression::Sha512 => [Level::Sha3; 2],
            _ => return None,
        };
        let allowed = level.into_iter().filter(|&level| level <= cap);
        allowed.filter_map(|level| Kernel::at(algorithm, level)).next()
    }

    /// Returns the same kernel for digests of another length in bytes, or `None` where the algorithm
    /// has no such.
    ///
    /// BLAKE2b has 1 to 64. A digest of another length is not the beginning of a longer one.
    pub fn with_digest_len(self, digest_len: usize) -> Option<Kernel> {
        Some(Kernel { spec: self.spec.with_digest_len(digest_len)?, ..self })
    }

    /// Returns the algorithm.
    pub fn algorithm(self) -> KernelAlgorithm {
        self.spec.algorithm
    }

    /// Returns the level that the kernel is written for.
    pub fn level(self) -> Level {
        self.level
    }

    /// Returns how many messages are hashed side by side at most.
    ///
    /// Batches of a multiple of this are the most efficient.
    pub fn lanes(self) -> usize {
        self.stages[0].lanes
    }

    /// Starts hashing one message, in pieces.
    pub fn single(self) -> Single {
        Single::new(self)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("algorithm", &self.algorithm())
            .field("level", &self.level)
            .field("lanes", &self.lanes())
            .finish()
    }
}
