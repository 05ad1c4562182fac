//! The kernels of x86-64, and which of them follow each other as lanes run out.

mod avx2;
mod avx512;
mod shani;

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
    /// Evidence that the processor has AVX2.
    Avx2: "avx2";
    /// Evidence that the processor has the AVX-512 instructions in use.
    Avx512: "avx512f", "avx512bw", "avx512dq", "avx512vl";
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
/// `worth` says how many lanes must be in use for a stage to beat the next; the
/// numbers come from the crate's benchmark.
pub(crate) fn stages(compression: Compression, level: Level) -> Option<&'static [Stage]> {
    /// A list of stages, each with its lanes, worth and function.
    macro_rules! stages {
        ($($lanes:literal from $worth:literal: $function:path),*) => {
            &[$(Stage { lanes: $lanes, worth: $worth, compress: $function }),*]
        };
    }
    // Few lanes of the wider levels are left to the SHA extensions where the
    // processor has them too.
    let sha = ShaNi::new().is_some();
    let stages: &'static [Stage] = match (level, compression) {
        (Level::Portable, _) => portable::stages(compression),

        (Level::ShaNi, Compression::Sha1) => {
            stages![2 from 2: shani::sha1x2, 1 from 1: shani::sha1]
        }
        (Level::ShaNi, Compression::Sha256) => {
            stages![2 from 2: shani::sha256x2, 1 from 1: shani::sha256]
        }
        (Level::ShaNi, _) => return None,

        (Level::Avx2, Compression::Md4) => {
            stages![8 from 2: avx2::md4, 1 from 1: portable::md4]
        }
        (Level::Avx2, Compression::Md5) => {
            stages![8 from 2: avx2::md5, 1 from 1: portable::md5]
        }
        (Level::Avx2, Compression::Ripemd160) => {
            stages![8 from 2: avx2::ripemd160, 1 from 1: portable::ripemd160]
        }
        (Level::Avx2, Compression::Sha1) if sha => {
            stages![8 from 6: avx2::sha1, 2 from 2: shani::sha1x2, 1 from 1: shani::sha1]
        }
        (Level::Avx2, Compression::Sha1) => {
            stages![8 from 2: avx2::sha1, 1 from 1: portable::sha1]
        }
        (Level::Avx2, Compression::Sha256) if sha => {
            stages![8 from 8: avx2::sha256, 2 from 2: shani::sha256x2, 1 from 1: shani::sha256]
        }
        (Level::Avx2, Compression::Sha256) => {
            stages![8 from 2: avx2::sha256, 1 from 1: portable::sha256]
        }
        (Level::Avx2, Compression::Sm3) => {
            stages![8 from 2: avx2::sm3, 1 from 1: portable::sm3]
        }
        (Level::Avx2, Compression::Sha512) => {
            stages![4 from 2: avx2::sha512, 1 from 1: portable::sha512]
        }
        (Level::Avx2, Compression::Blake2s) => {
            stages![8 from 2: avx2::blake2s, 1 from 1: portable::blake2s]
        }
        (Level::Avx2, Compression::Blake2b) => {
            stages![4 from 2: avx2::blake2b, 1 from 1: portable::blake2b]
        }
        (Level::Avx2, Compression::Keccak9) => {
            stages![4 from 2: avx2::keccak9, 1 from 1: portable::keccak9]
        }
        (Level::Avx2, Compression::Keccak13) => {
            stages![4 from 2: avx2::keccak13, 1 from 1: portable::keccak13]
        }
        (Level::Avx2, Compression::Keccak17) => {
            stages![4 from 2: avx2::keccak17, 1 from 1: portable::keccak17]
        }
        (Level::Avx2, Compression::Keccak18) => {
            stages![4 from 2: avx2::keccak18, 1 from 1: portable::keccak18]
        }
        (Level::Avx2, Compression::Keccak21) => {
            stages![4 from 2: avx2::keccak21, 1 from 1: portable::keccak21]
        }

        (Level::Avx512, Compression::Md4) => {
            stages![32 from 17: avx512::md4x32, 16 from 2: avx512::md4, 1 from 1: portable::md4]
        }
        (Level::Avx512, Compression::Md5) => {
            stages![32 from 17: avx512::md5x32, 16 from 2: avx512::md5, 1 from 1: portable::md5]
        }
        (Level::Avx512, Compression::Ripemd160) => {
            stages![16 from 2: avx512::ripemd160, 1 from 1: portable::ripemd160]
        }
        (Level::Avx512, Compression::Sha1) if sha => {
            stages![16 from 7: avx512::sha1, 2 from 2: shani::sha1x2, 1 from 1: shani::sha1]
        }
        (Level::Avx512, Compression::Sha1) => {
            stages![16 from 2: avx512::sha1, 1 from 1: portable::sha1]
        }
        (Level::Avx512, Compression::Sha256) if sha => {
            stages![16 from 10: avx512::sha256, 2 from 2: shani::sha256x2, 1 from 1: shani::sha256]
        }
        (Level::Avx512, Compression::Sha256) => {
            stages![16 from 2: avx512::sha256, 1 from 1: portable::sha256]
        }
        (Level::Avx512, Compression::Sm3) => {
            stages![16 from 2: avx512::sm3, 1 from 1: portable::sm3]
        }
        (Level::Avx512, Compression::Sha512) => {
            stages![8 from 2: avx512::sha512, 1 from 1: portable::sha512]
        }
        (Level::Avx512, Compression::Blake2s) => {
            stages![16 from 2: avx512::blake2s, 1 from 1: portable::blake2s]
        }
        (Level::Avx512, Compression::Blake2b) => {
            stages![8 from 2: avx512::blake2b, 1 from 1: portable::blake2b]
        }
        (Level::Avx512, Compression::Keccak9) => {
            stages![8 from 2: avx512::keccak9, 1 from 1: portable::keccak9]
        }
        (Level::Avx512, Compression::Keccak13) => {
            stages![8 from 2: avx512::keccak13, 1 from 1: portable::keccak13]
        }
        (Level::Avx512, Compression::Keccak17) => {
            stages![8 from 2: avx512::keccak17, 1 from 1: portable::keccak17]
        }
        (Level::Avx512, Compression::Keccak18) => {
            stages![8 from 2: avx512::keccak18, 1 from 1: portable::keccak18]
        }
        (Level::Avx512, Compression::Keccak21) => {
            stages![8 from 2: avx512::keccak21, 1 from 1: portable::keccak21]
        }
    };
    Some(stages)
}
