//! Opens a file by name: which kinds of file are images, which are streams, which are neither.

use std::fs::{File, FileType, Metadata};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::{Error, Format, Image, Kept, Layer, Operation, RawImage, Stream, direct, qcow2, qemu};

/// The name that errors give standard input.
const STANDARD_INPUT: &str = "standard input";

/// Which of the files that an image names are opened. An image comes from anywhere: what it names may be
/// something that whoever made it wants to be read by whoever hashes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Follow {
    /// An image that needs another file is an error.
    None,
    /// Files in the image's own folder or below it, after links are resolved.
    #[default]
    SameDir,
    /// All files; for formats that QEMU decodes, also what it opens on servers.
    Any,
}

/// Which formats are looked for where none is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detect {
    /// All of [`crate::FORMATS`].
    #[default]
    All,
    /// qcow2; everything else is raw.
    Qcow2,
    /// None: everything is raw.
    Raw,
}

impl Detect {
    /// What is taken for the format of an image that looks like one of `format`.
    pub fn detected(self, format: Format) -> Format {
        match (self, format) {
            (Detect::All, _) | (Detect::Qcow2, Format::Qcow2) => format,
            _ => Format::Raw,
        }
    }
}

/// How to read an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Read through the page cache and leave there what was read. Otherwise what is not in it is read
    /// past it by direct I/O, where the file system can, and what is in it stays and is used.
    pub cache: bool,
    /// Pad the length with zeros to a multiple of 512, as a guest would see a raw file. Streams have no
    /// length to pad here: see [`Stream::pad_to_sectors`].
    pub sector_padding: bool,
    /// The format of the image itself; `None` to tell it from its bytes.
    pub format: Option<Format>,
    /// Which formats its bytes may tell.
    pub detect: Detect,
    /// Which of the files that it names are opened.
    pub follow: Follow,
    /// The state to read instead of the current one: the name or the identifier of a snapshot that the
    /// image keeps inside.
    pub snapshot: Option<String>,
}

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

/// Opens a file, block device or pipe by name.
///
/// Opening a named pipe waits until somebody opens it for writing. A regular file that does not tell
/// its true length, as those of `/proc` and `/sys`, is a stream.
///
/// # Errors
/// [`Error::NotAnImage`] for directories, sockets and character devices; [`Error::Unsupported`],
/// [`Error::Invalid`], [`Error::Refused`] and [`Error::Reference`] for images of other formats than
/// raw; [`Error::Io`] otherwise.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Opened, Error> {
    Ok(match find(path, options)? {
        Found::Raw(image) => Opened::Image(decoded(image, path, true, options)?),
        Found::Stream(stream) => Opened::Stream(stream),
    })
}

/// What is known of an image that cannot be opened: the files of it that were found before one failed, and
/// why. Of formats that QEMU reads, their names only. Nothing is known of what comes from a pipe.
pub fn describe(path: &Path, options: &OpenOptions) -> (Vec<Layer>, Option<Error>) {
    let described = || {
        let Found::Raw(bytes) = find(path, options)? else { return Ok((Vec::new(), None)) };
        Ok(match format_of(&bytes, options)? {
            Format::Raw => (bytes.layers(), None),
            Format::Qcow2 => qcow2::describe(bytes, path, options),
            format => (qemu::describe(path, format), None),
        })
    };
    described().unwrap_or_else(|error| (Vec::new(), Some(error)))
}

/// What an image keeps inside besides the guest's current state; nothing where its format cannot, or is one
/// that QEMU reads.
///
/// # Errors
/// [`Error::Invalid`] for lists that cannot be, and those of [`open`].
pub fn kept(path: &Path, options: &OpenOptions) -> Result<Kept, Error> {
    match find(path, options)? {
        Found::Raw(bytes) if format_of(&bytes, options)? == Format::Qcow2 => qcow2::kept(&bytes, path),
        _ => Ok(Kept::default()),
    }
}

fn format_of(bytes: &RawImage, options: &OpenOptions) -> Result<Format, Error> {
    match options.format {
        Some(format) => Ok(format),
        None => Ok(options.detect.detected(Format::probe(bytes)?)),
    }
}

/// The image that a file or device holds. `named` is whether `path` is its name, or it is standard input.
fn decoded(
    bytes: RawImage,
    path: &Path,
    named: bool,
    options: &OpenOptions,
) -> Result<Box<dyn Image>, Error> {
    match (format_of(&bytes, options)?, &options.snapshot) {
        (Format::Raw, None) => Ok(Box::new(bytes)),
        (Format::Raw, Some(_)) => {
            Err(Error::Refused { path: path.to_path_buf(), what: "a raw image has no snapshots".into() })
        }
        (Format::Qcow2, _) => qcow2::open(bytes, path, named, options),
        (format, _) if named => qemu::open(path, format, options),
        (format, _) => {
            let what = format!("{format} images on standard input are not read: give the name of the file");
            Err(Error::Refused { path: path.to_path_buf(), what })
        }
    }
}

