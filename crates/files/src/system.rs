//! System calls of Linux that have no safe wrapper: places of files on a disk, clocks, and background reads.
//! On other systems they do nothing.

use std::fs;
use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Stat, Timestamp};

/// Where the first byte of a file lies on its device, by the FIEMAP call; `None` where that is not known.
pub(crate) fn first_extent(file: &File) -> Option<u64> {
    calls::first_extent(file)
}

/// Whether the file system of a file marks changes with the time of this machine's clock, as those on its
/// own disks do. A server has a clock of its own.
pub(crate) fn marks_by_our_clock(file: &File) -> bool {
    calls::marks_by_our_clock(file)
}

/// Makes sure that whoever writes to a file from now on, also through memory that is mapped, moves the times
/// of its inode. The first store into a page moves them, and those that follow do not, until the page was
/// brought to the disk: where the file is open to be written to, or nobody can tell, its pages are.
///
/// On file systems in memory nothing can be done: there a mapped page moves the times once.
///
/// Where times are whole seconds a later write in the same second would not move them either: that is waited
/// for.
///
/// `stat` is what was said of the file just now. Returns whether it took so long that it is better asked for
/// again: what is written meanwhile shows by the times as soon as the file was read.
pub fn settle(file: &File, stat: &Stat) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = since_1970(stat.changed).map_or(Duration::ZERO, |changed| now.saturating_sub(changed));
    // First: what is stored through a mapping in that second would be found by no time either.
    let has_waited = outlast(stat.changed);
    // Asking holds up whoever opens the file in that moment to write to it. What is older is on the disk but
    // for pages written lately through a mapping, and bringing those there is what is to be done.
    let is_settled = age < WRITTEN && (calls::has_clean_pages(file) || calls::is_open_by_no_writer(file));
    if !is_settled && !calls::bring_to_disk(file) {
        let _ = rustix::fs::fdatasync(file);
    }
    has_waited || !is_settled
}

/// The generation of a file's inode: another number each time that the inode is given to a new file. `None` where
/// the file system does not tell.
pub fn generation(file: &File) -> Option<u32> {
    calls::generation(file)
}

/// Whether somebody has a file open to be written to, as far as the system tells: only a file's owner and root
/// may ask.
pub fn has_writer(file: &File) -> bool {
    calls::is_open_by_a_writer(file)
}

/// Waits until whoever writes to a file that was changed then gives it another time, where times are whole
/// seconds. Returns whether that was to be waited for.
pub fn outlast(changed: Timestamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wait = until_next_second(changed, now);
    if wait.is_zero() {
        return false;
    }
    std::thread::sleep(wait);
    true
}

/// How long to wait until a file with whole seconds for times gets other ones when it is written to: no time
/// where there are finer ones.
fn until_next_second(changed: Timestamp, now: Duration) -> Duration {
    match since_1970(changed) {
        // A time in the future is of another clock.
        Some(changed) if changed.subsec_nanos() == 0 && changed <= now => {
            (changed + COARSEST).saturating_sub(now)
        }
        _ => Duration::ZERO,
    }
}

fn since_1970(time: Timestamp) -> Option<Duration> {
    u64::try_from(time.seconds).ok().map(|seconds| Duration::new(seconds, time.nanoseconds))
}

/// After this time the system has usually brought to the disk what was written to a file.
const WRITTEN: Duration = Duration::from_secs(60);

/// The coarsest times of file systems: ext4 with the smallest inodes has whole seconds, FAT every second one.
const COARSEST: Duration = Duration::from_secs(2);

/// Lets others go first: the idle class of input and output, and the lowest priority of the processor.
/// It is for the whole process, and is done before its threads are started. What is not permitted is not
/// done.
pub fn go_to_background() {
    calls::idle_io();
    let _ = rustix::process::nice(19);
}

/// Whether a device, as [`Stat::device`](crate::Stat::device) names it, has heads that must move.
pub fn is_rotating(device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // A partition has its queue one level up.
    ["queue", "../queue"].iter().any(|queue| {
        let path = format!("/sys/dev/block/{major}:{minor}/{queue}/rotational");
        fs::read(path).is_ok_and(|text| text.starts_with(b"1"))
    })
}

#[cfg(target_os = "linux")]
mod calls {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    /// `struct fiemap` with room for one extent.
    #[repr(C)]
    #[derive(Default)]
    struct Fiemap {
        start: u64,
        length: u64,
        flags: u32,
        mapped_extents: u32,
        extent_count: u32,
        reserved: u32,
        logical: u64,
        physical: u64,
        extent_length: u64,
        reserved_64: [u64; 2],
        extent_flags: u32,
        reserved_32: [u32; 3],
    }

    /// `_IOWR('f', 11, struct fiemap)`, whose size is that without extents.
    const FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;

    /// The place is not known yet.
    const DELAYED_OR_UNKNOWN: u32 = 2 | 4;

