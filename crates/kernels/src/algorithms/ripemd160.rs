//! RIPEMD-160, by Dobbertin, Bosselaers and Preneel (1996); ISO/IEC 10118-3.

use super::{Compress, opaque};
use crate::vector::Vector;

pub(crate) struct Ripemd160;

/// Which word of the block each step of the left line takes.
const LEFT_WORDS: [[usize; 16]; 5] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [7, 4, 13, 1, 10, 6, 15, 3, 12, 0, 9, 5, 2, 14, 11, 8],
    [3, 10, 14, 4, 9, 15, 8, 1, 2, 7, 0, 6, 13, 11, 5, 12],
    [1, 9, 11, 10, 0, 8, 12, 4, 13, 3, 7, 15, 14, 5, 6, 2],
    [4, 0, 5, 9, 7, 12, 2, 10, 14, 1, 3, 8, 11, 6, 15, 13],
];
const RIGHT_WORDS: [[usize; 16]; 5] = [
    [5, 14, 7, 0, 9, 2, 11, 4, 13, 6, 15, 8, 1, 10, 3, 12],
    [6, 11, 3, 7, 0, 13, 5, 10, 14, 15, 8, 12, 4, 9, 1, 2],
    [15, 5, 1, 3, 7, 14, 6, 9, 11, 8, 12, 2, 10, 0, 4, 13],
    [8, 6, 4, 1, 3, 11, 15, 0, 5, 12, 2, 13, 9, 7, 10, 14],
    [12, 15, 10, 4, 1, 5, 8, 7, 6, 2, 13, 14, 0, 3, 9, 11],
];
const LEFT_ROTATIONS: [[u32; 16]; 5] = [
    [11, 14, 15, 12, 5, 8, 7, 9, 11, 13, 14, 15, 6, 7, 9, 8],
    [7, 6, 8, 13, 11, 9, 7, 15, 7, 12, 15, 9, 11, 7, 13, 12],
    [11, 13, 6, 7, 14, 9, 13, 15, 14, 8, 13, 6, 5, 12, 7, 5],
    [11, 12, 14, 15, 14, 15, 9, 8, 9, 14, 5, 6, 8, 6, 5, 12],
    [9, 15, 5, 11, 6, 8, 13, 12, 5, 12, 13, 14, 11, 8, 5, 6],
];
const RIGHT_ROTATIONS: [[u32; 16]; 5] = [
    [8, 9, 9, 11, 13, 15, 15, 5, 7, 7, 8, 11, 14, 14, 12, 6],
    [9, 13, 15, 7, 12, 8, 9, 11, 7, 7, 12, 7, 6, 15, 13, 11],
    [9, 7, 15, 11, 8, 6, 6, 14, 12, 13, 5, 14, 13, 13, 7, 5],
    [15, 5, 8, 11, 14, 14, 6, 14, 6, 9, 12, 9, 12, 5, 15, 8],
    [8, 5, 12, 9, 12, 5, 14, 6, 8, 13, 6, 5, 15, 13, 11, 11],
];
const LEFT_K: [u32; 5] = [0, 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xa953fd4e];
const RIGHT_K: [u32; 5] = [0x50a28be6, 0x5c4dd124, 0x6d703ef3, 0x7a6d76e9, 0];

