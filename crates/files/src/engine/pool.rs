//! The pool of large files in progress, and the next task for a thread.
//!
//! A thread takes the next piece of each of several files, reads them into its own buffer and hashes them
//! side by side, as a processor's vectors want it: the bytes stay in its own cache. Meanwhile another
//! thread reads the pieces that follow, and hashes them when their turn has come. So where there are only
//! as many files as one processor hashes at once, others do the reading.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use verisum_digest::Message;

use super::share::Shares;
use super::source::lock;
use super::split::Split;
use super::stream::{Hasher, StreamReader};

/// How long a thread sleeps at most before it looks again.
const NAP: Duration = Duration::from_millis(1);

/// How long it looks again and again before it sleeps: about as long as a group takes to be hashed. Waking
/// a processor takes long on some machines, and all that time nothing would be hashed.
const WAKEFUL: Duration = Duration::from_micros(250);

/// A sleep may last so much longer than it was to.
const LATE: Duration = Duration::from_micros(200);

/// A file in progress.
pub(super) struct FileSlot<T> {
    set: usize,
    /// Whether it gains nothing by others beside it.
    is_alone: bool,
    /// Not here while a thread reads.
    reader: Option<StreamReader<T>>,
    /// Not here while a thread hashes.
    hasher: Option<Hasher>,
    /// How many pieces were taken to be read, and how many of them are hashed.
    taken: u64,
    hashed: u64,
    /// When a thread began to hash the last piece, and how long the one before it took.
    began: Instant,
    took: Duration,
}

/// The next pieces of several files of one set.
pub(super) struct PieceGroup<T> {
    pub(super) set: usize,
    pub(super) parts: Vec<(PieceTurn, StreamReader<T>)>,
    /// Whether these are all files of the set, and there are other threads: those read on, and then wait
    /// until these are hashed.
    pub(super) is_all: bool,
}

/// The hasher of a file, which has hashed one more piece of it.
pub(super) struct HashedPiece {
    pub(super) turn: PieceTurn,
    pub(super) hasher: Hasher,
    /// Whether the file is to end.
    pub(super) is_last: bool,
}

/// Which piece of which file.
#[derive(Clone, Copy)]
pub(super) struct PieceTurn {
    slot: usize,
    piece: u64,
}

/// A file that has come to its end.
pub(super) struct Ended<T> {
    pub(super) set: usize,
    pub(super) reader: StreamReader<T>,
    pub(super) hasher: Hasher,
}

pub(super) struct Pool<T> {
    state: Mutex<PoolState<T>>,
    changed: Condvar,
    /// Counts what threads that wait want to hear of.
    changes: AtomicU64,
    pub(super) shares: Shares,
    threads: usize,
    /// The most files that are read side by side: more may be open. What was begun is read to its end first.
    streams: usize,
}

pub(super) struct PoolState<T> {
    slots: Vec<Option<FileSlot<T>>>,
    free: Vec<usize>,
    /// Those that are hashed in parts.
    pub(super) splits: Vec<Split<T>>,
    /// Threads that may bring more files.
    bringing: usize,
}

