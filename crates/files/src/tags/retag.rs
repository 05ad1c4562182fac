//! Replaces tags of one digest by tags of another.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Mutex;

use rustix::io::Errno;
use verisum_digest::{Algorithm, Digest, Output};

use super::files::{next_entry, open};
use super::locked_write::{Before, Conflict, Refusal, TagLock, is_known, put, standing};
use super::reading::{ReadToken, Wanted, read};
use super::session::{DigestSets, Session};
use super::{Counts, Entries, TagOutcome, TagSink, TaggingOptions, now};
use crate::store::xattr::{Family, Stored};
use crate::{Content, Entry, FileError, Operation, Record, Standing, Stat, Verdict, lock};

/// How many old tags wait for one `syncfs`, which may write much more than our tags.
const BATCH: usize = 4096;

/// In how many directories their files may be. Each is held open.
const BATCH_DIRECTORIES: usize = 128;

/// A place for a tag: its form and its digest.
#[derive(Clone, Copy, Debug)]
pub struct TagSlot {
    /// The form.
    pub family: Family,
    /// The digest.
    pub algorithm: &'static Algorithm,
}

impl TagSlot {
    /// Whether writing to `other` replaces what is here, in one step of the file system.
    fn is_replaced_by(&self, other: &TagSlot) -> bool {
        self.family == other.family && self.family != Family::Plain
    }

