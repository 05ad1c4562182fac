//! Small files: reads some tens of them whole, and hashes them as one batch.

use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use verisum_digest::Output;

use super::links::Links;
use super::source::NumberedJob;
use super::stream::{OpenedStream, StreamFailure, read_at};
use super::work::{ARENA, Engine, Lengths, Worker};
use crate::control::{Limits, NAP};
use crate::{FileError, Timestamp, system};

/// The longest file that is read whole.
const SMALL: u64 = 64 << 10;

/// A small file that takes longer to read does not come from memory: others are asked for ahead.
const SLOW: Duration = Duration::from_micros(60);

/// A file that was changed last so long before it was opened did not change while it was read. The system
/// marks files with the time of its last tick, which is 10 ms ago at most.
const SETTLED: Duration = Duration::from_millis(100);

/// A page that was written to so long ago is on the disk, unless the system was told to wait for longer.
pub(super) const LATELY: Duration = Duration::from_secs(600);

/// A small file in the arena.
struct Whole<T> {
    opened: OpenedStream<T>,
    place: Range<usize>,
}

/// Small files that were read and not yet hashed.
struct Wholes<T> {
    files: Vec<Whole<T>>,
    /// How much of the arena they take.
    used: usize,
    /// The time that hashing took so far.
    hashing: Duration,
}

