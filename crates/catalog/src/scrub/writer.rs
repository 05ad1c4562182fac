//! The one thread that writes to the catalogue. It commits every second, so that a killed run loses at most
//! that. It reports a finding after it has committed it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use super::finish::bad_verdict;
use super::run::Work;
use super::tally::{Met, Untried};
use super::{FileFault, Scope, ScrubError, ScrubOptions, ScrubReport, ScrubSummary, SecondReading};
use crate::store::{
    self, Catalog, CatalogRecord, Moment, RecordChange, RecordFinding, RecordName, Run, Seen, State, Trouble,
    VerifiedFile,
};
use verisum_files::{Stat, Verdict, VerdictClass, lock};

/// How long a result waits to be kept.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long results gather before they are looked at: to be woken for each takes longer than to write it. Whoever has sent
/// the last ends that.
const GATHER: Duration = Duration::from_millis(5);

/// How often what was committed is brought to the disk, against a loss of power.
const CHECKPOINT: Duration = Duration::from_secs(60);

/// How many results are kept at once at most. They are sorted first: neighbours share a page.
const BATCH: usize = 4096;

/// What the writer is told.
pub(super) enum Message {
    /// A directory that was not recorded.
    Directory { id: i64, parent: i64, name: OsString, device: u64 },
    /// A file that is as recorded, like most.
    Verified(VerifiedFile),
    /// Another file that was looked at.
    Judged(Box<Judged>),
    /// A file that is not there. `state` is that of its record, if it has one.
    Gone { directory: i64, name: OsString, state: Option<State>, at: Moment },
    /// A recorded file that was written to, perhaps to another length, and that there is no time to read.
    Waiting { directory: i64, name: OsString, is_resized: bool },
    /// A file that is known to be bad and was not tried again: what it was found to be, and why nobody tried.
    NotTried { directory: i64, name: OsString, path: PathBuf, state: Option<State>, why: Untried },
    /// A recorded file that is none of the tree's.
    Forget { directory: i64, name: OsString, record: CatalogRecord },
    /// Something that could not be looked at, and if it is in a recorded directory, its place and when that was.
    Unlisted { path: PathBuf, error: FileFault, storage_failed: bool, place: Option<(RecordName, Moment)> },
}

/// A file that was looked at, and what follows from it.
pub(super) struct Judged {
    pub directory: i64,
    pub name: OsString,
    /// Its path, if it is to be reported.
    pub path: Option<PathBuf>,
    pub verdict: Verdict,
    /// What it would be, had nothing been found of it before.
    pub alone: Verdict,
    pub held: bool,
    pub restored: bool,
    pub recorded: Option<CatalogRecord>,
    pub found: Option<Seen>,
    /// The generation of its inode, where that is of use.
    pub generation: Option<u32>,
    pub set: usize,
    pub second: Option<SecondReading>,
    pub error: Option<FileFault>,
    /// What could be said of it, if it could not be read.
    pub unread: Option<Stat>,
    pub change: Option<RecordChange>,
    /// What its place recorded of it, which takes the place of this record before the change.
    pub written: Option<WrittenRecord>,
}

/// Boxes whose content was written, to be used again. If this thread freed what others allocate, they would wait for
/// each other in the allocator.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "the boxes are what is used again")]
pub(super) struct SpentBoxes(Mutex<Vec<Box<Judged>>>);

impl SpentBoxes {
    /// Puts it into such a box, if there is one.
    pub(super) fn boxed(&self, judged: Judged) -> Box<Judged> {
        let spent = lock(&self.0).pop();
        match spent {
            Some(mut spent) => {
                *spent = judged;
                spent
            }
            None => Box::new(judged),
        }
    }
}

/// A record of what the place of a file recorded of it.
pub(super) struct WrittenRecord {
    /// What was recorded here before.
    pub old: Option<CatalogRecord>,
    pub new: CatalogRecord,
    /// The name of its digest.
    pub algorithm: String,
}

