//! An entry of an open directory. It is opened and looked at without a path, which others could change.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxAttributes, StatxFlags,
};
use rustix::io::Errno;

use super::trusted;
use crate::{FileError, Kind, Operation, Stat, Timestamp};

/// The longest path that a system call takes, its NUL included.
const PATH_MAX: usize = 4096;

/// How a directory is opened that is only gone through.
pub(super) const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An open directory and the path that was walked to it, for messages and records.
#[derive(Debug)]
pub struct Directory {
    /// `None` for the working directory.
    descriptor: Option<OwnedFd>,
    place: Option<Arc<DirectoryPlace>>,
}

impl Directory {
    pub(super) fn new(descriptor: OwnedFd, place: Arc<DirectoryPlace>) -> Directory {
        Directory { descriptor: Some(descriptor), place: Some(place) }
    }

    /// Opens a directory that a user named; links are followed. An empty path is the working directory.
    pub fn named(path: &Path) -> Result<Arc<Directory>, FileError> {
        if path.as_os_str().is_empty() {
            return Ok(Arc::new(Directory { descriptor: None, place: None }));
        }
        let descriptor = rustix::fs::open(path, STEP, Mode::empty());
        let descriptor = descriptor.map_err(|errno| FileError::io(path, Operation::Open, errno))?;
        Ok(Arc::new(Directory::new(descriptor, DirectoryPlace::new(None, path.as_os_str()))))
    }

    /// Opens a directory that a user named; only links of root's and our own are followed.
    pub fn trusted(path: &Path) -> Result<Arc<Directory>, FileError> {
        Directory::on_the_way(path, path)
    }

    /// The same of the way to what a user named, which errors name.
    fn on_the_way(way: &Path, named: &Path) -> Result<Arc<Directory>, FileError> {
        if way.as_os_str().is_empty() {
            return Directory::named(way);
        }
        let descriptor =
            trusted::folder(way).map_err(|error| FileError::io(named, Operation::Open, error))?;
        Ok(Arc::new(Directory::new(descriptor, DirectoryPlace::new(None, way.as_os_str()))))
    }

    /// Opens a directory below this one through no link at all; with a device, through none that is on
    /// another one either, be it mounted there or a volume of its own, and through none that another directory
    /// of the same file system is mounted over.
    ///
    /// # Errors
    /// `ELOOP` for a link, `EXDEV` for another device, what is mounted, and a way that leads out.
    pub fn beneath(
        self: &Arc<Directory>,
        way: &Path,
        device: Option<u64>,
    ) -> Result<Arc<Directory>, FileError> {
        let failed = |errno| FileError::io(&self.path().join(way), Operation::Open, errno);
        let steps = steps_of(way).ok_or_else(|| failed(Errno::XDEV))?;
        if steps.is_empty() {
            return Ok(self.clone());
        }
        let descriptor = folder_beneath(self, &steps, device).map_err(failed)?;
        let place = DirectoryPlace::new(self.place.clone(), joined(&steps).as_os_str());
        Ok(Arc::new(Directory::new(descriptor, place)))
    }

    /// The path that was walked to it; empty for the working directory.
    pub fn path(&self) -> PathBuf {
        self.place.as_ref().map_or_else(PathBuf::new, |place| place.path())
    }

    pub(super) fn place(&self) -> Option<&Arc<DirectoryPlace>> {
        self.place.as_ref()
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.descriptor {
            Some(descriptor) => descriptor.as_fd(),
            None => CWD,
        }
    }
}

/// Where a directory is: a name in a place. So the paths of a deep tree share what they have in common.
#[derive(Debug)]
pub(super) struct DirectoryPlace {
    parent: Option<Arc<DirectoryPlace>>,
    name: OsString,
}

impl DirectoryPlace {
    pub(super) fn new(parent: Option<Arc<DirectoryPlace>>, name: &OsStr) -> Arc<DirectoryPlace> {
        Arc::new(DirectoryPlace { parent, name: name.into() })
    }

    /// From the outermost to this one.
    pub(super) fn names(&self) -> Vec<&OsStr> {
        let mut names = vec![self.name.as_os_str()];
        let mut place = self;
        while let Some(parent) = &place.parent {
            names.push(&parent.name);
            place = parent;
        }
        names.reverse();
        names
    }