impl<T> Pool<T> {
    pub(super) fn new(shares: Shares, threads: usize, streams: Option<usize>) -> Self {
        let streams = streams.unwrap_or(usize::MAX);
        let state = PoolState { slots: Vec::new(), free: Vec::new(), splits: Vec::new(), bringing: 0 };
        let changes = AtomicU64::new(0);
        Pool { state: Mutex::new(state), changed: Condvar::new(), changes, shares, threads, streams }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, PoolState<T>> {
        lock(&self.state)
    }

    /// Tells threads that wait to look again.
    pub(super) fn wake(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.changed.notify_all();
    }

    /// A mark to [`Pool::wait`] from, made before looking whether that is needed.
    pub(super) fn mark(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Waits until something has changed since the mark, but not for long; false if nothing has. Who has
    /// waited in vain is no longer `wakeful`: then it is a disk that all wait for.
    pub(super) fn wait(&self, mark: u64, wakeful: bool) -> bool {
        let started = Instant::now();
        while wakeful && started.elapsed() < WAKEFUL {
            if self.mark() != mark {
                return true;
            }
            thread::yield_now();
        }
        let state = self.lock();
        if self.mark() == mark {
            drop(self.changed.wait_timeout(state, NAP));
        }
        self.mark() != mark
    }

    /// The next pieces to read and hash.
    pub(super) fn take(&self, state: &mut PoolState<T>) -> Option<PieceGroup<T>> {
        let begun = state.slots.iter().flatten().filter(|slot| slot.taken > 0).count();
        let mut may_begin = self.streams.saturating_sub(begun);
        let may_read = |slot: &FileSlot<T>| slot.is_readable() && (slot.taken > 0 || may_begin > 0);
        let set = state.slots.iter().flatten().find(|slot| may_read(slot))?.set;
        let live = state.slots.iter().flatten().filter(|slot| slot.set == set);
        let (live, is_alone) = live.fold((0, true), |(live, all), slot| (live + 1, all && slot.is_alone));
        let most = if is_alone { 1 } else { self.shares.of(set, live) };
        let ready = state.slots.iter().enumerate().filter_map(|(number, slot)| {
            let slot = slot.as_ref().filter(|slot| slot.set == set && may_read(slot))?;
            // Those that nobody is at need not be waited for. Others are read for those who hash them.
            let is_new = self.streams < usize::MAX && slot.taken == 0;
            Some((!slot.is_whole(), is_new, Reverse(slot.reader.as_ref()?.left()), number))
        });
        // Of the longest first, so that all end at about the same time.
        let mut ready: Vec<_> = ready.collect();
        ready.sort_unstable();
        let is_waiting = ready.first().is_some_and(|(is_waiting, ..)| *is_waiting);
        ready.retain(|other| other.0 == is_waiting);
        let mut parts = Vec::with_capacity(most);
        for (.., number) in ready.into_iter().take(most) {
            if let Some(slot) = state.slot(number)
                && (slot.taken > 0 || may_begin > 0)
                && let Some(reader) = slot.reader.take()
            {
                parts.push((PieceTurn { slot: number, piece: slot.taken }, reader));
                may_begin -= usize::from(slot.taken == 0);
                slot.taken += 1;
            }
        }
        let is_all = self.threads > 1 && parts.len() == live;
        Some(PieceGroup { set, parts, is_all })
    }

    /// Gives the readers of a group back, so that others may read on, and keeps whose turn it was.
    pub(super) fn read(&self, parts: Vec<(PieceTurn, StreamReader<T>)>) -> Vec<PieceTurn> {
        let mut state = self.lock();
        let turns = parts.into_iter().map(|(turn, reader)| {
            if let Some(slot) = state.slot(turn.slot) {
                slot.reader = Some(reader);
            }
            turn
        });
        let turns = turns.collect();
        drop(state);
        self.wake();
        turns
    }

    /// Waits until all earlier pieces of these files are hashed. `None` if `gone` says that this may never
    /// come. Groups are taken one after the other, so that they never wait for each other.
    pub(super) fn hashers(&self, turns: &[PieceTurn], gone: impl Fn() -> bool) -> Option<Vec<Hasher>> {
        let mut wakeful = true;
        loop {
            let mark = self.mark();
            let mut state = self.lock();
            if turns.iter().all(|turn| state.slot(turn.slot).is_some_and(|slot| slot.hashed == turn.piece)) {
                let now = Instant::now();
                let hasher = |turn: &PieceTurn| state.slot(turn.slot)?.begin(now);
                return turns.iter().map(hasher).collect();
            }
            let left = turns.iter().filter_map(|turn| Some(state.slot(turn.slot)?.left())).max();
            drop(state);
            if gone() {
                return None;
            }
            match left.and_then(|left| left.checked_sub(LATE)) {
                // The other processor is somebody else's meanwhile.
                Some(left) if !left.is_zero() => thread::sleep(left.min(NAP)),
                _ => wakeful = self.wait(mark, wakeful),
            }
        }
    }

    /// Gives the hashers of a group back, and takes out those files
    /// that nobody else is at: after a failure another thread may still hold a later piece, and ends it.
    pub(super) fn hashed(&self, parts: impl Iterator<Item = HashedPiece>) -> Vec<Ended<T>> {
        let mut ended = Vec::new();
        let mut state = self.lock();
        for HashedPiece { turn, hasher, is_last } in parts {
            let Some(slot) = state.slot(turn.slot) else { continue };
            slot.hasher = Some(hasher);
            slot.hashed += 1;
            slot.took = slot.began.elapsed();
            if is_last && slot.is_whole() {
                ended.extend(state.remove(turn.slot));
            }
        }
        drop(state);
        self.wake();
        ended
    }
}

impl<T> PoolState<T> {
    /// How many files are in progress.
    pub(super) fn live(&self) -> usize {
        self.slots.len() - self.free.len() + self.splits.len()
    }

    /// Whether nothing is in progress and nobody may bring something.
    pub(super) fn is_idle(&self) -> bool {
        self.live() == 0 && self.bringing == 0
    }

    /// Says that this thread may bring files, until [`PoolState::brought`].
    pub(super) fn brings(&mut self) {
        self.bringing += 1;
    }

    pub(super) fn brought(&mut self) {
        self.bringing -= 1;
    }

    /// Adds a file.
    pub(super) fn add(&mut self, set: usize, reader: StreamReader<T>, hasher: Hasher) {
        let slot = FileSlot {
            set,
            is_alone: hasher.messages.iter().all(Message::is_alone),
            reader: Some(reader),
            hasher: Some(hasher),
            taken: 0,
            hashed: 0,
            began: Instant::now(),
            took: Duration::ZERO,
        };
        match self.free.pop() {
            Some(number) => self.slots[number] = Some(slot),
            None => self.slots.push(Some(slot)),
        }
    }

    /// Takes out a file that no thread holds a part of.
    pub(super) fn remove_any(&mut self) -> Option<Ended<T>> {
        let number = self.slots.iter().position(|slot| slot.as_ref().is_some_and(FileSlot::is_whole))?;
        self.remove(number)
    }

    /// Takes out a file of which nothing was read yet, and that is not wanted any more.
    pub(super) fn remove_unwanted(&mut self, is_wanted: impl Fn(&T) -> bool) -> Option<Ended<T>> {
        let is_unwanted = |slot: &FileSlot<T>| {
            let opened = slot.reader.as_ref().map(|reader| &reader.opened);
            let is_unread = slot.taken == 0 && slot.is_whole();
            is_unread && opened.is_some_and(|opened| !opened.again && !is_wanted(&opened.job.job.token))
        };
        let number = self.slots.iter().position(|slot| slot.as_ref().is_some_and(is_unwanted))?;
        self.remove(number)
    }

    fn slot(&mut self, number: usize) -> Option<&mut FileSlot<T>> {
        self.slots.get_mut(number)?.as_mut()
    }

    fn remove(&mut self, number: usize) -> Option<Ended<T>> {
        let FileSlot { set, reader, hasher, .. } = self.slots.get_mut(number)?.take()?;
        self.free.push(number);
        Some(Ended { set, reader: reader?, hasher: hasher? })
    }
}

impl<T> FileSlot<T> {
    /// Gives the hasher to a thread that begins to hash the next piece.
    fn begin(&mut self, now: Instant) -> Option<Hasher> {
        self.began = now;
        self.hasher.take()
    }

    /// How long the piece that is being hashed will take yet, if it takes as long as the one before it.
    fn left(&self) -> Duration {
        match self.hasher {
            None => self.took.saturating_sub(self.began.elapsed()),
            Some(_) => Duration::ZERO,
        }
    }

    fn is_readable(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| !reader.ended)
    }

    /// Whether no thread holds a part of it, or a piece.
    fn is_whole(&self) -> bool {
        self.reader.is_some() && self.hasher.is_some() && self.taken == self.hashed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use verisum_digest::Digest;

    use super::*;
    use crate::engine::source::NumberedJob;
    use crate::engine::stream::OpenedStream;
    use crate::{Entry, Job, Plan, Stat};

    #[test]
    fn files_that_are_no_faster_side_by_side_go_to_several_threads() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let digest = Digest::find("sha3-256").unwrap();
        let mut plan = Plan::new(vec![vec![digest.clone()]], 2);
        plan.side_by_side = Some(2);
        let taken = |message: &dyn Fn(&Digest) -> Result<Message, verisum_digest::DigestError>| {
            let pool = Pool::new(Shares::new(&plan, &[digest.lanes()], 2), 2, None);
            let mut state = pool.lock();
            for number in 0..2 {
                let entry = Entry::named(file.path()).unwrap();
                let opened = OpenedStream {
                    job: NumberedJob { number, job: Job { entry, set: 0, token: () } },
                    file: Arc::new(file.reopen().unwrap()),
                    before: Stat::of(file.as_file()).unwrap(),
                    after: None,
                    again: false,
                    awaited: false,
                };
                state.add(0, StreamReader::new(opened), Hasher::new(&plan.sets[0], message).unwrap());
            }
            pool.take(&mut state).unwrap().parts.len()
        };
        assert_eq!(taken(&Digest::lone_message), 1);
        assert_eq!(taken(&Digest::message), 2);
    }
}
