//! Why something was not copied.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use verisum_files::place::PlaceError;

/// Why something was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source cannot be found, opened, read or hashed.
    #[error(transparent)]
    Source(#[from] verisum_files::Error),
    /// A place that is not this machine does not give it.
    #[error("{}: {source}", path.display())]
    Place {
        /// Its address.
        path: PathBuf,
        /// Why not.
        source: PlaceError,
    },
    /// A system call failed at TO.
    #[error("{}: {operation}: {source}", path.display())]
    Target {
        /// The path at TO.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Something else has the name at TO, and is not replaced by a copy.
    #[error("{}: create: {what} is in the way", path.display())]
    InTheWay {
        /// The path at TO.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The source was written to while it was read, twice.
    #[error("{}: read: it changed while it was read", path.display())]
    Changed {
        /// The path in FROM.
        path: PathBuf,
    },
    /// FROM and TO are one directory or file, or one is in the other.
    #[error("{}: create: it {how} {}", to.display(), from.display())]
    Overlap {
        /// The source.
        from: PathBuf,
        /// The target.
        to: PathBuf,
        /// How they stand to each other.
        how: &'static str,
    },
    /// The file system cannot share storage between files, and it was to.
    #[error("{}: reflink: {source}", path.display())]
    Reflink {
        /// The path at TO.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The digest cannot be computed.
    #[error("{}: hash: {source}", path.display())]
    Digest {
        /// The path in FROM.
        path: PathBuf,
        /// Why not.
        source: verisum_digest::Error,
    },
    /// The catalogue cannot be read.
    #[error(transparent)]
    Catalog(#[from] verisum_catalog::store::Error),
}

impl CopyError {
    pub(super) fn target(path: &Path, operation: &'static str, source: impl Into<io::Error>) -> CopyError {
        CopyError::Target { path: path.to_path_buf(), operation, source: source.into() }
    }

    pub(super) fn place(address: &Path, error: PlaceError) -> CopyError {
        let path = address.to_path_buf();
        match error {
            // By its address.
            PlaceError::File(error) => {
                CopyError::Source(verisum_files::Error::NotRead { path, reason: error.reason() })
            }
            PlaceError::NotWritten { operation, source } => CopyError::Target { path, operation, source },
            PlaceError::InTheWay(what) => CopyError::InTheWay { path, what },
            source => CopyError::Place { path, source },
        }
    }

    /// Whether a host or a store failed, and not the file.
    pub(super) fn is_of_place(&self) -> bool {
        matches!(self, CopyError::Place { source: PlaceError::Machine(_) | PlaceError::Digest(_), .. })
    }

    /// Whether all that follows would fail for the same reason: TO is full or read-only.
    pub fn ends_all(&self) -> bool {
        let CopyError::Target { source, .. } = self else { return false };
        matches!(Errno::from_io_error(source), Some(Errno::NOSPC | Errno::DQUOT | Errno::ROFS))
    }
}
