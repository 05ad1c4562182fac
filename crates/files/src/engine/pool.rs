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

use crate::lock;
use verisum_digest::Message;

use super::share::Shares;
use super::split::Split;
use super::stream::{Hasher, StreamFailure, StreamReader};
use super::work::Lengths;

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
    /// One for each digest. Threads hash the same piece, and the next ones, by different digests at a time.
    messages: Vec<MessageSlot>,
    lengths: Lengths,
    failure: Option<StreamFailure>,
    /// How many pieces were taken to be read, and how many of them are hashed by all digests.
    taken: u64,
    hashed: u64,
    /// Whether the last piece is hashed.
    is_at_end: bool,
}

/// A digest of a file in progress.
struct MessageSlot {
    /// Not here while a thread hashes.
    message: Option<Message>,
    /// How many pieces are hashed.
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

/// A piece that all digests have hashed.
pub(super) struct HashedPiece {
    pub(super) turn: PieceTurn,
    pub(super) lengths: Lengths,
    pub(super) failure: Option<StreamFailure>,
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

    /// Takes the messages of one of these digests, as soon as all earlier pieces of the files are hashed by it. Which it is
    /// comes first, and is taken out. `None` if `gone` says that this may never come. Groups are taken one after the other,
    /// and none has messages while it waits, so they never wait for each other.
    pub(super) fn messages(
        &self,
        turns: &[PieceTurn],
        digests: &mut Vec<usize>,
        gone: impl Fn() -> bool,
    ) -> Option<(usize, Vec<Message>)> {
        let mut wakeful = true;
        loop {
            let mark = self.mark();
            let mut state = self.lock();
            let mut is_next = |digest: &usize| {
                turns.iter().all(|turn| {
                    state.message(turn, *digest).is_some_and(|message| message.hashed == turn.piece)
                })
            };
            if let Some(at) = digests.iter().position(&mut is_next) {
                let (now, digest) = (Instant::now(), digests.remove(at));
                let messages = turns.iter().map(|turn| state.message(turn, digest)?.begin(now));
                return Some((digest, messages.collect::<Option<_>>()?));
            }
            let mut left = |digest: &usize| {
                turns.iter().filter_map(|turn| Some(state.message(turn, *digest)?.left())).max()
            };
            let left = digests.iter().filter_map(&mut left).min();
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

    /// Gives messages back that have hashed a piece.
    pub(super) fn advanced(&self, turns: &[PieceTurn], digest: usize, messages: Vec<Message>) {
        let mut state = self.lock();
        for (turn, message) in turns.iter().zip(messages) {
            if let Some(slot) = state.message(turn, digest) {
                slot.message = Some(message);
                slot.hashed += 1;
                slot.took = slot.began.elapsed();
            }
        }
        drop(state);
        self.wake();
    }

    /// Ends the pieces of a group, and takes out those files that have come to their end and that
    /// nobody else is at.
    pub(super) fn hashed(&self, parts: impl Iterator<Item = HashedPiece>) -> Vec<Ended<T>> {
        let mut ended = Vec::new();
        let mut state = self.lock();
        for HashedPiece { turn, lengths, failure, is_last } in parts {
            let Some(slot) = state.slot(turn.slot) else { continue };
            slot.lengths.hashed += lengths.hashed;
            slot.lengths.read += lengths.read;
            slot.failure = slot.failure.take().or(failure);
            slot.hashed += 1;
            slot.is_at_end |= is_last;
            if slot.is_at_end && slot.is_whole() {
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
        let Hasher { messages, lengths, failure } = hasher;
        let message = |message| MessageSlot {
            message: Some(message),
            hashed: 0,
            began: Instant::now(),
            took: Duration::ZERO,
        };
        let slot = FileSlot {
            set,
            is_alone: messages.iter().all(Message::is_alone),
            reader: Some(reader),
            messages: messages.into_iter().map(message).collect(),
            lengths,
            failure,
            taken: 0,
            hashed: 0,
            is_at_end: false,
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

    fn message(&mut self, turn: &PieceTurn, digest: usize) -> Option<&mut MessageSlot> {
        self.slot(turn.slot)?.messages.get_mut(digest)
    }

    fn remove(&mut self, number: usize) -> Option<Ended<T>> {
        let FileSlot { set, reader, messages, lengths, failure, .. } = self.slots.get_mut(number)?.take()?;
        self.free.push(number);
        let messages = messages.into_iter().map(|slot| slot.message).collect::<Option<_>>()?;
        Some(Ended { set, reader: reader?, hasher: Hasher { messages, lengths, failure } })
    }
}

impl<T> FileSlot<T> {
    /// Whether the next piece may be read. Of a file with several digests no more are read than they can be at.
    fn is_readable(&self) -> bool {
        let has_room = self.messages.len() < 2 || self.taken - self.hashed <= self.messages.len() as u64;
        has_room && self.reader.as_ref().is_some_and(|reader| !reader.ended)
    }

    /// Whether no thread holds a part of it, or a piece.
    fn is_whole(&self) -> bool {
        self.reader.is_some() && self.taken == self.hashed
    }
}

impl MessageSlot {
    /// Gives the message to a thread that begins to hash the next piece.
    fn begin(&mut self, now: Instant) -> Option<Message> {
        self.began = now;
        self.message.take()
    }

    /// How long the piece that is being hashed will take yet, if it takes as long as the one before it.
    fn left(&self) -> Duration {
        match self.message {
            None => self.took.saturating_sub(self.began.elapsed()),
            Some(_) => Duration::ZERO,
        }
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

    /// A state with files that are all of this content.
    fn add_files(
        pool: &Pool<()>,
        file: &tempfile::NamedTempFile,
        (digests, files): (&[Digest], u64),
        message: &dyn Fn(&Digest) -> Result<Message, verisum_digest::DigestError>,
    ) {
        for number in 0..files {
            let entry = Entry::named(file.path()).unwrap();
            let opened = OpenedStream {
                job: NumberedJob { number, job: Job { entry, set: 0, token: () } },
                file: Arc::new(file.reopen().unwrap()),
                before: Stat::of(file.as_file()).unwrap(),
                after: None,
                again: false,
                awaited: false,
            };
            pool.lock().add(0, StreamReader::new(opened), Hasher::new(digests, message).unwrap());
        }
    }

    #[test]
    fn threads_hash_pieces_of_one_file_by_several_digests_at_a_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let digests = ["sha256", "md5"].map(|name| Digest::find(name).unwrap());
        let plan = Plan::new(vec![digests.to_vec()], 2);
        let pool = Pool::new(Shares::new(&plan, &[1], 2), 2, None);
        add_files(&pool, &file, (&digests, 1), &Digest::lone_message);
        let read = || {
            let taken = pool.take(&mut pool.lock());
            taken.map(|group| pool.read(group.parts))
        };
        let [first, second, third] = [read(), read(), read()].map(Option::unwrap);
        assert!(read().is_none(), "more pieces are in memory than digests can be at");
        let all = || vec![0, 1];
        let (mut left, mut other, mut last) = (all(), all(), all());
        let (digest, messages) = pool.messages(&first, &mut left, || false).unwrap();
        assert_eq!(digest, 0);
        assert!(pool.messages(&second, &mut other, || true).is_none());
        pool.advanced(&first, digest, messages);
        // Now both threads have work.
        let (digest, messages) = pool.messages(&first, &mut left, || false).unwrap();
        let (of_second, others) = pool.messages(&second, &mut other, || false).unwrap();
        assert_eq!((digest, of_second), (1, 0));
        pool.advanced(&second, of_second, others);
        let (of_third, others) = pool.messages(&third, &mut last, || false).unwrap();
        pool.advanced(&third, of_third, others);
        assert_eq!(of_third, 0);
        pool.advanced(&first, digest, messages);
        let end = |turns: &[PieceTurn], is_last| {
            let (lengths, failure) = Default::default();
            pool.hashed(std::iter::once(HashedPiece { turn: turns[0], lengths, failure, is_last })).len()
        };
        for (turns, left) in [(&second, &mut other), (&third, &mut last)] {
            let (digest, messages) = pool.messages(turns, left, || false).unwrap();
            pool.advanced(turns, digest, messages);
        }
        // The last piece may be told of first.
        assert_eq!((end(&third, true), end(&first, false), end(&second, false)), (0, 0, 1));
    }

    #[test]
    fn files_that_are_no_faster_side_by_side_go_to_several_threads() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let digest = Digest::find("sha3-256").unwrap();
        let mut plan = Plan::new(vec![vec![digest.clone()]], 2);
        plan.side_by_side = Some(2);
        let taken = |message: &dyn Fn(&Digest) -> Result<Message, verisum_digest::DigestError>| {
            let pool = Pool::new(Shares::new(&plan, &[digest.lanes()], 2), 2, None);
            add_files(&pool, &file, (&plan.sets[0], 2), message);
            pool.take(&mut pool.lock()).unwrap().parts.len()
        };
        assert_eq!(taken(&Digest::lone_message), 1);
        assert_eq!(taken(&Digest::message), 2);
    }
}
