//! Opens the image to be repaired.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use verisum_files::{FileError, Kind, Operation, Reached, explained, has_writer};

/// Opens an image that is changed in place, unless somebody else uses it; with `dry` only to read.
///
/// # Errors
/// It cannot be opened, is neither a file nor a block device, or a program has it open to write to it.
pub fn open_to_write(name: &Path, dry: bool) -> Result<File, FileError> {
    let failed = |error: io::Error| FileError::io(name, Operation::Open, error);
    let other = |why: &str| failed(io::Error::other(why.to_string()));
    // What another user may put in its place is not written to.
    let reached = Reached::new(name)?;
    let is_device = reached.is_block_device()?;
    // Other devices may do something when they are opened.
    if !is_device && reached.stat()?.kind != Kind::File {
        return Err(other("only raw image files and block devices can be repaired"));
    }
    let read = || reached.open(OFlags::RDONLY | OFlags::NONBLOCK);
    if dry {
        return read();
    }
    if !is_device && has_writer(&read()?) {
        return Err(other("a program has it open to write to it"));
    }
    // The system lets nobody have a device alone that is mounted.
    let alone = if is_device { OFlags::EXCL } else { OFlags::empty() };
    reached.open(OFlags::RDWR | alone).map_err(|error| match error {
        FileError::Io { path, operation, offset, source } => {
            FileError::Io { source: explained(name, source), path, operation, offset }
        }
        other => other,
    })
}

/// Where the journal of repairs with a map is: beside the map.
pub fn journal_of(map: &Path) -> PathBuf {
    let mut name = map.as_os_str().to_os_string();
    name.push(".repair");
    name.into()
}
