//! SHA-256 and SHA-512, and those that differ from them only in the initial state, FIPS 180-4.

use super::{Compress, opaque};
use crate::vector::Vector;

pub(crate) struct Sha256;
pub(crate) struct Sha512;

/// The fractional parts of the cube roots of the first 80 primes.
#[rustfmt::skip]
pub(crate) const SHA512_K: [u64; 80] = [
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
];

/// The first halves of those of the first 64.
pub(crate) const SHA256_K: [u32; 64] = {
    let mut halves = [0; 64];
    let mut i = 0;
    while i < 64 {
        halves[i] = (SHA512_K[i] >> 32) as u32;
        i += 1;
    }
    halves
};

/// By how much words are rotated; the last of a sigma is shifted.
trait Rotations {
    const SUM0: [u32; 3];
    const SUM1: [u32; 3];
    const SIGMA0: [u32; 3];
    const SIGMA1: [u32; 3];
}

impl Rotations for Sha256 {
    const SUM0: [u32; 3] = [2, 13, 22];
    const SUM1: [u32; 3] = [6, 11, 25];
    const SIGMA0: [u32; 3] = [7, 18, 3];
    const SIGMA1: [u32; 3] = [17, 19, 10];
}

impl Rotations for Sha512 {
    const SUM0: [u32; 3] = [28, 34, 39];
    const SUM1: [u32; 3] = [14, 18, 41];
    const SIGMA0: [u32; 3] = [1, 8, 7];
    const SIGMA1: [u32; 3] = [19, 61, 6];
}

impl<V: Vector<Word = u32>> Compress<V, 8, 16> for Sha256 {
    const BIG_ENDIAN: bool = true;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 8], block: [V; 16]) {
        compress::<V, Sha256, 64>(token, state, block, &SHA256_K);
    }
}

impl<V: Vector<Word = u64>> Compress<V, 8, 16> for Sha512 {
    const BIG_ENDIAN: bool = true;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 8], block: [V; 16]) {
        compress::<V, Sha512, 80>(token, state, block, &SHA512_K);
    }
}

#[inline(always)]
fn compress<V: Vector<Word: 'static>, A: Rotations, const ROUNDS: usize>(
    token: V::Token,
    state: &mut [V; 8],
    block: [V; 16],
    constants: &'static [V::Word; ROUNDS],
) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    // The last sixteen words of the message schedule.
    let mut w = block;

    macro_rules! rotated {
        ($word:ident, $by:expr) => {
            $word.rotate_right($by[0]).xor3($word.rotate_right($by[1]), $word.rotate_right($by[2]))
        };
    }
    macro_rules! step {
        (
            $k:ident, $i:expr,
            $a:ident, $b:ident, $c:ident, $d:ident, $e:ident, $f:ident, $g:ident, $h:ident
        ) => {
            let sum1 = rotated!($e, A::SUM1);
            let early = $h + (w[$i] + V::splat(token, $k[$i]));
            let t = early + $e.choose($f, $g) + sum1;
            let sum0 = rotated!($a, A::SUM0);
            $d = $d + t;
            $h = t + (sum0 + $a.majority($b, $c));
        };
    }
    macro_rules! expand {
        ($i:expr) => {
            let w1 = w[($i + 1) % 16];
            let w14 = w[($i + 14) % 16];
            let sigma0 = w1
                .rotate_right(A::SIGMA0[0])
                .xor3(w1.rotate_right(A::SIGMA0[1]), w1.shift_right(A::SIGMA0[2]));
            let sigma1 = w14
                .rotate_right(A::SIGMA1[0])
                .xor3(w14.rotate_right(A::SIGMA1[1]), w14.shift_right(A::SIGMA1[2]));
            w[$i] = (w[$i] + w[($i + 9) % 16]) + (sigma0 + sigma1);
        };
    }
    macro_rules! nothing {
        ($i:expr) => {};
    }
    macro_rules! eight {
        ($before:ident, $k:ident, $i:expr) => {
            $before!($i);
            step!($k, $i, a, b, c, d, e, f, g, h);
            $before!($i + 1);
            step!($k, $i + 1, h, a, b, c, d, e, f, g);
            $before!($i + 2);
            step!($k, $i + 2, g, h, a, b, c, d, e, f);
            $before!($i + 3);
            step!($k, $i + 3, f, g, h, a, b, c, d, e);
            $before!($i + 4);
            step!($k, $i + 4, e, f, g, h, a, b, c, d);
            $before!($i + 5);
            step!($k, $i + 5, d, e, f, g, h, a, b, c);
            $before!($i + 6);
            step!($k, $i + 6, c, d, e, f, g, h, a, b);
            $before!($i + 7);
            step!($k, $i + 7, b, c, d, e, f, g, h, a);
        };
    }

    let (k, later) = opaque(constants).as_chunks::<16>().0.split_at(1);
    let k = k[0];
    eight!(nothing, k, 0);
    eight!(nothing, k, 8);
    let mut i = 0;
    while i < later.len() {
        let k = later[i];
        eight!(expand, k, 0);
        eight!(expand, k, 8);
        i += 1;
    }

    *state = [
        state[0] + a,
        state[1] + b,
        state[2] + c,
        state[3] + d,
        state[4] + e,
        state[5] + f,
        state[6] + g,
        state[7] + h,
    ];
}
