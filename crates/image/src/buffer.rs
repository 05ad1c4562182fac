//! An aligned buffer for direct I/O.

use std::ops::{Deref, DerefMut};

/// A buffer of fixed length that starts at a multiple of [`AlignedBuffer::ALIGNMENT`].
///
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// The alignment of the first byte: no storage in use asks for more than a page.
    pub const ALIGNMENT: usize = 4096;

    /// Makes a buffer of `length` zeros. Aborts the program where there is no memory for it.
    pub fn new(length: usize) -> Self {
        Self::aligned(vec![0; length + Self::ALIGNMENT - 1], length)
    }

    /// Makes a buffer of `length` zeros; `None` where there is no memory for it.
    pub fn try_new(length: usize) -> Option<Self> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(length.checked_add(Self::ALIGNMENT - 1)?).ok()?;
        memory.resize(length + Self::ALIGNMENT - 1, 0);
        Some(Self::aligned(memory, length))
    }

    fn aligned(memory: Vec<u8>, length: usize) -> Self {
        let start = memory.as_ptr().align_offset(Self::ALIGNMENT);
        AlignedBuffer { memory, start, length }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuffer").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_aligned_and_zero() {
        for length in [0, 1, 511, 4095, 4096, 4097, 1 << 20] {
            let mut buffer = AlignedBuffer::try_new(length).unwrap();
            assert_eq!(buffer.len(), length);
            assert_eq!(buffer.as_ptr() as usize % AlignedBuffer::ALIGNMENT, 0);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            assert!(buffer.iter().all(|&byte| byte == 7));
        }
        assert!(AlignedBuffer::try_new(usize::MAX / 2).is_none());
        assert!(AlignedBuffer::try_new(usize::MAX).is_none());
    }
}
