//! Copies to another place: hashes each file while it is sent, and reads it back from there.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::fs::{Advice, fadvise, fstat};
use verisum_catalog::store::Catalog;
use verisum_digest::{Digest, Output};
use verisum_files::place::{
    FileAnswer, FileIdentity, FileRequest, FileState, Files, KnownState, Place, PlaceError, PlaceEvent,
    Reason, join,
};
use verisum_files::{
    Entry, FileError, Kind, Operation, Order, Roots, Stat, Timestamp, Walk, WalkOptions, lock,
};

use super::batch::event;
use super::between_places::Distant;
use super::digests::{Set, Sets, Sums};
use super::fetch::RemoteTree;
use super::pump::Hasher;
use super::record::{self, Expected, Records, SourceRecord};
use super::shared::Shared;
use super::temporary::is_leftover;
use super::worker::{USUAL, set_of};
use super::{CopyError, CopyEvent, CopyOptions, CopyOutcome, CopySummary, Mismatch, Verification};
use crate::metadata::{MODE_BITS, Metadata};

/// How many files are sent at once: each waits for the network most of the time.
const AT_ONCE: usize = 8;

/// How many connections send to a host.
const CONNECTIONS: usize = 4;

/// The most groups of files that wait for a thread.
const MOST_WAITING: usize = 256;

/// The most small files that are sent together to a host, and the longest of them.
const MOST_GROUP: usize = 128;
const MOST_SMALL: u64 = 64 << 10;

/// A file that is to be sent.
pub(super) struct Outgoing {
    pub(super) origin: FileToSend,
    /// Its path below FROM; empty for FROM itself.
    pub(super) below: PathBuf,
    /// Its path at TO.
    pub(super) path: Vec<u8>,
    pub(super) known: Option<SourceRecord>,
    /// What TO listed of it.
    pub(super) existing: Option<FileState>,
}

/// Where a file that is to be sent is.
pub(super) enum FileToSend {
    Local(Entry),
    Remote(Distant),
}

impl Outgoing {
    /// Its path or address.
    pub(super) fn shown(&self) -> PathBuf {
        match &self.origin {
            FileToSend::Local(entry) => entry.path(),
            FileToSend::Remote(distant) => distant.address.clone(),
        }
    }

    fn system_failed(&self, operation: Operation, errno: rustix::io::Errno) -> CopyError {
        FileError::io(&self.shown(), operation, errno).into()
    }
}

