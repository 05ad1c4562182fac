//! Directories at TO: makes or opens them through no link, and sets their times and mode when their content
//! is complete.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::hash::BuildHasher;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, fgetxattr, flock, fstatfs, mkdirat, openat, statat,
    unlinkat,
};
use rustix::io::Errno;
use verisum_files::{Stat, Timestamp, lock};

use super::shared::Shared;
use super::temporary::{LEFTOVER, is_leftover};
use super::{CopyError, CopyOutcome};
use crate::metadata::{INHERITED, Metadata};

/// How a directory is opened that files are made in.
const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The file systems of which one call brings all that was written to the disk: btrfs, ext4, F2FS, FAT, tmpfs,
/// XFS, ZFS and bcachefs.
const SYNCED_WHOLE: [u32; 8] =
    [0x9123_683e, 0xef53, 0xf2f5_2010, 0x4d44, 0x0102_1994, 0x5846_5342, 0x2fc1_2fc1, 0xca45_1a4e];

/// The file systems that may cut times off, by how many seconds, and of what the nanoseconds are a multiple then: FAT and
/// exFAT have every second second, with hundredths or without; of what is behind FUSE some have whole seconds.
const COARSE: [(u32, TimeStep); 3] =
    [(0x4d44, (2, 10_000_000)), (0x2011_bab0, (2, 10_000_000)), (0x6573_5546, (1, 1_000_000_000))];

/// The file systems that may not tell capital letters from small ones: FAT, exFAT, NTFS, SMB, CIFS, HFS+, and what is
/// behind FUSE.
const MAY_FOLD: [u32; 7] = [0x4d44, 0x2011_bab0, 0x7366_746e, 0xfe53_4d42, 0xff53_4d42, 0x482b, 0x6573_5546];

/// A row of [`COARSE`]; no time is cut off by no second.
type TimeStep = (i64, u32);

/// A directory at TO. When the last who makes something in it lets go of it, it gets what its original has.
pub(super) struct TargetDirectory<'a> {
    descriptor: OwnedFd,
    pub(super) device: u64,
    /// Whether it is not this copy that made it.
    pub(super) was_there: bool,
    /// Whether new entries get access control lists from it.
    pub(super) gives_lists: bool,
    /// Whether one call brings all of its file system to the disk.
    pub(super) is_synced_whole: bool,
    parent: Option<Arc<TargetDirectory<'a>>>,
    time_step: TimeStep,
    /// The names of this run, where TO does not tell capital letters from small ones.
    folded: Option<Arc<FoldedNames>>,
    /// The path of TO, and below it.
    to: Arc<Path>,
    pub(super) below: PathBuf,
    finish: Option<Finish>,
    shared: &'a Shared<'a>,
}

/// The names of a run on a file system that does not tell capital letters from small ones. A place may list a directory
/// in several goes and has a million of them, so hashes of all names are kept, not the names of a directory at hand.
#[derive(Default)]
struct FoldedNames {
    hashes: RandomState,
    /// Of each name in small letters the hash of the name itself.
    seen: Mutex<HashMap<u64, u64>>,
}

impl FoldedNames {
    /// Whether a name in this directory is the first, or the same again, of all that differ in capitals only.
    fn takes(&self, below: &Path, name: &OsStr) -> bool {
        let mut folded = Vec::new();
        for chunk in name.as_bytes().utf8_chunks() {
            folded.extend_from_slice(chunk.valid().to_lowercase().as_bytes());
            folded.extend_from_slice(chunk.invalid());
        }
        let exact = self.hashes.hash_one(name);
        let mut seen = lock(&self.seen);
        *seen.entry(self.hashes.hash_one((below, folded))).or_insert(exact) == exact
    }
}

/// What a directory gets in the end.
struct Finish {
    from: PathBuf,
    metadata: Metadata,
}

