//! ext4's directory hashes with AVX-512.

use core::arch::x86_64::*;

use super::super::Avx512;
use super::U32x16;
use crate::algorithms::names::{Ends, HalfMd4, Legacy, NameVector, Tea, run_names};
use crate::names::NameValue;
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
                names: &[&[u8]],
                values: &mut [NameValue],
            ) {
                // SAFETY: the caller's promises are the same.
                unsafe {
                    let token = Avx512::assume();
                    run_names::<U32x16, $hash>(token, initial, names, values)
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

/// How names are read whose ends are known.
///
/// # Safety
///
/// What follows `from` must be valid for reads up to where this name ends, or further than is read.
trait Read {
    unsafe fn sixteen(&self, lane: usize, from: *const u8) -> __m128i;
    unsafe fn thirty_two(&self, lane: usize, from: *const u8) -> __m256i;
}

/// No name ends in what is read.
struct Whole;

impl Read for Whole {
    #[inline(always)]
    unsafe fn sixteen(&self, _: usize, from: *const u8) -> __m128i {
        // SAFETY: the caller promises the bytes; a token was at hand.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn thirty_two(&self, _: usize, from: *const u8) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
}

/// All names end in the same place: a bit for each byte that they have.
struct Even(u32);

impl Even {
    #[inline(always)]
    fn new(rest: usize) -> Even {
        Even(if rest < 32 { (1 << rest) - 1 } else { u32::MAX })
    }
}

impl Read for Even {
    #[inline(always)]
    unsafe fn sixteen(&self, _: usize, from: *const u8) -> __m128i {
        // SAFETY: the caller promises the bytes that are not masked; a token was at hand.
        unsafe { _mm_maskz_loadu_epi8(self.0 as __mmask16, from.cast()) }
    }

    #[inline(always)]
    unsafe fn thirty_two(&self, _: usize, from: *const u8) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_maskz_loadu_epi8(self.0, from.cast()) }
    }
}

/// The same for each lane.
#[repr(align(64))]
struct Each([u32; 16]);

impl Each {
    /// `rest` is how many bytes follow in each lane, none where it is negative.
    #[inline(always)]
    fn new(_: Avx512, rest: U32x16) -> Each {
        let mut masks = Each([0; 16]);
        avx512!({
            let most = _mm512_set1_epi32(32);
            let rest = _mm512_max_epi32(rest.0, _mm512_setzero_si512());
            let missing = _mm512_sub_epi32(most, _mm512_min_epi32(rest, most));
            // Ones from the lowest bit on; a shift by 32 leaves none.
            let bits = _mm512_srlv_epi32(_mm512_set1_epi32(-1), missing);
            _mm512_store_si512(masks.0.as_mut_ptr().cast(), bits);
        });
        masks
    }
}

impl Read for Each {
    #[inline(always)]
    unsafe fn sixteen(&self, lane: usize, from: *const u8) -> __m128i {
        // SAFETY: the caller promises the bytes that are not masked; a token was at hand.
        unsafe { _mm_maskz_loadu_epi8(self.0[lane] as __mmask16, from.cast()) }
    }

    #[inline(always)]
    unsafe fn thirty_two(&self, lane: usize, from: *const u8) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_maskz_loadu_epi8(self.0[lane], from.cast()) }
    }
}

