//! Judges a file that was read, and changes its record. Runs on the threads that hash.

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use rustix::io::Errno;
use verisum_digest::Output;

use super::alarm::written_to;
use super::digests::Digests;
use super::file_fault::FileFault;
use super::finish::last_known;
use super::jobs::tells_of_storage;
use super::plan::Plan;
use super::tally::{Tally, Untried};
use super::top_directory::is_mounted_over;
use super::writer::{Judged, Message, SpentBoxes};
use super::{ScrubOptions, SecondReading};
use crate::store::{
    Catalog, CatalogRecord, Moment, RecordChange, RecordFinding, RecordSummary, Seen, State, Trouble,
    VerifiedFile,
};
use verisum_files::reread::{self, Failed};
use verisum_files::says_storage_failed;
use verisum_files::{
    Comparison, Content, Entry, Evidence, Fate, FileError, Hashed, Kind, Operation, SecondRead, Verdict,
    VerdictClass, lock,
};

/// What a job is known by.
#[derive(Debug)]
pub(super) struct Token {
    pub directory: i64,
    pub device: u64,
    pub set: usize,
    pub record: Option<CatalogRecord>,
    /// Whether an earlier run found it to be bad, and nobody has written to it since.
    pub is_known_bad: bool,
}

/// Judges files.
pub(super) struct ScrubJudge<'a> {
    pub digests: &'a Digests,
    /// The number of the algorithm of new records, and of those whose file is good and was read with this one too.
    pub algorithm: i64,
    pub options: &'a ScrubOptions,
    pub tally: &'a Tally,
    pub plan: &'a Plan,
    /// A connection and the root, if anything is known of the generations of its inodes.
    pub generations: Option<(Mutex<Catalog>, i64)>,
    /// The last device that was found to keep when files were made.
    pub keeps_births: AtomicU64,
    /// For what the writer is told.
    pub spent: &'a SpentBoxes,
}

/// What was found of a file.
pub(super) struct Observation {
    pub found: Verdict,
    pub read: Option<Seen>,
    pub second: Option<SecondReading>,
    pub error: Option<FileFault>,
    /// The digest by the algorithm that records are to have, if theirs is another one.
    pub rehashed: Option<Output>,
    /// The generation of its inode, if nothing else tells it from another that is given the inode later.
    pub generation: Option<u32>,
}

impl Observation {
    /// One that found this, in what was read.
    pub(super) fn of(evidence: Evidence, read: Option<Seen>) -> Observation {
        Observation {
            found: evidence.verdict(),
            read,
            second: None,
            error: None,
            rehashed: None,
            generation: None,
        }
    }

    /// One at a file that cannot be read.
    pub(super) fn unreadable(error: FileFault, storage_failed: bool) -> Observation {
        Observation { error: Some(error), ..Observation::of(Evidence::Unreadable { storage_failed }, None) }
    }

    fn failed(operation: Operation, offset: Option<u64>, error: io::Error) -> Observation {
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        let error = FileFault::Io { operation, offset, source: error.into() };
        Observation::unreadable(error, errno.is_some_and(says_storage_failed))
    }
}

