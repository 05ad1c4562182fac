//! The algorithms by name and digest length.

use crate::spec::{self, Spec};

/// The table of all algorithms: the name here, the name of OpenSSL, and what distinguishes it.
macro_rules! algorithms {
    ($($(#[$doc:meta])* $algorithm:ident $name:literal $spec:ident,)*) => {
        /// A hash algorithm that this crate has kernels for.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[allow(missing_docs)] // The names say all there is.
        pub enum KernelAlgorithm {
            $($(#[$doc])* $algorithm,)*
        }

        impl KernelAlgorithm {
            /// Every algorithm, in the order of declaration.
            pub const ALL: &[KernelAlgorithm] = &[$(KernelAlgorithm::$algorithm),*];

            /// Returns the name by which OpenSSL knows the algorithm, in lower case.
            pub const fn name(self) -> &'static str {
                match self {
                    $(KernelAlgorithm::$algorithm => $name,)*
                }
            }

            pub(crate) const fn spec(self) -> &'static Spec {
                match self {
                    $(KernelAlgorithm::$algorithm => &spec::$spec,)*
                }
            }
        }
    };
}

algorithms! {
    Md4 "md4" MD4,
    Md5 "md5" MD5,
    Ripemd160 "ripemd160" RIPEMD160,
    Sha1 "sha1" SHA1,
    Sha224 "sha224" SHA224,
    Sha256 "sha256" SHA256,
    Sm3 "sm3" SM3,
    Sha384 "sha384" SHA384,
    Sha512 "sha512" SHA512,
    Sha512_224 "sha512-224" SHA512_224,
    Sha512_256 "sha512-256" SHA512_256,
    Blake2s256 "blake2s256" BLAKE2S256,
    Blake2b512 "blake2b512" BLAKE2B512,
    Sha3_224 "sha3-224" SHA3_224,
    Sha3_256 "sha3-256" SHA3_256,
    Sha3_384 "sha3-384" SHA3_384,
    Sha3_512 "sha3-512" SHA3_512,
    /// SHAKE128 with 16 bytes of output.
    Shake128 "shake128" SHAKE128,
    /// SHAKE256 with 32 bytes of output.
    Shake256 "shake256" SHAKE256,
}

impl KernelAlgorithm {
    /// Returns the length of a digest in bytes.
    pub const fn digest_len(self) -> usize {
        self.spec().digest_len
    }

    /// Returns the length of the blocks that the algorithm works on, in bytes.
    pub const fn block_len(self) -> usize {
        self.spec().block_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_list_is_in_order() {
        for (index, algorithm) in KernelAlgorithm::ALL.iter().enumerate() {
            assert_eq!(*algorithm as usize, index);
            let same = KernelAlgorithm::ALL.iter().filter(|a| a.name() == algorithm.name());
            assert_eq!(same.count(), 1, "{}", algorithm.name());
        }
    }
}
