//! The SHA extensions: one lane, or two interleaved.
//!
//! An instruction of four rounds takes longer than it occupies the processor, so
//! a second message fits in between; a third gains nothing.
//!
//! The SHA instructions have encodings of the legacy kind only, and on Intel each
//! of those stalls while the upper half of any vector register is in use: a
//! hundredfold loss. So each function is two: one clears the upper halves, and
//! the other, which is never inlined, has the loop and is compiled without AVX,
//! where no compiler can use a register of 256 bits. A test reads the object code.
//! A build for processors with AVX only (`-C target-cpu=x86-64-v3`) has it in every
//! function, and the test fails; there the halves are cleared before each block too.

use core::arch::x86_64::*;

use crate::algorithms::SHA256_K;
use crate::arch::lanes::{each, unrolled};

macro_rules! kernels {
    ($($function:ident = $ways:literal of $body:ident;)*) => {
        $(
            /// # Safety
            ///
            /// As for [`super::super::CompressFn`]; the level is SHA-NI.
            #[target_feature(enable = "avx")]
            pub(crate) unsafe fn $function(
                state: *mut u64,
                pointers: *const *const u8,
                blocks: usize,
            ) {
                /// # Safety
                ///
                /// The same, and the upper halves of all vector registers are clear.
                #[inline(never)]
                #[target_feature(enable = "sha,sse4.1,ssse3")]
                unsafe fn without_avx(state: *mut u64, pointers: *const *const u8, blocks: usize) {
                    // SAFETY: the caller's promises are the same.
                    unsafe { $body::<$ways>(state.cast(), pointers, blocks) }
                }
                _mm256_zeroupper();
                // SAFETY: the caller's promises are the same, and the upper halves are clear.
                unsafe { without_avx(state, pointers, blocks) }
            }
        )*
    };
}

kernels! {
    sha1 = 1 of sha1_ways;
    sha1x2 = 2 of sha1_ways;
    sha256 = 1 of sha256_ways;
    sha256x2 = 2 of sha256_ways;
}

/// # Safety
///
/// As for the functions that it is inlined into.
#[inline(always)]
unsafe fn sha256_ways<const WAYS: usize>(state: *mut u32, pointers: *const *const u8, blocks: usize) {
    // SAFETY: the caller promises the rows of the state, the blocks and the
    // instructions.
    unsafe {
        let word = |row: usize, way: usize| state.add(row * WAYS + way);
        let order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        let zero = _mm_setzero_si128();
        let mut abef = [zero; WAYS];
        let mut cdgh = [zero; WAYS];
        each!(i, {
            abef[i] = gather([word(0, i), word(1, i), word(4, i), word(5, i)]);
            cdgh[i] = gather([word(2, i), word(3, i), word(6, i), word(7, i)]);
        });

        let mut block = 0;
        while block < blocks {
            #[cfg(target_feature = "avx")]
            _mm256_zeroupper();
            let (abef_before, cdgh_before) = (abef, cdgh);
            // The last sixteen words of the message schedule, four to a vector.
            let mut w = [[zero; WAYS]; 4];
            macro_rules! four {
                ($i:expr) => {
                    let k = _mm_loadu_si128(SHA256_K.as_ptr().add($i * 4).cast());
                    each!(i, {
                        if $i < 4 {
                            let from = (*pointers.add(i)).add(block * 64 + $i * 16);
                            w[$i % 4][i] = _mm_shuffle_epi8(_mm_loadu_si128(from.cast()), order);
                        } else {
                            let [w0, w1] = [w[$i % 4][i], w[($i + 1) % 4][i]];
                            let [w2, w3] = [w[($i + 2) % 4][i], w[($i + 3) % 4][i]];
                            let sum =
                                _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8::<4>(w3, w2));
                            w[$i % 4][i] = _mm_sha256msg2_epu32(sum, w3);
                        }
                    });
                    each!(i, {
                        let wk = _mm_add_epi32(w[$i % 4][i], k);
                        cdgh[i] = _mm_sha256rnds2_epu32(cdgh[i], abef[i], wk);
                        let wk = _mm_shuffle_epi32::<0x0e>(wk);
                        abef[i] = _mm_sha256rnds2_epu32(abef[i], cdgh[i], wk);
                    });
                };
            }
            unrolled!(four; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            each!(i, {
                abef[i] = _mm_add_epi32(abef[i], abef_before[i]);
                cdgh[i] = _mm_add_epi32(cdgh[i], cdgh_before[i]);
            });
            block += 1;
        }

        each!(i, {
            scatter(abef[i], [word(0, i), word(1, i), word(4, i), word(5, i)]);
            scatter(cdgh[i], [word(2, i), word(3, i), word(6, i), word(7, i)]);
        });
    }
}

