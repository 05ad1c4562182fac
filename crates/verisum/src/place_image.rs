//! Disk images in places: reads only the ranges that have data.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use verisum_files::place::{Place, PlaceError, RangedFile};
use verisum_image::{Image, OpenOptions, RangedSource};

/// Why an image in a place is not opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlaceImageError {
    /// The place does not give the file.
    Place(PlaceError),
    /// It is no image that is read so.
    Image(verisum_image::ImageError),
}

impl std::fmt::Display for PlaceImageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PlaceImageError::Place(error) => error.fmt(f),
            PlaceImageError::Image(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PlaceImageError {}

/// Opens the disk image at a path of a place, which errors call `name`. What is a hole in it, or not allocated, is never
/// asked for.
///
/// # Errors
/// The place gives no ranges of the file, or it is no image that is read so.
pub fn open_image(
    place: &mut dyn Place,
    path: &[u8],
    name: &OsStr,
    options: &OpenOptions,
) -> Result<Box<dyn Image>, PlaceImageError> {
    let file = place.open(path).map_err(PlaceImageError::Place)?;
    verisum_image::open_ranged(Box::new(InPlace(file)), Path::new(name), options)
        .map_err(PlaceImageError::Image)
}

struct InPlace(Box<dyn RangedFile>);

impl RangedSource for InPlace {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }
}