/// Writes, counts and reports.
pub(super) struct Writer<'a> {
    pub(super) catalog: &'a mut Catalog,
    pub(super) scope: &'a Scope,
    pub(super) options: &'a ScrubOptions,
    pub(super) report: &'a mut (dyn FnMut(ScrubReport) + Send),
    pub(super) summary: ScrubSummary,
    /// Files that are as recorded, with no more to be said of them.
    pub(super) verified: Met,
    /// The names of the digests, by set.
    names: Vec<String>,
    spent: &'a SpentBoxes,
    /// New files may be moved ones, because there are records already, or bad files in other trees.
    may_be_moved: bool,
    checkpoint: Instant,
    /// What is missing since then was not reported yet.
    pub(super) news_since: Moment,
    /// Files that were read and have the recorded length and another time of modification: those with another
    /// content, and all.
    pub(super) rewritten: (u64, u64),
    /// Reports of files that are bad or could not be read, and whose names are other files' than before. What those are
    /// is found out at the end.
    pub(super) doubtful: Vec<(RecordName, ScrubReport)>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        catalog: &'a mut Catalog,
        work: &Work<'a>,
        history: &[Run],
        report: &'a mut (dyn FnMut(ScrubReport) + Send),
    ) -> Writer<'a> {
        let (scope, options, spent) = (work.scope, work.options, work.judge.spent);
        let names = work.judge.digests.sets.iter().map(|digest| digest.name().to_string()).collect();
        let unfinished = history.iter().take_while(|run| !run.is_whole());
        let news_since = unfinished.map(|run| run.started).fold(options.started(), Moment::min);
        let summary = ScrubSummary { root: scope.path.clone(), ..ScrubSummary::default() };
        // If that cannot be read, neither can what comes after it.
        let may_be_moved = scope.root.files > 0 || catalog.has_bad_elsewhere(scope.root.id).unwrap_or(true);
        let checkpoint = Instant::now();
        let rewritten = (0, 0);
        Writer {
            catalog,
            scope,
            options,
            report,
            summary,
            verified: Met::default(),
            names,
            spent,
            may_be_moved,
            checkpoint,
            news_since,
            rewritten,
            doubtful: Vec::new(),
        }
    }

    /// Records that the run begins. From then on the catalogue is known to be sound.
    pub(super) fn begin(&mut self, work: &Work) -> Result<(), ScrubError> {
        let _turn = work.take_turn();
        let id = self.catalog.begin_run(self.scope.root.id, self.options.started(), work.plan.cycle)?;
        work.run.get_or_init(|| id);
        Ok(())
    }

    /// Writes until all senders are gone.
    pub(super) fn run(&mut self, receiver: Receiver<Message>) -> Result<(), ScrubError> {
        let mut batch = Vec::new();
        while let Ok(first) = receiver.recv() {
            batch.push(first);
            let deadline = Instant::now() + INTERVAL;
            while batch.len() < BATCH {
                match receiver.try_recv() {
                    Ok(message) => batch.push(message),
                    Err(TryRecvError::Empty) if Instant::now() < deadline => park_timeout(GATHER),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
            self.keep(&mut batch)?;
        }
        Ok(())
    }

    /// Keeps a batch, then reports it.
    pub(super) fn keep(&mut self, batch: &mut Vec<Message>) -> Result<(), ScrubError> {
        batch.sort_by(|a, b| place(a).cmp(&place(b)));
        let verified = batch.iter().filter_map(|message| match message {
            Message::Verified(file) => Some(file),
            _ => None,
        });
        self.catalog.in_transaction(|| {
            self.catalog.verify(self.scope.root.id, verified)?;
            batch.iter().try_for_each(|message| self.write(message))
        })?;
        if self.checkpoint.elapsed() >= CHECKPOINT {
            self.catalog.checkpoint()?;
            self.checkpoint = Instant::now();
        }
        let algorithms = self.catalog.algorithms()?;
        let mut spent = Vec::new();
        for message in batch.drain(..) {
            match message {
                Message::Verified(file) => {
                    self.summary.add(Verdict::Ok, 1);
                    self.verified.add(file.record.verified);
                }
                Message::Judged(mut judged) => {
                    self.tell(&mut judged);
                    spent.push(judged);
                }
                Message::Unlisted { path, error, storage_failed, .. } => {
                    self.tell_unlisted(path, error, storage_failed);
                }
                Message::NotTried { directory, name, path, state, why } => {
                    let finding = self.catalog.finding(directory, &name)?;
                    let record = self.catalog.record(directory, &name)?;
                    let algorithm = record.and_then(|record| algorithms.get(&record.algorithm).cloned());
                    let verdict = state.map_or(Verdict::IoError, |state| bad_verdict(state).0);
                    let report = ScrubReport {
                        algorithm: algorithm.unwrap_or_default(),
                        recorded: record.as_ref().map(Seen::of),
                        ..ScrubReport::new(path, verdict)
                    };
                    self.tell_not_tried(report, why, finding);
                }
                Message::Directory { .. }
                | Message::Gone { .. }
                | Message::Waiting { .. }
                | Message::Forget { .. } => {}
            }
        }
        lock(&self.spent.0).append(&mut spent);
        Ok(())
    }

    fn write(&self, message: &Message) -> Result<(), store::CatalogError> {
        let root = self.scope.root.id;
        match message {
            Message::Directory { id, parent, name, device } => {
                self.catalog.add_directory(*id, *parent, name, *device)
            }
            Message::Judged(judged) => {
                if let Some(WrittenRecord { old, new, .. }) = &judged.written {
                    let length = new.size as i64 - old.map_or(new.size, |old| old.size) as i64;
                    self.catalog.add_length(root, length)?;
                    let change = old.map_or(RecordChange::Add(*new), |_| RecordChange::Confirm(*new));
                    self.catalog.apply(root, judged.directory, &judged.name, &change)?;
                }
                let Some(change) = &judged.change else { return Ok(()) };
                if let (RecordChange::Confirm(new), Some(old)) = (change, &judged.recorded)
                    && new.size != old.size
                {
                    // A list that was imported said nothing of lengths.
                    self.catalog.add_length(root, new.size as i64 - old.size as i64)?;
                }
                if let (RecordChange::Confirm(new), Some(old)) = (change, &judged.recorded)
                    && new.algorithm != old.algorithm
                {
                    self.catalog.note_rehashed(old, new)?;
                }
                if let (RecordChange::Add(record), true) = (change, self.may_be_moved) {
                    self.catalog.add_fresh(root, judged.directory, &judged.name, record)?;
                }
                if let (RecordChange::Confirm(new), Some(old)) = (change, &judged.recorded)
                    && old.inode != 0
                    && new.inode != old.inode
                {
                    self.catalog.keep_left(root, judged.directory, &judged.name, old)?;
                }
                let was_bad = judged.recorded.is_some_and(|record| record.state.is_corrupt());
                let is_read = !matches!(change, RecordChange::Suspect(_, RecordFinding { read: None, .. }));
                let other = judged.unread.as_ref().filter(|stat| {
                    judged.recorded.is_some_and(|record| record.inode != 0 && record.inode != stat.inode)
                });
                if was_bad && (is_read || other.is_some()) {
                    let now = judged.found.as_ref().filter(|_| matches!(change, RecordChange::Suspect(..)));
                    self.catalog.keep_previous(root, judged.directory, &judged.name, now)?;
                }
                self.catalog.apply(root, judged.directory, &judged.name, change)?;
                let read = judged.found.map(|found| found.inode).zip(change.read());
                if let Some((read, generation)) = read.zip(judged.generation) {
                    self.catalog.note_generation(root, read, generation)?;
                }
                if other.is_some() {
                    let state = State::Trouble(Trouble::Verdict(judged.alone));
                    self.catalog.note_other(judged.directory, &judged.name, state)?;
                }
                match &judged.unread {
                    Some(stat) => self.catalog.note_inode(judged.directory, &judged.name, stat),
                    None => Ok(()),
                }
            }
            // What was bad, or changed and was never accepted, is not forgiven for being gone.
            // What has become of it is told at the end.
            Message::Gone { directory, name, state: Some(state), .. } if state.is_unforgiven() => {
                self.catalog.add_gone(*directory, name)
            }
            Message::Gone { directory, name, state: Some(state), at } if *state != State::MISSING => {
                let finding = RecordFinding { since: *at, seen: *at, read: None, detail: None };
                if !self.catalog.lose(*directory, name, &finding)? {
                    self.catalog.add_gone(*directory, name)?;
                }
                Ok(())
            }
            Message::Waiting { directory, name, is_resized } => {
                self.catalog.add_waiting(root, *directory, name, *is_resized)
            }
            Message::Forget { directory, name, record } => {
                self.catalog.apply(root, *directory, name, &RecordChange::Forget(*record))
            }
            Message::Unlisted { error, storage_failed, place: Some(((directory, name), at)), .. } => {
                let state = State::Trouble(Trouble::Verdict(unlisted(*storage_failed)));
                let finding =
                    RecordFinding { since: *at, seen: *at, read: None, detail: Some(error.to_string()) };
                let change = RecordChange::Unread(state, finding, None);
                self.catalog.apply(root, *directory, OsStr::from_bytes(name), &change)
            }
            Message::Verified(_)
            | Message::Gone { .. }
            | Message::NotTried { .. }
            | Message::Unlisted { .. } => Ok(()),
        }
    }

    fn tell(&mut self, judged: &mut Judged) {
        if let (Some(old), Some(new)) = (&judged.recorded, &judged.found)
            && (old.state, old.size) == (State::Sound, new.size)
            && old.mtime != new.mtime
        {
            let is_other = u64::from(old.digest != new.digest);
            self.rewritten = (self.rewritten.0 + is_other, self.rewritten.1 + 1);
        }
        let is_told_later = match judged.verdict {
            Verdict::New => self.may_be_moved,
            Verdict::Modified => !judged.held,
            _ => false,
        };
        if is_told_later {
            // It may be another file that was moved here.
            return;
        }
        let Some(path) = judged.path.take() else { return self.summary.add(judged.verdict, 1) };
        let of_set = || self.names.get(judged.set).cloned().unwrap_or_default();
        let is_unread = judged.verdict.is_unread();
        let inode = judged.found.map(|found| found.inode).or(judged.unread.as_ref().map(|stat| stat.inode));
        let is_doubtful = match (&judged.recorded, inode) {
            (Some(old), Some(inode)) => {
                let is_bad = judged.verdict.class() == VerdictClass::Corrupt && old.state.is_corrupt();
                (is_bad || is_unread) && old.inode != 0 && old.inode != inode
            }
            // It may be a bad file that was renamed.
            (None, _) => is_unread && self.catalog.has_known_bad(self.scope.root.id).unwrap_or(true),
            _ => false,
        };
        let report = ScrubReport {
            path,
            verdict: judged.verdict,
            held: judged.held,
            restored: judged.restored,
            recorded: judged.recorded.as_ref().map(Seen::of),
            found: judged.found,
            algorithm: judged.written.take().map_or_else(of_set, |written| written.algorithm),
            second: judged.second,
            since: self.since(judged),
            from: None,
            error: judged.error.take(),
        };
        if is_doubtful {
            return self.doubtful.push(((judged.directory, judged.name.as_bytes().to_vec()), report));
        }
        self.summary.add(judged.verdict, 1);
        (self.report)(report);
    }

    /// When a file that is still in trouble was found to be so.
    fn since(&self, judged: &Judged) -> Option<Moment> {
        judged.recorded.filter(|record| record.state != State::Sound)?;
        let Some(RecordChange::Suspect(..)) = judged.change else { return None };
        self.catalog.finding(judged.directory, &judged.name).ok()??.since.known()
    }

    /// Reports them.
    pub(super) fn tell_doubtful(&mut self) {
        for (_, report) in self.doubtful.drain(..) {
            self.summary.add(report.verdict, 1);
            (self.report)(report);
        }
    }

    /// Tells of a file that was not tried again what the last run found that tried it.
    fn tell_not_tried(&mut self, report: ScrubReport, why: Untried, finding: Option<RecordFinding>) {
        self.summary.add(report.verdict, 1);
        let recorded = finding.as_ref().and_then(|finding| finding.detail.clone());
        let error = Some(FileFault::NotTried { recorded, why });
        let found = finding.as_ref().and_then(|finding| finding.read);
        let since = finding.map(|finding| finding.since);
        (self.report)(ScrubReport { found, since, error, ..report });
    }

    fn tell_unlisted(&mut self, path: PathBuf, error: FileFault, storage_failed: bool) {
        let verdict = unlisted(storage_failed);
        self.summary.add(verdict, 1);
        (self.report)(ScrubReport { error: Some(error), ..ScrubReport::new(path, verdict) });
    }

    /// The path of a recorded file, which begins with that of the root.
    pub(super) fn path(&self, directory: i64, name: &[u8]) -> Result<PathBuf, store::CatalogError> {
        self.path_in(&self.scope.root, directory, name)
    }

    /// The same of a file of any root.
    pub(super) fn path_in(
        &self,
        root: &store::Root,
        directory: i64,
        name: &[u8],
    ) -> Result<PathBuf, store::CatalogError> {
        let folder = self.catalog.path_in_root(directory)?;
        Ok(root.path.join(folder).join(OsStr::from_bytes(name)))
    }
}

impl ScrubReport {
    /// A report of nothing but a verdict.
    pub(super) fn new(path: PathBuf, verdict: Verdict) -> ScrubReport {
        ScrubReport {
            path,
            verdict,
            held: false,
            restored: false,
            recorded: None,
            found: None,
            algorithm: String::new(),
            second: None,
            since: None,
            from: None,
            error: None,
        }
    }
}

/// What is thought of something that could not be looked at.
fn unlisted(storage_failed: bool) -> Verdict {
    if storage_failed { Verdict::IoError } else { Verdict::Unverifiable }
}

/// Directories first, in the order of their numbers, then files as they lie in the catalogue.
fn place(message: &Message) -> (bool, i64, &OsStr) {
    match message {
        Message::Directory { id, .. } => (false, *id, OsStr::new("")),
        Message::Judged(judged) => (true, judged.directory, &judged.name),
        Message::Verified(VerifiedFile { directory, name, .. })
        | Message::Gone { directory, name, .. }
        | Message::Waiting { directory, name, .. }
        | Message::Forget { directory, name, .. }
        | Message::NotTried { directory, name, .. } => (true, *directory, name),
        Message::Unlisted { .. } => (true, i64::MAX, OsStr::new("")),
    }
}

/// The names of the algorithms, by their numbers.
pub(super) type AlgorithmNames = HashMap<i64, String>;
