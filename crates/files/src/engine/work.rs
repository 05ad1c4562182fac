//! The worker threads that read and hash files.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::io::Errno;
use verisum_digest::{Batch, Digest, Output};
use verisum_pagecache::WayTimes;

use super::budget::Budget;
use super::links::{FirstRead, Links, NameTurn};
use super::pool::{Ended, PieceGroup, Pool};
use super::share::Shares;
use super::small::{LATELY, before};
use super::source::{JobSource, NumberedJob, Pulled};
use super::split::Stretch;
use super::stream::OpenedStream;
use super::{Content, Hashed, Job, Plan};
use crate::{FileError, Kind, Operation, Stat, system};

/// The room for what a thread has read and hashes as one batch: about what fits a second-level cache.
pub(super) const ARENA: usize = 1 << 20;

/// The room for pieces of large files, where more than that is worth reading.
pub(super) const LARGE_ARENA: usize = 2 << 20;

/// How much farther than whole pages the buffers of an arena lie from each other: at the same place of a
/// page each, the lanes would compete for a few cache sets.
pub(super) const STAGGER: usize = 5 * CACHE_LINE;

const CACHE_LINE: usize = 64;

/// The most messages that any digest hashes side by side.
const MOST_LANES: usize = 64;

/// How many arenas more than its own must find room before a thread takes one that could be done without.
const SPARE_ROOM: usize = 4;

/// What the threads share.
pub(super) struct Engine<'a, T> {
    pub(super) plan: &'a Plan,
    wanted: &'a (dyn Fn(&T) -> bool + Sync),
    prepare: &'a (dyn Fn(Job<T>) -> Option<Job<T>> + Sync),
    done: &'a (dyn Fn(Hashed<T>) -> ControlFlow<()> + Sync),
    pub(super) source: JobSource<'a, T>,
    pub(super) pool: Pool<T>,
    pub(super) links: Option<Links<T>>,
    pub(super) threads: usize,
    /// For each set.
    pub(super) times: Vec<WayTimes>,
    most_taken: usize,
    most_streams: usize,
    /// `done` has broken, or a thread has panicked.
    broken: AtomicBool,
    /// Reading leaves the time of the last access as it is; only a file's owner may ask for that.
    no_access_time: AtomicBool,
}

/// What a thread is to do.
enum NextWork<T> {
    /// To give up a file that is not wanted any more.
    GiveUp(Ended<T>),
    /// To hash parts of a file.
    Stretch(Stretch),
    /// To hash pieces of files.
    Pieces(PieceGroup<T>),
    /// To open files; without any in progress it may wait for them.
    Open { is_idle: bool },
    /// To wait for what other threads do.
    Wait,
    /// Nothing any more.
    Over,
}

/// What a thread keeps from batch to batch.
pub(super) struct Worker {
    pub(super) arena: Arena,
    /// The room for a piece that is longer.
    pub(super) room: Vec<u8>,
    /// For each set, one for each digest.
    pub(super) batches: Vec<Vec<Batch>>,
    /// Jobs that were reported since the source was last told.
    finished: Vec<u64>,
    /// Small files do not come from memory.
    pub(super) slow: bool,
    /// The device of the last small file, and whether the times there are of this system's clock.
    pub(super) device: Option<u64>,
    pub(super) has_our_clock: bool,
}

/// What was opened and may be no file.
pub(super) struct OpenedName<T> {
    pub(super) job: NumberedJob<T>,
    pub(super) file: File,
    /// What the file system says of it, if that is known.
    pub(super) stat: Option<Stat>,
}

/// How many bytes of a file were hashed, and how many of them were read: those of holes were not.
#[derive(Clone, Copy, Default)]
pub(super) struct Lengths {
    pub(super) hashed: u64,
    pub(super) read: u64,
}

/// Memory that begins with a cache line.
pub(super) struct Arena(Vec<u8>);

impl Arena {
    const LEN: usize = LARGE_ARENA + MOST_LANES * STAGGER + CACHE_LINE;

    /// None if there is not so much memory.
    fn new() -> Option<Arena> {
        has_room(Arena::LEN).then(|| Arena(vec![0; Arena::LEN]))
    }

    /// One for a thread that can be done without; none where memory is so short that those who cannot be
    /// may soon have too little.
    fn spare() -> Option<Arena> {
        if has_room(SPARE_ROOM * Arena::LEN) { Arena::new() } else { None }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE);
        &mut self.0[start..]
    }
}

impl Worker {
    /// Makes room for a piece of this length, if there is so much memory.
    pub(super) fn make_room(&mut self, length: usize) {
        if self.room.len() != length {
            self.room = if has_room(SPARE_ROOM * length) { vec![0; length] } else { Vec::new() };
        }
    }
}

