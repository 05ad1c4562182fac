//! Options for new parity.

use std::sync::Arc;

use verisum_files::{Progress, Stop};

use crate::ParityError;
use crate::code::Shape;
use crate::head::{PartDigest, SetHead, TRAILER};
use crate::index::Index;

/// Five per cent.
pub(crate) const DEFAULT_REDUNDANCY: u32 = 50_000;

/// The whole, in millionths.
const WHOLE: u32 = 1_000_000;

/// The largest block that is made.
const LARGEST: u64 = 16 << 10;

/// The smallest block that is made.
const SMALLEST: u64 = 1 << 10;

/// The data of a set: below a gibibyte little, so that several threads have work; above it more, so that a
/// longer run of lost bytes can be mended.
const SMALL_SET: u64 = 64 << 20;
const LARGE_SET: u64 = 256 << 20;
const LARGE_TREE: u64 = 1 << 30;

/// What may be asked for.
const SET_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=256 << 20;

/// The most parity of a set, which a thread holds in memory twice.
const MOST_PARITY: u64 = 16 << 20;

/// How parity is made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CreateOptions {
    /// The share of parity, in millionths of the data: 1 to 1,000,000.
    pub redundancy: u32,
    /// The most bytes of data in a set, 4 KiB to 256 MiB; none for what suits the tree. A change rewrites whole
    /// sets, and a run of lost bytes can be mended if it is no longer than the parity of a set.
    pub set_bytes: Option<u64>,
    /// Threads; at least one.
    pub threads: usize,
    /// How far it is: files and bytes that were read.
    pub progress: Arc<Progress>,
    /// When to end early, with [`ParityError::Stopped`].
    pub stop: Arc<Stop>,
}

impl Default for CreateOptions {
    /// Five per cent, and a thread for each core.
    fn default() -> CreateOptions {
        CreateOptions {
            redundancy: DEFAULT_REDUNDANCY,
            set_bytes: None,
            threads: threads(),
            progress: Arc::default(),
            stop: Arc::default(),
        }
    }
}

impl CreateOptions {
    /// Fails for what cannot be.
    pub(crate) fn check(&self) -> Result<(), ParityError> {
        if !(1..=WHOLE).contains(&self.redundancy) {
            return Err(ParityError::Redundancy);
        }
        if self.set_bytes.is_some_and(|bytes| !SET_BYTES.contains(&bytes)) {
            return Err(ParityError::SetSize);
        }
        Ok(())
    }
}

/// One for each core that this process may use.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many bytes of data a set has at most, in a tree of this size.
pub(crate) fn set_bytes(total: u64, index: &Index) -> u64 {
    let redundancy = index.redundancy;
    let usual = if total < LARGE_TREE { SMALL_SET } else { LARGE_SET };
    let mut bytes = match index.set_bytes {
        0 => usual,
        wanted => wanted.clamp(*SET_BYTES.start(), *SET_BYTES.end()),
    };
    // Rounded up, as the transform has it.
    while bytes > SMALL_SET / 8
        && (bytes * u64::from(redundancy) / u64::from(WHOLE)).next_power_of_two() > MOST_PARITY
    {
        bytes /= 2;
    }
    bytes
}

/// The size of the blocks of a set.
pub(crate) fn block_bytes(data: u64) -> u64 {
    (data / 1024).next_power_of_two().clamp(SMALLEST, LARGEST)
}

/// How many parity blocks a set gets: the share, rounded up, but where the list of many small files would make
/// the set cost more than 1.2 times the share, fewer, down to half. `encoded` is the length of the head without the
/// digests of parity blocks.
pub(crate) fn parity_blocks(head: &SetHead, redundancy: u32, encoded: u64) -> usize {
    let (block, share) = (head.block as u64, u64::from(redundancy));
    let whole = u64::from(WHOLE);
    let data = head.length().div_ceil(block);
    let wanted = (data * share).div_ceil(whole);
    let affordable = (head.length() * share / whole * 6 / 5).saturating_sub(2 * encoded + TRAILER as u64)
        / (block + 2 * size_of::<PartDigest>() as u64);
    let parity = wanted.min(affordable.max(wanted.div_ceil(2))).max(1) as usize;
    let mut shape = Shape { block: head.block, data: data as usize, parity };
    while !shape.is_possible() && shape.parity > 1 {
        shape.parity -= 1;
    }
    shape.parity
}
