//! Hashes large files in parts: each thread reads and hashes its own parts, and waits for no other.
//!
//! Without limits only, and of files without holes: there one piece after the other is as good. So it is for a file that
//! changes meanwhile, which is hashed once more.

use std::collections::BTreeMap;
use std::fs::File;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::Advice;
use verisum_digest::{JoinedParts, PartHasher, PartHashes, Parts};
use verisum_pagecache::{CachedBytes, WINDOW_BYTES, WayTimes, Windows, may_map};

use super::large::PAGE;
use super::pool::PoolState;
use super::stream::{OpenedStream, StreamFailure, read_at};
use super::work::{ARENA, Engine, LARGE_ARENA, Lengths, STAGGER, Worker};
use crate::{Progress, Stat, lock};

/// The most that is read of a part at once: what was read is still in the second-level cache when it is hashed.
const PIECE: usize = 256 << 10;

/// How far ahead the system is asked to read where parts lie apart, in bytes.
const AHEAD: u64 = 1 << 20;

/// A read that takes longer, in nanoseconds a byte, does not come from memory.
const SLOW: f64 = 0.4;

/// How many parts a thread is given at most before those of another thread are joined.
const WINDOW: u64 = 1 << 12;

/// A file that is hashed in parts.
pub(super) struct Split<T> {
    opened: OpenedStream<T>,
    parts: Parts,
    /// How many parts there are, how many of them were given out, and how many are joined.
    count: u64,
    given: u64,
    joined: u64,
    join: JoinedParts,
    /// Those that wait for an earlier one.
    early: BTreeMap<u64, PartHashes>,
    /// How many threads are at it.
    working: usize,
    /// Whether it may not be in memory. Then one thread reads at a time, and what comes next: what reads ahead takes
    /// several at different places for none that reads in order.
    is_slow: bool,
    turn: Arc<Mutex<()>>,
    windows: Windows,
    /// Why it is given up, and the offset of that.
    failure: Option<(u64, Given)>,
}

/// Why a file is not hashed in parts any more.
enum Given {
    Up(StreamFailure),
    /// It is shorter or longer than it was.
    Changed,
}

/// Parts of one file, side by side.
pub(super) struct Stretch {
    /// The number of the file's job.
    job: u64,
    set: usize,
    file: Arc<File>,
    parts: Parts,
    first: u64,
    count: usize,
    /// Where the file ends.
    end: u64,
    /// Whose turn it is to read, if the file is slow.
    turn: Option<Arc<Mutex<()>>>,
    /// Where the parts may be in the page cache, if they are to be hashed there.
    cached: Option<CachedBytes>,
    /// How much was read, and how long that took.
    read: (u64, Duration),
}

/// What came of the parts of a stretch.
enum HashedPart {
    Parts(Vec<PartHashes>),
    Failed(u64, Given),
    /// The work ends.
    Nothing,
}

impl<T> PoolState<T> {
    /// Parts that no thread has taken. There are so few for each of the threads that all have some.
    pub(super) fn take_stretch(
        &mut self,
        times: &[WayTimes],
        threads: usize,
        progress: &Progress,
    ) -> Option<Stretch> {
        let split = self.splits.iter_mut().find(|split| split.has_more())?;
        progress.now_at(|| split.opened.job.job.entry.path());
        let share = (split.count - split.given).div_ceil(threads as u64);
        let times = &times[split.opened.job.job.set];
        let is_cached = split.is_in_page_cache(times);
        let count = match is_cached {
            true => times.parts_at_once(split.parts.length(), share),
            false => share.min(split.parts.lanes() as u64),
        };
        let cached = is_cached.then(|| split.cached_bytes(count));
        let stretch = Stretch {
            job: split.opened.job.number,
            set: split.opened.job.job.set,
            file: split.opened.file.clone(),
            parts: split.parts.clone(),
            first: split.given,
            count: count as usize,
            end: split.opened.before.size,
            turn: split.is_slow.then(|| split.turn.clone()),
            cached,
            read: Default::default(),
        };
        split.given += count;
        split.working += 1;
        Some(stretch)
    }

    /// Takes out a file that no thread is at.
    pub(super) fn remove_split(&mut self) -> Option<OpenedStream<T>> {
        let at = self.splits.iter().position(|split| split.working == 0)?;
        Some(self.splits.swap_remove(at).opened)
    }

