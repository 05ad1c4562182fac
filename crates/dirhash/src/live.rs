//! The hashes of a mounted ext4 directory, read without privileges.
//!
//! On ext4 the position that `getdents64` gives with an entry is where the next one begins, and that is
//! its hash: the major half, without the lowest bit, above the minor one. Nothing reports where the first
//! entry begins; it is the highest position from which it is still read.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::namehash::{Characters, NameHash, Seed, ext4_hashes};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};

use crate::ext4::{Ext4, LeafUse};
use crate::htree::Geometry;

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
    /// Its inode.
    pub inode: u64,
    /// Whether it has an index on the disk. Names in one block are hashed by the kernel as they are listed.
    pub indexed: bool,
    /// The device that it lies on.
    device: u64,
}

impl LiveDirectory {
    /// The file system on the device below, for whoever may read that: root.
    pub fn file_system(&self) -> Option<Ext4> {
        let (major, minor) = (rustix::fs::major(self.device), rustix::fs::minor(self.device));
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let number = format!("{major}:{minor}");
        let source = mounts.lines().find_map(|line| {
            let (mount, system) = line.split_once(" - ")?;
            (mount.split(' ').nth(2)? == number).then(|| system.split(' ').nth(1))?
        });
        let usual = format!("/dev/block/{number}");
        [source, Some(usual.as_str())].into_iter().flatten().find_map(|path| {
            let file = File::open(PathBuf::from(path)).ok()?;
            let status = file.metadata().ok()?;
            // Whatever the name says: it must be that device.
            let same = status.file_type().is_block_device() && status.rdev() == self.device;
            same.then(|| Ext4::of(file).ok())?
        })
    }

    /// The hashes that give every name its place: with the seed if that is known, or else those that need
    /// none. Several if no name has a character that tells signed ones from unsigned ones, unless it is known
    /// whether the file system takes them for unsigned.
    pub fn hashes(&self, seed: Option<Seed>, unsigned: Option<bool>) -> Vec<&'static NameHash> {
        let seed = seed.unwrap_or(Seed::ZERO);
        let fits = |hash: &NameHash| {
            self.entries.iter().all(|entry| {
                let value = hash.hash(&entry.name, &seed);
                (hash.index_key(&entry.name, &seed), value.minor) == (entry.hash, entry.minor)
            })
        };
        let possible = |hash: &NameHash| match (hash.characters, unsigned) {
            (Characters::Signed, Some(unsigned)) => !unsigned,
            (Characters::Unsigned, Some(unsigned)) => unsigned,
            _ => true,
        };
        let ext4 = ext4_hashes().iter();
        ext4.filter(|hash| !self.entries.is_empty() && possible(hash) && fits(hash)).collect()
    }

    /// What is in each leaf, by the places of the names, the keys of the index being given. `None` for a
    /// leaf that begins or ends with a hash which its neighbour has too: whose names those are cannot be
    /// seen.
    pub fn leaf_uses(&self, index: &[LeafUse]) -> Vec<Option<LeafUse>> {
        let before = |key: u32| self.entries.partition_point(|entry| entry.hash < key & !1);
        let continued = |place: usize| index.get(place).is_some_and(|leaf| leaf.key & 1 == 1);
        (0..index.len())
            .map(|place| {
                let end = index.get(place + 1).map_or(self.entries.len(), |next| before(next.key));
                let inside = self.entries.get(before(index[place].key)..end)?;
                let sizes = inside.iter().map(|entry| u32::from(Geometry::record_size(entry.name.len())));
                let sure = !continued(place) && !continued(place + 1);
                let (names, live_bytes) = (inside.len() as u32, sizes.sum());
                sure.then_some(LeafUse { names, live_bytes, ..index[place] })
            })
            .collect()
    }

    /// How many of its blocks are leaves, if all index blocks but the root are as full as they can be: at
    /// most a few more than there are.
    pub fn most_leaves(&self) -> u64 {
        let blocks = self.size.div_ceil(self.block_size.max(1)).max(1);
        let each = (self.block_size / 8).max(2);
        match blocks {
            1 => 1,
            _ if blocks - 1 <= each - 4 => blocks - 1,
            _ => (blocks - 1) * each / (each + 1),
        }
    }
}

