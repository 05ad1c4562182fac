//! Images of formats that only QEMU reads: a private `qemu-nbd` decodes them and serves what a guest sees.
//!
//! The format is always said, so that QEMU never guesses; the image is opened for reading only.

mod bytes;
#[allow(unsafe_code)]
mod child;
mod parts;
mod references;
mod truncated;

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use self::child::Child;
use crate::nbd::NbdImage;
use crate::{Extent, Image, ImageError, ImageFormat, ImageOperation, Layer, OpenOptions};

/// The program, and the Debian package that has it.
const PROGRAM: &str = "qemu-nbd";
const PACKAGE: &str = "qemu-utils";

/// The most connections to one server. It is one process, of which one thread speaks with its clients.
const MOST_CONNECTIONS: usize = 8;

/// An image that `qemu-nbd` decodes.
struct QemuImage {
    /// Dropped first, so that the server is told before it is ended.
    decoded: NbdImage,
    child: Mutex<Child>,
    path: PathBuf,
    format: ImageFormat,
}

/// Opens an image of a format that this library does not read by itself.
///
/// Its files are read through the page cache.
pub(crate) fn open(
    path: &Path,
    format: ImageFormat,
    options: &OpenOptions,
) -> Result<Box<dyn Image>, ImageError> {
    // What these refer to is not known here.
    if matches!(format, ImageFormat::Raw | ImageFormat::Qcow2) {
        return Err(ImageError::Unsupported { path: path.to_path_buf(), format });
    }
    if options.snapshot.is_some() {
        let what = format!("snapshots inside {format} images are not read");
        return Err(ImageError::Refused { path: path.to_path_buf(), what });
    }
    references::check(path, format, options.follow)?;
    // QEMU takes what is before a colon for a protocol, but not in an absolute path.
    let absolute =
        std::path::absolute(path).map_err(|error| ImageError::io(path, ImageOperation::Open, error))?;
    let connections = thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_CONNECTIONS));
    let arguments = [
        OsString::from("--read-only"),
        format!("--format={}", format.name()).into(),
        format!("--shared={connections}").into(),
        "--".into(),
        absolute.into(),
    ];
    let (mut child, sockets) = Child::start(PROGRAM, arguments.into(), connections)
        .map_err(|error| failed(path, format!("{PROGRAM}: {error}")))?;
    match NbdImage::over(sockets, path) {
        Ok(decoded) => {
            let path = path.to_path_buf();
            Ok(Box::new(QemuImage { decoded, child: Mutex::new(child), path, format }))
        }
        Err(error) => {
            let ended = child.end();
            if ended.not_found {
                let what = format!(
                    "{format} images need {PROGRAM}, which is not installed (Debian package {PACKAGE})"
                );
                return Err(failed(path, what));
            }
            Err(match cause(&ended.complaints) {
                Some(cause) => failed(path, cause),
                None => error,
            })
        }
    }
}

/// What is known of an image that cannot be opened: its name, its format, and the names of other files in
/// it, of which none is looked at.
pub(crate) fn describe(path: &Path, format: ImageFormat) -> Vec<Layer> {
    let metadata = path.metadata().ok();
    let image = Layer {
        name: path.into(),
        format: format.name(),
        file_length: metadata.as_ref().map(|metadata| metadata.len()),
        stored: metadata.as_ref().map(|metadata| metadata.blocks() * 512),
        ..Layer::default()
    };
    std::iter::once(image).chain(parts::named(path, format)).collect()
}

impl QemuImage {
    /// Where the server is gone, what it said at last.
    fn explained(&self, error: ImageError) -> ImageError {
        let ImageError::Io { operation, offset, source, .. } = &error else { return error };
        if source.raw_os_error().is_some() {
            return error;
        }
        let child = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match cause(&child.complaints()) {
            Some(cause) => ImageError::Io {
                path: self.path.clone(),
                operation: *operation,
                offset: *offset,
                source: io::Error::other(cause),
            },
            None => error,
        }
    }
}

impl Image for QemuImage {
    fn length(&self) -> u64 {
        self.decoded.length()
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), ImageError> {
        self.decoded.extents(range, out).map_err(|error| self.explained(error))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ImageError> {
        self.decoded.read_at(buf, offset).map_err(|error| self.explained(error))
    }

    fn alignment(&self) -> usize {
        self.decoded.alignment()
    }

    fn layers(&self) -> Vec<Layer> {
        let metadata = self.path.metadata().ok();
        let image = Layer {
            name: self.path.clone().into(),
            format: self.format.name(),
            length: Some(self.length()),
            file_length: metadata.as_ref().map(|metadata| metadata.len()),
            stored: metadata.as_ref().map(|metadata| metadata.blocks() * 512),
            properties: vec![("read_by", PROGRAM.into())],
            ..Layer::default()
        };
        std::iter::once(image).chain(parts::of_opened(&self.path, self.format)).collect()
    }

    fn check_unchanged(&self) -> Result<(), ImageError> {
        self.decoded.check_unchanged().map_err(|error| self.explained(error))
    }
}

/// The error of opening.
fn failed(path: &Path, why: String) -> ImageError {
    ImageError::io(path, ImageOperation::Open, io::Error::other(why))
}

/// The cause in what QEMU says: `qemu-nbd: Failed to blk_new_open 'FILE': CAUSE`.
fn cause(complaints: &str) -> Option<String> {
    let is_error = |line: &&str| !line.trim().is_empty() && !line.contains("warning:");
    let line = complaints.lines().find(is_error)?.trim();
    let line = line.strip_prefix(PROGRAM).and_then(|line| line.strip_prefix(": ")).unwrap_or(line);
    let cause = match line.strip_prefix("Failed to blk_new_open '") {
        Some(rest) => rest.split_once("': ").map_or(rest, |(_, cause)| cause),
        None => line,
    };
    Some(format!("{PROGRAM}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_one_line() {
        let text =
            "qemu-nbd: warning: x\nqemu-nbd: Failed to blk_new_open '/a: b': Could not open: No such\nhint\n";
        assert_eq!(cause(text).unwrap(), "qemu-nbd: Could not open: No such");
        assert_eq!(cause("\n"), None);
        assert_eq!(cause("oops").unwrap(), "qemu-nbd: oops");
    }
}
