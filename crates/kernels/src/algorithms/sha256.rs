//! SHA-256, and SHA-224 which differs only in the initial state, FIPS 180-4.

use super::{Compress, opaque};
use crate::vector::Vector;

pub(crate) struct Sha256;

/// The fractional parts of the cube roots of the first 64 primes.
pub(crate) const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

impl<V: Vector<Word = u32>> Compress<V, 8, 16> for Sha256 {
    const BIG_ENDIAN: bool = true;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 8], block: [V; 16]) {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
        // The last sixteen words of the message schedule.
        let mut w = block;

        macro_rules! step {
            (
                $k:ident, $i:expr,
                $a:ident, $b:ident, $c:ident, $d:ident, $e:ident, $f:ident, $g:ident, $h:ident
            ) => {
                let sum1 = $e.rotate_right(6).xor3($e.rotate_right(11), $e.rotate_right(25));
                let early = $h + (w[$i] + V::splat(token, $k[$i]));
                let t = early + $e.choose($f, $g) + sum1;
                let sum0 = $a.rotate_right(2).xor3($a.rotate_right(13), $a.rotate_right(22));
                $d = $d + t;
                $h = t + (sum0 + $a.majority($b, $c));
            };
        }
        macro_rules! expand {
            ($i:expr) => {
                let w1 = w[($i + 1) % 16];
                let w14 = w[($i + 14) % 16];
                let sigma0 = w1.rotate_right(7).xor3(w1.rotate_right(18), w1.shift_right(3));
                let sigma1 = w14.rotate_right(17).xor3(w14.rotate_right(19), w14.shift_right(10));
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

        let (k, later) = opaque(&K).as_chunks::<16>().0.split_at(1);
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
}
