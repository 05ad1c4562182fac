//! The paths that a catalogue knows trees and files by: from the root of the file system on.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::{Error, Result};

/// A path from the root of the file system, without `.` and `..`, links resolved where they are there.
///
/// # Errors
/// The working directory is gone.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Ok(path);
    }
    // What is missing has a name in a folder that may be there.
    let path = from_root(path)?;
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok(absolute(folder)?.join(name)),
        _ => Ok(path.components().filter(|part| !matches!(part, Component::CurDir)).collect()),
    }
}

/// The path of a file that may itself be a link. With a slash at its end it is that of the directory to which
/// the link leads.
///
/// # Errors
/// The working directory is gone.
pub fn absolute_name(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return absolute(path);
    }
    let path = from_root(path)?;
    match (path.parent(), path.components().next_back()) {
        (Some(folder), Some(Component::Normal(name))) => Ok(absolute(folder)?.join(name)),
        _ => absolute(&path),
    }
}

fn from_root(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::io(path, "open", error))
}
