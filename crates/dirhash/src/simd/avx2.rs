//! ext4's directory hashes with AVX2.

use core::arch::x86_64::*;

use super::NameValue;
use super::hashes::{HashNames, run_names};
use super::vector::{Ends, NameVector, call, methods, operators};

/// Evidence that the processor has AVX2.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// Eight lanes of 32 bits.
#[derive(Clone, Copy)]
pub(super) struct U32x8(__m256i);

/// Hashes groups of names.
///
/// # Safety
///
/// As for [`super::kernel::HashNamesFn`]; the level is AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn run<H: HashNames<U32x8>>(initial: &[u32; 4], names: &[&[u8]], values: &mut [NameValue]) {
    // SAFETY: the caller's promises are the same.
    unsafe { run_names::<U32x8, H>(Avx2(()), initial, names, values) }
}

operators! {
    U32x8:
    Add add = _mm256_add_epi32;
    BitAnd bitand = _mm256_and_si256;
    BitOr bitor = _mm256_or_si256;
    BitXor bitxor = _mm256_xor_si256;
}

/// Transposes each half, 4 by 4 words.
#[inline(always)]
fn transpose(_: Avx2, rows: [__m256i; 4]) -> [__m256i; 4] {
    call!({
        let low01 = _mm256_unpacklo_epi32(rows[0], rows[1]);
        let high01 = _mm256_unpackhi_epi32(rows[0], rows[1]);
        let low23 = _mm256_unpacklo_epi32(rows[2], rows[3]);
        let high23 = _mm256_unpackhi_epi32(rows[2], rows[3]);
        [
            _mm256_unpacklo_epi64(low01, low23),
            _mm256_unpackhi_epi64(low01, low23),
            _mm256_unpacklo_epi64(high01, high23),
            _mm256_unpackhi_epi64(high01, high23),
        ]
    })
}

/// The 16 bytes of a name from `offset` on, zeros past its end.
///
/// # Safety
///
/// `start` must be valid for reads of `length` bytes.
#[inline(always)]
unsafe fn sixteen(_: Avx2, start: *const u8, length: usize, offset: usize) -> __m128i {
    let rest = length.saturating_sub(offset);
    let from = start.wrapping_add(offset);
    // SAFETY: each reads only what `rest` says is there, a name's end from its end backwards.
    unsafe {
        if rest >= 16 {
            return _mm_loadu_si128(from.cast());
        }
        let (low, high);
        if rest >= 8 {
            low = from.cast::<u64>().read_unaligned();
            let end = from.add(rest - 8).cast::<u64>().read_unaligned();
            // In two steps: for 8 bytes it is all of them.
            high = end >> (8 * (15 - rest)) >> 8;
        } else {
            high = 0;
            if rest >= 4 {
                let first = from.cast::<u32>().read_unaligned();
                let last = from.add(rest - 4).cast::<u32>().read_unaligned();
                low = u64::from(first) | u64::from(last) << (8 * (rest - 4));
            } else if rest > 0 {
                let middle = rest / 2;
                low = u64::from(*from)
                    | u64::from(*from.add(middle)) << (8 * middle)
                    | u64::from(*from.add(rest - 1)) << (8 * (rest - 1));
            } else {
                low = 0;
            }
        }
        _mm_set_epi64x(high as i64, low as i64)
    }
}

impl NameVector for U32x8 {
    type Token = Avx2;
    type Mask = __m256i;

    const LANES: usize = 8;

    #[inline(always)]
    fn splat(_: Avx2, word: u32) -> Self {
        U32x8(call!(_mm256_set1_epi32(word as i32)))
    }

