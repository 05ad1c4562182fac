//! A hash of ext4's directory index at a level of the processor.
//!
//! Names are short and of any length: what costs is less the hash than bringing the names into the
//! lanes. Names of as many blocks are therefore hashed together, whatever their order.

use verisum_kernels::Level;

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
struct NameStage {
    lanes: usize,
    hash: HashNamesFn,
}

/// Hashes groups of names, each as many as there are lanes. The arguments are the state before a name,
/// the names, and where the value of each goes.
///
/// # Safety
///
/// - The processor must have the level that the function is written for.
/// - There must be as many values as names, a multiple of the lanes.
/// - No name may be longer than [`NameKernel::MAX_LEN`].
/// - [`slices_are_pointer_and_length`] must hold.
type HashNamesFn = unsafe fn(&[u32; 4], &[&[u8]], &mut [NameValue]);

/// The hash of a name. The kernels write it whole, as laid out here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct NameValue {
    /// The hash, of as many bits as the function has.
    pub hash: u64,
    /// What tells names of one hash apart in some file systems; 0 in the others.
    pub minor: u32,
}

/// Names that are looked at together: what is kept of them fits the nearest cache, beside the names.
const CHUNK: usize = 128;

/// The most lanes of any level.
const MAX_LANES: usize = 16;

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
        let stage = stage(function, signed, level)?;
        slices_are_pointer_and_length().then_some(NameKernel { function, level, stage })
    }

    /// Returns the level that the kernel is written for.
    pub fn level(self) -> Level {
        self.level
    }

    /// Hashes the names, beginning with the state `initial`; the lowest bit of every hash is clear.
    ///
    /// Returns how many names it did, from the first on: all, unless one is longer than
    /// [`NameKernel::MAX_LEN`].
    ///
    /// # Panics
    ///
    /// If there are not as many values as names.
    pub fn hash_batch(self, initial: [u32; 4], names: &[&[u8]], values: &mut [NameValue]) -> usize {
        assert_eq!(names.len(), values.len(), "a value for each name");
        let block_len = self.function.block_len();
        let mut done = 0;
        for (names, values) in names.chunks(CHUNK).zip(values.chunks_mut(CHUNK)) {
            let first = names[0].len();
            // The bits in which lengths differ: quicker to find than the shortest and the longest.
            let different = names.iter().fold(0, |bits, name| bits | (name.len() ^ first));
            // The greatest length of its kind is all ones.
            const { assert!((Self::MAX_LEN + 1).is_power_of_two()) };
            if first | different > Self::MAX_LEN {
                break;
            }
            let blocks = first.div_ceil(block_len);
            if different == 0 || names.iter().all(|name| name.len().div_ceil(block_len) == blocks) {
                self.hash_in_order(&initial, names, values);
            } else {
                let (sorted, order) = sort(names, block_len);
                let mut in_order = [NameValue::default(); CHUNK];
                self.hash_in_order(&initial, &sorted[..names.len()], &mut in_order[..names.len()]);
                for (&place, value) in order[..names.len()].iter().zip(in_order) {
                    values[usize::from(place)] = value;
                }
            }
            done += names.len();
        }
        done
    }

    /// Hashes names of which none is too long; there are as many values.
    fn hash_in_order(self, initial: &[u32; 4], names: &[&[u8]], values: &mut [NameValue]) {
        let full = names.len() - names.len() % self.stage.lanes;
        let (names, last_names) = names.split_at(full);
        let (values, last_values) = values.split_at_mut(full);
        // SAFETY: the kernel was made for this processor, and only where slices are as they must be; the
        // caller looked at the lengths, and both slices were cut at a multiple of the lanes.
        unsafe { (self.stage.hash)(initial, names, values) };
        if let Some(&name) = last_names.first() {
            // The lanes that are left over get a name as well: names of one length are the quickest.
            let mut names = [name; MAX_LANES];
            names[..last_names.len()].copy_from_slice(last_names);
            let mut values = [NameValue::default(); MAX_LANES];
            let lanes = self.stage.lanes;
            // SAFETY: as above; this is one group.
            unsafe { (self.stage.hash)(initial, &names[..lanes], &mut values[..lanes]) };
            last_values.copy_from_slice(&values[..last_values.len()]);
        }
    }
}

/// Returns how a level hashes names, if it has vectors and the processor has the level.
fn stage(function: NameFunction, signed: bool, level: Level) -> Option<NameStage> {
    #[cfg(target_arch = "x86_64")]
    macro_rules! stage {
        ($lanes:literal, $level:ident) => {{
            use super::hashes::{HalfMd4, Legacy, Tea};
            use super::$level::run;
            let hash: HashNamesFn = match (function, signed) {
                (NameFunction::Legacy, false) => run::<Legacy<false>>,
                (NameFunction::Legacy, true) => run::<Legacy<true>>,
                (NameFunction::HalfMd4, false) => run::<HalfMd4<false>>,
                (NameFunction::HalfMd4, true) => run::<HalfMd4<true>>,
                (NameFunction::Tea, false) => run::<Tea<false>>,
                (NameFunction::Tea, true) => run::<Tea<true>>,
            };
            Some(NameStage { lanes: $lanes, hash })
        }};
    }
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 if level.available() => stage!(8, avx2),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 if level.available() => stage!(16, avx512),
        _ => {
            let _ = (function, signed);
            None
        }
    }
}

/// Puts names of as many blocks together, at most as many as a chunk has; also returns which name now
/// stands where.
fn sort<'a>(names: &[&'a [u8]], block_len: usize) -> ([&'a [u8]; CHUNK], [u8; CHUNK]) {
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
    let mut sorted = [&[][..]; CHUNK];
    let mut order = [0; CHUNK];
    for (place, &name) in (0..=u8::MAX).zip(names) {
        let next = &mut next[blocks(name)];
        (sorted[*next], order[*next]) = (name, place);
        *next += 1;
    }
    (sorted, order)
}

/// Whether a slice is laid out as its address and then its length, of 8 bytes each. Rust does it so
/// without promising it; the kernels read the lengths of many slices at once.
fn slices_are_pointer_and_length() -> bool {
    let slice: &[u8] = &[0; 3];
    if size_of::<&[u8]>() != 16 {
        return false;
    }
    // SAFETY: a slice is a pointer and a length, in whatever order; both are initialized integers.
    let words: [usize; 2] = unsafe { std::mem::transmute(slice) };
    words == [slice.as_ptr().addr(), slice.len()]
}
