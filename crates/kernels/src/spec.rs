//! Parameters of the algorithms: block length, initial state, padding, and how the state becomes the digest.

use crate::KernelAlgorithm;

/// The compression functions; several algorithms may share one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compression {
    Md4,
    Md5,
    Ripemd160,
    Sha1,
    Sha256,
    Sm3,
    Sha512,
    Blake2s,
    Blake2b,
    /// Keccak with a rate of this many 64-bit words.
    Keccak9,
    Keccak13,
    Keccak17,
    Keccak18,
    Keccak21,
}

impl Compression {
    /// How many there are.
    pub(crate) const COUNT: usize = Compression::Keccak21 as usize + 1;
}

/// How the end of a message is marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Padding {
    /// A one bit, zeros, and the length in bits as 8 bytes, little endian.
    LengthLittle64,
    /// The same with 8 bytes, big endian.
    LengthBig64,
    /// The same with 16 bytes, big endian.
    LengthBig128,
    /// Zeros; the state holds the count of bytes and a flag for the last block,
    /// which is never empty unless the message is.
    Blake2,
    /// These suffix bits, zeros, and a one bit at the end of the block.
    Keccak(u8),
}

/// A whole algorithm but for its compression function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) algorithm: KernelAlgorithm,
    pub(crate) compression: Compression,
    pub(crate) digest_len: usize,
    pub(crate) block_len: usize,
    /// The length of a word of the state in bytes: 4 or 8.
    pub(crate) word_len: usize,
    /// Whether the words of the digest are big endian.
    pub(crate) big_endian: bool,
    pub(crate) padding: Padding,
    /// The state before the first block; its length is that of the state.
    pub(crate) initial: &'static [u64],
}

/// The most bytes that follow the whole blocks of a message: two blocks.
pub(crate) const TAIL_LEN: usize = 256;

/// The most words that a state has: the 25 of Keccak.
pub(crate) const MAX_STATE_WORDS: usize = 25;

impl Spec {
    /// The same with digests of another length in bytes, where the algorithm has that.
    pub(crate) fn with_digest_len(&self, digest_len: usize) -> Option<&'static Spec> {
        let has_it = self.compression == Compression::Blake2b && digest_len > 0;
        BLAKE2B.get(digest_len).filter(|_| has_it)
    }

    /// Returns how many whole blocks at the start of `len` bytes can be hashed
    /// without knowing whether more bytes follow.
    pub(crate) fn body_blocks(&self, len: usize) -> usize {
        match self.padding {
            // The last block is marked, even when it is whole.
            Padding::Blake2 => len.saturating_sub(1) / self.block_len,
            _ => len / self.block_len,
        }
    }

    /// Writes the last blocks of a message of `total` bytes, of which `rest`
    /// has not been hashed, and returns how many they are: one or two.
    pub(crate) fn write_tail(&self, rest: &[u8], total: u64, tail: &mut [u8; TAIL_LEN]) -> usize {
        let block_len = self.block_len;
        let length_len = match self.padding {
            Padding::LengthLittle64 | Padding::LengthBig64 => 8,
            Padding::LengthBig128 => 16,
            Padding::Blake2 | Padding::Keccak(_) => 0,
        };
        let two = length_len > 0 && rest.len() + 1 + length_len > block_len;
        let blocks = 1 + usize::from(two);
        let tail = &mut tail[..blocks * block_len];
        let (head, padding) = tail.split_at_mut(rest.len());
        head.copy_from_slice(rest);
        padding.fill(0);
        let bits = u128::from(total) << 3;
        let end = tail.len();
        match self.padding {
            Padding::LengthLittle64 => {
                tail[rest.len()] = 0x80;
                tail[end - 8..].copy_from_slice(&(bits as u64).to_le_bytes());
            }
            Padding::LengthBig64 => {
                tail[rest.len()] = 0x80;
                tail[end - 8..].copy_from_slice(&(bits as u64).to_be_bytes());
            }
            Padding::LengthBig128 => {
                tail[rest.len()] = 0x80;
                tail[end - 16..].copy_from_slice(&bits.to_be_bytes());
            }
            Padding::Blake2 => {}
            Padding::Keccak(suffix) => {
                tail[rest.len()] = suffix;
                tail[end - 1] |= 0x80;
            }
        }
        blocks
    }
}

