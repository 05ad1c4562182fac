//! Opens an image by the name of its file, whatever its format.

use std::ffi::OsStr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use crate::by_name::{FileKind, duplicate_stdin, find, hides_length, not_an_image, stat};
use crate::ranged::RangedSource;
use crate::{
    Detect, Follow, Image, ImageError, ImageFormat, ImageOperation, Kept, Layer, NbdImage, OpenOptions,
    RawImage, START_LEN, Stream, direct, is_nbd_uri, qcow2, qemu,
};

/// The name that errors give standard input.
const STANDARD_INPUT: &str = "standard input";

/// What a name turned out to be.
pub enum Opened {
    /// A file or block device, read anywhere by many threads.
    Image(Box<dyn Image>),
    /// A sequence of bytes, read once from its start to an end that is not known before.
    Stream(Stream),
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Opened::Image(image) => write!(f, "Image({} bytes)", image.length()),
            Opened::Stream(stream) => write!(f, "Stream({stream:?})"),
        }
    }
}

impl Opened {
    /// The names of the files that it consists of, of which `itself` is the first.
    pub fn files(&self, itself: PathBuf) -> Vec<PathBuf> {
        let layers = match self {
            Opened::Image(image) => image.layers(),
            Opened::Stream(_) => Vec::new(),
        };
        std::iter::once(itself).chain(layers.iter().map(|layer| PathBuf::from(&layer.name))).collect()
    }
}

/// Opens what has a name: a file, block device or pipe, or an export of an NBD server by its address.
///
/// # Errors
/// Those of [`open`] and [`NbdImage::open`].
pub fn open_named(name: &OsStr, options: &OpenOptions) -> Result<Opened, ImageError> {
    match is_nbd_uri(name) {
        true => Ok(Opened::Image(Box::new(NbdImage::open(name, options)?))),
        false => open(Path::new(name), options),
    }
}

/// Opens a file, block device or pipe by name.
///
/// Opening a named pipe waits until somebody opens it for writing. A regular file that does not tell
/// its true length, as those of `/proc` and `/sys`, is a stream.
///
/// # Errors
/// [`ImageError::NotAnImage`] for directories, sockets and character devices; [`ImageError::Unsupported`],
/// [`ImageError::Piped`], [`ImageError::Invalid`], [`ImageError::Refused`] and
/// [`ImageError::Reference`] for images of other formats than raw; [`ImageError::Io`] otherwise.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Opened, ImageError> {
    Ok(match find(path, options)? {
        FileKind::Raw(image) => Opened::Image(decoded(image, path, true, options)?),
        FileKind::Stream(stream) => Opened::Stream(streamed(stream, options)?),
    })
}

/// A stream as it is to be read. Its start tells its format, as that of a file would.
fn streamed(mut stream: Stream, options: &OpenOptions) -> Result<Stream, ImageError> {
    let format = match (options.format, options.detect) {
        (Some(format), _) => format,
        (None, Detect::Raw) => ImageFormat::Raw,
        (None, detect) => detect.detected(ImageFormat::probe_start(stream.peek(START_LEN)?)),
    };
    if format != ImageFormat::Raw {
        return Err(ImageError::Piped { path: stream.path().to_path_buf(), format });
    }
    if options.stream_padding {
        stream.pad_to_sectors();
    }
    Ok(stream)
}

/// Why an image that needs another file is not opened.
const ALONE: &str = "only images that need no other file are read there: copy both to this machine";

/// Opens what gives ranges of an image, which errors call `path`: a raw image, or a qcow2 one that needs no other file.
///
/// # Errors
/// As those of [`open`]; [`ImageError::Refused`] for formats that QEMU reads, and for an image that names another file.
pub fn open_ranged(
    source: Box<dyn RangedSource>,
    path: &Path,
    options: &OpenOptions,
) -> Result<Box<dyn Image>, ImageError> {
    let bytes = RawImage::ranged(source, path, options);
    // Names in it would be those of files of this machine.
    let options = OpenOptions { follow: Follow::None, ..options.clone() };
    match format_of(&bytes, &options)? {
        ImageFormat::Raw | ImageFormat::Qcow2 => {
            decoded(bytes, path, false, &options).map_err(|error| match error {
                ImageError::Reference { path, role, reference, .. } => {
                    let name = reference.display();
                    let what = format!("{role} {name}: {ALONE}");
                    ImageError::Refused { path, what }
                }
                error => error,
            })
        }
        format => {
            let what = format!("{format} images are read from files only: copy it to this machine");
            Err(ImageError::Refused { path: path.to_path_buf(), what })
        }
    }
}

