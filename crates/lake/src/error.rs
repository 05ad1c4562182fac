//! Errors of lakes: why a lake cannot be read or written.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use verisum_catalog::store;
use verisum_files::text::of_system;
use verisum_files::{ReplaceError, Stop};

/// What went wrong with a lake.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LakeError {
    /// The catalogue failed.
    #[error(transparent)]
    Catalog(#[from] store::CatalogError),
    /// A file or a folder could not be made, read or written.
    #[error("{}: {operation}: {}", path.display(), of_system(source))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// It was time to stop.
    #[error("the run was stopped")]
    Stopped,
    /// Another export writes to the lake.
    #[error("{}: lock: another export writes to this lake", path.display())]
    InUse {
        /// The lake.
        path: PathBuf,
    },
    /// A file has the name of a part and is none, or not a whole one.
    #[error("{}: read: not a part of a lake: {why}", path.display())]
    Part {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A row cannot be written.
    #[error("{}: write: {why}", path.display())]
    Row {
        /// The part, or the place.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl LakeError {
    /// Wraps an error of the operating system.
    pub(crate) fn io(path: &Path, operation: &'static str, source: io::Error) -> LakeError {
        LakeError::Io { path: path.to_path_buf(), operation, source }
    }

    /// Says what is wrong with a part.
    pub(crate) fn part(path: &Path, why: impl Into<String>) -> LakeError {
        LakeError::Part { path: path.to_path_buf(), why: why.into() }
    }

    /// What reading a part came to: a failure of the system, or a part that makes no sense.
    pub(crate) fn reading(path: &Path, error: ParquetError) -> LakeError {
        match io_of(error) {
            // The library makes errors of its own too, such as of the end of a file.
            Ok(source) if source.raw_os_error().is_some() => LakeError::io(path, "read", source),
            Ok(source) => LakeError::part(path, source.to_string()),
            Err(why) => LakeError::part(path, why),
        }
    }

    /// What writing a Parquet file came to.
    pub(crate) fn writing(path: &Path, error: ParquetError) -> LakeError {
        match io_of(error) {
            Ok(source) => LakeError::io(path, "write", source),
            Err(why) => LakeError::Row { path: path.to_path_buf(), why },
        }
    }
}

pub(crate) fn go_on(stop: &Stop) -> Result<(), LakeError> {
    if stop.is_due() { Err(LakeError::Stopped) } else { Ok(()) }
}

/// The system's error, or the library's words.
fn io_of(error: ParquetError) -> Result<io::Error, String> {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => Ok(*source),
            Err(other) => Err(other.to_string()),
        },
        other => Err(other.to_string()),
    }
}

impl From<ReplaceError> for LakeError {
    fn from(error: ReplaceError) -> LakeError {
        LakeError::Io { path: error.path, operation: error.operation, source: error.source }
    }
}
