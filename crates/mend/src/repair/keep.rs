//! Keeps bad files: moves them, or copies them with their attributes.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::Access;
use rustix::io::Errno;
use verisum_files::trusted_path;

use super::RepairError;
use crate::metadata::Metadata;

/// Fails if bad files could not be kept in a directory. It is made for the first of them only: a repair that is refused
/// leaves nothing behind.
pub(super) fn require_room(keep: &Path, tree: &Path) -> Result<(), RepairError> {
    let failed = |operation, source: io::Error| {
        Err(RepairError::KeepBad { path: keep.to_path_buf(), operation, source })
    };
    let keep = match trusted_path(keep) {
        Ok(keep) => keep,
        Err(error) => return failed("open", error.into_io()),
    };
    if keep.starts_with(tree) || tree.canonicalize().is_ok_and(|tree| keep.starts_with(tree)) {
        return failed("move bad files there", io::Error::other("it is in the tree itself"));
    }
    let there = keep.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
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
