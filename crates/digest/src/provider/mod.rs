//! The implementations of each digest: one row for each, in order of preference.

mod blake3;
mod checksum;
mod kernels;
mod null;
mod openssl;
mod xxhash;

use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::error::DigestError;
use crate::parts::Parts;

pub(crate) use self::blake3::of_length as blake3_of_length;
pub use checksum::combine_crcs;
pub(crate) use kernels::blake2b;
pub use openssl::{by_name as openssl_by_name, names as openssl_names, version as openssl_version};
pub use verisum_kernels::Kernel as MultiBuffer;

/// A message being hashed piece by piece.
pub trait DigestStream: Send {
    /// Says how long the message will be, before its first byte. A few digests need to know; to the others it is nothing.
    fn expect(&mut self, length: u64) -> Result<(), DigestError> {
        let _ = length;
        Ok(())
    }

    /// Adds bytes to the message.
    fn update(&mut self, data: &[u8]) -> Result<(), DigestError>;

    /// Ends the message, writes its digest, and makes ready for the next one.
    ///
    /// # Panics
    /// If `digest` is not exactly as long as the digest.
    fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError>;

    /// Hashes a whole message, where none is begun. Some digests are much faster so.
    ///
    /// # Panics
    /// As [`DigestStream::finish`].
    fn hash(&mut self, message: &[u8], digest: &mut [u8]) -> Result<(), DigestError> {
        self.update(message)?;
        self.finish(digest)
    }

    /// Another message that begins with the bytes that this one has so far.
    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError>;
}

/// Starts messages of one digest. Whatever is costly (a look-up by name) was done when it was made.
pub trait StreamFactory: Send + Sync {
    /// Starts a message.
    fn start(&self) -> Result<Box<dyn DigestStream>, DigestError>;

    /// The level of our own kernel that does it; none if somebody else does.
    fn kernel_level(&self) -> Option<verisum_kernels::Level> {
        None
    }

    /// The parts that a message can be hashed in, each on its own; none where each byte waits for those before it.
    fn parts(&self) -> Option<Parts> {
        None
    }
}

/// What implementations may be used.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The highest SIMD level of our own kernels.
    pub max_level: verisum_kernels::Level,
}

impl Default for Policy {
    /// All that the processor has.
    fn default() -> Self {
        Policy { max_level: verisum_kernels::Level::best() }
    }
}

