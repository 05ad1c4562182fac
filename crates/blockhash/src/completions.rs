//! The queue of completed asynchronous updates.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::BlockHashError;
use crate::pool::Owner;

/// The end of an asynchronous update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// What was given to [`Hasher::submit`](crate::Hasher::submit).
    pub token: usize,
    /// Whether the update failed; every later call then reports why.
    pub failed: bool,
}

/// A bounded number of updates, from their submission until their completion was taken.
pub(crate) struct Completions {
    depth: usize,
    state: Mutex<CompletionsState>,
    notify: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct CompletionsState {
    in_flight: usize,
    arrived: VecDeque<Completion>,
}

impl Completions {
    pub(crate) fn new(depth: usize, notify: Box<dyn Fn() + Send + Sync>) -> Completions {
        Completions { depth, state: Mutex::default(), notify }
    }

    fn lock(&self) -> MutexGuard<'_, CompletionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for one update.
    pub(crate) fn reserve(self: &Arc<Self>, token: usize) -> Result<Ticket, BlockHashError> {
        let mut state = self.lock();
        if state.in_flight >= self.depth {
            return Err(BlockHashError::QueueFull);
        }
        state.in_flight += 1;
        Ok(Ticket { queue: self.clone(), token, failed: AtomicBool::new(false), withdrawn: false })
    }

    pub(crate) fn take(&self, out: &mut [Completion]) -> usize {
        let mut state = self.lock();
        let count = out.len().min(state.arrived.len());
        for (slot, completion) in out.iter_mut().zip(state.arrived.drain(..count)) {
            *slot = completion;
        }
        state.in_flight -= count;
        count
    }
}

/// The place of one update; dropping it is the update's completion.
pub(crate) struct Ticket {
    queue: Arc<Completions>,
    token: usize,
    failed: AtomicBool,
    withdrawn: bool,
}

impl Ticket {
    /// Gives the place back as if the update had never been submitted.
    pub(crate) fn withdraw(mut self) {
        self.withdrawn = true;
    }

    pub(crate) fn failed(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        if self.withdrawn {
            state.in_flight -= 1;
            return;
        }
        let completion = Completion { token: self.token, failed: *self.failed.get_mut() };
        state.arrived.push_back(completion);
        drop(state);
        // Tickets are dropped by workers, and while unwinding: a panic of the caller's function ends here.
        let _: std::thread::Result<()> = catch_unwind(AssertUnwindSafe(|| (self.queue.notify)()));
    }
}

impl Owner for Arc<Ticket> {
    fn failed(&self) {
        Ticket::failed(self);
    }
}
