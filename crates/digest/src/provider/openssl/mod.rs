//! Digests of the system's OpenSSL 3, which is loaded when a digest first needs it.
//!
//! Linking libcrypto costs about as much time at every start as starting a process does (the dynamic
//! loader's work, before any digest is asked for), and most runs never need it; so it is loaded by name
//! instead. `docs/architecture.md` has the measurement.

#[allow(unsafe_code)]
mod libcrypto;

use std::sync::Arc;

use super::{DigestStream, Policy, StreamFactory};
use crate::MAX_DIGEST_LEN;
use crate::algorithm::Algorithm;
use crate::error::DigestError;
use libcrypto::{Context, LibCrypto, Md};

/// OpenSSL gives extendable-output functions no length of their own; these are the usual ones, half
/// the capacity.
const XOF_LENGTHS: &[(&str, usize)] = &[("shake128", 16), ("shake256", 32)];

struct OpenSsl {
    name: Arc<str>,
    md: Arc<Md>,
    len: usize,
}

struct OpenSslStream {
    name: Arc<str>,
    context: Context,
    len: usize,
}

impl StreamFactory for OpenSsl {
    fn start(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        let context = Context::new(self.md.clone()).map_err(|operation| failed(&self.name, operation))?;
        Ok(Box::new(OpenSslStream { name: self.name.clone(), context, len: self.len }))
    }
}

impl DigestStream for OpenSslStream {
    fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
        self.context.update(data).map_err(|operation| failed(&self.name, operation))
    }

    fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
        assert_eq!(digest.len(), self.len, "room for exactly one digest");
        self.context.finish_and_reset(digest).map_err(|operation| failed(&self.name, operation))
    }

    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        let context = self.context.copy().map_err(|operation| failed(&self.name, operation))?;
        Ok(Box::new(OpenSslStream { name: self.name.clone(), context, len: self.len }))
    }
}

fn failed(name: &str, operation: &'static str) -> DigestError {
    DigestError::Failed { name: name.to_string(), operation }
}

fn open(name: &str) -> Result<OpenSsl, DigestError> {
    let unavailable = |reason: String| DigestError::Unavailable { name: name.to_string(), reason };
    let library = LibCrypto::load().map_err(|reason| unavailable(reason.to_string()))?;
    let md = library
        .fetch(name)
        .ok_or_else(|| unavailable(format!("OpenSSL {} does not offer it", library.version())))?;
    let len = XOF_LENGTHS
        .iter()
        .find(|(xof, _)| xof.eq_ignore_ascii_case(name))
        .map_or_else(|| md.len(), |&(_, len)| len);
    if len > MAX_DIGEST_LEN {
        return Err(unavailable(format!("its digest of {len} bytes is longer than {MAX_DIGEST_LEN}")));
    }
    Ok(OpenSsl { name: name.into(), md: Arc::new(md), len })
}

/// Opens a table row by OpenSSL, whose names are ours.
pub fn stream(algorithm: &'static Algorithm, _: &Policy) -> Result<Arc<dyn StreamFactory>, DigestError> {
    let opened = open(algorithm.id)?;
    if opened.len == algorithm.digest_len() {
        Ok(Arc::new(opened))
    } else {
        Err(DigestError::Unavailable {
            name: algorithm.id.to_string(),
            reason: format!("OpenSSL's digest of this name has {} bits", opened.len * 8),
        })
    }
}

/// Opens any digest by OpenSSL's name for it; also gives its length in bytes.
pub fn by_name(name: &str) -> Result<(usize, Arc<dyn StreamFactory>), DigestError> {
    let valid = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b));
    let known_absent = || DigestError::Unknown { name: format!("openssl:{name}") };
    if !valid {
        return Err(known_absent());
    }
    LibCrypto::load().map_err(|reason| DigestError::Unavailable {
        name: format!("openssl:{name}"),
        reason: reason.to_string(),
    })?;
    let opened = open(name).map_err(|_| known_absent())?;
    Ok((opened.len, Arc::new(opened)))
}

/// The names of all digests that the system's OpenSSL offers, in lower case and alphabetic order.
/// Empty where there is no OpenSSL.
pub fn names() -> Vec<String> {
    let Ok(library) = LibCrypto::load() else { return Vec::new() };
    let mut names = library.names();
    names.iter_mut().for_each(|name| name.make_ascii_lowercase());
    names.sort_unstable();
    names.dedup();
    names
}

/// The version of the system's OpenSSL (`3.0.19`), or why it cannot be used.
pub fn version() -> Result<String, String> {
    LibCrypto::load().map(LibCrypto::version).map_err(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_the_common_digests() {
        let names = names();
        for name in ["sha2-256", "md5", "sm3"] {
            assert!(names.iter().any(|n| n == name), "{name} is not among {names:?}");
        }
    }

    #[test]
    fn hostile_names_are_unknown() {
        for name in ["", "nosuch", "a\0b", "sha256;x", "SHA256:SHA1", "é", "null"] {
            let result = by_name(name);
            if name == "null" {
                assert_eq!(result.unwrap().0, 0);
            } else {
                assert!(matches!(result, Err(DigestError::Unknown { .. })), "{name:?}");
            }
        }
    }

    #[test]
    fn a_name_of_another_case_is_the_same_digest() {
        let (len, factory) = by_name("SHA2-256").unwrap();
        let mut digest = vec![0; len];
        let mut stream = factory.start().unwrap();
        stream.update(b"abc").unwrap();
        stream.finish(&mut digest).unwrap();
        assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
    }
}
