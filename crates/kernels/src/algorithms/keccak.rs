//! Keccak-f[1600] as SHA-3 and SHAKE use it, FIPS 202.

use super::Compress;
use crate::vector::Vector;

/// The sponge with a rate of `RATE` words.
pub(crate) struct Keccak<const RATE: usize>;

#[rustfmt::skip]
const ROUND_CONSTANTS: [u64; 24] = [
    0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000,
    0x000000000000808b, 0x0000000080000001, 0x8000000080008081, 0x8000000000008009,
    0x000000000000008a, 0x0000000000000088, 0x0000000080008009, 0x000000008000000a,
    0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003,
    0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
];

impl<V: Vector<Word = u64>, const RATE: usize> Compress<V, 25, RATE> for Keccak<RATE> {
    const BIG_ENDIAN: bool = false;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 25], block: [V; RATE]) {
        let mut a = *state;
        let mut i = 0;
        while i < RATE {
            a[i] = a[i] ^ block[i];
            i += 1;
        }

        let mut round = 0;
        while round < 24 {
            // Theta: the parity of each column...
            let c0 = a[0].xor3(a[5], a[10]).xor3(a[15], a[20]);
            let c1 = a[1].xor3(a[6], a[11]).xor3(a[16], a[21]);
            let c2 = a[2].xor3(a[7], a[12]).xor3(a[17], a[22]);
            let c3 = a[3].xor3(a[8], a[13]).xor3(a[18], a[23]);
            let c4 = a[4].xor3(a[9], a[14]).xor3(a[19], a[24]);
            let d0 = c4.xor_rotated_once(c1);
            let d1 = c0.xor_rotated_once(c2);
            let d2 = c1.xor_rotated_once(c3);
            let d3 = c2.xor_rotated_once(c4);
            let d4 = c3.xor_rotated_once(c0);

            // ...is added to its neighbours, and rho rotates; pi is the choice of
            // names.
            macro_rules! turn {
                ($i:expr, $parity:ident, $rotation:expr) => {
                    a[$i].xor_rotate_left($parity, $rotation)
                };
            }

            // Chi follows row by row.
            let mut next = a;
            let b0 = a[0] ^ d0;
            let b1 = turn!(6, d1, 44);
            let b2 = turn!(12, d2, 43);
            let b3 = turn!(18, d3, 21);
            let b4 = turn!(24, d4, 14);
            next[0] = b0.xor_and_not(b1, b2);
            next[1] = b1.xor_and_not(b2, b3);
            next[2] = b2.xor_and_not(b3, b4);
            next[3] = b3.xor_and_not(b4, b0);
            next[4] = b4.xor_and_not(b0, b1);
            let b0 = turn!(3, d3, 28);
            let b1 = turn!(9, d4, 20);
            let b2 = turn!(10, d0, 3);
            let b3 = turn!(16, d1, 45);
            let b4 = turn!(22, d2, 61);
            next[5] = b0.xor_and_not(b1, b2);
            next[6] = b1.xor_and_not(b2, b3);
            next[7] = b2.xor_and_not(b3, b4);
            next[8] = b3.xor_and_not(b4, b0);
            next[9] = b4.xor_and_not(b0, b1);
            let b0 = turn!(1, d1, 1);
            let b1 = turn!(7, d2, 6);
            let b2 = turn!(13, d3, 25);
            let b3 = turn!(19, d4, 8);
            let b4 = turn!(20, d0, 18);
            next[10] = b0.xor_and_not(b1, b2);
            next[11] = b1.xor_and_not(b2, b3);
            next[12] = b2.xor_and_not(b3, b4);
            next[13] = b3.xor_and_not(b4, b0);
            next[14] = b4.xor_and_not(b0, b1);
            let b0 = turn!(4, d4, 27);
            let b1 = turn!(5, d0, 36);
            let b2 = turn!(11, d1, 10);
            let b3 = turn!(17, d2, 15);
            let b4 = turn!(23, d3, 56);
            next[15] = b0.xor_and_not(b1, b2);
            next[16] = b1.xor_and_not(b2, b3);
            next[17] = b2.xor_and_not(b3, b4);
            next[18] = b3.xor_and_not(b4, b0);
            next[19] = b4.xor_and_not(b0, b1);
            let b0 = turn!(2, d2, 62);
            let b1 = turn!(8, d3, 55);
            let b2 = turn!(14, d4, 39);
            let b3 = turn!(15, d0, 41);
            let b4 = turn!(21, d1, 2);
            next[20] = b0.xor_and_not(b1, b2);
            next[21] = b1.xor_and_not(b2, b3);
            next[22] = b2.xor_and_not(b3, b4);
            next[23] = b3.xor_and_not(b4, b0);
            next[24] = b4.xor_and_not(b0, b1);
            // Iota.
            next[0] = next[0] ^ V::splat(token, ROUND_CONSTANTS[round]);
            a = next;
            round += 1;
        }
        *state = a;
    }
}
