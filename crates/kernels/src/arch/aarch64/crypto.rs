//! The instructions for SHA-1, SHA-256 and SHA-512: one message, or several
//! interleaved.
//!
//! Such an instruction takes several times as long as it occupies the processor, and each waits for the
//! one before it, so the steps of other messages fit in between. How many are worth it differs from
//! processor to processor: a measurement decides.

use core::arch::aarch64::*;

use crate::algorithms::{SHA1_K, SHA256_K, SHA512_K, opaque};
use crate::arch::lanes::{each, unrolled};

/// # Safety
///
/// As for [`crate::arch::CompressFn`]; the processor has these features.
#[target_feature(enable = "neon,sha2")]
pub(crate) unsafe fn sha256<const WAYS: usize>(state: *mut u64, pointers: *const *const u8, blocks: usize) {
    let state = state.cast::<u32>();
    // SAFETY: the caller promises the rows of the state, the blocks and the instructions.
    unsafe {
        let zero = vdupq_n_u32(0);
        let mut abcd = [zero; WAYS];
        let mut efgh = [zero; WAYS];
        each!(i, {
            abcd[i] = gather::<WAYS>(state, 0, i);
            efgh[i] = gather::<WAYS>(state, 4, i);
        });

        // The compiler would compute the address of each.
        let constants = opaque(&SHA256_K);
        let mut block = 0;
        while block < blocks {
            let (abcd_before, efgh_before) = (abcd, efgh);
            // The last sixteen words of the message schedule, four to a vector.
            let mut w = [[zero; WAYS]; 4];
            macro_rules! four {
                ($i:expr) => {
                    let k = vld1q_u32(constants.as_ptr().add($i * 4));
                    each!(i, {
                        w[$i % 4][i] = if $i < 4 {
                            big_endian(pointers, i, block * 64 + $i * 16)
                        } else {
                            let early = vsha256su0q_u32(w[$i % 4][i], w[($i + 1) % 4][i]);
                            vsha256su1q_u32(early, w[($i + 2) % 4][i], w[($i + 3) % 4][i])
                        };
                    });
                    each!(i, {
                        let wk = vaddq_u32(w[$i % 4][i], k);
                        let before = abcd[i];
                        abcd[i] = vsha256hq_u32(before, efgh[i], wk);
                        efgh[i] = vsha256h2q_u32(efgh[i], before, wk);
                    });
                };
            }
            unrolled!(four; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            each!(i, {
                abcd[i] = vaddq_u32(abcd[i], abcd_before[i]);
                efgh[i] = vaddq_u32(efgh[i], efgh_before[i]);
            });
            block += 1;
        }

        each!(i, {
            scatter::<WAYS>(abcd[i], state, 0, i);
            scatter::<WAYS>(efgh[i], state, 4, i);
        });
    }
}

/// # Safety
///
/// As for [`crate::arch::CompressFn`]; the processor has these features.
#[target_feature(enable = "neon,sha2")]
pub(crate) unsafe fn sha1<const WAYS: usize>(state: *mut u64, pointers: *const *const u8, blocks: usize) {
    let state = state.cast::<u32>();
    // SAFETY: the caller promises the rows of the state, the blocks and the instructions.
    unsafe {
        let zero = vdupq_n_u32(0);
        let mut abcd = [zero; WAYS];
        let mut e = [0; WAYS];
        each!(i, {
            abcd[i] = gather::<WAYS>(state, 0, i);
            e[i] = *state.add(4 * WAYS + i);
        });

        // The compiler would compute the address of each.
        let constants = opaque(&SHA1_K);
        let mut block = 0;
        while block < blocks {
            let (abcd_before, e_before) = (abcd, e);
            // The last sixteen words of the message schedule, four to a vector.
            let mut w = [[zero; WAYS]; 4];
            macro_rules! four {
                ($rounds:ident, $k:ident, $i:expr) => {
                    each!(i, {
                        w[$i % 4][i] = if $i < 4 {
                            big_endian(pointers, i, block * 64 + $i * 16)
                        } else {
                            let early = vsha1su0q_u32(w[$i % 4][i], w[($i + 1) % 4][i], w[($i + 2) % 4][i]);
                            vsha1su1q_u32(early, w[($i + 3) % 4][i])
                        };
                    });
                    each!(i, {
                        let wk = vaddq_u32(w[$i % 4][i], $k);
                        let next = vsha1h_u32(vgetq_lane_u32::<0>(abcd[i]));
                        abcd[i] = $rounds(abcd[i], e[i], wk);
                        e[i] = next;
                    });
                };
            }
            macro_rules! twenty {
                ($rounds:ident, $k:literal, $i:expr) => {
                    let k = vdupq_n_u32(constants[$k]);
                    four!($rounds, k, $i);
                    four!($rounds, k, $i + 1);
                    four!($rounds, k, $i + 2);
                    four!($rounds, k, $i + 3);
                    four!($rounds, k, $i + 4);
                };
            }
            twenty!(vsha1cq_u32, 0, 0);
            twenty!(vsha1pq_u32, 1, 5);
            twenty!(vsha1mq_u32, 2, 10);
            twenty!(vsha1pq_u32, 3, 15);
            each!(i, {
                abcd[i] = vaddq_u32(abcd[i], abcd_before[i]);
                e[i] = e[i].wrapping_add(e_before[i]);
            });
            block += 1;
        }

        each!(i, {
            scatter::<WAYS>(abcd[i], state, 0, i);
            *state.add(4 * WAYS + i) = e[i];
        });
    }
}

/// # Safety
///
/// As for [`crate::arch::CompressFn`]; the processor has these features.
#[target_feature(enable = "neon,sha3")]
pub(crate) unsafe fn sha512<const WAYS: usize>(state: *mut u64, pointers: *const *const u8, blocks: usize) {
    // SAFETY: the caller promises the rows of the state, the blocks and the instructions.
    unsafe {
        let zero = vdupq_n_u64(0);
        // Two words of the state each, the first in the lower half.
        let mut ab = [zero; WAYS];
        let mut cd = [zero; WAYS];
        let mut ef = [zero; WAYS];
        let mut gh = [zero; WAYS];
        each!(i, {
            ab[i] = gather_two::<WAYS>(state, 0, i);
            cd[i] = gather_two::<WAYS>(state, 2, i);
            ef[i] = gather_two::<WAYS>(state, 4, i);
            gh[i] = gather_two::<WAYS>(state, 6, i);
        });

        // The compiler would compute the address of each.
        let constants = opaque(&SHA512_K);
        let mut block = 0;
        while block < blocks {
            let before = [ab, cd, ef, gh];
            // The last sixteen words of the message schedule, two to a vector.
            let mut w = [[zero; WAYS]; 8];
            macro_rules! two {
                ($k:expr, $i:expr, $is_first:expr) => {
                    let k = vld1q_u64($k.as_ptr().add($i * 2));
                    each!(i, {
                        w[$i][i] = if $is_first {
                            let from = (*pointers.add(i)).add(block * 128 + $i * 16);
                            vreinterpretq_u64_u8(vrev64q_u8(vld1q_u8(from)))
                        } else {
                            let early = vsha512su0q_u64(w[$i][i], w[($i + 1) % 8][i]);
                            let ninth = vextq_u64::<1>(w[($i + 4) % 8][i], w[($i + 5) % 8][i]);
                            vsha512su1q_u64(early, w[($i + 7) % 8][i], ninth)
                        };
                    });
                    each!(i, {
                        // The instructions take the two rounds in the other order.
                        let wk = vaddq_u64(w[$i][i], k);
                        let sum = vaddq_u64(gh[i], vextq_u64::<1>(wk, wk));
                        let (de, fg) = (vextq_u64::<1>(cd[i], ef[i]), vextq_u64::<1>(ef[i], gh[i]));
                        let t = vsha512hq_u64(sum, fg, de);
                        let next = vsha512h2q_u64(t, cd[i], ab[i]);
                        (gh[i], ef[i], cd[i], ab[i]) = (ef[i], vaddq_u64(cd[i], t), ab[i], next);
                    });
                };
            }
            macro_rules! sixteen {
                ($k:expr, $is_first:expr) => {
                    two!($k, 0, $is_first);
                    two!($k, 1, $is_first);
                    two!($k, 2, $is_first);
                    two!($k, 3, $is_first);
                    two!($k, 4, $is_first);
                    two!($k, 5, $is_first);
                    two!($k, 6, $is_first);
                    two!($k, 7, $is_first);
                };
            }
            let (k, _) = constants.as_chunks::<16>();
            sixteen!(k[0], true);
            sixteen!(k[1], false);
            sixteen!(k[2], false);
            sixteen!(k[3], false);
            sixteen!(k[4], false);
            each!(i, {
                ab[i] = vaddq_u64(ab[i], before[0][i]);
                cd[i] = vaddq_u64(cd[i], before[1][i]);
                ef[i] = vaddq_u64(ef[i], before[2][i]);
                gh[i] = vaddq_u64(gh[i], before[3][i]);
            });
            block += 1;
        }

        each!(i, {
            scatter_two::<WAYS>(ab[i], state, 0, i);
            scatter_two::<WAYS>(cd[i], state, 2, i);
            scatter_two::<WAYS>(ef[i], state, 4, i);
            scatter_two::<WAYS>(gh[i], state, 6, i);
        });
    }
}

/// Reads four big-endian words of a message.
///
/// # Safety
///
/// The message of that way must be valid for reads of 16 bytes at `offset`.
#[inline(always)]
unsafe fn big_endian(pointers: *const *const u8, way: usize, offset: usize) -> uint32x4_t {
    // SAFETY: the caller's promise; NEON is part of every level here.
    unsafe { vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8((*pointers.add(way)).add(offset)))) }
}