/// Why a directory cannot be read so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    #[error("not on ext4")]
    NotExt4,
    /// Its names lie in the order in which they were made, and positions are offsets in bytes.
    #[error("the directory is not indexed: its positions are offsets, not hashes")]
    NotHashed,
    /// Names came or went while it was read.
    #[error("the directory changed while it was read")]
    Changed,
}

/// `EXT4_SUPER_MAGIC`, also of ext2 and ext3.
const EXT4_MAGIC: u64 = 0xef53;

/// `EXT4_INDEX_FL`.
const INDEXED: u32 = 0x1000;

/// Where a directory ends whose positions are hashes; elsewhere it is its length.
const END: u64 = i64::MAX as u64;

/// Reads a directory.
///
/// # Errors
/// If it cannot be read, is not on ext4, or the kernel does not hash its names: it has no index, and more
/// than one block or a file system without the feature `dir_index`.
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
    // A damaged index makes the kernel read a directory as if there were none: asked again below.
    let is_hashed = || Ok(rustix::fs::seek(&directory, SeekFrom::End(0)).map_err(system("seek"))? == END);
    if !is_hashed()? {
        return Err(LiveError::NotHashed);
    }
    let mut listed = list(&directory)?;
    if let [first, second, ..] = &mut listed[..] {
        first.position = match first.name == b"." {
            // At zero where there is an index; else nobody asks.
            true => 0,
            false => position_of_first(&directory, &first.name, second.position)?,
        };
    }
    if !is_hashed()? {
        return Err(LiveError::NotHashed);
    }
    listed.retain(|entry| entry.name != b"." && entry.name != b"..");
    if !listed.is_sorted_by_key(|entry| entry.position) {
        return Err(LiveError::Changed);
    }
    let entries = listed.into_iter().map(|Listed { name, position }| {
        // The position has the hash shifted right by one.
        LiveEntry { name, hash: (position >> 32 << 1) as u32, minor: position as u32 }
    });
    // Who cannot ask for flags, as below some containers, sees it by the length.
    let flags = rustix::fs::ioctl_getflags(&directory).map(|flags| flags.bits() & INDEXED != 0);
    Ok(LiveDirectory {
        entries: entries.collect(),
        size: status.st_size as u64,
        block_size: status.st_blksize as u64,
        inode: status.st_ino,
        indexed: flags.unwrap_or(status.st_size as u64 > status.st_blksize as u64),
        device: status.st_dev,
    })
}

/// An entry and where it begins.
struct Listed {
    name: Vec<u8>,
    position: u64,
}

/// All entries in their order, `.` and `..` too. The position of the first is not known yet: 0.
fn list(directory: &OwnedFd) -> Result<Vec<Listed>, LiveError> {
    seek(directory, 0)?;
    let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
    let mut listing = RawDir::new(directory, &mut buffer);
    let mut listed = Vec::new();
    let mut position = 0;
    while let Some(entry) = listing.next() {
        let entry = entry.map_err(|error| LiveError::System { operation: "read", error: error.into() })?;
        listed.push(Listed { name: entry.file_name().to_bytes().to_vec(), position });
        position = entry.next_entry_cookie();
    }
    Ok(listed)
}

/// The highest position, up to that of the second entry, from which the first one is still read.
fn position_of_first(directory: &OwnedFd, name: &[u8], second: u64) -> Result<u64, LiveError> {
    let is_read_from = |position| {
        seek(directory, position)?;
        let mut buffer = [MaybeUninit::uninit(); 1024];
        match RawDir::new(directory, &mut buffer).next() {
            Some(Ok(entry)) => Ok(entry.file_name().to_bytes() == name),
            Some(Err(error)) => Err(LiveError::System { operation: "read", error: error.into() }),
            None => Ok(false),
        }
    };
    // Read from `low`; not read from above `high`.
    let (mut low, mut high) = (0, second);
    while low < high {
        let middle = high - (high - low) / 2;
        match is_read_from(middle)? {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    Ok(low)
}

fn seek(directory: &OwnedFd, position: u64) -> Result<(), LiveError> {
    match rustix::fs::seek(directory, SeekFrom::Start(position)) {
        Ok(_) => Ok(()),
        Err(error) => Err(LiveError::System { operation: "seek", error: error.into() }),
    }
}
