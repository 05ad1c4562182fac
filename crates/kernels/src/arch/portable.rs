//! The portable level: one lane in ordinary registers. All other levels are compared with it.

use super::Stage;
use crate::algorithms::*;
use crate::spec::Compression;
use crate::vector::Scalar;

macro_rules! kernels {
    ($($compression:ident $function:ident = $algorithm:ty, $word:ty;)*) => {
        $(
            /// # Safety
            ///
            /// As for [`super::CompressFn`]; any processor will do.
            pub(crate) unsafe fn $function(
                state: *mut u64,
                pointers: *const *const u8,
                blocks: usize,
            ) {
                // SAFETY: the caller's promise is the same.
                unsafe { run::<Scalar<$word>, $algorithm, _, _>((), state, pointers, blocks) }
            }
        )*

        pub(crate) fn stages(compression: Compression) -> &'static [Stage] {
            match compression {
                $(Compression::$compression => {
                    &[Stage { lanes: 1, worth: 1, compress: $function }]
                })*
            }
        }
    };
}

kernels! {
    Md4 md4 = Md4, u32;
    Md5 md5 = Md5, u32;
    Ripemd160 ripemd160 = Ripemd160, u32;
    Sha1 sha1 = Sha1, u32;
    Sha256 sha256 = Sha256, u32;
    Sm3 sm3 = Sm3, u32;
    Sha512 sha512 = Sha512, u64;
    Blake2s blake2s = Blake2s, u32;
    Blake2b blake2b = Blake2b, u64;
    Keccak9 keccak9 = Keccak<9>, u64;
    Keccak13 keccak13 = Keccak<13>, u64;
    Keccak17 keccak17 = Keccak<17>, u64;
    Keccak18 keccak18 = Keccak<18>, u64;
    Keccak21 keccak21 = Keccak<21>, u64;
}
