//! Errors of measurements: why something could not be measured.

use std::io;
use std::path::{Path, PathBuf};

/// Why a subject could not be run.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A file cannot be used.
    #[error("{}: {operation}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was done with it.
        operation: &'static str,
        /// Why that failed.
        source: io::Error,
    },
    /// A program did not do what it was asked to.
    #[error("{program}: {why}")]
    Program {
        /// Its name.
        program: String,
        /// What happened instead.
        why: String,
    },
    /// A digest cannot be computed.
    #[error(transparent)]
    Digest(#[from] verisum_digest::DigestError),
    /// What the subject needs is not there.
    #[error("{0}")]
    Unavailable(String),
    /// The user wants no more.
    #[error("stopped")]
    Stopped,
}

impl MeasureError {
    /// An error of a file.
    pub fn io(path: &Path, operation: &'static str, source: io::Error) -> MeasureError {
        MeasureError::Io { path: path.to_path_buf(), operation, source }
    }
}
