//! The hashes with which ext4 indexes directories, of many names side by side.
//!
//! Names are short and of any length: what costs is less the hash than bringing the names into the
//! lanes. Names of as many blocks are therefore hashed together, whatever their order.

use crate::{Level, arch};

/// A hash of ext4's directory index, without its seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum NameFunction {
    /// `dx_hack_hash`.
    Legacy,
    /// Three short rounds of MD4.
    HalfMd4,
    /// The tiny encryption algorithm.
    Tea,
}

impl NameFunction {
    /// Every function.
    pub const ALL: &[NameFunction] = &[NameFunction::Legacy, NameFunction::HalfMd4, NameFunction::Tea];

    /// How many bytes of a name are taken at once.
    const fn block_len(self) -> usize {
        match self {
            NameFunction::HalfMd4 => 32,
            NameFunction::Legacy | NameFunction::Tea => 16,
        }
    }
}

/// An implementation with vectors, which this processor has.
#[derive(Clone, Copy, Debug)]
pub struct NameKernel {
    function: NameFunction,
    level: Level,
    /// Its function may be called on this processor: that is why the fields are private.
    stage: NameStage,
}

/// What a level has of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameStage {
    pub(crate) lanes: usize,
    pub(crate) hash: HashNamesFn,
}

/// Hashes groups of names, each as many as there are lanes. The arguments are the state before a name,
/// the names, where the two words of each go, and the number of groups.
///
/// # Safety
///
/// - The processor must have the level of the stage that the function is of.
/// - The pointers and lengths must be valid for reads of as many as there are names, each pointer for
///   reads of its length, which must be at most [`NameKernel::MAX_LEN`].
/// - The words must be valid for writes of as many as there are names.
/// - Lengths and words must be aligned to 64 bytes.
pub(crate) type HashNamesFn = unsafe fn(&[u32; 4], *const *const u8, *const u32, [*mut u32; 2], usize);

/// Names that are looked at together.
const CHUNK: usize = 512;

#[repr(align(64))]
struct Row([u32; CHUNK]);

impl NameKernel {
    /// The longest name that can be hashed, in bytes.
    pub const MAX_LEN: usize = 0xffff;

    /// Returns the fastest kernel at or below `cap`, or `None` where there are no vectors to use.
    pub fn best(function: NameFunction, signed: bool, cap: Level) -> Option<NameKernel> {
        Level::ALL
            .iter()
            .rev()
            .filter(|&&level| level <= cap)
            .find_map(|&level| NameKernel::at(function, signed, level))
    }

    /// Returns the kernel of exactly this level, or `None` where the level has none or the processor
    /// lacks it. `signed` says whether characters from 80 (hexadecimal) on are negative.
    pub fn at(function: NameFunction, signed: bool, level: Level) -> Option<NameKernel> {
        let stage = arch::name_stage(function, signed, level)?;
        Some(NameKernel { function, level, stage })
    }

    /// Returns the level that the kernel is written for.
    pub fn level(self) -> Level {
        self.level
    }

    /// Hashes the names, beginning with the state `initial`, and writes hash and minor hash of each as
    /// the function leaves them: the lowest bit of the hash is not cleared yet.
    ///
    /// # Panics
    ///
    /// If there are not as many values as names, or a name is longer than [`NameKernel::MAX_LEN`].
    pub fn hash_batch(self, initial: [u32; 4], names: &[&[u8]], values: &mut [[u32; 2]]) {
        assert_eq!(names.len(), values.len(), "a value for each name");
        for (names, values) in names.chunks(CHUNK).zip(values.chunks_mut(CHUNK)) {
            self.hash_chunk(&initial, names, values);
        }
    }

    fn hash_chunk(self, initial: &[u32; 4], names: &[&[u8]], values: &mut [[u32; 2]]) {
        /// The most blocks that names are sorted by; what is longer is not worth it.
        const SORTED: usize = 17;
        let block_len = self.function.block_len();
        let blocks = |name: &[u8]| name.len().div_ceil(block_len).min(SORTED - 1);
        let mut counts = [0; SORTED];
        let mut longest = 0;
        for name in names {
            longest = longest.max(name.len());
            counts[blocks(name)] += 1;
        }
        assert!(longest <= Self::MAX_LEN, "a name of {longest} bytes");

        let mut pointers = [[].as_ptr(); CHUNK];
        let mut lengths = Row([0; CHUNK]);
        let mut places = [0u16; CHUNK];
        let is_even = counts[blocks(names[0])] == names.len();
        if is_even {
            for (index, name) in names.iter().enumerate() {
                pointers[index] = name.as_ptr();
                lengths.0[index] = name.len() as u32;
            }
        } else {
            let mut next = 0;
            for count in &mut counts {
                next += std::mem::replace(count, next);
            }
            for (index, name) in names.iter().enumerate() {
                let place = &mut counts[blocks(name)];
                pointers[*place] = name.as_ptr();
                lengths.0[*place] = name.len() as u32;
                places[*place] = index as u16;
                *place += 1;
            }
        }
        let (mut hashes, mut minors) = (Row([0; CHUNK]), Row([0; CHUNK]));
        let words = [hashes.0.as_mut_ptr(), minors.0.as_mut_ptr()];
        let groups = names.len().div_ceil(self.stage.lanes);
        // SAFETY: the kernel was made for this processor. The rows are aligned, and as long as a chunk,
        // which is a multiple of any number of lanes; past the names all lengths are 0.
        unsafe { (self.stage.hash)(initial, pointers.as_ptr(), lengths.0.as_ptr(), words, groups) };
        for (index, (&hash, &minor)) in hashes.0.iter().zip(&minors.0).take(names.len()).enumerate() {
            let place = if is_even { index } else { places[index].into() };
            values[place] = [hash, minor];
        }
    }
}
