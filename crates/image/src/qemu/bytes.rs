//! Reads some bytes of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::{ImageError, ImageOperation};

/// A file of which some bytes are looked at.
pub(super) struct PeekedFile<'a> {
    pub(super) path: &'a Path,
    pub(super) file: &'a File,
}

impl PeekedFile<'_> {
    /// Up to `length` bytes at `offset`; fewer at the end of the file.
    pub(super) fn at(&self, offset: u64, length: usize) -> Result<Vec<u8>, ImageError> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            // No file reaches so far.
            let Some(place) = offset.checked_add(done as u64).filter(|&place| place < i64::MAX as u64) else {
                break;
            };
            match self.file.read_at(&mut bytes[done..], place) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ImageError::io_at(self.path, ImageOperation::Read, place, error)),
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    pub(super) fn length(&self) -> Result<u64, ImageError> {
        let end = rustix::fs::seek(self.file, rustix::fs::SeekFrom::End(0));
        end.map_err(|error| ImageError::io(self.path, ImageOperation::Stat, error.into()))
    }
}

/// The little-endian number of `length` bytes at `place`, 0 where there is none.
pub(super) fn little(bytes: &[u8], place: usize, length: usize) -> u64 {
    let bytes = bytes.get(place..place + length).unwrap_or(&[]);
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The big-endian number of `length` bytes at `place`, 0 where there is none.
pub(super) fn big(bytes: &[u8], place: usize, length: usize) -> u64 {
    let bytes = bytes.get(place..place + length).unwrap_or(&[]);
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
