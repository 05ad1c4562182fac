//! A thread of a copy: looks at, reads and writes one file after the other.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use verisum_digest::{Digest, Output};
use verisum_files::{Directory, Entry, FileError, Kind, Operation, Stat, settle};

use super::batch::{Pending, event};
use super::digests::{Batches, Set, Sets, Sums};
use super::links::{Identity, Links, Placed, Turn};
use super::pump::{Pump, Stopped};
use super::record::{self, Expected, SourceRecord};
use super::shared::Shared;
use super::small::Group;
use super::target::TargetName;
use super::temporary::Temporary;
use super::{CopyError, CopyOptions, CopyOutcome, Mismatch, Reflink, Verification};
use crate::metadata::Metadata;

/// The digest where neither the caller nor a record says which.
pub(super) const USUAL: &str = "sha256";

/// What was changed so lately may be written to through a mapping without another time.
const LATELY: Duration = Duration::from_secs(60);

/// An entry of FROM that is not a directory, and where it goes.
pub(super) struct Job<'a> {
    pub(super) entry: Entry,
    pub(super) target: TargetName<'a>,
    /// What the catalogue says of it, and of what is at TO.
    pub(super) known: [Option<SourceRecord>; 2],
    /// Whether it is to be a file of its own, whatever names it has in FROM.
    pub(super) is_alone: bool,
}

/// A file of FROM that is to be copied.
pub(super) struct OpenedSource<'a> {
    pub(super) job: Job<'a>,
    pub(super) file: File,
    pub(super) stat: Stat,
    pub(super) metadata: Metadata,
    pub(super) expected: Vec<Expected>,
    pub(super) set: Arc<Set>,
    /// Whether something has its name at TO.
    pub(super) replaces: bool,
    /// Of a file of several names, of which this is the first.
    pub(super) identity: Option<Identity>,
}

/// What all threads use.
pub(super) struct Common<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) sets: Sets,
    pub(super) links: Links<'a>,
    /// TO, to find files of several names again.
    pub(super) top: Arc<Directory>,
    /// The most files that a thread holds open until they are on the disk.
    pub(super) most_pending: usize,
}

/// One thread's own.
pub(super) struct Worker<'a, 'c> {
    pub(super) common: &'c Common<'a>,
    pub(super) shared: &'a Shared<'a>,
    pub(super) batches: Batches,
    pub(super) group: Group<'a>,
    pub(super) pending: Vec<Pending<'a>>,
    pub(super) pending_bytes: u64,
    /// Names that waited for another one.
    pub(super) again: VecDeque<Job<'a>>,
}

impl<'a, 'c> Worker<'a, 'c> {
    pub(super) fn new(common: &'c Common<'a>) -> Worker<'a, 'c> {
        Worker {
            common,
            shared: common.shared,
            batches: Batches::default(),
            group: Group::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            again: VecDeque::new(),
        }
    }

    /// Copies these.
    pub(super) fn take(&mut self, jobs: Vec<Job<'a>>) {
        for job in jobs {
            self.begin(job);
        }
        self.end_group();
        self.catch_up();
    }

    /// Ends what was begun.
    pub(super) fn end(&mut self) {
        loop {
            self.end_group();
            self.flush();
            if self.again.is_empty() {
                return;
            }
            self.catch_up();
        }
    }

    fn catch_up(&mut self) {
        while let Some(job) = self.again.pop_front() {
            self.begin(job);
        }
    }

    fn begin(&mut self, job: Job<'a>) {
        if self.shared.is_stopped() {
            return;
        }
        match job.entry.kind() {
            Kind::Link => self.link(&job),
            Kind::Special => self.node(&job),
            Kind::File | Kind::Directory => {
                if let Some(opened) = self.open(job) {
                    self.read(opened);
                }
            }
        }
    }

    fn read(&mut self, opened: OpenedSource<'a>) {
        match Group::takes(&opened) && self.shared.options.reflink == Reflink::Never {
            true => self.read_small(opened),
            false => self.stream(opened, false),
        }
    }

