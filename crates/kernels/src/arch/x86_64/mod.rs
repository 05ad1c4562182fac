//! The kernels of x86-64, and which of them follow each other as lanes run out.

mod avx2;
mod avx512;
mod bmi;
mod shani;

use super::{Stage, portable};
use crate::Level;
use crate::names::{HashNamesFn, NameFunction, NameStage};
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
    ($token:ident) => {
        impl $token {
            /// # Safety
            ///
            /// The processor must have the level.
            #[inline(always)]
            pub(crate) unsafe fn assume() -> Self {
                $token(())
            }
        }
    };
}

assume!(Avx2);
assume!(Avx512);

/// Returns the stages at a level that the processor has.
///
/// `from` says how many messages make a stage worth it, compared with the next.
/// The numbers follow from the crate's benchmark: the time that the stage takes
/// for a block of all its lanes, divided by that of the next for one message.
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
            // Slower than the SHA extensions even with all lanes in use, but
            // whoever asks for this level gets it.
            Sha256 if sha => {
                stages![8 from 8: avx2::sha256, 2 from 2: shani::sha256x2, 1 from 1: shani::sha256]
            }
            Sha256 => stages![8 from 2: avx2::sha256, 1 from 1: bmi::sha256],
            Sm3 => stages![8 from 3: avx2::sm3, 1 from 1: bmi::sm3],
            Sha512 => {
                stages![8 from 5: avx2::sha512x8, 4 from 2: avx2::sha512, 1 from 1: bmi::sha512]
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
            Ripemd160 => stages![
                32 from 17: avx512::ripemd160x32,
                16 from 4: avx512::ripemd160,
                1 from 1: bmi::ripemd160
            ],
            Sha1 if sha => {
                stages![16 from 5: avx512::sha1, 2 from 2: shani::sha1x2, 1 from 1: shani::sha1]
            }
            Sha1 => stages![16 from 2: avx512::sha1, 1 from 1: bmi::sha1],
            Sha256 if sha => stages![
                16 from 8: avx512::sha256,
                2 from 2: shani::sha256x2,
                1 from 1: shani::sha256
            ],
            Sha256 => stages![16 from 2: avx512::sha256, 1 from 1: bmi::sha256],
            Sm3 => stages![16 from 2: avx512::sm3, 1 from 1: bmi::sm3],
            Sha512 => stages![8 from 2: avx512::sha512, 1 from 1: bmi::sha512],
            Blake2s => stages![16 from 3: avx512::blake2s, 1 from 1: bmi::blake2s],
            Blake2b => stages![8 from 2: avx512::blake2b, 1 from 1: bmi::blake2b],
            Keccak9 => stages![8 from 2: avx512::keccak9, 1 from 1: bmi::keccak9],
            Keccak13 => stages![8 from 2: avx512::keccak13, 1 from 1: bmi::keccak13],
            Keccak17 => stages![8 from 2: avx512::keccak17, 1 from 1: bmi::keccak17],
            Keccak18 => stages![8 from 2: avx512::keccak18, 1 from 1: bmi::keccak18],
            Keccak21 => stages![8 from 2: avx512::keccak21, 1 from 1: bmi::keccak21],
        },
    };
    Some(stages)
}

/// Returns what a level that the processor has can do with directory names.
pub(crate) fn name_stage(function: NameFunction, signed: bool, level: Level) -> Option<NameStage> {
    macro_rules! stage {
        ($lanes:literal, $level:ident) => {{
            let hash: HashNamesFn = match (function, signed) {
                (NameFunction::Legacy, false) => $level::names::legacy,
                (NameFunction::Legacy, true) => $level::names::legacy_signed,
                (NameFunction::HalfMd4, false) => $level::names::half_md4,
                (NameFunction::HalfMd4, true) => $level::names::half_md4_signed,
                (NameFunction::Tea, false) => $level::names::tea,
                (NameFunction::Tea, true) => $level::names::tea_signed,
            };
            Some(NameStage { lanes: $lanes, hash })
        }};
    }
    match level {
        Level::Portable | Level::ShaNi => None,
        Level::Avx2 => stage!(8, avx2),
        Level::Avx512 => stage!(16, avx512),
    }
}
