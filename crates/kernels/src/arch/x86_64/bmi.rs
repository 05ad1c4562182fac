//! One lane in ordinary registers with the bit manipulation instructions, which
//! every processor with AVX2 has: rotations into another register and
//! `and` with a complement. They serve single messages at the wider levels.

use crate::algorithms::*;
use crate::vector::Scalar;

macro_rules! kernels {
    ($($function:ident = $algorithm:ty, $word:ty;)*) => {
        $(
            /// # Safety
            ///
            /// As for [`super::super::CompressFn`]; the level is AVX2.
            #[target_feature(enable = "bmi1,bmi2")]
            pub(crate) unsafe fn $function(
                state: *mut u64,
                pointers: *const *const u8,
                blocks: usize,
            ) {
                // SAFETY: the caller's promise is the same.
                unsafe { run::<Scalar<$word>, $algorithm, _, _>((), state, pointers, blocks) }
            }
        )*
    };
}

kernels! {
    md4 = Md4, u32;
    md5 = Md5, u32;
    ripemd160 = Ripemd160, u32;
    sha1 = Sha1, u32;
    sha256 = Sha256, u32;
    sm3 = Sm3, u32;
    sha512 = Sha512, u64;
    blake2s = Blake2s, u32;
    blake2b = Blake2b, u64;
    keccak9 = Keccak<9>, u64;
    keccak13 = Keccak<13>, u64;
    keccak17 = Keccak<17>, u64;
    keccak18 = Keccak<18>, u64;
    keccak21 = Keccak<21>, u64;
}
