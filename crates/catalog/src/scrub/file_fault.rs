//! Why a file is not known to be as recorded, or cannot be accepted as it is.

use std::io;

use verisum_digest::DigestError;
use verisum_files::place::{Contradicted, PlaceError, Reason};
use verisum_files::text::of_system;
use verisum_files::{FileError, Operation, SharedError, Verdict, at, reread};

use super::tally::Untried;
use super::{RootFault, ScrubError};
use crate::store::PAST;

/// Why a file is not known to be as recorded, or cannot be accepted as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// It cannot be found, opened, read or hashed.
    #[error("{operation}{}: {}", at(*offset), of_system(source))]
    Io {
        /// What was being done.
        operation: Operation,
        /// The byte that was to be read, if that is known.
        offset: Option<u64>,
        /// Why it failed.
        source: SharedError<io::Error>,
    },
    /// Its digest cannot be computed here.
    #[error("hash: {0}")]
    Digest(SharedError<DigestError>),
    /// Another error of a file, with its path.
    #[error(transparent)]
    File(SharedError<FileError>),
    /// It cannot be read past the page cache.
    #[error("read: {0}")]
    Read(SharedError<reread::Failed>),
    /// It cannot be read, as its place says.
    #[error("read: {}", .0.message())]
    NotRead(Reason),
    /// Its place reads files without telling what they are besides.
    #[error("read: the host told no size and time of it")]
    NoState,
    /// Its place said nothing of it.
    #[error("it was not read")]
    NoAnswer,
    /// Its place failed.
    #[error(transparent)]
    Place(SharedError<PlaceError>),
    /// Its storage, or the connection to its place, failed at a second read.
    #[error("second read: {}", of_system(.0))]
    SecondRead(SharedError<io::Error>),
    /// A second read failed in its place.
    #[error("second read: {0}")]
    SecondReadThere(Box<FileFault>),
    /// Somebody wrote to it meanwhile.
    #[error("it changed while it was read")]
    Changed,
    /// The verdict is all that is known.
    #[error("{0}")]
    Found(Verdict),
    /// It is bad now in one way, and was in another when it was last read.
    #[error("{now}{PAST}{was} when it was last read")]
    Past {
        /// What is wrong with it now.
        now: Box<FileFault>,
        /// What it was.
        was: Verdict,
    },
    /// It is not what its place recorded when it was written.
    #[error("{0}")]
    NotAsWritten(Box<Contradicted>),
    /// It is not what its place recorded, by a digest that nothing here computes: no copy can be known to be good.
    #[error("{0}; write it anew")]
    WriteAnew(Box<Contradicted>),
    /// Two reads of it do not agree on what its place recorded.
    #[error("two reads do not agree on what its place recorded: scrub it again")]
    Disagree,
    /// Another file system was mounted there.
    #[error("the file system that was recorded here is not mounted")]
    NotMounted,
    /// What was recorded at its root, or on the way to it, is not there.
    #[error("open: {0}")]
    Root(RootFault),
    /// It is on another file system, and such were not to be entered.
    #[error("open: another file system is mounted there (--cross-file-systems enters it)")]
    Elsewhere,
    /// It was to be accepted as gone.
    #[error("it is there again: scrub it")]
    IsBack,
    /// It is bad, and nobody tried it again.
    #[error("{}it was not tried again: {why}", recorded.as_ref().map_or(String::new(), |was| format!("{was}; ")))]
    NotTried {
        /// What was recorded of it when it was found to be bad.
        recorded: Option<String>,
        /// Why nobody did.
        why: Untried,
    },
    /// So much changed that it is held without being read.
    #[error("it was written to, and was not read yet")]
    Waiting,
    /// It is gone, and its record is damaged.
    #[error("it is gone")]
    Gone,
    /// It is gone, which makes nothing good.
    #[error("it is gone, and was bad when it was last seen")]
    GoneBad,
    /// Words of its place, or of whoever keeps the scrub from looking at it.
    #[error("{0}")]
    Told(String),
    /// The catalogue failed.
    #[error(transparent)]
    Catalog(SharedError<ScrubError>),
}

impl From<FileError> for FileFault {
    fn from(error: FileError) -> FileFault {
        match error {
            FileError::Io { operation, offset, source, .. } => {
                FileFault::Io { operation, offset, source: source.into() }
            }
            other => FileFault::File(other.into()),
        }
    }
}

impl From<PlaceError> for FileFault {
    fn from(error: PlaceError) -> FileFault {
        FileFault::Place(error.into())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::io::Errno;

    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_what_was_known_before() {
        let error = FileError::Io {
            path: Path::new("file").to_path_buf(),
            operation: Operation::Read,
            offset: Some(4096),
            source: Errno::IO.into(),
        };
        let now = FileFault::from(error);
        assert_eq!(now.to_string(), "read at 4096: Input/output error");
        let past = FileFault::Past { now: Box::new(now.clone()), was: Verdict::Rot };
        assert_eq!(past.to_string().split(PAST).next(), Some(&*now.to_string()));
        let why = Untried::NoTime;
        let untried = |recorded| FileFault::NotTried { recorded, why }.to_string();
        assert_eq!(untried(None), "it was not tried again: there was no time");
        assert_eq!(untried(Some("a".to_string())), "a; it was not tried again: there was no time");
    }
}
