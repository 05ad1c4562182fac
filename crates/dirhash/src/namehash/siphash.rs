//! SipHash and HalfSipHash, by Jean-Philippe Aumasson and Daniel J. Bernstein.

use super::{NameValue, Seed};

macro_rules! sip {
    ($name:ident, $word:ty, $shifts:expr) => {
        /// `C` rounds a word, `D` at the end.
        #[inline(always)]
        fn $name<const C: u32, const D: u32>(mut v: [$word; 4], name: &[u8]) -> [$word; 4] {
            const SIZE: usize = size_of::<$word>();
            const SHIFTS: [u32; 6] = $shifts;
            #[inline(always)]
            fn rounds(v: &mut [$word; 4], count: u32) {
                for _ in 0..count {
                    v[0] = v[0].wrapping_add(v[1]);
                    v[2] = v[2].wrapping_add(v[3]);
                    v[1] = v[1].rotate_left(SHIFTS[0]) ^ v[0];
                    v[3] = v[3].rotate_left(SHIFTS[2]) ^ v[2];
                    v[0] = v[0].rotate_left(SHIFTS[1]).wrapping_add(v[3]);
                    v[2] = v[2].wrapping_add(v[1]);
                    v[3] = v[3].rotate_left(SHIFTS[3]) ^ v[0];
                    v[1] = v[1].rotate_left(SHIFTS[4]) ^ v[2];
                    v[2] = v[2].rotate_left(SHIFTS[5]);
                }
            }
            let (words, rest) = name.as_chunks::<SIZE>();
            // The last word: what is left, and the length in its highest byte.
            let mut last = (name.len() as $word) << (8 * (SIZE - 1));
            for (index, &byte) in rest.iter().enumerate() {
                last |= <$word>::from(byte) << (8 * index);
            }
            for word in words.iter().map(|word| <$word>::from_le_bytes(*word)).chain([last]) {
                v[3] ^= word;
                rounds(&mut v, C);
                v[0] ^= word;
            }
            v[2] ^= 0xff;
            rounds(&mut v, D);
            v
        }
    };
}

sip!(sip64, u64, [13, 32, 16, 21, 17, 32]);
sip!(sip32, u32, [5, 16, 8, 7, 13, 16]);

#[inline(always)]
fn siphash<const C: u32, const D: u32>(name: &[u8], k0: u64, k1: u64) -> u64 {
    let state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    sip64::<C, D>(state, name).into_iter().fold(0, |all, word| all ^ word)
}

pub(super) fn siphash13(name: &[u8], seed: &Seed) -> NameValue {
    NameValue { hash: siphash::<1, 3>(name, seed.long(0), seed.long(1)), minor: 0 }
}

pub(super) fn siphash24(name: &[u8], seed: &Seed) -> NameValue {
    NameValue { hash: siphash::<2, 4>(name, seed.long(0), seed.long(1)), minor: 0 }
}

/// bcachefs: the inode's seed is the first half of the key, the other is zero; 63 bits.
pub(super) fn bcachefs(name: &[u8], seed: &Seed) -> NameValue {
    NameValue { hash: siphash::<2, 4>(name, seed.long(0), 0) >> 1, minor: 0 }
}

/// HalfSipHash-2-4 of 32 bits.
pub(super) fn half_siphash24(name: &[u8], seed: &Seed) -> NameValue {
    let (k0, k1) = (seed.word(0), seed.word(1));
    let v = sip32::<2, 4>([k0, k1, k0 ^ 0x6c79_6765, k1 ^ 0x7465_6462], name);
    NameValue { hash: (v[1] ^ v[3]).into(), minor: 0 }
}
