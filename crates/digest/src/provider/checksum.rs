//! CRCs and Adler-32. Digests are the big-endian bytes of the number, as checksum tools print it.

use std::sync::Arc;

use crc_fast::CrcAlgorithm;

use super::{DigestStream, Fresh, Policy, StreamFactory};
use crate::algorithm::Algorithm;
use crate::error::DigestError;
use crate::output::Output;
use crate::parts::Parts;

struct Crc(crc_fast::Digest);

impl DigestStream for Crc {
    fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
        self.0.update(data);
        Ok(())
    }

    fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
        let value = self.0.finalize_reset().to_be_bytes();
        digest.copy_from_slice(&value[value.len() - digest.len()..]);
        Ok(())
    }

    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new(Crc(self.0)))
    }
}

/// Starts CRCs of one kind, whose digests have so many bytes.
struct CrcFactory(CrcAlgorithm, usize);

impl StreamFactory for CrcFactory {
    fn start(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new(Crc(crc_fast::Digest::new(self.0))))
    }

    fn parts(&self) -> Option<Parts> {
        Some(Parts::of_crc(self.0, self.1))
    }
}

/// Makes the opener of one CRC.
macro_rules! crc {
    ($function:ident, $algorithm:ident) => {
        pub fn $function(row: &'static Algorithm, _: &Policy) -> Result<Arc<dyn StreamFactory>, DigestError> {
            Ok(Arc::new(CrcFactory(CrcAlgorithm::$algorithm, row.digest_len())))
        }
    };
}

crc!(crc32, Crc32IsoHdlc);
crc!(crc32c, Crc32Iscsi);
crc!(crc64_jones, Crc64Redis);
crc!(crc64_nvme, Crc64Nvme);
crc!(crc64_xz, Crc64Xz);

struct Adler(simd_adler32::Adler32);

impl DigestStream for Adler {
    fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
        self.0.write(data);
        Ok(())
    }

    fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
        digest.copy_from_slice(&self.0.finish().to_be_bytes());
        self.0.reset();
        Ok(())
    }

    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        Ok(Box::new(Adler(self.0.clone())))
    }
}

pub fn adler32(_: &'static Algorithm, _: &Policy) -> Result<Arc<dyn StreamFactory>, DigestError> {
    Ok(Arc::new(Fresh(|| Adler(simd_adler32::Adler32::new()))))
}

/// The CRC of two messages in a row, of their CRCs and the length of the second in bytes. None of other digests.
pub fn combine_crcs(name: &str, first: &Output, second: &Output, length: u64) -> Option<Output> {
    let crc = match name {
        "crc32" => CrcAlgorithm::Crc32IsoHdlc,
        "crc32c" => CrcAlgorithm::Crc32Iscsi,
        "crc64-nvme" => CrcAlgorithm::Crc64Nvme,
        "crc64-xz" => CrcAlgorithm::Crc64Xz,
        "crc64-jones" => CrcAlgorithm::Crc64Redis,
        _ => return None,
    };
    let len = if name.starts_with("crc32") { 4 } else { 8 };
    let number = |output: &Output| {
        let bytes = output.as_bytes();
        (bytes.len() == len).then(|| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let joined = crc_fast::checksum_combine(crc, number(first)?, number(second)?, length);
    Output::from_bytes(&joined.to_be_bytes()[8 - len..])
}