impl ScrubJudge<'_> {
    /// Judges one file and tells the writer.
    pub(super) fn judge(&self, hashed: Hashed<Token>, sender: &SyncSender<Message>) -> ControlFlow<()> {
        let Hashed { entry, token, result } = hashed;
        if matches!(result, Err(FileError::Stopped { .. })) {
            let why = self.why_not_read(token.device, token.is_known_bad).unwrap_or(Untried::NoTime);
            let known = token.record.as_ref().map(|record| (RecordSummary::from(record), record.state));
            // One that has no record was met before, and could not be read.
            let without = || State::Trouble(Trouble::Verdict(Verdict::IoError));
            let state = known.map(|(_, state)| state).or_else(|| token.is_known_bad.then(without));
            let place = (token.directory, entry.name().into());
            return match self.not_tried(why, place, &entry, (known.map(|(known, _)| known), state)) {
                Some(message) => send(message, sender),
                None => ControlFlow::Continue(()),
            };
        }
        self.plan.has_read();
        if self.options.one_file_system
            && let Ok(content) = &result
            && is_mounted_over(&entry, &content.before, (token.device, Some(entry.inode())))
        {
            self.tally.mounted_over.fetch_add(1, Ordering::Relaxed);
            return ControlFlow::Continue(());
        }
        let message = match self.observe(&token, result) {
            Some(observation) => {
                if let Some(record) = self.verified(&token, &observation) {
                    let (directory, name) = (token.directory, entry.into_name());
                    let generation = observation.generation;
                    let file = VerifiedFile { directory, name, record, generation };
                    return send(Message::Verified(file), sender);
                }
                let name = entry.name().into();
                let mut judged = self.judged(token, name, observation, || entry.path());
                match &mut judged.change {
                    Some(RecordChange::Unread(.., stat)) => *stat = entry.stat().ok(),
                    Some(_) if judged.found.is_none() => judged.unread = entry.stat().ok(),
                    _ => {}
                }
                Message::Judged(self.spent.boxed(judged))
            }
            None => Message::Gone {
                directory: token.directory,
                name: entry.into_name(),
                state: token.record.map(|record| record.state),
                at: self.plan.now(),
            },
        };
        send(message, sender)
    }

    /// Why no more files of a device are read, if that is so.
    pub(super) fn why_not_read(&self, device: u64, is_known_bad: bool) -> Option<Untried> {
        let is_ended = || self.options.stop.is_due().then_some(Untried::Ended);
        let is_over = || self.plan.is_over().then_some(Untried::NoTime);
        let fails = || self.tally.gives_up(device, is_known_bad).then_some(Untried::DeviceFails);
        is_ended().or_else(is_over).or_else(fails)
    }

    /// Counts a file that is due and is not read, and returns what the writer is told of it. It stays as it was, and is
    /// due in the next run. If it is known to be bad it is named: that nobody tried it makes it no better.
    pub(super) fn not_tried(
        &self,
        why: Untried,
        (directory, name): (i64, OsString),
        entry: &Entry,
        (known, state): (Option<RecordSummary>, Option<State>),
    ) -> Option<Message> {
        let is_bad = state.is_some_and(is_bad);
        let found = known.zip(entry.stat().ok());
        let is_fresh = found.is_none_or(|(known, stat)| self.plan.is_fresh(&known, &stat));
        self.tally.leave(why, is_bad, is_fresh);
        if is_bad {
            return Some(Message::NotTried { directory, name, path: entry.path(), state, why });
        }
        let (known, stat) = found.filter(|_| why != Untried::Ended)?;
        let is_resized = written_to(&known, &stat)?;
        Some(Message::Waiting { directory, name, is_resized })
    }

    /// What is to be seen of a file; `None` if it is gone.
    fn observe(&self, token: &Token, result: Result<Content, FileError>) -> Option<Observation> {
        let content = match result {
            Ok(content) => content,
            Err(FileError::Io { operation, offset, source, .. }) => {
                return match source.raw_os_error().map(Errno::from_raw_os_error) {
                    // A link in its place is not the file.
                    Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
                    _ => Some(Observation::failed(operation, offset, source)),
                };
            }
            Err(other) => return Some(Observation::failed(Operation::Hash, None, io::Error::other(other))),
        };
        if content.after.kind != Kind::File {
            let error = io::Error::other("it is no regular file any more");
            return Some(Observation::failed(Operation::Read, None, error));
        }
        self.tally.read(content.read, if content.is_own_read { content.length } else { 0 });
        Some(self.compare(token, content).unwrap_or_else(|error| match error {
            Failed::System(error) => Observation::failed(Operation::Read, None, error.into()),
            // Nobody asks this read to stop.
            Failed::Stopped => Observation::failed(Operation::Read, None, io::ErrorKind::Interrupted.into()),
            Failed::Digest(error) => Observation::unreadable(FileFault::Digest(error.into()), false),
        }))
    }

    fn compare(&self, token: &Token, content: Content) -> Result<Observation, Failed> {
        let digest = &self.digests.sets[token.set];
        // The engine has read it a second time by now.
        if !content.before.is_same_state(&content.after) {
            return Ok(Observation::of(Evidence::Unsettled, None));
        }
        let seen = Seen::new(&content.after, content.digests[0]);
        let generation = self.generation(&content);
        let record = match self.comparable(token.record.as_ref(), seen) {
            ControlFlow::Continue(record) => record,
            ControlFlow::Break(observation) => return Ok(Observation { generation, ..observation }),
        };
        let mut comparison = Comparison {
            same_digest: seen.digest == record.digest,
            same_mtime: seen.mtime == record.mtime,
            same_ctime: Some(seen.ctime == record.ctime),
            // A list that was imported says nothing of inodes.
            same_file: (record.inode != 0).then_some(seen.inode == record.inode),
            // Whether it does is found out at the end of the run.
            time_tells: false,
            second: SecondRead::NotMade,
        };
        if comparison.needs_second_read() && comparison.same_file == Some(true) {
            // Numbers of inodes are used again. Where nothing else says so, another length tells.
            let is_it = match (verisum_files::born(&content.file), self.has_generation(record, generation)) {
                (Some(born), _) => Moment::from(born) <= last_known(record),
                (None, Some(is_it)) => is_it,
                (None, None) => seen.size == record.size || comparison.same_ctime == Some(true),
            };
            comparison.same_file = Some(is_it);
        }
        let (mut second, mut error) = (None, None);
        if comparison.needs_second_read() {
            match reread::past_the_cache(&content.file, digest) {
                Ok(again) if !again.after.is_same_state(&content.after) => {
                    return Ok(Observation::of(Evidence::Unsettled, None));
                }
                Ok(again) => {
                    let same = again.digest == seen.digest;
                    comparison.second = if same { SecondRead::Same } else { SecondRead::Different };
                    second = Some(SecondReading { same, bypass: again.bypass });
                }
                Err(Failed::System(errno)) if says_storage_failed(errno) => {
                    comparison.second = SecondRead::Failed;
                    error = Some(FileFault::SecondRead(io::Error::from(errno).into()));
                }
                Err(failed) => return Err(failed),
            }
        }
        let rehashed = content.digests.get(1).copied();
        Ok(Observation {
            second,
            error,
            rehashed,
            generation,
            ..Observation::of(Evidence::Compared(comparison), Some(seen))
        })
    }

    /// The generation of the inode of a file whose file system does not keep when files were made.
    fn generation(&self, content: &Content) -> Option<u32> {
        // One more request for each file would be felt.
        if self.keeps_births.load(Ordering::Relaxed) == content.after.device {
            return None;
        }
        if verisum_files::born(&content.file).is_some() {
            self.keeps_births.store(content.after.device, Ordering::Relaxed);
            return None;
        }
        verisum_files::generation(&content.file)
    }

    /// Whether a generation is the one that the inode of a record had, where that is known.
    fn has_generation(&self, record: &CatalogRecord, generation: Option<u32>) -> Option<bool> {
        let (catalog, root) = self.generations.as_ref()?;
        let catalog = lock(catalog);
        catalog.has_generation(*root, (record.inode, record.verified), generation?).ok()?
    }

    /// The record that a file is compared with that was read; what it is, if there is none.
    pub(super) fn comparable<'r>(
        &self,
        record: Option<&'r CatalogRecord>,
        seen: Seen,
    ) -> ControlFlow<Observation, &'r CatalogRecord> {
        let Some(record) = record else {
            return ControlFlow::Break(Observation::of(
                Evidence::Unrecorded { moved_here: false },
                Some(seen),
            ));
        };
        if record.state == State::DAMAGED {
            return ControlFlow::Break(Observation::of(Evidence::RecordDamaged, Some(seen)));
        }
        // What was read was read with another digest.
        match self.digests.unavailable.get(&record.algorithm) {
            Some(why) => {
                ControlFlow::Break(Observation::unreadable(FileFault::Digest(why.clone().into()), false))
            }
            None => ControlFlow::Continue(record),
        }
    }

    /// The record from now on of a file that is all as recorded. For most files, nothing else follows.
    pub(super) fn verified(&self, token: &Token, observation: &Observation) -> Option<CatalogRecord> {
        let record = token.record.as_ref()?;
        let is_same = (observation.found, record.state) == (Verdict::Ok, State::Sound)
            && observation.read == Some(Seen::of(record))
            && observation.rehashed.is_none();
        is_same.then(|| CatalogRecord { verified: self.plan.now(), ..*record })
    }

    /// What follows from a look at a file for its record.
    pub(super) fn judged(
        &self,
        token: Token,
        name: OsString,
        observation: Observation,
        path: impl Fn() -> PathBuf,
    ) -> Judged {
        let now = self.plan.now();
        let found = observation.found;
        let before = token.record.map(|record| record.state).unwrap_or(State::Sound);
        let (verdict, state) = match state_after(before, found) {
            (Verdict::Modified, _) if self.options.archive => {
                (Verdict::Modified, State::Trouble(Trouble::Held))
            }
            after => after,
        };
        let mut observation = observation;
        if verdict != found && found != Verdict::Modified {
            let now = observation.error.unwrap_or_else(|| match found {
                Verdict::Busy => FileFault::Changed,
                found => FileFault::Found(found),
            });
            observation.error = Some(match verdict {
                Verdict::RecordDamaged => now,
                _ => FileFault::Past { now: Box::new(now), was: verdict },
            });
        }
        if found == Verdict::IoError {
            // Of a file that was written to since it is known, too: it is tried again, and says nothing new of the device.
            let is_known =
                token.is_known_bad || token.record.is_some_and(|record| tells_of_storage(record.state));
            self.tally.failed(token.device, is_known);
        }
        let held = state == State::Trouble(Trouble::Held);
        let change = match (&token.record, &observation.read) {
            (record, Some(seen)) if verdict.may_replace_record() && !held => {
                Some(self.replacement(record.as_ref(), (seen, observation.rehashed), verdict, now))
            }
            (record, read) => {
                let detail = observation.error.as_ref().map(ToString::to_string);
                let finding = RecordFinding { since: now, seen: now, read: *read, detail };
                match record {
                    Some(_) => Some(RecordChange::Suspect(state, finding)),
                    // There is no record that could be in any state.
                    None => verdict.is_unread().then_some(RecordChange::Unread(state, finding, None)),
                }
            }
        };
        let was_in_trouble = token.record.is_some_and(|record| record.state != State::Sound);
        let is_news = verdict != Verdict::Ok || was_in_trouble;
        Judged {
            directory: token.directory,
            name,
            restored: was_in_trouble && matches!(verdict, Verdict::Ok | Verdict::Touched),
            path: is_news.then(path),
            verdict,
            alone: found,
            held,
            recorded: token.record,
            found: observation.read,
            generation: observation.generation,
            set: token.set,
            second: observation.second,
            error: observation.error,
            unread: None,
            change,
            written: None,
        }
    }

    fn replacement(
        &self,
        record: Option<&CatalogRecord>,
        (seen, rehashed): (&Seen, Option<Output>),
        verdict: Verdict,
        now: Moment,
    ) -> RecordChange {
        let record_or_target = record.filter(|_| rehashed.is_none());
        let new = CatalogRecord {
            size: seen.size,
            mtime: seen.mtime,
            ctime: seen.ctime,
            inode: seen.inode,
            algorithm: record_or_target.map_or(self.algorithm, |record| record.algorithm),
            digest: rehashed.unwrap_or(seen.digest),
            first_seen: record.map_or(now, |record| record.first_seen),
            changed: record.map_or(now, |record| record.changed),
            verified: now,
            state: State::Sound,
        };
        match record {
            None => RecordChange::Add(new),
            Some(old) if verdict.fate() == Fate::Replaced => {
                RecordChange::Replace { old: *old, new: CatalogRecord { changed: now, ..new } }
            }
            Some(_) => RecordChange::Confirm(new),
        }
    }
}