    /// Keeps what came of a stretch. Gives the file back once all of it is known.
    fn stretch_is_done(&mut self, stretch: Stretch, hashed: HashedPart) -> Option<Split<T>> {
        let at = self.splits.iter().position(|split| split.opened.job.number == stretch.job)?;
        let split = &mut self.splits[at];
        split.working -= 1;
        if let (bytes @ 1.., time) = stretch.read {
            split.is_slow = time.as_nanos() as f64 / bytes as f64 > SLOW;
        }
        match hashed {
            HashedPart::Parts(parts) => split.add(stretch.first, parts),
            HashedPart::Failed(offset, why) => split.fail(offset, why),
            HashedPart::Nothing => return None,
        }
        let is_done = split.joined == split.count || split.failure.is_some();
        (is_done && split.working == 0).then(|| self.splits.swap_remove(at))
    }
}

impl<T> Split<T> {
    /// Whether the next parts are to be hashed in the page cache, where they may be.
    fn is_in_page_cache(&self, times: &WayTimes) -> bool {
        let suits = self.parts.lanes() == 1 && self.parts.length() <= WINDOW_BYTES && !self.is_slow;
        suits && may_map() && times.prefer_mapping()
    }

    fn cached_bytes(&mut self, count: u64) -> CachedBytes {
        let [start, end] = [self.given, self.given + count].map(|part| part * self.parts.length());
        self.windows.next(start..end.min(self.opened.before.size))
    }

    fn has_more(&self) -> bool {
        self.failure.is_none() && self.given < self.count && self.given < self.joined + WINDOW
    }

    fn add(&mut self, first: u64, parts: Vec<PartHashes>) {
        self.early.extend((first..).zip(parts));
        while let Some(next) = self.early.remove(&self.joined) {
            if let Err(error) = self.join.push(&next) {
                self.fail(self.joined * self.parts.length(), Given::Up(StreamFailure::Digest(error)));
            }
            self.joined += 1;
        }
    }

    /// The first of several failures counts, as if the file had been read from its begin.
    fn fail(&mut self, offset: u64, why: Given) {
        if self.failure.as_ref().is_none_or(|(first, _)| offset < *first) {
            self.failure = Some((offset, why));
        }
    }
}

