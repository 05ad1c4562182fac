//! Opens the files of a walk and reads their tags.

use std::fs::File;
use std::sync::Mutex;
use std::thread;

use rustix::io::Errno;

use super::session::Session;
use super::{Entries, RecordStore, TagOutcome};
use crate::engine::Budget;
use crate::store::xattr::{Family, Stored};
use crate::{Entry, FileError, Kind, Operation, Record, Standing, Stat, Verdict, lock};

/// The most entries that a thread takes at once. Each may keep a directory open.
const TAKEN: usize = 32;

/// An open file and what is recorded in it.
pub(super) struct OpenedFile {
    pub(super) entry: Entry,
    pub(super) file: File,
    pub(super) stat: Stat,
    /// What its tags of the family that was asked for say.
    pub(super) found: Vec<Stored>,
    /// It says so in the catalogue, and not in its attributes.
    pub(super) is_apart: bool,
}

/// The next entry that is a regular file as far as its directory knows. What cannot be walked is reported.
pub(super) fn next_entry(session: &Session, entries: Entries) -> Option<Entry> {
    while !session.options.plan.stop.is_due() {
        match entries.next()? {
            Ok(entry) if entry.kind() == Kind::File => return Some(entry),
            Ok(_) => {}
            Err(error) => session.unwalkable(&error),
        }
    }
    None
}

/// Opens a file, if it is one that was not met by another name, and reads its tags of a family. What
/// fails is reported.
pub(super) fn open(session: &Session, entry: Entry, family: Family) -> Option<OpenedFile> {
    let failed = |operation, errno| {
        session.unreadable(&entry, &FileError::io(&entry.path(), operation, errno));
    };
    let file = match entry.open_quietly(&session.quietly) {
        Ok(file) => File::from(file),
        // Gone since its directory was listed.
        Err(Errno::NOENT) => {
            session.plain(&entry, TagOutcome::Judged(Verdict::Missing));
            return None;
        }
        Err(errno) => {
            failed(Operation::Open, errno);
            return None;
        }
    };
    let stat = match Stat::of(&file) {
        Ok(stat) => stat,
        Err(errno) => {
            failed(Operation::Stat, errno);
            return None;
        }
    };
    let apart = session.options.apart.as_deref();
    if stat.kind != Kind::File || !session.is_first_name(&stat) || apart.is_some_and(|a| a.is_own(&stat)) {
        return None;
    }
    let mut found = Vec::new();
    match family.read(&file, &mut found) {
        // A file system without attributes has no tags; writing them fails by itself.
        Ok(()) | Err(Errno::OPNOTSUPP) => {}
        Err(errno) => {
            failed(Operation::GetAttribute, errno);
            return None;
        }
    }
    let apart = apart.and_then(|apart| newer(apart, &entry, &stat, &found, family));
    let is_apart = apart.is_some();
    let found = apart.map_or(found, |record| vec![Ok(record)]);
    Some(OpenedFile { entry, file, stat, found, is_apart })
}

/// What the catalogue says of a file that has no tag, or that was written to since it got its tag and is as
/// the catalogue says: then its tag could not be written again.
fn newer(
    apart: &dyn RecordStore,
    entry: &Entry,
    stat: &Stat,
    found: &[Stored],
    family: Family,
) -> Option<Record> {
    let is_outdated = |tag: &Stored| tag.as_ref().is_ok_and(|tag| tag.standing(stat) == Standing::Outdated);
    if !found.iter().all(is_outdated) {
        return None;
    }
    let record = apart.find(entry).filter(|record| family.holds(record.algorithm))?;
    (found.is_empty() || record.standing(stat) == Standing::Current).then_some(record)
}

/// Does something with every file, on as many threads as the plan has.
pub(super) fn each(session: &Session, entries: Entries, work: &(dyn Fn(OpenedFile) + Sync)) {
    let family = session.family();
    let entries = Mutex::new(entries);
    let budget = Budget::of_process();
    let threads = budget.threads(session.options.plan.threads);
    let most = budget.files_at_once(threads).min(TAKEN);
    let worker = || {
        let mut taken = Vec::with_capacity(most);
        loop {
            {
                let mut entries = lock(&entries);
                taken.extend(std::iter::from_fn(|| next_entry(session, &mut **entries)).take(most));
            }
            if taken.is_empty() {
                break;
            }
            taken.drain(..).filter_map(|entry| open(session, entry, family)).for_each(work);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
}