impl<'a> TargetDirectory<'a> {
    /// The directory of this descriptor, which is TO or holds it.
    pub(super) fn top(
        shared: &'a Shared<'a>,
        directory: impl AsFd,
        to: &Path,
        was_there: bool,
    ) -> Result<TargetDirectory<'a>, CopyError> {
        let descriptor = openat(directory, ".", LIST, Mode::empty());
        let descriptor = descriptor.map_err(|errno| CopyError::target(to, "open", errno))?;
        TargetDirectory::new(shared, descriptor, was_there, None, (to.into(), PathBuf::new()))
    }

    fn new(
        shared: &'a Shared<'a>,
        descriptor: OwnedFd,
        was_there: bool,
        parent: Option<Arc<TargetDirectory<'a>>>,
        (to, below): (Arc<Path>, PathBuf),
    ) -> Result<TargetDirectory<'a>, CopyError> {
        let failed = |errno| CopyError::target(&to.join(&below), "stat", errno);
        let device = Stat::of(&descriptor).map_err(failed)?.device;
        let same = parent.as_ref().filter(|parent| parent.device == device);
        let (is_synced_whole, time_step, folded) = match same {
            Some(parent) => (parent.is_synced_whole, parent.time_step, parent.folded.clone()),
            None => {
                let magic = fstatfs(&descriptor).map_or(0, |found| found.f_type as u32);
                let coarse = COARSE.iter().find(|(of, _)| *of == magic);
                let folds = MAY_FOLD.contains(&magic) && folds(&descriptor);
                let folded = folds.then(Arc::default);
                (SYNCED_WHOLE.contains(&magic), coarse.map_or((0, 1), |(_, step)| *step), folded)
            }
        };
        let mut value = [0; 1];
        let gives_lists =
            matches!(fgetxattr(&descriptor, INHERITED, &mut value[..]), Ok(_) | Err(Errno::RANGE));
        let directory = TargetDirectory {
            descriptor,
            device,
            was_there,
            gives_lists,
            is_synced_whole,
            time_step,
            folded,
            parent,
            to,
            below,
            finish: None,
            shared,
        };
        if was_there {
            directory.remove_leftovers();
        }
        Ok(directory)
    }

    /// Opens a directory in this one, or makes it with this mode.
    ///
    /// # Errors
    /// It cannot be made, or see [`require_own`](TargetDirectory::require_own).
    pub(super) fn enter(
        self: &Arc<Self>,
        name: &OsStr,
        mode: Mode,
    ) -> Result<TargetDirectory<'a>, CopyError> {
        self.require_own(name)?;
        let failed = |operation| move |errno| CopyError::target(&self.path_of(name), operation, errno);
        let was_there = match mkdirat(self, name, mode) {
            Ok(()) => false,
            Err(Errno::EXIST) => true,
            Err(errno) => return Err(failed("create")(errno)),
        };
        let descriptor = openat(self, name, LIST, Mode::empty()).map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => {
                CopyError::InTheWay { path: self.path_of(name), what: self.what_is(name) }
            }
            errno => failed("open")(errno),
        })?;
        let place = (self.to.clone(), self.below.join(name));
        TargetDirectory::new(self.shared, descriptor, was_there, Some(self.clone()), place)
    }

    /// Says what it gets in the end, and from which directory.
    pub(super) fn finish_as(&mut self, from: PathBuf, metadata: Metadata) {
        self.finish = Some(Finish { from, metadata });
    }

    /// Whether a file at TO has the time of modification of its original, as exactly as TO keeps it.
    pub(super) fn is_same_time(&self, original: Timestamp, there: Timestamp) -> bool {
        let (seconds, nanoseconds) = self.time_step;
        original == there
            || there.nanoseconds.is_multiple_of(nanoseconds)
                && (original.seconds - there.seconds).abs() < seconds
    }

    /// A name in it, for what is no directory.
    ///
    /// # Errors
    /// See [`require_own`](TargetDirectory::require_own).
    pub(super) fn name(self: &Arc<Self>, name: &OsStr) -> Result<TargetName<'a>, CopyError> {
        self.require_own(name)?;
        Ok(TargetName { directory: self.clone(), name: name.to_os_string() })
    }

    /// Fails if another name of this run is the same to TO: one would take the other's place.
    fn require_own(&self, name: &OsStr) -> Result<(), CopyError> {
        match self.folded.as_ref().is_none_or(|folded| folded.takes(&self.below, name)) {
            true => Ok(()),
            false => {
                Err(CopyError::InTheWay { path: self.path_of(name), what: "a name with other capitals" })
            }
        }
    }

    /// The path of a name in it.
    pub(super) fn path_of(&self, name: &OsStr) -> PathBuf {
        let mut path = self.to.to_path_buf();
        path.extend(
            [self.below.as_path(), Path::new(name)].into_iter().filter(|part| *part != Path::new("")),
        );
        path
    }

    /// The word for what has a name in it.
    pub(super) fn what_is(&self, name: &OsStr) -> &'static str {
        let found = statat(self, name, AtFlags::SYMLINK_NOFOLLOW);
        match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
            Ok(FileType::Directory) => "a directory",
            Ok(FileType::Symlink) => "a symbolic link",
            Ok(FileType::RegularFile) => "a file",
            _ => "a device, pipe or socket",
        }
    }

    /// Removes files that a copy which was killed left. One that is at work holds its own.
    fn remove_leftovers(&self) {
        let Ok(list) = Dir::read_from(self) else { return };
        for entry in list.flatten() {
            let name = entry.file_name();
            if !is_leftover(name.to_bytes()) {
                continue;
            }
            let own = rustix::process::geteuid().as_raw();
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let found = statat(self, name, AtFlags::SYMLINK_NOFOLLOW);
            let is_left = found.is_ok_and(|found| match FileType::from_raw_mode(found.st_mode) {
                FileType::Symlink => found.st_uid == own,
                FileType::RegularFile => openat(self, name, flags, Mode::empty())
                    .is_ok_and(|file| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()),
                _ => false,
            });
            if is_left {
                let _ = unlinkat(self, name, AtFlags::empty());
            }
        }
    }

    fn finish(&mut self) {
        let Some(Finish { from, metadata }) = self.finish.take() else { return };
        match metadata.apply(&self.descriptor, self.shared.is_root, true) {
            Ok(is_whole) => {
                let mut summary = self.shared.summary();
                summary.directories += 1;
                summary.reduced += u64::from(!is_whole);
            }
            Err(errno) => {
                let path = self.path_of(OsStr::from_bytes(b""));
                let error = CopyError::target(&path, "set times", errno);
                self.shared.tell_plain(&from, &self.below, CopyOutcome::Failed(error));
            }
        }
    }
}

