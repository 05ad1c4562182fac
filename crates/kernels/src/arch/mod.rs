//! The kernels of each processor family: the compression functions instantiated
//! with vectors of its registers.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) mod aarch64;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod lanes;
pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

use crate::Level;
use crate::spec::Compression;

/// Compresses whole blocks of every lane of a group.
///
/// The arguments are the rows of the states, a pointer to the next block of each
/// lane, and the number of blocks.
///
/// # Safety
///
/// - The processor must have the level of the stage that the function is of.
/// - The first must be aligned to 64 bytes and valid for reads and writes of as
///   many words as the algorithm's state has, times the lanes of the stage.
/// - The second must be valid for reads of a pointer for each lane, and each of
///   those for reads of that many blocks.
pub(crate) type CompressFn = unsafe fn(*mut u64, *const *const u8, usize);

/// A compression function for a number of lanes.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) lanes: usize,
    /// The fewest messages that are hashed sooner by this stage, with some lanes
    /// idle, than by the next one of the kernel, on the processors of
    /// [`is_measured`].
    pub(crate) worth: usize,
    pub(crate) compress: CompressFn,
}

/// Returns the stages of a kernel, widest first, if the level has a kernel of
/// this compression function and the processor has the level. The last stage
/// has one lane.
pub(crate) fn stages(compression: Compression, level: Level) -> Option<&'static [Stage]> {
    match level {
        Level::Portable => Some(portable::stages(compression)),
        #[cfg(target_arch = "x86_64")]
        _ if level.available() => x86_64::stages(compression, level),
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        _ if level.available() => aarch64::stages(compression, level),
        _ => None,
    }
}

/// Returns stages of lower levels that may take less time than those of a kernel with as many or more lanes, on
/// some processors that have its level. None has more lanes than the kernel's widest, or just one.
pub(crate) fn alternatives(compression: Compression, level: Level) -> &'static [Stage] {
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    return aarch64::alternatives(compression, level);
    #[cfg(not(all(target_arch = "aarch64", target_endian = "little")))]
    {
        let _ = (compression, level);
        &[]
    }
}

/// Tells whether the stages were measured on a processor of this kind, so that
/// what they are worth is known.
pub(crate) fn is_measured() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let is_measured = x86_64::is_measured();
    #[cfg(all(target_arch = "aarch64", target_endian = "little", not(miri)))]
    let is_measured = false;
    // With one stage for each kernel there is nothing to measure; an interpreter has no clock.
    #[cfg(any(
        not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))),
        miri
    ))]
    let is_measured = true;
    is_measured
}
