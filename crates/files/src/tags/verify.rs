//! Compares files with their tags.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use verisum_digest::Output;

use super::files::{OpenedFile, next_entry, open};
use super::locked_write::Before;
use super::reading::{ReadToken, Wanted, read_while};
use super::session::{DigestSets, Session};
use super::{Counts, Entries, TagFinding, TagOutcome, TagSink, TaggingOptions, now};
use crate::{Content, Entry, Plan, Record, Timestamp, Verdict};

/// What `verify` may do.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Write the time of verification into the tags of files that are as recorded, which moves the time
    /// of their inodes.
    pub stamp: bool,
    /// Read only files with a tag that was last verified longer ago than this.
    pub max_age: Option<Duration>,
    /// The share of these that is read, by chance: above 0, and up to 1, which is all of them.
    pub sample: f64,
    /// When no more files are begun.
    pub begin_until: Option<Instant>,
}

impl Default for VerifyOptions {
    /// Every file is read, and nothing is written.
    fn default() -> VerifyOptions {
        VerifyOptions { stamp: false, max_age: None, sample: 1.0, begin_until: None }
    }
}

impl VerifyOptions {
    /// Whether there is no time for another file.
    pub fn is_over(&self) -> bool {
        self.begin_until.is_some_and(|end| Instant::now() >= end)
    }

    /// Whether a file with these tags is to be read.
    fn is_due(&self, records: &[(usize, Record)]) -> bool {
        let now = now();
        let oldest = self.max_age.map(|age| now.seconds.saturating_sub_unsigned(age.as_secs()));
        let is_young = |verified: Timestamp| oldest.is_some_and(|oldest| verified.seconds >= oldest);
        let is_old = |record: &Record| !record.verified_by(now).is_some_and(is_young);
        records.iter().any(|(_, record)| is_old(record))
            && (self.sample >= 1.0 || fastrand::f64() < self.sample)
    }
}

/// The most sets of digests that files of several tags have. The tags of other such files are read for one
/// by one.
const MOST_SETS: usize = 64;

/// Reads every tagged file once, whatever number of tags it has, and compares it with them.
pub fn verify(
    entries: Entries,
    options: &TaggingOptions,
    verifying: VerifyOptions,
    report: TagSink,
) -> Counts {
    let session = Session::new(options, report);
    let (plan, sets) = session.plan_by_digest();
    let plan = if verifying.begin_until.is_some() { plan.for_some_time() } else { plan };
    let mut run = VerifyRun {
        session: &session,
        verifying,
        sets,
        several: Vec::new(),
        plan,
        next: VecDeque::new(),
        new_set: false,
    };
    loop {
        let plan = run.plan.clone();
        run.new_set = false;
        let mut wanted = std::iter::from_fn(|| run.next_wanted(entries));
        let goes_on = || !verifying.is_over();
        read_while(&goes_on, &session, &plan, &mut wanted, &|entry, tagged: TaggedRecords, content| {
            for (record, computed) in tagged.records.iter().zip(&content.digests) {
                compare(&session, verifying, &entry, (record, tagged.is_apart), computed, &content);
            }
        });
        // The engine learns of a new set by beginning anew.
        if !run.new_set {
            break;
        }
    }
    session.counts()
}

fn compare(
    session: &Session,
    verifying: VerifyOptions,
    entry: &Entry,
    (record, is_apart): (&Record, bool),
    computed: &Output,
    content: &Content,
) {
    let verdict = session.judge(content, record, computed);
    if verifying.stamp && matches!(verdict, Verdict::Ok | Verdict::Touched) {
        let stamped = Record::new(record.algorithm, *computed, &content.after, Some(now()));
        let file = (&content.file, &content.after);
        let before = Before { judged: &[*record], stood: !is_apart };
        session.store(entry, file, before, &stamped, TagOutcome::Refreshed);
    } else {
        let (record, computed) = (Some(record), Some(computed));
        let finding = TagFinding::of(entry, TagOutcome::Judged(verdict));
        session.tell(&TagFinding { record, is_apart, computed, ..finding });
    }
}

/// The records of a file, in the order of its set of digests.
struct TaggedRecords {
    records: Vec<Record>,
    /// They are in the catalogue.
    is_apart: bool,
}

