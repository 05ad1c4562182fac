//! Data and holes of a file, from its file system.

use std::fs::File;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::{Extent, ExtentKind};

/// How many extents one call finds at most.
const EXTENTS_A_CALL: usize = 256;

/// Finds data and holes of one file, and remembers the last extent found.
///
/// The memory matters: on some file systems the search for the next hole walks all pages or extents up
/// to it, and asking again for each small range of a large extent would take quadratic time.
#[derive(Debug, Default)]
pub(crate) struct ExtentFinder {
    last: Mutex<Option<Extent>>,
}

impl ExtentFinder {
    /// Appends extents of the file from `range.start` on. `range` is not empty and ends within the
    /// file, which was `length` bytes long when it was opened.
    ///
    /// Moves the file's offset to no particular place.
    pub(crate) fn find(
        &self,
        file: &File,
        length: u64,
        range: Range<u64>,
        out: &mut Vec<Extent>,
    ) -> Result<(), std::io::Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut position = range.start;
        for _ in 0..EXTENTS_A_CALL {
            if position >= range.end {
                break;
            }
            let extent = match last.take().filter(|extent| extent.range.contains(&position)) {
                Some(extent) => extent,
                None => extent_at(file, length, position)?,
            };
            let end = extent.range.end.min(range.end);
            out.push(Extent::new(position..end, extent.kind));
            position = end;
            *last = Some(extent);
        }
        Ok(())
    }
}

/// The extent that begins at `position`, as far as it reaches within `length`.
fn extent_at(file: &File, length: u64, position: u64) -> Result<Extent, std::io::Error> {
    let zero = |end| Extent::new(position..end, ExtentKind::Zero);
    let data = |end| Extent::new(position..end, ExtentKind::Data);
    match rustix::fs::seek(file, SeekFrom::Data(position)) {
        // No data up to the end of the file.
        Err(Errno::NXIO) => return Ok(zero(length)),
        Err(error) if unsupported(error) => return Ok(data(length)),
        Err(error) => return Err(error.into()),
        Ok(next) if next > position => return Ok(zero(next.min(length))),
        Ok(_) => {}
    }
    match rustix::fs::seek(file, SeekFrom::Hole(position)) {
        // The file was cut below the position meanwhile: reading it will tell.
        Err(Errno::NXIO) => Ok(data(length)),
        Err(error) if unsupported(error) => Ok(data(length)),
        Err(error) => Err(error.into()),
        Ok(next) if next > position => Ok(data(next.min(length))),
        Ok(_) => Ok(data(length)),
    }
}

/// Whether a file system says with this error that it cannot tell holes from data.
fn unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY | Errno::SPIPE)
}