    /// Whether what is written to `other` may replace a tag of a third digest.
    fn replaces_any(&self, other: &TagSlot) -> bool {
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
/// one is on the storage, and is there still. A run may end at any moment and be taken up by another: a file that has both
/// tags is read again, for the new one may be somebody else's, and the old one is then the older evidence.
/// What is not as recorded keeps its old tag and gets no new one. What stands in the new place already is
/// compared in the same read: if nobody has written to the file since, and the content is not what it says,
/// or if it cannot be understood, it is reported and kept as well.
///
/// # Errors
/// If one of the digests cannot be computed here.
pub fn retag(
    entries: Entries,
    options: &TaggingOptions,
    from: TagSlot,
    to: TagSlot,
    report: TagSink,
) -> Result<Counts, verisum_digest::DigestError> {
    let session = Session::new(options, report);
    let digests = |slots: &[TagSlot]| -> Result<Vec<Digest>, verisum_digest::DigestError> {
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
    let run = RetagRun { session: &session, from, to, set, sets, old: Mutex::default() };
    let mut wanted = std::iter::from_fn(|| run.next_wanted(entries));
    read(&session, &plan, &mut wanted, &|entry, recorded, content| run.replace(entry, content, recorded));
    run.remove(std::mem::take(&mut *lock(&run.old)));
    Ok(session.counts())
}

struct RetagRun<'a> {
    session: &'a Session<'a>,
    from: TagSlot,
    to: TagSlot,
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

impl ReadToken for Both {}

/// Files whose old tags are to go once the new ones are durable.
#[derive(Default)]
struct Old {
    files: Vec<Leaving>,
    directories: HashSet<PathBuf>,
    /// One open file of each file system.
    devices: HashMap<u64, File>,
}

/// One of them, with the digests that its two tags should have.
struct Leaving {
    entry: Entry,
    stat: Stat,
    old: Output,
    new: Output,
}

impl RetagRun<'_> {
    fn next_wanted(&self, entries: Entries) -> Option<Wanted<Both>> {
        loop {
            let entry = next_entry(self.session, entries)?;
            let Some(mut opened) = open(self.session, entry, self.from.family) else { continue };
            let mut new = Vec::new();
            if !self.from.is_replaced_by(&self.to)
                && let Err(errno) = self.to.family.read_place(&opened.file, self.to.algorithm, &mut new)
            {
                let error = FileError::io(&opened.entry.path(), Operation::GetAttribute, errno);
                self.session.unreadable(&opened.entry, &error);
                continue;
            }
            let mut entry = opened.entry;
            let Some(Ok(old)) = opened.found.iter().find(|found| self.from.is(found)).copied() else {
                opened.found.append(&mut new);
                let is_done = opened.found.iter().any(|found| self.to.is(found));
                match opened.found.iter().find_map(|found| found.as_ref().err()) {
                    Some(defect) if !is_done => self.session.defective(&entry, *defect),
                    _ if is_done => self.session.plain(&entry, TagOutcome::Current),
                    _ if !opened.found.is_empty() => self.session.plain(&entry, TagOutcome::OtherDigest),
                    _ => self.session.plain(&entry, TagOutcome::Judged(Verdict::New)),
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
            return self.session.compared(&entry, TagOutcome::Judged(verdict), &recorded.old, &old_digest);
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
                return self.session.compared(&entry, TagOutcome::Judged(verdict), new, &digest);
            }
        }
        let stat = content.after;
        if self.session.options.dry {
            return self.session.plain(&entry, TagOutcome::Retagged);
        }
        if !recorded.new.iter().any(|new| self.is_as_good(new, &stat, &new_digest)) {
            let record = Record::new(self.to.algorithm, new_digest, &stat, Some(now()));
            let judged = [&[recorded.old][..], &recorded.new].concat();
            let old_stood = self.from.is_replaced_by(&self.to) && !recorded.is_apart;
            let before = Before { judged: &judged, stood: old_stood || !recorded.new.is_empty() };
            let written = TagLock::take(&content.file)
                .map_err(Refusal::from)
                .and_then(|_held| put(self.to.family, &content.file, &stat, &record, before));
            match written {
                Ok(()) => {}
                Err(Refusal::System(errno))
                    if recorded.is_apart && self.session.keeps_apart(&entry, &stat, &record, errno) =>
                {
                    return self.session.plain(&entry, TagOutcome::Retagged);
                }
                Err(refusal) => {
                    return self.session.refuse(&entry, &stat, Operation::SetAttribute, refusal);
                }
            }
            // Else what the catalogue has would be taken for the old tag, for ever.
            let may_be_found_again = recorded.is_apart || !self.from.is_replaced_by(&self.to);
            if let (true, Some(apart)) = (may_be_found_again, &self.session.options.apart) {
                apart.follow(&entry, &stat, &recorded.old, &record);
            }
        }
        match self.from.is_replaced_by(&self.to) {
            true => self.session.plain(&entry, TagOutcome::Retagged),
            false => {
                let leaving = Leaving { entry, stat, old: old_digest, new: new_digest };
                self.drop_old(leaving, content.file);
            }
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
    fn drop_old(&self, leaving: Leaving, file: File) {
        let full = {
            let mut old = lock(&self.old);
            if let Some(directory) = leaving.entry.path().parent() {
                old.directories.insert(directory.to_path_buf());
            }
            old.devices.entry(leaving.stat.device).or_insert(file);
            old.files.push(leaving);
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
        for leaving in &old.files {
            let Leaving { entry, stat, .. } = leaving;
            if let Some(errno) = failed.get(&stat.device) {
                self.session.not_written(entry, stat, Operation::Sync, *errno);
                continue;
            }
            match self.remove_one(leaving) {
                Ok(outcome) => self.session.plain(entry, outcome),
                Err(refusal) => self.session.refuse(entry, stat, Operation::RemoveAttribute, refusal),
            }
        }
    }

    /// Removes an old tag if both tags are still those of the run.
    fn remove_one(&self, leaving: &Leaving) -> Result<TagOutcome, Refusal> {
        let Leaving { entry, stat, old, new } = leaving;
        let file = match entry.open().map_err(|error| error.errno().unwrap_or(Errno::IO)) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(TagOutcome::Judged(Verdict::Missing)),
            Err(errno) => return Err(errno.into()),
        };
        let now = Stat::of(&file)?;
        // The name may be another file's by now, which keeps what it has.
        if (now.device, now.inode) != (stat.device, stat.inode) {
            return Ok(TagOutcome::Judged(Verdict::Busy));
        }
        let _held = TagLock::take(&file)?;
        let (from, to) = (self.from.algorithm, self.to.algorithm);
        let is_new =
            |tag: &Stored| tag.as_ref().is_ok_and(|tag| (tag.algorithm.id, tag.digest) == (to.id, *new));
        let written = standing(self.to.family, &file, to)?;
        if written.is_empty() || !written.iter().all(is_new) {
            return Err(Conflict::Lost.into());
        }
        let mut leaves = standing(self.from.family, &file, from)?.into_iter().filter(|tag| self.from.is(tag));
        if !leaves.all(|tag| is_known(&tag, &[(from, *old)], stat)) {
            return Err(Conflict::Changed.into());
        }
        self.from.family.remove(&file, Some(from))?;
        Ok(TagOutcome::Retagged)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::path::Path;
    use std::sync::Once;

    use super::*;
    use crate::{Plan, Walk, WalkOptions};

    const OLD: &str = "user.checksum.md5";
    const NEW: &str = "user.verisum";

    fn names(file: &Path) -> Vec<String> {
        [OLD, NEW]
            .into_iter()
            .filter(|name| rustix::fs::getxattr(file, *name, &mut [0_u8; 512][..]).is_ok())
            .map(str::to_string)
            .collect()
    }

    fn slot(family: Family, algorithm: &str) -> TagSlot {
        TagSlot { family, algorithm: Algorithm::find(algorithm).unwrap() }
    }

    /// Replaces the tags of a few files, and lets something happen after the first old one is removed.
    /// Returns what came of the file that it happens to.
    fn meanwhile(happens: impl Fn(&Path) + Sync) -> (String, Vec<String>, Counts) {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b", "c"].map(|name| folder.path().join(name));
        let md5 = Digest::find("md5").unwrap();
        for path in &paths {
            fs::write(path, "content").unwrap();
            let sum = md5.hash(b"content").unwrap().to_string();
            rustix::fs::setxattr(path, OLD, sum.as_bytes(), rustix::fs::XattrFlags::empty()).unwrap();
        }
        let options = TaggingOptions {
            family: Family::Verisum,
            plan: Plan::new(Vec::new(), 1),
            policy: Default::default(),
            apart: None,
            dry: false,
        };
        let (once, met) = (Once::new(), Mutex::new((String::new(), None)));
        let report = |finding: &super::super::TagFinding| {
            let here = finding.path();
            once.call_once(|| {
                let other = paths.iter().rev().find(|path| path.file_name() != here.file_name()).unwrap();
                happens(other);
                lock(&met).1 = Some(other.clone());
            });
            let mut met = lock(&met);
            if met.1.as_deref().and_then(Path::file_name) == here.file_name() {
                let error = finding.error.map(|error| format!(": {error}"));
                met.0 = format!("{}{}", finding.outcome, error.unwrap_or_default());
            }
        };
        let mut walk = Walk::new(vec![folder.path().to_path_buf()], WalkOptions::default());
        let counts =
            retag(&mut walk, &options, slot(Family::Plain, "md5"), slot(Family::Verisum, "sha256"), &report)
                .unwrap();
        let (told, path) = met.into_inner().unwrap();
        (told, names(&path.unwrap()), counts)
    }

    #[test]
    fn an_old_tag_stays_where_the_new_one_is_gone_or_another() {
        let removed = meanwhile(|file| rustix::fs::removexattr(file, NEW).unwrap());
        let other = meanwhile(|file| {
            let sha512 = Algorithm::find("sha512").unwrap();
            let output = Digest::find("sha512").unwrap().hash(b"other").unwrap();
            let file = File::open(file).unwrap();
            let record = Record::new(sha512, output, &Stat::of(&file).unwrap(), None);
            Family::Verisum.write(&file, &record).unwrap();
        });
        for ((told, left, counts), expected) in [(removed, &[OLD][..]), (other, &[OLD, NEW])] {
            assert!(told.starts_with("not-written: ") && told.contains("the old tag stays"), "{told}");
            assert_eq!(left, expected);
            assert_eq!((counts.of(TagOutcome::Retagged), counts.of(TagOutcome::NotWritten)), (2, 1));
        }
    }

    #[test]
    fn an_old_tag_that_somebody_changed_stays() {
        let (told, left, counts) = meanwhile(|file| {
            let sum = OsStr::new("00000000000000000000000000000000");
            rustix::fs::setxattr(file, OLD, sum.as_encoded_bytes(), rustix::fs::XattrFlags::empty()).unwrap();
        });
        assert!(told.ends_with("its tag was changed since it was compared"), "{told}");
        assert_eq!((left.len(), counts.of(TagOutcome::Retagged)), (2, 2));
    }

    #[test]
    fn a_file_that_took_the_name_is_not_counted() {
        let (told, left, counts) = meanwhile(|file| {
            let other = file.with_extension("new");
            fs::write(&other, "content").unwrap();
            fs::rename(other, file).unwrap();
        });
        assert_eq!((told.as_str(), left.len(), counts.of(TagOutcome::Retagged)), ("busy", 0, 2));
        let (told, ..) = {
            let hidden = tempfile::tempdir().unwrap();
            meanwhile(|file| fs::rename(file, hidden.path().join("away")).unwrap())
        };
        assert_eq!(told, "missing");
    }

    #[test]
    fn an_old_tag_of_a_locked_file_stays() {
        let kept = Mutex::new(None);
        let (told, left, _) = meanwhile(|path| {
            let file = File::open(path).unwrap();
            file.lock().unwrap();
            *lock(&kept) = Some(file);
        });
        assert!(told.contains("another program has locked it"), "{told}");
        assert_eq!(left, [OLD, NEW]);
    }
}
