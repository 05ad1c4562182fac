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

/// For each lane a bit for each of the next `most` bytes, at most 32, that its name has.
#[repr(align(64))]
struct Masks([u32; 16]);

impl Masks {
    /// # Safety
    ///
    /// The lengths must be valid for reads of one for each lane, aligned.
    #[inline(always)]
    unsafe fn new(_: Avx512, lengths: *const u32, offset: usize, most: i32) -> Masks {
        let mut masks = Masks([0; 16]);
        // SAFETY: the caller promises the lengths; the masks are aligned.
        unsafe {
            let rest = _mm512_sub_epi32(_mm512_load_si512(lengths.cast()), _mm512_set1_epi32(offset as i32));
            let rest = _mm512_max_epi32(rest, _mm512_setzero_si512());
            let bits =
                _mm512_sub_epi32(_mm512_set1_epi32(most), _mm512_min_epi32(rest, _mm512_set1_epi32(most)));
            // Ones from the lowest bit on; a shift by 32 leaves none.
            let ones = _mm512_set1_epi32((u32::MAX >> (32 - most)) as i32);
            _mm512_store_si512(masks.0.as_mut_ptr().cast(), _mm512_srlv_epi32(ones, bits));
        }
        masks
    }
}

/// The 16 bytes of the name in this lane from `offset` on, zeros where `masks` has none.
///
/// # Safety
///
/// The pointers must be valid for reads of one for this lane; that name must have the bytes that the masks
/// say or, without masks, all.
#[inline(always)]
unsafe fn sixteen(
    _: Avx512,
    pointers: *const *const u8,
    lane: usize,
    offset: usize,
    masks: Option<&Masks>,
) -> __m128i {
    // SAFETY: the caller promises both; what is masked is not read.
    unsafe {
        let start = (*pointers.add(lane)).wrapping_add(offset);
        match masks {
            Some(masks) => _mm_maskz_loadu_epi8(masks.0[lane] as __mmask16, start.cast()),
            None => _mm_loadu_si128(start.cast()),
        }
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
    lane: usize,
    offset: usize,
    masks: Option<&Masks>,
) -> __m256i {
    // SAFETY: as above.
    unsafe {
        let start = (*pointers.add(lane)).wrapping_add(offset);
        match masks {
            Some(masks) => _mm256_maskz_loadu_epi8(masks.0[lane], start.cast()),
            None => _mm256_loadu_si256(start.cast()),
        }
    }
}

/// 16 bytes of each name, transposed.
///
/// # Safety
///
/// As above, for each lane.
#[inline(always)]
unsafe fn load_four(
    token: Avx512,
    pointers: *const *const u8,
    offset: usize,
    masks: Option<&Masks>,
) -> [__m512i; 4] {
    let mut rows = [U32x16::zero(token).0; 4];
    let mut row = 0;
    while row < 4 {
        // SAFETY: the caller promises the names.
        rows[row] = unsafe {
            let a = sixteen(token, pointers, row, offset, masks);
            let b = sixteen(token, pointers, row + 4, offset, masks);
            let c = sixteen(token, pointers, row + 8, offset, masks);
            let d = sixteen(token, pointers, row + 12, offset, masks);
            let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
            let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(c), d);
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        };
        row += 1;
    }
    transpose(token, rows)
}

/// 32 bytes of each name, transposed.
///
/// # Safety
///
/// As above, for each lane.
#[inline(always)]
unsafe fn load_eight(
    token: Avx512,
    pointers: *const *const u8,
    offset: usize,
    masks: Option<&Masks>,
) -> [__m512i; 8] {
    let mut rows = [U32x16::zero(token).0; 8];
    let mut row = 0;
    while row < 8 {
        // The first four rows are of the lanes from 0 and 4 on, the others from 8 and 12.
        let lane = if row < 4 { row } else { row + 4 };
        // SAFETY: the caller promises the names.
        rows[row] = unsafe {
            let low = thirty_two(token, pointers, lane, offset, masks);
            let high = thirty_two(token, pointers, lane + 4, offset, masks);
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        };
        row += 1;
    }
    let low = transpose(token, [rows[0], rows[1], rows[2], rows[3]]);
    let high = transpose(token, [rows[4], rows[5], rows[6], rows[7]]);
    let mut words = rows;
    let mut i = 0;
    while i < 4 {
        words[i] = avx512!(_mm512_shuffle_i32x4::<0x88>(low[i], high[i]));
        words[i + 4] = avx512!(_mm512_shuffle_i32x4::<0xdd>(low[i], high[i]));
        i += 1;
    }
    words
}

impl NameVector for U32x16 {
    type Mask = __mmask16;

    #[inline(always)]
    unsafe fn load_names<const WORDS: usize>(
        token: Avx512,
        pointers: *const *const u8,
        lengths: *const u32,
        offset: usize,
        is_whole: bool,
    ) -> [Self; WORDS] {
        const { assert!(WORDS == 4 || WORDS == 8) };
        let mut words = [Self::zero(token); WORDS];
        // SAFETY: the caller promises the names, whole ones where it says so.
        unsafe {
            let masks =
                if is_whole { None } else { Some(Masks::new(token, lengths, offset, WORDS as i32 * 4)) };
            let mut i = 0;
            if WORDS == 4 {
                let columns = match &masks {
                    None => load_four(token, pointers, offset, None),
                    masks => load_four(token, pointers, offset, masks.as_ref()),
                };
                while i < WORDS {
                    words[i] = U32x16(columns[i]);
                    i += 1;
                }
            } else {
                let columns = match &masks {
                    None => load_eight(token, pointers, offset, None),
                    masks => load_eight(token, pointers, offset, masks.as_ref()),
                };
                while i < WORDS {
                    words[i] = U32x16(columns[i]);
                    i += 1;
                }
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
