//! Errors of trees: the path, the operation, and the cause.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use crate::replace::folder_of;
use crate::walk::trusted::LinkOfAnother;

/// What was being done when a file failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Opening it.
    Open,
    /// Asking for its kind, size and times.
    Stat,
    /// Listing a directory.
    List,
    /// Reading bytes.
    Read,
    /// Computing a digest.
    Hash,
    /// Reading an extended attribute.
    GetAttribute,
    /// Writing an extended attribute.
    SetAttribute,
    /// Removing an extended attribute.
    RemoveAttribute,
    /// Waiting until what was written is on the storage.
    Sync,
}

impl Operation {
    /// The word used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Open => "open",
            Operation::Stat => "stat",
            Operation::List => "list",
            Operation::Read => "read",
            Operation::Hash => "hash",
            Operation::GetAttribute => "read attribute",
            Operation::SetAttribute => "set attribute",
            Operation::RemoveAttribute => "remove attribute",
            Operation::Sync => "sync",
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a file could not be found, read or hashed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A system call failed.
    #[error("{}: {operation}{}: {source}", path.display(), at(*offset))]
    Io {
        /// The file's path as it was walked to.
        path: PathBuf,
        /// What was being done.
        operation: Operation,
        /// The byte that was to be read, if that is known.
        offset: Option<u64>,
        /// Why it failed.
        source: io::Error,
    },
    /// What was a regular file when its directory was listed is none any more, or was none from the start.
    #[error("{}: open: not a regular file", path.display())]
    NotAFile {
        /// The file's path as it was walked to.
        path: PathBuf,
    },
    /// A link was named where none is followed.
    #[error("{}: open: is a symbolic link", path.display())]
    IsLink {
        /// The link's path.
        path: PathBuf,
    },
    /// A link that was followed leads to a directory that it is in.
    #[error("{}: open: link to a directory above it", path.display())]
    Loop {
        /// The link's path as it was walked to.
        path: PathBuf,
    },
    /// It was begun, and given up because somebody or the clock asked to end.
    #[error("{}: read: stopped", path.display())]
    Stopped {
        /// The file's path as it was walked to.
        path: PathBuf,
    },
    /// A digest failed.
    #[error("{}: hash: {source}", path.display())]
    Digest {
        /// The file's path as it was walked to.
        path: PathBuf,
        /// Why it failed.
        source: verisum_digest::DigestError,
    },
    /// Another machine did not read it.
    #[error("{}: read: {}", path.display(), reason.message())]
    NotRead {
        /// The file's path there.
        path: PathBuf,
        /// Why not.
        reason: crate::place::Reason,
    },
    /// What is recorded of it cannot be understood.
    #[error("{}: read attribute: {source}", path.display())]
    Record {
        /// The file's path as it was walked to.
        path: PathBuf,
        /// What is wrong with it.
        source: crate::store::xattr::Defect,
    },
    /// Its tag is left as it is, for another program works on it.
    #[error("{}: {operation}: {source}", path.display())]
    Conflict {
        /// The file's path as it was walked to.
        path: PathBuf,
        /// What was to be done.
        operation: Operation,
        /// What is in the way.
        source: crate::tags::Conflict,
    },
}

impl FileError {
    /// Wraps an operating system's error.
    pub fn io(path: &Path, operation: Operation, source: impl Into<io::Error>) -> Self {
        FileError::Io { path: path.to_path_buf(), operation, offset: None, source: source.into() }
    }

    /// Whether the storage failed, or the file system found its own checksum wrong.
    pub fn is_storage_failure(&self) -> bool {
        self.errno().is_some_and(says_storage_failed)
    }

    /// Whether a link of another user leads there, which only [`Roots::Plain`](crate::Roots::Plain) follows.
    pub fn is_behind_link(&self) -> bool {
        let FileError::Io { source, .. } = self else { return false };
        source.get_ref().is_some_and(|cause| cause.is::<LinkOfAnother>())
    }

