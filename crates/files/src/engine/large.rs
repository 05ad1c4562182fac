//! Large files: reads pieces of several files, then hashes the pieces side by side.

use std::time::Instant;

use verisum_digest::{Digest, DigestError};

use super::pool::{Ended, HashedPiece, PieceGroup};
use super::stream::{Hasher, OpenedStream, StreamFailure, StreamReader};
use super::work::{ARENA, Engine, LARGE_ARENA, Lengths, STAGGER, Worker};
use crate::Stat;

pub(super) const PAGE: usize = 4096;

/// The most of a file that is read at once where that is limited, and of one that is not long: as long as
/// the first piece is read nothing is hashed.
const SHORT: usize = 128 << 10;

/// More files for each thread are never hashed one after the other.
const FEW: usize = 16;

/// In how many pieces a file is read at least, if they are not short.
const PIECES: u64 = 16;

/// Of how many long pieces a file must have at least: several threads are to have some.
const LONG_FILE: u64 = 4;

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
        let mut length = piece_length(parts.len(), is_all, longest);
        let collected = if parts.len() == 1 { self.collected(set) } else { 0 };
        if collected > length && longest >= LONG_FILE * collected as u64 {
            worker.make_room(collected);
            length = length.max(worker.room.len());
            // At the begin and at the end some threads have nothing to do.
            let left = parts.iter().map(|(_, reader)| reader.left()).min().unwrap_or(0);
            if longest - left < collected as u64 || left <= collected as u64 {
                length = (length / 4 / PAGE * PAGE).max(PAGE);
            }
        }
        // Of those that are read side by side, the one that was begun first.
        if let Some((_, reader)) = parts.iter().rev().max_by_key(|(_, reader)| reader.offset) {
            self.plan.progress.now_at(|| reader.opened.job.job.entry.path());
        }
        let room = if length > LARGE_ARENA { &mut worker.room[..] } else { worker.arena.bytes() };
        let buffers = room.chunks_mut(length + STAGGER);
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
        let digests = &self.plan.sets[set];
        let (mut result, mut left) = (Ok(()), (0..digests.len()).collect::<Vec<_>>());
        while !left.is_empty() {
            let next = self.pool.messages(&turns, &mut left, || self.is_broken());
            let Some((index, mut messages)) = next else { return };
            let both = messages.iter_mut().zip(&pieces);
            let mut both: Vec<_> =
                both.map(|(message, (piece, buffer))| (message, piece.bytes(buffer))).collect();
            result = result.and_then(|()| digests[index].advance(&mut both));
            self.pool.advanced(&turns, index, messages);
        }
        let bytes = pieces.iter().map(|(piece, _)| piece.len()).sum::<u64>();
        let stored = pieces.iter().map(|(piece, _)| piece.stored()).sum::<u64>();
        let parts = turns.iter().zip(&pieces).map(|(turn, (piece, _))| {
            let lengths = Lengths { hashed: piece.len(), read: piece.stored() };
            let failure = match &result {
                Err(error) => Some(StreamFailure::Digest(error.clone())),
                Ok(()) => piece.failure.map(|(cause, offset)| StreamFailure::Read(cause, offset)),
            };
            let is_last = piece.last || failure.is_some();
            HashedPiece { turn: *turn, lengths, failure, is_last }
        });
        let ended = self.pool.hashed(parts);
        self.plan.progress.add_holes(bytes - stored);
        self.plan.progress.add(0, bytes);
        for ended in ended {
            self.end(ended, worker);
        }
    }

    /// The most bytes that a digest of a set collects before it hashes them. Pieces of that length cost no copies, and no
    /// digest waits for another one that hashes all that it has collected.
    fn collected(&self, set: usize) -> usize {
        let digests = &self.plan.sets[set];
        let is_usual = digests.len() > 1 && self.plan.limits.is_none();
        let collects = |digest: &Digest| digest.parts().map_or(0, |parts| parts.collects());
        if is_usual { digests.iter().map(collects).max().unwrap_or(0) } else { 0 }
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
