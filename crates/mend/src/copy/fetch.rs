//! Copies from a host or a bucket: lists its files, and fetches their bytes.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::fstat;
use verisum_catalog::store::Catalog;
use verisum_digest::{Output, part_length};
use verisum_files::place::{
    FileRecord, FileRequest, FileState, MOST_WHOLE, Modified, Place, PlaceError, PlaceEvent, RecordedDigest,
    WholeFile,
};
use verisum_files::{Directory, Kind, Stat, lock};

use super::batch::{Pending, event};
use super::digests::{Set, Sets, Sums};
use super::engine::sync_names;
use super::links::Links;
use super::place_feed::PlaceFeed;
use super::pump::Hasher;
use super::record::{self, Expected, SourceRecord};
use super::shared::Shared;
use super::target::TargetName;
use super::temporary::Temporary;
use super::worker::{Common, Worker};
use super::{CopyError, CopyEvent, CopyOptions, CopyOutcome, CopySummary, Mismatch, Verification};
use crate::metadata::MODE_BITS;

/// How many files are fetched at once. sshd lets a connection have ten sessions, and each takes two.
const AT_ONCE: usize = 4;

/// How many files a thread holds open until they are on the disk.
const MOST_PENDING: usize = 200;

/// The most answers, and files, that wait for a thread.
const MOST_WAITING: usize = 256;

/// The bytes of one read.
const PIECE: usize = 256 << 10;

/// The most small files that are fetched at once, and the most bytes of them.
const MOST_GROUP: usize = 256;
const MOST_GROUP_BYTES: u64 = 4 << 20;

/// The mode of new files, of which the process's mask is taken away.
const FILE_MODE: u32 = 0o666;

/// A tree or file in a place that is not this machine.
#[derive(Clone, Copy)]
pub struct RemoteTree<'a> {
    /// Its address, as the catalogue has those of trees.
    pub address: &'a Path,
    /// Its path in its place.
    pub root: &'a [u8],
    /// Opens the place: once to list it, and once for each file that is fetched at a time.
    pub open: &'a (dyn Fn() -> Result<Box<dyn Place>, PlaceError> + Sync),
}

/// A file that is to be fetched.
pub(super) struct RemoteFile<'a> {
    /// Its path in its place.
    pub(super) path: Vec<u8>,
    /// Its address.
    pub(super) address: PathBuf,
    pub(super) seen: FileState,
    pub(super) target: TargetName<'a>,
    /// What the catalogue says of it.
    pub(super) known: Option<SourceRecord>,
    /// What it says of what is at TO.
    pub(super) recorded: Option<SourceRecord>,
    /// What the keeper of its place recorded of it, as soon as that was asked for.
    pub(super) stored: Option<Vec<Expected>>,
}

/// Copies the regular files of a tree in another place to the directory TO, or a file to the name TO or into the
/// directory TO.
///
/// They get their times; owners, modes and links are not told by such places. Each file is compared with the
/// record that `catalog` has of it. The sink is told what came of each file, from several threads, in no order.
///
/// # Errors
/// The place cannot be reached or listed, or TO cannot be made. What fails later is told to the sink.
pub fn copy_from(
    from: RemoteTree,
    to: &Path,
    options: &CopyOptions,
    catalog: Option<&Catalog>,
    sink: &(dyn Fn(&CopyEvent) + Sync),
) -> Result<CopySummary, CopyError> {
    let shared = Shared::new(options, sink);
    fetch_tree(&shared, from, to, catalog)?;
    Ok(shared.ended())
}

fn fetch_tree<'a>(
    shared: &'a Shared<'a>,
    from: RemoteTree,
    to: &Path,
    catalog: Option<&Catalog>,
) -> Result<(), CopyError> {
    let mut feed = PlaceFeed::new(shared, from, to, catalog)?;
    let mut lister = (from.open)().map_err(|error| CopyError::place(from.address, error))?;
    lister.end_by(&shared.options.stop);
    let top = thread::scope(|scope| {
        let (listed, answers) = mpsc::sync_channel(MOST_WAITING);
        let listing = scope.spawn(move || lister.list(from.root, &|event| listed.send(event).is_ok()));
        let fed = feed_workers(shared, from, &mut feed, &answers);
        // A listing whose answers nobody takes ends.
        drop(answers);
        let listing = listing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let top = fed?;
        listing.or_else(|error| shared.unlisted(top.is_some(), from.address, error))?;
        Ok::<_, CopyError>(top)
    })?;
    drop(feed);
    match top {
        Some(top) => sync_names(shared, &top, to),
        None => Ok(()),
    }
}

