//! Attaching tags.

use std::ops::ControlFlow;
use std::sync::Mutex;

use verisum_digest::{Algorithm, Output};

use super::files::{next_entry, open, settle};
use super::session::{DigestSets, Session, lock};
use super::{Counts, Entries, Options, Outcome, Report, now};
use crate::store::xattr::Family;
use crate::{Content, Entry, Hashed, Job, Record, Standing, Verdict, hash};

/// What `tag` may do.
#[derive(Clone, Copy, Debug)]
pub struct TagOptions {
    /// The digest of new tags. A file that is tagged keeps its digest.
    pub algorithm: &'static Algorithm,
    /// Leave tagged files alone, also those that were written to.
    pub new_only: bool,
}

/// Tags every file that has no tag, and those that were written to since they were tagged.
///
/// A file whose tag is up to date by length and time is not read. A tag is replaced only if the time of
/// modification says that the file was written to, or if the content is still the recorded one: whatever
/// may be the work of a failing disk is reported and keeps its tag. Files that change while they are read
/// get none.
pub fn tag(entries: Entries, options: &Options, tagging: &TagOptions, report: Report) -> Counts {
    let session = Session::new(options, report);
    let (plan, sets) = session.plan_by_digest();
    let again = Mutex::new(Vec::new());
    let mut jobs = std::iter::from_fn(|| next_job(&session, entries, &sets, tagging));
    hash(&plan, &mut jobs, &|hashed| done(&session, tagging, hashed, Some(&again)));
    let mut again = std::mem::take(&mut *lock(&again)).into_iter().inspect(settled);
    hash(&plan, &mut again, &|hashed| done(&session, tagging, hashed, None));
    session.counts()
}

/// A file's set of digests and the record that it has.
type Tagging = (usize, Option<Record>);

fn next_job(
    session: &Session,
    entries: Entries,
    sets: &DigestSets,
    tagging: &TagOptions,
) -> Option<Job<Tagging>> {
    loop {
        let entry = next_entry(session, entries)?;
        let Some(opened) = open(session, entry, session.family()) else { continue };
        let (entry, stat) = (opened.entry, opened.stat);
        // Of plain tags a file may have several; each stands for itself.
        let mut found = opened.found.into_iter().filter(|found| match found {
            Ok(record) => session.family() != Family::Plain || record.algorithm.id == tagging.algorithm.id,
            Err(_) => true,
        });
        let record = match found.next().transpose() {
            Ok(record) => record,
            Err(defect) => {
                session.defective(&entry, defect);
                continue;
            }
        };
        if let Some(record) = &record {
            let is_current = match record.standing(&stat) {
                Standing::Current => true,
                Standing::Outdated | Standing::Resized => false,
                // A plain tag never has a time, so there is nothing to add to it.
                Standing::Unknown => session.family() == Family::Plain,
            };
            if is_current || tagging.new_only {
                session.plain(&entry, Outcome::Current);
                continue;
            }
        }
        if session.is_refused(&stat) {
            continue;
        }
        let algorithm = record.map_or(tagging.algorithm, |record| record.algorithm);
        let Some(set) = session.set_of(&entry, sets, algorithm) else { continue };
        settle(stat.modified);
        return Some(Job { entry, set, token: (set, record) });
    }
}

fn done(
    session: &Session,
    tagging: &TagOptions,
    hashed: Hashed<Tagging>,
    again: Option<&Mutex<Vec<Job<Tagging>>>>,
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
            match record {
                None => write(session, &entry, &content, tagging.algorithm, computed, Outcome::Tagged),
                Some(record) => compare(session, &entry, &content, &record, computed),
            }
        }
    }
    ControlFlow::Continue(())
}

fn compare(session: &Session, entry: &Entry, content: &Content, record: &Record, computed: Output) {
    let outcome = match session.judge(content, record, &computed) {
        Verdict::Ok | Verdict::Touched => Outcome::Refreshed,
        Verdict::Modified => Outcome::Updated,
        verdict => return session.compared(entry, Outcome::Judged(verdict), record, &computed),
    };
    write(session, entry, content, record.algorithm, computed, outcome);
}

fn write(
    session: &Session,
    entry: &Entry,
    content: &Content,
    algorithm: &'static Algorithm,
    digest: Output,
    outcome: Outcome,
) {
    let record = Record::new(algorithm, digest, &content.after, Some(now()));
    session.store(entry, &content.file, &content.after, &record, outcome);
}

/// Waits as [`settle`] does before a file is read once more.
pub(super) fn settled<T>(job: &Job<T>) {
    if let Ok(stat) = job.entry.stat() {
        settle(stat.modified);
    }
}