const fn spec32(
    algorithm: KernelAlgorithm,
    compression: Compression,
    digest_len: usize,
    padding: Padding,
    initial: &'static [u64],
) -> Spec {
    let big_endian = matches!(padding, Padding::LengthBig64);
    Spec { algorithm, compression, digest_len, block_len: 64, word_len: 4, big_endian, padding, initial }
}

const fn sha512(algorithm: KernelAlgorithm, digest_len: usize, initial: &'static [u64]) -> Spec {
    Spec {
        algorithm,
        compression: Compression::Sha512,
        digest_len,
        block_len: 128,
        word_len: 8,
        big_endian: true,
        padding: Padding::LengthBig128,
        initial,
    }
}

const fn keccak(algorithm: KernelAlgorithm, compression: Compression, digest_len: usize, suffix: u8) -> Spec {
    let rate_words = match compression {
        Compression::Keccak9 => 9,
        Compression::Keccak13 => 13,
        Compression::Keccak17 => 17,
        Compression::Keccak18 => 18,
        Compression::Keccak21 => 21,
        _ => panic!("not a rate of Keccak"),
    };
    Spec {
        algorithm,
        compression,
        digest_len,
        block_len: rate_words * 8,
        word_len: 8,
        big_endian: false,
        padding: Padding::Keccak(suffix),
        initial: &[0; 25],
    }
}