/// Hands files to threads that fetch them. Returns TO, if there was anything to copy.
fn feed_workers<'a>(
    shared: &'a Shared<'a>,
    from: RemoteTree,
    feed: &mut PlaceFeed<'a, '_, '_>,
    answers: &Receiver<PlaceEvent>,
) -> Result<Option<Arc<Directory>>, CopyError> {
    // The first file says whether FROM is one itself, and so what TO is.
    let first = loop {
        if shared.is_stopped() {
            return Ok(None);
        }
        match answers.recv() {
            Err(_) => return Ok(None),
            Ok(event) => {
                if let Some(file) = feed.file(event)? {
                    break file;
                }
            }
        }
    };
    let Some(top) = feed.top() else { return Ok(None) };
    let common = Common {
        shared,
        sets: Sets::new(shared.options.policy.clone()),
        links: Links::default(),
        top: top.clone(),
        most_pending: MOST_PENDING,
    };
    let (give, take) = mpsc::sync_channel(MOST_WAITING);
    let take = Mutex::new(take);
    thread::scope(|scope| -> Result<(), CopyError> {
        // The threads end when it is dropped.
        let give = give;
        for _ in 0..AT_ONCE {
            scope.spawn(|| fetch_all(&common, from, &take));
        }
        let mut next = Some(first);
        loop {
            if let Some(file) = next.take()
                && give.send(file).is_err()
            {
                return Ok(());
            }
            if shared.is_stopped() {
                return Ok(());
            }
            let Ok(event) = answers.recv() else { return Ok(()) };
            next = feed.file(event)?;
        }
    })?;
    Ok(Some(top))
}

/// Fetches files until none are left.
fn fetch_all<'a>(common: &Common<'a>, from: RemoteTree, files: &Mutex<Receiver<RemoteFile<'a>>>) {
    let mut fetcher = Fetcher { worker: Worker::new(common), group: Vec::new(), group_bytes: 0 };
    let mut opened: Option<Box<dyn Place>> = None;
    loop {
        let next = lock(files).recv();
        let Ok(file) = next else { break };
        let place = match opened.take().map_or_else(from.open, Ok) {
            Ok(place) => opened.insert(place),
            Err(error) => {
                let error = CopyError::place(&file.address, error);
                fetcher.worker.lost(&file.address, &file.target, None, error);
                continue;
            }
        };
        fetcher.fetch(&mut **place, file);
    }
    if let Some(place) = &mut opened {
        fetcher.fetch_group(&mut **place);
    }
    fetcher.worker.end();
}

/// A file that is not at TO yet.
struct Wanted<'a> {
    file: RemoteFile<'a>,
    /// Whether something has its name at TO.
    replaces: bool,
}

/// One thread's files.
struct Fetcher<'a, 'c> {
    worker: Worker<'a, 'c>,
    /// Small files that are fetched at once.
    group: Vec<Wanted<'a>>,
    group_bytes: u64,
}

