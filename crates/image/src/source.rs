//! The trait that every image format implements.

use std::ops::Range;

use crate::Error;

/// What a part of an image is known to hold before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// Bytes that must be read. They may still turn out to be zeros.
    Data,
    /// Bytes that read as zeros: a hole, an unallocated or a zero cluster.
    Zero,
}

/// A run of bytes of one kind, `start` inclusive, `end` exclusive, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Byte offsets in the guest's view of the image.
    pub range: Range<u64>,
    /// What is known about them.
    pub kind: ExtentKind,
}

/// A disk image of known length that can be read anywhere, from any thread.
pub trait Image: Send + Sync {
    /// Length in bytes of what a guest would see. It stays the same for the life of the value.
    fn length(&self) -> u64;

    /// Appends the extents at the start of `range` to `out`, in order and without gaps.
    ///
    /// At least one extent is appended when `range` is not empty, and an implementation may stop early
    /// to bound its time and memory: the caller goes on from the end of the last one. No extent
    /// reaches beyond `range`. `range` lies within the image.
    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), Error>;

    /// Fills all of `buf` with the bytes at `offset`. `offset + buf.len()` lies within the image.
    ///
    /// Fast where `offset`, the length and the address of `buf` are multiples of [`Image::alignment`];
    /// correct everywhere.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), Error>;

    /// The alignment in bytes, a power of two, at which reads are fastest.
    fn alignment(&self) -> usize {
        1
    }

    /// Fails if the image was seen to change its length since it was opened, so that what was read is
    /// no single state of it. Called once, after the last read.
    fn check_unchanged(&self) -> Result<(), Error> {
        Ok(())
    }

    /// How many zero bytes at the end of [`Image::length`] are not stored: what a guest sees after the
    /// end of a raw file whose length is no multiple of a sector.
    fn padded_by(&self) -> u64 {
        0
    }

    /// Length in bytes of what is stored: [`Image::length`] without the padding.
    fn exact_length(&self) -> u64 {
        self.length() - self.padded_by()
    }

    /// Whether the stored bytes may have been written to since the image was opened, though the length
    /// stayed the same. `false` where nobody can tell, as for block devices.
    fn modified_during(&self) -> bool {
        false
    }
}
