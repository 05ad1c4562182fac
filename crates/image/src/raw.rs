//! Raw images: a regular file or a block device, whose bytes are the guest's.
//!
//! Two descriptors serve one image. The buffered one can read anything; the direct one, where there is
//! one, takes the aligned part of each request past the page cache, unless all of it is cached already
//! and the image is a file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::SeekFrom;
use verisum_pagecache::{CachedBytes, WINDOW_BYTES, Windows};

use crate::buffered::Buffered;
use crate::by_name::{self, FileKind};
use crate::direct::{Direct, Refusal};
use crate::extents::ExtentFinder;
use crate::ranged::{self, RangedSource, RawBytes};
use crate::{
    Extent, ExtentKind, ExtentLocation, Image, ImageError, ImageFormat, ImageOperation, Layer, OpenOptions,
};

/// The unit a guest sees: QEMU shows a raw file with zeros up to the next one.
const SECTOR: u64 = 512;

/// The smallest piece read to find the place of a failure.
const FAILURE_PIECE: usize = 4096;

/// A regular file or block device, or the rest of one from some offset on.
#[derive(Debug)]
pub struct RawImage {
    path: PathBuf,
    bytes: RawBytes,
    direct: Option<Direct>,
    /// Where in the file the image begins: not 0 only for standard input.
    start: u64,
    /// Bytes of the file from `start` on.
    exact_length: u64,
    /// Zeros after them.
    padding: u64,
    /// Nothing for a block device and for what gives ranges: it is all data.
    extents: Option<ExtentFinder>,
    /// Not of a block device: another host may write to one that is shared, and this page cache would not know.
    windows: Option<Mutex<Windows>>,
    /// When the bytes were last changed before the image was opened.
    modified: (i64, i64),
    /// Whether less is stored than the length says.
    sparse: bool,
    /// Which file it is.
    device: u64,
    inode: u64,
}