impl<T: Send> Engine<'_, T> {
    /// Opens files; the small ones are read and hashed, the large ones begun.
    pub(super) fn open_all(&self, jobs: Vec<NumberedJob<T>>, worker: &mut Worker) {
        let jobs: Vec<_> = jobs.into_iter().filter_map(|job| self.prepared(job, worker)).collect();
        let started = Instant::now();
        let count = jobs.len();
        let files = Vec::with_capacity(count);
        let mut wholes = Wholes { files, used: 0, hashing: Duration::ZERO };
        // Limits are for what is known before it is read.
        if worker.has_our_clock && !worker.slow && self.plan.limits.is_none() {
            let settled = before(if self.plan.settles { LATELY } else { SETTLED });
            for job in jobs {
                self.read_at_once(job, settled, &mut wholes, worker);
            }
        } else {
            self.look_first(jobs, &mut wholes, worker);
        }
        // What is asked for ahead is not counted by a limit.
        let unlimited = self.plan.limits.is_none();
        worker.slow = unlimited && count > 0 && (started.elapsed() - wholes.hashing) / count as u32 > SLOW;
        self.hash_wholes(&mut wholes, worker);
    }

    /// Opens all, asks for all where the disk is slow, and reads those that are small.
    fn look_first(&self, jobs: Vec<NumberedJob<T>>, wholes: &mut Wholes<T>, worker: &mut Worker) {
        let mut small = Vec::with_capacity(jobs.len());
        for job in jobs {
            let opened = self.open(job, worker).and_then(|found| self.look(found, worker));
            if let Some(opened) = opened {
                if worker.device != Some(opened.before.device) {
                    worker.device = Some(opened.before.device);
                    worker.has_our_clock = system::marks_by_our_clock(&opened.file);
                }
                small.extend(self.begin_if_large(opened, worker));
            }
        }
        if worker.slow {
            for opened in &small {
                let _ = rustix::fs::fadvise(&opened.file, 0, None, rustix::fs::Advice::WillNeed);
            }
        }
        for opened in small {
            self.read_small(opened, wholes, worker);
        }
    }

    /// Reads a file before anything is known of it, and asks only then: what has not changed since long
    /// before has not changed meanwhile. That spares one of five system calls. Where the answer is another
    /// one, it is read again with care.
    fn read_at_once(
        &self,
        job: NumberedJob<T>,
        settled: Timestamp,
        wholes: &mut Wholes<T>,
        worker: &mut Worker,
    ) {
        let Some(found) = self.open(job, worker) else { return };
        self.plan.progress.now_at(|| found.job.job.entry.path());
        // Another name of a file that is known need not be read.
        let read = match found.stat.is_none() && self.links.as_ref().is_none_or(Links::is_empty) {
            false => None,
            true => {
                let start = self.room(SMALL as usize + 1, wholes, worker);
                let room = &mut worker.arena.bytes()[start..][..SMALL as usize + 1];
                read_at(&found.file, room, 0).ok().map(|length| start..start + length)
            }
        };
        let Some(mut opened) = self.look(found, worker) else { return };
        let stat = &opened.before;
        if let Some(place) = read
            && place.len() as u64 == stat.size
            && stat.size <= SMALL
            && stat.changed < settled
            && worker.device == Some(stat.device)
        {
            opened.after = Some(*stat);
            wholes.push(opened, place);
            return;
        }
        worker.has_our_clock &= worker.device == Some(stat.device);
        if let Some(small) = self.begin_if_large(opened, worker) {
            self.read_small(small, wholes, worker);
        }
    }

    /// Gives back what is to be read whole.
    fn begin_if_large(&self, opened: OpenedStream<T>, worker: &mut Worker) -> Option<OpenedStream<T>> {
        if opened.before.size <= SMALL {
            return Some(opened);
        }
        self.begin(opened, worker);
        None
    }

    fn read_small(&self, opened: OpenedStream<T>, wholes: &mut Wholes<T>, worker: &mut Worker) {
        // A byte more than there should be shows that there is no more.
        let room = (opened.before.size as usize + 1).max(4096);
        let start = self.room(room, wholes, worker);
        self.plan.progress.now_at(|| opened.job.job.entry.path());
        if let Some(limits) = &self.plan.limits
            && self.is_wanted(&opened.job.job.token)
        {
            let pause = limits.reserve(opened.before.size, 1);
            // What was read before it does not wait with it.
            if pause > NAP {
                self.hash_wholes(wholes, worker);
            }
            Limits::pause(pause, &self.plan.stop);
        }
        // Those before it may have told more of the device than was known when it was opened.
        if !self.is_wanted(&opened.job.job.token) {
            return self.fail(opened, |path| FileError::Stopped { path }, worker);
        }
        match read_whole(&opened, &mut worker.arena.bytes()[start..][..room]) {
            Ok(Some(length)) => wholes.push(opened, start..start + length),
            // It is longer than it was.
            Ok(None) => self.begin(opened, worker),
            Err((cause, at)) => self.fail(opened, |path| StreamFailure::Read(cause, at).error(path), worker),
        }
    }

    /// Where in the arena there is so much room, when what is there has been hashed if need be.
    fn room(&self, length: usize, wholes: &mut Wholes<T>, worker: &mut Worker) -> usize {
        if wholes.used + length > ARENA {
            let from = Instant::now();
            self.hash_wholes(wholes, worker);
            wholes.hashing += from.elapsed();
        }
        wholes.used
    }

    /// Hashes the files in the arena.
    fn hash_wholes(&self, wholes: &mut Wholes<T>, worker: &mut Worker) {
        wholes.used = 0;
        let files = std::mem::take(&mut wholes.files);
        let mut outputs: Vec<Result<Vec<Output>, verisum_digest::DigestError>> =
            Vec::with_capacity(files.len());
        outputs.extend(files.iter().map(|file| {
            let digests = self.plan.sets[file.opened.job.job.set].len();
            Ok(Vec::with_capacity(digests))
        }));
        // Of the many sets that there may be, few occur.
        let mut sets: Vec<usize> = files.iter().map(|file| file.opened.job.job.set).collect();
        sets.sort_unstable();
        sets.dedup();
        for set in sets {
            let digests = &self.plan.sets[set];
            let of_set = |index: &usize| files[*index].opened.job.job.set == set;
            let members: Vec<usize> = (0..files.len()).filter(of_set).collect();
            let arena = &*worker.arena.bytes();
            let messages: Vec<&[u8]> =
                members.iter().map(|&index| &arena[files[index].place.clone()]).collect();
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
        self.plan.progress.add(0, files.iter().map(|file| file.place.len() as u64).sum());
        for (Whole { opened, place }, outputs) in files.into_iter().zip(outputs) {
            match outputs {
                Ok(outputs) => {
                    let length = place.len() as u64;
                    let lengths = Lengths { hashed: length, read: length };
                    if let Some(again) = self.finish(opened, outputs, lengths, worker) {
                        self.begin(again, worker);
                    }
                }
                Err(error) => self.fail(opened, |path| StreamFailure::Digest(error).error(path), worker),
            }
        }
    }
}

impl<T> Wholes<T> {
    fn push(&mut self, opened: OpenedStream<T>, place: Range<usize>) {
        // Not at the same place of a page each: the lanes would compete for a few cache sets.
        self.used = (place.end + 64).next_multiple_of(64);
        self.files.push(Whole { opened, place });
    }
}

/// Reads all of a file and returns its length; `None` if it fills the buffer, which is longer than the file
/// was.
fn read_whole<T>(opened: &OpenedStream<T>, buffer: &mut [u8]) -> Result<Option<usize>, (Errno, u64)> {
    let mut length = 0;
    while length < buffer.len() {
        let count = read_at(&opened.file, &mut buffer[length..], length as u64)
            .map_err(|cause| (cause, length as u64))?;
        length += count;
        if count == 0 || length as u64 == opened.before.size && length > 0 {
            return Ok(Some(length));
        }
    }
    Ok(None)
}

/// The time so long ago.
pub(super) fn before(duration: Duration) -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(duration);
    Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}
