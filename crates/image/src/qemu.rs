//! Images that qemu-nbd opens for us.

use std::path::Path;

use crate::{Error, Format, Image, OpenOptions};

/// Opens an image of a format that this library does not read by itself.
pub(crate) fn open(path: &Path, format: Format, _: &OpenOptions) -> Result<Box<dyn Image>, Error> {
    Err(Error::Unsupported { path: path.to_path_buf(), format })
}
