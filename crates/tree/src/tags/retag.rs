//! Replacing tags of one digest by tags of another.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Mutex;

use rustix::io::Errno;
use verisum_digest::{Algorithm, Digest, Output};

use super::files::{next_entry, open};
use super::reading::{Wanted, read};
use super::session::{DigestSets, Session, lock};
use super::{Counts, Entries, Options, Outcome, Report, now};
use crate::store::xattr::{Family, Stored};
use crate::{Content, Entry, Error, Operation, Record, Standing, Stat, Verdict};

/// How many old tags wait for one `syncfs`, which may write much more than our tags.
const BATCH: usize = 4096;

/// In how many directories their files may be. Each is held open.
const BATCH_DIRECTORIES: usize = 128;

/// A place for a tag: its form and its digest.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The form.
    pub family: Family,
    /// The digest.
    pub algorithm: &'static Algorithm,
}

impl Slot {
    /// Whether writing to `other` replaces what is here, in one step of the file system.
    fn is_replaced_by(&self, other: &Slot) -> bool {
        self.family == other.family && self.family != Family::Plain
    }

    /// Whether what is written to `other` may replace a tag of a third digest.
    fn replaces_any(&self, other: &Slot) -> bool {
        self.family != other.family && other.family != Family::Plain
    }

    fn is(&self, found: &Stored) -> bool {
        found.as_ref().is_ok_and(|record| record.algorithm.id == self.algorithm.id)
    }
}

/// Verifies the tags of `from` and gives the files whose content is as recorded tags of `to` instead; both
/// digests are computed in one read.
///
/// Where both are in one attribute it is replaced as a whole. Else the old tag is removed once the new
/// one is on the storage. A run may end at any moment and be taken up by another: a file that has both
/// tags is read again, for the new one may be somebody else's, and the old one is then the older evidence.
/// What is not as recorded keeps its old tag and gets no new one. What stands in the new place already is
/// compared in the same read: if nobody has written to the file since, and the content is not what it says,
/// or if it cannot be understood, it is reported and kept as well.
///
/// # Errors
/// If one of the digests cannot be computed here.
pub fn retag(
    entries: Entries,
    options: &Options,
    from: Slot,
    to: Slot,
    report: Report,
) -> Result<Counts, verisum_digest::Error> {
    let session = Session::new(options, report);
    let digests = |slots: &[Slot]| -> Result<Vec<Digest>, verisum_digest::Error> {
        slots.iter().map(|slot| Digest::of(slot.algorithm, &options.policy)).collect()
    };
    let pair = digests(&[from, to])?;
    let (mut plan, sets) = session.plan_by_digest();
    plan.sets = match from.replaces_any(&to) {
        true => plan.sets.into_iter().map(|third| [&*pair, &*third].concat()).collect(),
        false => Vec::new(),
    };
    let set = plan.sets.len();
    plan.sets.push(pair);
    let run = Run { session: &session, from, to, set, sets, old: Mutex::default() };
    let mut wanted = std::iter::from_fn(|| run.next_wanted(entries));
    read(&session, &plan, &mut wanted, &|entry, recorded, content| run.replace(entry, content, recorded));
    run.remove(std::mem::take(&mut *lock(&run.old)));
    Ok(session.counts())
}

struct Run<'a> {
    session: &'a Session<'a>,
    from: Slot,
    to: Slot,
    /// The set of the two digests.
    set: usize,
    /// The sets of the two digests and a third.
    sets: DigestSets,
    old: Mutex<Old>,
}

/// What is recorded of a file in the old place, and in the new one.
struct Both {
    old: Record,
    /// Of any digest: it would be replaced. Plain tags of one digest may be several, in several spellings.
    new: Vec<Record>,
    /// The old one is in the catalogue.
    is_apart: bool,
}

/// Files whose old tags are to go once the new ones are durable.
#[derive(Default)]
struct Old {
    files: Vec<(Entry, Stat)>,
    directories: HashSet<PathBuf>,
    /// One open file of each file system.
    devices: HashMap<u64, File>,
}

