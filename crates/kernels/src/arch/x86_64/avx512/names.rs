//! ext4's directory hashes with AVX-512.

use core::arch::x86_64::*;

use super::super::Avx512;
use super::U32x16;
use crate::algorithms::names::{HalfMd4, Legacy, NameVector, Tea, run_names};
use crate::vector::Vector;

macro_rules! kernels {
    ($($function:ident = $hash:ty;)*) => {
        $(
            /// # Safety
            ///
            /// As for [`crate::names::HashNamesFn`]; the level is AVX-512.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            pub(crate) unsafe fn $function(
                initial: &[u32; 4],
                pointers: *const *const u8,
                lengths: *const u32,
                words: [*mut u32; 2],
                groups: usize,
            ) {
                // SAFETY: the caller's promises are the same.
                unsafe {
                    let token = Avx512::assume();
                    run_names::<U32x16, $hash>(token, initial, pointers, lengths, words, groups)
                }
            }
        )*
    };
}

kernels! {
    legacy = Legacy<false>;
    legacy_signed = Legacy<true>;
    half_md4 = HalfMd4<false>;
    half_md4_signed = HalfMd4<true>;
    tea = Tea<false>;
    tea_signed = Tea<true>;
}

/// Calls intrinsics.
macro_rules! avx512 {
    ($call:expr) => {
        // SAFETY: a token or a vector is at hand, and neither can be made where
        // the processor has no AVX-512.
        unsafe { $call }
    };
}

/// Transposes each quarter, 4 by 4 words.
#[inline(always)]
fn transpose(_: Avx512, rows: [__m512i; 4]) -> [__m512i; 4] {
    avx512!({
        let low01 = _mm512_unpacklo_epi32(rows[0], rows[1]);
        let high01 = _mm512_unpackhi_epi32(rows[0], rows[1]);
        let low23 = _mm512_unpacklo_epi32(rows[2], rows[3]);
        let high23 = _mm512_unpackhi_epi32(rows[2], rows[3]);
        [
            _mm512_unpacklo_epi64(low01, low23),
            _mm512_unpackhi_epi64(low01, low23),
            _mm512_unpacklo_epi64(high01, high23),
            _mm512_unpackhi_epi64(high01, high23),
        ]
    })
}

/// The next 16 bytes of a name, zeros past its end.
///
/// # Safety
///
/// The pointers and lengths must be valid for reads of a name for this lane.
#[inline(always)]
unsafe fn sixteen(
    _: Avx512,
    pointers: *const *const u8,
    lengths: *const u32,
    lane: usize,
    offset: usize,
) -> __m128i {
    // SAFETY: the caller promises both; what is masked is not read.
    unsafe {
        let rest = (*lengths.add(lane) as usize).saturating_sub(offset).min(16);
        let start = (*pointers.add(lane)).wrapping_add(offset);
        _mm_maskz_loadu_epi8(((1u32 << rest) - 1) as __mmask16, start.cast())
    }
}

/// The next 32 bytes.
///
/// # Safety
///
/// As above.
#[inline(always)]
unsafe fn thirty_two(
    _: Avx512,
    pointers: *const *const u8,
    lengths: *const u32,
    lane: usize,
    offset: usize,
) -> __m256i {
    // SAFETY: the caller promises both; what is masked is not read.
    unsafe {
        let rest = (*lengths.add(lane) as usize).saturating_sub(offset).min(32);
        let start = (*pointers.add(lane)).wrapping_add(offset);
        _mm256_maskz_loadu_epi8(((1u64 << rest) - 1) as __mmask32, start.cast())
    }
}

impl NameVector for U32x16 {
    type Mask = __mmask16;

    #[inline(always)]
    unsafe fn load_names<const WORDS: usize>(
        token: Avx512,
        pointers: *const *const u8,
        lengths: *const u32,
        offset: usize,
    ) -> [Self; WORDS] {
        const { assert!(WORDS == 4 || WORDS == 8) };
        let mut words = [Self::zero(token); WORDS];
        if WORDS == 4 {
            let mut rows = [words[0].0; 4];
            let mut row = 0;
            while row < 4 {
                // SAFETY: the caller promises the names.
                rows[row] = unsafe {
                    let a = sixteen(token, pointers, lengths, row, offset);
                    let b = sixteen(token, pointers, lengths, row + 4, offset);
                    let c = sixteen(token, pointers, lengths, row + 8, offset);
                    let d = sixteen(token, pointers, lengths, row + 12, offset);
                    let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
                    let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(c), d);
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
                };
                row += 1;
            }
            let columns = transpose(token, rows);
            let mut i = 0;
            while i < 4 {
                words[i] = U32x16(columns[i]);
                i += 1;
            }
        } else {
            let mut rows = [words[0].0; 8];
            let mut row = 0;
            while row < 8 {
                // The first four rows are of the lanes from 0 and 4 on, the others from 8 and 12.
                let lane = if row < 4 { row } else { row + 4 };
                // SAFETY: the caller promises the names.
                rows[row] = unsafe {
                    let low = thirty_two(token, pointers, lengths, lane, offset);
                    let high = thirty_two(token, pointers, lengths, lane + 4, offset);
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
                };
                row += 1;
            }
            let low = transpose(token, [rows[0], rows[1], rows[2], rows[3]]);
            let high = transpose(token, [rows[4], rows[5], rows[6], rows[7]]);
            let mut i = 0;
            while i < 4 {
                words[i] = U32x16(avx512!(_mm512_shuffle_i32x4::<0x88>(low[i], high[i])));
                words[i + 4] = U32x16(avx512!(_mm512_shuffle_i32x4::<0xdd>(low[i], high[i])));
                i += 1;
            }
        }
        words
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        U32x16(avx512!(_mm512_sub_epi32(self.0, other.0)))
    }

    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        U32x16(avx512!(_mm512_mullo_epi32(self.0, other.0)))
    }

    #[inline(always)]
    fn shift_left_by(self, counts: Self) -> Self {
        U32x16(avx512!(_mm512_sllv_epi32(self.0, counts.0)))
    }

    #[inline(always)]
    fn shift_right_by(self, counts: Self) -> Self {
        U32x16(avx512!(_mm512_srlv_epi32(self.0, counts.0)))
    }

    #[inline(always)]
    fn shift_sign_by(self, counts: Self) -> Self {
        U32x16(avx512!(_mm512_srav_epi32(self.0, counts.0)))
    }

    #[inline(always)]
    fn clamp(self, most: Self) -> Self {
        U32x16(avx512!(_mm512_min_epi32(_mm512_max_epi32(self.0, _mm512_setzero_si512()), most.0)))
    }

    #[inline(always)]
    fn greater(self, other: Self) -> __mmask16 {
        avx512!(_mm512_cmpgt_epi32_mask(self.0, other.0))
    }

    #[inline(always)]
    fn any(mask: __mmask16) -> bool {
        mask != 0
    }

    #[inline(always)]
    fn all(mask: __mmask16) -> bool {
        mask == __mmask16::MAX
    }

    #[inline(always)]
    fn select(mask: __mmask16, one: Self, zero: Self) -> Self {
        U32x16(avx512!(_mm512_mask_blend_epi32(mask, zero.0, one.0)))
    }
}