impl<'a> Fetcher<'a, '_> {
    fn fetch(&mut self, place: &mut dyn Place, file: RemoteFile<'a>) {
        if self.worker.shared.is_stopped() {
            return;
        }
        let replaces = match self.worker.replaces(place, &file) {
            Ok(Some(replaces)) => replaces,
            Ok(None) => return,
            Err(error) => return self.worker.lost(&file.address, &file.target, None, error),
        };
        let wanted = Wanted { file, replaces };
        match wanted.file.seen.size {
            Some(size) if size <= MOST_WHOLE => {
                self.group.push(wanted);
                self.group_bytes += size;
                if self.group.len() >= MOST_GROUP || self.group_bytes >= MOST_GROUP_BYTES {
                    self.fetch_group(place);
                }
            }
            _ => self.worker.fetch_alone(place, wanted),
        }
    }

    /// Fetches small files by one request, or by some at once, and hashes them side by side.
    fn fetch_group(&mut self, place: &mut dyn Place) {
        let group = std::mem::take(&mut self.group);
        self.group_bytes = 0;
        if group.is_empty() || self.worker.shared.is_stopped() {
            return;
        }
        let requests: Vec<FileRequest> = group.iter().map(|wanted| wanted.file.request()).collect();
        let mut group = group;
        let files = group.iter_mut().map(|wanted| &mut wanted.file).zip(place_records(place, &requests));
        files.for_each(|(file, record)| file.take_record(record.as_ref()));
        // What fails for all fails for each, and is told of it.
        let whole = place.read_whole(&requests).unwrap_or_default();
        let mut whole = whole.into_iter().chain(std::iter::repeat_with(|| None));
        let (mut arena, mut read, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        for wanted in group {
            let found = whole.next().flatten().filter(|found| found.known.now == wanted.file.seen);
            let set = self.worker.set(&wanted.file.expected());
            match (found, set) {
                (Some(found), Ok(set)) => {
                    let start = arena.len();
                    arena.extend_from_slice(&found.content);
                    messages.push((set, start..arena.len()));
                    read.push((wanted, found));
                }
                _ => self.worker.fetch_alone(place, wanted),
            }
        }
        let Ok(sums) = self.worker.batches.hash(&arena, &messages) else {
            read.into_iter().for_each(|(wanted, _)| self.worker.fetch_alone(place, wanted));
            return;
        };
        for ((wanted, WholeFile { content, known }), sums) in read.into_iter().zip(sums) {
            let expected = wanted.file.expected();
            if record::mismatch(&expected, &sums).is_some() {
                // It is read once more.
                self.worker.fetch_alone(place, wanted);
                continue;
            }
            let written = self.worker.temporary_of(&wanted.file).and_then(|temporary| {
                let written = (&temporary.file).write_all(&content);
                written.map_err(|source| CopyError::target(&wanted.file.target.path(), "write", source))?;
                Ok(temporary)
            });
            self.worker.shared.options.progress.now_at(|| wanted.file.target.path());
            self.worker.shared.options.progress.add(0, content.len() as u64);
            let fetched = FetchedRead {
                sums,
                mismatch: None,
                is_compared: !expected.is_empty(),
                original: known.original,
            };
            self.worker.ended(&wanted, written.and_then(|temporary| wanted.pending(temporary, fetched)));
        }
    }
}

/// What was read of a file.
struct FetchedRead {
    sums: Sums,
    mismatch: Option<Mismatch>,
    is_compared: bool,
    /// When the file was modified that it was uploaded from.
    original: Option<Modified>,
}

impl RemoteFile<'_> {
    /// What is recorded of it, if nobody seems to have written to it since.
    fn expected(&self) -> Vec<Expected> {
        let known = self.known.as_ref().and_then(|known| known.expected_there(&self.address, &self.seen));
        known.into_iter().chain(self.stored.iter().flatten().cloned()).collect()
    }

    fn request(&self) -> FileRequest {
        FileRequest { path: self.path.clone(), seen: self.seen, ..FileRequest::default() }
    }

    fn take_record(&mut self, record: Option<&FileRecord>) {
        self.stored =
            Some(record.and_then(|record| record::of_place(record, &self.seen)).into_iter().collect());
    }
}

