//! BLAKE2s, RFC 7693, without a key.

use super::Compress;
use crate::vector::Vector;

pub(crate) struct Blake2s;

const INITIAL: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// Which words of the block the two halves of each mixing take, by round.
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// The state is the chain value, the count of bytes in two words, and the flag of the last block.
impl<V: Vector<Word = u32>> Compress<V, 11, 16> for Blake2s {
    const BIG_ENDIAN: bool = false;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 11], block: [V; 16]) {
        let [h0, h1, h2, h3, h4, h5, h6, h7, low, high, last] = *state;
        let sum = low + V::splat(token, 64);
        // Bit 31 was lost from the count if the sum wrapped around.
        let high = high + low.and_not(sum).shift_right(31);
        let low = sum;

        let (mut v0, mut v1, mut v2, mut v3) = (h0, h1, h2, h3);
        let (mut v4, mut v5, mut v6, mut v7) = (h4, h5, h6, h7);
        let mut v8 = V::splat(token, INITIAL[0]);
        let mut v9 = V::splat(token, INITIAL[1]);
        let mut v10 = V::splat(token, INITIAL[2]);
        let mut v11 = V::splat(token, INITIAL[3]);
        let mut v12 = V::splat(token, INITIAL[4]) ^ low;
        let mut v13 = V::splat(token, INITIAL[5]) ^ high;
        let mut v14 = V::splat(token, INITIAL[6]) ^ last;
        let mut v15 = V::splat(token, INITIAL[7]);

        macro_rules! half {
            ($word:expr, $r1:expr, $r2:expr, $a:ident, $b:ident, $c:ident, $d:ident) => {
                $a = ($a + block[$word]) + $b;
                $d = ($d ^ $a).rotate_right($r1);
                $c = $c + $d;
                $b = ($b ^ $c).rotate_right($r2);
            };
        }
        // Four mixings at a time, the first half of each before the second.
        macro_rules! mix {
            ($sigma:expr, $i:expr, $a0:ident $b0:ident $c0:ident $d0:ident,
             $a1:ident $b1:ident $c1:ident $d1:ident,
             $a2:ident $b2:ident $c2:ident $d2:ident,
             $a3:ident $b3:ident $c3:ident $d3:ident) => {
                half!($sigma[$i], 16, 12, $a0, $b0, $c0, $d0);
                half!($sigma[$i + 2], 16, 12, $a1, $b1, $c1, $d1);
                half!($sigma[$i + 4], 16, 12, $a2, $b2, $c2, $d2);
                half!($sigma[$i + 6], 16, 12, $a3, $b3, $c3, $d3);
                half!($sigma[$i + 1], 8, 7, $a0, $b0, $c0, $d0);
                half!($sigma[$i + 3], 8, 7, $a1, $b1, $c1, $d1);
                half!($sigma[$i + 5], 8, 7, $a2, $b2, $c2, $d2);
                half!($sigma[$i + 7], 8, 7, $a3, $b3, $c3, $d3);
            };
        }
        macro_rules! round {
            ($i:expr) => {
                mix!(SIGMA[$i % 10], 0, v0 v4 v8 v12, v1 v5 v9 v13, v2 v6 v10 v14, v3 v7 v11 v15);
                mix!(SIGMA[$i % 10], 8, v0 v5 v10 v15, v1 v6 v11 v12, v2 v7 v8 v13, v3 v4 v9 v14);
            };
        }

        round!(0);
        round!(1);
        round!(2);
        round!(3);
        round!(4);
        round!(5);
        round!(6);
        round!(7);
        round!(8);
        round!(9);

        *state = [
            h0.xor3(v0, v8),
            h1.xor3(v1, v9),
            h2.xor3(v2, v10),
            h3.xor3(v3, v11),
            h4.xor3(v4, v12),
            h5.xor3(v5, v13),
            h6.xor3(v6, v14),
            h7.xor3(v7, v15),
            low,
            high,
            last,
        ];
    }
}