    pub(super) fn path(&self) -> PathBuf {
        joined(&self.names())
    }
}

impl Drop for DirectoryPlace {
    /// One after the other: a tree may be deeper than the stack.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut place) = parent.and_then(Arc::into_inner) {
            parent = place.parent.take();
        }
    }
}

/// Names with a slash between each two, but not a second one.
pub(super) fn joined(names: &[&OsStr]) -> PathBuf {
    let mut path = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
    for name in names {
        if path.last().is_some_and(|last| *last != b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
    }
    OsString::from_vec(path).into()
}

/// A name in an open directory, which stays open as long as the entry is kept.
#[derive(Clone, Debug)]
pub struct Entry {
    directory: Arc<Directory>,
    name: OsString,
    kind: Kind,
    inode: u64,
    /// Whether a link of this name stands for what it leads to.
    follow: bool,
    /// The file and what was said of it, if somebody who looked at it has left it open for whoever reads it.
    held: Option<Arc<(OwnedFd, Stat)>>,
}

impl Entry {
    pub(super) fn found(
        directory: &Arc<Directory>,
        name: OsString,
        (kind, inode): (Kind, u64),
        follow: bool,
    ) -> Entry {
        Entry { directory: directory.clone(), name, kind, inode, follow, held: None }
    }

    /// Leaves its open file to whoever reads it next, which spares opening it and asking about it twice. It is closed with the
    /// entry: only entries that are soon read may be given one.
    pub(crate) fn hold(&mut self, file: File, stat: Stat) {
        self.held = Some(Arc::new((file.into(), stat)));
    }

    /// A copy, to which the file that was left open goes.
    pub(crate) fn split(&mut self) -> Entry {
        let held = self.held.take();
        Entry { held, ..self.clone() }
    }

    /// Takes the file that was left open, if there is one that no copy of the entry shares.
    pub(crate) fn take_held(&mut self) -> Option<(OwnedFd, Stat)> {
        self.held.take().and_then(Arc::into_inner)
    }

    /// The entry of a path that a user gave. If it is a link, it is the link.
    pub fn named(path: &Path) -> Result<Entry, FileError> {
        Entry::of_path(path, false)
    }

    /// The entry of a path that a user gave. If it is a link, it is what the link leads to.
    pub fn followed(path: &Path) -> Result<Entry, FileError> {
        Entry::of_path(path, true)
    }

    /// The entry of a path that a user gave, on the way to which only links of root's and our own are
    /// followed. If it is a link, it is the link.
    pub fn trusted(path: &Path) -> Result<Entry, FileError> {
        let (way, name) = trusted::split(path);
        let name = name.map_or(OsStr::new("."), Path::as_os_str);
        Entry::within(&Directory::on_the_way(way, path)?, name).map(|(entry, _)| entry)
    }

    /// The entry of a name that somebody else wrote down, below a directory. A name that leads out of it,
    /// or may lead there through a link, is refused; if it is a link itself, it is the link.
    pub fn beneath(directory: &Arc<Directory>, name: &Path) -> Result<Entry, FileError> {
        let failed = |source: io::Error| FileError::io(&directory.path().join(name), Operation::Open, source);
        let steps = steps_of(name).ok_or_else(|| failed(io::Error::other(LEADS_OUT)))?;
        let [folders @ .., last] = steps.as_slice() else { return Err(failed(Errno::ISDIR.into())) };
        let directory = match folders {
            [] => directory.clone(),
            _ => {
                let descriptor = folder_beneath(directory, folders, None).map_err(|errno| {
                    failed(match errno {
                        Errno::LOOP | Errno::XDEV => io::Error::other(LEADS_OUT),
                        errno => errno.into(),
                    })
                })?;
                let place = DirectoryPlace::new(directory.place.clone(), joined(folders).as_os_str());
                Arc::new(Directory::new(descriptor, place))
            }
        };
        Entry::within(&directory, last).map(|(entry, _)| entry)
    }

    /// What has a name in a directory, and what is said of it. If it is a link, it is the link.
    pub fn within(directory: &Arc<Directory>, name: &OsStr) -> Result<(Entry, Stat), FileError> {
        let mut entry = Entry::found(directory, name.into(), (Kind::Special, 0), false);
        let stat = entry.stat()?;
        (entry.kind, entry.inode) = (stat.kind, stat.inode);
        Ok((entry, stat))
    }

    fn of_path(path: &Path, follow: bool) -> Result<Entry, FileError> {
        let (directory, name) = within_limits(path).map_err(|e| FileError::io(path, Operation::Stat, e))?;
        let directory = Arc::new(directory);
        let mut entry = Entry { directory, name, kind: Kind::Special, inode: 0, follow, held: None };
        let stat = entry.stat()?;
        (entry.kind, entry.inode) = (stat.kind, stat.inode);
        Ok(entry)
    }

    /// The path that was walked to it.
    pub fn path(&self) -> PathBuf {
        match &self.directory.place {
            None => PathBuf::from(&self.name),
            Some(place) => {
                let mut names = place.names();
                names.push(&self.name);
                joined(&names)
            }
        }
    }

    /// Its name in its directory; of a path that a user gave and that is followed whoever's links are on its
    /// way, all of it.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The same, for those who need nothing else of it.
    pub fn into_name(self) -> OsString {
        self.name
    }

    /// The directory that it is in.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The directory that it is in, to look up other names there, also if a user gave a path to it.
    pub fn folder(&self) -> Result<Arc<Directory>, FileError> {
        let way = Path::new(&self.name).parent().filter(|way| !way.as_os_str().is_empty());
        let Some(way) = way else { return Ok(self.directory.clone()) };
        let descriptor = rustix::fs::openat(&self.directory, way, STEP, Mode::empty());
        let descriptor = descriptor.map_err(|errno| self.failed(Operation::Open, errno))?;
        let place = DirectoryPlace::new(self.directory.place.clone(), way.as_os_str());
        Ok(Arc::new(Directory::new(descriptor, place)))
    }

    /// What it was when its directory was listed.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its inode when its directory was listed.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    pub(super) fn follows(&self) -> bool {
        self.follow
    }

    /// What the file system says of it; a link is followed only if it was when it was found.
    pub fn stat(&self) -> Result<Stat, FileError> {
        let flags = if self.follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = rustix::fs::statat(&self.directory, &self.name, flags);
        stat.map(Stat::from).map_err(|e| FileError::io(&self.path(), Operation::Stat, e))
    }

    /// When it was made, where its file system keeps that.
    pub fn born(&self) -> Option<Timestamp> {
        let (flags, wanted) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME);
        born_of(&rustix::fs::statx(&self.directory, &self.name, flags, wanted).ok()?)
    }

    /// Whether something else is mounted over what is in a directory on `device`, as far as the system tells.
    /// That a file is on another device than its directory does not say so: where file systems are overlaid it
    /// may be. `stat` is what was said of it.
    pub fn is_mounted_over(&self, stat: &Stat, device: u64) -> bool {
        is_mounted_over(self.directory.as_fd(), &self.name, stat, device)
    }

    /// Opens it for reading; a link is refused unless it was followed, a pipe is not waited for.
    pub fn open(&self) -> Result<File, FileError> {
        self.open_with(OFlags::NONBLOCK).map(File::from).map_err(|e| self.failed(Operation::Open, e))
    }

    /// Opens it without moving the time of its last access, where the system lets us: only the owner may
    /// ask for that. `quietly` says whether that is worth trying, and is unset where it is not.
    pub(crate) fn open_quietly(&self, quietly: &AtomicBool) -> Result<OwnedFd, Errno> {
        if quietly.load(Ordering::Relaxed) {
            match self.open_with(OFlags::NONBLOCK | OFlags::NOATIME) {
                Err(Errno::PERM) => quietly.store(false, Ordering::Relaxed),
                opened => return opened,
            }
        }
        self.open_with(OFlags::NONBLOCK)
    }

    /// Opens it for reading if it is a regular file and no link. A pipe is not waited for.
    pub fn open_regular(&self) -> Result<File, FileError> {
        let file = self.open_with(OFlags::NONBLOCK | OFlags::NOFOLLOW);
        let not_a_file = || FileError::NotAFile { path: self.path() };
        let file = File::from(file.map_err(|errno| match errno {
            Errno::LOOP | Errno::NXIO => not_a_file(),
            errno => self.failed(Operation::Open, errno),
        })?);
        match Stat::of(&file).map_err(|errno| self.failed(Operation::Stat, errno))?.kind {
            Kind::File => Ok(file),
            _ => Err(not_a_file()),
        }
    }

    pub(crate) fn open_with(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let link = if self.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | link | flags;
        rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())
    }

    /// The error of an operation on this entry.
    pub fn failed(&self, operation: Operation, cause: Errno) -> FileError {
        FileError::io(&self.path(), operation, cause)
    }
}

