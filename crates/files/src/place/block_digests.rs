//! Digests of the blocks of a file.

use std::ops::Range;

use verisum_digest::Digest;

/// The digests that were recorded of the blocks of a file, in their order. They say which blocks of which copy may be
/// good; that the whole is, only its own record says.
#[derive(Clone, Debug)]
pub struct BlockDigests {
    digest: Digest,
    /// How many bytes of each digest are kept.
    kept: usize,
    ends: Vec<u64>,
    values: Vec<u8>,
}

impl BlockDigests {
    /// Those of a file without a byte, of which the first `kept` bytes are kept.
    pub fn new(digest: Digest, kept: usize) -> BlockDigests {
        BlockDigests { digest, kept, ends: Vec::new(), values: Vec::new() }
    }

    /// Adds the next block: its length and its digest, or the beginning of that.
    pub fn push(&mut self, length: u64, value: &[u8]) {
        self.ends.push(self.length() + length);
        self.values.extend(value.iter().take(self.kept));
    }

    /// The length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// How many blocks there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of a block.
    pub fn block(&self, number: usize) -> Range<u64> {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        start..self.ends[number]
    }

    /// Whether bytes may be those of a block.
    ///
    /// # Errors
    /// The digest cannot be computed.
    pub fn is_good(&self, number: usize, bytes: &[u8]) -> Result<bool, verisum_digest::DigestError> {
        let block = self.block(number);
        if bytes.len() as u64 != block.end - block.start {
            return Ok(false);
        }
        let found = self.digest.hash(bytes)?;
        let expected = self.values.get(number * self.kept..(number + 1) * self.kept);
        Ok(expected.is_some_and(|expected| found.as_bytes().starts_with(expected)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_told_by_the_beginning_of_their_digests() {
        let digest = Digest::find("sha256").unwrap();
        let mut blocks = BlockDigests::new(digest.clone(), 16);
        for bytes in [&b"one"[..], b"three"] {
            blocks.push(bytes.len() as u64, digest.hash(bytes).unwrap().as_bytes());
        }
        assert_eq!((blocks.count(), blocks.length(), blocks.block(1)), (2, 8, 3..8));
        assert!(blocks.is_good(0, b"one").unwrap() && blocks.is_good(1, b"three").unwrap());
        assert!(!blocks.is_good(0, b"One").unwrap() && !blocks.is_good(1, b"one").unwrap());
    }
}
