//! AVX2: 8 lanes of 32 bits, 4 lanes of 64 bits.

use core::arch::x86_64::*;

use super::Avx2;
use crate::algorithms::*;
use crate::arch::lanes::{call, instructions, kernels, registers};
use crate::vector::{Pair, Vector};

kernels! {
    "avx2", Avx2::assume();
    md4x16 = Md4, Pair<U32x8>;
    md5x16 = Md5, Pair<U32x8>;
    ripemd160 = Ripemd160, U32x8;
    sha1 = Sha1, U32x8;
    sha256 = Sha256, U32x8;
    sm3 = Sm3, U32x8;
    blake2s = Blake2s, U32x8;
    sha512 = Sha512, U64x4;
    sha512x8 = Sha512, Pair<U64x4>;
    blake2b = Blake2b, U64x4;
    blake2bx8 = Blake2b, Pair<U64x4>;
    keccak9 = Keccak<9>, U64x4;
    keccak13 = Keccak<13>, U64x4;
    keccak17 = Keccak<17>, U64x4;
    keccak18 = Keccak<18>, U64x4;
    keccak21 = Keccak<21>, U64x4;
}

/// Eight lanes of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct U32x8(__m256i);

/// Four lanes of 64 bits.
#[derive(Clone, Copy)]
pub(crate) struct U64x4(__m256i);

instructions! {
    U32x8: _mm256_add_epi32, _mm256_and_si256, _mm256_or_si256, _mm256_xor_si256;
    U64x4: _mm256_add_epi64, _mm256_and_si256, _mm256_or_si256, _mm256_xor_si256;
}

/// What both vectors do alike.
macro_rules! common {
    ($word:ty) => {
        registers! {
            $word, Avx2, _mm256_setzero_si256, _mm256_load_si256, _mm256_store_si256, _mm256_andnot_si256
        }

        #[inline(always)]
        fn or_not_xor(self, other: Self, third: Self) -> Self {
            // The complement of (other & !self).
            let ones = Self(call!(_mm256_set1_epi32(-1)));
            other.and_not(self) ^ (third ^ ones)
        }
    };
}

