//! Findings about files, and their counts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use verisum_digest::Output;

use crate::{Class, Entry, FileError, Record, Verdict};

/// What came of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
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
const OTHERS: [Outcome; 12] = [
    Outcome::Tagged,
    Outcome::Updated,
    Outcome::Refreshed,
    Outcome::Retagged,
    Outcome::Removed,
    Outcome::Adopted,
    Outcome::Catalogued,
    Outcome::Current,
    Outcome::NotDue,
    Outcome::OtherDigest,
    Outcome::Damaged,
    Outcome::NotWritten,
];

impl Outcome {
    /// All outcomes.
    pub fn all() -> impl Iterator<Item = Outcome> {
        OTHERS.into_iter().chain(Verdict::ALL.into_iter().map(Outcome::Judged))
    }

    /// The word used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Judged(Verdict::New) => "untagged",
            Outcome::Judged(verdict) => verdict.name(),
            Outcome::Current => "current",
            Outcome::NotDue => "not-due",
            Outcome::OtherDigest => "other-digest",
            Outcome::Tagged => "tagged",
            Outcome::Updated => "updated",
            Outcome::Refreshed => "refreshed",
            Outcome::Retagged => "retagged",
            Outcome::Removed => "removed",
            Outcome::Adopted => "adopted",
            Outcome::Catalogued => "catalogued",
            Outcome::Damaged => "damaged-tag",
            Outcome::NotWritten => "not-written",
        }
    }

    /// What it means for the end of a run.
    pub const fn class(self) -> Class {
        match self {
            Outcome::Judged(verdict) => verdict.class(),
            Outcome::Damaged => Class::Corrupt,
            Outcome::NotWritten => Class::Unchecked,
            _ => Class::Clean,
        }
    }

    fn slot(self) -> usize {
        match self {
            Outcome::Judged(verdict) => OTHERS.len() + verdict as usize,
            other => OTHERS.iter().position(|outcome| *outcome == other).expect("all are listed"),
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// One file and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Finding<'a> {
    /// What came of it.
    pub outcome: Outcome,
    /// The file; `None` for what could not even be looked at: then there is an error.
    pub entry: Option<&'a Entry>,
    /// What was recorded of it before.
    pub record: Option<&'a Record>,
    /// The digest of what was read, by the algorithm of the record.
    pub computed: Option<&'a Output>,
    /// What failed.
    pub error: Option<&'a FileError>,
    /// It stands for all other files of its file system that would fail alike; they are counted and
    /// reported no more.
    pub stands_for_all: bool,
}

impl<'a> Finding<'a> {
    pub(super) fn of(entry: &'a Entry, outcome: Outcome) -> Finding<'a> {
        Finding {
            outcome,
            entry: Some(entry),
            record: None,
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
pub struct Counts {
    outcomes: [u64; SLOTS],
    /// Bytes that were read; second reads are not counted.
    pub bytes: u64,
}

impl Counts {
    /// How many came to this.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome.slot()]
    }

    /// All outcomes that occurred, in the order of reports.
    pub fn occurred(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
        Outcome::all().map(|outcome| (outcome, self.of(outcome))).filter(|(_, count)| *count > 0)
    }

    /// All files.
    pub fn files(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// The worst that occurred.
    pub fn worst(&self) -> Class {
        self.occurred().map(|(outcome, _)| outcome.class()).max().unwrap_or(Class::Clean)
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
    pub(super) fn add(&self, outcome: Outcome) {
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
        let names: HashSet<&str> = Outcome::all().map(Outcome::name).collect();
        assert_eq!(names.len(), SLOTS);
        let slots: Vec<usize> = Outcome::all().map(Outcome::slot).collect();
        assert_eq!(slots, Vec::from_iter(0..SLOTS));
        let counters = Counters::default();
        Outcome::all().for_each(|outcome| counters.add(outcome));
        counters.add(Outcome::Tagged);
        let counts = counters.total();
        assert_eq!((counts.of(Outcome::Tagged), counts.files()), (2, SLOTS as u64 + 1));
        assert_eq!(counts.worst(), Class::Corrupt);
        assert_eq!(Counts::default().worst(), Class::Clean);
    }
}