/// Whether so much memory is to be had. To ask first, and then have it zeroed by the system, touches none of it;
/// to reserve it and write zeros would touch all of it, which takes longer than hashing a small file.
fn has_room(bytes: usize) -> bool {
    let mut room = Vec::<u8>::new();
    let there = room.try_reserve_exact(bytes).is_ok();
    // Or nothing is asked for, since nothing is done with it.
    std::hint::black_box(&room);
    there
}

impl<'a, T: Send> Engine<'a, T> {
    pub(super) fn new(
        plan: &'a Plan,
        jobs: &'a mut (dyn Iterator<Item = Job<T>> + Send),
        wanted: &'a (dyn Fn(&T) -> bool + Sync),
        prepare: &'a (dyn Fn(Job<T>) -> Option<Job<T>> + Sync),
        done: &'a (dyn Fn(Hashed<T>) -> ControlFlow<()> + Sync),
    ) -> Self {
        let lanes: Vec<usize> =
            plan.sets.iter().map(|set| set.iter().map(Digest::lanes).max().unwrap_or(1)).collect();
        let budget = Budget::of_process();
        let threads = budget.threads(plan.threads);
        let streams = plan.streams.or_else(|| plan.limits.as_ref()?.streams());
        let lanes: Vec<usize> = match streams {
            Some(most) => lanes.iter().map(|lanes| (most / threads).clamp(1, *lanes)).collect(),
            None => lanes,
        };
        let side_by_side = lanes.iter().max().map_or(1, |lanes| lanes * threads);
        Engine {
            plan,
            wanted,
            prepare,
            done,
            source: JobSource::new(jobs, plan.window, budget.waiting(), threads),
            pool: Pool::new(Shares::new(plan, &lanes, threads), threads, streams),
            links: plan.hard_links_once.then(Links::new),
            threads,
            times: plan.sets.iter().map(|_| WayTimes::default()).collect(),
            most_taken: budget.files_at_once(threads),
            most_streams: budget.streams(streams.unwrap_or(side_by_side)),
            broken: AtomicBool::new(false),
            no_access_time: AtomicBool::new(true),
        }
    }

    /// Works until everything is done, unless there is no memory for one thread more.
    pub(super) fn help(&self) {
        if let Some(arena) = Arena::spare() {
            self.work_in(arena, &|| {});
        }
    }

    /// Works until everything is done, and calls for help as soon as there is more to do than one small file.
    pub(super) fn work(&self, call_for_help: &dyn Fn()) {
        match Arena::new() {
            Some(arena) => self.work_in(arena, call_for_help),
            None => self.refuse(),
        }
    }

    /// Says of each file that there is no memory to read it into.
    fn refuse(&self) {
        while let Pulled::Jobs(jobs) = self.source.pull(1, true) {
            for NumberedJob { number, job: Job { entry, token, .. } } in jobs {
                let result = Err(FileError::io(&entry.path(), Operation::Read, Errno::NOMEM));
                if (self.done)(Hashed { entry, token, result }).is_break() {
                    return;
                }
                self.source.finished(std::iter::once(number));
            }
        }
    }

    fn work_in(&self, arena: Arena, call_for_help: &dyn Fn()) {
        let _guard = Guard(self);
        let batch = |set: &Vec<Digest>| set.iter().map(Digest::batch).collect::<Result<_, _>>();
        let batches = self.plan.sets.iter().map(batch).collect::<Result<Vec<Vec<Batch>>, _>>();
        let batches = batches.unwrap_or_default();
        let (room, finished) = Default::default();
        let mut worker =
            Worker { arena, room, batches, finished, slow: false, device: None, has_our_clock: false };
        // Files are opened and pieces hashed by turns while the lanes are not full.
        let mut opens = true;
        let mut wakeful = true;
        loop {
            if self.is_broken() || self.plan.stop.is_due() {
                self.give_up(&mut worker);
                break;
            }
            let mark = self.pool.mark();
            match self.next_work(opens) {
                NextWork::GiveUp(left) => {
                    self.fail(left.reader.opened, |path| FileError::Stopped { path }, &mut worker);
                    self.tell(&mut worker);
                    continue;
                }
                NextWork::Stretch(stretch) => {
                    call_for_help();
                    self.hash_stretch(stretch, &mut worker);
                    self.tell(&mut worker);
                    (opens, wakeful) = (true, true);
                    continue;
                }
                NextWork::Pieces(group) => {
                    call_for_help();
                    self.advance(group, &mut worker);
                    self.tell(&mut worker);
                    (opens, wakeful) = (true, true);
                    continue;
                }
                NextWork::Open { is_idle } => {
                    let found = self.open_more(is_idle, call_for_help, &mut worker);
                    // Else pieces are hashed, if there are any, before it is asked again.
                    if found || opens {
                        (opens, wakeful) = (false, wakeful || found);
                        continue;
                    }
                }
                NextWork::Wait => {}
                NextWork::Over => break,
            }
            wakeful = self.pool.wait(mark, wakeful);
            opens = true;
        }
        self.pool.wake();
    }

