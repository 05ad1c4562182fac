//! Errors of parity: the path, the operation, and the cause.

use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be done with parity.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParityError {
    /// A system call failed.
    #[error("{}: {operation}: {source}", path.display())]
    Io {
        /// The path of what it was about.
        path: PathBuf,
        /// What was being done, in a word or two.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A file or a directory of the tree cannot be found, listed or opened.
    #[error(transparent)]
    Tree(#[from] verisum_files::FileError),
    /// A file holds something that is no parity, or damaged beyond use.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A file is bad in sets, too, that were not to be looked at.
    #[error("{}: bad in set {} too, which --sets does not name", path.display(), numbers(sets))]
    OtherSets {
        /// The file.
        path: PathBuf,
        /// These sets.
        sets: Vec<u64>,
    },
    /// There is parity already, which `create` does not replace.
    #[error("{}: there is parity already (`verisum parity update` renews it)", path.display())]
    Exists {
        /// The directory of the parity files.
        path: PathBuf,
    },
    /// There is no parity.
    #[error("{}: there is no parity (`verisum parity create` makes it)", path.display())]
    None {
        /// The directory where the parity files were looked for.
        path: PathBuf,
    },
    /// Another process works with this parity.
    #[error("{}: another process works with this parity", path.display())]
    Busy {
        /// The directory of the parity files.
        path: PathBuf,
    },
    /// Most files that have parity were written to or are gone.
    #[error(
        "{}: of {of} files with parity {changed} were written to and {gone} are gone: is all of it mounted and \
         meant? (--accept-changes)", path.display()
    )]
    TooMuch {
        /// The root of the tree.
        path: PathBuf,
        /// Files that were written to.
        changed: u64,
        /// Files that are gone.
        gone: u64,
        /// Files that have parity.
        of: u64,
    },
    /// It was asked to stop.
    #[error("it was stopped before its end")]
    Stopped,
    /// There is no such share of redundancy.
    #[error("the redundancy must be more than 0 and at most 100%")]
    Redundancy,
    /// There are no sets of this size.
    #[error("the size of a set must be 4 KiB to 256 MiB")]
    SetSize,
    /// A digest cannot be computed.
    #[error(transparent)]
    Digest(#[from] verisum_digest::DigestError),
}

impl ParityError {
    /// The error of a system call.
    pub(crate) fn io(path: &Path, operation: &'static str, source: impl Into<io::Error>) -> ParityError {
        let source = verisum_files::explained(path, source.into());
        ParityError::Io { path: path.to_path_buf(), operation, source }
    }

    /// The error of a file that cannot be used.
    pub(crate) fn damaged(path: &Path, what: &'static str) -> ParityError {
        ParityError::Damaged { path: path.to_path_buf(), what }
    }
}

fn numbers(sets: &[u64]) -> String {
    sets.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