/// What a file is, and the state of its record, after it was in one and then found to be so. Nothing becomes better
/// before its content is read and good, or somebody accepts it.
pub fn state_after(before: State, found: Verdict) -> (Verdict, State) {
    let is_unread = found.is_unread();
    match before {
        State::DAMAGED => (Verdict::RecordDamaged, State::DAMAGED),
        // Only he who may have written to what was bad knows whether it is meant.
        State::Trouble(Trouble::Verdict(bad))
            if bad.class() == VerdictClass::Corrupt
                && (matches!(found, Verdict::Modified | Verdict::Suspicious)
                    || (bad, found) == (Verdict::Suspicious, Verdict::Rot)) =>
        {
            (Verdict::Suspicious, State::Trouble(Trouble::Verdict(Verdict::Suspicious)))
        }
        // What was bad and cannot be read is no better.
        State::Trouble(Trouble::Verdict(bad)) if bad.class() == VerdictClass::Corrupt && is_unread => {
            (bad, before)
        }
        State::Trouble(Trouble::Held) if is_unread || found == Verdict::Modified => (found, before),
        _ => (found, State::Trouble(Trouble::Verdict(found))),
    }
}

/// Whether a file is bad, or nobody could tell: it is named by each run, be it tried again or not.
pub(super) fn is_bad(state: State) -> bool {
    match state {
        State::Trouble(Trouble::Verdict(verdict)) => verdict.class() >= VerdictClass::Unchecked,
        State::Trouble(Trouble::Held) | State::Sound => false,
    }
}

