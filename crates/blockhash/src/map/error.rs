//! Errors of block maps: the file, what was being done, and why it failed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a block map could not be read, written or compared.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// A system call failed. Shared, because an error of hashing is reported many times.
    #[error("{}: {operation}: {source}", path.display())]
    Io {
        /// The file's name as it was given.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// Why it failed.
        source: Arc<io::Error>,
    },
    /// The bytes are not those of a block map that this version understands.
    #[error("{}: open: {what}", path.display())]
    NotAMap {
        /// The file's name as it was given.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// The file contradicts itself or its checksums.
    #[error("{}: the block map is corrupt: {what}", path.display())]
    Corrupt {
        /// The file's name as it was given.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A map cannot be made with this digest.
    #[error("a block map cannot be made with {0}")]
    Digest(String),
    /// Two maps, or a map and a way of hashing, do not go together.
    #[error("{0}")]
    Unlike(String),
    /// A map was given other blocks than its image has.
    #[error("internal error: the digests do not fit the length of the image")]
    Miscounted,
}

impl MapError {
    pub(super) fn io(path: &Path, operation: &'static str, source: io::Error) -> MapError {
        MapError::Io { path: path.to_path_buf(), operation, source: Arc::new(source) }
    }

    pub(super) fn corrupt(path: &Path, what: impl Into<String>) -> MapError {
        MapError::Corrupt { path: path.to_path_buf(), what: what.into() }
    }
}
