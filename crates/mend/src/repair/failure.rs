//! Errors of repairs: why a file could not be repaired, and why a copy could not repair it.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use verisum_files::place::{PlaceError, Reason};
use verisum_files::text::of_system;
use verisum_files::{FileError, ReplaceError, SharedError, reread};

use super::{CombineError, FillError, InPlaceFault};

const OTHER_IN_WAY: &str =
    "a file, a link or something else is in the place of its directory: move that away first";
const ELSEWHERE: &str = "another file system is mounted there (--cross-file-systems enters it)";

/// Why a file could not be repaired. It is as it was, unless it was being written in place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepairFailure {
    /// Somebody ended the repair first.
    #[error("interrupted")]
    Interrupted,
    /// Nothing of its tree is there.
    #[error("nothing is there of what is recorded: is it mounted?")]
    NothingThere,
    /// What it is now could not be kept.
    #[error("--keep-bad: {}", of_system(.0))]
    NotKept(SharedError<io::Error>),
    /// It, or its directory, cannot be opened or made.
    #[error("{}", of_old(.0))]
    File(SharedError<FileError>),
    /// It cannot be read.
    #[error("read: {0}")]
    Read(SharedError<reread::Failed>),
    /// It cannot be read, as its place says.
    #[error("read: {}", .0.message())]
    NotRead(Reason),
    /// What was written cannot be read again, as its place says.
    #[error("read again: {}", .0.message())]
    NotReadAgain(Reason),
    /// Its place said nothing of what was written.
    #[error("read again: no answer")]
    NoAnswer,
    /// Its host ended before it had written the new file.
    #[error("write: the host ended")]
    HostEnded,
    /// Its place refused something.
    #[error(transparent)]
    Place(SharedError<PlaceError>),
    /// The new file cannot be made, or cannot take its place.
    #[error("{}: {}", .0.operation, of_system(&.0.source))]
    NewFile(SharedError<ReplaceError>),
    /// The new file cannot be given its content.
    #[error(transparent)]
    Fill(SharedError<FillError>),
    /// The new file cannot have what else the old one has.
    #[error("its owner, group, mode or attributes cannot be kept (root may)")]
    Attributes,
    /// The new file cannot be given its times.
    #[error("keep its times: {}", of_system(&io::Error::from(*.0)))]
    Times(Errno),
    /// It is to be written in place, and the journal is one of another repair.
    #[error(
        "{}: an earlier repair in place is to be finished first (without --in-place a repair replaces its file)",
        .0.display()
    )]
    EarlierInPlace(PathBuf),
    /// The journal of its repair in place cannot be written or removed.
    #[error("{}: write: {}", path.display(), of_system(source))]
    Journal {
        /// The journal.
        path: PathBuf,
        /// Why it failed.
        source: SharedError<io::Error>,
    },
    /// It was not written in place to its end.
    #[error("{why} (the next repair goes on by {})", journal.display())]
    InPlace {
        /// What is left to be written.
        journal: PathBuf,
        /// Why.
        why: InPlaceFault,
    },
    /// An earlier repair in place of it cannot be finished now.
    #[error("its repair in place is not finished: {0}")]
    Unfinished(InPlaceFault),
}

/// What is wrong with an old file, without its path.
fn of_old(error: &FileError) -> String {
    match error {
        FileError::Io { .. } if error.errno() == Some(Errno::XDEV) => ELSEWHERE.to_string(),
        FileError::Io { .. } if matches!(error.errno(), Some(Errno::NOTDIR | Errno::LOOP)) => {
            OTHER_IN_WAY.to_string()
        }
        FileError::Io { operation, source, .. } => format!("{operation}: {}", of_system(source)),
        other => other.to_string(),
    }
}

/// Why a copy of a file does not repair it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyFault {
    /// Its content is not the recorded one.
    #[error("different content")]
    OtherContent,
    /// Its length is not the recorded one.
    #[error("different content: it has another length")]
    OtherLength,
    /// It is another name of the bad file.
    #[error("its other name has different content")]
    OtherName,
    /// It could not be read, as its place says.
    #[error("{}", .0.message())]
    NotRead(Reason),
    /// Somebody wrote to it meanwhile.
    #[error("it changed while it was read")]
    Changed,
    /// Its place said nothing of it.
    #[error("read: no answer")]
    NoAnswer,
    /// Its place failed.
    #[error(transparent)]
    Place(SharedError<PlaceError>),
    /// Its content did not come to the place of the file.
    #[error("{}", of_system(.0))]
    Content(SharedError<io::Error>),
    /// It cannot be read, or is not what it was.
    #[error(transparent)]
    Fill(SharedError<FillError>),
    /// The file cannot be put together of blocks of its copies.
    #[error(transparent)]
    Combine(SharedError<CombineError>),
}

impl CopyFault {
    /// Whether it was found to have other content.
    pub(super) fn is_other_content(&self) -> bool {
        matches!(self, CopyFault::OtherContent | CopyFault::OtherLength)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use verisum_files::Operation;

    #[test]
    fn what_is_wrong_is_said_as_other_programs_say_it() {
        let error = FileError::io(Path::new("file"), Operation::Stat, Errno::UCLEAN);
        assert_eq!(RepairFailure::File(error.into()).to_string(), "stat: Structure needs cleaning");
        let full = || io::Error::from(Errno::NOSPC);
        let failures = [
            (RepairFailure::NotKept(full().into()), "--keep-bad: "),
            (RepairFailure::Read(reread::Failed::System(Errno::NOSPC).into()), "read: "),
            (RepairFailure::Fill(FillError::Write(full()).into()), "write: "),
            (RepairFailure::Fill(FillError::Read(full()).into()), "read: "),
            (RepairFailure::Times(Errno::NOSPC), "keep its times: "),
            (RepairFailure::Journal { path: "j".into(), source: full().into() }, "j: write: "),
            (
                RepairFailure::Unfinished(InPlaceFault::Open(full().into())),
                "its repair in place is not finished: open to write: ",
            ),
        ];
        for (failure, before) in failures {
            assert_eq!(failure.to_string(), format!("{before}No space left on device"));
        }
        assert_eq!(CopyFault::Content(full().into()).to_string(), "No space left on device");
    }
}