impl<'a> Wanted<'a> {
    /// Gives a copy its time.
    fn pending(&self, temporary: Temporary<'a>, fetched: FetchedRead) -> Result<Pending<'a>, CopyError> {
        let (file, target) = (&self.file, &self.file.target);
        let FetchedRead { sums, mismatch, is_compared, original } = fetched;
        if let Some(modified) = original.or(file.seen.modified) {
            modified.time.set(&temporary.file).map_err(target.failed("set times"))?;
        }
        Ok(Pending {
            path: file.address.clone(),
            target: target.clone(),
            sums,
            stat: Stat::of(&temporary.file).map_err(target.failed("stat"))?,
            mode: fstat(&temporary.file).map_or(FILE_MODE, |stat| stat.st_mode & MODE_BITS),
            temporary,
            mismatch,
            is_compared,
            replaces: self.replaces,
            identity: None,
        })
    }
}

impl<'a> Worker<'a, '_> {
    /// Whether something at TO is to be replaced; none if the file is there already.
    fn replaces(&self, place: &mut dyn Place, file: &RemoteFile<'a>) -> Result<Option<bool>, CopyError> {
        let directory = &file.target.directory;
        let existing = if directory.was_there { file.target.stat()? } else { None };
        let Some(existing) = existing else { return Ok(Some(false)) };
        file.target.require_replaceable(&existing)?;
        let there = Stat::from(existing);
        // What is not recorded is fetched again: it is as sure as to read both.
        let is_wanted = self.shared.options.record
            && file.recorded.as_ref().is_none_or(|known| known.is_bad() || known.expected(&there).is_none());
        if !is_wanted
            && there.kind == Kind::File
            && Some(there.size) == file.seen.size
            && is_current(place, file, &there)?
        {
            self.shared.options.progress.skip(there.size);
            self.tell_fetched(file, &there, CopyOutcome::Current);
            return Ok(None);
        }
        Ok(Some(true))
    }

    fn fetch_alone(&mut self, place: &mut dyn Place, mut wanted: Wanted<'a>) {
        if self.shared.is_stopped() {
            return;
        }
        match self.fetched(place, &mut wanted.file) {
            Ok(None) => {}
            Ok(Some((temporary, fetched))) => {
                let pending = wanted.pending(temporary, fetched);
                self.ended(&wanted, pending);
            }
            Err(error) => self.ended(&wanted, Err(error)),
        }
    }

    /// Takes a whole copy, or tells why there is none.
    fn ended(&mut self, wanted: &Wanted<'a>, pending: Result<Pending<'a>, CopyError>) {
        match (pending, self.shared.options.verification) {
            (Ok(pending), Verification::None) => self.place(pending),
            (Ok(pending), Verification::Reread | Verification::Written) => self.wait(pending),
            (Err(error), _) => self.lost(&wanted.file.address, &wanted.file.target, None, error),
        }
    }

    /// Fetches a file, and once more if it changes meanwhile or is not as recorded; none if that is told.
    fn fetched(
        &mut self,
        place: &mut dyn Place,
        file: &mut RemoteFile<'a>,
    ) -> Result<Option<(Temporary<'a>, FetchedRead)>, CopyError> {
        let mut is_second = false;
        loop {
            if file.stored.is_none() {
                let records = place_records(place, &[file.request()]);
                file.take_record(records.first().and_then(Option::as_ref));
            }
            let expected = file.expected();
            let set = self.set(&expected);
            let set = set.map_err(|source| CopyError::Digest { path: file.address.clone(), source })?;
            let Some((temporary, outputs, length)) = self.download(place, file, &set)? else {
                return Ok(None);
            };
            let sums = Sums { set, outputs };
            let after = place.state(&file.path).map_err(|error| CopyError::place(&file.address, error))?;
            let is_same = after.now == file.seen && file.seen.size.is_none_or(|size| size == length);
            let mismatch = record::mismatch(&expected, &sums);
            if is_same && (is_second || mismatch.is_none()) {
                if let Some(mismatch) = mismatch.as_ref().filter(|_| !self.shared.options.allow_bad) {
                    let stat = Stat::of(&temporary.file).map_err(file.target.failed("stat"))?;
                    self.tell_fetched(file, &stat, CopyOutcome::Bad(mismatch.clone()));
                    return Ok(None);
                }
                let (is_compared, original) = (!expected.is_empty(), after.original);
                return Ok(Some((temporary, FetchedRead { sums, mismatch, is_compared, original })));
            }
            if is_second {
                return Err(CopyError::Changed { path: file.address.clone() });
            }
            is_second = true;
            (file.seen, file.stored) = (after.now, None);
        }
    }

