//! Repair: restores the recorded content of files that are bad, missing or unreadable, from other copies.
//!
//! Good bytes are those whose digest is the recorded one; nothing else is ever put in a file's place. A source is
//! asked for digests first, so that nothing is written for a copy that is bad itself. The new file is written
//! without a name, synchronized, read again past the page cache, and then exchanged with the old one, which must
//! still be the one that was found bad.
//!
//! Non-goals: finding out what is bad, which scrubs do.

mod attributes;
mod blocks;
mod catalog;
mod damaged;
mod differences;
mod failure;
mod fill;
mod foretold;
mod helper;
mod in_place;
mod journal;
mod keep;
mod listed;
mod mend;
mod record;
mod refusal;
mod source;
mod source_catalog;
mod sums;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use verisum_catalog::scrub;
use verisum_catalog::store::{self, State};
use verisum_files::Stop;

pub use blocks::CombineError;
pub use catalog::{repair, repair_there};
pub use failure::{CopyFault, RepairFailure};
pub use fill::FillError;
pub use in_place::{Finished, InPlaceFault, finish_in_place};
pub use listed::{ExpectedContent, repair_recorded, tagged};
pub use mend::is_of_nothing;
pub use record::{MendedFile, Noted, Taken, is_known, note};
pub use refusal::RepairRefusal;
pub use source::Source;
pub use source_catalog::SourceCatalog;
pub use sums::{ListRecords, recorded_in};
pub use verisum_files::check::UselessLine;

/// How to repair.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairOptions {
    /// Say what could be done, and change nothing.
    pub dry: bool,
    /// A directory to which bad files are moved, at their paths in their tree; on another file system they are copied,
    /// with zeros for what cannot be read. Only their owners may use them there. Without it they are removed, once the
    /// repaired ones were verified; suspicious and held ones, which somebody may have written, are left alone then.
    pub keep_bad: Option<PathBuf>,
    /// Leave missing files missing.
    pub except_missing: bool,
    /// Also repair files on file systems that are mounted below the tree.
    pub cross_file_systems: bool,
    /// Write the bad blocks of files of a mebibyte and more into the files themselves, where digests of their blocks are
    /// recorded. Only repairs by a catalogue can: its folder has the journal.
    pub in_place: bool,
    /// When to end early, after the file in progress.
    pub stop: Arc<Stop>,
}

impl Default for RepairOptions {
    /// Bad files are removed once they are replaced, and all is recorded as of now.
    fn default() -> RepairOptions {
        RepairOptions {
            dry: false,
            keep_bad: None,
            except_missing: false,
            cross_file_systems: false,
            in_place: false,
            stop: Arc::default(),
        }
    }
}

/// A file that was to be repaired.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Repaired {
    /// Its path.
    pub path: PathBuf,
    /// What it had been found to be.
    pub state: State,
    /// Its recorded length in bytes, or what it is since the repair; none if neither is known.
    pub size: Option<u64>,
    /// The name of the digest.
    pub algorithm: String,
    /// The recorded digest.
    pub recorded: verisum_digest::Output,
    /// What became of it.
    pub outcome: RepairOutcome,
    /// The digest that it had before, if it was repaired and could be read.
    pub before: Option<verisum_digest::Output>,
    /// Which of its bytes are others now, in blocks of 4 KiB; none if it was not repaired, or that is not known.
    pub ranges: Option<Vec<Range<u64>>>,
    /// What it took from each of several copies, if it was put together from their blocks.
    pub taken: Vec<Taken>,
    /// How many bytes of the copy that is kept of it are zeros because storage did not give them.
    pub kept_unread: u64,
    /// The copies whose content was not the recorded one either, of those that were read before it was or could be
    /// repaired.
    pub bad_copies: Vec<PathBuf>,
}

