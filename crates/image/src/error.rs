//! Errors of images: the path, the operation, and the cause.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::{ImageFormat, Role};

/// What was being done when an image failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageOperation {
    /// Opening the file.
    Open,
    /// Asking for its kind, size or limits.
    Stat,
    /// Asking which parts hold data.
    Map,
    /// Reading bytes.
    Read,
}

impl ImageOperation {
    /// The word used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            ImageOperation::Open => "open",
            ImageOperation::Stat => "stat",
            ImageOperation::Map => "map",
            ImageOperation::Read => "read",
        }
    }
}

impl std::fmt::Display for ImageOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Why an image could not be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// A system call failed.
    #[error("{}: {operation}{}: {}", path.display(), At(*offset), Reason(source))]
    Io {
        /// The image's name as the user gave it.
        path: PathBuf,
        /// What was being done.
        operation: ImageOperation,
        /// Where in the image it failed, in bytes, if the operation has a place.
        offset: Option<u64>,
        /// Why it failed.
        source: io::Error,
    },
    /// The name stands for something that is not an image.
    #[error("{}: open: {what}", path.display())]
    NotAnImage {
        /// The image's name as the user gave it.
        path: PathBuf,
        /// What it is instead, as an error text (`Is a directory`).
        what: &'static str,
    },
    /// The image's length changed while it was being read.
    #[error("{}: read: the file changed while it was read ({before} bytes, then {after})", path.display())]
    Changed {
        /// The image's name as the user gave it.
        path: PathBuf,
        /// Length in bytes when it was opened.
        before: u64,
        /// Length in bytes when the change was noticed.
        after: u64,
    },
    /// Nothing here reads this format.
    #[error("{}: open: {format} images are not supported", path.display())]
    Unsupported {
        /// The image's name as the user gave it.
        path: PathBuf,
        /// What it is.
        format: ImageFormat,
    },
    /// An image of this format cannot be read from its start to its end.
    #[error("{}: open: {} images cannot be read from a pipe", path.display(), format.title())]
    Piped {
        /// The pipe's name as the user gave it.
        path: PathBuf,
        /// What it holds.
        format: ImageFormat,
    },
    /// What the image says of itself cannot be: it is damaged, or made to do harm.
    #[error("{}: {operation}{}: {what}", path.display(), At(*offset))]
    Invalid {
        /// The name of the file at fault: the image's own or that of one behind it.
        path: PathBuf,
        /// What was being done.
        operation: ImageOperation,
        /// Where in that file the fault is, in bytes, if it has a place.
        offset: Option<u64>,
        /// What is wrong.
        what: String,
    },
    /// The image asks for something that this library does not do: another version, an encryption.
    #[error("{}: open: {what}", path.display())]
    Refused {
        /// The name of the file that asks for it.
        path: PathBuf,
        /// What is refused and why.
        what: String,
    },
    /// The image names another file, which is not followed.
    #[error("{}: open: {role} {}: {why}", path.display(), reference.display())]
    Reference {
        /// The name of the file that has the reference.
        path: PathBuf,
        /// What the other file is to it: `backing file`, `data file`.
        role: &'static str,
        /// The reference as it is stored.
        reference: OsString,
        /// Why it is not followed.
        why: String,
    },
    /// A file that the image needs cannot be opened or read.
    #[error("{}: {role} {source}", path.display())]
    Behind {
        /// The name of the image that was asked for.
        path: PathBuf,
        /// What the other file is to it, or to another that it needs: `backing file`, `data file`.
        role: &'static str,
        /// Why, with the name of the other file.
        source: Box<ImageError>,
    },
}

impl ImageError {
    /// The name of the file that the error is of; of [`ImageError::Behind`] that of the image.
    pub fn path(&self) -> &Path {
        match self {
            ImageError::Io { path, .. }
            | ImageError::NotAnImage { path, .. }
            | ImageError::Changed { path, .. }
            | ImageError::Unsupported { path, .. }
            | ImageError::Piped { path, .. }
            | ImageError::Invalid { path, .. }
            | ImageError::Refused { path, .. }
            | ImageError::Reference { path, .. }
            | ImageError::Behind { path, .. } => path,
        }
    }

    /// The same, said of the image `path` too, where it is of another file: of its `role`.
    pub(crate) fn behind(self, path: &Path, role: Role) -> ImageError {
        if self.path() == path || matches!(self, ImageError::Behind { .. }) {
            return self;
        }
        ImageError::Behind { path: path.to_path_buf(), role: role.name(), source: Box::new(self) }
    }

    /// A fault of what `path` says of itself.
    pub(crate) fn invalid(
        path: &Path,
        operation: ImageOperation,
        offset: Option<u64>,
        what: impl Into<String>,
    ) -> Self {
        ImageError::Invalid { path: path.to_path_buf(), operation, offset, what: what.into() }
    }

    /// Wraps an operating system's error.
    pub fn io(path: &Path, operation: ImageOperation, source: io::Error) -> Self {
        ImageError::Io { path: path.to_path_buf(), operation, offset: None, source }
    }

    /// Wraps an operating system's error at a byte offset of the image.
    pub fn io_at(path: &Path, operation: ImageOperation, offset: u64, source: io::Error) -> Self {
        ImageError::Io { path: path.to_path_buf(), operation, offset: Some(offset), source }
    }
}

/// The place of an operation, as in ` at 1048576`; nothing if it has none.
struct At(Option<u64>);

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(offset) => write!(f, " at {offset}"),
            None => Ok(()),
        }
    }
}

/// An I/O error's text without Rust's ` (os error 2)` tail, as other tools print it.
struct Reason<'a>(&'a io::Error);

impl std::fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.0.to_string();
        let end = text.find(" (os error ").unwrap_or(text.len());
        f.write_str(&text[..end])
    }
}
