//! The algorithms: what each digest is, apart from its implementations.

use DigestClass::{Cryptographic, ErrorDetecting, Fast, Null};

/// What a digest protects against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DigestClass {
    /// Made to resist an attacker, at least when it was published (MD5 and SHA-1 no longer do).
    Cryptographic,
    /// A fast hash of good distribution: finds accidents, and gives an attacker no trouble.
    Fast,
    /// A checksum that surely finds small errors of transmission.
    ErrorDetecting,
    /// Computes nothing; measures the machinery around a digest.
    Null,
}

impl DigestClass {
    /// The words used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Cryptographic => "cryptographic",
            Fast => "fast",
            ErrorDetecting => "error-detecting",
            Null => "null",
        }
    }
}

/// A mapping from messages to digests. Its value never changes once it has a row.
#[derive(Debug)]
pub struct Algorithm {
    /// The name under which verisum prints and stores it.
    pub id: &'static str,
    /// Other spellings that are understood; case, `_` and `/` for `-` never matter.
    pub aliases: &'static [&'static str],
    /// Length of the digest in bits.
    pub bits: u32,
    /// Length in bytes of the blocks that it takes a message in, as HMAC has to know it; 1 where it takes
    /// single bytes.
    pub block_len: usize,
    /// What it is good for.
    pub class: DigestClass,
    /// The first four bytes of SHA-256 over the digests of 256 messages: message `n`, for `n` from 0
    /// to 255, is the `n` bytes `(7·i + n) mod 256`. It tells in one number whether an implementation
    /// computes this mapping. `reference/digests.py` computes it independently.
    pub verification: u32,
}

impl Algorithm {
    /// The algorithm of this name or alias.
    pub fn find(name: &str) -> Option<&'static Algorithm> {
        let wanted = normalised(name);
        ALGORITHMS.iter().find(|a| a.id == wanted || a.aliases.contains(&wanted.as_str()))
    }

    /// Length of the digest in bytes.
    pub const fn digest_len(&self) -> usize {
        self.bits as usize / 8
    }
}

fn normalised(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            '_' | '/' => '-',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

const fn row(
    id: &'static str,
    aliases: &'static [&'static str],
    bits: u32,
    block_len: usize,
    class: DigestClass,
    verification: u32,
) -> Algorithm {
    Algorithm { id, aliases, bits, block_len, class, verification }
}

/// Every digest verisum knows by name.
pub static ALGORITHMS: &[Algorithm] = &[
    row("sha256", &["sha-256", "sha2-256"], 256, 64, Cryptographic, 0x8dd2_5d3c),
    row("sha224", &["sha-224", "sha2-224"], 224, 64, Cryptographic, 0x5d5b_bfe2),
    row("sha384", &["sha-384", "sha2-384"], 384, 128, Cryptographic, 0x8c00_477f),
    row("sha512", &["sha-512", "sha2-512"], 512, 128, Cryptographic, 0x0f2b_ddd3),
    row("sha512-224", &["sha-512-224", "sha2-512-224"], 224, 128, Cryptographic, 0x574c_0e95),
    row("sha512-256", &["sha-512-256", "sha2-512-256"], 256, 128, Cryptographic, 0x6aa7_8fb9),
    row("sha3-224", &[], 224, 144, Cryptographic, 0xb37d_0b30),
    row("sha3-256", &[], 256, 136, Cryptographic, 0x0ced_3127),
    row("sha3-384", &[], 384, 104, Cryptographic, 0x6f2a_3c13),
    row("sha3-512", &[], 512, 72, Cryptographic, 0x4f64_4243),
    row("shake128", &["shake-128"], 128, 168, Cryptographic, 0xc306_a25b),
    row("shake256", &["shake-256"], 256, 136, Cryptographic, 0xbf8a_2b4b),
    row("blake2b512", &["blake2b-512", "blake2b"], 512, 128, Cryptographic, 0xa6a1_5ba3),
    row("blake2s256", &["blake2s-256", "blake2s"], 256, 64, Cryptographic, 0x582d_5858),
    row("blake3", &["blake3-256", "b3"], 256, 64, Cryptographic, 0xa889_faa7),
    row("sm3", &[], 256, 64, Cryptographic, 0x85c6_6924),
    row("ripemd160", &["ripemd-160", "rmd160", "ripemd"], 160, 64, Cryptographic, 0xdbcb_9556),
    row("whirlpool", &[], 512, 64, Cryptographic, 0x2f51_d46f),
    row("sha1", &["sha-1"], 160, 64, Cryptographic, 0xbaba_6e62),
    row("md5", &[], 128, 64, Cryptographic, 0xbf61_4eb3),
    row("md5-sha1", &[], 288, 64, Cryptographic, 0xfa8b_0edc),
    row("md4", &[], 128, 64, Cryptographic, 0xbab0_df7c),
    row("xxh3-128", &["xxh128", "xxhash128"], 128, 64, Fast, 0xc05c_999f),
    row("xxh3-64", &["xxh3", "xxhash3"], 64, 64, Fast, 0x0752_b1ef),
    row("xxh64", &["xxhash64"], 64, 32, Fast, 0x70ef_6cb3),
    row("xxh32", &["xxhash32"], 32, 16, Fast, 0xf484_3dca),
    row("crc64-nvme", &["crc-64-nvme"], 64, 1, ErrorDetecting, 0x928f_0c05),
    row("crc64-xz", &["crc-64-xz", "crc64"], 64, 1, ErrorDetecting, 0x1d02_a62b),
    row("crc64-jones", &["crc-64-jones", "crc64-redis"], 64, 1, ErrorDetecting, 0x0653_506b),
    row("crc32c", &["crc-32c", "crc32-iscsi"], 32, 1, ErrorDetecting, 0x8274_37aa),
    row("crc32", &["crc-32"], 32, 1, ErrorDetecting, 0x888d_6170),
    row("adler32", &["adler-32"], 32, 1, ErrorDetecting, 0x87ff_e517),
    row("null", &[], 0, 1, Null, 0xe3b0_c442),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_stands_once_and_is_written_as_it_is_looked_up() {
        let mut seen = HashSet::new();
        for algorithm in ALGORITHMS {
            for name in std::iter::once(&algorithm.id).chain(algorithm.aliases) {
                assert!(seen.insert(*name), "{name} stands twice");
                assert_eq!(*name, normalised(name));
                assert_eq!(Algorithm::find(&name.to_uppercase()).unwrap().id, algorithm.id);
            }
        }
    }

    #[test]
    fn every_row_is_complete() {
        for algorithm in ALGORITHMS {
            assert_eq!(algorithm.bits % 8, 0, "{}", algorithm.id);
            assert!(algorithm.digest_len() <= crate::MAX_DIGEST_LEN);
            assert_eq!(algorithm.bits == 0, algorithm.class == Null);
            assert!(algorithm.block_len > 0);
            assert_ne!(algorithm.verification, 0, "{} has no verification code", algorithm.id);
        }
    }

    #[test]
    fn other_spellings_are_understood() {
        assert_eq!(Algorithm::find("SHA512/256").unwrap().id, "sha512-256");
        assert_eq!(Algorithm::find("XXH3_64").unwrap().id, "xxh3-64");
        assert!(Algorithm::find("sha2").is_none());
        assert!(Algorithm::find("").is_none());
    }
}