/// What became of a file that was to be repaired.
#[derive(Clone, Debug, PartialEq)]
pub enum RepairOutcome {
    /// It has its recorded content again.
    Repaired {
        /// The path or address of the file whose content it took.
        from: PathBuf,
        /// How many bytes it took.
        bytes: u64,
        /// How many more names the bad content has, which were not repaired.
        other_names: u64,
        /// It was missing, and no source told its permissions and its owner: they are those of any new file.
        has_usual_permissions: bool,
        /// What else it took blocks from.
        also_from: Vec<PathBuf>,
    },
    /// It could be repaired.
    Mendable {
        /// The path or address of a file with its recorded content.
        from: PathBuf,
        /// How many bytes it would take.
        bytes: u64,
        /// Somebody may have written what it is now: [`RepairOptions::keep_bad`] is needed to repair it, and was not given.
        needs_keep_bad: bool,
        /// What else it would take blocks from.
        also_from: Vec<PathBuf>,
    },
    /// It is as recorded, past the page cache too.
    Sound,
    /// No source has its recorded content.
    NoSource {
        /// The files that were looked at, and what is wrong with each.
        tried: Vec<(PathBuf, CopyFault)>,
    },
    /// It must not be repaired, for this reason.
    Refused(RepairRefusal),
    /// It could not be repaired, for this reason.
    Failed(RepairFailure),
}

impl RepairOutcome {
    /// The word used in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            RepairOutcome::Repaired { .. } => "repaired",
            RepairOutcome::Mendable { .. } => "mendable",
            RepairOutcome::Sound => "ok",
            RepairOutcome::NoSource { .. } => "no-source",
            RepairOutcome::Refused(_) => "refused",
            RepairOutcome::Failed(_) => "failed",
        }
    }
}

/// What a repair came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairSummary {
    /// Files that have their recorded content again.
    pub repaired: u64,
    /// Files that could be repaired.
    pub mendable: u64,
    /// Files that were found to be as recorded.
    pub sound: u64,
    /// Files that no source has.
    pub without_source: u64,
    /// Files that must not or could not be repaired.
    pub left: u64,
    /// Bytes that were written, or would be.
    pub bytes: u64,
    /// Whether it was ended by [`RepairOptions::stop`].
    pub interrupted: bool,
}

impl RepairSummary {
    fn count(&mut self, file: &Repaired) {
        match &file.outcome {
            RepairOutcome::Repaired { bytes, .. } => {
                self.repaired += 1;
                self.bytes += bytes;
            }
            RepairOutcome::Mendable { bytes, .. } => {
                self.mendable += 1;
                self.bytes += bytes;
            }
            RepairOutcome::Sound => self.sound += 1,
            RepairOutcome::NoSource { .. } => self.without_source += 1,
            RepairOutcome::Refused(_) | RepairOutcome::Failed(_) => self.left += 1,
        }
    }
}

/// Why a path is nothing that can be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathFault {
    /// Nothing is there, and nothing is known to be missing there.
    #[error("it is not there, and the catalogue has nothing missing there: scrub its tree first")]
    Nothing,
    /// It is in a tree of another machine.
    #[error("it is on another machine")]
    OtherMachine,
    /// The catalogue knows nothing of it.
    #[error("it is in no tree of the catalogue (`verisum catalog status` lists them)")]
    InNoTree,
    /// This version does not know the digest of its record.
    #[error("its digest is not known")]
    UnknownDigest,
}

/// Why nothing could be repaired, or not all of it be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The catalogue failed.
    #[error(transparent)]
    Catalog(#[from] store::CatalogError),
    /// What is there is not the tree that was recorded.
    #[error(transparent)]
    Tree(#[from] scrub::ScrubError),
    /// A place cannot be asked.
    #[error("{}: repair: {source}", address.display())]
    Place {
        /// The address.
        address: PathBuf,
        /// Why.
        source: verisum_files::place::PlaceError,
    },
    /// The path is nothing that can be repaired.
    #[error("{}: repair: {why}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: PathFault,
    },
    /// A list of checksums cannot be read.
    #[error("{}: {operation}: {source}", path.display())]
    List {
        /// The list.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The journal of a repair in place that was interrupted cannot be used.
    #[error(
        "{}: finish a repair in place: {why} (to give it up, remove {})", path.display(), journal.display()
    )]
    InPlace {
        /// The file, or the journal.
        path: PathBuf,
        /// What is left to be written.
        journal: PathBuf,
        /// What is wrong.
        why: InPlaceFault,
    },
    /// A directory for bad files cannot be used.
    #[error("{}: {operation}: {source}", path.display())]
    KeepBad {
        /// The directory.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}
