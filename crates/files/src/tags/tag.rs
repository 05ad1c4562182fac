//! Attaches tags.

use verisum_digest::Algorithm;

use super::files::open;
use super::locked_write::Before;
use super::reading::{ReadToken, Wanted, read_chosen};
use super::session::{DigestSets, Session};
use super::{Counts, Entries, TagOutcome, TagSink, TaggingOptions, now};
use crate::store::xattr::{Family, refused};
use crate::{Content, Entry, Record, Standing, Verdict};

/// What `tag` may do.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TagOptions {
    /// The digest of new tags. A file that is tagged keeps its digest.
    pub algorithm: &'static Algorithm,
    /// Leave tagged files alone, also those that were written to.
    pub new_only: bool,
}

impl Default for TagOptions {
    /// SHA-256, and tags of files that were written to are replaced.
    fn default() -> TagOptions {
        TagOptions { algorithm: Algorithm::find("sha256").expect("it is in the table"), new_only: false }
    }
}

/// Tags every file that has no tag, and those that were written to since they were tagged.
///
/// A file whose tag is up to date by length and time is not read. A tag is replaced only if the time of
/// modification says that the file was written to, or if the content is still the recorded one: whatever
/// may be the work of a failing disk is reported and keeps its tag. Files that change while they are read
/// get none.
pub fn tag(entries: Entries, options: &TaggingOptions, tagging: &TagOptions, report: TagSink) -> Counts {
    let session = Session::new(options, report);
    let (plan, sets) = session.plan_by_digest();
    let choose = |entry| choose(&session, entry, &sets, tagging);
    read_chosen(&session, &plan, entries, &choose, &|entry, record, content| match record {
        None => {
            let record = Record::new(tagging.algorithm, content.digests[0], &content.after, Some(now()));
            let file = (&content.file, &content.after);
            session.store(&entry, file, Before::NOTHING, &record, TagOutcome::Tagged);
        }
        Some(tagged) => renew(&session, &entry, &content, &tagged),
    });
    session.counts()
}

/// The record that a file has.
struct TaggedRecord {
    record: Record,
    /// It is in the catalogue.
    is_apart: bool,
}

impl ReadToken for Option<Box<TaggedRecord>> {}

/// What to read of a file, with the record that it has; none if it need not be read.
fn choose(
    session: &Session,
    entry: Entry,
    sets: &DigestSets,
    tagging: &TagOptions,
) -> Option<Wanted<Option<Box<TaggedRecord>>>> {
    let opened = open(session, entry, session.family())?;
    let (mut entry, stat) = (opened.entry, opened.stat);
    // Of plain tags a file may have several; each stands for itself.
    let mut found = opened.found.into_iter().filter(|found| match found {
        Ok(record) => session.family() != Family::Plain || record.algorithm.id == tagging.algorithm.id,
        Err(_) => true,
    });
    let record = match found.next().transpose() {
        Ok(record) => record,
        Err(defect) => {
            session.defective(&entry, defect);
            return None;
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
            // What the catalogue has goes into the file once that takes it.
            let is_moved = opened.is_apart
                && is_current
                && match session.options.dry {
                    true => refused(&opened.file).is_none(),
                    false => session.family().write(&opened.file, record).is_ok(),
                };
            session.passed_over(&stat);
            session.plain(&entry, if is_moved { TagOutcome::Tagged } else { TagOutcome::Current });
            return None;
        }
    }
    if session.is_refused(&stat) || !session.may_take_attributes(&entry, &opened.file, &stat) {
        session.passed_over(&stat);
        return None;
    }
    let algorithm = record.map_or(tagging.algorithm, |record| record.algorithm);
    let set = session.set_of(&entry, sets, algorithm)?;
    entry.hold(opened.file, stat);
    let token = record.map(|record| Box::new(TaggedRecord { record, is_apart: opened.is_apart }));
    Some(Wanted { entry, set, modified: stat.modified, token })
}

/// Brings a tag up to date, if that is what the file's state asks for.
fn renew(session: &Session, entry: &Entry, content: &Content, tagged: &TaggedRecord) {
    let record = &tagged.record;
    let computed = content.digests[0];
    let outcome = match session.judge(content, record, &computed) {
        Verdict::Ok | Verdict::Touched => TagOutcome::Refreshed,
        Verdict::Modified => TagOutcome::Updated,
        verdict => return session.compared(entry, TagOutcome::Judged(verdict), record, &computed),
    };
    let renewed = Record::new(record.algorithm, computed, &content.after, Some(now()));
    let before = Before { judged: &[*record], stood: !tagged.is_apart };
    session.store(entry, (&content.file, &content.after), before, &renewed, outcome);
}