/// Makes a stream factory, or says why there is none on this machine.
type OpenStream = fn(&'static Algorithm, &Policy) -> Result<Arc<dyn StreamFactory>, DigestError>;

/// Gives the multi-buffer kernel, where one is of use.
type OpenBatch = fn(&'static Algorithm, &Policy) -> Option<MultiBuffer>;

/// One implementation of one algorithm.
pub struct Provider {
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// The implementation's name.
    pub name: &'static str,
    /// Opens its single-stream form.
    pub(crate) stream: Option<OpenStream>,
    /// Opens its multi-buffer form.
    pub(crate) batch: Option<OpenBatch>,
}

impl Provider {
    /// Starts a message with this very implementation. `None` where the row has only a batch form.
    pub fn stream(&self, policy: &Policy) -> Option<Result<Box<dyn DigestStream>, DigestError>> {
        Some((self.stream?)(self.algorithm(), policy).and_then(|factory| factory.start()))
    }

    /// Whether this row computes anything here.
    pub fn available(&self, policy: &Policy) -> bool {
        let algorithm = self.algorithm();
        self.stream.is_some_and(|open| open(algorithm, policy).is_ok())
            || self.batch.is_some_and(|open| open(algorithm, policy).is_some())
    }

    /// The algorithm's row.
    pub fn algorithm(&self) -> &'static Algorithm {
        Algorithm::find(self.algorithm).expect("a test checks that every provider names an algorithm")
    }
}

const fn row(
    algorithm: &'static str,
    name: &'static str,
    stream: Option<OpenStream>,
    batch: Option<OpenBatch>,
) -> Provider {
    Provider { algorithm, name, stream, batch }
}

/// Our SIMD kernels: batches always; single streams where the processor has instructions for them,
/// which then spares loading OpenSSL.
const fn kernels(algorithm: &'static str) -> Provider {
    row(algorithm, "kernels", Some(kernels::instruction_stream), Some(kernels::batch))
}

/// The system's OpenSSL: the fastest single stream of the SHA-2 family where the processor has no
/// instructions for it. Of the others our portable code is as fast, and spares loading a library; MD4 is
/// in a part of OpenSSL that many systems do not install.
const fn openssl(algorithm: &'static str) -> Provider {
    row(algorithm, "openssl", Some(openssl::stream), None)
}

/// Our portable code, which every machine has.
const fn portable(algorithm: &'static str) -> Provider {
    row(algorithm, "portable", Some(kernels::portable_stream), None)
}

/// Every implementation. For each algorithm the first row that is available serves, for single streams
/// and for batches apart.
pub static PROVIDERS: &[Provider] = &[
    kernels("sha256"),
    openssl("sha256"),
    portable("sha256"),
    kernels("sha224"),
    openssl("sha224"),
    portable("sha224"),
    kernels("sha1"),
    openssl("sha1"),
    portable("sha1"),
    kernels("sha384"),
    openssl("sha384"),
    portable("sha384"),
    kernels("sha512"),
    openssl("sha512"),
    portable("sha512"),
    kernels("sha512-224"),
    openssl("sha512-224"),
    portable("sha512-224"),
    kernels("sha512-256"),
    openssl("sha512-256"),
    portable("sha512-256"),
    kernels("sha3-224"),
    portable("sha3-224"),
    openssl("sha3-224"),
    kernels("sha3-256"),
    portable("sha3-256"),
    openssl("sha3-256"),
    kernels("sha3-384"),
    portable("sha3-384"),
    openssl("sha3-384"),
    kernels("sha3-512"),
    portable("sha3-512"),
    openssl("sha3-512"),
    kernels("shake128"),
    portable("shake128"),
    openssl("shake128"),
    kernels("shake256"),
    portable("shake256"),
    openssl("shake256"),
    kernels("blake2b512"),
    portable("blake2b512"),
    openssl("blake2b512"),
    kernels("blake2s256"),
    portable("blake2s256"),
    openssl("blake2s256"),
    kernels("sm3"),
    portable("sm3"),
    openssl("sm3"),
    kernels("ripemd160"),
    portable("ripemd160"),
    openssl("ripemd160"),
    kernels("md5"),
    portable("md5"),
    openssl("md5"),
    kernels("md4"),
    portable("md4"),
    openssl("md4"),
    openssl("md5-sha1"),
    openssl("whirlpool"),
    row("blake3", "blake3", Some(blake3::stream), None),
    row("xxh3-128", "xxhash", Some(xxhash::xxh3_128), None),
    row("xxh3-64", "xxhash", Some(xxhash::xxh3_64), None),
    row("xxh64", "xxhash", Some(xxhash::xxh64), None),
    row("xxh32", "xxhash", Some(xxhash::xxh32), None),
    row("crc64-nvme", "crc", Some(checksum::crc64_nvme), None),
    row("crc64-xz", "crc", Some(checksum::crc64_xz), None),
    row("crc64-jones", "crc", Some(checksum::crc64_jones), None),
    row("crc32c", "crc", Some(checksum::crc32c), None),
    row("crc32", "crc", Some(checksum::crc32), None),
    row("adler32", "adler", Some(checksum::adler32), None),
    row("null", "null", Some(null::stream), None),
];

/// A factory that makes each stream by calling a constructor.
struct Fresh<S>(fn() -> S);

impl<S: DigestStream + 'static> StreamFactory for Fresh<S> {
    fn start(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new((self.0)()))
    }
}
