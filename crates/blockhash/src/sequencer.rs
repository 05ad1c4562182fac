//! Passes the digests of runs to the outer hash in the right order. Workers finish runs in any order.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use verisum_digest::Output;

use crate::BlockHashError;
use crate::blocks::{Outer, Piece};

/// How far a worker may run ahead of the slowest one, in runs. Bounds the memory of waiting digests.
const WINDOW: u64 = 64;

/// Pieces in, one digest out.
///
/// No thread of its own: the worker that delivers the piece everybody waits for also folds the ones
/// behind it, outside the lock.
pub(crate) struct Sequencer<'a> {
    state: Mutex<SequencerState<'a>>,
    moved: Condvar,
}

struct SequencerState<'a> {
    /// Taken while somebody folds.
    outer: Option<Outer<'a>>,
    /// The sequence number of the first piece not yet folded.
    next: u64,
    /// Pieces from `next` on; `None` where one is still being computed.
    waiting: VecDeque<Option<Piece>>,
    /// Empty pieces whose memory can be used again.
    spare: Vec<Piece>,
    failure: Option<BlockHashError>,
}

impl<'a> Sequencer<'a> {
    pub(crate) fn new(outer: Outer<'a>) -> Sequencer<'a> {
        let state = SequencerState {
            outer: Some(outer),
            next: 0,
            waiting: VecDeque::new(),
            spare: Vec::new(),
            failure: None,
        };
        Sequencer { state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Whoever panics reports that as a failure; the state is consistent at every unlock.
    fn lock(&self) -> MutexGuard<'_, SequencerState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, state: MutexGuard<'g, SequencerState<'a>>) -> MutexGuard<'g, SequencerState<'a>> {
        self.moved.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty piece, with the memory of one that was folded.
    pub(crate) fn spare(&self) -> Piece {
        self.lock().spare.pop().unwrap_or_default()
    }

    /// Hands over the piece of run `sequence`. Every number from 0 up must be delivered once. Waits
    /// while the run is too far ahead of the others; fails when any worker failed.
    pub(crate) fn deliver(&self, sequence: u64, piece: Piece) -> Result<(), BlockHashError> {
        let mut state = self.lock();
        while sequence >= state.next + WINDOW && state.failure.is_none() {
            state = self.wait(state);
        }
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let place = (sequence - state.next) as usize;
        if state.waiting.len() <= place {
            state.waiting.resize_with(place + 1, || None);
        }
        state.waiting[place] = Some(piece);
        self.fold(state)
    }

    fn fold<'g>(&'g self, mut state: MutexGuard<'g, SequencerState<'a>>) -> Result<(), BlockHashError> {
        let Some(mut outer) = state.outer.take() else { return Ok(()) };
        let mut result = Ok(());
        while let Some(Some(mut piece)) = state.waiting.front_mut().map(Option::take) {
            drop(state);
            result = outer.add(&piece);
            piece.digests.clear();
            piece.layout.clear();
            state = self.lock();
            state.waiting.pop_front();
            state.next += 1;
            // No more than can wait at a time, however many were made elsewhere.
            if state.spare.len() < WINDOW as usize {
                state.spare.push(piece);
            }
            self.moved.notify_all();
            if let Err(error) = &result {
                state.failure.get_or_insert_with(|| error.clone());
                break;
            }
        }
        state.outer = Some(outer);
        self.moved.notify_all();
        result
    }

    /// Records a failure, which every later call reports.
    pub(crate) fn fail(&self, error: BlockHashError) {
        self.lock().failure.get_or_insert(error);
        self.moved.notify_all();
    }

    /// The first failure, if there was one.
    pub(crate) fn failure(&self) -> Option<BlockHashError> {
        self.lock().failure.clone()
    }

    /// Waits until runs 0 to `count` − 1 are folded and gives the block hash of `length` bytes.
    pub(crate) fn finish(&self, count: u64, length: u64) -> Result<Output, BlockHashError> {
        let mut state = self.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.next == count
                && let Some(outer) = state.outer.take()
            {
                return outer.finish(length);
            }
            state = self.wait(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use verisum_digest::Digest;

    use super::*;
    use crate::Params;
    use crate::blocks::{Span, ZeroBlock};

    #[test]
    fn pieces_made_elsewhere_do_not_pile_up() {
        let params = Params::new(Digest::find("crc32c").unwrap());
        let sequencer = Sequencer::new(Outer::new(&params, ZeroBlock::new(&params)).unwrap());
        for sequence in 0..10 * WINDOW {
            let piece = Piece { digests: Vec::new(), layout: vec![Span::Zeros(1)] };
            sequencer.deliver(sequence, piece).unwrap();
        }
        assert!(sequencer.lock().spare.len() <= WINDOW as usize);
        sequencer.finish(10 * WINDOW, 0).unwrap();
    }
}