    /// Opens a file that is to be copied; none if nothing is left to do.
    fn open(&mut self, job: Job<'a>) -> Option<OpenedSource<'a>> {
        let file = match self.source(&job.entry) {
            Ok(file) => file,
            Err(errno) => {
                let error = match errno {
                    Errno::LOOP | Errno::NXIO => FileError::NotAFile { path: job.entry.path() },
                    errno => job.entry.failed(Operation::Open, errno),
                };
                self.failed(&job, None, error.into());
                return None;
            }
        };
        let raw = match fstat(&file) {
            Ok(raw) if FileType::from_raw_mode(raw.st_mode) == FileType::RegularFile => raw,
            Ok(_) => {
                let error = FileError::NotAFile { path: job.entry.path() };
                self.failed(&job, None, error.into());
                return None;
            }
            Err(errno) => {
                let error = job.entry.failed(Operation::Stat, errno);
                self.failed(&job, None, error.into());
                return None;
            }
        };
        let stat = Stat::from(raw);
        let (job, identity) = self.turn(job, &stat)?;
        let existing = match self.existing(&job) {
            Ok(existing) => existing,
            Err(error) => {
                self.failed(&job, identity, error);
                return None;
            }
        };
        let mut metadata = Metadata::new(&raw);
        let expected = self.expected(&job, &file, &stat, &mut metadata);
        if let Some(existing) = &existing
            && let Some(digests) = self.done(&job, (&file, &stat), existing, &metadata, &expected)
        {
            self.placed(identity, &job.target, Some((stat, metadata.mode)), digests);
            return None;
        }
        let set = match self.set(&expected) {
            Ok(set) => set,
            Err(source) => {
                let error = CopyError::Digest { path: job.entry.path(), source };
                self.failed(&job, identity, error);
                return None;
            }
        };
        let mut opened =
            OpenedSource { job, file, stat, metadata, expected, set, replaces: existing.is_some(), identity };
        if is_late(&opened.stat) && settle(&opened.file, &opened.stat) {
            self.look_again(&mut opened);
        }
        Some(opened)
    }

    /// Opens an entry without moving the time of its last access, where the system lets us.
    fn source(&self, entry: &Entry) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let quietly = &self.shared.opens_quietly;
        if quietly.load(Ordering::Relaxed) {
            match openat(entry.directory(), entry.name(), flags | OFlags::NOATIME, Mode::empty()) {
                Err(Errno::PERM) => quietly.store(false, Ordering::Relaxed),
                opened => return opened.map(File::from),
            }
        }
        openat(entry.directory(), entry.name(), flags, Mode::empty()).map(File::from)
    }

    /// Whose turn it is to be copied, of a file of several names.
    fn turn(&mut self, job: Job<'a>, stat: &Stat) -> Option<(Job<'a>, Option<Identity>)> {
        if stat.links < 2 || job.is_alone {
            return Some((job, None));
        }
        let identity = (stat.device, stat.inode);
        match self.common.links.turn(identity, stat.links, job) {
            Turn::Copy(job) => Some((job, Some(identity))),
            Turn::Waits => None,
            Turn::Link(job, first) => {
                self.link_to(job, &first);
                None
            }
        }
    }

    /// What has the name at TO, if that is something that may be replaced.
    fn existing(&self, job: &Job<'a>) -> Result<Option<rustix::fs::Stat>, CopyError> {
        if !job.target.directory.was_there {
            return Ok(None);
        }
        let existing = job.target.stat()?;
        if let Some(existing) = &existing {
            job.target.require_replaceable(existing)?;
        }
        Ok(existing)
    }

    /// What is recorded of a file that nobody seems to have written to since. Reads its attributes for that.
    fn expected(&self, job: &Job<'a>, file: &File, stat: &Stat, metadata: &mut Metadata) -> Vec<Expected> {
        let known = job.known[0].as_ref();
        let mut expected: Vec<Expected> = known.and_then(|known| known.expected(stat)).into_iter().collect();
        if metadata.read_attributes(file, self.shared.options.tag) {
            record::of_tags(file, stat, &mut expected);
        }
        expected
    }

