//! What each thread does until there is no more.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use verisum_digest::{Batch, Digest, Output};

use super::links::{Links, Turn};
use super::pool::{Pool, Slot, Task};
use super::source::{Numbered, Pulled, Source};
use super::stream::{Chunk, Hasher, Opened, Reader, read_at};
use super::{Content, Hashed, Job, Plan};
use crate::{Error, Kind, Operation, Stat};

/// The longest file that is read whole.
const SMALL: u64 = 64 << 10;

/// The room for small files that are hashed as one batch: about what fits a second-level cache.
const ARENA: usize = 1 << 20;

/// The most files that a thread takes at once.
const MOST_TAKEN: usize = 128;

/// The most large files that are open at the same time, if the plan does not say.
const MOST_STREAMS: usize = 256;

/// A small file that takes longer to read does not come from memory: others are asked for ahead.
const SLOW: Duration = Duration::from_micros(60);

/// What the threads share.
pub(super) struct Engine<'a, T> {
    plan: &'a Plan,
    done: &'a (dyn Fn(Hashed<T>) -> ControlFlow<()> + Sync),
    source: Source<'a, T>,
    pool: Pool<T>,
    links: Option<Links<T>>,
    most_taken: usize,
    most_streams: usize,
    /// `done` has broken, or a thread has panicked.
    broken: AtomicBool,
    /// Reading leaves the time of the last access as it is; only a file's owner may ask for that.
    no_access_time: AtomicBool,
}

/// What a thread keeps from batch to batch.
struct Worker {
    arena: Vec<u8>,
    /// For each set, one for each digest.
    batches: Vec<Vec<Batch>>,
    /// Jobs that were reported since the source was last told.
    finished: Vec<u64>,
    slow: bool,
}

/// A small file in the arena.
struct Whole<T> {
    opened: Opened<T>,
    place: Range<usize>,
}