    fn temporary_of(&self, file: &RemoteFile<'a>) -> Result<Temporary<'a>, CopyError> {
        let target = &file.target;
        Temporary::new(self.shared, &target.directory, FILE_MODE).map_err(target.failed("create"))
    }

    /// Writes all of a file to one without a name, and hashes it; none if somebody asked to end.
    fn download(
        &self,
        place: &mut dyn Place,
        file: &RemoteFile<'a>,
        set: &Set,
    ) -> Result<Option<(Temporary<'a>, Vec<Output>, u64)>, CopyError> {
        let digest = |source| CopyError::Digest { path: file.address.clone(), source };
        let failed = |error| CopyError::place(&file.address, error);
        let target = &file.target;
        let temporary = self.temporary_of(file)?;
        let mut hasher = Hasher::new(&set.digests).map_err(digest)?;
        // A byte more than there should be shows that there is no more.
        let range = 0..file.seen.size.map_or(i64::MAX as u64, |size| size.saturating_add(1));
        let mut content = place.read_listed(&file.request(), range).map_err(failed)?;
        let mut buffer = vec![0; PIECE];
        let mut length = 0;
        loop {
            if self.shared.is_stopped() {
                return Ok(None);
            }
            if let Some(limits) = &self.shared.options.limits {
                limits.wait(PIECE as u64, 1, &self.shared.options.stop);
            }
            self.shared.options.progress.now_at(|| target.path());
            let count = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(PlaceError::Machine(format!("read: {error}").into()))),
            };
            (&temporary.file)
                .write_all(&buffer[..count])
                .map_err(|source| CopyError::target(&target.path(), "write", source))?;
            hasher.add(&buffer[..count]).map_err(digest)?;
            length += count as u64;
            self.shared.options.progress.add(0, count as u64);
        }
        Ok(Some((temporary, hasher.finish().map_err(digest)?, length)))
    }

    fn tell_fetched(&self, file: &RemoteFile<'a>, stat: &Stat, outcome: CopyOutcome) {
        let paths = (&*file.address, &*file.target.below());
        self.shared.tell(&event(paths, (stat, FILE_MODE), outcome, &[]));
    }
}

/// What the keeper of a place recorded of files; what cannot be asked for is said by whoever reads them.
pub(super) fn place_records(place: &mut dyn Place, files: &[FileRequest]) -> Vec<Option<FileRecord>> {
    let told = match place.tells_records() {
        true => place.records(files).unwrap_or_default(),
        false => Vec::new(),
    };
    let mut told: Vec<Option<FileRecord>> =
        told.into_iter().chain(std::iter::repeat_with(|| None)).take(files.len()).collect();
    for (file, record) in files.iter().zip(&mut told) {
        if let Some(record) = record {
            make_certain(place, file, &mut record.digests);
        }
    }
    told
}

/// Asks whether a checksum of parts is one of this file, where nothing else would tell that the file is not what was
/// written there. An ETag may be no digest of the content.
fn make_certain(place: &mut dyn Place, file: &FileRequest, digests: &mut [RecordedDigest]) {
    if digests.iter().any(|recorded| recorded.is_certain) {
        return;
    }
    let is_checksum = |recorded: &&mut RecordedDigest| !recorded.algorithm.starts_with("s3-etag:");
    for recorded in digests.iter_mut().filter(is_checksum) {
        if let Some(length) = part_length(&recorded.algorithm) {
            recorded.is_certain = place.has_parts_of(file, length);
            return;
        }
    }
}

/// Whether a file at TO has the time of its original, or of the file that this was uploaded from.
fn is_current(place: &mut dyn Place, file: &RemoteFile, there: &Stat) -> Result<bool, CopyError> {
    let is_same = |time: Option<Modified>| {
        time.is_some_and(|time| {
            time.is_same(&there.modified.into())
                || file.target.directory.is_same_time(time.time, there.modified)
        })
    };
    if is_same(file.seen.modified) {
        return Ok(true);
    }
    let known = place.state(&file.path).map_err(|error| CopyError::place(&file.address, error))?;
    Ok(known.now == file.seen && is_same(known.original))
}
