//! One lane in ordinary registers with the bit manipulation instructions: rotations into another register,
//! and `and` with a complement. Every processor with AVX2 has them. They serve single messages at the wider
//! levels.

use crate::algorithms::*;
use crate::arch::lanes::kernels;
use crate::vector::Scalar;

kernels! {
    "bmi1,bmi2", ();
    md4 = Md4, Scalar<u32>;
    md5 = Md5, Scalar<u32>;
    ripemd160 = Ripemd160, Scalar<u32>;
    sha1 = Sha1, Scalar<u32>;
    sha256 = Sha256, Scalar<u32>;
    sm3 = Sm3, Scalar<u32>;
    sha512 = Sha512, Scalar<u64>;
    blake2s = Blake2s, Scalar<u32>;
    blake2b = Blake2b, Scalar<u64>;
    keccak9 = Keccak<9>, Scalar<u64>;
    keccak13 = Keccak<13>, Scalar<u64>;
    keccak17 = Keccak<17>, Scalar<u64>;
    keccak18 = Keccak<18>, Scalar<u64>;
    keccak21 = Keccak<21>, Scalar<u64>;
}
