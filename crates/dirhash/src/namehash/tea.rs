//! The tiny encryption algorithm as a compression function: ext4, F2FS, OCFS2, ReiserFS.

use super::{NameValue, Seed};

const DELTA: u32 = 0x9e37_79b9;

/// Encrypts the state with the words as the key, and adds the result to it.
#[inline(always)]
pub(super) fn compress(state: [u32; 2], [a, b, c, d]: [u32; 4], rounds: u32) -> [u32; 2] {
    let [mut x, mut y] = state;
    let mut sum = 0u32;
    for _ in 0..rounds {
        sum = sum.wrapping_add(DELTA);
        x = x.wrapping_add((y << 4).wrapping_add(a) ^ y.wrapping_add(sum) ^ (y >> 5).wrapping_add(b));
        y = y.wrapping_add((x << 4).wrapping_add(c) ^ x.wrapping_add(sum) ^ (x >> 5).wrapping_add(d));
    }
    [state[0].wrapping_add(x), state[1].wrapping_add(y)]
}

/// Runs a name through the state, 16 bytes at a time.
#[inline(always)]
pub(super) fn over<const SIGNED: bool>(mut state: [u32; 2], name: &[u8]) -> [u32; 2] {
    let mut rest = name;
    while !rest.is_empty() {
        state = compress(state, pack::<4, SIGNED>(rest), 16);
        rest = rest.get(16..).unwrap_or_default();
    }
    state
}

/// The first `W` words of the rest of a name. What is missing is made of the length of the rest, which
/// counts also what does not fit: that is how the same 16 bytes differ in the middle of names of
/// different lengths.
#[inline(always)]
pub(super) fn pack<const W: usize, const SIGNED: bool>(rest: &[u8]) -> [u32; W] {
    let length = rest.len() as u32;
    let pad = length | length << 8;
    let pad = pad | pad << 16;
    if W <= 4 {
        // Few enough for registers, each by itself: an array that a loop fills is waited for.
        return std::array::from_fn(|word| match rest.get(4 * word..).unwrap_or_default() {
            [a, b, c, d, ..] => join::<SIGNED>(u32::from_be_bytes([*a, *b, *c, *d])),
            last => join_behind::<SIGNED>(pad, last),
        });
    }
    let mut words = [pad; W];
    let (groups, last) = rest.as_chunks::<4>();
    for (word, group) in words.iter_mut().zip(groups) {
        *word = join::<SIGNED>(u32::from_be_bytes(*group));
    }
    if groups.len() < W {
        words[groups.len()] = join_behind::<SIGNED>(pad, last);
    }
    words
}

/// Fewer than four characters, behind what is left of the padding.
#[inline(always)]
fn join_behind<const SIGNED: bool>(pad: u32, characters: &[u8]) -> u32 {
    characters.iter().fold(pad, |value, &byte| {
        let character = if SIGNED { byte as i8 as u32 } else { u32::from(byte) };
        (value << 8).wrapping_add(character)
    })
}

/// Four characters, the first most significant, added up: a negative one takes 1 from the next.
#[inline(always)]
fn join<const SIGNED: bool>(big_endian: u32) -> u32 {
    match SIGNED {
        true => big_endian.wrapping_sub((big_endian & 0x8080_8080) << 1),
        false => big_endian,
    }
}

/// F2FS: always the published state, at least one block.
pub(super) fn f2fs(name: &[u8], _: &Seed) -> NameValue {
    if is_dot(name) {
        return NameValue::default();
    }
    let state = [super::ext4::DEFAULT_STATE[0], super::ext4::DEFAULT_STATE[1]];
    let state = match name.is_empty() {
        true => compress(state, [0; 4], 16),
        false => over::<false>(state, name),
    };
    NameValue { hash: state[0].into(), minor: 0 }
}

pub(super) fn ocfs2_signed(name: &[u8], seed: &Seed) -> NameValue {
    ocfs2::<true>(name, seed)
}

pub(super) fn ocfs2_unsigned(name: &[u8], seed: &Seed) -> NameValue {
    ocfs2::<false>(name, seed)
}

/// OCFS2: the volume's seed, also if it is zero.
fn ocfs2<const SIGNED: bool>(name: &[u8], seed: &Seed) -> NameValue {
    if is_dot(name) {
        return NameValue::default();
    }
    let [hash, minor] = over::<SIGNED>([seed.word(0), seed.word(1)], name);
    NameValue { hash: hash.into(), minor }
}

/// Whether it is the directory itself or its parent.
fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
