//! The bytes of a digest.

use std::fmt;

use crate::MAX_DIGEST_LEN;

/// A digest of up to [`MAX_DIGEST_LEN`] bytes. Displays as lowercase hexadecimal.
#[derive(Clone, Copy)]
pub struct Output {
    bytes: [u8; MAX_DIGEST_LEN],
    len: u8,
}

impl Output {
    /// A digest of `len` zero bytes, to be filled in.
    ///
    /// # Panics
    /// If `len` is more than [`MAX_DIGEST_LEN`].
    pub fn zeroed(len: usize) -> Self {
        assert!(len <= MAX_DIGEST_LEN, "no digest is {len} bytes long");
        Output { bytes: [0; MAX_DIGEST_LEN], len: len as u8 }
    }

    /// The digest's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The digest's bytes, to be filled in.
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.len)]
    }
}

impl PartialEq for Output {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Output {}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 2 * MAX_DIGEST_LEN];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.as_bytes()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text[..2 * usize::from(self.len)]).unwrap_or_default())
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Output({self})")
    }
}