/// Reads four rows of a way of the state.
///
/// # Safety
///
/// The rows must be valid for reads.
#[inline(always)]
unsafe fn gather<const WAYS: usize>(state: *const u32, row: usize, way: usize) -> uint32x4_t {
    // SAFETY: the caller's promise; NEON is part of every level here.
    unsafe {
        let first = state.add(row * WAYS + way);
        vld1q_u32([*first, *first.add(WAYS), *first.add(2 * WAYS), *first.add(3 * WAYS)].as_ptr())
    }
}

/// Writes four rows of a way of the state.
///
/// # Safety
///
/// The rows must be valid for writes.
#[inline(always)]
unsafe fn scatter<const WAYS: usize>(words: uint32x4_t, state: *mut u32, row: usize, way: usize) {
    // SAFETY: the caller's promise; NEON is part of every level here.
    unsafe {
        *state.add(row * WAYS + way) = vgetq_lane_u32::<0>(words);
        *state.add((row + 1) * WAYS + way) = vgetq_lane_u32::<1>(words);
        *state.add((row + 2) * WAYS + way) = vgetq_lane_u32::<2>(words);
        *state.add((row + 3) * WAYS + way) = vgetq_lane_u32::<3>(words);
    }
}

/// Reads two rows of a way of the state.
///
/// # Safety
///
/// The rows must be valid for reads.
#[inline(always)]
unsafe fn gather_two<const WAYS: usize>(state: *const u64, row: usize, way: usize) -> uint64x2_t {
    // SAFETY: the caller's promise; NEON is part of every level here.
    unsafe {
        let first = state.add(row * WAYS + way);
        vld1q_u64([*first, *first.add(WAYS)].as_ptr())
    }
}

/// Writes two rows of a way of the state.
///
/// # Safety
///
/// The rows must be valid for writes.
#[inline(always)]
unsafe fn scatter_two<const WAYS: usize>(words: uint64x2_t, state: *mut u64, row: usize, way: usize) {
    // SAFETY: the caller's promise; NEON is part of every level here.
    unsafe {
        *state.add(row * WAYS + way) = vgetq_lane_u64::<0>(words);
        *state.add((row + 1) * WAYS + way) = vgetq_lane_u64::<1>(words);
    }
}
