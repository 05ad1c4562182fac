//! How much of a file is in the page cache (`cachestat`, since Linux 6.5).

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

/// What is in the page cache of a part of a file, in pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStat {
    /// Those that are there.
    pub cached: u64,
    /// Those of them that differ from the disk.
    pub dirty: u64,
    /// Those of them that are on their way to the disk.
    pub in_writeback: u64,
    /// Those that were there before.
    pub evicted: u64,
    /// Those of them that were there lately.
    pub recently_evicted: u64,
}

impl CacheStat {
    /// Whether all pages of a part of a file are in the page cache.
    pub fn has_all(&self, part: &Range<u64>) -> bool {
        let page = rustix::param::page_size() as u64;
        self.cached >= part.end.div_ceil(page) - part.start / page
    }
}

/// What is in the page cache of a part of a file. Until the end of the file if the part is empty and begins at 0.
///
/// # Errors
/// Older systems do not know the call. Newer ones refuse it for files that this user neither owns nor may write to.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn cache_stat(file: impl AsFd, part: &Range<u64>) -> io::Result<CacheStat> {
    use std::os::fd::AsRawFd;

    /// The C library of most systems has no name for it yet. The number is the same on all processors that Rust
    /// knows, but for MIPS, where it stands for nothing.
    const CACHESTAT: libc::c_long = 451;

    // `struct cachestat_range`: the first byte, and how many.
    let range = [part.start, part.end.saturating_sub(part.start)];
    let mut found = CacheStat::default();
    // SAFETY: The descriptor is open. The call reads two numbers of 64 bits, and writes the five of `struct cachestat`.
    // A system that does not know it fails.
    let result = unsafe {
        libc::syscall(CACHESTAT, file.as_fd().as_raw_fd(), range.as_ptr(), &raw mut found, 0 as libc::c_uint)
    };
    if result == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
}

/// No other system tells it.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn cache_stat(_: impl AsFd, _: &Range<u64>) -> io::Result<CacheStat> {
    Err(io::ErrorKind::Unsupported.into())
}