/// A tree from which files are sent.
#[derive(Clone, Copy)]
enum SendSource<'f> {
    Local(&'f Path),
    Listed(RemoteTree<'f>),
}

/// Copies the regular files of a directory, or a file, to another place, such as a host or a bucket.
///
/// The place keeps their content and their times of modification, and a host their modes; links, special files and
/// empty directories are left out, and the summary counts those of them that it met. What is not as recorded is not
/// sent. The sink is told what came of each file, from several threads, in no order.
///
/// # Errors
/// FROM cannot be opened, TO cannot be reached, or the catalogue cannot be read. What fails later is told to the sink.
pub fn copy_to(
    from: &Path,
    to: RemoteTree,
    options: &CopyOptions,
    catalog: Option<&Catalog>,
    sink: &(dyn Fn(&CopyEvent) + Sync),
) -> Result<CopySummary, CopyError> {
    send_tree(SendSource::Local(from), to, options, catalog, sink)
}

/// The same of a tree or file in another place. Each file is fetched to [`CopyOptions::scratch`] first, and compared with
/// its record.
///
/// # Errors
/// A place cannot be reached or listed, or the catalogue cannot be read. What fails later is told to the sink.
pub fn copy_between(
    from: RemoteTree,
    to: RemoteTree,
    options: &CopyOptions,
    catalog: Option<&Catalog>,
    sink: &(dyn Fn(&CopyEvent) + Sync),
) -> Result<CopySummary, CopyError> {
    send_tree(SendSource::Listed(from), to, options, catalog, sink)
}

fn send_tree(
    from: SendSource,
    to: RemoteTree,
    options: &CopyOptions,
    catalog: Option<&Catalog>,
    sink: &(dyn Fn(&CopyEvent) + Sync),
) -> Result<CopySummary, CopyError> {
    let (shown, source) = match from {
        SendSource::Local(path) => (path, None),
        SendSource::Listed(tree) => (tree.address, Some(tree)),
    };
    let of = |catalog| match from {
        SendSource::Local(path) => Records::of(catalog, path),
        SendSource::Listed(tree) => Records::of_address(catalog, tree.address),
    };
    let records = catalog.map(of).transpose()?.flatten();
    let mut lister = (to.open)().map_err(|error| CopyError::place(to.address, error))?;
    let stages = lister.stages();
    let mut options = options.clone();
    if stages {
        let find = |name| Digest::find_with(name, &options.policy);
        let usual = find(USUAL).map_err(|source| CopyError::Digest { path: shown.to_path_buf(), source })?;
        // Not every host computes the digest of every record.
        let chosen = options.algorithm.get_or_insert_with(|| usual.clone());
        let needed = if options.verification == Verification::Reread { chosen.clone() } else { usual };
        // What is wrong with the host is told once.
        let able = lister.capabilities(&[needed], &|_| true);
        able.map_err(|error| CopyError::place(to.address, error))?;
    }
    let mut shared = Shared::new(&options, sink);
    shared.counts_untried = source.is_none();
    let sets = Sets::new(options.policy.clone());
    let (give, take) = mpsc::sync_channel(MOST_WAITING);
    let take = Mutex::new(take);
    thread::scope(|scope| -> Result<(), CopyError> {
        let (listed, answers) = mpsc::sync_channel(MOST_WAITING);
        // Ends when nobody takes its answers any more.
        let listing = scope.spawn(move || {
            let ended = match stages {
                true => lister.list(to.root, &|event| listed.send(event).is_ok()),
                false => Ok(()),
            };
            ended.map(|()| lister)
        });
        for _ in 0..if stages { CONNECTIONS } else { AT_ONCE } {
            scope.spawn(|| send_all(&shared, &sets, (source, to), &take));
        }
        let target_listing = TargetListing { answers, next: None, leftovers: Vec::new() };
        // The threads end when nothing more is given.
        let feed = SendFeed { shared: &shared, to, records, stages, target_listing, give, group: Vec::new() };
        let leftovers = match from {
            SendSource::Local(path) => feed.feed(path),
            SendSource::Listed(tree) => feed.feed_listed(tree),
        }?;
        let listing = listing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let removed = listing.and_then(|mut place| match leftovers.is_empty() {
            true => Ok(()),
            false => place.remove_staged(&leftovers),
        });
        removed.or_else(|error| shared.unlisted(true, to.address, error))
    })?;
    Ok(shared.ended())
}

/// Gives what is found to the threads that send it.
struct SendFeed<'f> {
    shared: &'f Shared<'f>,
    to: RemoteTree<'f>,
    records: Option<Records<'f>>,
    /// Whether the place writes files under other names first, as a host does; small ones then go together.
    stages: bool,
    target_listing: TargetListing,
    give: SyncSender<Vec<Outgoing>>,
    /// Small files that are to be sent together.
    group: Vec<Outgoing>,
}