    /// Finds what a thread is to do now. The pool knows of one that is to open files.
    fn next_work(&self, opens: bool) -> NextWork<T> {
        let mut state = self.pool.lock();
        // Where there are limits a file waits for its turn for so long that it may not be wanted any more.
        if self.plan.limits.is_some()
            && let Some(left) = state.remove_unwanted(|token| self.is_wanted(token))
        {
            return NextWork::GiveUp(left);
        }
        let live = state.live();
        let has_more = || !self.source.is_exhausted() || self.source.has_waiting();
        let may_open = live < self.most_streams && has_more();
        if !opens || !may_open || live >= self.lanes() {
            if let Some(stretch) = state.take_stretch(&self.times, self.threads, &self.plan.progress) {
                return NextWork::Stretch(stretch);
            }
            if let Some(group) = self.pool.take(&mut state) {
                return NextWork::Pieces(group);
            }
        }
        if may_open {
            state.brings();
            return NextWork::Open { is_idle: live == 0 };
        }
        match state.is_idle() && !has_more() {
            true => NextWork::Over,
            false => NextWork::Wait,
        }
    }

    /// Opens files, and says whether there were any.
    fn open_more(&self, is_idle: bool, call_for_help: &dyn Fn(), worker: &mut Worker) -> bool {
        let pulled = self.source.pull(self.most_taken, is_idle);
        let found = matches!(pulled, Pulled::Jobs(_));
        if let Pulled::Jobs(jobs) = pulled {
            if jobs.len() > 1 || !self.source.is_exhausted() || self.source.has_waiting() {
                call_for_help();
            }
            self.open_all(jobs, worker);
        }
        self.tell(worker);
        self.pool.lock().brought();
        found
    }

    /// The most files that are worth hashing side by side.
    fn lanes(&self) -> usize {
        self.plan.sets.iter().flatten().map(Digest::lanes).max().unwrap_or(1)
    }

