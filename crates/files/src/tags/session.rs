//! [`Session`]: what all files of one command on tags share, such as options, counts and locks.

use std::collections::HashSet;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use verisum_digest::{ALGORITHMS, Algorithm, Digest, Output};

use super::finding::Counters;
use super::locked_write::{Before, Refusal, put};
use super::{Counts, TagFinding, TagOutcome, TagSink, TaggingOptions};
use crate::reread::past_the_cache;
use crate::store::xattr::{Defect, Family, refused};
use crate::{Content, Entry, Evidence, FileError, Operation, Plan, Record, SecondRead, Stat, Verdict, lock};

/// One run.
pub(super) struct Session<'a> {
    pub(super) options: &'a TaggingOptions,
    report: TagSink<'a>,
    counters: Counters,
    /// Devices that take no attributes at all.
    refusing: Mutex<HashSet<u64>>,
    /// Whether there are any: mostly not, and then no file takes the lock.
    any_refuses: AtomicBool,
    /// The last device of which is known whether it does; 0 is none.
    probed: AtomicU64,
    /// Files with several names that were seen.
    linked: Mutex<HashSet<(u64, u64)>>,
    /// Whether files can be opened without moving the time of their last access.
    pub(super) quietly: AtomicBool,
}

impl<'a> Session<'a> {
    pub(super) fn new(options: &'a TaggingOptions, report: TagSink<'a>) -> Session<'a> {
        let (counters, refusing, any_refuses, probed, linked) = Default::default();
        let quietly = AtomicBool::new(true);
        Session { options, report, counters, refusing, any_refuses, probed, linked, quietly }
    }

    /// What came of all files so far.
    pub(super) fn counts(&self) -> Counts {
        self.counters.total()
    }

    pub(super) fn family(&self) -> Family {
        self.options.family
    }

    /// Counts a file that is not read, for whoever watches.
    pub(super) fn passed_over(&self, stat: &Stat) {
        self.options.plan.progress.skip(stat.size);
    }

    pub(super) fn add_bytes(&self, bytes: u64) {
        self.counters.add_bytes(bytes);
    }

    /// Whether a file is met by the first of its names.
    pub(super) fn is_first_name(&self, stat: &Stat) -> bool {
        stat.links < 2 || lock(&self.linked).insert((stat.device, stat.inode))
    }

    /// Counts and reports.
    pub(super) fn tell(&self, finding: &TagFinding) {
        self.counters.add(finding.outcome);
        (self.report)(finding);
    }

    /// Reports an outcome of which there is no more to say.
    pub(super) fn plain(&self, entry: &Entry, outcome: TagOutcome) {
        self.tell(&TagFinding::of(entry, outcome));
    }

    /// Reports the outcome of a comparison.
    pub(super) fn compared(&self, entry: &Entry, outcome: TagOutcome, record: &Record, computed: &Output) {
        let (record, computed) = (Some(record), Some(computed));
        self.tell(&TagFinding { record, computed, ..TagFinding::of(entry, outcome) });
    }

    /// Reports an entry that the walk could not give.
    pub(super) fn unwalkable(&self, error: &FileError) {
        let (outcome, entry, record, computed) = (unread(error), None, None, None);
        self.tell(&TagFinding {
            outcome,
            entry,
            record,
            is_apart: false,
            computed,
            error: Some(error),
            stands_for_all: false,
        });
    }

    /// Reports what cannot be read or hashed.
    pub(super) fn unreadable(&self, entry: &Entry, error: &FileError) {
        self.unread(entry, None, error);
    }

    /// The same for a file that has a record.
    pub(super) fn unread(&self, entry: &Entry, record: Option<&Record>, error: &FileError) {
        self.tell(&TagFinding { error: Some(error), record, ..TagFinding::of(entry, unread(error)) });
    }

    /// Reports a tag that cannot be understood.
    pub(super) fn defective(&self, entry: &Entry, defect: Defect) {
        let error = FileError::Record { path: entry.path(), source: defect };
        match defect {
            Defect::Damaged => {
                self.tell(&TagFinding { error: Some(&error), ..TagFinding::of(entry, TagOutcome::Damaged) });
            }
            Defect::Version(_) | Defect::Algorithm(_) => self.unreadable(entry, &error),
        }
    }

    /// Whether a file is on a file system that is known to take no attributes. Then it is counted, and
    /// need not be read.
    pub(super) fn is_refused(&self, stat: &Stat) -> bool {
        let refused = self.options.apart.is_none()
            && self.any_refuses.load(Ordering::Acquire)
            && lock(&self.refusing).contains(&stat.device);
        if refused {
            self.counters.add(TagOutcome::NotWritten);
        }
        refused
    }

    /// Whether the file system of a file takes attributes as far as is known before one is written, so that
    /// nothing is read in vain. The first file of one that does not is reported, and stands for all others.
    /// With a catalogue it does not matter.
    pub(super) fn may_take_attributes(&self, entry: &Entry, file: &File, stat: &Stat) -> bool {
        if self.options.apart.is_some() || self.probed.load(Ordering::Relaxed) == stat.device {
            return true;
        }
        self.probed.store(stat.device, Ordering::Relaxed);
        match refused(file) {
            Some(errno) => {
                self.not_written(entry, stat, Operation::SetAttribute, errno);
                false
            }
            None => true,
        }
    }

    /// Reports what cannot be written. The first file of a file system that takes no attributes stands
    /// for all others on it.
    pub(super) fn not_written(&self, entry: &Entry, stat: &Stat, operation: Operation, errno: Errno) {
        let stands_for_all = matches!(errno, Errno::ROFS | Errno::OPNOTSUPP);
        if stands_for_all {
            self.any_refuses.store(true, Ordering::Release);
            if !lock(&self.refusing).insert(stat.device) {
                return self.counters.add(TagOutcome::NotWritten);
            }
        }
        let error = FileError::io(&entry.path(), operation, errno);
        let finding = TagFinding::of(entry, TagOutcome::NotWritten);
        self.tell(&TagFinding { error: Some(&error), stands_for_all, ..finding });
    }

    /// Reports what is not written or removed, because the system refuses or another program is at it.
    pub(super) fn refuse(&self, entry: &Entry, stat: &Stat, operation: Operation, refusal: Refusal) {
        match refusal {
            Refusal::System(errno) => self.not_written(entry, stat, operation, errno),
            Refusal::Conflict(source) => {
                let error = FileError::Conflict { path: entry.path(), operation, source };
                self.tell(&TagFinding {
                    error: Some(&error),
                    ..TagFinding::of(entry, TagOutcome::NotWritten)
                });
            }
        }
    }

    /// Stores a record in an open file, in the place of what it had `before`, and reports what came of it.
    pub(super) fn store(
        &self,
        entry: &Entry,
        (file, stat): (&File, &Stat),
        before: Before,
        record: &Record,
        done: TagOutcome,
    ) {
        let is_put = match self.options.dry {
            false => put(self.family(), file, stat, record, before),
            true => refused(file).map_or(Ok(()), |errno| Err(errno.into())),
        };
        match is_put {
            Ok(()) => self.compared(entry, done, record, &record.digest),
            Err(Refusal::System(errno)) if self.keeps_apart(entry, stat, record, errno) => {
                self.compared(entry, TagOutcome::Catalogued, record, &record.digest);
            }
            Err(refusal) => self.refuse(entry, stat, Operation::SetAttribute, refusal),
        }
    }

    /// Records in the catalogue, if there is one, what could not be written into the file.
    pub(super) fn keeps_apart(&self, entry: &Entry, stat: &Stat, record: &Record, errno: Errno) -> bool {
        let apart = self.options.apart.as_ref();
        apart.is_some_and(|apart| self.options.dry || apart.keep(entry, stat, record, errno))
    }

    /// The verdict on what was read of a file. What looks bad is read a second time first.
    pub(super) fn judge(&self, content: &Content, record: &Record, computed: &Output) -> Verdict {
        let mut comparison = record.compare(&content.after, computed, SecondRead::NotMade);
        if comparison.needs_second_read() {
            let digest = Digest::of(record.algorithm, &self.options.policy);
            comparison.second = match digest.map(|digest| past_the_cache(&content.file, &digest)) {
                Ok(Ok(again)) if !again.after.is_same_state(&content.after) => {
                    return Evidence::Unsettled.verdict();
                }
                Ok(Ok(again)) if again.digest == *computed => SecondRead::Same,
                Ok(Ok(_)) => SecondRead::Different,
                Ok(Err(_)) => SecondRead::Failed,
                Err(_) => SecondRead::NotMade,
            };
        }
        Evidence::Compared(comparison).verdict()
    }

    /// How to hash when each file needs one digest, that of its record.
    pub(super) fn plan_by_digest(&self) -> (Plan, DigestSets) {
        let mut sets = Vec::new();
        let of_row = ALGORITHMS.iter().map(|algorithm| {
            sets.push(vec![Digest::of(algorithm, &self.options.policy).ok()?]);
            Some(sets.len() - 1)
        });
        let of_row = of_row.collect();
        (Plan { sets, ..self.options.plan.clone() }, DigestSets { of_row })
    }

    /// The set of a digest. Where it cannot be computed that is reported.
    pub(super) fn set_of(
        &self,
        entry: &Entry,
        sets: &DigestSets,
        algorithm: &'static Algorithm,
    ) -> Option<usize> {
        let row = ALGORITHMS.iter().position(|row| row.id == algorithm.id)?;
        let set = sets.of_row[row];
        if set.is_none()
            && let Err(source) = Digest::of(algorithm, &self.options.policy)
        {
            self.unreadable(entry, &FileError::Digest { path: entry.path(), source });
        }
        set
    }
}

/// Which of a plan's sets is that of a digest alone, for each row of the table of digests.
pub(super) struct DigestSets {
    of_row: Vec<Option<usize>>,
}

fn unread(error: &FileError) -> TagOutcome {
    TagOutcome::Judged(Evidence::Unreadable { storage_failed: error.is_storage_failure() }.verdict())
}
