//! AVX-512: 16 lanes of 32 bits, 8 lanes of 64 bits.

use core::arch::asm;
use core::arch::x86_64::*;

use super::Avx512;
use crate::algorithms::*;
use crate::arch::lanes::{call, instructions, kernels, registers};
use crate::vector::{Pair, Vector};

kernels! {
    "avx512f,avx512bw,avx512dq,avx512vl", Avx512::assume();
    md4 = Md4, U32x16;
    md4x32 = Md4, Pair<U32x16>;
    md5 = Md5, U32x16;
    md5x32 = Md5, Pair<U32x16>;
    ripemd160 = Ripemd160, U32x16;
    ripemd160x32 = Ripemd160, Pair<U32x16>;
    sha1 = Sha1, U32x16;
    sha256 = Sha256, U32x16;
    sm3 = Sm3, U32x16;
    blake2s = Blake2s, U32x16;
    sha512 = Sha512, U64x8;
    blake2b = Blake2b, U64x8;
    keccak9 = Keccak<9>, U64x8;
    keccak13 = Keccak<13>, U64x8;
    keccak17 = Keccak<17>, U64x8;
    keccak18 = Keccak<18>, U64x8;
    keccak21 = Keccak<21>, U64x8;
}

/// Sixteen lanes of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct U32x16(__m512i);

/// Eight lanes of 64 bits.
#[derive(Clone, Copy)]
pub(crate) struct U64x8(__m512i);

instructions! {
    U32x16: _mm512_add_epi32, _mm512_and_si512, _mm512_or_si512, _mm512_xor_si512;
    U64x8: _mm512_add_epi64, _mm512_and_si512, _mm512_or_si512, _mm512_xor_si512;
}

/// Operations of three vectors, as the results for the eight combinations of bits: the first operand is 0xf0,
/// the second 0xcc, the third 0xaa.
macro_rules! ternary {
    ($($method:ident($second:ident, $third:ident) = $table:expr;)*) => {$(
        #[inline(always)]
        fn $method(self, $second: Self, $third: Self) -> Self {
            const TABLE: i32 = $table & 0xff;
            Self(call!(_mm512_ternarylogic_epi32::<TABLE>(self.0, $second.0, $third.0)))
        }
    )*};
}

/// What both vectors do alike.
macro_rules! common {
    ($word:ty) => {
        registers! {
            $word, Avx512, _mm512_setzero_si512, _mm512_load_si512, _mm512_store_si512, _mm512_andnot_si512
        }

        #[inline(always)]
        fn summed(self) -> Self {
            Self(call!(opaque(self.0)))
        }

        ternary! {
            or_not_xor(other, third) = (0xf0 | !0xcc) ^ 0xaa;
            choose(one, zero) = (0xf0 & 0xcc) | (!0xf0 & 0xaa);
            majority(other, third) = (0xf0 & 0xcc) | (0xf0 & 0xaa) | (0xcc & 0xaa);
            xor3(other, third) = 0xf0 ^ 0xcc ^ 0xaa;
            xor_and_not(other, third) = 0xf0 ^ (0xaa & !0xcc);
        }
    };
}

/// Hides from the compiler what a vector was made of, by no instruction at all.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut vector: __m512i) -> __m512i {
    // SAFETY: nothing is executed.
    unsafe {
        asm!("/* {0} */", inout(zmm_reg) vector, options(pure, nomem, nostack, preserves_flags));
    }
    vector
}

/// Reverses the bytes of words of this many bytes.
#[inline(always)]
fn reverse(_: Avx512, vector: __m512i, word_len: u8) -> __m512i {
    let mut order = [0; 64];
    let mut i = 0;
    while i < 64 {
        order[i] = (i as u8 % 16) ^ (word_len - 1);
        i += 1;
    }
    // SAFETY: any 64 bytes are a vector.
    let order = unsafe { core::mem::transmute::<[u8; 64], __m512i>(order) };
    call!(_mm512_shuffle_epi8(vector, order))
}

impl Vector for U32x16 {
    const LANES: usize = 16;
    const TILE: usize = 16;

    common!(u32);

    #[inline(always)]
    fn splat(_: Avx512, word: u32) -> Self {
        U32x16(call!(_mm512_set1_epi32(word as i32)))
    }

