//! What a new block map may replace.

use std::fs::{File, Metadata, metadata};
use std::io::{Error, Read, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use verisum_blockhash::BlockMap;
use verisum_image::Opened;

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
/// image replaced. `itself` is the image's own name.
///
/// # Errors
/// What the file is.
pub fn require_replaceable(name: &Path, itself: &Path, opened: &Opened) -> Result<()> {
    let Ok(old) = metadata(name) else { return Ok(()) };
    if old.is_file() && belongs_to(&old, itself, opened) {
        return Err(Error::other("it is the image, or a part of it"));
    }
    match old.is_file() && old.len() > 0 && !is_map(name) {
        true => Err(Error::other("a file of this name exists that is not a block map")),
        false => Ok(()),
    }
}

/// Whether a file is one of those that an image consists of.
fn belongs_to(file: &Metadata, itself: &Path, opened: &Opened) -> bool {
    let same = |name: &Path| {
        metadata(name).is_ok_and(|other| (other.dev(), other.ino()) == (file.dev(), file.ino()))
    };
    let layers = match opened {
        Opened::Image(image) => image.layers(),
        Opened::Stream(_) => Vec::new(),
    };
    same(itself) || layers.iter().any(|layer| same(Path::new(&layer.name)))
}