/// When an open file was made, where its file system keeps that.
pub fn born(file: impl AsFd) -> Option<Timestamp> {
    born_of(&rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?)
}

fn born_of(found: &Statx) -> Option<Timestamp> {
    let is_kept = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    let (seconds, nanoseconds) = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
    is_kept.then_some(Timestamp { seconds, nanoseconds })
}

/// The directory and the rest of a path: the working directory and all of it, unless that is more than a
/// system call takes.
fn within_limits(path: &Path) -> Result<(Directory, OsString), Errno> {
    let mut rest = path.as_os_str().as_bytes();
    let mut directory = Directory { descriptor: None, place: None };
    while rest.len() >= PATH_MAX {
        let slash = rest[..PATH_MAX - 1].iter().rposition(|byte| *byte == b'/');
        let slash = slash.filter(|at| *at > 0).ok_or(Errno::NAMETOOLONG)?;
        let (step, below) = (OsStr::from_bytes(&rest[..slash]), &rest[slash..]);
        let below = &below[below.iter().take_while(|byte| **byte == b'/').count()..];
        let descriptor = rustix::fs::openat(&directory, step, STEP, Mode::empty())?;
        directory = Directory::new(descriptor, DirectoryPlace::new(directory.place.take(), step));
        rest = below;
    }
    Ok((directory, OsStr::from_bytes(rest).into()))
}

