//! Errors of repairs: why a file could not be repaired, and why a copy could not repair it.

use verisum_files::place::Reason;

/// Why a file could not be repaired. It is as it was.
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
    #[error("--keep-bad: {why}")]
    NotKept {
        /// What failed, and why.
        why: String,
    },
    /// The system, or the place of the file or of its copy, refused something.
    #[error("{why}")]
    Failed {
        /// What it refused, and why.
        why: String,
    },
}

impl From<String> for RepairFailure {
    fn from(why: String) -> RepairFailure {
        RepairFailure::Failed { why }
    }
}

/// Why a copy of a file does not repair it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyFault {
    /// Its content is not the recorded one.
    #[error("different content")]
    OtherContent,
    /// The same, as its length tells.
    #[error("different content: it has another length")]
    OtherLength,
    /// It is another name of the file.
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
    /// Something else about it, or its place, failed.
    #[error("{why}")]
    Failed {
        /// What failed, and why.
        why: String,
    },
}

impl CopyFault {
    /// Whether it was found to have other content.
    pub(super) fn is_other_content(&self) -> bool {
        matches!(self, CopyFault::OtherContent | CopyFault::OtherLength)
    }
}

impl From<String> for CopyFault {
    fn from(why: String) -> CopyFault {
        CopyFault::Failed { why }
    }
}
