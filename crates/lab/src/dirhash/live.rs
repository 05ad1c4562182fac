//! The hashes of a mounted ext4 directory, read without privileges.
//!
//! On ext4 the position that `getdents64` gives with an entry is where the next one begins, and that is
//! its hash: the major half, without the lowest bit, above the minor one.

use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fs::{Mode, OFlags, RawDir};

/// A name and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The hash, its lowest bit clear.
    pub hash: u32,
    /// The minor hash.
    pub minor: u32,
}

/// A directory as it is.
#[derive(Clone, Debug)]
pub struct LiveDirectory {
    /// Its names in the order of their hashes, without `.` and `..`.
    pub entries: Vec<LiveEntry>,
    /// Its length in bytes.
    pub size: u64,
    /// The block size of the file system.
    pub block_size: u64,
}

/// Why a directory cannot be read so.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// A system call failed.
    #[error("{operation}: {error}")]
    System {
        /// Which.
        operation: &'static str,
        /// Why.
        error: std::io::Error,
    },
    /// Positions are hashes on ext4 only.
    #[error("not on ext4, or its directories are not indexed")]
    NotExt4,
    /// Names came or went while it was read.
    #[error("the directory changed while it was read")]
    Changed,
}

/// `EXT4_SUPER_MAGIC`, also of ext2 and ext3.
const EXT4_MAGIC: u64 = 0xef53;

/// Reads a directory.
///
/// # Errors
/// If it cannot be read, is not on ext4, or is not indexed.
pub fn read(path: &Path) -> Result<LiveDirectory, LiveError> {
    let system =
        |operation| move |error: rustix::io::Errno| LiveError::System { operation, error: error.into() };
    let directory =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(system("open"))?;
    let status = rustix::fs::fstat(&directory).map_err(system("stat"))?;
    let system_status = rustix::fs::fstatfs(&directory).map_err(system("statfs"))?;
    if system_status.f_type as u64 != EXT4_MAGIC {
        return Err(LiveError::NotExt4);
    }
    let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
    let mut listing = RawDir::new(&directory, &mut buffer);
    let mut entries = Vec::new();
    let mut position = 0u64;
    while let Some(entry) = listing.next() {
        let entry = entry.map_err(system("read"))?;
        let (hash, minor) = ((position >> 32) as u32, position as u32);
        // The kernel's 64-bit position has the hash shifted right by one.
        let hash = hash << 1;
        position = entry.next_entry_cookie();
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            entries.push(LiveEntry { name: name.to_vec(), hash, minor });
        }
    }
    if entries.windows(2).any(|pair| (pair[0].hash, pair[0].minor) > (pair[1].hash, pair[1].minor)) {
        // A linear directory's positions are offsets, which look like very small hashes.
        return Err(LiveError::Changed);
    }
    Ok(LiveDirectory { entries, size: status.st_size as u64, block_size: status.st_blksize as u64 })
}