/// Why a name that somebody else wrote down is not opened.
pub const LEADS_OUT: &str = "the name leads out of its directory, or through a link";

/// The names that a name consists of; none if it is absolute or goes up.
fn steps_of(name: &Path) -> Option<Vec<&OsStr>> {
    let steps = name.components().filter(|component| *component != Component::CurDir);
    steps
        .map(|component| match component {
            Component::Normal(step) => Some(step),
            _ => None,
        })
        .collect()
}

/// Opens a folder below a directory through no link at all, and none that is on another device than the one
/// that is given.
fn folder_beneath(directory: &Directory, steps: &[&OsStr], device: Option<u64>) -> Result<OwnedFd, Errno> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    resolve.set(ResolveFlags::NO_XDEV, device.is_some());
    match rustix::fs::openat2(directory, joined(steps), STEP, Mode::empty(), resolve) {
        // Before Linux 5.6, in some sandboxes, and with more than a system call takes.
        Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG) => {
            step_by_step(directory.as_fd(), steps, device)
        }
        // What is mounted on the way may be of the same file system.
        Err(Errno::XDEV) if device.is_some() => step_by_step(directory.as_fd(), steps, device),
        opened => opened.and_then(|opened| require_device(opened, device)),
    }
}

/// Whether something else is mounted over a name in a directory on `device`: of the same file system it may
/// be what is there anyhow.
fn is_mounted_over(directory: BorrowedFd, name: &OsStr, stat: &Stat, device: u64) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = rustix::fs::statx(directory, name, flags, StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
        && (stat.device != device || listed_inode(directory, name) != Some(stat.inode))
}

/// The inode that a directory's own list has under a name, whatever is mounted over it.
fn listed_inode(directory: BorrowedFd, name: &OsStr) -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let list = rustix::fs::openat(directory, ".", flags, Mode::empty()).and_then(Dir::new).ok()?;
    let mut entries = list.map_while(Result::ok);
    entries.find(|entry| entry.file_name().to_bytes() == name.as_bytes()).map(|entry| entry.ino())
}

/// Fails for what is on another device: a volume of Btrfs is, without being mounted.
fn require_device(opened: OwnedFd, device: Option<u64>) -> Result<OwnedFd, Errno> {
    match device {
        Some(device) if Stat::of(&opened)?.device != device => Err(Errno::XDEV),
        _ => Ok(opened),
    }
}

