//! Errors of copies: why a file was not copied.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use verisum_files::place::{PlaceError, Reason};
use verisum_files::{FileError, explained};

/// Why something was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source cannot be found, opened, read or hashed.
    #[error(transparent)]
    Source(#[from] FileError),
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
        source: verisum_digest::DigestError,
    },
    /// The catalogue cannot be read.
    #[error(transparent)]
    Catalog(#[from] verisum_catalog::store::CatalogError),
}

/// Why FAT, exFAT, NTFS and what else speaks like Windows refuse a file: the system calls that an invalid argument.
const NO_NAME: &str = "the file system takes no such name";

/// Whether such a file system takes the last name of a path.
fn is_for_sticks(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return true };
    let is_taken = |c: char| !c.is_control() && !"\"*:<>?|\\".contains(c);
    name.to_str().is_some_and(|name| name.chars().all(is_taken) && !name.ends_with([' ', '.']))
}

impl CopyError {
    pub(super) fn target(path: &Path, operation: &'static str, source: impl Into<io::Error>) -> CopyError {
        let mut source = source.into();
        // exFAT in user space gives a file its name at the end, and says then that there is no such file.
        let is_refused = match Errno::from_io_error(&source) {
            Some(Errno::INVAL) => true,
            Some(Errno::NOENT) => operation == "rename",
            _ => false,
        };
        if is_refused && !is_for_sticks(path) {
            source = io::Error::new(source.kind(), NO_NAME);
        }
        CopyError::Target { path: path.to_path_buf(), operation, source: explained(path, source) }
    }

    pub(super) fn place(address: &Path, error: PlaceError) -> CopyError {
        let path = address.to_path_buf();
        match error {
            // By its address.
            PlaceError::File(error) => CopyError::Source(FileError::NotRead { path, reason: error.reason() }),
            PlaceError::NotWritten { operation, source } => CopyError::Target { path, operation, source },
            PlaceError::InTheWay(what) => CopyError::InTheWay { path, what },
            source => CopyError::Place { path, source },
        }
    }

    /// Whether a host or a store failed, and not the file.
    pub(super) fn is_of_place(&self) -> bool {
        matches!(self, CopyError::Place { source: PlaceError::Machine(_) | PlaceError::Digest(_), .. })
    }

    /// Whether a file is not there, or another one each time it is looked at.
    pub(super) fn is_elusive(&self) -> bool {
        match self {
            CopyError::Source(FileError::NotRead { reason, .. }) => {
                matches!(reason, Reason::Missing | Reason::Elusive(_))
            }
            CopyError::Changed { .. } => true,
            _ => false,
        }
    }

    /// Whether all that follows would fail for the same reason: TO is full or read-only, or a place is not
    /// there or does not know its user.
    pub fn ends_all(&self) -> bool {
        match self {
            CopyError::Target { source, .. } => {
                matches!(Errno::from_io_error(source), Some(Errno::NOSPC | Errno::DQUOT | Errno::ROFS))
            }
            CopyError::Place { source, .. } => matches!(source, PlaceError::Absent(_)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn names_that_a_file_system_does_not_take_are_said_to_be_that() {
        for name in [&b"a:b"[..], b"a?", b"a\\b", b"a\n", b"a.", b"a ", b"a\xff"] {
            let path = Path::new("/stick").join(OsStr::from_bytes(name));
            let error = CopyError::target(&path, "create", Errno::INVAL);
            assert!(error.to_string().ends_with(": create: the file system takes no such name"), "{error}");
            let error = CopyError::target(&path, "rename", Errno::NOENT);
            assert!(error.to_string().ends_with(": rename: the file system takes no such name"), "{error}");
            assert!(CopyError::target(&path, "create", Errno::NOSPC).ends_all());
        }
        let error = CopyError::target(Path::new("/a:b/c.d"), "create", Errno::INVAL);
        assert!(error.to_string().contains("Invalid argument"), "{error}");
    }
}