impl<'a, T: Send> Engine<'a, T> {
    pub(super) fn new(
        plan: &'a Plan,
        jobs: &'a mut (dyn Iterator<Item = Job<T>> + Send),
        done: &'a (dyn Fn(Hashed<T>) -> ControlFlow<()> + Sync),
    ) -> Self {
        let lanes: Vec<usize> =
            plan.sets.iter().map(|set| set.iter().map(Digest::lanes).max().unwrap_or(1)).collect();
        let threads = plan.threads.max(1);
        let side_by_side = lanes.iter().max().map_or(1, |lanes| lanes * threads);
        // Each file may hold a directory open besides itself; the rest of the process needs some too.
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20) as usize;
        let share = descriptors.saturating_sub(128) / 4;
        Engine {
            plan,
            done,
            source: Source::new(jobs, plan.window),
            pool: Pool::new(lanes, threads),
            links: plan.hard_links_once.then(Links::new),
            most_taken: (share / threads).clamp(4, MOST_TAKEN),
            most_streams: plan.streams.unwrap_or(side_by_side.min(MOST_STREAMS)).clamp(1, share.max(1)),
            broken: AtomicBool::new(false),
            no_access_time: AtomicBool::new(true),
        }
    }

    /// Works until everything is done.
    pub(super) fn work(&self) {
        let _guard = Guard(self);
        let batch = |set: &Vec<Digest>| set.iter().map(Digest::batch).collect::<Result<_, _>>();
        let batches = self.plan.sets.iter().map(batch).collect::<Result<Vec<Vec<Batch>>, _>>();
        let batches = batches.unwrap_or_default();
        let mut worker = Worker { arena: vec![0; ARENA], batches, finished: Vec::new(), slow: false };
        let mut impatient = false;
        // Files are opened and pieces hashed by turns while the lanes are not full.
        let mut opens = true;
        loop {
            if self.broken.load(Ordering::Relaxed) || self.plan.stop.is_due() {
                self.give_up(&mut worker);
                break;
            }
            let mut state = self.pool.lock();
            let live = state.live();
            if (!opens || live >= self.lanes())
                && let Some(task) = self.pool.take(&mut state, impatient)
            {
                drop(state);
                self.run(task, &mut worker);
                (opens, impatient) = (true, false);
                continue;
            }
            if live < self.most_streams && (!self.source.is_exhausted() || self.source.has_returned()) {
                state.brings();
                drop(state);
                let pulled = self.source.pull(self.most_taken, live == 0);
                let some = matches!(pulled, Pulled::Jobs(_));
                if let Pulled::Jobs(jobs) = pulled {
                    self.open_all(jobs, &mut worker);
                }
                self.tell(&mut worker);
                state = self.pool.lock();
                state.brought();
                if some {
                    opens = false;
                    continue;
                }
            }
            if let Some(task) = self.pool.take(&mut state, impatient) {
                drop(state);
                self.run(task, &mut worker);
                (opens, impatient) = (true, false);
                continue;
            }
            if state.is_idle() && self.source.is_exhausted() && !self.source.has_returned() {
                break;
            }
            impatient = self.pool.wait(state);
        }
        self.pool.wake();
    }

    /// The most files that are worth hashing side by side.
    fn lanes(&self) -> usize {
        self.plan.sets.iter().flatten().map(Digest::lanes).max().unwrap_or(1)
    }

    /// Reports everything that no thread is at.
    fn give_up(&self, worker: &mut Worker) {
        self.source.close();
        loop {
            let slot = self.pool.lock().remove_any();
            let Some(slot) = slot else { break };
            if let Some(reader) = slot.reader {
                self.fail(reader.opened, |path| Error::Stopped { path }, worker);
            }
        }
        while let Pulled::Jobs(jobs) = self.source.pull(1, false) {
            for job in jobs {
                let path = job.job.entry.path();
                self.report(job, Err(Error::Stopped { path }), worker);
            }
        }
        self.tell(worker);
    }

    /// Tells the source which jobs are finished, and others that there may be more to take.
    fn tell(&self, worker: &mut Worker) {
        if !worker.finished.is_empty() {
            self.source.finished(worker.finished.drain(..));
            self.pool.wake();
        }
    }

    fn run(&self, task: Task<T>, worker: &mut Worker) {
        match task {
            Task::Read(parts) => self.read(parts),
            Task::Hash(set, parts) => {
                self.hash(set, parts, worker);
                self.tell(worker);
            }
        }
        self.pool.wake();
    }

    /// Fills buffers of large files.
    fn read(&self, parts: Vec<(usize, Reader<T>, Chunk)>) {
        let mut filled = Vec::with_capacity(parts.len());
        for (number, mut reader, mut chunk) in parts {
            reader.fill(&mut chunk);
            if let Some(limits) = &self.plan.limits {
                limits.wait(chunk.stored(), 1, &self.plan.stop);
            }
            filled.push((number, reader, chunk));
        }
        let mut state = self.pool.lock();
        for (number, reader, chunk) in filled {
            if let Some(slot) = state.slot(number) {
                slot.reader = Some(reader);
                slot.full.push_back(chunk);
            }
        }
        state.brought();
    }

    /// Hashes pieces of large files side by side, and finishes the files that end.
    fn hash(&self, set: usize, mut parts: Vec<(usize, Hasher, Chunk)>, worker: &mut Worker) {
        let digests = &self.plan.sets[set];
        let mut result = Ok(());
        for (index, digest) in digests.iter().enumerate() {
            let mut messages: Vec<_> = parts
                .iter_mut()
                .map(|(_, hasher, chunk)| (&mut hasher.messages[index], chunk.bytes()))
                .collect();
            result = result.and_then(|()| digest.advance(&mut messages));
        }
        let mut bytes = 0;
        let mut ended = Vec::new();
        let mut state = self.pool.lock();
        for (number, mut hasher, chunk) in parts {
            let length = chunk.bytes().len() as u64;
            hasher.length += length;
            bytes += length;
            if let Err(error) = &result {
                hasher.failure = Some(error.clone());
            }
            let failure = match (&hasher.failure, chunk.failure) {
                (Some(error), _) => Some(Failed::Digest(error.clone())),
                (None, cause) => cause.map(Failed::Read),
            };
            let ends = chunk.last || failure.is_some();
            let Some(slot) = state.slot(number) else { continue };
            slot.hasher = Some(hasher);
            slot.empty.push(chunk);
            // After a digest failed, another thread may still be reading: then it ends with a later piece.
            if ends
                && slot.reader.is_some()
                && let Some(slot) = state.remove(number)
            {
                ended.push((slot, failure));
            }
        }
        drop(state);
        self.plan.progress.add(0, bytes);
        for (slot, failure) in ended {
            self.end_stream(slot, failure, worker);
        }
    }

    fn end_stream(&self, mut slot: Slot<T>, failure: Option<Failed>, worker: &mut Worker) {
        let (Some(mut reader), Some(mut hasher)) = (slot.reader.take(), slot.hasher.take()) else { return };
        let length = hasher.length;
        let outputs = match failure {
            Some(failure) => Err(failure),
            None => hasher.finish(&self.plan.sets[slot.set]).map_err(Failed::Digest),
        };
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(failure) => return self.fail(reader.opened, |path| failure.error(path), worker),
        };
        match self.finish(reader.opened, outputs, length, worker) {
            None => {}
            Some(again) => {
                reader = Reader::new(again);
                self.pool.lock().add(Slot { reader: Some(reader), hasher: Some(hasher), ..slot });
            }
        }
    }

    /// Opens files; the small ones are read and hashed, the large ones begun.
    fn open_all(&self, jobs: Vec<Numbered<T>>, worker: &mut Worker) {
        let mut small = Vec::with_capacity(jobs.len());
        for job in jobs {
            let Some(opened) = self.open(job, worker) else { continue };
            if opened.before.size <= SMALL {
                small.push(opened);
            } else {
                self.begin(opened, worker);
            }
        }
        if worker.slow {
            for opened in &small {
                let _ = rustix::fs::fadvise(&opened.file, 0, None, rustix::fs::Advice::WillNeed);
            }
        }
        let started = Instant::now();
        let mut hashing = Duration::ZERO;
        let count = small.len();
        let mut wholes: Vec<Whole<T>> = Vec::with_capacity(count);
        let mut used = 0;
        for opened in small {
            // A byte more than there should be shows that there is no more.
            let room = (opened.before.size as usize + 1).max(4096);
            if used + room > ARENA {
                let from = Instant::now();
                self.hash_wholes(std::mem::take(&mut wholes), worker);
                hashing += from.elapsed();
                used = 0;
            }
            if let Some(limits) = &self.plan.limits {
                limits.wait(opened.before.size, 1, &self.plan.stop);
            }
            match read_whole(&opened, &mut worker.arena[used..used + room]) {
                Ok(Some(length)) => {
                    wholes.push(Whole { opened, place: used..used + length });
                    // Not at the same place of a page each: the lanes would compete for a few cache sets.
                    used += (length + 64).next_multiple_of(64);
                }
                // It is longer than it was.
                Ok(None) => self.begin(opened, worker),
                Err(cause) => self.fail(opened, |path| Failed::Read(cause).error(path), worker),
            }
        }
        // What is asked for ahead is not counted by a limit.
        let unlimited = self.plan.limits.is_none();
        worker.slow = unlimited && count > 0 && (started.elapsed() - hashing) / count as u32 > SLOW;
        self.hash_wholes(wholes, worker);
    }

    /// Opens a file and finds out whether it is one. `None` if there is nothing more to do for the job now.
    fn open(&self, mut job: Numbered<T>, worker: &mut Worker) -> Option<Opened<T>> {
        let held = job.job.entry.take_held();
        let entry = &job.job.entry;
        if self.plan.stop.is_due() {
            let error = Error::Stopped { path: entry.path() };
            return self.report(job, Err(error), worker);
        }
        let not_a_file = |path| Error::NotAFile { path };
        if entry.kind() != Kind::File {
            let error = not_a_file(entry.path());
            return self.report(job, Err(error), worker);
        }
        let file = held.map_or_else(|| entry.open_quietly(&self.no_access_time), Ok);
        let opened = file
            .map_err(|e| (Operation::Open, e))
            .and_then(|file| Stat::of(&file).map(|stat| (file, stat)).map_err(|e| (Operation::Stat, e)));
        let (file, before) = match opened {
            Ok(opened) => opened,
            Err((operation, cause)) => {
                let error = entry.failed(operation, cause);
                return self.report(job, Err(error), worker);
            }
        };
        if before.kind != Kind::File {
            let error = not_a_file(entry.path());
            return self.report(job, Err(error), worker);
        }
        let file = file.into();
        let awaited = before.links > 1 && self.links.is_some();
        let job = match &self.links {
            Some(links) if awaited => match links.turn(job, &before) {
                Turn::Read(job) => job,
                Turn::Waits => return None,
                Turn::Known(job, digests, length) => {
                    let content =
                        Content { digests, file, before, after: before, length, is_own_read: false };
                    return self.report(job, Ok(content), worker);
                }
            },
            _ => job,
        };
        Some(Opened { job, file, before, again: false, awaited })
    }

    /// Puts a large file among those in progress.
    fn begin(&self, opened: Opened<T>, worker: &mut Worker) {
        let set = opened.job.job.set;
        let hasher = match Hasher::new(&self.plan.sets[set]) {
            Ok(hasher) => hasher,
            Err(error) => return self.fail(opened, |path| Failed::Digest(error).error(path), worker),
        };
        self.pool.lock().add(Slot {
            set,
            reader: Some(Reader::new(opened)),
            hasher: Some(hasher),
            full: Default::default(),
            empty: Vec::new(),
        });
    }

    /// Hashes the small files in the arena.
    fn hash_wholes(&self, wholes: Vec<Whole<T>>, worker: &mut Worker) {
        if wholes.is_empty() {
            return;
        }
        let mut outputs: Vec<Result<Vec<Output>, verisum_digest::Error>> = Vec::new();
        outputs.resize_with(wholes.len(), || Ok(Vec::new()));
        for (set, digests) in self.plan.sets.iter().enumerate() {
            let members: Vec<usize> =
                (0..wholes.len()).filter(|&index| wholes[index].opened.job.job.set == set).collect();
            if members.is_empty() {
                continue;
            }
            let messages: Vec<&[u8]> =
                members.iter().map(|&index| &worker.arena[wholes[index].place.clone()]).collect();
            for (digest, batch) in digests.iter().zip(&mut worker.batches[set]) {
                let mut bytes = vec![0; digest.len() * members.len()];
                let result = batch.hash(&messages, &mut bytes);
                for (place, &index) in members.iter().enumerate() {
                    let mut output = Output::zeroed(digest.len());
                    output.as_mut_bytes().copy_from_slice(&bytes[place * digest.len()..][..digest.len()]);
                    match (&mut outputs[index], &result) {
                        (Ok(outputs), Ok(())) => outputs.push(output),
                        (slot, Err(error)) => *slot = Err(error.clone()),
                        (Err(_), Ok(())) => {}
                    }
                }
            }
        }
        self.plan.progress.add(0, wholes.iter().map(|whole| whole.place.len() as u64).sum());
        for (whole, outputs) in wholes.into_iter().zip(outputs) {
            match outputs {
                Ok(outputs) => {
                    if let Some(again) = self.finish(whole.opened, outputs, whole.place.len() as u64, worker)
                    {
                        self.begin(again, worker);
                    }
                }
                Err(error) => self.fail(whole.opened, |path| Failed::Digest(error).error(path), worker),
            }
        }
    }

    /// Reports what was read, or returns the file to be read again if it has changed for the first time.
    fn finish(
        &self,
        mut opened: Opened<T>,
        digests: Vec<Output>,
        length: u64,
        worker: &mut Worker,
    ) -> Option<Opened<T>> {
        let after = match Stat::of(&opened.file) {
            Ok(after) => after,
            Err(cause) => {
                self.fail(opened, |path| Error::io(&path, Operation::Stat, cause), worker);
                return None;
            }
        };
        let same = opened.before.is_same_state(&after);
        if !same && !opened.again {
            (opened.before, opened.again) = (after, true);
            return Some(opened);
        }
        let Opened { job, file, before, awaited, .. } = opened;
        if let Some(links) = &self.links
            && awaited
        {
            let found = same.then_some((&after, digests.as_slice(), length));
            self.source.give_back(links.read(job.job.set, &before, found));
        }
        self.report(job, Ok(Content { digests, file, before, after, length, is_own_read: true }), worker);
        None
    }

    fn fail(&self, opened: Opened<T>, error: impl FnOnce(std::path::PathBuf) -> Error, worker: &mut Worker) {
        if let Some(links) = &self.links
            && opened.awaited
        {
            self.source.give_back(links.read(opened.job.job.set, &opened.before, None));
        }
        let error = error(opened.job.job.entry.path());
        self.report(opened.job, Err(error), worker);
    }

    /// Calls `done`. Returns `None`, for those who have nothing more to do then.
    fn report(
        &self,
        job: Numbered<T>,
        result: Result<Content, Error>,
        worker: &mut Worker,
    ) -> Option<Opened<T>> {
        let Numbered { number, job: Job { entry, token, .. } } = job;
        self.plan.progress.add(1, 0);
        worker.finished.push(number);
        if !self.broken.load(Ordering::Relaxed) && (self.done)(Hashed { entry, token, result }).is_break() {
            self.broken.store(true, Ordering::Relaxed);
        }
        None
    }
}

/// Why a file that was opened has no digests.
enum Failed {
    Read(Errno),
    Digest(verisum_digest::Error),
}

impl Failed {
    fn error(self, path: std::path::PathBuf) -> Error {
        match self {
            Failed::Read(cause) => Error::io(&path, Operation::Read, cause),
            Failed::Digest(source) => Error::Digest { path, source },
        }
    }
}

/// Reads all of a file and returns its length; `None` if it fills the buffer, which is longer than the file
/// was.
fn read_whole<T>(opened: &Opened<T>, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
    let mut length = 0;
    while length < buffer.len() {
        let count = read_at(&opened.file, &mut buffer[length..], length as u64)?;
        length += count;
        if count == 0 || length as u64 == opened.before.size && length > 0 {
            return Ok(Some(length));
        }
    }
    Ok(None)
}

/// Lets the other threads end if one panics.
struct Guard<'a, 'b, T>(&'a Engine<'b, T>);

impl<T> Drop for Guard<'_, '_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
            self.0.pool.wake();
        }
    }
}
