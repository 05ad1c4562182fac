//! File metadata: kind, size, times, device and inode.

use rustix::fd::AsFd;
use rustix::fs::{FileType, Timespec, Timestamps, UTIME_OMIT, futimens};
use rustix::io::Errno;

/// A time of a file, in seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after them, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Makes this the time at which an open file was last modified. That of its last access stays.
    pub fn set(self, file: impl AsFd) -> Result<(), Errno> {
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ };
        let last_modification = Timespec { tv_sec: self.seconds, tv_nsec: self.nanoseconds as _ };
        futimens(file, &Timestamps { last_access, last_modification })
    }
}

impl std::fmt::Display for Timestamp {
    /// Seconds with nine digits after the point, as `stat -c %.9Y` prints them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.seconds, self.nanoseconds) {
            (seconds, nanoseconds) if seconds >= 0 || nanoseconds == 0 => {
                write!(f, "{seconds}.{nanoseconds:09}")
            }
            // The nanoseconds count from the whole second before, which the sign does not.
            (seconds, nanoseconds) => write!(f, "-{}.{:09}", -(seconds + 1), 1_000_000_000 - nanoseconds),
        }
    }
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, pipe or socket.
    Special,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Kind {
        match kind {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Link,
            _ => Kind::Special,
        }
    }
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Regular file, directory, link or something else.
    pub kind: Kind,
    /// The device it is on.
    pub device: u64,
    /// Its number on that device.
    pub inode: u64,
    /// How many names it has.
    pub links: u64,
    /// Length in bytes.
    pub size: u64,
    /// Bytes of storage that it takes: fewer than `size` where it has holes.
    pub stored: u64,
    /// When its bytes last changed; any program may set it.
    pub modified: Timestamp,
    /// When its inode last changed; no program sets it.
    pub changed: Timestamp,
}

impl Stat {
    /// Asks about an open file.
    pub fn of(file: impl AsFd) -> rustix::io::Result<Stat> {
        rustix::fs::fstat(file).map(Stat::from)
    }

    /// Whether nothing says that the bytes may differ: same file, size and times.
    pub fn is_same_state(&self, other: &Stat) -> bool {
        (self.device, self.inode, self.size, self.modified, self.changed)
            == (other.device, other.inode, other.size, other.modified, other.changed)
    }
}

impl From<rustix::fs::Stat> for Stat {
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)] // The types differ between systems.
    fn from(stat: rustix::fs::Stat) -> Stat {
        let time = |seconds: i64, nanoseconds| Timestamp { seconds, nanoseconds };
        Stat {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            links: stat.st_nlink as u64,
            size: stat.st_size as u64,
            stored: stat.st_blocks as u64 * 512,
            modified: time(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            changed: time(stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        }
    }
}
