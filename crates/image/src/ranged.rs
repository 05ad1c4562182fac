//! The bytes of a raw image, in a file or from any source that can be read by ranges.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffered::Buffered;

/// Bytes of a known length that are read anywhere, from any thread: an object in a bucket.
pub trait RangedSource: Send + Sync {
    /// Its length in bytes.
    fn length(&self) -> u64;

    /// Fills all of `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// They cannot be read, or are no longer those that were opened.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Where the bytes of a raw image are.
pub(crate) enum RawBytes {
    File(Buffered),
    Ranged(Box<dyn RangedSource>),
}

impl fmt::Debug for RawBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RawBytes::File(file) => file.fmt(f),
            RawBytes::Ranged(source) => write!(f, "Ranged({} bytes)", source.length()),
        }
    }
}

impl RawBytes {
    /// Reads some of the bytes at `offset`; none at the end of a file.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            RawBytes::File(file) => file.read(buffer, offset),
            RawBytes::Ranged(source) => source.read_at(buffer, offset).map(|()| buffer.len()),
        }
    }

    /// The file, where it is one.
    pub(crate) fn file(&self) -> Option<&std::fs::File> {
        match self {
            RawBytes::File(file) => Some(&file.file),
            RawBytes::Ranged(_) => None,
        }
    }
}

/// A number that no file and no other source has in the place of a device and an inode.
pub(crate) fn identity() -> (u64, u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    (u64::MAX, NEXT.fetch_add(1, Ordering::Relaxed))
}