    #[inline(always)]
    unsafe fn load_tile(token: Avx512, pointers: *const *const u8, offset: usize, tile: &mut [Self]) {
        let mut rows = [Self::zero(token).0; 16];
        let mut i = 0;
        while i < 16 {
            // SAFETY: the caller promises 64 bytes of each of 16 messages.
            rows[i] = call!(_mm512_loadu_si512((*pointers.add(i)).add(offset).cast()));
            i += 1;
        }
        // Within each quarter of the registers, transpose 4 by 4 words.
        let mut quads = rows;
        let mut i = 0;
        while i < 16 {
            call!({
                let low01 = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
                let high01 = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
                let low23 = _mm512_unpacklo_epi32(rows[i + 2], rows[i + 3]);
                let high23 = _mm512_unpackhi_epi32(rows[i + 2], rows[i + 3]);
                quads[i] = _mm512_unpacklo_epi64(low01, low23);
                quads[i + 1] = _mm512_unpackhi_epi64(low01, low23);
                quads[i + 2] = _mm512_unpacklo_epi64(high01, high23);
                quads[i + 3] = _mm512_unpackhi_epi64(high01, high23);
            });
            i += 4;
        }
        // Then transpose the quarters, 4 by 4.
        let mut i = 0;
        while i < 4 {
            call!({
                let low01 = _mm512_shuffle_i32x4::<0x88>(quads[i], quads[i + 4]);
                let high01 = _mm512_shuffle_i32x4::<0xdd>(quads[i], quads[i + 4]);
                let low23 = _mm512_shuffle_i32x4::<0x88>(quads[i + 8], quads[i + 12]);
                let high23 = _mm512_shuffle_i32x4::<0xdd>(quads[i + 8], quads[i + 12]);
                tile[i] = U32x16(_mm512_shuffle_i32x4::<0x88>(low01, low23));
                tile[i + 4] = U32x16(_mm512_shuffle_i32x4::<0x88>(high01, high23));
                tile[i + 8] = U32x16(_mm512_shuffle_i32x4::<0xdd>(low01, low23));
                tile[i + 12] = U32x16(_mm512_shuffle_i32x4::<0xdd>(high01, high23));
            });
            i += 1;
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        // SAFETY: the vector is the evidence.
        let token = unsafe { Avx512::assume() };
        U32x16(reverse(token, self.0, 4))
    }

    #[inline(always)]
    fn rotate_left(self, count: u32) -> Self {
        U32x16(call!(_mm512_rolv_epi32(self.0, _mm512_set1_epi32(count as i32))))
    }

    #[inline(always)]
    fn shift_right(self, count: u32) -> Self {
        U32x16(call!(_mm512_srlv_epi32(self.0, _mm512_set1_epi32(count as i32))))
    }
}

impl Vector for U64x8 {
    const LANES: usize = 8;
    const TILE: usize = 8;

    common!(u64);

    #[inline(always)]
    fn splat(_: Avx512, word: u64) -> Self {
        U64x8(call!(_mm512_set1_epi64(word as i64)))
    }

    #[inline(always)]
    unsafe fn load_tile(token: Avx512, pointers: *const *const u8, offset: usize, tile: &mut [Self]) {
        let mut rows = [Self::zero(token).0; 8];
        let mut i = 0;
        while i < 8 {
            // SAFETY: the caller promises 64 bytes of each of 8 messages.
            rows[i] = call!(_mm512_loadu_si512((*pointers.add(i)).add(offset).cast()));
            i += 1;
        }
        // Within each quarter of the registers, transpose 2 by 2 words.
        let mut pairs = rows;
        let mut i = 0;
        while i < 8 {
            call!({
                pairs[i] = _mm512_unpacklo_epi64(rows[i], rows[i + 1]);
                pairs[i + 1] = _mm512_unpackhi_epi64(rows[i], rows[i + 1]);
            });
            i += 2;
        }
        // Then transpose the quarters, 4 by 4.
        let mut i = 0;
        while i < 2 {
            call!({
                let low01 = _mm512_shuffle_i32x4::<0x88>(pairs[i], pairs[i + 2]);
                let high01 = _mm512_shuffle_i32x4::<0xdd>(pairs[i], pairs[i + 2]);
                let low23 = _mm512_shuffle_i32x4::<0x88>(pairs[i + 4], pairs[i + 6]);
                let high23 = _mm512_shuffle_i32x4::<0xdd>(pairs[i + 4], pairs[i + 6]);
                tile[i] = U64x8(_mm512_shuffle_i32x4::<0x88>(low01, low23));
                tile[i + 2] = U64x8(_mm512_shuffle_i32x4::<0x88>(high01, high23));
                tile[i + 4] = U64x8(_mm512_shuffle_i32x4::<0xdd>(low01, low23));
                tile[i + 6] = U64x8(_mm512_shuffle_i32x4::<0xdd>(high01, high23));
            });
            i += 1;
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        // SAFETY: the vector is the evidence.
        let token = unsafe { Avx512::assume() };
        U64x8(reverse(token, self.0, 8))
    }

    #[inline(always)]
    fn rotate_left(self, count: u32) -> Self {
        U64x8(call!(_mm512_rolv_epi64(self.0, _mm512_set1_epi64(i64::from(count)))))
    }

    #[inline(always)]
    fn shift_right(self, count: u32) -> Self {
        U64x8(call!(_mm512_srlv_epi64(self.0, _mm512_set1_epi64(i64::from(count)))))
    }
}
