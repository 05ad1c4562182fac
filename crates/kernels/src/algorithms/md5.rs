//! MD5, RFC 1321.

use super::{Compress, opaque};
use crate::vector::Vector;

pub(crate) struct Md5;

/// The integer part of 2^32 times the absolute sine of 1, 2, ... 64.
const K: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

impl<V: Vector<Word = u32>> Compress<V, 4, 16> for Md5 {
    const BIG_ENDIAN: bool = false;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 4], block: [V; 16]) {
        let [mut a, mut b, mut c, mut d] = *state;
        let k = opaque(&K);

        // Everything that does not wait for the last step is added first: the
        // chain from step to step is what limits MD5.
        macro_rules! step {
            ($function:ident, $i:expr, $word:expr, $a:ident, $b:ident, $c:ident, $d:ident) => {
                let early = ($a + (block[$word % 16] + V::splat(token, k[$i]))).summed();
                let mixed = early + $function!($b, $c, $d);
                $a = $b + mixed.rotate_left(ROTATIONS[$i / 16][$i % 4]);
            };
        }
        macro_rules! four {
            ($function:ident, $i:expr, $factor:expr, $first:expr) => {
                step!($function, $i, $factor * $i + $first, a, b, c, d);
                step!($function, $i + 1, $factor * ($i + 1) + $first, d, a, b, c);
                step!($function, $i + 2, $factor * ($i + 2) + $first, c, d, a, b);
                step!($function, $i + 3, $factor * ($i + 3) + $first, b, c, d, a);
            };
        }
        macro_rules! round {
            ($function:ident, $i:expr, $factor:expr, $first:expr) => {
                four!($function, $i, $factor, $first);
                four!($function, $i + 4, $factor, $first);
                four!($function, $i + 8, $factor, $first);
                four!($function, $i + 12, $factor, $first);
            };
        }
        macro_rules! f {
            ($x:ident, $y:ident, $z:ident) => {
                $x.choose($y, $z)
            };
        }
        macro_rules! g {
            ($x:ident, $y:ident, $z:ident) => {
                $z.choose($x, $y)
            };
        }
        macro_rules! h {
            ($x:ident, $y:ident, $z:ident) => {
                $y.xor3($z, $x)
            };
        }
        macro_rules! i {
            ($x:ident, $y:ident, $z:ident) => {
                $x.or_not_xor($z, $y)
            };
        }

        round!(f, 0, 1, 0);
        round!(g, 16, 5, 1);
        round!(h, 32, 3, 5);
        round!(i, 48, 7, 0);

        *state = [state[0] + a, state[1] + b, state[2] + c, state[3] + d];
    }
}