/// 16 bytes of each name, transposed.
///
/// # Safety
///
/// `names` must be valid for reads of 16 slices, each of which is read as it may be.
#[inline(always)]
unsafe fn load_four(token: Avx512, names: *const &[u8], offset: usize, read: impl Read) -> [__m512i; 4] {
    let mut rows = [U32x16::zero(token).0; 4];
    let mut row = 0;
    while row < 4 {
        // SAFETY: the caller promises the names.
        rows[row] = unsafe {
            let a = read.sixteen(row, (*names.add(row)).as_ptr().wrapping_add(offset));
            let b = read.sixteen(row + 4, (*names.add(row + 4)).as_ptr().wrapping_add(offset));
            let c = read.sixteen(row + 8, (*names.add(row + 8)).as_ptr().wrapping_add(offset));
            let d = read.sixteen(row + 12, (*names.add(row + 12)).as_ptr().wrapping_add(offset));
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
/// As above.
#[inline(always)]
unsafe fn load_eight(token: Avx512, names: *const &[u8], offset: usize, read: impl Read) -> [__m512i; 8] {
    let mut rows = [U32x16::zero(token).0; 8];
    let mut row = 0;
    while row < 8 {
        // The first four rows are of the lanes from 0 and 4 on, the others from 8 and 12.
        let lane = if row < 4 { row } else { row + 4 };
        // SAFETY: the caller promises the names.
        rows[row] = unsafe {
            let low = read.thirty_two(lane, (*names.add(lane)).as_ptr().wrapping_add(offset));
            let high = read.thirty_two(lane + 4, (*names.add(lane + 4)).as_ptr().wrapping_add(offset));
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

/// As many words of each name, transposed.
///
/// # Safety
///
/// As above.
#[inline(always)]
unsafe fn load_words<const WORDS: usize>(
    token: Avx512,
    names: *const &[u8],
    offset: usize,
    read: impl Read,
) -> [U32x16; WORDS] {
    const { assert!(WORDS == 4 || WORDS == 8) };
    let mut words = [U32x16::zero(token); WORDS];
    let mut i = 0;
    // SAFETY: the caller promises the names.
    unsafe {
        if WORDS == 4 {
            let columns = load_four(token, names, offset, read);
            while i < WORDS {
                words[i] = U32x16(columns[i]);
                i += 1;
            }
        } else {
            let columns = load_eight(token, names, offset, read);
            while i < WORDS {
                words[i] = U32x16(columns[i]);
                i += 1;
            }
        }
    }
    words
}

impl NameVector for U32x16 {
    type Mask = __mmask16;

    #[inline(always)]
    unsafe fn lengths(_: Avx512, names: *const &[u8]) -> Self {
        // SAFETY: the caller promises 16 names, of 16 bytes each: four vectors, where the lower half of a
        // length is in every fourth word from the third on.
        unsafe {
            let places = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 2, 6, 10, 14, 18, 22, 26, 30);
            let from = names.cast::<__m512i>();
            let [a, b] = [_mm512_loadu_si512(from), _mm512_loadu_si512(from.add(1))];
            let [c, d] = [_mm512_loadu_si512(from.add(2)), _mm512_loadu_si512(from.add(3))];
            let low = _mm512_permutex2var_epi32(a, places, b);
            let high = _mm512_permutex2var_epi32(c, places, d);
            U32x16(_mm512_mask_blend_epi32(0xff00, low, high))
        }
    }

    #[inline(always)]
    unsafe fn load_names<const WORDS: usize>(
        token: Avx512,
        names: *const &[u8],
        offset: usize,
        ends: Ends<Self>,
    ) -> [Self; WORDS] {
        // SAFETY: the caller promises the names, and where they end.
        unsafe {
            match ends {
                Ends::Beyond => load_words(token, names, offset, Whole),
                Ends::Even(rest) => load_words(token, names, offset, Even::new(rest)),
                Ends::Each(rest) => load_words(token, names, offset, Each::new(token, rest)),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_values(_: Avx512, hash: Self, minor: Self, values: *mut NameValue) {
        const { assert!(size_of::<NameValue>() == 16) };
        // SAFETY: the caller promises 16 values: four vectors, a hash in every fourth word from the first on,
        // a minor hash from the third on, and zeros between.
        unsafe {
            let to = values.cast::<__m512i>();
            let places = _mm512_setr_epi32(0, 0, 16, 0, 1, 0, 17, 0, 2, 0, 18, 0, 3, 0, 19, 0);
            let mut i = 0;
            while i < 4 {
                let places = _mm512_add_epi32(places, _mm512_set1_epi32(4 * i as i32));
                let four = _mm512_maskz_permutex2var_epi32(0x5555, hash.0, places, minor.0);
                _mm512_storeu_si512(to.add(i), four);
                i += 1;
            }
        }
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
    fn equal(self, other: Self) -> __mmask16 {
        avx512!(_mm512_cmpeq_epi32_mask(self.0, other.0))
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
