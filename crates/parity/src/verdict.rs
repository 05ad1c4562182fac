//! The findings about a file or a set.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::ParityError;

/// What is true of a file that has parity.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileVerdict {
    /// Its bytes differ from the record, or cannot be read, and its time of modification is the recorded one.
    Damaged {
        /// How many bytes lie in parts that are not as recorded.
        bytes: u64,
        /// Whether there is parity enough to mend it.
        can_be_repaired: bool,
    },
    /// It is not there.
    Missing {
        /// Whether there is parity enough to make it again.
        can_be_repaired: bool,
    },
    /// It was written to since its parity was made: `update` renews that.
    Changed,
    /// Its time of modification moved, and its bytes are as recorded.
    Touched,
    /// It changed while it was read.
    Busy,
    /// It cannot be opened.
    Unreadable(verisum_files::FileError),
    /// It was damaged or missing, and is now as recorded.
    Repaired {
        /// How many bytes were computed from parity.
        bytes: u64,
        /// Which ones, ascending; no two of them touch.
        ranges: Vec<Range<u64>>,
        /// How many bytes of the copy that is kept of it are zeros because storage did not give them.
        kept_unread: u64,
        /// How many sets that have parts of it were not read, as others were named to a repair in place: what it is there is
        /// not known.
        unread_sets: u64,
    },
    /// A repair in place had written all of it before it was killed. The next repair only gives it its time again, where
    /// that is another, and forgets about it.
    Finished {
        /// How many bytes were computed from parity.
        bytes: u64,
        /// Which ones, ascending.
        ranges: Vec<Range<u64>>,
    },
    /// It could not be repaired, and was left alone.
    NotRepaired(ParityError),
}

/// What the repair of a file came to.
pub(crate) struct Mended {
    /// Which bytes were computed, ascending.
    pub(crate) ranges: Vec<Range<u64>>,
    /// How many bytes of the copy that is kept of it could not be read.
    pub(crate) unread: u64,
}

impl FileVerdict {
    /// Whether it is bad, and there is parity enough to mend it.
    pub const fn can_be_repaired(&self) -> bool {
        use FileVerdict::{Damaged, Missing};
        matches!(self, Damaged { can_be_repaired: true, .. } | Missing { can_be_repaired: true })
    }

    /// The same, if what is bad cannot be repaired.
    pub(crate) fn beyond_repair(self) -> FileVerdict {
        match self {
            FileVerdict::Damaged { bytes, .. } => FileVerdict::Damaged { bytes, can_be_repaired: false },
            FileVerdict::Missing { .. } => FileVerdict::Missing { can_be_repaired: false },
            other => other,
        }
    }

    /// That a repair came to this.
    pub(crate) fn repaired(Mended { ranges, unread: kept_unread }: Mended, unread_sets: u64) -> FileVerdict {
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        FileVerdict::Repaired { bytes, ranges, kept_unread, unread_sets }
    }

    /// The word used in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            FileVerdict::Damaged { .. } => "damaged",
            FileVerdict::Missing { .. } => "missing",
            FileVerdict::Changed => "changed",
            FileVerdict::Touched => "touched",
            FileVerdict::Busy => "busy",
            FileVerdict::Unreadable(_) => "unreadable",
            FileVerdict::Repaired { .. } => "repaired",
            FileVerdict::Finished { .. } => "finished",
            FileVerdict::NotRepaired(_) => "not-repaired",
        }
    }
}

/// A file of which there is something to say.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileFinding {
    /// Its path from the root of the tree.
    pub path: PathBuf,
    /// What is true of it.
    pub verdict: FileVerdict,
}

/// A file of the parity itself of which there is something to say.
#[derive(Debug)]
#[non_exhaustive]
pub struct ParityFinding {
    /// Its path.
    pub path: PathBuf,
    /// What is wrong with it.
    pub verdict: ParityFileVerdict,
}

/// What is true of a file of the parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParityFileVerdict {
    /// Some of its blocks or one of its heads is damaged, and it still can be used.
    Damaged {
        /// How many parity blocks.
        blocks: usize,
        /// Of how many.
        of: usize,
    },
    /// It cannot be read at all: the files of this set have no parity until `update` makes new.
    Lost,
    /// Both copies of the index are damaged: all sets that are there count until `update` writes it anew.
    IndexLost,
    /// It was damaged, and is as it was when it was made.
    Repaired,
    /// Too much of its data is missing to make it again.
    NotRepaired,
}

impl ParityFileVerdict {
    /// The word used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            ParityFileVerdict::Damaged { .. } => "damaged",
            ParityFileVerdict::Lost | ParityFileVerdict::IndexLost => "lost",
            ParityFileVerdict::Repaired => "repaired",
            ParityFileVerdict::NotRepaired => "not-repaired",
        }
    }
}

/// Something that was found, in the order in which it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// Of a file of the tree.
    File(FileFinding),
    /// Of a file of the parity.
    Parity(ParityFinding),
    /// Of a directory that cannot be listed, or a file that cannot be looked at.
    Unseen(verisum_files::FileError),
}

impl Finding {
    pub(crate) fn of(path: &[u8], verdict: FileVerdict) -> Finding {
        Finding::File(FileFinding { path: OsStr::from_bytes(path).into(), verdict })
    }

    pub(crate) fn parity(path: &Path, verdict: ParityFileVerdict) -> Finding {
        Finding::Parity(ParityFinding { path: path.to_path_buf(), verdict })
    }
}

/// The finding that a set cannot be used; fails if that is not known.
pub(crate) fn lost_set(error: ParityError) -> Result<Finding, ParityError> {
    match error {
        ParityError::Damaged { path, .. } => Ok(Finding::parity(&path, ParityFileVerdict::Lost)),
        ParityError::Io { path, source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(Finding::parity(&path, ParityFileVerdict::Lost))
        }
        error => Err(error),
    }
}
