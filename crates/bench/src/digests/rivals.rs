//! Rust libraries that verisum does not use: RustCrypto, ring, AWS-LC. Built with the feature `rivals`.

use verisum_digest::{DigestError, DigestStream};

/// The streams that they have of a digest.
pub(super) fn streams(digest: &str) -> Vec<(&'static str, Box<dyn DigestStream>)> {
    let rust_crypto: Option<Box<dyn DigestStream>> = match digest {
        "md5" => Some(RustCrypto::<md5::Md5>::boxed()),
        "sha1" => Some(RustCrypto::<sha1::Sha1>::boxed()),
        "sha224" => Some(RustCrypto::<sha2::Sha224>::boxed()),
        "sha256" => Some(RustCrypto::<sha2::Sha256>::boxed()),
        "sha384" => Some(RustCrypto::<sha2::Sha384>::boxed()),
        "sha512" => Some(RustCrypto::<sha2::Sha512>::boxed()),
        "sha3-256" => Some(RustCrypto::<sha3::Sha3_256>::boxed()),
        "sha3-512" => Some(RustCrypto::<sha3::Sha3_512>::boxed()),
        "blake2b512" => Some(RustCrypto::<blake2::Blake2b512>::boxed()),
        "blake2s256" => Some(RustCrypto::<blake2::Blake2s256>::boxed()),
        "ripemd160" => Some(RustCrypto::<ripemd::Ripemd160>::boxed()),
        _ => None,
    };
    let ring: Option<&'static ring::digest::Algorithm> = match digest {
        "sha1" => Some(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY),
        "sha256" => Some(&ring::digest::SHA256),
        "sha384" => Some(&ring::digest::SHA384),
        "sha512" => Some(&ring::digest::SHA512),
        _ => None,
    };
    let aws: Option<&'static aws_lc_rs::digest::Algorithm> = match digest {
        "sha1" => Some(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY),
        "sha224" => Some(&aws_lc_rs::digest::SHA224),
        "sha256" => Some(&aws_lc_rs::digest::SHA256),
        "sha384" => Some(&aws_lc_rs::digest::SHA384),
        "sha512" => Some(&aws_lc_rs::digest::SHA512),
        "sha3-256" => Some(&aws_lc_rs::digest::SHA3_256),
        "sha3-512" => Some(&aws_lc_rs::digest::SHA3_512),
        _ => None,
    };
    let mut streams = Vec::new();
    streams.extend(rust_crypto.map(|stream| ("RustCrypto", stream)));
    streams.extend(ring.map(|algorithm| {
        let stream: Box<dyn DigestStream> = Box::new(Ring(ring::digest::Context::new(algorithm)));
        ("ring", stream)
    }));
    streams.extend(aws.map(|algorithm| {
        let stream: Box<dyn DigestStream> = Box::new(AwsLc(aws_lc_rs::digest::Context::new(algorithm)));
        ("AWS-LC", stream)
    }));
    streams
}

struct RustCrypto<D>(D);

impl<D: sha2::Digest + sha2::digest::FixedOutputReset + Clone + Send + 'static> RustCrypto<D> {
    fn boxed() -> Box<dyn DigestStream> {
        Box::new(RustCrypto(D::new()))
    }
}

impl<D: sha2::Digest + sha2::digest::FixedOutputReset + Clone + Send + 'static> DigestStream
    for RustCrypto<D>
{
    fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
        sha2::Digest::update(&mut self.0, data);
        Ok(())
    }

    fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
        digest.copy_from_slice(&self.0.finalize_reset());
        Ok(())
    }

    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new(RustCrypto(self.0.clone())))
    }
}

/// A stream of ring, or of AWS-LC, which has its interface.
macro_rules! stream {
    ($stream:ident, $library:ident) => {
        struct $stream($library::digest::Context);

        impl DigestStream for $stream {
            fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
                self.0.update(data);
                Ok(())
            }

            fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
                let fresh = $library::digest::Context::new(self.0.algorithm());
                digest.copy_from_slice(std::mem::replace(&mut self.0, fresh).finish().as_ref());
                Ok(())
            }

            fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
                Ok(Box::new($stream(self.0.clone())))
            }
        }
    };
}

stream!(Ring, ring);
stream!(AwsLc, aws_lc_rs);