/// The same, one name at a time. No name may be `..`.
fn step_by_step(directory: BorrowedFd, steps: &[&OsStr], device: Option<u64>) -> Result<OwnedFd, Errno> {
    let mut reached: Option<OwnedFd> = None;
    for step in steps {
        let from = reached.as_ref().map_or(directory, |reached| reached.as_fd());
        let next = rustix::fs::openat(from, *step, STEP | OFlags::NOFOLLOW, Mode::empty());
        let next = next.map_err(|errno| {
            let is_link = rustix::fs::statat(from, *step, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
            if is_link { Errno::LOOP } else { errno }
        })?;
        let next = require_device(next, device)?;
        if let Some(device) = device
            && is_mounted_over(from, step, &Stat::of(&next)?, device)
        {
            return Err(Errno::XDEV);
        }
        reached = Some(next);
    }
    reached.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_stay_below_their_directory() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("in/sub/deep")).unwrap();
        std::fs::create_dir(root.join("out")).unwrap();
        for name in ["in/v", "in/sub/v", "in/sub/deep/v", "out/v"] {
            std::fs::write(root.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("../out", root.join("in/lnk")).unwrap();
        std::os::unix::fs::symlink("sub", root.join("in/inner")).unwrap();
        let inside = Directory::named(&root.join("in")).unwrap();
        for name in ["v", "./v", "sub/v", "sub/./deep//v"] {
            let entry = Entry::beneath(&inside, Path::new(name)).unwrap();
            assert_eq!(entry.kind(), Kind::File, "{name}");
            assert!(entry.open_regular().is_ok());
            assert_eq!(std::fs::metadata(entry.path()).unwrap().len(), entry.stat().unwrap().size);
        }
        let absolute = root.join("out/v");
        let bad = ["../out/v", "./../out/v", "sub/../../out/v", "lnk/v", "inner/v", "sub/../v"];
        for name in bad.iter().map(Path::new).chain([absolute.as_path()]) {
            let error = Entry::beneath(&inside, name).unwrap_err();
            assert!(error.to_string().contains(LEADS_OUT), "{error}");
        }
        for name in ["", ".", "none", "none/v", "v/v"] {
            assert!(Entry::beneath(&inside, Path::new(name)).is_err(), "{name}");
        }
        let steps = |names: &[&str]| {
            let names: Vec<&OsStr> = names.iter().map(OsStr::new).collect();
            step_by_step(inside.as_fd(), &names, None).map(drop)
        };
        assert_eq!(steps(&["sub", "deep"]), Ok(()));
        assert_eq!(steps(&["lnk"]), Err(Errno::LOOP));
        assert_eq!(steps(&["v"]), Err(Errno::NOTDIR));
        let device = Stat::of(&*inside).unwrap().device;
        let errno = |way: &str, device| inside.beneath(Path::new(way), Some(device)).err()?.errno();
        assert_eq!(
            inside.beneath(Path::new("sub/deep"), Some(device)).unwrap().path(),
            root.join("in/sub/deep")
        );
        assert_eq!(errno("sub/deep", device + 1), Some(Errno::XDEV));
        assert_eq!(errno("inner/deep", device), Some(Errno::LOOP));
        assert_eq!(errno("../out", device), Some(Errno::XDEV));
    }

    #[test]
    fn names_are_joined_as_find_does() {
        let path = |names: &[&str]| joined(&names.iter().map(OsStr::new).collect::<Vec<_>>());
        assert_eq!(path(&["."]).as_os_str(), ".");
        assert_eq!(path(&[".", "a", "b"]).as_os_str(), "./a/b");
        assert_eq!(path(&["/", "a"]).as_os_str(), "/a");
        assert_eq!(path(&["x/", "a"]).as_os_str(), "x/a");
    }

    #[test]
    fn a_place_deeper_than_the_stack_is_dropped() {
        let mut place = DirectoryPlace::new(None, OsStr::new("."));
        for _ in 0..1_000_000 {
            place = DirectoryPlace::new(Some(place), OsStr::new("d"));
        }
        assert_eq!(place.path().as_os_str().len(), 2_000_001);
    }
}
