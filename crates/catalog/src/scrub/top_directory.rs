//! The top directory of a tree, and a safe look-up of files below it. The look-up follows no link, and enters
//! another file system only if these are entered, because a record applies only to the file in its own tree.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use verisum_files::{Directory, Entry, FileError, Kind, Operation, Stat};

/// A directory, and the way to what is recorded below it.
pub(super) struct Top {
    path: PathBuf,
    directory: Arc<Directory>,
    stat: Stat,
    /// The one device that files are looked for on; `None` for any.
    device: Option<u64>,
}

impl Top {
    /// Opens a directory that is no link.
    pub(super) fn open(path: &Path, one_file_system: bool) -> Result<Top, FileError> {
        let stat = Entry::named(path)?.stat()?;
        if stat.kind != Kind::Directory {
            return Err(FileError::io(path, Operation::Open, Errno::NOTDIR));
        }
        let device = one_file_system.then_some(stat.device);
        Ok(Top { path: path.to_path_buf(), directory: Directory::named(path)?, stat, device })
    }

    /// What was said of the directory.
    pub(super) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Whether a path is that of the directory or below it.
    pub(super) fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.path)
    }

    /// Opens a directory by its whole path.
    pub(super) fn folder(&self, path: &Path) -> Result<Arc<Directory>, FileError> {
        let outside = || FileError::io(path, Operation::Open, Errno::XDEV);
        let below = path.strip_prefix(&self.path).map_err(|_| outside())?;
        self.directory.beneath(below, self.device)
    }

    /// What is in a directory of [`Top::folder`], and what is said of it. Where it has the inode that is
    /// recorded, the system need not be asked what is mounted there.
    pub(super) fn entry(
        &self,
        folder: &Arc<Directory>,
        name: &OsStr,
        recorded: Option<u64>,
    ) -> Result<(Entry, Stat), FileError> {
        let (entry, stat) = Entry::within(folder, name)?;
        match self.device.is_some_and(|device| is_mounted_over(&entry, &stat, (device, recorded))) {
            true => Err(entry.failed(Operation::Open, Errno::XDEV)),
            false => Ok((entry, stat)),
        }
    }

    /// What has a path.
    pub(super) fn find(&self, path: &Path) -> Result<(Entry, Stat), FileError> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(FileError::io(path, Operation::Open, Errno::ISDIR));
        };
        self.entry(&self.folder(folder)?, name, None)
    }
}

/// Whether something else is mounted over a file or a directory: it is not the one that is expected, by the
/// device of its directory and by the inode, if that is known, and the system says so.
pub(super) fn is_mounted_over(entry: &Entry, stat: &Stat, (device, inode): (u64, Option<u64>)) -> bool {
    (stat.device, Some(stat.inode)) != (device, inode) && entry.is_mounted_over(stat, device)
}

/// Whether no file has a path any more, by what was found there: a link or a directory in a file's place is
/// no file, nor is anything behind a link in a directory's place.
pub(super) fn is_gone(found: &Result<(Entry, Stat), FileError>) -> bool {
    match found {
        Ok((entry, _)) => entry.kind() != Kind::File,
        Err(error) => matches!(error.errno(), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)),
    }
}
