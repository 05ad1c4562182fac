//! BLAKE2s and BLAKE2b, RFC 7693, without a key.

use super::Compress;
use crate::vector::Vector;

pub(crate) struct Blake2s;
pub(crate) struct Blake2b;

/// Of BLAKE2b; BLAKE2s has their first halves.
#[rustfmt::skip]
const INITIAL: [u64; 8] = [
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
];

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

/// What they differ in besides the length of a word.
trait Mixing {
    const ROTATIONS: [u32; 4];
    const ROUNDS: usize;
}

impl Mixing for Blake2s {
    const ROTATIONS: [u32; 4] = [16, 12, 8, 7];
    const ROUNDS: usize = 10;
}

impl Mixing for Blake2b {
    const ROTATIONS: [u32; 4] = [32, 24, 16, 63];
    const ROUNDS: usize = 12;
}

/// The state is the chain value, the count of bytes in two words, and the flag of the last block.
impl<V: Vector<Word = u32>> Compress<V, 11, 16> for Blake2s {
    const BIG_ENDIAN: bool = false;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 11], block: [V; 16]) {
        let [h0, h1, h2, h3, h4, h5, h6, h7, low, high, last] = *state;
        let sum = low + V::splat(token, 64);
        // Bit 31 was lost from the count if the sum wrapped around.
        let high = high + low.and_not(sum).shift_right(31);
        let mut initial = [V::zero(token); 8];
        let mut i = 0;
        while i < 8 {
            initial[i] = V::splat(token, (INITIAL[i] >> 32) as u32);
            i += 1;
        }
        let counted = [sum, high, last];
        let [h0, h1, h2, h3, h4, h5, h6, h7] =
            mixed::<V, Blake2s>([h0, h1, h2, h3, h4, h5, h6, h7], initial, counted, block);
        *state = [h0, h1, h2, h3, h4, h5, h6, h7, sum, high, last];
    }
}

/// The state is the chain value, the count of bytes (its low word: no message has 2^64 bytes), and the flag of
/// the last block.
impl<V: Vector<Word = u64>> Compress<V, 10, 16> for Blake2b {
    const BIG_ENDIAN: bool = false;

    #[inline(always)]
    fn compress(token: V::Token, state: &mut [V; 10], block: [V; 16]) {
        let [h0, h1, h2, h3, h4, h5, h6, h7, count, last] = *state;
        let count = count + V::splat(token, 128);
        let mut initial = [V::zero(token); 8];
        let mut i = 0;
        while i < 8 {
            initial[i] = V::splat(token, INITIAL[i]);
            i += 1;
        }
        let counted = [count, V::zero(token), last];
        let [h0, h1, h2, h3, h4, h5, h6, h7] =
            mixed::<V, Blake2b>([h0, h1, h2, h3, h4, h5, h6, h7], initial, counted, block);
        *state = [h0, h1, h2, h3, h4, h5, h6, h7, count, last];
    }
}

/// The chain value after a block. Beside the block the count of bytes in two words and the flag are mixed in.
#[inline(always)]
fn mixed<V: Vector, A: Mixing>(
    chain: [V; 8],
    initial: [V; 8],
    [low, high, last]: [V; 3],
    block: [V; 16],
) -> [V; 8] {
    let [mut v0, mut v1, mut v2, mut v3, mut v4, mut v5, mut v6, mut v7] = chain;
    let [mut v8, mut v9, mut v10, mut v11, i4, i5, i6, mut v15] = initial;
    let (mut v12, mut v13, mut v14) = (i4 ^ low, i5 ^ high, i6 ^ last);

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
            half!($sigma[$i], A::ROTATIONS[0], A::ROTATIONS[1], $a0, $b0, $c0, $d0);
            half!($sigma[$i + 2], A::ROTATIONS[0], A::ROTATIONS[1], $a1, $b1, $c1, $d1);
            half!($sigma[$i + 4], A::ROTATIONS[0], A::ROTATIONS[1], $a2, $b2, $c2, $d2);
            half!($sigma[$i + 6], A::ROTATIONS[0], A::ROTATIONS[1], $a3, $b3, $c3, $d3);
            half!($sigma[$i + 1], A::ROTATIONS[2], A::ROTATIONS[3], $a0, $b0, $c0, $d0);
            half!($sigma[$i + 3], A::ROTATIONS[2], A::ROTATIONS[3], $a1, $b1, $c1, $d1);
            half!($sigma[$i + 5], A::ROTATIONS[2], A::ROTATIONS[3], $a2, $b2, $c2, $d2);
            half!($sigma[$i + 7], A::ROTATIONS[2], A::ROTATIONS[3], $a3, $b3, $c3, $d3);
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
    if A::ROUNDS > 10 {
        round!(10);
        round!(11);
    }

    let [h0, h1, h2, h3, h4, h5, h6, h7] = chain;
    [
        h0.xor3(v0, v8),
        h1.xor3(v1, v9),
        h2.xor3(v2, v10),
        h3.xor3(v3, v11),
        h4.xor3(v4, v12),
        h5.xor3(v5, v13),
        h6.xor3(v6, v14),
        h7.xor3(v7, v15),
    ]
}