    #[inline(always)]
    unsafe fn lengths(_: Avx2, names: *const &[u8]) -> Self {
        // SAFETY: the caller promises 8 names, of 16 bytes each: four vectors, where the lower half of a
        // length is in the third and seventh word.
        unsafe {
            let from = names.cast::<__m256i>();
            let [a, b] = [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))];
            let [c, d] = [_mm256_loadu_si256(from.add(2)), _mm256_loadu_si256(from.add(3))];
            // Lengths 0 2, 4 6 and 1 3, 5 7, in 64 bits each; then 0 2 4 6 and 1 3 5 7.
            let low = _mm256_unpackhi_epi64(a, b);
            let high = _mm256_unpackhi_epi64(c, d);
            let mixed = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(
                _mm256_castsi256_ps(low),
                _mm256_castsi256_ps(high),
            ));
            U32x8(_mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)))
        }
    }

    #[inline(always)]
    unsafe fn load_names<const WORDS: usize>(
        token: Avx2,
        names: *const &[u8],
        offset: usize,
        ends: Ends<Self>,
    ) -> [Self; WORDS] {
        const { assert!(WORDS == 4 || WORDS == 8) };
        let mut words = [Self::splat(token, 0); WORDS];
        let mut first = 0;
        while first < WORDS {
            let mut rows = [words[0].0; 4];
            let mut row = 0;
            while row < 4 {
                // SAFETY: the caller promises the names.
                rows[row] = unsafe {
                    let at = offset + 4 * first;
                    let [one, other] = [*names.add(row), *names.add(row + 4)];
                    let length = |name: &[u8]| match ends {
                        // Longer than all that is asked for, where it is known to be.
                        Ends::Beyond => usize::MAX,
                        Ends::Even(rest) => offset + rest,
                        Ends::Each(_) => name.len(),
                    };
                    let low = sixteen(token, one.as_ptr(), length(one), at);
                    let high = sixteen(token, other.as_ptr(), length(other), at);
                    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
                };
                row += 1;
            }
            let columns = transpose(token, rows);
            let mut i = 0;
            while i < 4 {
                words[first + i] = U32x8(columns[i]);
                i += 1;
            }
            first += 4;
        }
        words
    }

    #[inline(always)]
    unsafe fn store_values(token: Avx2, hash: Self, minor: Self, values: *mut NameValue) {
        const { assert!(size_of::<NameValue>() == 16) };
        // SAFETY: the caller promises 8 values: four vectors of two, in each half a hash, 0, a minor hash, 0.
        unsafe {
            let zero = Self::splat(token, 0).0;
            let to = values.cast::<__m256i>();
            // Of names 0 1 and 4 5; then of 2 3 and 6 7.
            let hashes = [_mm256_unpacklo_epi32(hash.0, zero), _mm256_unpackhi_epi32(hash.0, zero)];
            let minors = [_mm256_unpacklo_epi32(minor.0, zero), _mm256_unpackhi_epi32(minor.0, zero)];
            let mut i = 0;
            while i < 2 {
                let even = _mm256_unpacklo_epi64(hashes[i], minors[i]);
                let odd = _mm256_unpackhi_epi64(hashes[i], minors[i]);
                _mm256_storeu_si256(to.add(i), _mm256_permute2x128_si256::<0x20>(even, odd));
                _mm256_storeu_si256(to.add(i + 2), _mm256_permute2x128_si256::<0x31>(even, odd));
                i += 1;
            }
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        U32x8(call!({
            let order = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
            _mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(order))
        }))
    }

    #[inline(always)]
    fn rotate_left(self, count: u32) -> Self {
        U32x8(call!(_mm256_or_si256(
            _mm256_sllv_epi32(self.0, _mm256_set1_epi32(count as i32)),
            _mm256_srlv_epi32(self.0, _mm256_set1_epi32(32 - count as i32)),
        )))
    }

    methods! {
        sub = _mm256_sub_epi32;
        multiply = _mm256_mullo_epi32;
        shift_left_by = _mm256_sllv_epi32;
        shift_right_by = _mm256_srlv_epi32;
        shift_sign_by = _mm256_srav_epi32;
    }

    #[inline(always)]
    fn clamp(self, most: Self) -> Self {
        U32x8(call!(_mm256_min_epi32(_mm256_max_epi32(self.0, _mm256_setzero_si256()), most.0)))
    }

    #[inline(always)]
    fn greater(self, other: Self) -> __m256i {
        call!(_mm256_cmpgt_epi32(self.0, other.0))
    }

    #[inline(always)]
    fn equal(self, other: Self) -> __m256i {
        call!(_mm256_cmpeq_epi32(self.0, other.0))
    }

    #[inline(always)]
    fn any(mask: __m256i) -> bool {
        call!(_mm256_testz_si256(mask, mask)) == 0
    }

    #[inline(always)]
    fn all(mask: __m256i) -> bool {
        call!(_mm256_movemask_epi8(mask)) == -1
    }

    #[inline(always)]
    fn select(mask: __m256i, one: Self, zero: Self) -> Self {
        U32x8(call!(_mm256_blendv_epi8(zero.0, one.0, mask)))
    }
}
