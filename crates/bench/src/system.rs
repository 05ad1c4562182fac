//! System calls that have no safe wrapper yet: resources that a process used, pages of a file in memory,
//! private mounts, and scrubs of btrfs.
#![allow(unsafe_code, reason = "this is the one place for it in this crate; see docs/architecture.md")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// What a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Processor time in the program.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// The most memory at any time, in bytes.
    pub memory: u64,
}

impl Usage {
    fn of(usage: &libc::rusage) -> Usage {
        let time = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
        };
        Usage {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            memory: (usage.ru_maxrss as u64) * 1024,
        }
    }
}

/// What all threads of this process have used so far.
pub(crate) fn own_usage() -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one rusage to the place that we give it; zeros are a valid one too, so
    // that even a failure, which RUSAGE_SELF cannot have, would leave a valid value.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    Usage::of(&usage)
}

/// Makes a command start with a copy of this process that shares no memory with it. The kernel counts what
/// a child had before it became another program as its own: so that is what was written to here, and not
/// all that this process ever occupied.
///
/// It is killed when the thread that starts it ends before it, as that of a process that is killed does.
pub(crate) fn start_by_fork(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: between fork and exec the closure makes two system calls, which take numbers, and allocates
    // nothing: neither of its errors holds more than a number.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // Who ended before that sends no signal any more.
            match libc::getppid() as u32 == parent {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        })
    };
}

/// Makes a command start with such a copy, which ends before it becomes another program.
pub(crate) fn end_after_fork(command: &mut Command) {
    // SAFETY: _exit(2) is permitted between fork and exec, and does nothing but end the copy.
    unsafe { command.pre_exec(|| libc::_exit(0)) };
}

/// Waits for a child of ours to end. It must not be waited for again.
pub(crate) fn wait(pid: u32) -> io::Result<(ExitStatus, Usage)> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes an int and one rusage to the places that we give it.
        let ended = unsafe { libc::wait4(pid as libc::pid_t, &mut status, 0, usage.as_mut_ptr()) };
        if ended >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: zeros are a valid rusage, and the kernel wrote another.
    let usage = unsafe { usage.assume_init() };
    Ok((ExitStatus::from_raw(status), Usage::of(&usage)))
}

/// How many bytes of the file's first `length` are in the page cache, to whole pages. An error where the
/// kernel tells that only to the file's owner, or to those who may write to it.
pub(crate) fn resident(file: BorrowedFd<'_>, length: u64) -> io::Result<u64> {
    resident_from(file, 0, length)
}

/// As [`resident`], of `length` bytes from `start`, where a page begins.
pub(crate) fn resident_from(file: BorrowedFd<'_>, start: u64, length: u64) -> io::Result<u64> {
    let page = rustix::param::page_size() as u64;
    match verisum_pagecache::cache_stat(file, &(start..start + length)) {
        Ok(found) => Ok(found.cached * page),
        // Older kernels, and those that are told to refuse what they do not know.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            // Of files that are somebody else's it says that all is there, which is no answer.
            if !may_ask(file)? {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Ok(mincore(file, start, length)? * page)
        }
        Err(error) => Err(error),
    }
}

/// Whether mincore tells this user the truth.
fn may_ask(file: BorrowedFd<'_>) -> io::Result<bool> {
    let user = rustix::process::geteuid();
    let owner = rustix::fs::fstat(file)?.st_uid;
    Ok(user.is_root() || user.as_raw() == owner)
}

/// As cachestat, on older kernels. They tell it only of files that this user might write to.
fn mincore(file: BorrowedFd<'_>, from: u64, length: u64) -> io::Result<u64> {
    /// So that the kernel's answer needs little memory: a byte a page.
    const WINDOW: u64 = 1 << 30;
    let page = rustix::param::page_size() as u64;
    let mut count = 0;
    for start in (from..from + length).step_by(WINDOW as usize) {
        let bytes = (from + length - start).min(WINDOW) as usize;
        let mut answer = vec![0u8; bytes.div_ceil(page as usize)];
        // SAFETY: a new mapping of the kernel's choice, read by nobody, unmapped before the end with the
        // same address and length; mincore writes a byte for each page of it.
        let result = unsafe {
            let place = libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                start as libc::off_t,
            );
            if place == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let result = libc::mincore(place, bytes, answer.as_mut_ptr());
            let error = io::Error::last_os_error();
            libc::munmap(place, bytes);
            if result == 0 { Ok(()) } else { Err(error) }
        };
        result?;
        count += answer.iter().filter(|&&page| page & 1 == 1).count() as u64;
    }
    Ok(count)
}