const MD_INITIAL: &[u64] = &[0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
const SHA1_INITIAL: &[u64] = &[0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];

pub(crate) static MD4: Spec =
    spec32(KernelAlgorithm::Md4, Compression::Md4, 16, Padding::LengthLittle64, MD_INITIAL);
pub(crate) static MD5: Spec =
    spec32(KernelAlgorithm::Md5, Compression::Md5, 16, Padding::LengthLittle64, MD_INITIAL);
pub(crate) static RIPEMD160: Spec =
    spec32(KernelAlgorithm::Ripemd160, Compression::Ripemd160, 20, Padding::LengthLittle64, SHA1_INITIAL);
pub(crate) static SHA1: Spec =
    spec32(KernelAlgorithm::Sha1, Compression::Sha1, 20, Padding::LengthBig64, SHA1_INITIAL);
pub(crate) static SHA224: Spec = spec32(
    KernelAlgorithm::Sha224,
    Compression::Sha256,
    28,
    Padding::LengthBig64,
    &[0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7, 0xbefa4fa4],
);
pub(crate) static SHA256: Spec = spec32(
    KernelAlgorithm::Sha256,
    Compression::Sha256,
    32,
    Padding::LengthBig64,
    &[0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19],
);
pub(crate) static SM3: Spec = spec32(
    KernelAlgorithm::Sm3,
    Compression::Sm3,
    32,
    Padding::LengthBig64,
    &[0x7380166f, 0x4914b2b9, 0x172442d7, 0xda8a0600, 0xa96f30bc, 0x163138aa, 0xe38dee4d, 0xb0fb0e4e],
);
#[rustfmt::skip]
pub(crate) static SHA384: Spec = sha512(
    KernelAlgorithm::Sha384,
    48,
    &[
        0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17, 0x152fecd8f70e5939,
        0x67332667ffc00b31, 0x8eb44a8768581511, 0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4,
    ],
);
#[rustfmt::skip]
pub(crate) static SHA512: Spec = sha512(
    KernelAlgorithm::Sha512,
    64,
    &[
        0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
        0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
    ],
);
#[rustfmt::skip]
pub(crate) static SHA512_224: Spec = sha512(
    KernelAlgorithm::Sha512_224,
    28,
    &[
        0x8c3d37c819544da2, 0x73e1996689dcd4d6, 0x1dfab7ae32ff9c82, 0x679dd514582f9fcf,
        0x0f6d2b697bd44da8, 0x77e36f7304c48942, 0x3f9d85a86a1d36c8, 0x1112e6ad91d692a1,
    ],
);
#[rustfmt::skip]
pub(crate) static SHA512_256: Spec = sha512(
    KernelAlgorithm::Sha512_256,
    32,
    &[
        0x22312194fc2bf72c, 0x9f555fa3c84c64c2, 0x2393b86b6f53b151, 0x963877195940eabd,
        0x96283ee2a88effe3, 0xbe5e1e2553863992, 0x2b0199fc2c85b8aa, 0x0eb72ddc81c52ca2,
    ],
);
// The parameter block (digest length, no key, fanout and depth 1) is folded
// into the first word. The words after the eighth are the count of bytes, in
// one or two words, and the flag of the last block.
pub(crate) static BLAKE2S256: Spec = spec32(
    KernelAlgorithm::Blake2s256,
    Compression::Blake2s,
    32,
    Padding::Blake2,
    &[
        0x6a09e667 ^ 0x01010020,
        0xbb67ae85,
        0x3c6ef372,
        0xa54ff53a,
        0x510e527f,
        0x9b05688c,
        0x1f83d9ab,
        0x5be0cd19,
        0,
        0,
        0,
    ],
);
pub(crate) static BLAKE2B512: Spec = BLAKE2B[64];

/// BLAKE2b with digests of each length in bytes; there is none of length 0, whose place has 512 bits too.
static BLAKE2B: [Spec; 65] = {
    let mut specs = [blake2b(64); 65];
    let mut len = 1;
    while len < specs.len() {
        specs[len] = blake2b(len);
        len += 1;
    }
    specs
};

/// RFC 7693 has the length of the digest in the first word of the state, so that the digests of two
/// lengths have nothing in common.
static BLAKE2B_INITIAL: [[u64; 10]; 65] = {
    let mut initial = [[
        0x6a09e667f3bcc908 ^ 0x01010000,
        0xbb67ae8584caa73b,
        0x3c6ef372fe94f82b,
        0xa54ff53a5f1d36f1,
        0x510e527fade682d1,
        0x9b05688c2b3e6c1f,
        0x1f83d9abfb41bd6b,
        0x5be0cd19137e2179,
        0,
        0,
    ]; 65];
    let mut len = 1;
    while len < initial.len() {
        initial[len][0] ^= len as u64;
        len += 1;
    }
    initial
};

const fn blake2b(digest_len: usize) -> Spec {
    Spec {
        algorithm: KernelAlgorithm::Blake2b512,
        compression: Compression::Blake2b,
        digest_len,
        block_len: 128,
        word_len: 8,
        big_endian: false,
        padding: Padding::Blake2,
        initial: &BLAKE2B_INITIAL[digest_len],
    }
}

pub(crate) static SHA3_224: Spec = keccak(KernelAlgorithm::Sha3_224, Compression::Keccak18, 28, 0x06);
pub(crate) static SHA3_256: Spec = keccak(KernelAlgorithm::Sha3_256, Compression::Keccak17, 32, 0x06);
pub(crate) static SHA3_384: Spec = keccak(KernelAlgorithm::Sha3_384, Compression::Keccak13, 48, 0x06);
pub(crate) static SHA3_512: Spec = keccak(KernelAlgorithm::Sha3_512, Compression::Keccak9, 64, 0x06);
pub(crate) static SHAKE128: Spec = keccak(KernelAlgorithm::Shake128, Compression::Keccak21, 16, 0x1f);
pub(crate) static SHAKE256: Spec = keccak(KernelAlgorithm::Shake256, Compression::Keccak17, 32, 0x1f);
