//! The files of a tree: finds and opens them by paths that others cannot change.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::AtFlags;
use verisum_files::replace::is_passing;
use verisum_files::{
    Directory, Entry, Kind, Operation, Order, Progress, Stat, Stop, Timestamp, Walk, WalkOptions,
};

use crate::ParityError;
use crate::head::Piece;
use crate::names::is_ours;

/// A directory with all below it.
pub(crate) struct Tree {
    root: Arc<Directory>,
    path: PathBuf,
    progress: Arc<Progress>,
    stop: Arc<Stop>,
}

impl Tree {
    /// Opens the root. What root mends must not be where a link of another user leads.
    pub(crate) fn open(path: &Path, progress: &Arc<Progress>, stop: &Arc<Stop>) -> Result<Tree, ParityError> {
        let (progress, stop) = (progress.clone(), stop.clone());
        Ok(Tree { root: Directory::trusted(path)?, path: path.to_path_buf(), progress, stop })
    }

    /// Fails if the run is to end.
    pub(crate) fn go_on(&self) -> Result<(), ParityError> {
        if self.stop.is_due() { Err(ParityError::Stopped) } else { Ok(()) }
    }

    /// When the run is to end.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Tells which file is read now.
    pub(crate) fn is_at(&self, path: &[u8]) {
        self.progress.now_at(|| self.path_of(path));
    }

    /// Adds to the progress a piece that was read.
    pub(crate) fn was_read(&self, piece: &Piece) {
        let is_last = piece.offset + piece.length == piece.size;
        self.progress.add(u64::from(is_last), piece.length);
    }

    /// Adds to the progress bytes that were read, and the file if those were its last.
    pub(crate) fn add(&self, is_last: bool, bytes: u64) {
        self.progress.add(u64::from(is_last), bytes);
    }

    /// Adds to what is to be read.
    pub(crate) fn expect(&self, bytes: u64) {
        self.progress.expect(bytes);
    }

    /// Its path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file, for messages.
    pub(crate) fn path_of(&self, path: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(path))
    }

    /// The root itself.
    pub(crate) fn root(&self) -> &Arc<Directory> {
        &self.root
    }

    /// Opens a regular file by its path from the root, through no link.
    pub(crate) fn file(&self, path: &[u8]) -> Result<(Entry, File), verisum_files::FileError> {
        self.is_at(path);
        let entry = Entry::beneath(&self.root, Path::new(OsStr::from_bytes(path)))?;
        let file = entry.open_regular()?;
        Ok((entry, file))
    }

    /// Fails if the parity files are in the root itself.
    pub(crate) fn require_apart(&self, parity: (u64, u64)) -> Result<(), ParityError> {
        let root = Stat::of(&*self.root).map_err(|errno| ParityError::io(&self.path, "stat", errno))?;
        match (root.device, root.inode) == parity {
            true => Err(ParityError::damaged(&self.path, "the parity needs a directory of its own")),
            false => Ok(()),
        }
    }

    /// All regular files in the order of their paths' bytes, each as one piece, without the parity files in the
    /// directory `parity`.
    pub(crate) fn files(
        &self,
        parity: (u64, u64),
    ) -> impl Iterator<Item = Result<Piece, verisum_files::FileError>> {
        let mut options = WalkOptions::default();
        options.order = Order::Name;
        let mut walk = Walk::new(vec![self.path.clone()], options);
        let mut parity_path = None;
        std::iter::from_fn(move || {
            loop {
                let entry = match walk.next()? {
                    Ok(entry) => entry,
                    Err(error) => return Some(Err(error)),
                };
                match entry.kind() {
                    Kind::Directory if is_the_one(&entry, parity) => parity_path = Some(entry.path()),
                    Kind::File
                        if entry.name().to_str().is_some_and(is_ours)
                            && entry.path().parent() == parity_path.as_deref() => {}
                    Kind::File if !is_passing(entry.name().as_bytes()) => {
                        if let Some(found) = self.piece(&entry).transpose() {
                            return Some(found);
                        }
                    }
                    _ => {}
                }
            }
        })
    }

    /// The whole of a file; none if it is no regular file any more.
    fn piece(&self, entry: &Entry) -> Result<Option<Piece>, verisum_files::FileError> {
        let stat = rustix::fs::statat(entry.directory(), entry.name(), AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|errno| entry.failed(Operation::Stat, errno))?;
        let (mode, owner) = (stat.st_mode & 0o7777, (stat.st_uid, stat.st_gid));
        let stat = Stat::from(stat);
        let path = entry.path();
        let Ok(path) = path.strip_prefix(&self.path) else { return Ok(None) };
        Ok((stat.kind == Kind::File && !path.as_os_str().is_empty()).then(|| Piece {
            path: path.as_os_str().as_bytes().into(),
            size: stat.size,
            modified: time(stat.modified),
            mode,
            owner,
            offset: 0,
            length: stat.size,
        }))
    }
}

/// The inodes that a directory lists are others than those of its files on some file systems (FUSE).
fn is_the_one(entry: &Entry, parity: (u64, u64)) -> bool {
    entry.stat().is_ok_and(|stat| (stat.device, stat.inode) == parity)
}

/// A time as it is recorded: nanoseconds below a second, whatever a file system says.
pub(crate) fn time(time: Timestamp) -> Timestamp {
    Timestamp { nanoseconds: time.nanoseconds.min(999_999_999), ..time }
}

/// Whether a file still has the length and the time of a record.
pub(crate) fn is_as_recorded(stat: &Stat, piece: &Piece) -> bool {
    stat.size == piece.size && time(stat.modified) == piece.modified
}
