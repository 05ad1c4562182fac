//! Large files: pieces of several are read, and then hashed side by side.

use verisum_digest::Digest;

use super::pool::{Ended, Group};
use super::stream::{Failed, Hasher, MOST_PIECE, Opened, Reader};
use super::work::{ARENA, Engine, STAGGER, Worker};

const PAGE: usize = 4096;

impl<T: Send> Engine<'_, T> {
    /// Puts a file among those in progress.
    pub(super) fn begin(&self, opened: Opened<T>, worker: &mut Worker) {
        let set = opened.job.job.set;
        // Nothing is hashed beside the only file, so what is fastest for one message is best.
        let message = if self.source.had_one() { Digest::lone_message } else { Digest::message };
        match Hasher::new(&self.plan.sets[set], message) {
            Ok(hasher) => self.pool.lock().add(set, Reader::new(opened), hasher),
            Err(error) => self.fail(opened, |path| Failed::Digest(error).error(path), worker),
        }
    }

    /// Reads the pieces of a group and hashes them when their turn has come. The files that end are
    /// finished.
    pub(super) fn advance(&self, group: Group<T>, worker: &mut Worker) {
        let Group { set, mut parts } = group;
        let length = piece_length(parts.len());
        let buffers = worker.arena.bytes().chunks_mut(length + STAGGER);
        let mut pieces = Vec::with_capacity(parts.len());
        for ((_, reader), buffer) in parts.iter_mut().zip(buffers) {
            let piece = reader.next(&mut buffer[..length]);
            if let Some(limits) = &self.plan.limits {
                limits.wait(piece.stored(), 1, &self.plan.stop);
            }
            pieces.push((piece, &*buffer));
        }
        let turns = self.pool.read(parts);
        let Some(mut hashers) = self.pool.hashers(&turns, || self.is_broken()) else { return };

        let mut result = Ok(());
        for (index, digest) in self.plan.sets[set].iter().enumerate() {
            let messages = hashers.iter_mut().zip(&pieces);
            let mut messages: Vec<_> = messages
                .map(|(hasher, (piece, buffer))| (&mut hasher.messages[index], piece.bytes(buffer)))
                .collect();
            result = result.and_then(|()| digest.advance(&mut messages));
        }
        let bytes = pieces.iter().map(|(piece, _)| piece.len()).sum();
        let parts = turns.iter().zip(hashers).zip(&pieces).map(|((turn, mut hasher), (piece, _))| {
            hasher.lengths.hashed += piece.len();
            hasher.lengths.read += piece.stored();
            let failure = match &result {
                Err(error) => Some(Failed::Digest(error.clone())),
                Ok(()) => piece.failure.map(|(cause, offset)| Failed::Read(cause, offset)),
            };
            hasher.failure = hasher.failure.take().or(failure);
            let ends = piece.last || hasher.failure.is_some();
            (*turn, hasher, ends)
        });
        let ended = self.pool.hashed(parts);
        self.plan.progress.add(0, bytes);
        for ended in ended {
            self.end(ended, worker);
        }
    }

    fn end(&self, ended: Ended<T>, worker: &mut Worker) {
        let Ended { set, reader, mut hasher } = ended;
        let lengths = hasher.lengths;
        match hasher.finish(&self.plan.sets[set]) {
            Err(failure) => self.fail(reader.opened, |path| failure.error(path), worker),
            Ok(outputs) => {
                if let Some(again) = self.finish(reader.opened, outputs, lengths, worker) {
                    self.pool.lock().add(set, Reader::new(again), hasher);
                }
            }
        }
    }
}

/// How much is read of each of so many files that are hashed side by side: as much as fits a second-level
/// cache, in whole pages.
fn piece_length(files: usize) -> usize {
    (ARENA / files.max(1) / PAGE * PAGE).clamp(PAGE, MOST_PIECE)
}