impl SendFeed<'_> {
    /// Gives all. Returns what a copy left at TO that was killed.
    fn feed(mut self, from: &Path) -> Result<Vec<Vec<u8>>, CopyError> {
        let options = self.shared.options;
        let mut walk_options = WalkOptions::default();
        walk_options.order = Order::Name;
        walk_options.one_file_system = options.one_file_system;
        walk_options.roots = Roots::Trusted;
        walk_options.excludes = options.excludes.clone();
        for found in Walk::new(vec![from.to_path_buf()], walk_options) {
            if self.shared.is_asked() {
                break;
            }
            let entry = match found {
                Ok(entry) => entry,
                Err(error) if error.path() == from => return Err(error.into()),
                Err(error) => {
                    let path = error.path().to_path_buf();
                    self.shared.tell_plain(&path, Path::new(""), CopyOutcome::Failed(error.into()));
                    continue;
                }
            };
            match entry.kind() {
                Kind::File if self.shared.is_stopped() => {
                    self.shared.untried(1);
                    continue;
                }
                Kind::File => {}
                Kind::Directory => continue,
                Kind::Link | Kind::Special => {
                    self.shared.summary().left_out += 1;
                    continue;
                }
            }
            let is_small = entry.stat().is_ok_and(|stat| stat.size <= MOST_SMALL);
            let path = entry.path();
            let below = path.strip_prefix(from).unwrap_or(&path).to_path_buf();
            if !self.give(FileToSend::Local(entry), below, is_small)? {
                break;
            }
        }
        Ok(self.end())
    }

    /// Gives what another place lists.
    fn feed_listed(mut self, from: RemoteTree) -> Result<Vec<Vec<u8>>, CopyError> {
        let failed = |error| CopyError::place(from.address, error);
        let mut lister = (from.open)().map_err(failed)?;
        lister.end_by(&self.shared.options.stop);
        thread::scope(|scope| {
            let (listed, answers) = mpsc::sync_channel(MOST_WAITING);
            let listing = scope.spawn(move || lister.list(from.root, &|event| listed.send(event).is_ok()));
            let fed = self.take(from, &answers);
            // A listing whose answers nobody takes ends.
            drop(answers);
            let listing = listing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let has_begun = fed?;
            listing.or_else(|error| self.shared.unlisted(has_begun, from.address, error))
        })?;
        Ok(self.end())
    }

    /// Gives what is listed. Returns whether there was anything.
    fn take(&mut self, from: RemoteTree, answers: &Receiver<PlaceEvent>) -> Result<bool, CopyError> {
        let mut has_begun = false;
        for event in answers {
            if self.shared.is_stopped() {
                break;
            }
            match Distant::listed(from, event, self.shared) {
                Some((distant, below)) => {
                    has_begun = true;
                    let is_small = distant.seen.size.is_some_and(|size| size <= MOST_SMALL);
                    if !self.give(FileToSend::Remote(distant), below, is_small)? {
                        break;
                    }
                }
                None => continue,
            }
        }
        Ok(has_begun)
    }

    /// Gives a file, at once or with others. Returns whether anybody takes files.
    fn give(&mut self, origin: FileToSend, below: PathBuf, is_small: bool) -> Result<bool, CopyError> {
        let known = match &mut self.records {
            Some(records) => records.recorded(&below)?,
            None => None,
        };
        let path = join(self.to.root, below.as_os_str().as_bytes());
        let existing = self.target_listing.find(&path);
        let file = Outgoing { origin, below, path, known, existing };
        if !self.stages || !is_small {
            return Ok(self.give.send(vec![file]).is_ok());
        }
        self.group.push(file);
        let is_full = self.group.len() >= MOST_GROUP;
        Ok(!is_full || self.give.send(std::mem::take(&mut self.group)).is_ok())
    }

    /// Gives what is left. Returns what a copy left at TO that was killed.
    fn end(self) -> Vec<Vec<u8>> {
        let _ = self.give.send(self.group);
        // Nobody waits for the rest of the listing.
        if self.shared.options.stop.is_due() { Vec::new() } else { self.target_listing.leftovers() }
    }
}

/// The files that TO lists, in the order of their paths.
struct TargetListing {
    answers: Receiver<PlaceEvent>,
    next: Option<(Vec<u8>, FileState)>,
    /// What a copy left that was killed.
    leftovers: Vec<Vec<u8>>,
}

impl TargetListing {
    /// What is listed of a path. Each is asked for once, in order.
    fn find(&mut self, path: &[u8]) -> Option<FileState> {
        while self.next.as_ref().is_none_or(|(next, _)| &next[..] < path) {
            self.next = Some(self.listed()?);
        }
        self.next.as_ref().filter(|(next, _)| next == path).map(|(_, seen)| *seen)
    }

    fn listed(&mut self) -> Option<(Vec<u8>, FileState)> {
        loop {
            // What cannot be listed is taken for missing, and copied.
            let PlaceEvent::Answer(FileAnswer { request, result: Ok(_) }) = self.answers.recv().ok()? else {
                continue;
            };
            let name = request.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if is_leftover(name) {
                self.leftovers.push(request.path.clone());
            }
            return Some((request.path, request.seen));
        }
    }

    /// What a copy left that was killed, anywhere in the tree.
    fn leftovers(mut self) -> Vec<Vec<u8>> {
        while self.listed().is_some() {}
        self.leftovers
    }
}