    /// Tells of what is at TO if it needs no copy, and returns its digests, if they were computed.
    fn done(
        &self,
        job: &Job<'a>,
        (file, stat): (&File, &Stat),
        existing: &rustix::fs::Stat,
        metadata: &Metadata,
        expected: &[Expected],
    ) -> Option<Vec<(Digest, Output)>> {
        let there = Stat::from(*existing);
        let known = job.known[1].as_ref();
        if there.kind != Kind::File || known.is_some_and(SourceRecord::is_bad) {
            return None;
        }
        let is_own = (there.device, there.inode) == (stat.device, stat.inode);
        let is_alike =
            there.size == stat.size && job.target.directory.is_same_time(stat.modified, there.modified);
        let by_record = match self.shared.options.update && !is_own {
            true => self.is_same_by_record(job, &there, expected),
            false => None,
        };
        if is_own || by_record.unwrap_or(is_alike) && is_alike {
            let is_known = known.is_some_and(|known| known.expected(&there).is_some());
            let digests = match self.shared.options.record && !is_known {
                true => self.verified(job, (file, stat), expected)?.pairs(),
                false => Vec::new(),
            };
            self.shared.options.progress.skip(stat.size);
            self.tell(job, CopyOutcome::Current, stat, metadata, &digests);
            return Some(digests);
        }
        if by_record != Some(true) {
            return None;
        }
        // The content is there: the rest is set.
        let target = &job.target;
        let touched = self.target_file(target).and_then(|file| {
            let is_whole = metadata.apply(&file, self.shared.is_root, target.directory.gives_lists);
            self.shared.summary().reduced += u64::from(!is_whole?);
            Ok(())
        });
        let outcome = match touched {
            Ok(()) => CopyOutcome::Touched,
            Err(errno) => CopyOutcome::Failed(target.failed("set times")(errno)),
        };
        self.tell(job, outcome, stat, metadata, &[]);
        Some(Vec::new())
    }

    /// The digests of what is at TO, read from the disk, if they are those of FROM's records, or else of what is there.
    fn verified(&self, job: &Job<'a>, (file, stat): (&File, &Stat), expected: &[Expected]) -> Option<Sums> {
        let set = self.set(expected).ok()?;
        let sums_of = |from: &File| {
            let _ = rustix::fs::fadvise(from, 0, None, rustix::fs::Advice::DontNeed);
            let (size, is_sparse) = (stat.size, stat.stored < stat.size);
            let pump = Pump { from, size, is_sparse, to: None, counted: None };
            let (outputs, _) = pump.run(self.shared, &set.digests).ok()?;
            Some(Sums { set: set.clone(), outputs })
        };
        let sums = sums_of(&self.target_file(&job.target).ok()?)?;
        let is_same = match expected.is_empty() {
            true => sums_of(file)?.outputs == sums.outputs,
            false => record::mismatch(expected, &sums).is_none(),
        };
        is_same.then_some(sums)
    }

    /// Whether the records of both sides have the same digest; none if they cannot be compared.
    fn is_same_by_record(&self, job: &Job<'a>, there: &Stat, expected: &[Expected]) -> Option<bool> {
        let mut recorded: Vec<Expected> =
            job.known[1].as_ref().and_then(|known| known.expected(there)).into_iter().collect();
        if let Ok(file) = self.target_file(&job.target) {
            record::of_tags(&file, there, &mut recorded);
        }
        let pairs = expected.iter().flat_map(|one| recorded.iter().map(move |other| (one, other)));
        let mut alike = pairs.filter(|(one, other)| one.algorithm == other.algorithm);
        alike.next().map(|(one, other)| one.digest == other.digest)
    }

