//! The kernels of x86-64, and the order in which they take over as lanes run out.

mod avx2;
mod avx512;
mod bmi;
mod shani;

use core::arch::x86_64::__cpuid;
use core::ops::RangeInclusive;
use std::sync::OnceLock;

use super::{Stage, portable};
use crate::Level;
use crate::spec::Compression;

macro_rules! tokens {
    ($($(#[$attribute:meta])* $name:ident: $($feature:tt),*;)*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Copy)]
            pub(crate) struct $name(());

            impl $name {
                /// Asks the processor, through the standard library's cache.
                pub(crate) fn new() -> Option<Self> {
                    let has = true $(&& std::arch::is_x86_feature_detected!($feature))*;
                    has.then_some($name(()))
                }
            }
        )*
    };
}

tokens! {
    /// Evidence that the processor has the SHA extensions.
    ShaNi: "sha", "sse4.1", "ssse3", "avx";
    /// Evidence that the processor has AVX2, and the bit manipulation instructions
    /// that came with it.
    Avx2: "avx2", "bmi1", "bmi2";
    /// Evidence that the processor has the AVX-512 instructions in use.
    Avx512: "avx512f", "bmi1", "bmi2", "avx512bw", "avx512dq", "avx512vl";
}

/// Makes a token without asking.
macro_rules! assume {
    ($($token:ident),*) => {$(
        impl $token {
            /// # Safety
            ///
            /// The processor must have the level.
            #[inline(always)]
            pub(crate) unsafe fn assume() -> Self {
                $token(())
            }
        }
    )*};
}

assume!(Avx2, Avx512);

/// Processors of one design, as `cpuid` tells them.
struct Design {
    vendor: &'static [u8; 12],
    family: u32,
    models: RangeInclusive<u32>,
}

/// The processors on which the numbers of [`stages`] were measured.
const MEASURED: &[Design] =
    // Zen 4 for servers: EPYC 9004.
    &[Design { vendor: b"AuthenticAMD", family: 0x19, models: 0x10..=0x1f }];

/// Tells whether this is a processor on which the numbers of [`stages`] were measured.
pub(crate) fn is_measured() -> bool {
    // In a virtual machine each question takes microseconds.
    static IS_MEASURED: OnceLock<bool> = OnceLock::new();
    *IS_MEASURED.get_or_init(|| {
        #[allow(unused_unsafe, reason = "the function is safe only in newer versions of Rust")]
        // SAFETY: every 64-bit processor has the instruction.
        let (leaf0, leaf1) = unsafe { (__cpuid(0), __cpuid(1)) };
        let vendor = [leaf0.ebx, leaf0.edx, leaf0.ecx].map(u32::to_le_bytes);
        let bits = |start: u32, count: u32| leaf1.eax >> start & ((1 << count) - 1);
        // The extension counts where the family is 15, or 6 as that of most of Intel's.
        let (family, model) = match bits(8, 4) {
            15 => (15 + bits(20, 8), bits(16, 4) << 4 | bits(4, 4)),
            6 => (6, bits(16, 4) << 4 | bits(4, 4)),
            family => (family, bits(4, 4)),
        };
        MEASURED.iter().any(|design| {
            vendor.as_flattened() == design.vendor
                && family == design.family
                && design.models.contains(&model)
        })
    })
}

/// Returns the stages at a level that the processor has.
///
/// `from` says how many messages make a stage worth it, compared with the next.
/// The numbers follow from the crate's benchmark on the processors of [`MEASURED`]:
/// the time that the stage takes for a block of all its lanes, divided by that of
/// the next for one message. Elsewhere a short measurement takes their place.
pub(crate) fn stages(compression: Compression, level: Level) -> Option<&'static [Stage]> {
    macro_rules! stages {
        ($($lanes:literal from $worth:literal: $level:ident::$function:ident),*) => {
            &[$(Stage { lanes: $lanes, worth: $worth, compress: $level::$function }),*]
        };
    }
    // The last few lanes of the wider levels are left to the SHA extensions,
    // which most processors with those levels have.
    let sha = ShaNi::new().is_some();
    use Compression::*;
    let stages: &'static [Stage] = match level {
        Level::Portable => portable::stages(compression),
        Level::ShaNi => match compression {
            Sha1 => stages![2 from 2: shani::sha1x2, 1 from 1: shani::sha1],
            Sha256 => stages![2 from 2: shani::sha256x2, 1 from 1: shani::sha256],
            _ => return None,
        },
        Level::Avx2 => match compression {
            Md4 => stages![16 from 3: avx2::md4x16, 1 from 1: bmi::md4],
            Md5 => stages![16 from 3: avx2::md5x16, 1 from 1: bmi::md5],
            Ripemd160 => stages![8 from 3: avx2::ripemd160, 1 from 1: bmi::ripemd160],
            Sha1 if sha => {
                stages![8 from 7: avx2::sha1, 2 from 2: shani::sha1x2, 1 from 1: shani::sha1]
            }
            Sha1 => stages![8 from 3: avx2::sha1, 1 from 1: bmi::sha1],
            // Slower than the SHA extensions even with all lanes in use: no choice
            // but that of exactly this level takes it.
            Sha256 if sha => {
                stages![8 from 8: avx2::sha256, 2 from 2: shani::sha256x2, 1 from 1: shani::sha256]
            }
            Sha256 => stages![8 from 2: avx2::sha256, 1 from 1: bmi::sha256],
            Sm3 => stages![8 from 3: avx2::sm3, 1 from 1: bmi::sm3],
            // In GB/s of 4 KiB: one 0.84; four lanes of two 0.73, of three 1.10, of four 1.46; eight lanes of six 1.14
            // (four and two single ones 1.17), of seven 1.33.
            Sha512 => {
                stages![8 from 7: avx2::sha512x8, 4 from 3: avx2::sha512, 1 from 1: bmi::sha512]
            }
            Blake2s => stages![8 from 3: avx2::blake2s, 1 from 1: bmi::blake2s],
            Blake2b => {
                stages![8 from 5: avx2::blake2bx8, 4 from 3: avx2::blake2b, 1 from 1: bmi::blake2b]
            }
            Keccak9 => stages![4 from 2: avx2::keccak9, 1 from 1: bmi::keccak9],
            Keccak13 => stages![4 from 2: avx2::keccak13, 1 from 1: bmi::keccak13],
            Keccak17 => stages![4 from 2: avx2::keccak17, 1 from 1: bmi::keccak17],
            Keccak18 => stages![4 from 2: avx2::keccak18, 1 from 1: bmi::keccak18],
            Keccak21 => stages![4 from 2: avx2::keccak21, 1 from 1: bmi::keccak21],
        },
        Level::Avx512 => match compression {
            Md4 => {
                stages![32 from 17: avx512::md4x32, 16 from 2: avx512::md4, 1 from 1: bmi::md4]
            }
            Md5 => {
                stages![32 from 17: avx512::md5x32, 16 from 3: avx512::md5, 1 from 1: bmi::md5]
            }
            // Half as many lanes of AVX2 take less time for few messages, most so by RIPEMD-160, whose two lines
            // leave little to be done at once.
            Ripemd160 => stages![
                32 from 17: avx512::ripemd160x32,
                16 from 9: avx512::ripemd160,
                8 from 2: avx2::ripemd160,
                1 from 1: bmi::ripemd160
            ],
            Sha1 if sha => {
                stages![16 from 8: avx512::sha1, 2 from 2: shani::sha1x2, 1 from 1: shani::sha1]
            }
            Sha1 => stages![16 from 2: avx512::sha1, 1 from 1: bmi::sha1],
            Sha256 if sha => stages![
                16 from 14: avx512::sha256,
                2 from 2: shani::sha256x2,
                1 from 1: shani::sha256
            ],
            Sha256 => stages![16 from 2: avx512::sha256, 1 from 1: bmi::sha256],
            Sm3 => stages![16 from 2: avx512::sm3, 1 from 1: bmi::sm3],
            // In GB/s of 4 KiB: one 0.84; eight lanes of two 0.71, of three 1.07.
            Sha512 => stages![8 from 3: avx512::sha512, 1 from 1: bmi::sha512],
            Blake2s => stages![
                16 from 9: avx512::blake2s,
                8 from 2: avx2::blake2s,
                1 from 1: bmi::blake2s
            ],
            Blake2b => stages![
                8 from 5: avx512::blake2b,
                4 from 2: avx2::blake2b,
                1 from 1: bmi::blake2b
            ],
            Keccak9 => stages![8 from 2: avx512::keccak9, 1 from 1: bmi::keccak9],
            Keccak13 => stages![8 from 2: avx512::keccak13, 1 from 1: bmi::keccak13],
            Keccak17 => stages![8 from 2: avx512::keccak17, 1 from 1: bmi::keccak17],
            Keccak18 => stages![8 from 2: avx512::keccak18, 1 from 1: bmi::keccak18],
            Keccak21 => stages![8 from 2: avx512::keccak21, 1 from 1: bmi::keccak21],
        },
        Level::Neon | Level::Sha2 | Level::Sha3 => return None,
    };
    Some(stages)
}