    /// Reports everything that no thread is at.
    fn give_up(&self, worker: &mut Worker) {
        self.source.close();
        loop {
            let given_up = self.pool.lock().remove_any();
            let Some(given_up) = given_up else { break };
            self.fail(given_up.reader.opened, |path| FileError::Stopped { path }, worker);
        }
        loop {
            let given_up = self.pool.lock().remove_split();
            let Some(given_up) = given_up else { break };
            self.fail(given_up, |path| FileError::Stopped { path }, worker);
        }
        while let Pulled::Jobs(jobs) = self.source.pull(1, false) {
            for job in jobs {
                let path = job.job.entry.path();
                self.report(job, Err(FileError::Stopped { path }), worker);
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

    /// Whether a file is to be opened or read now.
    pub(super) fn is_wanted(&self, token: &T) -> bool {
        !self.plan.stop.is_due() && (self.wanted)(token)
    }

    /// The job that the caller makes of one, if there is anything left to do.
    pub(super) fn prepared(&self, job: NumberedJob<T>, worker: &mut Worker) -> Option<NumberedJob<T>> {
        let NumberedJob { number, job } = job;
        match (self.prepare)(job) {
            Some(job) => Some(NumberedJob { number, job }),
            None => {
                worker.finished.push(number);
                None
            }
        }
    }

    /// Opens a file, unless somebody has left it open and said what is known of it. `None` if there is
    /// nothing more to do for the job.
    pub(super) fn open(&self, mut job: NumberedJob<T>, worker: &mut Worker) -> Option<OpenedName<T>> {
        let held = job.job.entry.take_held();
        let entry = &job.job.entry;
        let opened = if !self.is_wanted(&job.job.token) {
            Err(FileError::Stopped { path: entry.path() })
        } else if entry.kind() != Kind::File {
            Err(FileError::NotAFile { path: entry.path() })
        } else if let Some((file, stat)) = held {
            Ok((file, Some(stat)))
        } else {
            let file = entry.open_quietly(&self.no_access_time);
            file.map(|file| (file, None)).map_err(|cause| entry.failed(Operation::Open, cause))
        };
        match opened {
            Ok((file, stat)) => Some(OpenedName { job, file: file.into(), stat }),
            Err(error) => {
                self.report(job, Err(error), worker);
                None
            }
        }
    }

    /// Finds out whether what was opened is a file. `None` if there is nothing more to do for it now.
    pub(super) fn look(&self, found: OpenedName<T>, worker: &mut Worker) -> Option<OpenedStream<T>> {
        let OpenedName { job, file, stat } = found;
        let entry = &job.job.entry;
        let before = match stat.map_or_else(|| Stat::of(&file), Ok) {
            Ok(stat) if stat.kind == Kind::File => {
                self.settled(&file, stat).map_err(|cause| entry.failed(Operation::Stat, cause))
            }
            Ok(_) => Err(FileError::NotAFile { path: entry.path() }),
            Err(cause) => Err(entry.failed(Operation::Stat, cause)),
        };
        let before = match before {
            Ok(before) => before,
            Err(error) => {
                self.report(job, Err(error), worker);
                return None;
            }
        };
        let awaited = before.links > 1 && self.links.is_some();
        let job = match &self.links {
            Some(links) if awaited => match links.turn(job, &before) {
                NameTurn::Read(job) => job,
                NameTurn::Waits => return None,
                NameTurn::Known(job, digests, length) => {
                    let content =
                        Content { digests, file, before, after: before, length, read: 0, is_own_read: false };
                    self.report(job, Ok(content), worker);
                    return None;
                }
            },
            _ => job,
        };
        Some(OpenedStream { job, file: Arc::new(file), before, after: None, again: false, awaited })
    }

    /// What the file system says of a file that is about to be read, so that whatever is written from now on
    /// can be seen by its times, if the plan is for that. What was not changed lately can be left as it is.
    fn settled(&self, file: &File, stat: Stat) -> Result<Stat, Errno> {
        if !self.plan.settles || stat.changed < before(LATELY) {
            return Ok(stat);
        }
        let mut stat = stat;
        for _ in 0..3 {
            if !system::settle(file, &stat) {
                break;
            }
            let now = Stat::of(file)?;
            if now.is_same_state(&stat) {
                break;
            }
            // Somebody wrote to it meanwhile. Who never stops is found out by the read.
            stat = now;
        }
        Ok(stat)
    }

    /// Reports what was read, or returns the file to be read again if it has changed for the first time.
    pub(super) fn finish(
        &self,
        mut opened: OpenedStream<T>,
        digests: Vec<Output>,
        Lengths { hashed: length, read }: Lengths,
        worker: &mut Worker,
    ) -> Option<OpenedStream<T>> {
        let after = match opened.after.take().map_or_else(|| Stat::of(&opened.file), Ok) {
            Ok(after) => after,
            Err(cause) => {
                self.fail(opened, |path| FileError::io(&path, Operation::Stat, cause), worker);
                return None;
            }
        };
        let same = opened.before.is_same_state(&after);
        if !same && !opened.again {
            // ext4 shows a shorter length before the times that come with it. This waits for whoever is at it.
            let _ = rustix::fs::seek(&opened.file, rustix::fs::SeekFrom::Data(0));
            let after = Stat::of(&opened.file).unwrap_or(after);
            (opened.before, opened.again) = (self.settled(&opened.file, after).unwrap_or(after), true);
            return Some(opened);
        }
        let OpenedStream { job, file, before, awaited, .. } = opened;
        let file = match Arc::try_unwrap(file).or_else(|shared| shared.try_clone()) {
            Ok(file) => file,
            Err(cause) => {
                let path = job.job.entry.path();
                self.report(job, Err(FileError::io(&path, Operation::Open, cause)), worker);
                return None;
            }
        };
        if let Some(links) = &self.links
            && awaited
        {
            let found = same.then_some(FirstRead { after: &after, outputs: &digests, length });
            self.source.give_back(links.read(job.job.set, &before, found));
        }
        self.report(
            job,
            Ok(Content { digests, file, before, after, length, read, is_own_read: true }),
            worker,
        );
        None
    }

    pub(super) fn fail(
        &self,
        opened: OpenedStream<T>,
        error: impl FnOnce(PathBuf) -> FileError,
        worker: &mut Worker,
    ) {
        if let Some(links) = &self.links
            && opened.awaited
        {
            self.source.give_back(links.read(opened.job.job.set, &opened.before, None));
        }
        let error = error(opened.job.job.entry.path());
        self.report(opened.job, Err(error), worker);
    }

    /// Calls `done`.
    fn report(&self, job: NumberedJob<T>, result: Result<Content, FileError>, worker: &mut Worker) {
        let NumberedJob { number, job: Job { entry, token, .. } } = job;
        self.plan.progress.add(1, 0);
        worker.finished.push(number);
        if !self.is_broken() && (self.done)(Hashed { entry, token, result }).is_break() {
            self.broken.store(true, Ordering::Relaxed);
        }
    }

    /// Whether nobody wants to hear of any more.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }
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
