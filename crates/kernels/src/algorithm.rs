//! The algorithms by name and digest length.

use crate::spec::Spec;

/// A hash algorithm that this crate has kernels for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)] // The names say all there is.
pub enum Algorithm {
    Md4,
    Md5,
    Ripemd160,
    Sha1,
    Sha224,
    Sha256,
    Sm3,
    Sha384,
    Sha512,
    Sha512_224,
    Sha512_256,
    Blake2s256,
    Blake2b512,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
    /// SHAKE128 with 16 bytes of output.
    Shake128,
    /// SHAKE256 with 32 bytes of output.
    Shake256,
}

impl Algorithm {
    /// Every algorithm, in the order of declaration.
    pub const ALL: &[Algorithm] = &[
        Algorithm::Md4,
        Algorithm::Md5,
        Algorithm::Ripemd160,
        Algorithm::Sha1,
        Algorithm::Sha224,
        Algorithm::Sha256,
        Algorithm::Sm3,
        Algorithm::Sha384,
        Algorithm::Sha512,
        Algorithm::Sha512_224,
        Algorithm::Sha512_256,
        Algorithm::Blake2s256,
        Algorithm::Blake2b512,
        Algorithm::Sha3_224,
        Algorithm::Sha3_256,
        Algorithm::Sha3_384,
        Algorithm::Sha3_512,
        Algorithm::Shake128,
        Algorithm::Shake256,
    ];

    /// Returns the length of a digest in bytes.
    pub const fn digest_len(self) -> usize {
        Spec::of(self).digest_len
    }

    /// Returns the length of the blocks that the algorithm works on, in bytes.
    pub const fn block_len(self) -> usize {
        Spec::of(self).block_len
    }

    /// Returns the name by which OpenSSL knows the algorithm, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Md4 => "md4",
            Algorithm::Md5 => "md5",
            Algorithm::Ripemd160 => "ripemd160",
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha224 => "sha224",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sm3 => "sm3",
            Algorithm::Sha384 => "sha384",
            Algorithm::Sha512 => "sha512",
            Algorithm::Sha512_224 => "sha512-224",
            Algorithm::Sha512_256 => "sha512-256",
            Algorithm::Blake2s256 => "blake2s256",
            Algorithm::Blake2b512 => "blake2b512",
            Algorithm::Sha3_224 => "sha3-224",
            Algorithm::Sha3_256 => "sha3-256",
            Algorithm::Sha3_384 => "sha3-384",
            Algorithm::Sha3_512 => "sha3-512",
            Algorithm::Shake128 => "shake128",
            Algorithm::Shake256 => "shake256",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_list_is_in_order() {
        for (index, algorithm) in Algorithm::ALL.iter().enumerate() {
            assert_eq!(*algorithm as usize, index);
            let same = Algorithm::ALL.iter().filter(|a| a.name() == algorithm.name());
            assert_eq!(same.count(), 1, "{}", algorithm.name());
        }
    }
}
