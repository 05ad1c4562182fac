//! Errors of catalogues: why a catalogue cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use verisum_files::ReplaceError;
use verisum_files::text::of_system;

/// The least length in bytes of the files that SQLite needs beside a catalogue, together.
const BESIDE: u64 = 64 << 10;

/// What is done first.
const OPEN: &str = "open";

/// What to do about a catalogue that cannot be opened. One whose beginning is damaged is replaced by nothing.
pub(super) const RESTORE: &str = "move it away, then verisum catalog restore takes a backup";

/// What to do about any other damage.
const ADVICE: &str = "(verisum catalog check says more, and verisum catalog restore takes a backup)";

/// What went wrong with a catalogue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The database failed.
    #[error("{}: {operation}: {}", path.display(), cause(operation, source))]
    Database {
        /// The catalogue.
        path: PathBuf,
        /// What was being done: `open`, `read`, `write`.
        operation: &'static str,
        /// Why it failed.
        source: rusqlite::Error,
    },
    /// A file could not be made, read or written.
    #[error("{}: {operation}: {}", path.display(), of_system(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Another run holds the lock.
    #[error("{}: lock: another run uses this catalogue", path.display())]
    InUse {
        /// The catalogue.
        path: PathBuf,
    },
    /// It was removed, renamed or replaced while it was in use.
    #[error(
        "{}: write: it is not the file any more that was opened (what this run recorded is lost; {}-wal and -shm \
         are left over, and would damage another file of this name)",
        path.display(),
        path.display()
    )]
    Gone {
        /// The catalogue.
        path: PathBuf,
    },
    /// The log of a catalogue that is no longer beside it.
    #[error(
        "{}: open: it is the log of a catalogue that is gone, and would damage a new one (put that catalogue \
         back, or remove the log)",
        path.display()
    )]
    LeftOver {
        /// The log.
        path: PathBuf,
    },
    /// It has several names, each of which would have a lock and a log of its own.
    #[error("{}: open: it has another name (a hard link), and would have two logs", path.display())]
    Linked {
        /// The catalogue.
        path: PathBuf,
    },
    /// It is a database of something else.
    #[error(
        "{}: open: not a catalogue of verisum, or its beginning is damaged (if it was one, {restore})",
        path.display(),
        restore = RESTORE
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It was written by a later version.
    #[error(
        "{}: open: its version is {found}, and this program knows {known} at most (a newer verisum reads it; if \
         there is none, its beginning is damaged: {restore})",
        path.display(),
        restore = RESTORE
    )]
    Newer {
        /// The catalogue.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// It holds what no catalogue holds.
    #[error("{}: read: damaged: {what}", path.display())]
    Damaged {
        /// The catalogue.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Somebody began to write to it while it was read without a way to keep them from it.
    #[error("{}: read: it was written to meanwhile (read it again)", path.display())]
    Changed {
        /// The catalogue.
        path: PathBuf,
    },
    /// Somebody asked to end before it was done.
    #[error("{}: stopped", path.display())]
    Stopped {
        /// The catalogue, or its copy.
        path: PathBuf,
    },
    /// A record cannot be listed in a format.
    #[error("{}: export: {why}", path.display())]
    Unlistable {
        /// The file, or the catalogue.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// An entry of another program's index cannot be taken.
    #[error("{}: entry {entry}: {what}", path.display())]
    Entry {
        /// The index.
        path: PathBuf,
        /// Its number, from 1.
        entry: u64,
        /// What is wrong.
        what: String,
    },
    /// A line of an export or a list cannot be understood or taken.
    #[error("{}: line {line}: {what}", path.display())]
    Line {
        /// The export or the list.
        path: PathBuf,
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
}

impl CatalogError {
    /// Wraps an error of the database.
    pub(crate) fn database(path: &Path, operation: &'static str, source: rusqlite::Error) -> CatalogError {
        if source.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return CatalogError::Stopped { path: path.to_path_buf() };
        }
        let source = if is_for_want_of_space(path, &source) { full() } else { source };
        CatalogError::Database { path: path.to_path_buf(), operation, source }
    }

    /// Wraps an error of the operating system.
    pub(crate) fn io(path: &Path, operation: &'static str, source: impl Into<io::Error>) -> CatalogError {
        CatalogError::Io { path: path.to_path_buf(), operation, source: source.into() }
    }

    /// What is wrong with a catalogue that could be opened.
    pub(super) fn damaged(path: &Path, what: &str) -> CatalogError {
        CatalogError::Damaged { path: path.to_path_buf(), what: format!("{what} {ADVICE}") }
    }

    /// The same of one that could not.
    pub(super) fn damaged_at_open(path: &Path, what: &str) -> CatalogError {
        CatalogError::Damaged { path: path.to_path_buf(), what: format!("{what} ({RESTORE})") }
    }

    /// The file that it is about: the catalogue, or what else could not be used.
    pub fn path(&self) -> &Path {
        match self {
            CatalogError::Database { path, .. }
            | CatalogError::Io { path, .. }
            | CatalogError::InUse { path }
            | CatalogError::Gone { path }
            | CatalogError::LeftOver { path }
            | CatalogError::Linked { path }
            | CatalogError::Foreign { path }
            | CatalogError::Newer { path, .. }
            | CatalogError::Damaged { path, .. }
            | CatalogError::Changed { path }
            | CatalogError::Stopped { path }
            | CatalogError::Unlistable { path, .. }
            | CatalogError::Entry { path, .. }
            | CatalogError::Line { path, .. } => path,
        }
    }

    /// What was being done: `open`, `read`, `write`, `lock` and others.
    pub fn operation(&self) -> &'static str {
        match self {
            CatalogError::Database { operation, .. } | CatalogError::Io { operation, .. } => operation,
            CatalogError::InUse { .. } => "lock",
            CatalogError::Gone { .. } => "write",
            CatalogError::LeftOver { .. }
            | CatalogError::Linked { .. }
            | CatalogError::Foreign { .. }
            | CatalogError::Newer { .. } => "open",
            CatalogError::Damaged { .. } | CatalogError::Changed { .. } | CatalogError::Stopped { .. } => {
                "read"
            }
            CatalogError::Unlistable { .. } => "export",
            CatalogError::Entry { .. } | CatalogError::Line { .. } => "import",
        }
    }

    /// The system's number, if it was the system that failed and SQLite says how.
    pub fn errno(&self) -> Option<i32> {
        let source = match self {
            CatalogError::Io { source, .. } => return source.raw_os_error(),
            CatalogError::Database { source, .. } => source,
            _ => return None,
        };
        let errno = match source.sqlite_error_code()? {
            ErrorCode::DiskFull => Errno::NOSPC,
            ErrorCode::PermissionDenied => Errno::ACCESS,
            ErrorCode::SystemIoFailure => Errno::IO,
            _ => return None,
        };
        Some(errno.raw_os_error())
    }

    /// The same of a catalogue that was opened under another name.
    pub(super) fn of(self, path: &Path) -> CatalogError {
        match self {
            CatalogError::Database { operation, source, .. } => {
                CatalogError::database(path, operation, source)
            }
            CatalogError::Foreign { .. } => CatalogError::Foreign { path: path.to_path_buf() },
            CatalogError::Damaged { what, .. } => CatalogError::Damaged { path: path.to_path_buf(), what },
            CatalogError::Newer { found, known, .. } => {
                CatalogError::Newer { path: path.to_path_buf(), found, known }
            }
            other => other,
        }
    }

    /// Whether SQLite could not open or make a file that it needs.
    pub(super) fn is_cannot_open(&self) -> bool {
        match self {
            CatalogError::Database { source, .. } => {
                matches!(source.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
            }
            _ => false,
        }
    }

    /// Whether there is no space for what would have to be written.
    pub fn is_out_of_space(&self) -> bool {
        match self {
            CatalogError::Database { source, .. } => source.sqlite_error_code() == Some(ErrorCode::DiskFull),
            CatalogError::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }

    /// Whether the database's own structure is broken.
    pub fn is_damage(&self) -> bool {
        match self {
            CatalogError::Damaged { .. } => true,
            CatalogError::Database { operation, source, .. } => match source.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => true,
                // The first statements are right in any database.
                Some(ErrorCode::Unknown) => *operation == OPEN,
                _ => false,
            },
            _ => false,
        }
    }
}

impl From<ReplaceError> for CatalogError {
    fn from(error: ReplaceError) -> CatalogError {
        CatalogError::Io { path: error.path, operation: error.operation, source: error.source }
    }
}

/// Whether SQLite failed at a file beside the catalogue because none can be made or grow. It says so only of
/// what it writes to the catalogue and its log; of the others it says that they cannot be opened, or that
/// input or output failed.
fn is_for_want_of_space(path: &Path, error: &rusqlite::Error) -> bool {
    if !matches!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen)) {
        return false;
    }
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let (flags, mode) = (OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    let grown = rustix::fs::open(folder, flags, mode)
        .and_then(|file| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, BESIDE));
    matches!(grown, Err(Errno::NOSPC | Errno::DQUOT))
}

/// What SQLite says of a full file system.
fn full() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None)
}

/// SQLite's words, or clearer ones for what users meet.
fn cause(operation: &str, error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "no space left on device".to_string(),
        Some(ErrorCode::ReadOnly) => "it is read-only".to_string(),
        Some(ErrorCode::CannotOpen) => {
            "it or its log cannot be opened here (a run that was killed left a log: open it once where it can \
             be written)"
                .to_string()
        }
        Some(ErrorCode::PermissionDenied) => "permission denied".to_string(),
        Some(ErrorCode::SystemIoFailure) => "input/output error".to_string(),
        Some(ErrorCode::NotADatabase) => {
            format!("not a catalogue, or its beginning is damaged (if it was one, {RESTORE})")
        }
        Some(ErrorCode::Unknown) if operation == OPEN => format!("its beginning is damaged ({RESTORE})"),
        Some(ErrorCode::DatabaseCorrupt) => "its structure is damaged (verisum catalog restore takes a backup)".to_string(),
        _ => error.to_string(),
    }
}