/// What is known of an image that cannot be opened: the files of it that were found before one failed, and
/// why. Of formats that QEMU reads, their names only. Nothing is known of what comes from a pipe.
pub fn describe(path: &Path, options: &OpenOptions) -> (Vec<Layer>, Option<ImageError>) {
    let described = || {
        let FileKind::Raw(bytes) = find(path, options)? else { return Ok((Vec::new(), None)) };
        Ok(match format_of(&bytes, options)? {
            ImageFormat::Raw => (bytes.layers(), None),
            ImageFormat::Qcow2 => qcow2::describe(bytes, path, options),
            format => (qemu::describe(path, format), None),
        })
    };
    described().unwrap_or_else(|error| (Vec::new(), Some(error)))
}

/// What an image keeps inside besides the guest's current state; nothing where its format cannot, or is one
/// that QEMU reads.
///
/// # Errors
/// [`ImageError::Invalid`] for lists that cannot be, and those of [`open`].
pub fn kept(path: &Path, options: &OpenOptions) -> Result<Kept, ImageError> {
    match find(path, options)? {
        FileKind::Raw(bytes) if format_of(&bytes, options)? == ImageFormat::Qcow2 => {
            qcow2::kept(&bytes, path)
        }
        _ => Ok(Kept::default()),
    }
}

fn format_of(bytes: &RawImage, options: &OpenOptions) -> Result<ImageFormat, ImageError> {
    match options.format {
        Some(format) => Ok(format),
        None => Ok(options.detect.detected(ImageFormat::probe(bytes)?)),
    }
}

/// The image that a file or device holds. `named` is whether `path` is its name, or it is standard input.
fn decoded(
    bytes: RawImage,
    path: &Path,
    named: bool,
    options: &OpenOptions,
) -> Result<Box<dyn Image>, ImageError> {
    match (format_of(&bytes, options)?, &options.snapshot) {
        (ImageFormat::Raw, None) => Ok(Box::new(bytes)),
        (ImageFormat::Raw, Some(_)) => {
            Err(ImageError::Refused { path: path.to_path_buf(), what: "a raw image has no snapshots".into() })
        }
        (ImageFormat::Qcow2, _) => qcow2::open(bytes, path, named, options),
        (format, _) if named => qemu::open(path, format, options),
        (format, _) => {
            let what = format!("{format} images on standard input are not read: give the name of the file");
            Err(ImageError::Refused { path: path.to_path_buf(), what })
        }
    }
}

/// Opens standard input. A regular file or block device is read as an image, from its current offset
/// to its end; the offset moves to the end, as if all had been read. Anything else is a stream.
///
/// # Errors
/// [`ImageError::NotAnImage`] for a directory and for a descriptor that is open for writing only;
/// [`ImageError::Io`] for a closed one. (Rust's runtime opens `/dev/null` in place of a closed standard
/// input before `main`, so that a Rust program sees an empty stream instead.)
pub fn open_stdin(options: &OpenOptions) -> Result<Opened, ImageError> {
    let path = Path::new(STANDARD_INPUT);
    let failed = |e: Errno| ImageError::io(path, ImageOperation::Open, e.into());
    let stdin = duplicate_stdin(path)?;
    let flags = rustix::fs::fcntl_getfl(&stdin).map_err(failed)?;
    if flags & OFlags::ACCMODE == OFlags::WRONLY {
        return Err(ImageError::NotAnImage { path: path.to_path_buf(), what: "Not open for reading" });
    }
    let metadata = stat(&stdin, path)?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(not_an_image(path, kind));
    }
    if !(kind.is_block_device() || kind.is_file()) || hides_length(&stdin, &metadata) {
        return Ok(Opened::Stream(streamed(Stream::new(stdin, path), options)?));
    }
    let start = rustix::fs::tell(&stdin).map_err(failed)?;
    // A descriptor of our own, so that looking for holes does not move the offset of other processes;
    // refused for a file that only whoever gave it to us may open.
    let file = direct::reopen(&stdin, None, OFlags::empty());
    rustix::fs::seek(&stdin, SeekFrom::End(0)).map_err(failed)?;
    let image = RawImage::new(file.unwrap_or(stdin), path, start, options)?;
    Ok(Opened::Image(decoded(image, path, false, options)?))
}