    fn target_file(&self, target: &TargetName<'a>) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        openat(&*target.directory, &target.name, flags, Mode::empty()).map(File::from)
    }

    pub(super) fn set(&self, expected: &[Expected]) -> Result<Arc<Set>, verisum_digest::DigestError> {
        set_of(&self.common.sets, self.shared.options, expected)
    }

    /// Takes a file for what it is now.
    fn look_again(&self, opened: &mut OpenedSource<'a>) {
        let Ok(raw) = fstat(&opened.file) else { return };
        opened.stat = Stat::from(raw);
        opened.metadata = Metadata::new(&raw);
        opened.expected = self.expected(&opened.job, &opened.file, &opened.stat, &mut opened.metadata);
        if let Ok(set) = self.set(&opened.expected) {
            opened.set = set;
        }
    }

    /// Copies a file piece by piece. One that changes meanwhile or is not as recorded is read once more, the
    /// latter from the disk.
    pub(super) fn stream(&mut self, mut opened: OpenedSource<'a>, mut is_second: bool) {
        loop {
            if is_second {
                let _ = rustix::fs::fadvise(&opened.file, 0, None, rustix::fs::Advice::DontNeed);
            }
            let (temporary, sums, length) = match self.copied(&opened) {
                Ok(copied) => copied,
                Err(None) => return self.give_up(opened.identity),
                Err(Some(error)) => return self.failed(&opened.job, opened.identity, error),
            };
            let after = Stat::of(&opened.file);
            let is_same = after.is_ok_and(|after| after.is_same_state(&opened.stat) && after.size == length);
            let mismatch = record::mismatch(&opened.expected, &sums);
            if is_second || is_same && mismatch.is_none() {
                if !is_same {
                    let error = CopyError::Changed { path: opened.job.entry.path() };
                    return self.failed(&opened.job, opened.identity, error);
                }
                return self.judge(opened, temporary, sums, mismatch);
            }
            is_second = true;
            drop(temporary);
            if !is_same {
                self.look_again(&mut opened);
            }
        }
    }

    /// Writes all of a file to one without a name; an error of none if somebody asked to end.
    fn copied(&self, opened: &OpenedSource<'a>) -> Result<(Temporary<'a>, Sums, u64), Option<CopyError>> {
        let target = &opened.job.target;
        let temporary = self.temporary(opened).map_err(Some)?;
        let is_shared = match self.shared.options.reflink {
            Reflink::Never => false,
            wanted => match rustix::fs::ioctl_ficlone(&temporary.file, &opened.file) {
                Ok(()) => true,
                Err(errno) if wanted == Reflink::Always => {
                    let error = CopyError::Reflink { path: target.path(), source: errno.into() };
                    return Err(Some(error));
                }
                Err(_) => false,
            },
        };
        let path = opened.job.entry.path();
        let pump = Pump {
            // What is shared stays as it is, whoever writes to the original.
            from: if is_shared { &temporary.file } else { &opened.file },
            size: opened.stat.size,
            is_sparse: opened.stat.stored < opened.stat.size,
            to: (!is_shared).then_some(&temporary.file),
            counted: Some(&path),
        };
        let (outputs, length) =
            pump.run(self.shared, &opened.set.digests).map_err(|stopped| match stopped {
                Stopped::Asked => None,
                Stopped::Digest(source) => Some(CopyError::Digest { path: path.clone(), source }),
                Stopped::Write(errno) => Some(target.failed("write")(errno)),
                Stopped::Read(errno, offset) => {
                    let (path, operation, offset) = (path.clone(), Operation::Read, Some(offset));
                    Some(FileError::Io { path, operation, offset, source: errno.into() }.into())
                }
            })?;
        Ok((temporary, Sums { set: opened.set.clone(), outputs }, length))
    }