/// Opens standard input. A regular file or block device is read as an image, from its current offset
/// to its end; the offset moves to the end, as if all had been read. Anything else is a stream.
///
/// # Errors
/// [`Error::NotAnImage`] for a directory and for a descriptor that is open for writing only;
/// [`Error::Io`] for a closed one. (Rust's runtime opens `/dev/null` in place of a closed standard
/// input before `main`, so that a Rust program sees an empty stream instead.)
pub fn open_stdin(options: &OpenOptions) -> Result<Opened, Error> {
    let path = Path::new(STANDARD_INPUT);
    let failed = |e: Errno| Error::io(path, Operation::Open, e.into());
    let stdin = duplicate_stdin(path)?;
    let flags = rustix::fs::fcntl_getfl(&stdin).map_err(failed)?;
    if flags & OFlags::ACCMODE == OFlags::WRONLY {
        return Err(Error::NotAnImage { path: path.to_path_buf(), what: "Not open for reading" });
    }
    let metadata = stat(&stdin, path)?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(not_an_image(path, kind));
    }
    if !(kind.is_block_device() || kind.is_file()) || hides_length(&stdin, &metadata) {
        return Ok(Opened::Stream(Stream::new(stdin, path)));
    }
    let start = rustix::fs::tell(&stdin).map_err(failed)?;
    // A descriptor of our own, so that looking for holes does not move the offset of other processes;
    // refused for a file that only whoever gave it to us may open.
    let file = direct::reopen(&stdin, None, OFlags::empty());
    rustix::fs::seek(&stdin, SeekFrom::End(0)).map_err(failed)?;
    let image = RawImage::new(file.unwrap_or(stdin), path, start, options)?;
    Ok(Opened::Image(decoded(image, path, false, options)?))
}

/// [`Opened`], with the type of image that [`open`] gives.
pub(crate) enum Found {
    Raw(RawImage),
    Stream(Stream),
}

/// Does the work of [`open`].
pub(crate) fn find(path: &Path, options: &OpenOptions) -> Result<Found, Error> {
    let kind = std::fs::metadata(path).map_err(|e| Error::io(path, Operation::Open, e))?.file_type();
    // A socket cannot be opened by name, only inherited.
    if kind.is_socket() && path == Path::new("/dev/stdin") {
        return Ok(Found::Stream(Stream::new(duplicate_stdin(path)?, path)));
    }
    // Opening some character devices does something (a tape rewinds), so they are refused unopened,
    // except those that are open already and only named here.
    let open_already = kind.is_char_device() && names_descriptor(path);
    if !open_already && !is_readable(kind) {
        return Err(not_an_image(path, kind));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file: File = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
        .map_err(|e| Error::io(path, Operation::Open, e.into()))?
        .into();
    // What was opened may be another file than what was looked at.
    let metadata = stat(&file, path)?;
    let kind = metadata.file_type();
    if kind.is_fifo() || open_already || (kind.is_file() && hides_length(&file, &metadata)) {
        Ok(Found::Stream(Stream::new(file, path)))
    } else if is_readable(kind) {
        RawImage::new(file, path, 0, options).map(Found::Raw)
    } else {
        Err(not_an_image(path, kind))
    }
}

fn is_readable(kind: FileType) -> bool {
    kind.is_file() || kind.is_block_device() || kind.is_fifo()
}

/// The error for a kind of file that is no image.
fn not_an_image(path: &Path, kind: FileType) -> Error {
    let what = match kind {
        _ if kind.is_dir() => "Is a directory",
        _ if kind.is_char_device() => "Is a character device",
        _ if kind.is_socket() => "Is a socket",
        _ => "Is not a file",
    };
    Error::NotAnImage { path: path.to_path_buf(), what }
}

/// Whether a path is one of the system's names for a descriptor of this process.
fn names_descriptor(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Whether a regular file has more or fewer bytes than it says, as files made by the kernel do.
fn hides_length(file: &File, metadata: &Metadata) -> bool {
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

fn stat(file: &File, path: &Path) -> Result<Metadata, Error> {
    file.metadata().map_err(|e| Error::io(path, Operation::Stat, e))
}

fn duplicate_stdin(path: &Path) -> Result<File, Error> {
    let duplicate = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0);
    Ok(duplicate.map_err(|e| Error::io(path, Operation::Open, e.into()))?.into())
}