impl AsFd for TargetDirectory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for TargetDirectory<'_> {
    /// One after the other: a tree may be deeper than the stack.
    fn drop(&mut self) {
        self.finish();
        let mut parent = self.parent.take();
        while let Some(mut directory) = parent.and_then(Arc::into_inner) {
            directory.finish();
            parent = directory.parent.take();
        }
    }
}

/// A name in a directory at TO, from [`TargetDirectory::name`].
#[derive(Clone)]
pub(super) struct TargetName<'a> {
    pub(super) directory: Arc<TargetDirectory<'a>>,
    pub(super) name: OsString,
}

impl TargetName<'_> {
    /// Its path.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path_of(&self.name)
    }

    /// Its path below TO.
    pub(super) fn below(&self) -> PathBuf {
        self.directory.below.join(&self.name)
    }

    /// What has the name now; none if nothing has.
    pub(super) fn stat(&self) -> Result<Option<rustix::fs::Stat>, CopyError> {
        match statat(&*self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failed("stat")(errno)),
        }
    }

    pub(super) fn failed(&self, operation: &'static str) -> impl FnOnce(Errno) -> CopyError {
        move |errno| CopyError::target(&self.path(), operation, errno)
    }

    /// Fails for what no copy takes the place of.
    pub(super) fn require_replaceable(&self, stat: &rustix::fs::Stat) -> Result<(), CopyError> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Symlink => Ok(()),
            _ => Err(CopyError::InTheWay { path: self.path(), what: self.directory.what_is(&self.name) }),
        }
    }
}

/// Whether capital letters in names are the same as small ones, or nobody can tell.
fn folds(directory: &OwnedFd) -> bool {
    // No file of a copy has this number.
    let name = format!("{LEFTOVER}{}-{}", std::process::id(), u32::MAX);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let is_there = |name: &str| statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    for _ in 0..8 {
        // One that was left there says the same.
        let made = openat(directory, &*name, flags, Mode::RUSR | Mode::WUSR).map(drop);
        if !matches!(made, Ok(()) | Err(Errno::EXIST)) {
            break;
        }
        let (folds, stays) = (is_there(&name.to_uppercase()), is_there(&name));
        let _ = unlinkat(directory, &*name, AtFlags::empty());
        // Another copy may take it for what a killed one left, and remove it.
        if folds || stays {
            return folds;
        }
    }
    true
}
