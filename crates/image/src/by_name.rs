//! Opens a file by name: which kinds of file are images, which are streams, which are neither.

use std::fs::{File, FileType, Metadata};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::{ImageError, ImageOperation, OpenOptions, RawImage, Stream};

/// What a file turned out to be.
pub(crate) enum FileKind {
    Raw(RawImage),
    Stream(Stream),
}

/// Opens a file by name, and tells images from streams.
pub(crate) fn find(path: &Path, options: &OpenOptions) -> Result<FileKind, ImageError> {
    let kind =
        std::fs::metadata(path).map_err(|e| ImageError::io(path, ImageOperation::Open, e))?.file_type();
    // A socket cannot be opened by name, only inherited.
    if kind.is_socket() && path == Path::new("/dev/stdin") {
        return Ok(FileKind::Stream(Stream::new(duplicate_stdin(path)?, path)));
    }
    // Opening some character devices does something (a tape rewinds), so they are refused unopened,
    // except those that are open already and only named here.
    let open_already = kind.is_char_device() && names_descriptor(path);
    if !open_already && !is_readable(kind) {
        return Err(not_an_image(path, kind));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file: File = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
        .map_err(|e| ImageError::io(path, ImageOperation::Open, e.into()))?
        .into();
    // What was opened may be another file than what was looked at.
    let metadata = stat(&file, path)?;
    let kind = metadata.file_type();
    if kind.is_fifo() || open_already || (kind.is_file() && hides_length(&file, &metadata)) {
        Ok(FileKind::Stream(Stream::new(file, path)))
    } else if is_readable(kind) {
        RawImage::new(file, path, 0, options).map(FileKind::Raw)
    } else {
        Err(not_an_image(path, kind))
    }
}

fn is_readable(kind: FileType) -> bool {
    kind.is_file() || kind.is_block_device() || kind.is_fifo()
}

/// The error for a kind of file that is no image.
pub(crate) fn not_an_image(path: &Path, kind: FileType) -> ImageError {
    let what = match kind {
        _ if kind.is_dir() => "Is a directory",
        _ if kind.is_char_device() => "Is a character device",
        _ if kind.is_socket() => "Is a socket",
        _ => "Is not a file",
    };
    ImageError::NotAnImage { path: path.to_path_buf(), what }
}

/// Whether a path is one of the system's names for a descriptor of this process.
fn names_descriptor(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Whether a regular file has more or fewer bytes than it says, as files made by the kernel do.
pub(crate) fn hides_length(file: &File, metadata: &Metadata) -> bool {
    if !metadata.is_file() || metadata.blocks() > 0 {
        return false;
    }
    let mut byte = [0];
    match metadata.size() {
        // An error is the reader's to report.
        0 => !matches!(file.read_at(&mut byte, 0), Ok(0)),
        size => matches!(file.read_at(&mut byte, size - 1), Ok(0)),
    }
}

pub(crate) fn stat(file: &File, path: &Path) -> Result<Metadata, ImageError> {
    file.metadata().map_err(|e| ImageError::io(path, ImageOperation::Stat, e))
}

pub(crate) fn duplicate_stdin(path: &Path) -> Result<File, ImageError> {
    let duplicate = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0);
    Ok(duplicate.map_err(|e| ImageError::io(path, ImageOperation::Open, e.into()))?.into())
}