/// Sends groups of files until none are left.
fn send_all(
    shared: &Shared,
    sets: &Sets,
    (from, to): (Option<RemoteTree>, RemoteTree),
    groups: &Mutex<Receiver<Vec<Outgoing>>>,
) {
    let mut opened: [Option<Box<dyn Place>>; 2] = [None, None];
    loop {
        let next = lock(groups).recv();
        let Ok(group) = next else { break };
        if shared.is_stopped() || group.is_empty() {
            shared.untried(group.len() as u64);
            continue;
        }
        let open = |opened: Option<Box<dyn Place>>, tree: RemoteTree| {
            let place = opened.map_or_else(tree.open, Ok);
            place.map_err(|error| CopyError::place(tree.address, error))
        };
        let [source, target] = opened;
        let places = open(target, to).and_then(|target| {
            let source = from.map(|from| open(source, from)).transpose()?;
            Ok((source, target))
        });
        let (mut source, mut target) = match places {
            Ok(places) => places,
            Err(error) => {
                opened = [None, None];
                shared.tell_plain(&group[0].shown(), &group[0].below, CopyOutcome::Failed(error));
                continue;
            }
        };
        let mut sender = Sender { shared, sets, place: &mut *target, source: source.as_deref_mut(), to };
        if sender.place.stages() {
            sender.stage(&group);
        } else {
            for file in &group {
                if let Err(error) = sender.send(file) {
                    sender.failed(file, error);
                }
            }
        }
        opened = [source, Some(target)];
    }
}

/// Sends files.
pub(super) struct Sender<'s> {
    pub(super) shared: &'s Shared<'s>,
    pub(super) sets: &'s Sets,
    pub(super) place: &'s mut dyn Place,
    /// Where the files are, if that is not here.
    pub(super) source: Option<&'s mut (dyn Place + 'static)>,
    pub(super) to: RemoteTree<'s>,
}

/// A file that is open to be sent.
pub(super) struct OpenedUpload<'f> {
    pub(super) file: &'f Outgoing,
    pub(super) source: File,
    pub(super) stat: Stat,
    pub(super) mode: u32,
    pub(super) expected: Vec<Expected>,
    /// Whether it is read once more, from the disk.
    pub(super) is_second: bool,
    /// What it replaces.
    pub(super) previous: Option<FileState>,
}

impl OpenedUpload<'_> {
    /// Has it read once more, from the disk.
    pub(super) fn read_again(&mut self) -> Result<(), CopyError> {
        self.is_second = true;
        let _ = fadvise(&self.source, 0, None, Advice::DontNeed);
        let now = Stat::of(&self.source).map_err(|errno| self.file.system_failed(Operation::Stat, errno))?;
        if !now.is_same_state(&self.stat) {
            self.expected.clear();
            self.stat = now;
        }
        Ok(())
    }

    pub(super) fn digest_failed(&self, source: verisum_digest::DigestError) -> CopyError {
        CopyError::Digest { path: self.file.shown(), source }
    }

    /// Its bytes, and their digests.
    pub(super) fn content<'c>(
        &'c self,
        shared: &'c Shared<'c>,
        set: &'c Arc<Set>,
    ) -> Result<Content<'c>, CopyError> {
        Ok(Content {
            shared,
            path: self.file.shown(),
            file: &self.source,
            stat: &self.stat,
            set,
            hasher: Hasher::new(&set.digests).map_err(|source| self.digest_failed(source))?,
            expected: &self.expected,
            allows_bad: self.is_second && shared.options.allow_bad,
            length: 0,
            end: None,
        })
    }

    pub(super) fn read_failed(&self, source: io::Error) -> CopyError {
        let (path, operation) = (self.file.shown(), Operation::Read);
        FileError::Io { path, operation, offset: None, source }.into()
    }
}

