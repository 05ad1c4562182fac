//! Findings about files, and their counts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use verisum_digest::Output;

use crate::{Entry, FileError, Record, Verdict, VerdictClass};

/// What came of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagOutcome {
    /// It was judged, and nothing was done to it.
    Judged(Verdict),
    /// By length and time its tag is up to date; nothing was done to it.
    Current,
    /// Its tag was verified lately, or chance left it out of the sample: it was not read.
    NotDue,
    /// It has no tag of the digest that was asked for, nor of the one to come, but one of a third.
    OtherDigest,
    /// It had no tag and has one now.
    Tagged,
    /// It was written to since it was tagged; the tag is that of the new content now.
    Updated,
    /// Its content is the recorded one; the times in the tag are those of now.
    Refreshed,
    /// Its tag of one digest was verified and replaced by one of another.
    Retagged,
    /// Its tag is removed.
    Removed,
    /// Another tool's record of it was taken over, unverified.
    Adopted,
    /// Its tag is not what was written once; the tag is left as it is.
    Damaged,
    /// It takes no attribute; its record is in the catalogue.
    Catalogued,
    /// Its tag cannot be written or removed.
    NotWritten,
}

/// The outcomes that are no verdicts, in the order of reports.
const OTHERS: [TagOutcome; 12] = [
    TagOutcome::Tagged,
    TagOutcome::Updated,
    TagOutcome::Refreshed,
    TagOutcome::Retagged,
    TagOutcome::Removed,
    TagOutcome::Adopted,
    TagOutcome::Catalogued,
    TagOutcome::Current,
    TagOutcome::NotDue,
    TagOutcome::OtherDigest,
    TagOutcome::Damaged,
    TagOutcome::NotWritten,
];

impl TagOutcome {
    /// All outcomes.
    pub fn all() -> impl Iterator<Item = TagOutcome> {
        OTHERS.into_iter().chain(Verdict::ALL.into_iter().map(TagOutcome::Judged))
    }

    /// The word used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            TagOutcome::Judged(Verdict::New) => "untagged",
            TagOutcome::Judged(verdict) => verdict.name(),
            TagOutcome::Current => "current",
            TagOutcome::NotDue => "not-due",
            TagOutcome::OtherDigest => "other-digest",
            TagOutcome::Tagged => "tagged",
            TagOutcome::Updated => "updated",
            TagOutcome::Refreshed => "refreshed",
            TagOutcome::Retagged => "retagged",
            TagOutcome::Removed => "removed",
            TagOutcome::Adopted => "adopted",
            TagOutcome::Catalogued => "catalogued",
            TagOutcome::Damaged => "damaged-tag",
            TagOutcome::NotWritten => "not-written",
        }
    }

    /// What it means for the end of a run.
    pub const fn class(self) -> VerdictClass {
        match self {
            TagOutcome::Judged(verdict) => verdict.class(),
            TagOutcome::Damaged => VerdictClass::Corrupt,
            TagOutcome::NotWritten => VerdictClass::Unchecked,
            _ => VerdictClass::Clean,
        }
    }

    fn slot(self) -> usize {
        match self {
            TagOutcome::Judged(verdict) => OTHERS.len() + verdict as usize,
            other => OTHERS.iter().position(|outcome| *outcome == other).expect("all are listed"),
        }
    }
}

impl std::fmt::Display for TagOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// One file and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct TagFinding<'a> {
    /// What came of it.
    pub outcome: TagOutcome,
    /// The file; `None` for what could not even be looked at: then there is an error.
    pub entry: Option<&'a Entry>,
    /// What was recorded of it before.
    pub record: Option<&'a Record>,
    /// Whether that is in the catalogue, and not in the file's tag.
    pub is_apart: bool,
    /// The digest of what was read, by the algorithm of the record.
    pub computed: Option<&'a Output>,
    /// What failed.
    pub error: Option<&'a FileError>,
    /// It stands for all other files of its file system that would fail alike; they are counted and
    /// reported no more.
    pub stands_for_all: bool,
}

impl<'a> TagFinding<'a> {
    pub(super) fn of(entry: &'a Entry, outcome: TagOutcome) -> TagFinding<'a> {
        TagFinding {
            outcome,
            entry: Some(entry),
            record: None,
            is_apart: false,
            computed: None,
            error: None,
            stands_for_all: false,
        }
    }

    /// The path that was walked to it.
    pub fn path(&self) -> PathBuf {
        match (self.entry, self.error) {
            (Some(entry), _) => entry.path(),
            (None, Some(error)) => error.path().to_path_buf(),
            (None, None) => PathBuf::new(),
        }
    }
}

const SLOTS: usize = OTHERS.len() + Verdict::ALL.len();

/// How many files came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    outcomes: [u64; SLOTS],
    /// Bytes that were read; second reads are not counted.
    pub bytes: u64,
}

impl Counts {
    /// How many came to this.
    pub fn of(&self, outcome: TagOutcome) -> u64 {
        self.outcomes[outcome.slot()]
    }

    /// All outcomes that occurred, in the order of reports.
    pub fn occurred(&self) -> impl Iterator<Item = (TagOutcome, u64)> + '_ {
        TagOutcome::all().map(|outcome| (outcome, self.of(outcome))).filter(|(_, count)| *count > 0)
    }

    /// All files.
    pub fn files(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// The worst that occurred.
    pub fn worst(&self) -> VerdictClass {
        self.occurred().map(|(outcome, _)| outcome.class()).max().unwrap_or(VerdictClass::Clean)
    }
}

/// Counts that several threads add to, in cache lines of their own: what is beside them is only read.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Counters {
    outcomes: [AtomicU64; SLOTS],
    bytes: AtomicU64,
}

impl Counters {
    pub(super) fn add(&self, outcome: TagOutcome) {
        self.outcomes[outcome.slot()].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> Counts {
        Counts {
            outcomes: std::array::from_fn(|slot| self.outcomes[slot].load(Ordering::Relaxed)),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_outcome_has_a_name_and_a_count() {
        let names: HashSet<&str> = TagOutcome::all().map(TagOutcome::name).collect();
        assert_eq!(names.len(), SLOTS);
        let slots: Vec<usize> = TagOutcome::all().map(TagOutcome::slot).collect();
        assert_eq!(slots, Vec::from_iter(0..SLOTS));
        let counters = Counters::default();
        TagOutcome::all().for_each(|outcome| counters.add(outcome));
        counters.add(TagOutcome::Tagged);
        let counts = counters.total();
        assert_eq!((counts.of(TagOutcome::Tagged), counts.files()), (2, SLOTS as u64 + 1));
        assert_eq!(counts.worst(), VerdictClass::Corrupt);
        assert_eq!(Counts::default().worst(), VerdictClass::Clean);
    }
}