impl<T: Send> Engine<'_, T> {
    /// Puts a file among those that are hashed in parts, or gives it back where that cannot be.
    pub(super) fn split(&self, opened: OpenedStream<T>) -> Option<OpenedStream<T>> {
        let [digest] = &self.plan.sets[opened.job.job.set][..] else { return Some(opened) };
        let is_usual = self.plan.limits.is_none() && self.plan.streams.is_none() && !opened.again;
        let Stat { size, stored, .. } = opened.before;
        let is_full = size > 0 && stored >= size;
        let parts = digest.parts().filter(|_| is_usual && is_full);
        let Some((parts, join)) = parts.and_then(|parts| Some((parts.clone(), parts.join().ok()?))) else {
            return Some(opened);
        };
        let count = size.div_ceil(parts.length());
        if parts.lanes() == 1 {
            // Reads ahead; a file system that cannot does without.
            let _ = rustix::fs::fadvise(&opened.file, 0, None, Advice::Sequential);
        }
        let windows = Windows::new(opened.file.clone(), size);
        let split = Split {
            opened,
            windows,
            parts,
            count,
            given: 0,
            joined: 0,
            join,
            early: BTreeMap::new(),
            working: 0,
            is_slow: true,
            turn: Arc::default(),
            failure: None,
        };
        self.pool.lock().splits.push(split);
        None
    }

    /// Reads and hashes parts. A file that all is known of is finished.
    pub(super) fn hash_stretch(&self, mut stretch: Stretch, worker: &mut Worker) {
        let cached = stretch.cached.take().and_then(|cached| self.hash_in_page_cache(&cached, &stretch));
        let hashed = cached.unwrap_or_else(|| self.hash_parts(&mut stretch, worker));
        let done = self.pool.lock().stretch_is_done(stretch, hashed);
        self.pool.wake();
        let Some(Split { opened, join, failure, .. }) = done else { return };
        let size = opened.before.size;
        let failure = match failure {
            Some((_, given)) => Some(given),
            // A byte more than there should be.
            None if read_at(&opened.file, &mut [0], size) == Ok(0) => None,
            None => Some(Given::Changed),
        };
        let again = match failure {
            Some(Given::Up(failure)) => return self.fail(opened, |path| failure.error(path), worker),
            Some(Given::Changed) => Some(opened),
            None => match join.finish(size) {
                Ok(digest) => {
                    let lengths = Lengths { hashed: size, read: size };
                    self.finish(opened, vec![digest], lengths, worker)
                }
                Err(error) => {
                    return self.fail(opened, |path| StreamFailure::Digest(error).error(path), worker);
                }
            },
        };
        if let Some(again) = again {
            self.begin_in_order(again, worker);
        }
    }

    /// Hashes parts where they are in the page cache. None if they are not there any more: reading tells why.
    fn hash_in_page_cache(&self, cached: &CachedBytes, stretch: &Stretch) -> Option<HashedPart> {
        let Stretch { parts, first, count, end, set, .. } = stretch;
        let (start, length) = (first * parts.length(), *count as u64 * parts.length());
        let bytes = length.min(*end - start);
        let started = Instant::now();
        let hashed = cached.look(|bytes| {
            let numbered = (*first..).zip(bytes.chunks(parts.length() as usize));
            let hash = |(number, bytes): (u64, &[u8])| {
                let mut part = parts.start(number)?;
                parts.advance(&mut [(&mut part, bytes)])?;
                part.finish()
            };
            numbered.map(hash).collect()
        })?;
        if bytes == length {
            self.times[*set].add_mapped(bytes, started.elapsed());
        }
        self.plan.progress.add(0, bytes);
        Some(match hashed {
            Ok(hashes) => HashedPart::Parts(hashes),
            Err(error) => HashedPart::Failed(start, Given::Up(StreamFailure::Digest(error))),
        })
    }

    fn hash_parts(&self, stretch: &mut Stretch, worker: &mut Worker) -> HashedPart {
        let Stretch { parts, first, count, end, .. } = &*stretch;
        let (parts, end) = (parts.clone(), *end);
        let numbers = (*first..).take(*count);
        let starts: Vec<u64> = numbers.clone().map(|part| part * parts.length()).collect();
        let mut running: Vec<PartHasher> = match numbers.map(|number| parts.start(number)).collect() {
            Ok(running) => running,
            Err(error) => return HashedPart::Failed(starts[0], Given::Up(StreamFailure::Digest(error))),
        };
        let is_alone = *count == 1;
        let length = match (is_alone, &stretch.turn) {
            (true, Some(_)) => ARENA,
            (true, None) => PIECE,
            (false, _) => (LARGE_ARENA / count).min(PIECE) / PAGE * PAGE,
        };
        let (begun, mut within) = (Instant::now(), 0);
        while within < parts.length() && starts[0] + within < end {
            if self.is_broken() || self.plan.stop.is_due() {
                return HashedPart::Nothing;
            }
            let buffers = worker.arena.bytes().chunks_mut(length + STAGGER);
            let mut pieces: Vec<(&mut PartHasher, &[u8])> = Vec::with_capacity(running.len());
            let turn = stretch.turn.as_ref().filter(|_| is_alone).map(|turn| lock(turn));
            let started = Instant::now();
            for ((part, start), buffer) in running.iter_mut().zip(&starts).zip(buffers) {
                let at = start + within;
                let left = (parts.length() - within).min(end.saturating_sub(at));
                let piece = &mut buffer[..length.min(usize::try_from(left).unwrap_or(usize::MAX))];
                if !is_alone && stretch.turn.is_some() {
                    ask_ahead(&stretch.file, *start, within, length);
                }
                if let Err((offset, why)) = read_all(&stretch.file, piece, at) {
                    return HashedPart::Failed(offset, why);
                }
                pieces.push((part, piece));
            }
            let bytes = pieces.iter().map(|(_, piece)| piece.len() as u64).sum();
            drop(turn);
            stretch.read = (stretch.read.0 + bytes, stretch.read.1 + started.elapsed());
            if let Err(error) = parts.advance(&mut pieces) {
                return HashedPart::Failed(starts[0] + within, Given::Up(StreamFailure::Digest(error)));
            }
            self.plan.progress.add(0, bytes);
            within += length as u64;
        }
        match running.into_iter().map(PartHasher::finish).collect() {
            Ok(hashes) => {
                if is_alone && stretch.turn.is_none() && stretch.read.0 == parts.length() {
                    self.times[stretch.set].add_read(stretch.read.0, begun.elapsed());
                }
                HashedPart::Parts(hashes)
            }
            Err(error) => HashedPart::Failed(starts[0], Given::Up(StreamFailure::Digest(error))),
        }
    }
}

/// Asks for what follows of a part, of which so much was read; at its begin also for what is read now.
fn ask_ahead(file: &File, start: u64, within: u64, length: usize) {
    let (from, bytes) = match within {
        0 => (start, 2 * AHEAD),
        _ if within % AHEAD < length as u64 => (start + within + AHEAD, AHEAD),
        _ => return,
    };
    let _ = rustix::fs::fadvise(file, from, NonZero::new(bytes), Advice::WillNeed);
}

/// Fills the buffer from an offset.
fn read_all(file: &File, buffer: &mut [u8], offset: u64) -> Result<(), (u64, Given)> {
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset + filled as u64;
        match read_at(file, &mut buffer[filled..], at) {
            Ok(0) => return Err((at, Given::Changed)),
            Ok(count) => filled += count,
            Err(cause) => return Err((at, Given::Up(StreamFailure::Read(cause, at)))),
        }
    }
    Ok(())
}
