//! Comparing files with their tags.

use std::collections::VecDeque;

use super::files::{Opened, next_entry, open};
use super::reading::{Wanted, read};
use super::session::{DigestSets, Session};
use super::{Counts, Entries, Options, Outcome, Report, now};
use crate::{Entry, Record, Timestamp, Verdict};

/// What `verify` may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerifyOptions {
    /// Write the time of verification into the tags of files that are as recorded, which moves the time
    /// of their inodes.
    pub stamp: bool,
}

/// Reads every tagged file and compares it with its tag.
pub fn verify(entries: Entries, options: &Options, verifying: VerifyOptions, report: Report) -> Counts {
    let session = Session::new(options, report);
    let (plan, sets) = session.plan_by_digest();
    let mut waiting = VecDeque::new();
    let mut wanted = std::iter::from_fn(|| next_wanted(&session, entries, &sets, &mut waiting));
    read(&session, &plan, &mut wanted, &|entry, record, content| {
        let computed = content.digests[0];
        let verdict = session.judge(&content, &record, &computed);
        if verifying.stamp && matches!(verdict, Verdict::Ok | Verdict::Touched) {
            let stamped = Record::new(record.algorithm, computed, &content.after, Some(now()));
            session.store(&entry, &content.file, &content.after, &stamped, Outcome::Refreshed);
        } else {
            session.compared(&entry, Outcome::Judged(verdict), &record, &computed);
        }
    });
    session.counts()
}

/// The next record to compare. A file with several plain tags is read for each.
fn next_wanted(
    session: &Session,
    entries: Entries,
    sets: &DigestSets,
    waiting: &mut VecDeque<(Entry, Timestamp, Record)>,
) -> Option<Wanted<Record>> {
    loop {
        while let Some((entry, modified, record)) = waiting.pop_front() {
            if let Some(set) = session.set_of(&entry, sets, record.algorithm) {
                return Some(Wanted { entry, set, modified, token: record });
            }
        }
        let entry = next_entry(session, entries)?;
        let Some(opened) = open(session, entry, session.family()) else { continue };
        if opened.found.is_empty() {
            session.plain(&opened.entry, Outcome::Judged(Verdict::New));
        }
        let Opened { mut entry, file, stat, found, .. } = opened;
        if found.len() == 1 {
            entry.hold(file);
        }
        for found in found {
            match found {
                Ok(record) => waiting.push_back((entry.split(), stat.modified, record)),
                Err(defect) => session.defective(&entry, defect),
            }
        }
    }
}