impl<'s> Sender<'s> {
    /// Opens a file; none if it is at TO already, or it is time to stop: then nothing is left to be told.
    pub(super) fn open<'f>(&mut self, file: &'f Outgoing) -> Result<Option<OpenedUpload<'f>>, CopyError> {
        let entry = match &file.origin {
            FileToSend::Local(entry) => entry,
            FileToSend::Remote(distant) => return self.fetch(file, distant),
        };
        let source = entry.open_regular()?;
        let raw = fstat(&source).map_err(|errno| entry.failed(Operation::Stat, errno))?;
        let stat = Stat::from(raw);
        let mode = raw.st_mode & MODE_BITS;
        let mut expected: Vec<Expected> =
            file.known.as_ref().and_then(|known| known.expected(&stat)).into_iter().collect();
        if Metadata::new(&raw).read_attributes(&source, self.shared.options.tag) {
            record::of_tags(&source, &stat, &mut expected);
        }
        let existing = self.existing(file)?;
        if self.is_current(existing.as_ref(), stat.size, stat.modified) {
            self.shared.options.progress.skip(stat.size);
            let paths = (&*entry.path(), &*file.below);
            self.shared.tell(&event(paths, (&stat, mode), CopyOutcome::Current, &[]));
            return Ok(None);
        }
        let previous = existing.map(|existing| existing.now);
        Ok(Some(OpenedUpload { file, source, stat, mode, expected, is_second: false, previous }))
    }

    /// Sends one file, which the place takes at once or not at all.
    fn send(&mut self, file: &Outgoing) -> Result<(), CopyError> {
        let Some(mut opened) = self.open(file)? else { return Ok(()) };
        let set = set_of(self.sets, self.shared.options, &opened.expected)
            .map_err(|source| opened.digest_failed(source))?;
        let (sums, mismatch, ours) = loop {
            let mut content = opened.content(self.shared, &set)?;
            let about = FileState {
                size: Some(opened.stat.size),
                modified: Some(opened.stat.modified.into()),
                ..FileState::default()
            };
            let written = self.place.write(&file.path, &mut content, &about, opened.previous.as_ref());
            match (content.end, written) {
                (Some(ReadEnd::Whole(sums, mismatch)), Ok(ours)) => break (sums, mismatch, ours),
                (Some(ReadEnd::Stopped), _) => return Ok(()),
                (Some(ReadEnd::Bad(mismatch)), _) if opened.is_second => {
                    self.tell(&opened, CopyOutcome::Bad(mismatch), &[]);
                    return Ok(());
                }
                (Some(ReadEnd::Changed), _) if opened.is_second => {
                    return Err(CopyError::Changed { path: file.shown() });
                }
                (Some(ReadEnd::Bad(_) | ReadEnd::Changed), _) => opened.read_again()?,
                (Some(ReadEnd::Failed(error)), _) => return Err(opened.read_failed(error)),
                (_, Err(error)) => return Err(self.place_failed(file, error)),
                (None, Ok(_)) => return Err(CopyError::Changed { path: file.shown() }),
            }
        };
        self.shared.summary().compared += u64::from(!opened.expected.is_empty());
        if self.shared.options.verification == Verification::Reread
            && let Some(outcome) = self.reread(file, &sums, ours)?
        {
            self.tell(&opened, outcome, &[]);
            return Ok(());
        }
        let outcome = mismatch.map_or(CopyOutcome::Copied, CopyOutcome::CopiedBad);
        self.tell(&opened, outcome, &sums.pairs());
        Ok(())
    }

    /// An error of the place, by the file's name there.
    pub(super) fn place_failed(&self, file: &Outgoing, error: PlaceError) -> CopyError {
        match file.below.as_os_str().is_empty() {
            true => CopyError::place(self.to.address, error),
            false => CopyError::place(&self.to.address.join(&file.below), error),
        }
    }

    pub(super) fn failed(&self, file: &Outgoing, error: CopyError) {
        self.shared.tell_plain(&file.shown(), &file.below, CopyOutcome::Failed(error));
    }

    /// Whether what is at TO was sent from a file of this size and time; of what others sent, whether it was not sent
    /// before the file was modified.
    pub(super) fn is_current(&self, existing: Option<&KnownState>, size: u64, modified: Timestamp) -> bool {
        let is_host = self.place.stages();
        existing.is_some_and(|KnownState { now, original, .. }| {
            let is_in_time = match (original.or(now.modified.filter(|_| is_host)), now.modified) {
                (Some(original), _) => original.is_same(&modified.into()),
                (None, Some(sent)) => sent.time > modified,
                (None, None) => false,
            };
            now.size == Some(size) && is_in_time
        })
    }

    /// What is at TO where a file goes.
    pub(super) fn existing(&mut self, file: &Outgoing) -> Result<Option<KnownState>, CopyError> {
        if self.place.stages() {
            return Ok(file.existing.map(|now| KnownState { now, ..KnownState::default() }));
        }
        self.place.require_name(&file.path).map_err(|error| self.place_failed(file, error))?;
        match self.place.state(&file.path) {
            Ok(known) => Ok(Some(known)),
            Err(PlaceError::File(error)) if error.reason() == Reason::Missing => Ok(None),
            Err(error) => Err(self.place_failed(file, error)),
        }
    }

    /// Has all of it read again at TO; what is wrong with it. Where that is not `ours`, somebody else wrote it since.
    fn reread(
        &mut self,
        file: &Outgoing,
        sums: &Sums,
        ours: Option<FileIdentity>,
    ) -> Result<Option<CopyOutcome>, CopyError> {
        type Again = (Vec<Output>, Option<FileIdentity>);
        let answer: Mutex<Option<Result<Again, FileError>>> = Mutex::new(None);
        let keep = |event: PlaceEvent| {
            if let PlaceEvent::Answer(FileAnswer { result, request }) = event {
                *lock(&answer) = Some(result.map(|read| (read.digests, request.seen.identity)));
            }
            true
        };
        let request = FileRequest { path: file.path.clone(), ..FileRequest::default() };
        let read = self.place.hash(&sums.set.digests, Files::Named(&mut std::iter::once(request)), &keep);
        read.map_err(|error| self.place_failed(file, error))?;
        let failed = |error| self.place_failed(file, error);
        let answer = answer.into_inner().unwrap_or_else(PoisonError::into_inner);
        let nothing = || failed(PlaceError::Machine("read back: no answer".into()));
        let (found, now) = answer.ok_or_else(nothing)?.map_err(|error| failed(error.into()))?;
        let pairs = sums.outputs.iter().zip(&found).zip(&sums.set.digests);
        let mut other = pairs.filter(|((written, found), _)| written != found).peekable();
        if other.peek().is_some() && ours.zip(now).is_some_and(|(ours, now)| ours != now) {
            return Err(failed(PlaceError::Replaced));
        }
        Ok(other.next().map(|((written, found), digest)| CopyOutcome::Differs {
            algorithm: digest.name().to_string(),
            written: *written,
            found: *found,
        }))
    }

    pub(super) fn tell(&self, opened: &OpenedUpload, outcome: CopyOutcome, digests: &[(Digest, Output)]) {
        let about = (&opened.stat, opened.mode);
        self.shared.tell(&event((&opened.file.shown(), &opened.file.below), about, outcome, digests));
    }
}