/// # Safety
///
/// As for the functions that it is inlined into.
#[inline(always)]
unsafe fn sha1_ways<const WAYS: usize>(state: *mut u32, pointers: *const *const u8, blocks: usize) {
    // SAFETY: the caller promises the rows of the state, the blocks and the
    // instructions.
    unsafe {
        let word = |row: usize, way: usize| state.add(row * WAYS + way);
        let order = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
        let zero = _mm_setzero_si128();
        let mut abcd = [zero; WAYS];
        let mut e = [zero; WAYS];
        each!(i, {
            abcd[i] = gather([word(0, i), word(1, i), word(2, i), word(3, i)]);
            e[i] = _mm_set_epi32(*word(4, i) as i32, 0, 0, 0);
        });

        let mut block = 0;
        while block < blocks {
            #[cfg(target_feature = "avx")]
            _mm256_zeroupper();
            let (abcd_before, e_before) = (abcd, e);
            // The last sixteen words of the message schedule, four to a vector.
            let mut w = [[zero; WAYS]; 4];
            // The first word of the state four rounds ago, of which the next
            // rounds make their `e`.
            let mut earlier = [zero; WAYS];
            macro_rules! four {
                ($function:literal, $i:expr) => {
                    each!(i, {
                        if $i < 4 {
                            let from = (*pointers.add(i)).add(block * 64 + $i * 16);
                            w[$i % 4][i] = _mm_shuffle_epi8(_mm_loadu_si128(from.cast()), order);
                        } else {
                            let [w0, w1] = [w[$i % 4][i], w[($i + 1) % 4][i]];
                            let [w2, w3] = [w[($i + 2) % 4][i], w[($i + 3) % 4][i]];
                            let sum = _mm_xor_si128(_mm_sha1msg1_epu32(w0, w1), w2);
                            w[$i % 4][i] = _mm_sha1msg2_epu32(sum, w3);
                        }
                    });
                    each!(i, {
                        let we = if $i == 0 {
                            _mm_add_epi32(e[i], w[0][i])
                        } else {
                            _mm_sha1nexte_epu32(earlier[i], w[$i % 4][i])
                        };
                        earlier[i] = abcd[i];
                        abcd[i] = _mm_sha1rnds4_epu32::<$function>(abcd[i], we);
                    });
                };
            }
            macro_rules! twenty {
                ($function:literal, $i:expr) => {
                    four!($function, $i);
                    four!($function, $i + 1);
                    four!($function, $i + 2);
                    four!($function, $i + 3);
                    four!($function, $i + 4);
                };
            }
            twenty!(0, 0);
            twenty!(1, 5);
            twenty!(2, 10);
            twenty!(3, 15);
            each!(i, {
                e[i] = _mm_sha1nexte_epu32(earlier[i], e_before[i]);
                abcd[i] = _mm_add_epi32(abcd[i], abcd_before[i]);
            });
            block += 1;
        }

        each!(i, {
            scatter(abcd[i], [word(0, i), word(1, i), word(2, i), word(3, i)]);
            *word(4, i) = _mm_extract_epi32::<3>(e[i]) as u32;
        });
    }
}

/// Reads four words, the first into the highest lane.
///
/// # Safety
///
/// The pointers must be valid for reads.
#[inline(always)]
unsafe fn gather(words: [*mut u32; 4]) -> __m128i {
    // SAFETY: the caller's promise; SSE2 is part of x86-64.
    unsafe { _mm_set_epi32(*words[0] as i32, *words[1] as i32, *words[2] as i32, *words[3] as i32) }
}

/// Writes four words, the first from the highest lane.
///
/// # Safety
///
/// The pointers must be valid for writes, and the processor must have SSE 4.1.
#[inline(always)]
unsafe fn scatter(vector: __m128i, words: [*mut u32; 4]) {
    // SAFETY: the caller's promises.
    unsafe {
        *words[0] = _mm_extract_epi32::<3>(vector) as u32;
        *words[1] = _mm_extract_epi32::<2>(vector) as u32;
        *words[2] = _mm_extract_epi32::<1>(vector) as u32;
        *words[3] = _mm_extract_epi32::<0>(vector) as u32;
    }
}