/// Gives this thread, and the programs that it starts, mounts that nobody else sees. Those made from now
/// on are gone with the last of these processes, however it ends.
pub(crate) fn own_mounts() -> io::Result<()> {
    use rustix::mount::{MountPropagationFlags, mount_change};
    // SAFETY: it takes a number and touches no memory of ours; of what threads share it parts the mounts
    // only, and the working directory, which stays the same.
    match unsafe { libc::unshare(libc::CLONE_NEWNS) } {
        0 => Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct btrfs_ioctl_scrub_args` of linux/btrfs.h.
#[repr(C)]
struct ScrubArguments {
    device: u64,
    start: u64,
    end: u64,
    flags: u64,
    progress: ScrubProgress,
    unused: [u64; 109],
}

/// What a scrub of btrfs found: `struct btrfs_scrub_progress` of linux/btrfs.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScrubProgress {
    data_extents: u64,
    tree_extents: u64,
    /// Bytes of data that were read.
    pub(crate) data_bytes: u64,
    tree_bytes: u64,
    read_errors: u64,
    checksum_errors: u64,
    verify_errors: u64,
    without_checksum: u64,
    discarded_checksums: u64,
    super_errors: u64,
    memory_errors: u64,
    uncorrectable_errors: u64,
    corrected_errors: u64,
    last: u64,
    unverified_errors: u64,
}

impl ScrubProgress {
    /// Whatever was wrong.
    pub(crate) fn errors(&self) -> u64 {
        self.read_errors + self.checksum_errors + self.verify_errors + self.super_errors + self.memory_errors
    }
}

/// `_IOWR(0x94, 27, struct btrfs_ioctl_scrub_args)`.
const BTRFS_IOC_SCRUB: libc::Ioctl = 0xc400_941b_u32 as libc::Ioctl;

const _: () = assert!(size_of::<ScrubArguments>() == 1024);

/// Reads and verifies all of the first device of a mounted btrfs, of which a directory is given, and waits
/// for the end. Nothing is repaired.
pub(crate) fn scrub(directory: BorrowedFd<'_>) -> io::Result<ScrubProgress> {
    const READ_ONLY: u64 = 1;
    let mut arguments = ScrubArguments {
        device: 1,
        start: 0,
        end: u64::MAX,
        flags: READ_ONLY,
        progress: ScrubProgress::default(),
        unused: [0; 109],
    };
    // SAFETY: the descriptor is open, and the call reads and writes this structure, of the size that its
    // number says. On what is not btrfs it fails.
    match unsafe { libc::ioctl(directory.as_raw_fd(), BTRFS_IOC_SCRUB, &raw mut arguments) } {
        0 => Ok(arguments.progress),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    #[allow(clippy::zombie_processes, reason = "waiting is what is tested")]
    fn a_child_is_waited_for_with_what_it_used() {
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let (status, usage) = wait(child.id()).unwrap();
        assert_eq!(status.code(), Some(7));
        assert!(usage.memory > 0);
        assert!(wait(child.id()).is_err(), "it is gone");
        assert!(own_usage().memory > 0);
    }

    #[test]
    fn a_file_just_written_is_resident() {
        let file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut &file, &vec![1; 1 << 20]).unwrap();
        assert_eq!(resident(file.as_fd(), 1 << 20).unwrap(), 1 << 20);
        assert_eq!(mincore(file.as_fd(), 0, 1 << 20).unwrap() * rustix::param::page_size() as u64, 1 << 20);
    }
}
