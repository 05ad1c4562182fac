//! The hashes of ext3 and ext4, of which a file system's superblock names one.
//!
//! The lowest bit is always clear: in the index it marks that a hash goes on in the next leaf.

use std::hint::{black_box, select_unpredictable};

use super::{NameValue, Seed, siphash, tea};

/// The state that the hashes begin with where the seed is zero: MD4's.
pub const DEFAULT_STATE: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// What the kernel keeps of a hash: the value that marks the end of a directory is moved to the one
/// before it. libext2fs and debugfs leave that step out.
#[inline]
pub const fn kernel_key(hash: u32) -> u32 {
    match hash & !1 {
        0xffff_fffe => 0xffff_fffc,
        other => other,
    }
}

macro_rules! both_signs {
    ($($signed:ident $unsigned:ident = $function:ident;)*) => {
        $(
            pub(super) fn $signed(name: &[u8], seed: &Seed) -> NameValue {
                $function::<true>(name, seed)
            }
            pub(super) fn $unsigned(name: &[u8], seed: &Seed) -> NameValue {
                $function::<false>(name, seed)
            }
        )*
    };
}

both_signs! {
    legacy_signed legacy_unsigned = legacy;
    half_md4_signed half_md4_unsigned = half_md4;
    tea_signed tea_unsigned = tea;
}

/// `dx_hack_hash`: no seed, no minor hash.
#[inline(always)]
fn legacy<const SIGNED: bool>(name: &[u8], _: &Seed) -> NameValue {
    let reduction = black_box(REDUCTION);
    let mut words = (0x37ab_e8f9, 0x12a3_fe2d);
    let (fours, last) = name.as_chunks::<4>();
    for four in fours {
        for &byte in four {
            words = legacy_step::<SIGNED>(words, byte, reduction);
        }
    }
    for &byte in last {
        words = legacy_step::<SIGNED>(words, byte, reduction);
    }
    NameValue { hash: (words.1 << 1).into(), minor: 0 }
}

/// What a sum with the highest bit set is reduced by.
const REDUCTION: u32 = 0x7fff_ffff;

/// The word before and the last one, after one more character.
///
/// Each character waits for the one before: the steps in between are what a name costs. The reduced sum is
/// therefore made beside the sum, not after it. The compiler may not know the constant, or it adds it last.
#[inline(always)]
fn legacy_step<const SIGNED: bool>((previous, current): (u32, u32), byte: u8, reduction: u32) -> (u32, u32) {
    let character = if SIGNED { byte as i8 as u32 } else { u32::from(byte) };
    let mixed = current ^ character.wrapping_mul(7_152_373);
    // In this order the last sum also sets the flag that chooses.
    let reduced = previous.wrapping_sub(reduction).wrapping_add(mixed);
    let sum = previous.wrapping_add(mixed);
    (current, select_unpredictable((sum as i32) < 0, reduced, sum))
}

#[inline(always)]
fn tea<const SIGNED: bool>(name: &[u8], seed: &Seed) -> NameValue {
    let [a, b, ..] = state(seed);
    let [hash, minor] = tea::over::<SIGNED>([a, b], name);
    NameValue { hash: (hash & !1).into(), minor }
}

#[inline(always)]
fn half_md4<const SIGNED: bool>(name: &[u8], seed: &Seed) -> NameValue {
    let mut state = state(seed);
    let mut rest = name;
    while !rest.is_empty() {
        half_md4_compress(&mut state, &tea::pack::<8, SIGNED>(rest));
        rest = rest.get(32..).unwrap_or_default();
    }
    NameValue { hash: (state[1] & !1).into(), minor: state[2] }
}

/// Half of MD4's words, three of its rounds in another order.
#[inline(always)]
fn half_md4_compress(state: &mut [u32; 4], words: &[u32; 8]) {
    let [mut a, mut b, mut c, mut d] = *state;
    macro_rules! step {
        ($function:ident, $word:expr, $constant:expr, $shift:expr, $a:ident, $b:ident, $c:ident, $d:ident) => {
            $a = $function($a.wrapping_add(words[$word].wrapping_add($constant)), $b, $c, $d)
                .rotate_left($shift);
        };
    }
    macro_rules! round {
        ($function:ident, $constant:expr, $words:expr, $shifts:expr) => {
            step!($function, $words[0], $constant, $shifts[0], a, b, c, d);
            step!($function, $words[1], $constant, $shifts[1], d, a, b, c);
            step!($function, $words[2], $constant, $shifts[2], c, d, a, b);
            step!($function, $words[3], $constant, $shifts[3], b, c, d, a);
            step!($function, $words[4], $constant, $shifts[0], a, b, c, d);
            step!($function, $words[5], $constant, $shifts[1], d, a, b, c);
            step!($function, $words[6], $constant, $shifts[2], c, d, a, b);
            step!($function, $words[7], $constant, $shifts[3], b, c, d, a);
        };
    }
    // Hidden from the compiler, which else adds a constant last, when all waits for it.
    let (k2, k3) = (black_box(0x5a82_7999), black_box(0x6ed9_eba1));
    round!(choose, 0, [0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19]);
    round!(majority, k2, [1, 3, 5, 7, 0, 2, 4, 6], [3, 5, 9, 13]);
    round!(parity, k3, [3, 7, 2, 6, 1, 5, 0, 4], [3, 9, 11, 15]);
    for (sum, word) in state.iter_mut().zip([a, b, c, d]) {
        *sum = sum.wrapping_add(word);
    }
}

// Each adds its function of three words to `sum`. The first word is the last computed: whatever does
// not wait for it comes first.

#[inline(always)]
fn choose(sum: u32, x: u32, y: u32, z: u32) -> u32 {
    sum.wrapping_add(z ^ (x & (y ^ z)))
}

#[inline(always)]
fn majority(sum: u32, x: u32, y: u32, z: u32) -> u32 {
    sum.wrapping_add(y & z).wrapping_add(x & (y ^ z))
}

#[inline(always)]
fn parity(sum: u32, x: u32, y: u32, z: u32) -> u32 {
    sum.wrapping_add(x ^ (y ^ z))
}

/// The state before the first block.
#[inline(always)]
pub(super) fn state(seed: &Seed) -> [u32; 4] {
    match *seed == Seed::ZERO {
        true => DEFAULT_STATE,
        false => [seed.word(0), seed.word(1), seed.word(2), seed.word(3)],
    }
}

/// SipHash-2-4 with the directory's own key, in directories that are both encrypted and case-folded.
pub(super) fn siphash(name: &[u8], seed: &Seed) -> NameValue {
    let value = siphash::siphash24(name, seed).hash;
    NameValue { hash: value >> 32 & !1, minor: value as u32 }
}
