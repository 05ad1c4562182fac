//! Walks a tree by directory descriptors.
//!
//! Every name is looked up in the open directory that listed it, so that nobody who renames a directory
//! or puts a link in its place leads the walk elsewhere, and no path is too long. Memory does not grow
//! with the number of files in a directory (unless they are to be sorted by name), and the number of open
//! descriptors does not grow with the depth.

mod entry;
mod level;
pub(crate) mod trusted;

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

pub use entry::{Directory, Entry};
pub use entry::{LEADS_OUT, born};

use crate::engine::Budget;
use crate::{Excludes, FileError, Kind, Operation, Stat, is_rotating};
use entry::{DirectoryPlace, joined};
use level::{Level, ListedName};

/// What to find.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WalkOptions {
    /// Do not enter directories of other file systems.
    pub one_file_system: bool,
    /// Follow links to files and directories.
    pub follow_links: bool,
    /// What the paths that are given may be and lead through.
    pub roots: Roots,
    /// In which order the entries of a directory come.
    pub order: Order,
    /// What is left out.
    pub excludes: Option<Arc<Excludes>>,
}

/// What the paths that are given to a walk may be and lead through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// Anything, links to it included.
    #[default]
    Any,
    /// Files and directories, links to them included.
    Followed,
    /// Files and directories; a link is an error.
    Plain,
    /// The same, and on the way to them only links of root's and our own are followed.
    Trusted,
}

/// In which order the entries of a directory come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As the file system lists them; directories come last. The fastest.
    #[default]
    Directory,
    /// By name, so that paths come as `LC_ALL=C sort` sorts them. A whole directory's names are held in
    /// memory.
    Name,
    /// By inode number, some tens of thousands at a time; directories come last.
    Inode,
    /// By where the first byte lies on the disk, in the same manner. It costs a look at each file.
    Extent,
}

impl Order {
    /// The order for a walk from `root`: by extent on a disk with heads that must move, this one on others.
    pub fn or_by_extent(self, root: &Entry) -> Order {
        match root.stat().is_ok_and(|stat| is_rotating(stat.device)) {
            true => Order::Extent,
            false => self,
        }
    }
}

/// The room for one list of names: some two thousand of them.
const LIST_BYTES: usize = 64 << 10;

/// All entries below some roots, the roots included, directories before what is in them. What cannot be
/// listed or looked at is an error among them, and the walk goes on.
pub struct Walk {
    options: WalkOptions,
    roots: std::vec::IntoIter<PathBuf>,
    levels: Vec<Level>,
    /// How many of them are kept open.
    most_open: usize,
    /// The device of the root.
    device: u64,
    buffer: Vec<MaybeUninit<u8>>,
}

impl Walk {
    /// A walk of these roots.
    pub fn new(roots: Vec<PathBuf>, options: WalkOptions) -> Walk {
        let buffer = vec![MaybeUninit::uninit(); LIST_BYTES];
        let most_open = Budget::levels();
        Walk { options, roots: roots.into_iter(), levels: Vec::new(), most_open, device: 0, buffer }
    }

    /// Leaves out what is in a directory that was given last.
    pub fn pass_over(&mut self, directory: &Entry) {
        if self.levels.last().is_some_and(|level| level.place.path() == directory.path()) {
            // If the directory above cannot be opened again, the next entry is an error.
            let _ = self.leave();
        }
    }

    /// The entry of a root.
    fn root(&self, path: &Path) -> Result<Entry, FileError> {
        let entry = match self.options.roots {
            Roots::Any => return Entry::followed(path),
            Roots::Followed => Entry::followed(path)?,
            Roots::Plain => Entry::named(path)?,
            Roots::Trusted => Entry::trusted(path)?,
        };
        match entry.kind() {
            Kind::File | Kind::Directory => Ok(entry),
            Kind::Link => Err(FileError::IsLink { path: path.to_path_buf() }),
            Kind::Special => Err(FileError::NotAFile { path: path.to_path_buf() }),
        }
    }

    /// What a listed name is; `None` if it is left out.
    fn look(&self, level: &Level, found: ListedName) -> Result<Option<Entry>, FileError> {
        let Some(directory) = &level.directory else { return Ok(None) };
        let ListedName { name, kind, inode, .. } = found;
        let mut entry = Entry::found(directory, name, (kind.unwrap_or(Kind::Special), inode), false);
        if kind.is_none() {
            let stat = entry.stat()?;
            entry = Entry::found(directory, entry.name().into(), (stat.kind, stat.inode), false);
        }
        if self.is_left_out(&entry) {
            return Ok(None);
        }
        if entry.kind() == Kind::Link && self.options.follow_links {
            let link = Entry::found(directory, entry.name().into(), (Kind::Link, inode), true);
            let stat = link.stat()?;
            entry = Entry::found(directory, entry.name().into(), (stat.kind, stat.inode), true);
        }
        Ok(Some(entry))
    }

