//! A name in an open directory: what can be asked and opened without a path that others may change.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, Kind, Operation, Stat};

/// The longest path that a system call takes, its NUL included.
const PATH_MAX: usize = 4096;

/// An open directory and the path that was walked to it, for messages and records.
#[derive(Debug)]
pub struct Directory {
    /// `None` for the working directory.
    descriptor: Option<OwnedFd>,
    place: Option<Arc<Place>>,
}

impl Directory {
    pub(super) fn new(descriptor: OwnedFd, place: Arc<Place>) -> Directory {
        Directory { descriptor: Some(descriptor), place: Some(place) }
    }

    /// The path that was walked to it; empty for the working directory.
    pub fn path(&self) -> PathBuf {
        self.place.as_ref().map_or_else(PathBuf::new, |place| place.path())
    }

    pub(super) fn place(&self) -> Option<&Arc<Place>> {
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
pub(super) struct Place {
    parent: Option<Arc<Place>>,
    name: OsString,
}

impl Place {
    pub(super) fn new(parent: Option<Arc<Place>>, name: &OsStr) -> Arc<Place> {
        Arc::new(Place { parent, name: name.into() })
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

impl Drop for Place {
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
    pub fn named(path: &Path) -> Result<Entry, Error> {
        Entry::of_path(path, false)
    }

    /// The entry of a path that a user gave. If it is a link, it is what the link leads to.
    pub fn followed(path: &Path) -> Result<Entry, Error> {
        Entry::of_path(path, true)
    }

    fn of_path(path: &Path, follow: bool) -> Result<Entry, Error> {
        let (directory, name) = within_limits(path).map_err(|e| Error::io(path, Operation::Stat, e))?;
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

    /// Its name in its directory; of a path that a user gave, all of it.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The directory that it is in.
    pub fn directory(&self) -> &Directory {
        &self.directory
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
    pub fn stat(&self) -> Result<Stat, Error> {
        let flags = if self.follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = rustix::fs::statat(&self.directory, &self.name, flags);
        stat.map(Stat::from).map_err(|e| Error::io(&self.path(), Operation::Stat, e))
    }

    /// Opens it for reading; a link is refused unless it was followed, a pipe is not waited for.
    pub fn open(&self) -> Result<File, Error> {
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

    pub(crate) fn open_with(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let link = if self.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | link | flags;
        rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())
    }

    pub(crate) fn failed(&self, operation: Operation, cause: Errno) -> Error {
        Error::io(&self.path(), operation, cause)
    }
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
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::openat(&directory, step, flags, Mode::empty())?;
        directory = Directory::new(descriptor, Place::new(directory.place.take(), step));
        rest = below;
    }
    Ok((directory, OsStr::from_bytes(rest).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut place = Place::new(None, OsStr::new("."));
        for _ in 0..1_000_000 {
            place = Place::new(Some(place), OsStr::new("d"));
        }
        assert_eq!(place.path().as_os_str().len(), 2_000_001);
    }
}
