//! Decides which files a new block map may replace.

use std::fs::{File, Metadata, metadata};
use std::io::{Error, Read, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use verisum_blockhash::BlockMap;

/// Whether a file of this name is a block map by its first bytes.
pub fn is_map(name: &Path) -> bool {
    let mut start = [0; 8];
    // A named pipe would be waited for, and a device may do something.
    let is_file = metadata(name).is_ok_and(|found| found.is_file());
    is_file
        && File::open(name).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && BlockMap::is_map(&start)
}

/// Fails where a file has the name of a new map of an image that is neither an older map nor empty: least of all is an
/// image replaced. `parts` are the names of the files that the image consists of.
///
/// # Errors
/// What the file is.
pub fn require_replaceable(name: &Path, parts: &[PathBuf]) -> Result<()> {
    let Ok(old) = metadata(name) else { return Ok(()) };
    if old.is_file() && parts.iter().any(|part| is_same(&old, part)) {
        return Err(Error::other("it is the image, or a part of it"));
    }
    match old.is_file() && old.len() > 0 && !is_map(name) {
        true => Err(Error::other("a file of this name exists that is not a block map")),
        false => Ok(()),
    }
}

fn is_same(file: &Metadata, name: &Path) -> bool {
    metadata(name).is_ok_and(|other| (other.dev(), other.ino()) == (file.dev(), file.ino()))
}
