//! The result for each file, and the totals.

use std::path::Path;

use verisum_digest::{Digest, Output};
use verisum_files::{Timestamp, Verdict};

use super::CopyError;

/// Where a record is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordPlace {
    /// In the catalogue.
    Catalogue,
    /// In the file's attributes.
    Tag,
    /// At the store that has the file, since it was uploaded.
    Store,
}

impl RecordPlace {
    /// The word used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            RecordPlace::Catalogue => "catalogue",
            RecordPlace::Tag => "tag",
            RecordPlace::Store => "store",
        }
    }
}

/// A file that is not what it should be.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// What it means: rot, or suspicious where the inode was changed since.
    pub verdict: Verdict,
    /// The name of the digest.
    pub algorithm: String,
    /// What was recorded.
    pub expected: Output,
    /// The length of what was recorded, in bytes, if that is known.
    pub expected_size: Option<u64>,
    /// What was read.
    pub found: Output,
    /// Where the record is.
    pub place: RecordPlace,
}

/// What came of an entry of FROM.
#[derive(Debug)]
#[non_exhaustive]
pub enum CopyOutcome {
    /// A file was copied.
    Copied,
    /// It got the name of a file that was copied before, as in FROM.
    Linked,
    /// What is at TO is the same; nothing was read, unless it was to be recorded.
    Current,
    /// The content at TO is the same by the records of both; times, owner and mode were set.
    Touched,
    /// A symbolic link, pipe, socket or device was made.
    Made,
    /// It is not as recorded, and was not copied.
    Bad(Mismatch),
    /// It is not as recorded, and was copied all the same.
    CopiedBad(Mismatch),
    /// What was read back from TO is not what was written. On this machine the copy was removed, elsewhere it stays.
    Differs {
        /// The name of the digest.
        algorithm: String,
        /// What was written.
        written: Output,
        /// What was read back.
        found: Output,
    },
    /// It was not copied, or not with all that belongs to it.
    Failed(CopyError),
}

impl CopyOutcome {
    /// The word used in reports.
    pub fn name(&self) -> &'static str {
        match self {
            CopyOutcome::Copied => "copied",
            CopyOutcome::Linked => "linked",
            CopyOutcome::Current => "current",
            CopyOutcome::Touched => "touched",
            CopyOutcome::Made => "made",
            CopyOutcome::Bad(mismatch) | CopyOutcome::CopiedBad(mismatch) => mismatch.verdict.name(),
            CopyOutcome::Differs { .. } => "differs",
            CopyOutcome::Failed(_) => "failed",
        }
    }

    /// Whether somebody should know.
    pub fn is_problem(&self) -> bool {
        self.is_corrupt() || matches!(self, CopyOutcome::Failed(_))
    }

    /// Whether data is not what it should be.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, CopyOutcome::Bad(_) | CopyOutcome::CopiedBad(_) | CopyOutcome::Differs { .. })
    }
}

/// What came of an entry of FROM, for whoever reports it.
#[derive(Debug)]
pub struct CopyEvent<'a> {
    /// Its path as it was walked to.
    pub path: &'a Path,
    /// Its name below TO; empty for TO itself.
    pub name: &'a Path,
    /// What came of it.
    pub outcome: CopyOutcome,
    /// The length of a file in bytes.
    pub size: u64,
    /// When a file was last modified.
    pub modified: Option<Timestamp>,
    /// The permissions of a file: the lowest twelve bits of `st_mode`.
    pub mode: Option<u32>,
    /// The digests of the bytes that are at TO now, the chosen one first; none of what was not read.
    pub digests: &'a [(Digest, Output)],
}

/// What came of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopySummary {
    /// Files that were copied, also bad ones.
    pub copied: u64,
    /// Their bytes, those of holes included.
    pub bytes: u64,
    /// Of these files, those that were compared with a record.
    pub compared: u64,
    /// Names that were given to copied files.
    pub linked: u64,
    /// Files and links that were there already.
    pub current: u64,
    /// Files whose times, owner or mode alone were set.
    pub touched: u64,
    /// Symbolic links and special files.
    pub made: u64,
    /// Directories that were gone through.
    pub directories: u64,
    /// Files that are not as recorded, copied or not.
    pub bad: u64,
    /// Copies that were read back with other bytes.
    pub differ: u64,
    /// What could not be copied.
    pub failed: u64,
    /// Entries some of whose owners, modes or attributes TO did not take.
    pub reduced: u64,
    /// Links and special files that TO cannot hold.
    pub left_out: u64,
    /// Files of this machine that were not sent, because a place failed for all.
    pub not_tried: u64,
    /// Whether it ended before all was looked at.
    pub stopped: bool,
    /// Whether that was because many files in a row failed because of the place that they are in or go to.
    pub gave_up: bool,
}

impl CopySummary {
    pub(super) fn count(&mut self, event: &CopyEvent) {
        let count = match &event.outcome {
            CopyOutcome::Copied => {
                self.bytes += event.size;
                &mut self.copied
            }
            CopyOutcome::CopiedBad(_) => {
                self.bytes += event.size;
                self.copied += 1;
                &mut self.bad
            }
            CopyOutcome::Linked => &mut self.linked,
            CopyOutcome::Current => &mut self.current,
            CopyOutcome::Touched => &mut self.touched,
            CopyOutcome::Made => &mut self.made,
            CopyOutcome::Bad(_) => &mut self.bad,
            CopyOutcome::Differs { .. } => &mut self.differ,
            CopyOutcome::Failed(_) => &mut self.failed,
        };
        *count += 1;
    }
}
