//! SM3, GB/T 32905-2016; also ISO/IEC 10118-3 and draft-sca-cfrg-sm3.

use super::{Compress, opaque};
use crate::vector::Vector;

pub(crate) struct Sm3;

/// The constant of each step, already rotated by the number of the step.
const K: [u32; 64] = {
    let mut k = [0; 64];
    let mut i = 0;
    while i < 64 {
        let constant: u32 = if i < 16 { 0x79cc4519 } else { 0x7a879d8a };
        k[i] = constant.rotate_left(i as u32 % 32);
        i += 1;
    }
    k
};

impl<V: Vector<Word = u32>> Compress<V, 8, 16> for Sm3 {
    const BIG_ENDIAN: bool = true;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 8], block: [V; 16]) {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
        let mut w = block;

        // Makes the word four steps ahead, which each step needs as well as its
        // own.
        macro_rules! expand {
            ($i:expr) => {
                let x = w[($i + 4) % 16].xor3(w[($i + 11) % 16], w[($i + 1) % 16].rotate_left(15));
                let p1 = x.xor3(x.rotate_left(15), x.rotate_left(23));
                w[($i + 4) % 16] = p1.xor3(w[($i + 7) % 16].rotate_left(7), w[($i + 14) % 16]);
            };
        }
        macro_rules! nothing {
            ($i:expr) => {};
        }
        macro_rules! xor_all {
            ($x:ident, $y:ident, $z:ident) => {
                $x.xor3($y, $z)
            };
        }
        macro_rules! majority {
            ($x:ident, $y:ident, $z:ident) => {
                $x.majority($y, $z)
            };
        }
        macro_rules! choose {
            ($x:ident, $y:ident, $z:ident) => {
                $x.choose($y, $z)
            };
        }
        macro_rules! step {
            (
                $ff:ident, $gg:ident, $k:ident, $i:expr,
                $a:ident, $b:ident, $c:ident, $d:ident, $e:ident, $f:ident, $g:ident, $h:ident
            ) => {
                let a12 = $a.rotate_left(12);
                let ss1 = (a12 + ($e + V::splat(token, $k[$i]))).rotate_left(7);
                let early1 = $d + (w[$i] ^ w[($i + 4) % 16]) + $ff!($a, $b, $c);
                let early2 = $h + w[$i] + $gg!($e, $f, $g);
                let tt2 = early2 + ss1;
                $d = early1 + (ss1 ^ a12);
                $b = $b.rotate_left(9);
                $f = $f.rotate_left(19);
                $h = tt2.xor3(tt2.rotate_left(9), tt2.rotate_left(17));
            };
        }
        macro_rules! four {
            ($before:ident, $ff:ident, $gg:ident, $k:ident, $i:expr) => {
                $before!($i);
                step!($ff, $gg, $k, $i, a, b, c, d, e, f, g, h);
                $before!($i + 1);
                step!($ff, $gg, $k, $i + 1, d, a, b, c, h, e, f, g);
                $before!($i + 2);
                step!($ff, $gg, $k, $i + 2, c, d, a, b, g, h, e, f);
                $before!($i + 3);
                step!($ff, $gg, $k, $i + 3, b, c, d, a, f, g, h, e);
            };
        }

        let (k, later) = opaque(&K).as_chunks::<16>().0.split_at(1);
        let k = k[0];
        four!(nothing, xor_all, xor_all, k, 0);
        four!(nothing, xor_all, xor_all, k, 4);
        four!(nothing, xor_all, xor_all, k, 8);
        four!(expand, xor_all, xor_all, k, 12);
        let mut i = 0;
        while i < later.len() {
            let k = later[i];
            four!(expand, majority, choose, k, 0);
            four!(expand, majority, choose, k, 4);
            four!(expand, majority, choose, k, 8);
            four!(expand, majority, choose, k, 12);
            i += 1;
        }

        *state = [
            state[0] ^ a,
            state[1] ^ b,
            state[2] ^ c,
            state[3] ^ d,
            state[4] ^ e,
            state[5] ^ f,
            state[6] ^ g,
            state[7] ^ h,
        ];
    }
}