struct VerifyRun<'a> {
    session: &'a Session<'a>,
    verifying: VerifyOptions,
    /// The sets of single digests.
    sets: DigestSets,
    /// The digests of the sets that follow them.
    several: Vec<Vec<&'static str>>,
    plan: Plan,
    /// What is to be read next.
    next: VecDeque<Wanted<TaggedRecords>>,
    /// Whether the plan has a set that the engine does not know yet.
    new_set: bool,
}

impl ReadToken for TaggedRecords {
    fn record(&self) -> Option<&Record> {
        self.records.first()
    }
}

impl VerifyRun<'_> {
    /// The next file to read, with its records.
    fn next_wanted(&mut self, entries: Entries) -> Option<Wanted<TaggedRecords>> {
        loop {
            if self.new_set || self.verifying.is_over() {
                return None;
            }
            if let Some(wanted) = self.next.pop_front() {
                return Some(wanted);
            }
            let entry = next_entry(self.session, entries)?;
            let Some(opened) = open(self.session, entry, self.session.family()) else { continue };
            if opened.found.is_empty() {
                self.session.plain(&opened.entry, TagOutcome::Judged(Verdict::New));
                self.session.passed_over(&opened.stat);
            }
            let OpenedFile { mut entry, file, stat, found, is_apart } = opened;
            let mut records = Vec::with_capacity(found.len());
            for found in found {
                match found {
                    Ok(record) => {
                        if let Some(set) = self.session.set_of(&entry, &self.sets, record.algorithm) {
                            records.push((set, record));
                        }
                    }
                    Err(defect) => self.session.defective(&entry, defect),
                }
            }
            if !records.is_empty() && !self.verifying.is_due(&records) {
                self.session.plain(&entry, TagOutcome::NotDue);
                self.session.passed_over(&stat);
                continue;
            }
            records.sort_by_key(|(set, _)| *set);
            let modified = stat.modified;
            let together = match &records[..] {
                [] => continue,
                [(set, _)] => Some(*set),
                _ => self.set_of_several(&records),
            };
            match together {
                Some(set) => {
                    entry.hold(file, stat);
                    let records = records.into_iter().map(|(_, record)| record).collect();
                    let token = TaggedRecords { records, is_apart };
                    self.next.push_back(Wanted { entry, set, modified, token });
                }
                None => self.next.extend(records.into_iter().map(|(set, record)| Wanted {
                    entry: entry.split(),
                    set,
                    modified,
                    token: TaggedRecords { records: vec![record], is_apart },
                })),
            }
        }
    }

    /// The set of the digests of several records, made if there is none; none if there are too many sets.
    fn set_of_several(&mut self, records: &[(usize, Record)]) -> Option<usize> {
        let wanted: Vec<&'static str> = records.iter().map(|(_, record)| record.algorithm.id).collect();
        let first = self.plan.sets.len() - self.several.len();
        if let Some(place) = self.several.iter().position(|set| *set == wanted) {
            return Some(first + place);
        }
        if self.several.len() >= MOST_SETS {
            return None;
        }
        let digests = records.iter().map(|(set, _)| self.plan.sets[*set][0].clone()).collect();
        self.plan.sets.push(digests);
        self.several.push(wanted);
        self.new_set = true;
        Some(self.plan.sets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use verisum_digest::Algorithm;

    use super::*;

    #[test]
    fn a_verification_in_the_future_does_not_count() {
        const DAY: i64 = 86_400;
        let algorithm = Algorithm::find("md5").unwrap();
        let is_due = |verified: Option<Timestamp>| {
            let verifying =
                VerifyOptions { max_age: Some(Duration::from_secs(9 * 86_400)), ..VerifyOptions::default() };
            let (size, modified, digest) = (None, None, Output::zeroed(16));
            verifying.is_due(&[(0, Record { algorithm, digest, size, modified, verified })])
        };
        let at = |days: i64| is_due(Some(Timestamp::of_seconds(now().seconds + days * DAY)));
        assert_eq!([at(-10), at(-8), at(0), at(2), is_due(None)], [true, false, false, true, true]);
    }
}
