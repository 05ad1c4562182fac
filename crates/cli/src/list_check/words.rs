//! Says in words why a file is not as listed.

use std::io;

use verisum::files::check::{CheckOutcome, Difference};
use verisum::files::{FileError, Kind, message_says_storage_failed};

use crate::ui::failure::cause;
use crate::ui::names;

/// What is other than listed, in words.
pub(super) fn unlike(difference: &Difference) -> String {
    match difference {
        Difference::Kind { listed, found } => format!("is {}, listed as {}", kind(*found), kind(*listed)),
        Difference::Size { listed, found } => format!("has {found} bytes, listed with {listed}"),
        Difference::Parts { listed, found } => format!("is of {found} parts, listed with {listed}"),
    }
}

/// A kind of file in words.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "a file",
        Kind::Directory => "a directory",
        Kind::Link => "a symbolic link",
        Kind::Special => "a device, pipe or socket",
    }
}

/// Whether an error came from reading rather than from opening.
pub(super) fn is_read(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::IsADirectory) || error.raw_os_error() == Some(5)
}

/// The cause of a file's error, without its name.
pub(super) fn why(error: &FileError) -> String {
    match error {
        FileError::Io { source, .. } => cause(source),
        FileError::Digest { source, .. } => names::plain(&source.to_string()),
        FileError::NotRead { reason, .. } => reason.message(),
        FileError::NotAFile { path } if path.is_dir() => cause(&rustix::io::Errno::ISDIR.into()),
        other => {
            let text = other.to_string();
            let name = format!("{}: ", other.path().display());
            names::plain(text.strip_prefix(&name).unwrap_or(&text))
        }
    }
}

/// Whether a file could not be read because storage failed.
pub(super) fn is_of_storage(outcome: &CheckOutcome) -> bool {
    let CheckOutcome::Failed(error) = outcome else { return false };
    match &**error {
        FileError::NotRead { reason, .. } => message_says_storage_failed(&reason.message()),
        error => error.is_storage_failure(),
    }
}
