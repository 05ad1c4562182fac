//! The large files in progress, and what a thread may do for them next.
//!
//! Each has two buffers, so that one is filled while the other is hashed. Several are hashed side by side,
//! as a processor's vectors want it; a thread that finds too few with full buffers reads meanwhile.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::source::lock;
use super::stream::{Chunk, Hasher, Reader};

/// How long fewer files than would do well side by side wait for others.
const PATIENCE: Duration = Duration::from_millis(1);

/// How many buffers a file has.
const BUFFERS: usize = 2;

/// The most buffers that a thread fills before it looks again what is best to do.
const READS_AT_ONCE: usize = 8;

/// The parts of one file that no thread holds.
pub(super) struct Slot<T> {
    pub(super) set: usize,
    pub(super) reader: Option<Reader<T>>,
    pub(super) hasher: Option<Hasher>,
    pub(super) full: VecDeque<Chunk>,
    pub(super) empty: Vec<Chunk>,
}

/// What to do, with the numbers of the slots.
pub(super) enum Task<T> {
    Read(Vec<(usize, Reader<T>, Chunk)>),
    /// Pieces of files of one set.
    Hash(usize, Vec<(usize, Hasher, Chunk)>),
}

pub(super) struct Pool<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// Of each set, the most files that are hashed side by side.
    lanes: Vec<usize>,
    threads: usize,
}

pub(super) struct State<T> {
    slots: Vec<Option<Slot<T>>>,
    free: Vec<usize>,
    /// Buffers of files that are done: new ones cost as much as hashing a file of their length.
    spare: Vec<Chunk>,
    /// Threads that may bring more files, or more full buffers.
    bringing: usize,
}

impl<T> Pool<T> {
    pub(super) fn new(lanes: Vec<usize>, threads: usize) -> Self {
        let state = State { slots: Vec::new(), free: Vec::new(), spare: Vec::new(), bringing: 0 };
        Pool { state: Mutex::new(state), changed: Condvar::new(), lanes, threads }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }

    /// Tells threads that wait to look again.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Waits until something may have changed; true if nothing has for a while.
    pub(super) fn wait(&self, state: MutexGuard<'_, State<T>>) -> bool {
        let waited = self.changed.wait_timeout(state, PATIENCE);
        waited.map_or(true, |(_, waited)| waited.timed_out())
    }

    /// The next thing to do for files in progress. With `impatient` also what is not worth it yet.
    pub(super) fn take(&self, state: &mut State<T>, impatient: bool) -> Option<Task<T>> {
        let mut live = vec![0_usize; self.lanes.len()];
        let mut ready: Vec<Vec<usize>> = vec![Vec::new(); self.lanes.len()];
        let mut readable = Vec::new();
        for (number, slot) in state.slots.iter().enumerate() {
            let Some(slot) = slot else { continue };
            live[slot.set] += 1;
            if slot.hasher.is_some() && !slot.full.is_empty() {
                ready[slot.set].push(number);
            }
            if slot.reader.as_ref().is_some_and(|reader| !reader.ended) && !slot.empty.is_empty() {
                readable.push(number);
            }
        }
        let lanes = &self.lanes;
        // One thread is left to read, if there are more.
        let hashers = self.threads.saturating_sub(1).max(1);
        let worth = |set: usize| live[set].div_ceil(hashers).clamp(1, lanes[set]);
        let full = (0..lanes.len()).find(|&set| !ready[set].is_empty() && ready[set].len() >= worth(set));
        if let Some(set) = full {
            let most = worth(set).max(1);
            return Some(state.hash(set, &ready[set][..most.min(ready[set].len())]));
        }
        if !readable.is_empty() {
            let most = readable.len().div_ceil(self.threads).clamp(1, READS_AT_ONCE);
            return Some(state.read(&readable[..most]));
        }
        let set = (0..lanes.len()).find(|&set| !ready[set].is_empty())?;
        let most = lanes[set].min(ready[set].len());
        (impatient || state.bringing == 0).then(|| state.hash(set, &ready[set][..most]))
    }
}

impl<T> State<T> {
    /// How many files are in progress.
    pub(super) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether nothing is in progress and nobody may bring something.
    pub(super) fn is_idle(&self) -> bool {
        self.live() == 0 && self.bringing == 0
    }

    /// Says that this thread may bring files or full buffers, until [`State::brought`].
    pub(super) fn brings(&mut self) {
        self.bringing += 1;
    }

    pub(super) fn brought(&mut self) {
        self.bringing -= 1;
    }

    /// Adds a file, and gives it its buffers.
    pub(super) fn add(&mut self, mut slot: Slot<T>) {
        while slot.empty.len() < BUFFERS {
            slot.empty.push(self.spare.pop().unwrap_or_else(Chunk::empty));
        }
        match self.free.pop() {
            Some(number) => self.slots[number] = Some(slot),
            None => self.slots.push(Some(slot)),
        }
    }

    pub(super) fn slot(&mut self, number: usize) -> Option<&mut Slot<T>> {
        self.slots.get_mut(number)?.as_mut()
    }

    /// Takes a file out, and its buffers back.
    pub(super) fn remove(&mut self, number: usize) -> Option<Slot<T>> {
        let mut slot = self.slots.get_mut(number)?.take()?;
        self.free.push(number);
        self.spare.append(&mut slot.empty);
        self.spare.extend(slot.full.drain(..));
        Some(slot)
    }

    /// Takes out a file that no thread holds a part of.
    pub(super) fn remove_any(&mut self) -> Option<Slot<T>> {
        let whole = |slot: &Option<Slot<T>>| {
            slot.as_ref().is_some_and(|slot| slot.reader.is_some() && slot.hasher.is_some())
        };
        let number = self.slots.iter().position(whole)?;
        self.remove(number)
    }

    fn hash(&mut self, set: usize, numbers: &[usize]) -> Task<T> {
        let mut parts = Vec::with_capacity(numbers.len());
        for &number in numbers {
            if let Some(slot) = self.slot(number)
                && let Some(hasher) = slot.hasher.take()
            {
                match slot.full.pop_front() {
                    Some(chunk) => parts.push((number, hasher, chunk)),
                    None => slot.hasher = Some(hasher),
                }
            }
        }
        Task::Hash(set, parts)
    }

    fn read(&mut self, numbers: &[usize]) -> Task<T> {
        let mut parts = Vec::with_capacity(numbers.len());
        for &number in numbers {
            if let Some(slot) = self.slot(number)
                && let Some(reader) = slot.reader.take()
            {
                match slot.empty.pop() {
                    Some(chunk) => parts.push((number, reader, chunk)),
                    None => slot.reader = Some(reader),
                }
            }
        }
        self.bringing += 1;
        Task::Read(parts)
    }
}
