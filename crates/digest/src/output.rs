//! The bytes of a digest.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

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

    /// The digest of these bytes; none of no bytes, or of more than any digest has.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut output = (1..=MAX_DIGEST_LEN).contains(&bytes.len()).then(|| Output::zeroed(bytes.len()))?;
        output.as_mut_bytes().copy_from_slice(bytes);
        Some(output)
    }

    /// The digest that these hexadecimal digits of either case are; none if they are something else, or
    /// more than any digest has.
    pub fn from_hex(digits: &[u8]) -> Option<Self> {
        let len = HEXLOWER_PERMISSIVE.decode_len(digits.len()).ok()?;
        let mut output = (1..=MAX_DIGEST_LEN).contains(&len).then(|| Output::zeroed(len))?;
        HEXLOWER_PERMISSIVE.decode_mut(digits, output.as_mut_bytes()).ok()?;
        Some(output)
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
        let mut text = [0; 2 * MAX_DIGEST_LEN];
        f.write_str(HEXLOWER.encode_mut_str(self.as_bytes(), &mut text[..2 * usize::from(self.len)]))
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Output({self})")
    }
}