    fn is_left_out(&self, entry: &Entry) -> bool {
        let (Some(excludes), Some(place)) = (&self.options.excludes, entry.directory().place()) else {
            return false;
        };
        // The path from the root: without the root's own.
        let mut names = place.names();
        names.push(entry.name());
        excludes.leaves_out(&joined(&names[self.names_of_root()..]), entry.kind() == Kind::Directory)
    }

    /// How many names lead to the root: more than one if its path is very long.
    fn names_of_root(&self) -> usize {
        self.levels.first().map_or(0, |root| root.place.names().len())
    }

    /// Makes a directory the one that is listed.
    fn enter(&mut self, entry: &Entry) -> Result<(), FileError> {
        let failed = |operation| move |e| entry.failed(operation, e);
        let descriptor = entry.open_with(OFlags::DIRECTORY).map_err(failed(Operation::Open))?;
        let stat = Stat::of(&descriptor).map_err(failed(Operation::Stat))?;
        if self.levels.is_empty() {
            self.device = stat.device;
        } else if self.options.one_file_system && self.device != stat.device {
            return Ok(());
        }
        let identity = (stat.device, stat.inode);
        if entry.follows() && self.levels.iter().any(|level| level.identity == identity) {
            return Err(FileError::Loop { path: entry.path() });
        }
        let place = match entry.directory().place() {
            // A directory that was named by a way alone has the path of that.
            Some(way) if entry.name() == "." => way.clone(),
            way => DirectoryPlace::new(way.cloned(), entry.name()),
        };
        let directory = Arc::new(Directory::new(descriptor, place.clone()));
        self.levels.push(Level::new(directory, place, &stat));
        if let Some(deep) = self.levels.len().checked_sub(self.most_open + 1) {
            self.levels[deep].directory = None;
        }
        Ok(())
    }

    /// Goes back to the directory above, and opens it again if it is closed.
    fn leave(&mut self) -> Result<(), FileError> {
        let Some(left) = self.levels.pop() else { return Ok(()) };
        let Some(above) = self.levels.last_mut() else { return Ok(()) };
        if above.directory.is_some() {
            return Ok(());
        }
        match reopened(&left, above) {
            Ok(directory) => above.directory = Some(Arc::new(directory)),
            Err(cause) => {
                let path = above.place.path();
                // Nothing more can be looked up in it, but it may be left in its turn by its own path.
                return Err(FileError::io(&path, Operation::Open, cause));
            }
        }
        Ok(())
    }
}

/// The directory above, by its entry `..` or else by all names from the root. It must be the same.
fn reopened(left: &Level, above: &Level) -> Result<Directory, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let same = |descriptor| {
        let stat = Stat::of(&descriptor)?;
        match (stat.device, stat.inode) == above.identity {
            true => Ok(Directory::new(descriptor, above.place.clone())),
            false => Err(Errno::STALE),
        }
    };
    if let Some(directory) = &left.directory
        && let Ok(found) = rustix::fs::openat(directory, Path::new(".."), flags, Mode::empty()).and_then(same)
    {
        return Ok(found);
    }
    let names = above.place.names();
    let mut descriptor = rustix::fs::open(Path::new(names[0]), flags, Mode::empty())?;
    for name in &names[1..] {
        descriptor = rustix::fs::openat(&descriptor, *name, flags, Mode::empty())?;
    }
    same(descriptor)
}

impl Iterator for Walk {
    type Item = Result<Entry, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = match self.levels.last_mut() {
                None => {
                    let path = self.roots.next()?;
                    self.root(&path).map(Some)
                }
                Some(level) => match level.next(self.options.order, &mut self.buffer) {
                    None => match self.leave() {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    },
                    Some(Err(cause)) => Err(FileError::io(&level.place.path(), Operation::List, cause)),
                    Some(Ok(found)) => match self.levels.last() {
                        Some(level) => self.look(level, found),
                        None => Ok(None),
                    },
                },
            };
            return Some(match found {
                Ok(None) => continue,
                Ok(Some(entry)) if entry.kind() == Kind::Directory => self.enter(&entry).map(|()| entry),
                Ok(Some(entry)) => Ok(entry),
                Err(error) => Err(error),
            });
        }
    }
}
