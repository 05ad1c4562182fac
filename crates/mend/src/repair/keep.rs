//! Where bad files are kept: they move there, and are copied where a file cannot move.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use verisum_digest::{Digest, Output};
use verisum_files::reread;

use super::Error;
use crate::metadata::Metadata;

/// Fails if bad files could not be kept in a directory. It is made for the first of them only: a repair that is refused
/// leaves nothing behind.
pub(super) fn require_room(keep: &Path, tree: &Path) -> Result<(), Error> {
    let failed =
        |operation, source: io::Error| Err(Error::KeepBad { path: keep.to_path_buf(), operation, source });
    let there = keep.ancestors().find(|path| path.symlink_metadata().is_ok());
    let there = there.unwrap_or(Path::new("."));
    let is_inside = |(keep, tree): (PathBuf, PathBuf)| keep.starts_with(tree);
    if keep.starts_with(tree)
        || there.canonicalize().ok().zip(tree.canonicalize().ok()).is_some_and(is_inside)
    {
        return failed("move bad files there", io::Error::other("it is in the tree itself"));
    }
    if !there.is_dir() {
        return failed("create", Errno::NOTDIR.into());
    }
    match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(errno) => failed("create", errno.into()),
    }
}

/// A bad file, kept before another takes its place: whatever ends the repair, it has one of its names.
#[derive(Debug)]
pub(super) struct KeptFile {
    path: PathBuf,
    /// Whether it is there already. Else it is to move there.
    is_there: bool,
}

impl KeptFile {
    /// Gives a bad file a second name below a directory, or a copy that was read again where that is on another file
    /// system.
    ///
    /// # Errors
    /// In words. A file that cannot be read as a whole has no copy.
    pub(super) fn new(
        (keep, name): (&Path, &Path),
        old: &File,
        (digest, value): (&Digest, Option<Output>),
    ) -> Result<KeptFile, String> {
        let open = format!("/proc/self/fd/{}", old.as_raw_fd());
        let path = loop {
            let path = room_for(keep, name).map_err(|error| error.to_string())?;
            match rustix::fs::linkat(CWD, &open, CWD, &path, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(KeptFile { path, is_there: true }),
                Err(Errno::XDEV) => break path,
                // Another repair has kept a file there meanwhile.
                Err(Errno::EXIST) => {}
                // Where there are no second names it moves.
                Err(_) => return Ok(KeptFile { path, is_there: false }),
            }
        };
        let Some(value) = value else {
            return Err("on another file system: a file that cannot be read is not copied there".to_string());
        };
        // What another repair has kept there meanwhile stays, so the copy is ours only once it is made.
        let copy = keep_copy(old, &path).map_err(|error| error.to_string())?;
        let kept = KeptFile { path, is_there: true };
        dress_as(&copy, old).map_err(|errno| errno.to_string())?;
        match reread::past_the_cache(&copy, digest) {
            Ok(read) if read.digest == value => {}
            Ok(_) => return Err("the copy there has different content".to_string()),
            Err(error) => return Err(error.to_string()),
        }
        // Directories may have been made for it.
        rustix::fs::syncfs(&copy).map_err(|errno| errno.to_string())?;
        Ok(kept)
    }

    /// Where the bad file is to move, if it is not there already.
    pub(super) fn to_move_to(&self) -> Option<&Path> {
        (!self.is_there).then_some(&*self.path)
    }

    /// Lets it stay: its old name is gone.
    pub(super) fn stay(mut self) {
        self.is_there = false;
    }
}

impl Drop for KeptFile {
    /// What was not replaced is not kept twice.
    fn drop(&mut self) {
        if self.is_there {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A path below a directory that nothing has, with the directories on the way made.
pub(super) fn room_for(keep: &Path, name: &Path) -> io::Result<PathBuf> {
    let path = keep.join(name);
    if let Some(folder) = path.parent() {
        make_private(folder)?;
    }
    let mut numbered = path.clone();
    let mut number = 0;
    while numbered.symlink_metadata().is_ok() {
        number += 1;
        let mut name = path.clone().into_os_string();
        name.push(format!(".{number}"));
        numbered = name.into();
    }
    Ok(numbered)
}

/// Makes a directory with all above it, unless it is there. Nobody else may look into those that it makes: what is kept
/// there may come from where they may not.
fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Gives a copy what a file has besides its content, as far as it can have it there.
fn dress_as(copy: &File, file: &File) -> Result<(), Errno> {
    let mut metadata = Metadata::new(&rustix::fs::fstat(file)?);
    metadata.read_attributes(file, false);
    metadata.apply(copy, true, false).map(drop)
}

/// Copies a bad file to where it is kept, as far as it can be read. Nobody else may read the copy.
pub(super) fn keep_copy(old: &File, to: &Path) -> io::Result<File> {
    let new = File::options().read(true).write(true).create_new(true).mode(0o600).open(to)?;
    match copy_what_can_be_read(old, &new) {
        Ok(()) => Ok(new),
        Err(error) => {
            let _ = std::fs::remove_file(to);
            Err(error)
        }
    }
}

fn copy_what_can_be_read(old: &File, new: &File) -> io::Result<()> {
    const PIECE: usize = 4 << 10;
    let length = old.metadata()?.len();
    new.set_len(length)?;
    let mut room = vec![0; 256 * PIECE];
    let mut at = 0;
    while at < length {
        let wanted = room.len().min((length - at) as usize);
        let mut read = old.read_at(&mut room[..wanted], at);
        if read.is_err() {
            read = old.read_at(&mut room[..wanted.min(PIECE)], at);
        }
        at += match read {
            Ok(0) => break,
            Ok(count) => {
                if room[..count].iter().any(|byte| *byte != 0) {
                    new.write_all_at(&room[..count], at)?;
                }
                count as u64
            }
            // What the disk does not give is zeros in the copy.
            Err(_) => wanted.min(PIECE) as u64,
        };
    }
    new.sync_all()
}
