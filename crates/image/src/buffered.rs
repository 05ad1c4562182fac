//! Reads through the page cache if direct I/O cannot be used.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, ReadWriteFlags};

/// `RWF_DONTCACHE`, since Linux 6.14: pages that this read brings in leave the cache with it, and those
/// that were there before stay.
const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// Requests below this many bytes may leave pages behind: dropping a page that the next small request
/// needs again would read it again.
const SMALLEST_DROPPED: usize = 64 << 10;

/// A descriptor that reads through the page cache.
#[derive(Debug)]
pub(crate) struct Buffered {
    pub(crate) file: Arc<File>,
    /// Whether to ask the kernel to keep nothing that was not there before; cleared when it cannot.
    drop_behind: AtomicBool,
}

impl Buffered {
    pub(crate) fn new(file: Arc<File>, drop_behind: bool) -> Self {
        Buffered { file, drop_behind: AtomicBool::new(drop_behind) }
    }

    /// Reads once; signals are not seen.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if buf.len() >= SMALLEST_DROPPED && self.drop_behind.load(Ordering::Relaxed) {
            let mut slices = [IoSliceMut::new(buf)];
            let result = rustix::io::retry_on_intr(|| {
                rustix::io::preadv2(&self.file, &mut slices, offset, DONT_CACHE)
            });
            match result {
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                    self.drop_behind.store(false, Ordering::Relaxed);
                }
                result => return Ok(result?),
            }
        }
        loop {
            match self.file.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}