/// How the reading of a file ended.
pub(super) enum ReadEnd {
    /// Its digests, and the record that it contradicts and may.
    Whole(Sums, Option<Mismatch>),
    Bad(Mismatch),
    Changed,
    Failed(io::Error),
    /// Somebody asked to end.
    Stopped,
}

/// The bytes of a file, which are hashed while they are read. At their end it fails if they are not what they should be:
/// so nothing comes of what was sent.
pub(super) struct Content<'c> {
    shared: &'c Shared<'c>,
    path: PathBuf,
    file: &'c File,
    stat: &'c Stat,
    set: &'c Arc<Set>,
    hasher: Hasher<'c>,
    expected: &'c [Expected],
    /// Whether it may be different content from the recorded one.
    allows_bad: bool,
    length: u64,
    pub(super) end: Option<ReadEnd>,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let fails = |content: &mut Self, end| {
            content.end = Some(end);
            Err(io::Error::other("it is not what is to be sent"))
        };
        if self.end.is_some() || buffer.is_empty() {
            return Ok(0);
        }
        if self.shared.is_stopped() {
            return fails(self, ReadEnd::Stopped);
        }
        self.shared.options.progress.now_at(|| self.path.clone());
        if let Some(limits) = &self.shared.options.limits {
            limits.wait(buffer.len() as u64, 1, &self.shared.options.stop);
        }
        let offset = self.length;
        let count = match rustix::io::retry_on_intr(|| rustix::io::pread(self.file, &mut *buffer, offset)) {
            Ok(0) => match self.ended() {
                ReadEnd::Whole(sums, mismatch) => {
                    self.end = Some(ReadEnd::Whole(sums, mismatch));
                    return Ok(0);
                }
                end => return fails(self, end),
            },
            Ok(count) => count,
            Err(errno) => return fails(self, ReadEnd::Failed(errno.into())),
        };
        self.length += count as u64;
        if let Err(error) = self.hasher.add(&buffer[..count]) {
            return fails(self, ReadEnd::Failed(io::Error::other(error.to_string())));
        }
        self.shared.options.progress.add(0, count as u64);
        Ok(count)
    }
}

impl Content<'_> {
    /// Looks whether all that was read is what it should be.
    fn ended(&mut self) -> ReadEnd {
        match Stat::of(self.file) {
            Ok(after) if after.is_same_state(self.stat) && after.size == self.length => {}
            Ok(_) => return ReadEnd::Changed,
            Err(errno) => return ReadEnd::Failed(errno.into()),
        }
        let outputs = match self.hasher.finish() {
            Ok(outputs) => outputs,
            Err(error) => return ReadEnd::Failed(io::Error::other(error.to_string())),
        };
        let sums = Sums { set: self.set.clone(), outputs };
        match record::mismatch(self.expected, &sums) {
            Some(mismatch) if !self.allows_bad => ReadEnd::Bad(mismatch),
            mismatch => ReadEnd::Whole(sums, mismatch),
        }
    }
}
