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

/// Names that are looked at together: what is kept of them fits the nearest cache, beside the names.
const CHUNK: usize = 128;

/// A number for each name of a chunk.
#[repr(align(64))]
struct Row([u32; CHUNK]);

/// Names as the kernels take them, and what they give.
struct Chunk {
    pointers: [*const u8; CHUNK],
    lengths: Row,
    hashes: Row,
    minors: Row,
}

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

    /// Hashes the names, beginning with the state `initial`, and makes the value of each of its hash and minor
    /// hash as the function leaves them: the lowest bit of the hash is not cleared yet.
    ///
    /// Returns how many names it did, from the first on: all, unless one is longer than
    /// [`NameKernel::MAX_LEN`].
    ///
    /// # Panics
    ///
    /// If there are not as many values as names.
    #[inline]
    pub fn hash_batch<T>(
        self,
        initial: [u32; 4],
        names: &[&[u8]],
        values: &mut [T],
        make: impl Fn([u32; 2]) -> T,
    ) -> usize {
        assert_eq!(names.len(), values.len(), "a value for each name");
        let mut chunk = Chunk {
            pointers: [[].as_ptr(); CHUNK],
            lengths: Row([0; CHUNK]),
            hashes: Row([0; CHUNK]),
            minors: Row([0; CHUNK]),
        };
        let mut done = 0;
        for (names, values) in names.chunks(CHUNK).zip(values.chunks_mut(CHUNK)) {
            let (mut shortest, mut longest) = (usize::MAX, 0);
            let rows = chunk.pointers.iter_mut().zip(&mut chunk.lengths.0);
            for (name, (pointer, length)) in names.iter().zip(rows) {
                (*pointer, *length) = (name.as_ptr(), name.len() as u32);
                (shortest, longest) = (shortest.min(name.len()), longest.max(name.len()));
            }
            if longest > Self::MAX_LEN {
                break;
            }
            let block_len = self.function.block_len();
            let order = match shortest.div_ceil(block_len) == longest.div_ceil(block_len) {
                true => None,
                false => Some(chunk.sort(names, block_len)),
            };
            // Past the names there may be others, of the chunk before.
            let groups = names.len().div_ceil(self.stage.lanes);
            chunk.lengths.0[names.len()..groups * self.stage.lanes].fill(0);
            let words = [chunk.hashes.0.as_mut_ptr(), chunk.minors.0.as_mut_ptr()];
            let (pointers, lengths) = (chunk.pointers.as_ptr(), chunk.lengths.0.as_ptr());
            // SAFETY: the kernel was made for this processor. The rows are aligned, and as long as a chunk,
            // which is a multiple of any number of lanes; past the names all lengths are 0.
            unsafe { (self.stage.hash)(&initial, pointers, lengths, words, groups) };
            let words = chunk.hashes.0.iter().zip(&chunk.minors.0).map(|(&hash, &minor)| [hash, minor]);
            match order {
                None => words.zip(values).for_each(|(words, value)| *value = make(words)),
                Some(order) => words
                    .zip(&order[..names.len()])
                    .for_each(|(words, &place)| values[usize::from(place)] = make(words)),
            }
            done += names.len();
        }
        done
    }
}

impl Chunk {
    /// Puts names of as many blocks together; returns which name now stands where.
    fn sort(&mut self, names: &[&[u8]], block_len: usize) -> [u8; CHUNK] {
        /// The most blocks that names are sorted by; what is longer is not worth it.
        const SORTED: usize = 17;
        let blocks = |name: &[u8]| name.len().div_ceil(block_len).min(SORTED - 1);
        let mut next = [0; SORTED];
        for name in names {
            next[blocks(name)] += 1;
        }
        let mut sum = 0;
        for count in &mut next {
            sum += std::mem::replace(count, sum);
        }
        let mut order = [0; CHUNK];
        for (place, name) in (0..=u8::MAX).zip(names) {
            let next = &mut next[blocks(name)];
            self.pointers[*next] = name.as_ptr();
            self.lengths.0[*next] = name.len() as u32;
            order[*next] = place;
            *next += 1;
        }
        order
    }
}
