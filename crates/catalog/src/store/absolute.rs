//! The paths of trees and files in a catalogue: absolute paths.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::{CatalogError, Result};

/// Below the user's state directory.
const NAME: &str = "verisum/catalog.db";

/// Where a user's catalogue is, by the values of `XDG_STATE_HOME` and `HOME`; none if neither says so.
///
/// ```
/// use std::path::Path;
/// use verisum_catalog::store::default_catalog;
///
/// let path = default_catalog(None, Some(Path::new("/home/ann")));
/// assert_eq!(path.as_deref(), Some(Path::new("/home/ann/.local/state/verisum/catalog.db")));
/// // What is no whole path counts as nothing.
/// assert_eq!(default_catalog(Some(Path::new("state")), None), None);
/// ```
pub fn default_catalog(state: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    let state = state.filter(|path| path.is_absolute()).map(Path::to_path_buf);
    let home = home.filter(|path| path.is_absolute()).map(|home| home.join(".local/state"));
    state.or(home).map(|state| state.join(NAME))
}

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
    std::path::absolute(path).map_err(|error| CatalogError::io(path, "open", error))
}