impl<V: Vector<Word = u32>> Compress<V, 5, 16> for Ripemd160 {
    const BIG_ENDIAN: bool = false;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 5], block: [V; 16]) {
        let [mut a, mut b, mut c, mut d, mut e] = *state;
        let k = opaque(&[LEFT_K, RIGHT_K]);
        let [mut aa, mut bb, mut cc, mut dd, mut ee] = *state;

        macro_rules! f1 {
            ($x:ident, $y:ident, $z:ident) => {
                $y.xor3($z, $x)
            };
        }
        macro_rules! f2 {
            ($x:ident, $y:ident, $z:ident) => {
                $x.choose($y, $z)
            };
        }
        macro_rules! f3 {
            ($x:ident, $y:ident, $z:ident) => {
                $x.or_not_xor($y, $z)
            };
        }
        macro_rules! f4 {
            ($x:ident, $y:ident, $z:ident) => {
                $z.choose($x, $y)
            };
        }
        macro_rules! f5 {
            ($x:ident, $y:ident, $z:ident) => {
                $y.or_not_xor($z, $x)
            };
        }
        macro_rules! line {
            (
                $function:ident, $word:expr, $k:expr, $rotation:expr,
                $a:ident, $b:ident, $c:ident, $d:ident, $e:ident
            ) => {
                let early = $a + (block[$word] + V::splat(token, $k));
                $a = (early + $function!($b, $c, $d)).rotate_left($rotation) + $e;
                $c = $c.rotate_left(10);
            };
        }
        // A step of both lines, which are independent of each other.
        macro_rules! step {
            (
                $round:expr, $i:expr, $left:ident, $right:ident,
                $a:ident, $b:ident, $c:ident, $d:ident, $e:ident,
                $aa:ident, $bb:ident, $cc:ident, $dd:ident, $ee:ident
            ) => {
                line! {
                    $left, LEFT_WORDS[$round][$i], k[0][$round], LEFT_ROTATIONS[$round][$i],
                    $a, $b, $c, $d, $e
                }
                line! {
                    $right, RIGHT_WORDS[$round][$i], k[1][$round], RIGHT_ROTATIONS[$round][$i],
                    $aa, $bb, $cc, $dd, $ee
                }
            };
        }
        macro_rules! round {
            (
                $r:expr, $left:ident, $right:ident,
                $a:ident, $b:ident, $c:ident, $d:ident, $e:ident,
                $aa:ident, $bb:ident, $cc:ident, $dd:ident, $ee:ident
            ) => {
                round!(@five $r, 0, $left, $right, $a, $b, $c, $d, $e, $aa, $bb, $cc, $dd, $ee);
                round!(@five $r, 5, $left, $right, $a, $b, $c, $d, $e, $aa, $bb, $cc, $dd, $ee);
                round!(@five $r, 10, $left, $right, $a, $b, $c, $d, $e, $aa, $bb, $cc, $dd, $ee);
                step!($r, 15, $left, $right, $a, $b, $c, $d, $e, $aa, $bb, $cc, $dd, $ee);
            };
            (
                @five $r:expr, $i:expr, $left:ident, $right:ident,
                $a:ident, $b:ident, $c:ident, $d:ident, $e:ident,
                $aa:ident, $bb:ident, $cc:ident, $dd:ident, $ee:ident
            ) => {
                step!($r, $i, $left, $right, $a, $b, $c, $d, $e, $aa, $bb, $cc, $dd, $ee);
                step!($r, $i + 1, $left, $right, $e, $a, $b, $c, $d, $ee, $aa, $bb, $cc, $dd);
                step!($r, $i + 2, $left, $right, $d, $e, $a, $b, $c, $dd, $ee, $aa, $bb, $cc);
                step!($r, $i + 3, $left, $right, $c, $d, $e, $a, $b, $cc, $dd, $ee, $aa, $bb);
                step!($r, $i + 4, $left, $right, $b, $c, $d, $e, $a, $bb, $cc, $dd, $ee, $aa);
            };
        }

        // Each step turns the names by one, so a round of sixteen does too.
        round!(0, f1, f5, a, b, c, d, e, aa, bb, cc, dd, ee);
        round!(1, f2, f4, e, a, b, c, d, ee, aa, bb, cc, dd);
        round!(2, f3, f3, d, e, a, b, c, dd, ee, aa, bb, cc);
        round!(3, f4, f2, c, d, e, a, b, cc, dd, ee, aa, bb);
        round!(4, f5, f1, b, c, d, e, a, bb, cc, dd, ee, aa);

        *state =
            [state[1] + c + dd, state[2] + d + ee, state[3] + e + aa, state[4] + a + bb, state[0] + b + cc];
    }
}
