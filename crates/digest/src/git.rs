//! Git's names of files: the hash of `blob LENGTH`, a zero byte, and the content. The length comes first, so
//! it must be known before the first byte.

use std::sync::Arc;

use crate::digest::Digest;
use crate::error::DigestError;
use crate::provider::{DigestStream, Policy, StreamFactory};

/// Each name, and the digest that it is made with.
const NAMES: [(&str, &str); 2] = [("git-blob", "sha1"), ("git-blob-sha256", "sha256")];

/// The digests that git names files by.
pub fn git_digests() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// What stands before a file of so many bytes.
pub(crate) fn header(length: u64) -> Vec<u8> {
    format!("blob {length}\0").into_bytes()
}

/// The digest of this name, and the one that it is made with.
pub(crate) fn find(name: &str, policy: &Policy) -> Option<Result<(&'static str, Digest), DigestError>> {
    let (name, inner) = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(Digest::find_with(inner, policy).map(|inner| (*name, inner)))
}

/// Starts files.
struct GitFactory {
    name: &'static str,
    inner: Digest,
}

pub(crate) fn factory(name: &'static str, inner: Digest) -> Arc<dyn StreamFactory> {
    Arc::new(GitFactory { name, inner })
}

impl StreamFactory for GitFactory {
    fn start(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        let inner = self.inner.stream()?;
        Ok(Box::new(Blob { name: self.name, inner, expected: None, length: 0 }))
    }

    fn kernel_level(&self) -> Option<verisum_kernels::Level> {
        self.inner.stream_level()
    }
}

/// A file that is being hashed.
struct Blob {
    name: &'static str,
    inner: Box<dyn DigestStream>,
    /// Its length as it was told. The header is hashed already.
    expected: Option<u64>,
    length: u64,
}

impl Blob {
    fn expected(&mut self) -> Result<u64, DigestError> {
        self.expected.ok_or_else(|| DigestError::Length {
            name: self.name.to_string(),
            reason: "needs the length beforehand, which nothing tells here",
        })
    }
}

impl DigestStream for Blob {
    fn expect(&mut self, length: u64) -> Result<(), DigestError> {
        self.expected = Some(length);
        self.inner.update(&header(length))
    }

    fn update(&mut self, data: &[u8]) -> Result<(), DigestError> {
        self.expected()?;
        self.length += data.len() as u64;
        self.inner.update(data)
    }

    fn finish(&mut self, digest: &mut [u8]) -> Result<(), DigestError> {
        let expected = self.expected()?;
        self.inner.finish(digest)?;
        self.expected = None;
        match std::mem::take(&mut self.length) == expected {
            true => Ok(()),
            false => Err(DigestError::Length {
                name: self.name.to_string(),
                reason: "there are more or fewer bytes than the length that was told beforehand",
            }),
        }
    }

    fn copy(&self) -> Result<Box<dyn DigestStream>, DigestError> {
        let Blob { name, ref inner, expected, length } = *self;
        Ok(Box::new(Blob { name, inner: inner.copy()?, expected, length }))
    }
}
