//! Adopts the checksums that other tools recorded.

use super::files::{OpenedFile, each, next_entry, open};
use super::locked_write::Before;
use super::reading::{ReadToken, Wanted, read};
use super::session::{DigestSets, Session};
use super::{Counts, Entries, TagOutcome, TagSink, TaggingOptions, now};
use crate::store::xattr::{Family, Stored, foreign};
use crate::{Entry, FileError, Kind, Operation, Record, RecordedTime, Standing, Stat, Verdict};

/// What `adopt` may do.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct AdoptOptions {
    /// Compare each file with what is adopted, and adopt only what is right.
    pub verify: bool,
}

/// Makes our own tags of what other tools wrote into attributes, and leaves theirs.
///
/// Of several the one whose time is that of the file is taken, then that of the longest digest. Adopted is
/// not verified: without [`AdoptOptions::verify`] the tag says that its content was never compared, and it
/// holds the other tool's time, so that a file that was written to since then is not taken for rotten. An
/// own tag is replaced only where it is out of date and the other tool's is not.
pub fn adopt(entries: Entries, options: &TaggingOptions, adopting: AdoptOptions, report: TagSink) -> Counts {
    let session = Session::new(options, report);
    match adopting.verify {
        true => verified(&session, &mut || Some((next_entry(&session, entries)?, None))),
        false => each(&session, entries, &|opened| unverified(&session, &opened, None)),
    }
    session.counts()
}

/// Does the same with what lists of other tools say of files. What of the lists cannot be read or found is
/// counted as unreadable. A name that comes from a list should be looked up with [`Entry::beneath`].
pub fn adopt_listed(
    listed: &mut (dyn Iterator<Item = Result<(Entry, Record), FileError>> + Send),
    options: &TaggingOptions,
    adopting: AdoptOptions,
    report: TagSink,
) -> Counts {
    let session = Session::new(options, report);
    let mut next = || {
        loop {
            match listed.next()? {
                Ok((entry, record)) if entry.kind() == Kind::File => return Some((entry, Some(record))),
                Ok((entry, _)) => session.unwalkable(&FileError::NotAFile { path: entry.path() }),
                Err(error) => session.unwalkable(&error),
            }
        }
    };
    match adopting.verify {
        true => verified(&session, &mut next),
        false => {
            while let Some((entry, record)) = next() {
                if let Some(opened) = open(&session, entry, session.family()) {
                    unverified(&session, &opened, record);
                }
            }
        }
    }
    session.counts()
}

/// Gives a file, with what a list records of it, if it comes from one.
type NextFile<'a> = &'a mut (dyn FnMut() -> Option<(Entry, Option<Record>)> + Send);

fn unverified(session: &Session, opened: &OpenedFile, listed: Option<Record>) {
    if let Some(candidate) = candidate(session, opened, listed) {
        let OpenedFile { entry, file, stat, .. } = opened;
        session.store(entry, (file, stat), candidate.before(), &candidate.best, TagOutcome::Adopted);
    }
}

fn verified(session: &Session, next: NextFile) {
    let (plan, sets) = session.plan_by_digest();
    let mut wanted = std::iter::from_fn(|| next_wanted(session, next, &sets));
    read(session, &plan, &mut wanted, &|entry, candidate: AdoptCandidate, content| {
        let record = candidate.best;
        let computed = content.digests[0];
        match session.judge(&content, &record, &computed) {
            Verdict::Ok | Verdict::Touched => {
                let record = Record::new(record.algorithm, computed, &content.after, Some(now()));
                let file = (&content.file, &content.after);
                session.store(&entry, file, candidate.before(), &record, TagOutcome::Adopted);
            }
            verdict => session.compared(&entry, TagOutcome::Judged(verdict), &record, &computed),
        }
    });
}

/// What may be adopted of a file.
struct AdoptCandidate {
    best: Record,
    /// Our own record, which it would replace.
    own: Option<Record>,
    /// That stands where `best` is to be.
    stood: bool,
}

impl ReadToken for AdoptCandidate {}

impl AdoptCandidate {
    fn before(&self) -> Before<'_> {
        Before { judged: self.own.as_slice(), stood: self.stood }
    }
}

/// What is to be adopted of a file; why not is reported.
fn candidate(session: &Session, opened: &OpenedFile, listed: Option<Record>) -> Option<AdoptCandidate> {
    let OpenedFile { entry, file, stat, found, .. } = opened;
    let own = match found.first() {
        Some(Err(defect)) => {
            session.defective(entry, *defect);
            return None;
        }
        Some(Ok(record)) => Some(*record),
        None => None,
    };
    if own.is_some_and(|own| own.standing(stat) == Standing::Current) {
        session.plain(entry, TagOutcome::Current);
        return None;
    }
    let others = match listed {
        Some(record) => vec![Ok(record)],
        None => match foreign(file, stat) {
            Ok(others) => others.into_iter().map(|other| other.record).collect(),
            Err(errno) => {
                session.unreadable(entry, &FileError::io(&entry.path(), Operation::GetAttribute, errno));
                return None;
            }
        },
    };
    let Some(best) = best(&others, stat) else {
        match (own, others.first()) {
            (Some(_), _) => session.plain(entry, TagOutcome::Current),
            (None, Some(Err(defect))) => session.defective(entry, *defect),
            (None, _) => session.plain(entry, TagOutcome::Judged(Verdict::New)),
        }
        return None;
    };
    if own.is_some() && best.standing(stat) != Standing::Current {
        session.plain(entry, TagOutcome::Current);
        return None;
    }
    let has_place = |own: Record| session.family() != Family::Plain || own.algorithm.id == best.algorithm.id;
    Some(AdoptCandidate { best, own, stood: !opened.is_apart && own.is_some_and(has_place) })
}

/// The record that says most about the file as it is, in the terms of our own.
fn best(others: &[Stored], stat: &Stat) -> Option<Record> {
    let rank = |record: &Record| match record.standing(stat) {
        Standing::Current => 3,
        Standing::Unknown => 2,
        Standing::Resized => 1,
        Standing::Outdated => 0,
    };
    let records = others.iter().filter_map(|other| other.ok());
    let best = records.max_by_key(|record| (rank(record), record.algorithm.bits))?;
    Some(match best.standing(stat) {
        // As exact as the file system has it, and with the length that belongs to that time.
        Standing::Current => Record {
            modified: Some(RecordedTime::exact(stat.modified)),
            size: Some(stat.size),
            verified: None,
            ..best
        },
        _ => Record { verified: None, ..best },
    })
}

/// The next file to read, with what is to be adopted of it.
fn next_wanted(session: &Session, next: NextFile, sets: &DigestSets) -> Option<Wanted<AdoptCandidate>> {
    loop {
        let (entry, listed) = next()?;
        let Some(opened) = open(session, entry, session.family()) else { continue };
        let Some(candidate) = candidate(session, &opened, listed) else { continue };
        let (entry, file, stat) = (&opened.entry, &opened.file, &opened.stat);
        if session.is_refused(stat) || !session.may_take_attributes(entry, file, stat) {
            session.passed_over(stat);
            continue;
        }
        let Some(set) = session.set_of(&opened.entry, sets, candidate.best.algorithm) else { continue };
        let OpenedFile { mut entry, file, stat, .. } = opened;
        entry.hold(file, stat);
        return Some(Wanted { entry, set, modified: stat.modified, token: candidate });
    }
}
