//! NEON: 4 lanes of 32 bits, 2 lanes of 64 bits.

use core::arch::aarch64::*;
use core::arch::asm;

use super::Neon;
use crate::algorithms::*;
use crate::arch::lanes::{call, instructions, kernels};
use crate::vector::{Pair, Vector};

kernels! {
    "neon", Neon::assume();
    md4 = Md4, U32x4;
    md4x8 = Md4, Pair<U32x4>;
    md5 = Md5, U32x4;
    md5x8 = Md5, Pair<U32x4>;
    ripemd160 = Ripemd160, U32x4;
    ripemd160x8 = Ripemd160, Pair<U32x4>;
    sha1 = Sha1, U32x4;
    sha256 = Sha256, U32x4;
    sm3 = Sm3, U32x4;
    blake2s = Blake2s, U32x4;
    sha512 = Sha512, U64x2;
    blake2b = Blake2b, U64x2;
    keccak9 = Keccak<9>, U64x2;
    keccak13 = Keccak<13>, U64x2;
    keccak17 = Keccak<17>, U64x2;
    keccak18 = Keccak<18>, U64x2;
    keccak21 = Keccak<21>, U64x2;
}

/// Four lanes of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct U32x4(uint32x4_t);

/// Two lanes of 64 bits.
#[derive(Clone, Copy)]
pub(crate) struct U64x2(pub(super) uint64x2_t);

instructions! {
    U32x4: vaddq_u32, vandq_u32, vorrq_u32, veorq_u32;
    U64x2: vaddq_u64, vandq_u64, vorrq_u64, veorq_u64;
}

/// Calls an intrinsic with a count that is a constant only after inlining, where all but one arm go.
macro_rules! with_constant {
    ($count:expr, $constant:ident: $($value:literal)* => $call:expr) => {
        match $count {
            $($value => {
                const $constant: i32 = $value;
                call!($call)
            })*
            _ => unreachable!("a count below the length of a word"),
        }
    };
}

/// What both vectors do alike.
macro_rules! common {
    (
        $word:ty: $dup:ident, $load:ident, $store:ident, $bic:ident, $orn:ident, $eor:ident, $bsl:ident, $select:ident,
        $shl:ident, $shr:ident, $insert:ident, $bits:literal, $($count:literal)*
    ) => {
        type Word = $word;
        type Token = Neon;

        #[inline(always)]
        fn splat(_: Neon, word: $word) -> Self {
            Self(call!($dup(word)))
        }

        #[inline(always)]
        fn zero(_: Neon) -> Self {
            Self(call!($dup(0)))
        }

        #[inline(always)]
        unsafe fn load(_: Neon, row: *const $word) -> Self {
            // SAFETY: the caller promises the row; the token, the level.
            Self(unsafe { $load(row) })
        }

        #[inline(always)]
        unsafe fn store(self, row: *mut $word) {
            // SAFETY: the caller promises the row; the vector, the level.
            unsafe { $store(row, self.0) }
        }

        #[inline(always)]
        fn shift_right(self, count: u32) -> Self {
            Self(with_constant!(count, COUNT: $($count)* => $shr::<COUNT>(self.0)))
        }

        #[inline(always)]
        fn and_not(self, other: Self) -> Self {
            Self(call!($bic(self.0, other.0)))
        }

        #[inline(always)]
        fn or_not_xor(self, other: Self, third: Self) -> Self {
            Self(call!($eor($orn(self.0, other.0), third.0)))
        }

        #[inline(always)]
        fn choose(self, one: Self, zero: Self) -> Self {
            Self(call!($bsl(self.0, one.0, zero.0)))
        }

        #[inline(always)]
        fn majority(self, other: Self, third: Self) -> Self {
            // Where two differ, the third decides.
            Self(call!($select($eor(self.0, other.0), third.0, other.0)))
        }

        #[inline(always)]
        fn rotate_left(self, count: u32) -> Self {
            if count % 8 == 0 {
                return self.rotate_bytes(count / 8);
            }
            Self(with_constant!(count, COUNT: $($count)* => {
                $insert::<{ $bits - COUNT }>($shl::<COUNT>(self.0), self.0)
            }))
        }
    };
}

