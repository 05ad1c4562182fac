//! File metadata: kind, size, times, device and inode.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};
use rustix::fd::AsFd;
use rustix::fs::{FileType, Timespec, Timestamps, fstat, futimens};
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
        // Said as it is: what is behind FUSE may set no time where one of the two is omitted, and call that done.
        let times = times_of(&fstat(&file)?);
        futimens(file, &Timestamps { last_modification: self.to_timespec(), ..times })
    }

    /// As the system takes it. Some file systems tell more nanoseconds than a second has; it refuses them, or takes
    /// them for the wish that a time stays, or is the present.
    pub fn to_timespec(self) -> Timespec {
        Timespec { tv_sec: self.seconds, tv_nsec: self.nanoseconds.min(999_999_999) as _ }
    }

    /// The time by the system's clock.
    pub fn now() -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() }
    }

    /// From seconds since 1970.
    pub const fn of_seconds(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanoseconds: 0 }
    }

    /// From nanoseconds since 1970.
    pub fn of_nanoseconds(nanoseconds: i64) -> Timestamp {
        Timestamp {
            seconds: nanoseconds.div_euclid(1_000_000_000),
            nanoseconds: nanoseconds.rem_euclid(1_000_000_000) as u32,
        }
    }

    /// From milliseconds since 1970.
    pub fn of_milliseconds(milliseconds: i64) -> Timestamp {
        Timestamp {
            seconds: milliseconds.div_euclid(1000),
            nanoseconds: milliseconds.rem_euclid(1000) as u32 * 1_000_000,
        }
    }

    /// Milliseconds since 1970; none if there are too many.
    pub fn milliseconds(self) -> Option<i64> {
        self.seconds.checked_mul(1000)?.checked_add(i64::from(self.nanoseconds / 1_000_000))
    }

    /// As RFC 3339 has it, in UTC: `2026-11-01T04:00:00.000000000Z`. There a year has four digits: a time that
    /// is too far away for that is the last, or the first, that is not.
    pub fn to_rfc3339(self) -> String {
        self.calendar().to_rfc3339_opts(SecondsFormat::Nanos, true)
    }

    /// The same without nanoseconds.
    pub fn to_rfc3339_seconds(self) -> String {
        self.calendar().to_rfc3339_opts(SecondsFormat::Secs, true)
    }

    /// Reads what [`Timestamp::to_rfc3339`] writes, with or without nanoseconds, and in any time zone.
    pub fn from_rfc3339(text: &str) -> Option<Timestamp> {
        let time = DateTime::parse_from_rfc3339(text).ok()?;
        // A leap second has more than a second of them.
        let nanoseconds = time.timestamp_subsec_nanos().min(999_999_999);
        Some(Timestamp { seconds: time.timestamp(), nanoseconds })
    }

    fn calendar(self) -> DateTime<Utc> {
        // The first second of the year 0, and the last of 9999.
        let (seconds, nanoseconds) = match self.seconds {
            ..-62_167_219_200 => (-62_167_219_200, 0),
            253_402_300_800.. => (253_402_300_799, 999_999_999),
            seconds => (seconds, self.nanoseconds),
        };
        DateTime::from_timestamp(seconds, nanoseconds).unwrap_or_default()
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

/// The times of a file, as the system takes them back.
#[allow(clippy::unnecessary_cast)] // The types differ between systems.
pub fn times_of(stat: &rustix::fs::Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds| Timestamp { seconds, nanoseconds }.to_timespec();
    Timestamps {
        last_access: time(stat.st_atime as i64, stat.st_atime_nsec as u32),
        last_modification: time(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
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
        fstat(file).map(Stat::from)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_no_second_has_are_set_as_far_as_they_can_be() {
        let file = tempfile::tempfile().unwrap();
        let mut stat = fstat(&file).unwrap();
        (stat.st_atime, stat.st_mtime) = (7, 8);
        // What asks the system to leave a time, or for the present.
        (stat.st_atime_nsec, stat.st_mtime_nsec) = ((1 << 30) - 2, (1 << 30) - 1);
        futimens(&file, &times_of(&stat)).unwrap();
        let stat = fstat(&file).unwrap();
        assert_eq!((stat.st_atime, stat.st_atime_nsec), (7, 999_999_999));
        assert_eq!((stat.st_mtime, stat.st_mtime_nsec), (8, 999_999_999));
        Timestamp { seconds: 9, nanoseconds: 1 << 30 }.set(&file).unwrap();
        let stat = fstat(&file).unwrap();
        assert_eq!((stat.st_atime, stat.st_mtime), (7, 9));
    }
}
