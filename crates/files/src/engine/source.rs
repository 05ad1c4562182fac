//! The job queue: the caller's iterator, which all threads draw from, within a window.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::Job;
use crate::lock;

/// So many jobs are put with those that wait at once.
const HEAP: usize = 32;

/// A job and its number in the order of the iterator.
#[derive(Debug)]
pub(super) struct NumberedJob<T> {
    pub(super) number: u64,
    pub(super) job: Job<T>,
}

/// What there is to do.
pub(super) enum Pulled<T> {
    Jobs(Vec<NumberedJob<T>>),
    /// Nothing until an earlier job is finished, or until another thread has asked the iterator.
    Later,
    /// Nothing any more, unless a job comes back.
    Exhausted,
}

pub(super) struct JobSource<'a, T> {
    jobs: Mutex<SourceJobs<'a, T>>,
    /// What the iterator was asked for ahead, and what came back.
    waiting: Mutex<VecDeque<NumberedJob<T>>>,
    most_waiting: usize,
    window: Mutex<Window>,
    most_ahead: u64,
    exhausted: AtomicBool,
}

struct SourceJobs<'a, T> {
    iterator: Option<&'a mut (dyn Iterator<Item = Job<T>> + Send)>,
    next: u64,
}

/// Which jobs are finished, from the first that is not.
#[derive(Default)]
struct Window {
    oldest: u64,
    finished: VecDeque<bool>,
}

impl<'a, T> JobSource<'a, T> {
    /// Of the iterator's jobs up to `most_waiting` are asked for ahead.
    pub(super) fn new(
        jobs: &'a mut (dyn Iterator<Item = Job<T>> + Send),
        window: usize,
        most_waiting: usize,
    ) -> Self {
        JobSource {
            jobs: Mutex::new(SourceJobs { iterator: Some(jobs), next: 0 }),
            waiting: Mutex::default(),
            most_waiting,
            window: Mutex::default(),
            most_ahead: window.max(1) as u64,
            exhausted: AtomicBool::new(false),
        }
    }

    /// Takes up to `most` jobs. With `wait` it waits its turn at the iterator.
    pub(super) fn pull(&self, most: usize, wait: bool) -> Pulled<T> {
        if let Some(taken) = self.take_waiting(most) {
            // The iterator needs long for some jobs, such as the first of a directory. One thread asks it
            // before the others have nothing to do.
            if !self.is_exhausted()
                && lock(&self.waiting).len() < self.most_waiting / 2
                && let Ok(jobs) = self.jobs.try_lock()
            {
                self.ask_ahead(jobs);
            }
            return Pulled::Jobs(taken);
        }
        if self.is_exhausted() {
            return Pulled::Exhausted;
        }
        let jobs = match self.jobs.try_lock() {
            Ok(jobs) => jobs,
            Err(_) if wait => lock(&self.jobs),
            Err(_) => return Pulled::Later,
        };
        self.ask_ahead(jobs);
        match self.take_waiting(most) {
            Some(taken) => Pulled::Jobs(taken),
            None if self.is_exhausted() => Pulled::Exhausted,
            None => Pulled::Later,
        }
    }

    fn take_waiting(&self, most: usize) -> Option<Vec<NumberedJob<T>>> {
        let mut waiting = lock(&self.waiting);
        let count = waiting.len().min(most);
        (count > 0).then(|| waiting.drain(..count).collect())
    }

    /// Asks the iterator for as many jobs as may wait.
    fn ask_ahead(&self, mut jobs: MutexGuard<'_, SourceJobs<'a, T>>) {
        let oldest = lock(&self.window).oldest;
        let room = (oldest + self.most_ahead).saturating_sub(jobs.next);
        let missing = self.most_waiting.saturating_sub(lock(&self.waiting).len());
        let mut asked = Vec::new();
        for _ in 0..room.min(missing as u64) {
            let Some(job) = jobs.iterator.as_mut().and_then(|iterator| iterator.next()) else {
                jobs.iterator = None;
                self.exhausted.store(true, Ordering::Release);
                break;
            };
            asked.push(NumberedJob { number: jobs.next, job });
            jobs.next += 1;
            if asked.len() == HEAP {
                lock(&self.waiting).extend(asked.drain(..));
            }
        }
        lock(&self.waiting).extend(asked);
    }

    /// Whether the iterator has no more.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Acquire)
    }

    /// Whether there were at most so many jobs in all, and none will come.
    pub(super) fn had_at_most(&self, jobs: usize) -> bool {
        self.is_exhausted() && lock(&self.jobs).next <= jobs as u64
    }

    /// Whether a job waits.
    pub(super) fn has_waiting(&self) -> bool {
        !lock(&self.waiting).is_empty()
    }

    /// Asks the iterator for no more.
    pub(super) fn close(&self) {
        self.exhausted.store(true, Ordering::Release);
    }

    /// Gives jobs back that were taken and can be done now.
    pub(super) fn give_back(&self, jobs: Vec<NumberedJob<T>>) {
        if jobs.is_empty() {
            return;
        }
        lock(&self.waiting).extend(jobs);
    }

    /// Says that jobs are finished.
    pub(super) fn finished(&self, numbers: impl Iterator<Item = u64>) {
        let mut window = lock(&self.window);
        for number in numbers {
            let place = (number - window.oldest) as usize;
            if window.finished.len() <= place {
                window.finished.resize(place + 1, false);
            }
            window.finished[place] = true;
        }
        while window.finished.front() == Some(&true) {
            window.finished.pop_front();
            window.oldest += 1;
        }
    }
}
