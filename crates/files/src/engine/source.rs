//! The job queue: the caller's iterator, which all threads draw from, within a window.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Job;
use crate::lock;

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
    returned: Mutex<Vec<NumberedJob<T>>>,
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
    pub(super) fn new(jobs: &'a mut (dyn Iterator<Item = Job<T>> + Send), window: usize) -> Self {
        JobSource {
            jobs: Mutex::new(SourceJobs { iterator: Some(jobs), next: 0 }),
            returned: Mutex::default(),
            window: Mutex::default(),
            most_ahead: window.max(1) as u64,
            exhausted: AtomicBool::new(false),
        }
    }

    /// Takes up to `most` jobs. With `wait` it waits its turn at the iterator.
    pub(super) fn pull(&self, most: usize, wait: bool) -> Pulled<T> {
        let returned = std::mem::take(&mut *lock(&self.returned));
        if !returned.is_empty() {
            return Pulled::Jobs(returned);
        }
        if self.is_exhausted() {
            return Pulled::Exhausted;
        }
        let mut jobs = match self.jobs.try_lock() {
            Ok(jobs) => jobs,
            Err(_) if wait => lock(&self.jobs),
            Err(_) => return Pulled::Later,
        };
        let oldest = lock(&self.window).oldest;
        let room = (oldest + self.most_ahead).saturating_sub(jobs.next).min(most as u64);
        if room == 0 {
            return Pulled::Later;
        }
        let mut pulled = Vec::with_capacity(room as usize);
        while (pulled.len() as u64) < room {
            let Some(job) = jobs.iterator.as_mut().and_then(|iterator| iterator.next()) else {
                jobs.iterator = None;
                self.exhausted.store(true, Ordering::Release);
                break;
            };
            pulled.push(NumberedJob { number: jobs.next, job });
            jobs.next += 1;
        }
        match pulled.is_empty() {
            true => Pulled::Exhausted,
            false => Pulled::Jobs(pulled),
        }
    }

    /// Whether the iterator has no more.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Acquire)
    }

    /// Whether there were at most so many jobs in all, and none will come.
    pub(super) fn had_at_most(&self, jobs: usize) -> bool {
        self.is_exhausted() && lock(&self.jobs).next <= jobs as u64
    }

    /// Whether a job came back and waits.
    pub(super) fn has_returned(&self) -> bool {
        !lock(&self.returned).is_empty()
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
        lock(&self.returned).extend(jobs);
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
