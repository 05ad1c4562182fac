//! The hashes of ReiserFS, and UBIFS's use of one of them.

use super::{NameValue, Seed, tea};

/// The bare value; ReiserFS itself keeps bits 7 to 30 of it.
pub(super) fn r5(name: &[u8], _: &Seed) -> NameValue {
    NameValue { hash: r5_value(name).into(), minor: 0 }
}

fn r5_value(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |value, &byte| {
        let character = i32::from(byte as i8);
        value.wrapping_add((character << 4) as u32).wrapping_add((character >> 4) as u32).wrapping_mul(11)
    })
}

/// UBIFS keeps 29 bits, of which 0 to 2 have other meanings.
pub(super) fn ubifs(name: &[u8], _: &Seed) -> NameValue {
    let hash = match r5_value(name) & 0x1fff_ffff {
        reserved @ 0..=2 => reserved + 3,
        other => other,
    };
    NameValue { hash: hash.into(), minor: 0 }
}

/// ReiserFS's own way with the tiny encryption algorithm: signed characters are joined with `or`, so
/// that a byte from 80 on sets all bits above it; the padding counts the whole name.
pub(super) fn tea(name: &[u8], _: &Seed) -> NameValue {
    let mut state = [0x9464_a485, 0x542e_1a94];
    let (blocks, rest) = name.as_chunks::<16>();
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        state = tea::compress(state, std::array::from_fn(|index| word(words[index])), 6);
    }
    let length = name.len() as u32;
    let pad = length | length << 8;
    let mut words = [pad | pad << 16; 4];
    let (groups, last) = rest.as_chunks::<4>();
    for (word, group) in words.iter_mut().zip(groups) {
        *word = self::word(*group);
    }
    for &byte in last {
        words[groups.len()] = words[groups.len()] << 8 | byte as i8 as u32;
    }
    let [a, b] = tea::compress(state, words, 10);
    NameValue { hash: (a ^ b).into(), minor: 0 }
}

fn word(group: [u8; 4]) -> u32 {
    group.into_iter().rev().fold(0, |word, byte| word << 8 | byte as i8 as u32)
}

/// The name read as a decimal number, whatever its characters; then the places from its end, or from
/// 40, to 256 count as digits of their own number.
pub(super) fn yura(name: &[u8], _: &Seed) -> NameValue {
    let number = name.iter().fold(0u32, |number, &byte| {
        number.wrapping_mul(10).wrapping_add((i32::from(byte as i8) - 48) as u32)
    });
    let places: u32 = (name.len().max(40)..256).map(|place| place as u32).sum();
    NameValue { hash: (number.wrapping_add(places) << 7).into(), minor: 0 }
}
