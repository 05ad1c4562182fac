//! Keeps bad files: moves them, or copies them with their attributes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use rustix::io::Errno;

use super::RepairError;
use crate::metadata::Metadata;
use verisum_files::trusted_path;

/// Fails if bad files could not be kept in a directory. It is made for the first of them only: a repair that is refused
/// leaves nothing behind.
pub(super) fn require_room(keep: &Path, tree: &Path) -> Result<(), RepairError> {
    let failed = |operation, source: io::Error| {
        Err(RepairError::KeepBad { path: keep.to_path_buf(), operation, source })
    };
    if let Err(error) = trusted_path(keep) {
        return failed("open", error.into_io());
    }
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

/// Gives a copy what a file has besides its content, as far as it can have it there.
pub(super) fn dress_as(copy: &File, file: &File) -> io::Result<()> {
    let mut metadata = Metadata::new(&rustix::fs::fstat(file)?);
    metadata.read_attributes(file, false);
    // Its owner alone may use it.
    metadata.mode &= 0o700;
    Ok(metadata.apply(copy, true, false).map(drop)?)
}