    /// The file systems that are known to: btrfs, ext4, F2FS, tmpfs, XFS, ZFS and bcachefs.
    const OURS: [u32; 7] =
        [0x9123_683e, 0xef53, 0xf2f5_2010, 0x0102_1994, 0x5846_5342, 0x2fc1_2fc1, 0xca45_1a4e];

    pub(super) fn marks_by_our_clock(file: &File) -> bool {
        rustix::fs::fstatfs(file).is_ok_and(|found| OURS.contains(&(found.f_type as u32)))
    }

    #[allow(unsafe_code)]
    pub(super) fn first_extent(file: &File) -> Option<u64> {
        let mut map = Fiemap { length: u64::MAX, extent_count: 1, ..Fiemap::default() };
        // SAFETY: the descriptor is open, and the structure is the one that the call reads and writes,
        // with room for as many extents as it says.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut map) };
        let known = result == 0 && map.mapped_extents == 1 && map.extent_flags & DELAYED_OR_UNKNOWN == 0;
        known.then_some(map.physical)
    }

    #[allow(unsafe_code)]
    pub(super) fn generation(file: &File) -> Option<u32> {
        // File systems write four bytes, and the number of the call says that it is a `long`.
        let mut found = [0_u32; 2];
        // SAFETY: the descriptor is open, and there is room for what the call writes: a `long` at most.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETVERSION, found.as_mut_ptr()) };
        (result == 0).then_some(found[0])
    }

    /// Whether pages of a file are in memory, and all are as they are on the disk. Where none are, or some
    /// were dropped, that says little: they may be kept in another place, as those of an overlay are.
    pub(super) fn has_clean_pages(file: &File) -> bool {
        verisum_pagecache::cache_stat(file, &(0..0)).is_ok_and(|found| {
            found.cached > 0 && (found.dirty, found.in_writeback, found.evicted) == (0, 0, 0)
        })
    }

    /// What tells of a lease that somebody wants back; without a handler it does nothing.
    const HARMLESS: libc::c_int = libc::SIGURG;

    /// `F_SETSIG`, which the C library does not have everywhere.
    const SET_SIGNAL: libc::c_int = 10;

    /// The system knows who has a file open to be written to, mapped or not: while somebody has, nobody gets
    /// a lease to read. It is given back at once. Only a file's owner and root can ask.
    pub(super) fn is_open_by_no_writer(file: &File) -> bool {
        lease(file).is_ok()
    }

    /// The same question, answered with certainty that somebody has it open.
    pub(super) fn is_open_by_a_writer(file: &File) -> bool {
        lease(file).is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN))
    }

    /// Takes a lease to read, and gives it back.
    #[allow(unsafe_code)]
    fn lease(file: &File) -> std::io::Result<()> {
        let call = |command, value: libc::c_int| {
            // SAFETY: the descriptor is open, and these commands take a number and touch no memory of ours.
            match unsafe { libc::fcntl(file.as_raw_fd(), command, value) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // Else whoever opens it meanwhile would have this process ended by SIGIO.
        call(SET_SIGNAL, HARMLESS)?;
        call(libc::F_SETLEASE, libc::F_RDLCK)?;
        call(libc::F_SETLEASE, libc::F_UNLCK)
    }

    /// Writes a file's dirty pages, and waits for them; its metadata and the disk's cache may stay behind.
    #[allow(unsafe_code)]
    pub(super) fn bring_to_disk(file: &File) -> bool {
        let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: the descriptor is open, and the call takes numbers and touches no memory of ours.
        unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, all) == 0 }
    }

    /// Of this process.
    const WHO_PROCESS: libc::c_int = 1;

    /// The class of those who read when nobody else does.
    const CLASS_IDLE: libc::c_int = 3 << 13;

    #[allow(unsafe_code)]
    pub(super) fn idle_io() {
        // SAFETY: the call takes three numbers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE) };
    }
}

#[cfg(not(target_os = "linux"))]
mod calls {
    use std::fs::File;

    pub(super) fn first_extent(_: &File) -> Option<u64> {
        None
    }

    pub(super) fn marks_by_our_clock(_: &File) -> bool {
        false
    }

    pub(super) fn generation(_: &File) -> Option<u32> {
        None
    }

    pub(super) fn has_clean_pages(_: &File) -> bool {
        false
    }

    pub(super) fn is_open_by_no_writer(_: &File) -> bool {
        false
    }

    pub(super) fn is_open_by_a_writer(_: &File) -> bool {
        false
    }

    pub(super) fn bring_to_disk(_: &File) -> bool {
        false
    }

    pub(super) fn idle_io() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_are_waited_for() {
        let wait = |seconds, nanoseconds, now| {
            until_next_second(Timestamp { seconds, nanoseconds }, Duration::from_millis(now)).as_millis()
        };
        assert_eq!(wait(10, 0, 10_000), 2000);
        assert_eq!(wait(10, 0, 11_900), 100);
        assert_eq!(wait(10, 0, 12_000), 0);
        assert_eq!(wait(10, 1, 10_000), 0, "the clock is fine");
        assert_eq!(wait(10, 0, 9000), 0, "another clock");
        assert_eq!(wait(-10, 0, 9000), 0);
    }
}