impl Run<'_> {
    fn next_wanted(&self, entries: Entries) -> Option<Wanted<Both>> {
        loop {
            let entry = next_entry(self.session, entries)?;
            let Some(mut opened) = open(self.session, entry, self.from.family) else { continue };
            let mut new = Vec::new();
            if !self.from.is_replaced_by(&self.to)
                && let Err(errno) = self.to.family.read_place(&opened.file, self.to.algorithm, &mut new)
            {
                let error = Error::io(&opened.entry.path(), Operation::GetAttribute, errno);
                self.session.unreadable(&opened.entry, &error);
                continue;
            }
            let mut entry = opened.entry;
            let Some(Ok(old)) = opened.found.iter().find(|found| self.from.is(found)).copied() else {
                opened.found.append(&mut new);
                let is_done = opened.found.iter().any(|found| self.to.is(found));
                match opened.found.iter().find_map(|found| found.as_ref().err()) {
                    Some(defect) if !is_done => self.session.defective(&entry, *defect),
                    _ if is_done => self.session.plain(&entry, Outcome::Current),
                    _ if !opened.found.is_empty() => self.session.plain(&entry, Outcome::OtherDigest),
                    _ => self.session.plain(&entry, Outcome::Judged(Verdict::New)),
                }
                self.session.passed_over(&opened.stat);
                continue;
            };
            let new = match new.into_iter().collect::<Result<Vec<Record>, _>>() {
                Ok(new) => new,
                Err(defect) => {
                    self.session.defective(&entry, defect);
                    self.session.passed_over(&opened.stat);
                    continue;
                }
            };
            let Some(set) = self.set_for(&entry, &new) else { continue };
            let (file, stat) = (&opened.file, &opened.stat);
            if self.session.is_refused(stat) || !self.session.may_take_attributes(&entry, file, stat) {
                self.session.passed_over(stat);
                continue;
            }
            entry.hold(opened.file, opened.stat);
            let (modified, token) = (opened.stat.modified, Both { old, new, is_apart: opened.is_apart });
            return Some(Wanted { entry, set, modified, token });
        }
    }

    /// The digests to compute where this stands in the new place; why one cannot be is reported.
    fn set_for(&self, entry: &Entry, new: &[Record]) -> Option<usize> {
        let pair = [self.from.algorithm.id, self.to.algorithm.id];
        match new.iter().find(|record| !pair.contains(&record.algorithm.id)) {
            Some(third) => self.session.set_of(entry, &self.sets, third.algorithm),
            None => Some(self.set),
        }
    }

    fn replace(&self, entry: Entry, content: Content, recorded: Both) {
        let (old_digest, new_digest) = (content.digests[0], content.digests[1]);
        let verdict = self.session.judge(&content, &recorded.old, &old_digest);
        if !matches!(verdict, Verdict::Ok | Verdict::Touched) {
            return self.session.compared(&entry, Outcome::Judged(verdict), &recorded.old, &old_digest);
        }
        for new in &recorded.new {
            let digest = match new.algorithm.id {
                id if id == self.to.algorithm.id => new_digest,
                id if id == self.from.algorithm.id => old_digest,
                _ => content.digests[2],
            };
            // What was written to since is replaced, as by `tag`.
            let verdict = self.session.judge(&content, new, &digest);
            if !matches!(verdict, Verdict::Ok | Verdict::Touched | Verdict::Modified) {
                return self.session.compared(&entry, Outcome::Judged(verdict), new, &digest);
            }
        }
        let stat = content.after;
        if !recorded.new.iter().any(|new| self.is_as_good(new, &stat, &new_digest)) {
            let record = Record::new(self.to.algorithm, new_digest, &stat, Some(now()));
            if let Err(errno) = self.to.family.write(&content.file, &record) {
                if recorded.is_apart && self.session.keeps_apart(&entry, &stat, &record, errno) {
                    return self.session.plain(&entry, Outcome::Retagged);
                }
                return self.session.not_written(&entry, &stat, Operation::SetAttribute, errno);
            }
            // Else what the catalogue has would be taken for the old tag, for ever.
            let may_be_found_again = recorded.is_apart || !self.from.is_replaced_by(&self.to);
            if let (true, Some(apart)) = (may_be_found_again, &self.session.options.apart) {
                apart.follow(&entry, &stat, &recorded.old, &record);
            }
        }
        match self.from.is_replaced_by(&self.to) {
            true => self.session.plain(&entry, Outcome::Retagged),
            false => self.drop_old(entry, stat, content.file),
        }
    }

    /// Whether what stands in the new place need not be written again.
    fn is_as_good(&self, new: &Record, stat: &Stat, digest: &Output) -> bool {
        let is_timely = match new.standing(stat) {
            Standing::Current => true,
            Standing::Unknown => self.to.family == Family::Plain,
            Standing::Outdated | Standing::Resized => false,
        };
        is_timely && new.algorithm.id == self.to.algorithm.id && new.digest == *digest
    }

    /// Lets an old tag go with the next batch.
    fn drop_old(&self, entry: Entry, stat: Stat, file: File) {
        let full = {
            let mut old = lock(&self.old);
            if let Some(directory) = entry.path().parent() {
                old.directories.insert(directory.to_path_buf());
            }
            old.devices.entry(stat.device).or_insert(file);
            old.files.push((entry, stat));
            let is_full = old.files.len() >= BATCH || old.directories.len() >= BATCH_DIRECTORIES;
            is_full.then(|| std::mem::take(&mut *old))
        };
        if let Some(old) = full {
            self.remove(old);
        }
    }

    /// Makes the new tags durable, then removes the old ones.
    fn remove(&self, old: Old) {
        let failed: HashMap<u64, Errno> = old
            .devices
            .iter()
            .filter_map(|(device, file)| Some((*device, rustix::fs::syncfs(file).err()?)))
            .collect();
        for (entry, stat) in &old.files {
            if let Some(errno) = failed.get(&stat.device) {
                self.session.not_written(entry, stat, Operation::Sync, *errno);
                continue;
            }
            match self.remove_one(entry, stat) {
                Ok(()) => self.session.plain(entry, Outcome::Retagged),
                Err(errno) => self.session.not_written(entry, stat, Operation::RemoveAttribute, errno),
            }
        }
    }

    fn remove_one(&self, entry: &Entry, stat: &Stat) -> Result<(), Errno> {
        let file = entry.open().map_err(|error| error.errno().unwrap_or(Errno::IO))?;
        let now = Stat::of(&file)?;
        // The name may be another file's by now, which keeps what it has.
        if (now.device, now.inode) != (stat.device, stat.inode) {
            return Ok(());
        }
        self.from.family.remove(&file, Some(self.from.algorithm)).map(|_| ())
    }
}
