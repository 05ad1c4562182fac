//! Detects memory that is all zeros, at the speed of the cache.

use std::sync::OnceLock;

use crate::Level;

/// Tells whether every byte is zero, at the first that is not.
pub fn is_zero(bytes: &[u8]) -> bool {
    static BEST: OnceLock<fn(&[u8]) -> bool> = OnceLock::new();
    let best = BEST.get_or_init(|| at(Level::best()).expect("the best level is available"));
    best(bytes)
}

/// Tells whether every byte is zero with the instructions of one level, or
/// returns `None` where the processor lacks it.
///
/// The SHA extensions have nothing for this; their level does as the portable
/// one.
pub fn is_zero_at(level: Level, bytes: &[u8]) -> Option<bool> {
    Some(at(level)?(bytes))
}

fn at(level: Level) -> Option<fn(&[u8]) -> bool> {
    if !level.available() {
        return None;
    }
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is available.
        Level::Avx512 => Some(|bytes| unsafe { x86_64::avx512(bytes) }),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level is available.
        Level::Avx2 => Some(|bytes| unsafe { x86_64::avx2(bytes) }),
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        // SAFETY: the level is available, and all of them have NEON.
        Level::Neon | Level::Sha2 | Level::Sha3 => Some(|bytes| unsafe { aarch64::neon(bytes) }),
        _ => Some(portable),
    }
}

fn portable(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<64>();
    chunks.iter().all(|chunk| {
        // Without branches within a chunk, so that the compiler may use what
        // vectors every processor of the target has.
        let (words, _) = chunk.as_chunks::<8>();
        words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word)) == 0
    }) && rest.iter().all(|&byte| byte == 0)
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use core::arch::x86_64::*;

    macro_rules! is_zero {
        (
            $name:ident, $feature:literal, $len:literal,
            $load:path, $or:path, |$vector:ident| $vector_is_zero:expr
        ) => {
            /// # Safety
            ///
            /// The processor must have the level.
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $name(bytes: &[u8]) -> bool {
                // Four vectors to a branch: two are loaded in each cycle.
                let (groups, rest) = bytes.as_chunks::<{ 4 * $len }>();
                for group in groups {
                    let start = group.as_ptr();
                    // SAFETY: the group is four vectors long.
                    let [a, b, c, d] = unsafe {
                        [
                            $load(start.cast()),
                            $load(start.add($len).cast()),
                            $load(start.add(2 * $len).cast()),
                            $load(start.add(3 * $len).cast()),
                        ]
                    };
                    let $vector = $or($or(a, b), $or(c, d));
                    if !$vector_is_zero {
                        return false;
                    }
                }
                super::portable(rest)
            }
        };
    }

    is_zero!(avx2, "avx2", 32, _mm256_loadu_si256, _mm256_or_si256, |vector| {
        _mm256_testz_si256(vector, vector) == 1
    });
    is_zero!(avx512, "avx512f", 64, _mm512_loadu_si512, _mm512_or_si512, |vector| {
        _mm512_test_epi64_mask(vector, vector) == 0
    });
}

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod aarch64 {
    use core::arch::aarch64::*;

    /// # Safety
    ///
    /// The processor must have NEON.
    #[target_feature(enable = "neon")]
    pub(super) unsafe fn neon(bytes: &[u8]) -> bool {
        // Eight vectors to a branch: what goes from them to ordinary registers takes long.
        let (groups, rest) = bytes.as_chunks::<128>();
        for group in groups {
            let start = group.as_ptr();
            // SAFETY: the group is eight vectors long.
            let [a, b, c, d, e, f, g, h] = unsafe {
                [
                    vld1q_u8(start),
                    vld1q_u8(start.add(16)),
                    vld1q_u8(start.add(32)),
                    vld1q_u8(start.add(48)),
                    vld1q_u8(start.add(64)),
                    vld1q_u8(start.add(80)),
                    vld1q_u8(start.add(96)),
                    vld1q_u8(start.add(112)),
                ]
            };
            let (one, other) =
                (vorrq_u8(vorrq_u8(a, b), vorrq_u8(c, d)), vorrq_u8(vorrq_u8(e, f), vorrq_u8(g, h)));
            if vmaxvq_u32(vreinterpretq_u32_u8(vorrq_u8(one, other))) != 0 {
                return false;
            }
        }
        super::portable(rest)
    }
}
