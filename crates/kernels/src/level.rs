//! SIMD levels: which instructions a kernel is written for.

/// A set of processor instructions that kernels are written for.
///
/// The order is that of preference: a level may be used as a cap, and whatever
/// is at or below it is allowed. Levels of different kinds of processors are never on one machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Level {
    /// Plain Rust, on any processor.
    Portable,
    /// The x86 SHA extensions: SHA-1, SHA-224 and SHA-256 only.
    ///
    /// AVX is required as well, to clear the upper halves of vector registers, on
    /// which these instructions stall.
    ShaNi,
    /// 256-bit vectors: 8 lanes of 32 bits, 4 lanes of 64 bits.
    Avx2,
    /// 512-bit vectors (AVX-512 F, BW, DQ, VL): 16 lanes of 32 bits, 8 of 64.
    Avx512,
    /// The 128-bit vectors of ARM: 4 lanes of 32 bits, 2 of 64.
    Neon,
    /// ARM's instructions for SHA-1, SHA-224 and SHA-256: those only.
    Sha2,
    /// ARM's instructions for SHA-3, SHAKE, SHA-512 and what is cut from it: those only.
    Sha3,
}

impl Level {
    /// Every level of this kind of processor, lowest first.
    #[cfg(not(all(target_arch = "aarch64", target_endian = "little")))]
    pub const ALL: &[Level] = &[Level::Portable, Level::ShaNi, Level::Avx2, Level::Avx512];
    /// Every level of this kind of processor, lowest first.
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    pub const ALL: &[Level] = &[Level::Portable, Level::Neon, Level::Sha2, Level::Sha3];

    /// How many there are, of all kinds of processors.
    pub(crate) const COUNT: usize = Level::Sha3 as usize + 1;

    /// Returns the name that [`Level::from_name`] takes.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::ShaNi => "shani",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Neon => "neon",
            Level::Sha2 => "sha2",
            Level::Sha3 => "sha3",
        }
    }

    /// Finds the level of this exact name, among those of this kind of processor.
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.iter().copied().find(|level| level.name() == name)
    }

    /// Tells whether this processor has the level.
    pub fn available(self) -> bool {
        match self {
            Level::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Level::ShaNi => crate::arch::x86_64::ShaNi::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => crate::arch::x86_64::Avx2::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => crate::arch::x86_64::Avx512::new().is_some(),
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            level => crate::arch::aarch64::has(level),
            // What another kind of processor has.
            #[cfg(not(all(target_arch = "aarch64", target_endian = "little")))]
            _ => false,
        }
    }

    /// Returns the highest level that this processor has.
    pub fn best() -> Level {
        let best = Level::ALL.iter().rev().copied().find(|level| level.available());
        best.unwrap_or(Level::Portable)
    }
}
