//! MD4, RFC 1320.

use super::{Compress, opaque};
use crate::vector::Vector;

pub(crate) struct Md4;

impl<V: Vector<Word = u32>> Compress<V, 4, 16> for Md4 {
    const BIG_ENDIAN: bool = false;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 4], block: [V; 16]) {
        let [mut a, mut b, mut c, mut d] = *state;
        let [k2, k3] = *opaque(&[0x5a827999, 0x6ed9eba1]);
        let k2 = V::splat(token, k2);
        let k3 = V::splat(token, k3);

        macro_rules! step1 {
            ($word:expr, $rotation:expr, $a:ident, $b:ident, $c:ident, $d:ident) => {
                $a = ($a + block[$word] + $b.choose($c, $d)).rotate_left($rotation);
            };
        }
        macro_rules! step2 {
            ($word:expr, $rotation:expr, $a:ident, $b:ident, $c:ident, $d:ident) => {
                $a = ($a + (block[$word] + k2) + $b.majority($c, $d)).rotate_left($rotation);
            };
        }
        macro_rules! step3 {
            ($word:expr, $rotation:expr, $a:ident, $b:ident, $c:ident, $d:ident) => {
                $a = ($a + (block[$word] + k3) + $c.xor3($d, $b)).rotate_left($rotation);
            };
        }
        macro_rules! four {
            ($step:ident, $words:expr, $rotations:expr) => {
                $step!($words[0], $rotations[0], a, b, c, d);
                $step!($words[1], $rotations[1], d, a, b, c);
                $step!($words[2], $rotations[2], c, d, a, b);
                $step!($words[3], $rotations[3], b, c, d, a);
            };
        }

        four!(step1, [0, 1, 2, 3], [3, 7, 11, 19]);
        four!(step1, [4, 5, 6, 7], [3, 7, 11, 19]);
        four!(step1, [8, 9, 10, 11], [3, 7, 11, 19]);
        four!(step1, [12, 13, 14, 15], [3, 7, 11, 19]);

        four!(step2, [0, 4, 8, 12], [3, 5, 9, 13]);
        four!(step2, [1, 5, 9, 13], [3, 5, 9, 13]);
        four!(step2, [2, 6, 10, 14], [3, 5, 9, 13]);
        four!(step2, [3, 7, 11, 15], [3, 5, 9, 13]);

        four!(step3, [0, 8, 4, 12], [3, 9, 11, 15]);
        four!(step3, [2, 10, 6, 14], [3, 9, 11, 15]);
        four!(step3, [1, 9, 5, 13], [3, 9, 11, 15]);
        four!(step3, [3, 11, 7, 15], [3, 9, 11, 15]);

        *state = [state[0] + a, state[1] + b, state[2] + c, state[3] + d];
    }
}