/// Moves the bytes of each 16-byte half.
#[inline(always)]
fn shuffle(_: Avx2, vector: __m256i, order: [u8; 16]) -> __m256i {
    // SAFETY: any 16 bytes are a vector.
    let order = unsafe { core::mem::transmute::<[u8; 16], __m128i>(order) };
    call!(_mm256_shuffle_epi8(vector, _mm256_broadcastsi128_si256(order)))
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

/// The order that reverses the bytes of words.
const fn reversal(word_len: u8) -> [u8; 16] {
    let mut order = [0; 16];
    let mut i = 0;
    while i < 16 {
        order[i] = i as u8 ^ (word_len - 1);
        i += 1;
    }
    order
}

impl Vector for U32x8 {
    const LANES: usize = 8;
    const TILE: usize = 8;

    common!(u32);

    #[inline(always)]
    fn splat(_: Avx2, word: u32) -> Self {
        U32x8(call!(_mm256_set1_epi32(word as i32)))
    }

    #[inline(always)]
    unsafe fn load_tile(token: Avx2, pointers: *const *const u8, offset: usize, tile: &mut [Self]) {
        let zero = Self::zero(token).0;
        let mut rows = [zero; 8];
        // SAFETY: the caller promises 32 bytes of each of 8 messages; the token,
        // AVX2.
        unsafe {
            // A quarter of four lanes and of the four lanes after them share a
            // register from the start, which saves the last round of exchanges.
            let mut lane = 0;
            while lane < 4 {
                let low = (*pointers.add(lane)).add(offset);
                let high = (*pointers.add(lane + 4)).add(offset);
                let start = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
                rows[lane] = _mm256_inserti128_si256::<1>(start, _mm_loadu_si128(high.cast()));
                let start = _mm256_castsi128_si256(_mm_loadu_si128(low.add(16).cast()));
                rows[lane + 4] = _mm256_inserti128_si256::<1>(start, _mm_loadu_si128(high.add(16).cast()));
                lane += 1;
            }
            let mut half = 0;
            while half < 8 {
                let low01 = _mm256_unpacklo_epi32(rows[half], rows[half + 1]);
                let high01 = _mm256_unpackhi_epi32(rows[half], rows[half + 1]);
                let low23 = _mm256_unpacklo_epi32(rows[half + 2], rows[half + 3]);
                let high23 = _mm256_unpackhi_epi32(rows[half + 2], rows[half + 3]);
                tile[half] = U32x8(_mm256_unpacklo_epi64(low01, low23));
                tile[half + 1] = U32x8(_mm256_unpackhi_epi64(low01, low23));
                tile[half + 2] = U32x8(_mm256_unpacklo_epi64(high01, high23));
                tile[half + 3] = U32x8(_mm256_unpackhi_epi64(high01, high23));
                half += 4;
            }
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        // SAFETY: the vector is the evidence.
        let token = unsafe { Avx2::assume() };
        U32x8(shuffle(token, self.0, const { reversal(4) }))
    }

    #[inline(always)]
    fn rotate_left(self, count: u32) -> Self {
        // SAFETY: the vector is the evidence.
        let token = unsafe { Avx2::assume() };
        U32x8(match count {
            8 => shuffle(token, self.0, const { rotation(4, 1) }),
            16 => shuffle(token, self.0, const { rotation(4, 2) }),
            24 => shuffle(token, self.0, const { rotation(4, 3) }),
            _ => call!(_mm256_or_si256(
                _mm256_sllv_epi32(self.0, _mm256_set1_epi32(count as i32)),
                _mm256_srlv_epi32(self.0, _mm256_set1_epi32(32 - count as i32)),
            )),
        })
    }

    #[inline(always)]
    fn shift_right(self, count: u32) -> Self {
        U32x8(call!(_mm256_srlv_epi32(self.0, _mm256_set1_epi32(count as i32))))
    }
}

impl Vector for U64x4 {
    const LANES: usize = 4;
    const TILE: usize = 4;

    common!(u64);

    #[inline(always)]
    fn splat(_: Avx2, word: u64) -> Self {
        U64x4(call!(_mm256_set1_epi64x(word as i64)))
    }

    #[inline(always)]
    unsafe fn load_tile(token: Avx2, pointers: *const *const u8, offset: usize, tile: &mut [Self]) {
        let zero = Self::zero(token).0;
        let mut rows = [zero; 4];
        // SAFETY: the caller promises 32 bytes of each of 4 messages; the token,
        // AVX2.
        unsafe {
            let mut lane = 0;
            while lane < 2 {
                let low = (*pointers.add(lane)).add(offset);
                let high = (*pointers.add(lane + 2)).add(offset);
                let start = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
                rows[lane] = _mm256_inserti128_si256::<1>(start, _mm_loadu_si128(high.cast()));
                let start = _mm256_castsi128_si256(_mm_loadu_si128(low.add(16).cast()));
                rows[lane + 2] = _mm256_inserti128_si256::<1>(start, _mm_loadu_si128(high.add(16).cast()));
                lane += 1;
            }
            tile[0] = U64x4(_mm256_unpacklo_epi64(rows[0], rows[1]));
            tile[1] = U64x4(_mm256_unpackhi_epi64(rows[0], rows[1]));
            tile[2] = U64x4(_mm256_unpacklo_epi64(rows[2], rows[3]));
            tile[3] = U64x4(_mm256_unpackhi_epi64(rows[2], rows[3]));
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        // SAFETY: the vector is the evidence.
        let token = unsafe { Avx2::assume() };
        U64x4(shuffle(token, self.0, const { reversal(8) }))
    }

    #[inline(always)]
    fn rotate_left(self, count: u32) -> Self {
        // SAFETY: the vector is the evidence.
        let token = unsafe { Avx2::assume() };
        U64x4(match count {
            8 => shuffle(token, self.0, const { rotation(8, 1) }),
            16 => shuffle(token, self.0, const { rotation(8, 2) }),
            24 => shuffle(token, self.0, const { rotation(8, 3) }),
            32 => shuffle(token, self.0, const { rotation(8, 4) }),
            40 => shuffle(token, self.0, const { rotation(8, 5) }),
            48 => shuffle(token, self.0, const { rotation(8, 6) }),
            56 => shuffle(token, self.0, const { rotation(8, 7) }),
            _ => call!(_mm256_or_si256(
                _mm256_sllv_epi64(self.0, _mm256_set1_epi64x(i64::from(count))),
                _mm256_srlv_epi64(self.0, _mm256_set1_epi64x(64 - i64::from(count))),
            )),
        })
    }

    #[inline(always)]
    fn shift_right(self, count: u32) -> Self {
        U64x4(call!(_mm256_srlv_epi64(self.0, _mm256_set1_epi64x(i64::from(count)))))
    }
}