/// Instructions by name, where the compiler makes more of them, or slower ones, of what it knows them to do.
macro_rules! by_name {
    ($($vector:ty, $arrangement:literal: $insert:ident, $select:ident;)*) => {$(
        /// Shifts words right and inserts them into others, whose highest bits stay. The compiler's own way
        /// of rotating shifts and adds, which takes longer on most processors.
        #[inline]
        #[target_feature(enable = "neon")]
        fn $insert<const COUNT: i32>(mut shifted: $vector, words: $vector) -> $vector {
            // SAFETY: it works on its registers only.
            unsafe {
                asm!(
                    concat!("sri {0:v}.", $arrangement, ", {1:v}.", $arrangement, ", #{2}"),
                    inout(vreg) shifted, in(vreg) words, const COUNT,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            shifted
        }

        /// Bits of one vector where those of the first are set, and of another where not. The compiler makes
        /// a majority of three instructions, of which this is the second.
        #[inline]
        #[target_feature(enable = "neon")]
        fn $select(mut mask: $vector, one: $vector, zero: $vector) -> $vector {
            // SAFETY: it works on its registers only.
            unsafe {
                asm!(
                    "bsl {0:v}.16b, {1:v}.16b, {2:v}.16b",
                    inout(vreg) mask, in(vreg) one, in(vreg) zero,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            mask
        }
    )*};
}

by_name! {
    uint32x4_t, "4s": insert32, select32;
    uint64x2_t, "2d": insert64, select64;
}

/// The order that rotates words left by whole bytes.
const fn rotation(word_len: u8, bytes: u8) -> [u8; 16] {
    let mut order = [0; 16];
    let mut i = 0;
    while i < 16 {
        let word = i as u8 / word_len * word_len;
        order[i] = word + (i as u8 % word_len + word_len - bytes) % word_len;
        i += 1;
    }
    order
}

/// Moves bytes: on some processors there are twice as many units for this as for shifts.
#[inline(always)]
fn shuffle(_: Neon, vector: uint8x16_t, order: &'static [u8; 16]) -> uint8x16_t {
    call!(vqtbl1q_u8(vector, vld1q_u8(order.as_ptr())))
}

impl U32x4 {
    #[inline(always)]
    fn rotate_bytes(self, bytes: u32) -> Self {
        // SAFETY: the vector is the evidence.
        let token = unsafe { Neon::assume() };
        let vector = call!(vreinterpretq_u8_u32(self.0));
        U32x4(call!(match bytes {
            1 => vreinterpretq_u32_u8(shuffle(token, vector, const { &rotation(4, 1) })),
            2 => vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(self.0))),
            3 => vreinterpretq_u32_u8(shuffle(token, vector, const { &rotation(4, 3) })),
            _ => unreachable!("fewer bytes than a word has, at least one"),
        }))
    }
}

impl U64x2 {
    #[inline(always)]
    pub(super) fn rotate_bytes(self, bytes: u32) -> Self {
        // SAFETY: the vector is the evidence.
        let token = unsafe { Neon::assume() };
        let vector = call!(vreinterpretq_u8_u64(self.0));
        let order = match bytes {
            1 => const { &rotation(8, 1) },
            2 => const { &rotation(8, 2) },
            3 => const { &rotation(8, 3) },
            4 => return U64x2(call!(vreinterpretq_u64_u32(vrev64q_u32(vreinterpretq_u32_u64(self.0))))),
            5 => const { &rotation(8, 5) },
            6 => const { &rotation(8, 6) },
            7 => const { &rotation(8, 7) },
            _ => unreachable!("fewer bytes than a word has, at least one"),
        };
        U64x2(call!(vreinterpretq_u64_u8(shuffle(token, vector, order))))
    }
}

impl Vector for U32x4 {
    const LANES: usize = 4;
    const TILE: usize = 4;

    common! {
        u32: vdupq_n_u32, vld1q_u32, vst1q_u32, vbicq_u32, vornq_u32, veorq_u32, vbslq_u32, select32,
        vshlq_n_u32, vshrq_n_u32, insert32, 32,
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    }

    #[inline(always)]
    unsafe fn load_tile(_: Neon, pointers: *const *const u8, offset: usize, tile: &mut [Self]) {
        // SAFETY: the caller promises 16 bytes of each of 4 messages, at any alignment; the token, NEON.
        unsafe {
            let mut rows = [vdupq_n_u32(0); 4];
            let mut lane = 0;
            while lane < 4 {
                rows[lane] = vreinterpretq_u32_u8(vld1q_u8((*pointers.add(lane)).add(offset)));
                lane += 1;
            }
            let even01 = vreinterpretq_u64_u32(vtrn1q_u32(rows[0], rows[1]));
            let odd01 = vreinterpretq_u64_u32(vtrn2q_u32(rows[0], rows[1]));
            let even23 = vreinterpretq_u64_u32(vtrn1q_u32(rows[2], rows[3]));
            let odd23 = vreinterpretq_u64_u32(vtrn2q_u32(rows[2], rows[3]));
            tile[0] = U32x4(vreinterpretq_u32_u64(vtrn1q_u64(even01, even23)));
            tile[1] = U32x4(vreinterpretq_u32_u64(vtrn1q_u64(odd01, odd23)));
            tile[2] = U32x4(vreinterpretq_u32_u64(vtrn2q_u64(even01, even23)));
            tile[3] = U32x4(vreinterpretq_u32_u64(vtrn2q_u64(odd01, odd23)));
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        U32x4(call!(vreinterpretq_u32_u8(vrev32q_u8(vreinterpretq_u8_u32(self.0)))))
    }
}

impl Vector for U64x2 {
    const LANES: usize = 2;
    const TILE: usize = 2;

    common! {
        u64: vdupq_n_u64, vld1q_u64, vst1q_u64, vbicq_u64, vornq_u64, veorq_u64, vbslq_u64, select64,
        vshlq_n_u64, vshrq_n_u64, insert64, 64,
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
    }

    #[inline(always)]
    unsafe fn load_tile(_: Neon, pointers: *const *const u8, offset: usize, tile: &mut [Self]) {
        // SAFETY: the caller promises 16 bytes of each of 2 messages, at any alignment; the token, NEON.
        unsafe {
            let one = vreinterpretq_u64_u8(vld1q_u8((*pointers).add(offset)));
            let other = vreinterpretq_u64_u8(vld1q_u8((*pointers.add(1)).add(offset)));
            tile[0] = U64x2(vtrn1q_u64(one, other));
            tile[1] = U64x2(vtrn2q_u64(one, other));
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        U64x2(call!(vreinterpretq_u64_u8(vrev64q_u8(vreinterpretq_u8_u64(self.0)))))
    }
}
