//! ext4's directory hashes with AVX-512.

use core::arch::x86_64::*;

use super::NameValue;
use super::hashes::{HashNames, run_names};
use super::vector::{Ends, NameVector, call, methods, operators};

/// Evidence that the processor has AVX-512.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// Sixteen lanes of 32 bits.
#[derive(Clone, Copy)]
pub(super) struct U32x16(__m512i);

/// Hashes groups of names.
///
/// # Safety
///
/// As for [`super::kernel::HashNamesFn`]; the level is AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn run<H: HashNames<U32x16>>(
    initial: &[u32; 4],
    names: &[&[u8]],
    values: &mut [NameValue],
) {
    // SAFETY: the caller's promises are the same.
    unsafe { run_names::<U32x16, H>(Avx512(()), initial, names, values) }
}

operators! {
    U32x16:
    Add add = _mm512_add_epi32;
    BitAnd bitand = _mm512_and_si512;
    BitOr bitor = _mm512_or_si512;
    BitXor bitxor = _mm512_xor_si512;
}

/// Transposes each quarter, 4 by 4 words.
#[inline(always)]
fn transpose(_: Avx512, rows: [__m512i; 4]) -> [__m512i; 4] {
    call!({
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

/// Which bytes of a name are read: a bit for each, from the lowest on.
trait Masks {
    fn of(&self, lane: usize) -> u32;
}

/// No name ends in what is read.
struct Whole;

impl Masks for Whole {
    #[inline(always)]
    fn of(&self, _: usize) -> u32 {
        u32::MAX
    }
}

/// All names end in the same place.
struct Even(u32);

impl Even {
    #[inline(always)]
    fn new(rest: usize) -> Even {
        Even(if rest < 32 { (1 << rest) - 1 } else { u32::MAX })
    }
}

impl Masks for Even {
    #[inline(always)]
    fn of(&self, _: usize) -> u32 {
        self.0
    }
}

/// Each name ends in its own place.
#[repr(align(64))]
struct Each([u32; 16]);

impl Each {
    /// `rest` is how many bytes follow in each lane, none where it is negative.
    #[inline(always)]
    fn new(_: Avx512, rest: U32x16) -> Each {
        let mut masks = Each([0; 16]);
        call!({
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

impl Masks for Each {
    #[inline(always)]
    fn of(&self, lane: usize) -> u32 {
        self.0[lane]
    }
}

/// 16 bytes of the name of a lane, zeros for those that are not to be read.
///
/// # Safety
///
/// `names` must be valid for reads of that slice, and the name of the bytes that are read.
#[inline(always)]
unsafe fn sixteen(names: *const &[u8], lane: usize, offset: usize, masks: &impl Masks) -> __m128i {
    // SAFETY: the caller promises the bytes; a token was at hand.
    unsafe {
        let from = (*names.add(lane)).as_ptr().wrapping_add(offset);
        _mm_maskz_loadu_epi8(masks.of(lane) as __mmask16, from.cast())
    }
}

/// The same of 32 bytes.
///
/// # Safety
///
/// As above.
#[inline(always)]
unsafe fn thirty_two(names: *const &[u8], lane: usize, offset: usize, masks: &impl Masks) -> __m256i {
    // SAFETY: as above.
    unsafe {
        let from = (*names.add(lane)).as_ptr().wrapping_add(offset);
        _mm256_maskz_loadu_epi8(masks.of(lane), from.cast())
    }
}

/// 16 bytes of each name, transposed.
///
/// # Safety
///
/// `names` must be valid for reads of 16 slices, each of which is read as it may be.
#[inline(always)]
unsafe fn load_four(token: Avx512, names: *const &[u8], offset: usize, masks: impl Masks) -> [__m512i; 4] {
    let mut rows = [U32x16::splat(token, 0).0; 4];
    let mut row = 0;
    while row < 4 {
        // SAFETY: the caller promises the names.
        rows[row] = unsafe {
            let a = sixteen(names, row, offset, &masks);
            let b = sixteen(names, row + 4, offset, &masks);
            let c = sixteen(names, row + 8, offset, &masks);
            let d = sixteen(names, row + 12, offset, &masks);
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
unsafe fn load_eight(token: Avx512, names: *const &[u8], offset: usize, masks: impl Masks) -> [__m512i; 8] {
    let mut rows = [U32x16::splat(token, 0).0; 8];
    let mut row = 0;
    while row < 8 {
        // The first four rows are of the lanes from 0 and 4 on, the others from 8 and 12.
        let lane = if row < 4 { row } else { row + 4 };
        // SAFETY: the caller promises the names.
        rows[row] = unsafe {
            let low = thirty_two(names, lane, offset, &masks);
            let high = thirty_two(names, lane + 4, offset, &masks);
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        };
        row += 1;
    }
    let low = transpose(token, [rows[0], rows[1], rows[2], rows[3]]);
    let high = transpose(token, [rows[4], rows[5], rows[6], rows[7]]);
    let mut words = rows;
    let mut i = 0;
    while i < 4 {
        words[i] = call!(_mm512_shuffle_i32x4::<0x88>(low[i], high[i]));
        words[i + 4] = call!(_mm512_shuffle_i32x4::<0xdd>(low[i], high[i]));
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
    masks: impl Masks,
) -> [U32x16; WORDS] {
    const { assert!(WORDS == 4 || WORDS == 8) };
    let mut words = [U32x16::splat(token, 0); WORDS];
    // SAFETY: the caller promises the names.
    let (four, eight) = unsafe {
        match WORDS {
            4 => (load_four(token, names, offset, masks), [words[0].0; 8]),
            _ => ([words[0].0; 4], load_eight(token, names, offset, masks)),
        }
    };
    let mut i = 0;
    while i < WORDS {
        words[i] = U32x16(if WORDS == 4 { four[i] } else { eight[i] });
        i += 1;
    }
    words
}

impl NameVector for U32x16 {
    type Token = Avx512;
    type Mask = __mmask16;

    const LANES: usize = 16;

    #[inline(always)]
    fn splat(_: Avx512, word: u32) -> Self {
        U32x16(call!(_mm512_set1_epi32(word as i32)))
    }

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
    fn swap_bytes(self) -> Self {
        U32x16(call!({
            let order = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
            _mm512_shuffle_epi8(self.0, _mm512_broadcast_i32x4(order))
        }))
    }

    #[inline(always)]
    fn rotate_left(self, count: u32) -> Self {
        U32x16(call!(_mm512_rolv_epi32(self.0, _mm512_set1_epi32(count as i32))))
    }

    // The results for the eight combinations of bits: the first operand is 0xf0, the second 0xcc, the third
    // 0xaa.

    #[inline(always)]
    fn choose(self, one: Self, zero: Self) -> Self {
        const TABLE: i32 = (0xf0 & 0xcc) | (!0xf0 & 0xaa);
        U32x16(call!(_mm512_ternarylogic_epi32::<TABLE>(self.0, one.0, zero.0)))
    }

    #[inline(always)]
    fn majority(self, other: Self, third: Self) -> Self {
        const TABLE: i32 = (0xf0 & 0xcc) | (0xf0 & 0xaa) | (0xcc & 0xaa);
        U32x16(call!(_mm512_ternarylogic_epi32::<TABLE>(self.0, other.0, third.0)))
    }

    #[inline(always)]
    fn xor3(self, other: Self, third: Self) -> Self {
        const TABLE: i32 = 0xf0 ^ 0xcc ^ 0xaa;
        U32x16(call!(_mm512_ternarylogic_epi32::<TABLE>(self.0, other.0, third.0)))
    }

    methods! {
        sub = _mm512_sub_epi32;
        multiply = _mm512_mullo_epi32;
        shift_left_by = _mm512_sllv_epi32;
        shift_right_by = _mm512_srlv_epi32;
        shift_sign_by = _mm512_srav_epi32;
    }

    #[inline(always)]
    fn clamp(self, most: Self) -> Self {
        U32x16(call!(_mm512_min_epi32(_mm512_max_epi32(self.0, _mm512_setzero_si512()), most.0)))
    }

    #[inline(always)]
    fn greater(self, other: Self) -> __mmask16 {
        call!(_mm512_cmpgt_epi32_mask(self.0, other.0))
    }

    #[inline(always)]
    fn equal(self, other: Self) -> __mmask16 {
        call!(_mm512_cmpeq_epi32_mask(self.0, other.0))
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
        U32x16(call!(_mm512_mask_blend_epi32(mask, zero.0, one.0)))
    }
}
