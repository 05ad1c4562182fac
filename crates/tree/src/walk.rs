//! The walk of a tree by directory descriptors.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::{Error, Excludes, Kind, Operation, Stat};

/// An open directory and the path that was walked to it, for messages and records.
#[derive(Debug)]
pub struct Directory {
    /// `None` for the working directory.
    descriptor: Option<OwnedFd>,
    path: PathBuf,
}

/// A name in an open directory.
#[derive(Clone, Debug)]
pub struct Entry {
    directory: Arc<Directory>,
    name: OsString,
    kind: Kind,
    inode: u64,
}

impl Entry {
    /// The entry of a path that a user gave; its links are followed if `follow`.
    pub fn named(path: &Path) -> Result<Entry, Error> {
        let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| Error::io(path, Operation::Stat, e))?;
        let stat = Stat::from(stat);
        let directory = Arc::new(Directory { descriptor: None, path: PathBuf::new() });
        Ok(Entry { directory, name: path.as_os_str().into(), kind: stat.kind, inode: stat.inode })
    }

    /// The path that was walked to it.
    pub fn path(&self) -> PathBuf {
        self.directory.path.join(&self.name)
    }

    /// Its name in its directory.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// What it was when its directory was listed.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its inode when its directory was listed.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// What the file system says of it; a link is not followed.
    pub fn stat(&self) -> Result<Stat, Error> {
        let stat = match &self.directory.descriptor {
            Some(descriptor) => rustix::fs::statat(descriptor, &self.name, AtFlags::SYMLINK_NOFOLLOW),
            None => rustix::fs::statat(CWD, &self.name, AtFlags::SYMLINK_NOFOLLOW),
        };
        stat.map(Stat::from).map_err(|e| Error::io(&self.path(), Operation::Stat, e))
    }

    /// Opens it for reading; a link is refused, a pipe is not waited for.
    pub fn open(&self) -> Result<File, Error> {
        self.open_with(OFlags::NONBLOCK).map(File::from)
    }

    fn open_with(&self, flags: OFlags) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | flags;
        let opened = match &self.directory.descriptor {
            Some(descriptor) => rustix::fs::openat(descriptor, &self.name, flags, Mode::empty()),
            None => rustix::fs::openat(CWD, &self.name, flags, Mode::empty()),
        };
        opened.map_err(|e| Error::io(&self.path(), Operation::Open, e))
    }
}

/// What to find.
#[derive(Clone, Debug, Default)]
pub struct WalkOptions {
    /// Do not enter directories of other file systems.
    pub one_file_system: bool,
    /// Follow links to files and directories. Those given as roots are followed anyway.
    pub follow_links: bool,
    /// In which order the entries of a directory come.
    pub order: Order,
    /// What is left out.
    pub excludes: Option<Arc<Excludes>>,
}

/// In which order the entries of a directory come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As the file system lists them; directories come last. The fastest.
    #[default]
    Directory,
    /// By their names' bytes. A whole directory's names are held in memory.
    Name,
    /// By inode number, some tens of thousands at a time; directories come last.
    Inode,
    /// By where the first byte lies on the disk, in the same manner. It costs a look at each file.
    Extent,
}

/// All entries below some roots, the roots included, directories before what is in them.
pub struct Walk {
    options: WalkOptions,
    stack: Vec<Level>,
    roots: std::vec::IntoIter<PathBuf>,
    device: Option<u64>,
}

struct Level {
    directory: Arc<Directory>,
    list: rustix::fs::Dir,
}

impl Walk {
    /// A walk of these roots.
    pub fn new(roots: Vec<PathBuf>, options: WalkOptions) -> Walk {
        Walk { options, stack: Vec::new(), roots: roots.into_iter(), device: None }
    }

    fn enter(&mut self, entry: &Entry) -> Result<(), Error> {
        let path = entry.path();
        let failed = |operation| move |e: rustix::io::Errno| (operation, e);
        let descriptor = entry.open_with(OFlags::DIRECTORY)?;
        let level = (|| {
            let stat = Stat::of(&descriptor).map_err(failed(Operation::Stat))?;
            if self.stack.is_empty() {
                self.device = Some(stat.device);
            } else if self.options.one_file_system && self.device != Some(stat.device) {
                return Ok(None);
            }
            let list = rustix::fs::Dir::read_from(&descriptor).map_err(failed(Operation::List))?;
            Ok(Some(list))
        })()
        .map_err(|(operation, e)| Error::io(&path, operation, e))?;
        if let Some(list) = level {
            let directory = Arc::new(Directory { descriptor: Some(descriptor), path });
            self.stack.push(Level { directory, list });
        }
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = match self.stack.last_mut() {
                None => Entry::named(&self.roots.next()?),
                Some(level) => match level.list.next() {
                    None => {
                        self.stack.pop();
                        continue;
                    }
                    Some(Err(e)) => {
                        let error = Error::io(&level.directory.path, Operation::List, e);
                        self.stack.pop();
                        Err(error)
                    }
                    Some(Ok(found)) => {
                        let name = OsStr::from_bytes(found.file_name().to_bytes());
                        if name == "." || name == ".." {
                            continue;
                        }
                        Ok(Entry {
                            directory: level.directory.clone(),
                            name: name.into(),
                            kind: found.file_type().into(),
                            inode: found.ino(),
                        })
                    }
                },
            };
            return Some(match found {
                Ok(entry) if entry.kind == Kind::Directory => self.enter(&entry).map(|()| entry),
                found => found,
            });
        }
    }
}
