//! Comparing files with their tags.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Mutex;

use super::files::{next_entry, open};
use super::session::{DigestSets, Session, lock};
use super::tag::settled;
use super::{Counts, Entries, Options, Outcome, Report, now};
use crate::{Entry, Hashed, Job, Record, Verdict, hash};

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
    let again = Mutex::new(Vec::new());
    let mut waiting = VecDeque::new();
    let mut jobs = std::iter::from_fn(|| next_job(&session, entries, &sets, &mut waiting));
    hash(&plan, &mut jobs, &|hashed| done(&session, verifying, hashed, Some(&again)));
    let mut again = std::mem::take(&mut *lock(&again)).into_iter().inspect(settled);
    hash(&plan, &mut again, &|hashed| done(&session, verifying, hashed, None));
    session.counts()
}

/// A file's set of digests and what it is compared with.
type Verifying = (usize, Record);

/// The next record to compare. A file with several plain tags is read for each.
fn next_job(
    session: &Session,
    entries: Entries,
    sets: &DigestSets,
    waiting: &mut VecDeque<(Entry, Record)>,
) -> Option<Job<Verifying>> {
    loop {
        while let Some((entry, record)) = waiting.pop_front() {
            if let Some(set) = session.set_of(&entry, sets, record.algorithm) {
                return Some(Job { entry, set, token: (set, record) });
            }
        }
        let entry = next_entry(session, entries)?;
        let Some(opened) = open(session, entry, session.family()) else { continue };
        if opened.found.is_empty() {
            session.plain(&opened.entry, Outcome::Judged(Verdict::New));
        }
        for found in opened.found {
            match found {
                Ok(record) => waiting.push_back((opened.entry.clone(), record)),
                Err(defect) => session.defective(&opened.entry, defect),
            }
        }
    }
}

fn done(
    session: &Session,
    verifying: VerifyOptions,
    hashed: Hashed<Verifying>,
    again: Option<&Mutex<Vec<Job<Verifying>>>>,
) -> ControlFlow<()> {
    let Hashed { entry, token: (set, record), result } = hashed;
    match result {
        Err(error) => session.unreadable(&entry, &error),
        Ok(content) if !content.before.is_same_state(&content.after) => match again {
            Some(again) => lock(again).push(Job { entry, set, token: (set, record) }),
            None => session.plain(&entry, Outcome::Judged(Verdict::Busy)),
        },
        Ok(content) => {
            session.add_bytes(content.length);
            let computed = content.digests[0];
            let verdict = session.judge(&content, &record, &computed);
            if verifying.stamp && matches!(verdict, Verdict::Ok | Verdict::Touched) {
                let stamped = Record::new(record.algorithm, computed, &content.after, Some(now()));
                session.store(&entry, &content.file, &content.after, &stamped, Outcome::Refreshed);
            } else {
                session.compared(&entry, Outcome::Judged(verdict), &record, &computed);
            }
        }
    }
    ControlFlow::Continue(())
}