fn send(message: Message, sender: &SyncSender<Message>) -> ControlFlow<()> {
    // The writer ends early only if the catalogue fails.
    match sender.send(message) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_somebody_wrote_after_it_went_bad_is_suspicious() {
        let of = |verdict| State::Trouble(Trouble::Verdict(verdict));
        for bad in [Verdict::Suspicious, Verdict::Flaky, Verdict::Rot] {
            for written in [Verdict::Modified, Verdict::Suspicious] {
                let after = (Verdict::Suspicious, of(Verdict::Suspicious));
                assert_eq!(state_after(of(bad), written), after, "{bad} {written}");
            }
            for unread in [Verdict::Busy, Verdict::Unverifiable, Verdict::IoError] {
                assert_eq!(state_after(of(bad), unread), (bad, of(bad)), "{bad} {unread}");
            }
            let again = if bad == Verdict::Suspicious { bad } else { Verdict::Rot };
            assert_eq!(state_after(of(bad), Verdict::Rot), (again, of(again)), "{bad}");
            let well = (Verdict::Ok, of(Verdict::Ok));
            assert_eq!(state_after(of(bad), Verdict::Ok), well, "{bad}");
        }
    }

    #[test]
    fn what_could_not_be_compared_is_what_it_is_found_to_be() {
        let of = |verdict| State::Trouble(Trouble::Verdict(verdict));
        let unread = [Verdict::Busy, Verdict::Unverifiable, Verdict::IoError];
        for before in [of(Verdict::Busy), of(Verdict::Unverifiable), of(Verdict::IoError), State::MISSING] {
            for found in unread {
                assert_eq!(state_after(before, found), (found, of(found)), "{before:?}");
            }
        }
        assert_eq!(state_after(of(Verdict::Rot), Verdict::Flaky), (Verdict::Flaky, of(Verdict::Flaky)));
    }

    #[test]
    fn an_error_has_one_verdict_in_catalogues_and_tags() {
        let mut of_storage = Vec::new();
        for errno in (1..=133).map(Errno::from_raw_os_error) {
            let observation = Observation::failed(Operation::Read, None, errno.into());
            // What tags and the walk ask.
            let error = FileError::io(Path::new("file"), Operation::Read, errno);
            let evidence = Evidence::Unreadable { storage_failed: error.is_storage_failure() };
            assert_eq!(observation.found, evidence.verdict(), "{errno:?}");
            of_storage.extend(error.is_storage_failure().then_some(errno));
        }
        assert!(of_storage.contains(&Errno::IO) && of_storage.contains(&Errno::TIMEDOUT));
        assert!(!of_storage.contains(&Errno::ACCESS) && !of_storage.contains(&Errno::NOENT));
    }
}