    /// The system's error, if it was one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            FileError::Io { source, .. } => Errno::from_io_error(source),
            _ => None,
        }
    }

    /// What is wrong, for those who name the file themselves.
    pub fn into_io(self) -> io::Error {
        match self {
            FileError::Io { source, .. } => source,
            other => io::Error::other(other),
        }
    }

    /// The file's path as it was walked to.
    pub fn path(&self) -> &Path {
        match self {
            FileError::Io { path, .. }
            | FileError::NotAFile { path }
            | FileError::IsLink { path }
            | FileError::Loop { path }
            | FileError::Stopped { path }
            | FileError::Digest { path, .. }
            | FileError::NotRead { path, .. }
            | FileError::Record { path, .. }
            | FileError::Conflict { path, .. } => path,
        }
    }
}

/// The system's errors that say that the storage, or the file system's own checksum of it, failed; with the words
/// of programs for them in the C locale, those of the GNU C library first.
const STORAGE_FAILURES: [(Errno, &[&str]); 10] = [
    (Errno::IO, &["Input/output error", "I/O error"]),
    // A sector that cannot be read, where no page cache stands between.
    (Errno::NODATA, &["No data available"]),
    // What file systems say whose metadata or checksums are wrong.
    (Errno::UCLEAN, &["Structure needs cleaning"]),
    (Errno::BADMSG, &["Bad message"]),
    (Errno::NXIO, &["No such device or address"]),
    (Errno::NODEV, &["No such device"]),
    (Errno::REMOTEIO, &["Remote I/O error"]),
    (Errno::TIMEDOUT, &["Connection timed out", "Operation timed out"]),
    (Errno::NOLINK, &["Link has been severed"]),
    (Errno::ILSEQ, &["Invalid or incomplete multibyte or wide character", "Illegal byte sequence"]),
];

/// Whether a system's error says that the storage, or the file system's own checksum of it, failed.
pub fn says_storage_failed(errno: Errno) -> bool {
    STORAGE_FAILURES.iter().any(|(failure, _)| *failure == errno)
}

/// Whether a program's message says so, as far as programs of other machines say what the error was.
pub fn message_says_storage_failed(message: &str) -> bool {
    STORAGE_FAILURES.iter().any(|(_, words)| words.iter().any(|words| message.contains(words)))
}

/// Names why the system permits nobody to change a file: it, or its directory, is immutable or may only grow. Other
/// errors stay as they are.
pub fn explained(path: &Path, error: io::Error) -> io::Error {
    if Errno::from_io_error(&error) != Some(Errno::PERM) {
        return error;
    }
    let attributes = |path: &Path, flags| {
        let found = rustix::fs::statx(CWD, path, flags, StatxFlags::empty());
        found.map_or(StatxAttributes::empty(), |found| found.stx_attributes)
    };
    let own = attributes(path, AtFlags::SYMLINK_NOFOLLOW);
    let of_folder = attributes(folder_of(path), AtFlags::empty());
    let why = [
        (own, StatxAttributes::IMMUTABLE, "it is immutable (`chattr -i` lets it change)"),
        (own, StatxAttributes::APPEND, "it is append-only (`chattr -a` lets it change)"),
        (of_folder, StatxAttributes::IMMUTABLE, "its directory is immutable (`chattr -i` lets it change)"),
        (
            of_folder,
            StatxAttributes::APPEND,
            "its directory only takes new files (`chattr -a` lets it change)",
        ),
    ];
    let why = why.iter().find(|(found, wanted, _)| found.contains(*wanted));
    why.map_or(error, |(.., why)| io::Error::new(io::ErrorKind::PermissionDenied, *why))
}

/// A place in a file, as messages have it: ` at 4096`.
pub fn at(offset: Option<u64>) -> String {
    offset.map(|offset| format!(" at {offset}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_of_storage_by_its_number_and_by_its_words() {
        for errno in (1..=133).map(Errno::from_raw_os_error) {
            let text = io::Error::from(errno).to_string();
            let words = text.split(" (os error").next().unwrap();
            let message = format!("dd: error reading 'file': {words}");
            assert_eq!(message_says_storage_failed(&message), says_storage_failed(errno), "{text}");
        }
        assert!(message_says_storage_failed("md5sum: can't read 'file': I/O error"));
        assert!(!message_says_storage_failed("cat: file: Permission denied"));
    }
}
