//! Direct I/O: a second descriptor of the same file that bypasses the page cache. Also tells whether the
//! cache has a range already.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

/// What a kernel that cannot tell is taken to need: a page, the largest sector in use.
const UNKNOWN_ALIGNMENT: usize = 4096;

/// A descriptor opened with `O_DIRECT`, and what its reads must be aligned to.
#[derive(Debug)]
pub(crate) struct Direct {
    file: File,
    memory_alignment: usize,
    offset_alignment: usize,
    /// Set once a read was refused: some file systems accept the flag and then no read.
    refused: AtomicBool,
    /// Set once the system would not say what it has cached.
    silent: AtomicBool,
}

/// Why a direct read gave nothing.
pub(crate) enum Refusal {
    /// Direct I/O does not serve this request: read it through the page cache.
    Unsupported,
    /// The read was tried and failed.
    Failed(std::io::Error),
}

impl Direct {
    /// Opens `file` again for direct I/O; `None` where the file or the system refuses.
    pub(crate) fn open(file: &File, path: &Path) -> Option<Direct> {
        let (memory_alignment, offset_alignment) = alignment(file)?;
        let file = reopen(file, Some(path), OFlags::DIRECT)?;
        Some(Direct {
            file,
            memory_alignment,
            offset_alignment,
            refused: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        })
    }

    /// How many bytes at the start of `buf` can be read directly from `offset` of the file.
    pub(crate) fn reach(&self, buf: &[u8], offset: u64) -> usize {
        let suits = offset.is_multiple_of(self.offset_alignment as u64)
            && (buf.as_ptr() as usize).is_multiple_of(self.memory_alignment)
            && !self.is_refused();
        if suits { buf.len() - buf.len() % self.offset_alignment } else { 0 }
    }

    /// Whether the page cache holds all of a range that is not empty: copying it from there is many times
    /// faster than asking the device.
    pub(crate) fn is_cached(&self, offset: u64, length: usize) -> bool {
        if self.silent.load(Ordering::Relaxed) {
            return false;
        }
        let part = offset..offset + length as u64;
        match verisum_pagecache::cache_stat(&self.file, &part) {
            Ok(found) => found.has_all(&part),
            Err(_) => {
                self.silent.store(true, Ordering::Relaxed);
                false
            }
        }
    }

    /// Reads once. `buf` must be a prefix allowed by [`Direct::reach`].
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Refusal> {
        match rustix::io::retry_on_intr(|| rustix::io::pread(&self.file, &mut *buf, offset)) {
            Ok(count) => Ok(count),
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.refused.store(true, Ordering::Relaxed);
                Err(Refusal::Unsupported)
            }
            Err(error) => Err(Refusal::Failed(error.into())),
        }
    }

    /// Whether the file system accepted direct I/O and then refused to read so.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether an image that begins at `start` of the file has aligned offsets that are aligned in the
    /// file too.
    pub(crate) fn suits_start(&self, start: u64) -> bool {
        start.is_multiple_of(self.alignment() as u64)
    }

    /// The alignment that suits both memory and offsets.
    pub(crate) fn alignment(&self) -> usize {
        self.memory_alignment.max(self.offset_alignment)
    }
}

/// Opens the file behind `file` again, with an offset of its own and more flags.
///
/// Goes through `/proc` so that it is surely the same file; without `/proc` it goes through the path,
/// if there is one, and compares the file's identity.
pub(crate) fn reopen(file: &File, path: Option<&Path>, more: OFlags) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | more;
    let own_name = format!("/proc/self/fd/{}", file.as_raw_fd());
    match rustix::fs::open(&own_name, flags, Mode::empty()) {
        Ok(fd) => Some(fd.into()),
        Err(Errno::NOENT) => {
            let other = rustix::fs::open(path?, flags | OFlags::NONBLOCK, Mode::empty()).ok()?;
            let (one, two) = (rustix::fs::fstat(file).ok()?, rustix::fs::fstat(&other).ok()?);
            ((one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)).then(|| other.into())
        }
        Err(_) => None,
    }
}

/// The alignment direct I/O needs for memory and for offsets; `None` if the file has no direct I/O.
fn alignment(file: &File) -> Option<(usize, usize)> {
    let statx = rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    match statx {
        Some(statx) if StatxFlags::from_bits_retain(statx.stx_mask).contains(StatxFlags::DIOALIGN) => {
            let (memory, offset) = (statx.stx_dio_mem_align as usize, statx.stx_dio_offset_align as usize);
            (memory.is_power_of_two() && offset.is_power_of_two()).then_some((memory, offset))
        }
        _ => Some((UNKNOWN_ALIGNMENT, UNKNOWN_ALIGNMENT)),
    }
}
