//! Large files: reads pieces of several files, then hashes the pieces side by side.

use std::time::Instant;

use verisum_digest::{Digest, DigestError};

use super::pool::{Ended, HashedPiece, PieceGroup};
use super::stream::{Hasher, OpenedStream, StreamFailure, StreamReader};
use super::work::{ARENA, Engine, LARGE_ARENA, STAGGER, Worker};
use crate::Stat;

pub(super) const PAGE: usize = 4096;

/// The most of a file that is read at once where that is limited, and of one that is not long: as long as
/// the first piece is read nothing is hashed.
const SHORT: usize = 128 << 10;

/// More files for each thread are never hashed one after the other.
const FEW: usize = 16;

/// In how many pieces a file is read at least, if they are not short.
const PIECES: u64 = 16;

impl<T: Send> Engine<'_, T> {
    /// Puts a file among those in progress.
    pub(super) fn begin(&self, opened: OpenedStream<T>, worker: &mut Worker) {
        if let Some(opened) = self.split(opened) {
            self.begin_in_order(opened, worker);
        }
    }

    /// The same for a file whose pieces are hashed one after the other.
    pub(super) fn begin_in_order(&self, opened: OpenedStream<T>, worker: &mut Worker) {
        let set = opened.job.job.set;
        // Beside few files most lanes would be idle, so what is fastest for one message is best.
        let message = |digest: &Digest| {
            let threads = self.plan.threads.max(1);
            let are_few = self.source.had_at_most(FEW * threads)
                && (self.source.had_at_most(1) || self.source.had_at_most(digest.most_alone() * threads));
            match are_few {
                true => digest.lone_message(),
                false => digest.message(),
            }
        };
        match Hasher::new(&self.plan.sets[set], &message) {
            Ok(hasher) => self.add(set, StreamReader::new(opened), hasher),
            Err(error) => self.fail(opened, |path| StreamFailure::Digest(error).error(path), worker),
        }
    }

    /// Reads the pieces of a group and hashes them when their turn has come. The files that end are
    /// finished.
    pub(super) fn advance(&self, group: PieceGroup<T>, worker: &mut Worker) {
        let PieceGroup { set, mut parts, is_all } = group;
        let longest = match self.plan.limits {
            Some(_) => 0,
            None => parts.iter().map(|(_, reader)| reader.opened.before.size).max().unwrap_or(0),
        };
        let length = piece_length(parts.len(), is_all, longest);
        // Of those that are read side by side, the one that was begun first.
        if let Some((_, reader)) = parts.iter().rev().max_by_key(|(_, reader)| reader.offset) {
            self.plan.progress.now_at(|| reader.opened.job.job.entry.path());
        }
        let buffers = worker.arena.bytes().chunks_mut(length + STAGGER);
        let mut pieces = Vec::with_capacity(parts.len());
        let started = Instant::now();
        for ((_, reader), buffer) in parts.iter_mut().zip(buffers) {
            let piece = reader.next(&mut buffer[..length]);
            if let Some(limits) = &self.plan.limits {
                limits.wait(piece.stored(), 1, &self.plan.stop);
            }
            pieces.push((piece, &*buffer));
        }
        self.pool.shares.has_read(pieces.iter().map(|(piece, _)| piece.stored()).sum(), started.elapsed());
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
        let bytes = pieces.iter().map(|(piece, _)| piece.len()).sum::<u64>();
        let stored = pieces.iter().map(|(piece, _)| piece.stored()).sum::<u64>();
        let parts = turns.iter().zip(hashers).zip(&pieces).map(|((turn, mut hasher), (piece, _))| {
            hasher.lengths.hashed += piece.len();
            hasher.lengths.read += piece.stored();
            let failure = match &result {
                Err(error) => Some(StreamFailure::Digest(error.clone())),
                Ok(()) => piece.failure.map(|(cause, offset)| StreamFailure::Read(cause, offset)),
            };
            hasher.failure = hasher.failure.take().or(failure);
            let is_last = piece.last || hasher.failure.is_some();
            HashedPiece { turn: *turn, hasher, is_last }
        });
        let ended = self.pool.hashed(parts);
        self.plan.progress.add_holes(bytes - stored);
        self.plan.progress.add(0, bytes);
        for ended in ended {
            self.end(ended, worker);
        }
    }

    fn add(&self, set: usize, reader: StreamReader<T>, mut hasher: Hasher) {
        hasher.expect(reader.opened.before.size);
        self.pool.lock().add(set, reader, hasher);
    }

    fn end(&self, ended: Ended<T>, worker: &mut Worker) {
        let Ended { set, reader, mut hasher } = ended;
        let lengths = hasher.lengths;
        match hasher.finish(&self.plan.sets[set]) {
            Err(StreamFailure::Digest(DigestError::Length { .. })) if !reader.opened.again => {
                // Its length has changed, as a digest found out that begins with it.
                let mut opened = reader.opened;
                (opened.before, opened.again) = (Stat::of(&opened.file).unwrap_or(opened.before), true);
                self.add(set, StreamReader::new(opened), hasher);
            }
            Err(failure) => self.fail(reader.opened, |path| failure.error(path), worker),
            Ok(outputs) => {
                if let Some(again) = self.finish(reader.opened, outputs, lengths, worker) {
                    self.add(set, StreamReader::new(again), hasher);
                }
            }
        }
    }
}

/// How much is read of each of so many files that are hashed side by side, in whole pages: as much as fits a
/// second-level cache. Where they are all there are, the threads take turns, and every change costs time in
/// which nothing is hashed: then it is more, unless the longest of them is not long.
fn piece_length(files: usize, is_all: bool, longest: u64) -> usize {
    let room = if is_all { LARGE_ARENA } else { ARENA };
    let most = usize::try_from(longest / PIECES).unwrap_or(usize::MAX).max(SHORT);
    ((room / files.max(1)).min(most) / PAGE * PAGE).max(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fit_the_arena_and_are_no_large_part_of_a_file() {
        for files in 1..=64 {
            for is_all in [false, true] {
                let length = piece_length(files, is_all, u64::MAX);
                assert!(length >= PAGE && length * files <= LARGE_ARENA, "{files} files: {length}");
                assert_eq!(piece_length(files, is_all, 1 << 20), length.min(SHORT));
            }
        }
        assert_eq!(piece_length(1, true, 1 << 30), LARGE_ARENA);
        assert_eq!(piece_length(1, true, 8 << 20), 512 << 10);
        assert_eq!(piece_length(16, true, 1 << 30), 128 << 10);
    }
}