impl RawImage {
    /// Opens a regular file or block device by name.
    ///
    /// # Errors
    /// [`ImageError::NotAnImage`] for any other kind of file, also for a regular file that does not tell its
    /// length; [`crate::open`] reads those that can be read as a stream.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<RawImage, ImageError> {
        let not_an_image = |what| ImageError::NotAnImage { path: path.to_path_buf(), what };
        // A named pipe would be waited for; look first.
        let metadata = std::fs::metadata(path).map_err(|e| ImageError::io(path, ImageOperation::Open, e))?;
        if metadata.file_type().is_fifo() {
            return Err(not_an_image("Is a pipe"));
        }
        match by_name::find(path, options)? {
            FileKind::Raw(image) => Ok(image),
            FileKind::Stream(_) => Err(not_an_image("Has no known length")),
        }
    }

    /// Makes an image of `file` from byte `start` on. `file` is a regular file or block device.
    pub(crate) fn new(
        file: File,
        path: &Path,
        start: u64,
        options: &OpenOptions,
    ) -> Result<Self, ImageError> {
        let stat = |e| ImageError::io(path, ImageOperation::Stat, e);
        let metadata = file.metadata().map_err(stat)?;
        let exact_length = size(&file).map_err(stat)?.saturating_sub(start);
        let padding = match options.sector_padding {
            true => exact_length.next_multiple_of(SECTOR) - exact_length,
            false => 0,
        };
        let direct = match options.cache {
            true => None,
            false => Direct::open(&file, path).filter(|direct| direct.suits_start(start)),
        };
        let file = Arc::new(file);
        let windows = || Mutex::new(Windows::new(file.clone(), start + exact_length));
        Ok(RawImage {
            direct,
            path: path.to_path_buf(),
            start,
            exact_length,
            padding,
            extents: metadata.is_file().then(ExtentFinder::default),
            windows: metadata.is_file().then(windows),
            modified: modified(&metadata),
            sparse: metadata.is_file() && metadata.blocks() * SECTOR < metadata.size(),
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: RawBytes::File(Buffered::new(file, !options.cache)),
        })
    }

    /// Makes an image of what gives ranges.
    pub(crate) fn ranged(source: Box<dyn RangedSource>, path: &Path, options: &OpenOptions) -> RawImage {
        let exact_length = source.length();
        let padding = match options.sector_padding {
            true => exact_length.next_multiple_of(SECTOR) - exact_length,
            false => 0,
        };
        let (device, inode) = ranged::identity();
        RawImage {
            path: path.to_path_buf(),
            bytes: RawBytes::Ranged(source),
            direct: None,
            start: 0,
            exact_length,
            padding,
            extents: None,
            windows: None,
            modified: (0, 0),
            sparse: false,
            device,
            inode,
        }
    }

    /// Whether aligned reads bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.as_ref().is_some_and(|direct| !direct.is_refused())
    }

    /// Whether the file has holes, as far as its size tells.
    pub(crate) fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// Whether this is a block device rather than a regular file.
    fn is_device(&self) -> bool {
        self.extents.is_none()
    }

    /// Length in bytes of the file behind the image when it was opened.
    fn file_length(&self) -> u64 {
        self.start + self.exact_length
    }

    /// Fills `buf` from the stored bytes at `offset` of the image.
    fn read_stored(&self, buf: &mut [u8], offset: u64) -> Result<(), ImageError> {
        let mut done = match &self.direct {
            Some(direct) => self.read_direct(direct, buf, offset)?,
            None => 0,
        };
        while done < buf.len() {
            let position = offset + done as u64;
            match self.bytes.read(&mut buf[done..], self.start + position) {
                Ok(0) => return Err(self.ended_early(position)),
                Ok(count) => done += count,
                Err(error) => return Err(self.failed(position, error)),
            }
        }
        Ok(())
    }

    /// Reads as much of the start of `buf` as direct I/O gives, and nothing if the page cache has it
    /// already; returns how much that is.
    fn read_direct(&self, direct: &Direct, buf: &mut [u8], offset: u64) -> Result<usize, ImageError> {
        let reach = direct.reach(buf, self.start + offset);
        // Another host may write to a block device that is shared, and this cache would not know.
        if reach > 0 && !self.is_device() && direct.is_cached(self.start + offset, reach) {
            return Ok(0);
        }
        let mut done = 0;
        let mut piece = usize::MAX;
        loop {
            let position = offset + done as u64;
            let rest = &mut buf[done..];
            let reach = direct.reach(rest, self.start + position).min(piece);
            if reach == 0 {
                return Ok(done);
            }
            match direct.read(&mut rest[..reach], self.start + position) {
                // The end of the file, which the buffered descriptor confirms or denies.
                Ok(0) | Err(Refusal::Unsupported) => return Ok(done),
                Ok(count) => done += count,
                // A failed request says nothing of the place: go on in small pieces up to it.
                Err(Refusal::Failed(_)) if reach > self.failure_piece(direct) => {
                    piece = self.failure_piece(direct);
                }
                Err(Refusal::Failed(error)) => return Err(self.failed(position, error)),
            }
        }
    }

    /// Where the byte at `offset` of the image is stored.
    pub(crate) fn place(&self, offset: u64) -> ExtentLocation {
        ExtentLocation { device: self.device, inode: self.inode, offset: self.start + offset }
    }

    fn failure_piece(&self, direct: &Direct) -> usize {
        FAILURE_PIECE.max(direct.alignment())
    }

    fn failed(&self, offset: u64, error: io::Error) -> ImageError {
        ImageError::io_at(&self.path, ImageOperation::Read, offset, error)
    }

    /// The error for a file that gives no byte at `offset` though it should.
    fn ended_early(&self, offset: u64) -> ImageError {
        match self.check_unchanged() {
            Err(error) => error,
            Ok(()) => self.failed(offset, io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Image for RawImage {
    fn length(&self) -> u64 {
        self.exact_length + self.padding
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), ImageError> {
        if range.is_empty() {
            return Ok(());
        }
        let first = out.len();
        let stored = range.start.min(self.exact_length)..range.end.min(self.exact_length);
        match self.extents.as_ref().zip(self.bytes.file()) {
            _ if stored.is_empty() => out.push(Extent::new(range, ExtentKind::Zero)),
            None => {
                let place = Some(self.place(range.start));
                out.push(Extent { range, kind: ExtentKind::Data, place });
            }
            Some((finder, file)) => {
                let in_file = self.start + stored.start..self.start + stored.end;
                finder
                    .find(file, self.file_length(), in_file, out)
                    .map_err(|e| ImageError::io_at(&self.path, ImageOperation::Map, range.start, e))?;
                for extent in &mut out[first..] {
                    extent.range = extent.range.start - self.start..extent.range.end - self.start;
                    if !extent.kind.is_zero() {
                        extent.place = Some(self.place(extent.range.start));
                    }
                }
                // The padding belongs to whatever the file ends with.
                if let Some(last) = out[first..].last_mut()
                    && last.range.end == self.exact_length
                {
                    last.range.end = range.end;
                }
            }
        }
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ImageError> {
        let stored = self.exact_length.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (stored, padding) = buf.split_at_mut(stored);
        padding.fill(0);
        self.read_stored(stored, offset)
    }

    fn in_page_cache(&self, range: Range<u64>) -> Option<CachedBytes> {
        let suits = range.end <= self.exact_length && range.end - range.start <= WINDOW_BYTES;
        let windows = self.windows.as_ref().filter(|_| suits)?;
        let mut windows = windows.lock().unwrap_or_else(PoisonError::into_inner);
        Some(windows.next(self.start + range.start..self.start + range.end))
    }

    fn alignment(&self) -> usize {
        match &self.direct {
            Some(direct) => direct.alignment().max(crate::AlignedBuffer::ALIGNMENT),
            None => 1,
        }
    }

    fn layers(&self) -> Vec<Layer> {
        let metadata = self.bytes.file().and_then(|file| file.metadata().ok()).filter(|_| !self.is_device());
        vec![Layer {
            name: self.path.clone().into_os_string(),
            format: ImageFormat::Raw.name(),
            length: Some(self.length()),
            file_length: metadata.as_ref().map(|_| self.file_length()),
            stored: metadata.map(|metadata| metadata.blocks() * SECTOR),
            ..Layer::default()
        }]
    }

    fn check_unchanged(&self) -> Result<(), ImageError> {
        // What gives ranges fails where it is no longer the same.
        let Some(file) = self.bytes.file() else { return Ok(()) };
        let after = size(file).map_err(|e| ImageError::io(&self.path, ImageOperation::Stat, e))?;
        let before = self.file_length();
        // Standard input may have begun beyond the end of its file.
        if after == before || (self.exact_length == 0 && after < before) {
            return Ok(());
        }
        Err(ImageError::Changed { path: self.path.clone(), before, after })
    }

    fn padded_by(&self) -> u64 {
        self.padding
    }

    fn modified_during(&self) -> bool {
        self.bytes.file().is_some_and(|file| match file.metadata() {
            Ok(metadata) => modified(&metadata) != self.modified,
            Err(_) => true,
        })
    }
}

/// The current size in bytes of a regular file or block device.
fn size(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    match metadata.file_type().is_block_device() {
        // Moves the offset of a descriptor that reads by position only.
        true => Ok(rustix::fs::seek(file, SeekFrom::End(0))?),
        false => Ok(metadata.size()),
    }
}

/// When the bytes were last changed, as the inode says: not its time of change, which also moves when the
/// file is renamed or gets another mode. Writing to a block device does not show.
fn modified(metadata: &std::fs::Metadata) -> (i64, i64) {
    if metadata.file_type().is_block_device() {
        return (0, 0);
    }
    (metadata.mtime(), metadata.mtime_nsec())
}