    pub(super) fn temporary(&self, opened: &OpenedSource<'a>) -> Result<Temporary<'a>, CopyError> {
        let target = &opened.job.target;
        Temporary::new(self.shared, &target.directory, opened.metadata.mode).map_err(target.failed("create"))
    }

    /// Takes a whole copy, unless it is one of a bad file that nobody wants.
    pub(super) fn judge(
        &mut self,
        opened: OpenedSource<'a>,
        temporary: Temporary<'a>,
        sums: Sums,
        mismatch: Option<Mismatch>,
    ) {
        if let Some(mismatch) = &mismatch
            && !self.shared.options.allow_bad
        {
            let outcome = CopyOutcome::Bad(mismatch.clone());
            self.tell(&opened.job, outcome, &opened.stat, &opened.metadata, &[]);
            return self.give_up(opened.identity);
        }
        let target = &opened.job.target;
        let inherits = target.directory.gives_lists;
        match opened.metadata.apply(&temporary.file, self.shared.is_root, inherits) {
            Ok(is_whole) => self.shared.summary().reduced += u64::from(!is_whole),
            Err(errno) => {
                let error = target.failed("set times")(errno);
                return self.failed(&opened.job, opened.identity, error);
            }
        }
        let OpenedSource { job, stat, metadata, expected, replaces, identity, .. } = opened;
        let is_compared = !expected.is_empty();
        let pending = Pending {
            path: job.entry.path(),
            target: job.target,
            temporary,
            sums,
            stat,
            mode: metadata.mode,
            mismatch,
            is_compared,
            replaces,
            identity,
        };
        match self.shared.options.verification {
            Verification::None => self.place(pending),
            Verification::Reread | Verification::Written => self.wait(pending),
        }
    }

    /// Nothing comes of the first name: another one is the first now.
    pub(super) fn give_up(&mut self, identity: Option<Identity>) {
        if let Some(identity) = identity {
            self.again.extend(self.common.links.failed(identity));
        }
    }

    /// The first name is at TO: the others are linked to it.
    pub(super) fn placed(
        &mut self,
        identity: Option<Identity>,
        target: &TargetName<'a>,
        stat: Option<(Stat, u32)>,
        digests: Vec<(Digest, Output)>,
    ) {
        let Some(identity) = identity else { return };
        let (directory, name) = (target.directory.below.clone(), target.name.clone());
        let first = Arc::new(Placed { directory, name, stat, digests });
        for job in self.common.links.placed(identity, first.clone()) {
            self.link_to(job, &first);
        }
    }

    pub(super) fn failed(&mut self, job: &Job<'a>, identity: Option<Identity>, error: CopyError) {
        self.lost(&job.entry.path(), &job.target, identity, error);
    }

    /// Tells that nothing came of a file.
    pub(super) fn lost(
        &mut self,
        path: &Path,
        target: &TargetName<'a>,
        identity: Option<Identity>,
        error: CopyError,
    ) {
        self.shared.tell_plain(path, &target.below(), CopyOutcome::Failed(error));
        self.give_up(identity);
    }

    fn tell(
        &self,
        job: &Job<'a>,
        outcome: CopyOutcome,
        stat: &Stat,
        metadata: &Metadata,
        digests: &[(Digest, Output)],
    ) {
        let paths = (&*job.entry.path(), &*job.target.below());
        self.shared.tell(&event(paths, (stat, metadata.mode), outcome, digests));
    }
}

/// The digests to compute of a file: the chosen one first, and those of its records.
pub(super) fn set_of(
    sets: &Sets,
    options: &CopyOptions,
    expected: &[Expected],
) -> Result<Arc<Set>, verisum_digest::DigestError> {
    let chosen = options.algorithm.as_ref().map(|digest| digest.name());
    let first = chosen.or(expected.first().map(|expected| &*expected.algorithm)).unwrap_or(USUAL);
    let mut names = vec![first];
    for expected in expected {
        if !names.contains(&&*expected.algorithm) {
            names.push(&expected.algorithm);
        }
    }
    sets.of(&names)
}

fn is_late(stat: &Stat) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = u64::try_from(stat.changed.seconds).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(changed)) < LATELY
}
