//! The job queue: the caller's iterator, which all threads draw from, within a window.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::Job;
use crate::lock;

/// How long the iterator is asked for more once a job waits: it may have to look at many files to find another.
const ASKED_FOR: Duration = Duration::from_millis(2);

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
    /// Jobs that the iterator gave and nobody has taken yet, and jobs that were given back.
    waiting: Mutex<VecDeque<NumberedJob<T>>>,
    most_waiting: usize,
    /// If fewer wait, more are asked for.
    least_waiting: usize,
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
    /// If several threads draw from it, up to `most_waiting` jobs are asked for ahead.
    pub(super) fn new(
        jobs: &'a mut (dyn Iterator<Item = Job<T>> + Send),
        window: usize,
        most_waiting: usize,
        threads: usize,
    ) -> Self {
        JobSource {
            jobs: Mutex::new(SourceJobs { iterator: Some(jobs), next: 0 }),
            waiting: Mutex::default(),
            most_waiting,
            // One thread would let them wait while it asks.
            least_waiting: if threads > 1 { most_waiting.div_ceil(2) } else { 1 },
            window: Mutex::default(),
            most_ahead: window.max(1) as u64,
            exhausted: AtomicBool::new(false),
        }
    }

    /// Takes up to `most` jobs. With `wait` it waits its turn at the iterator, if there is nothing else.
    ///
    /// The iterator needs long for some jobs, such as the first of a directory: one thread asks it before the others
    /// have nothing to do.
    pub(super) fn pull(&self, most: usize, wait: bool) -> Pulled<T> {
        let waiting = lock(&self.waiting).len();
        if waiting < self.least_waiting && !self.is_exhausted() {
            match self.jobs.try_lock() {
                Ok(jobs) => self.ask_ahead(jobs),
                Err(_) if wait && waiting == 0 => self.ask_ahead(lock(&self.jobs)),
                Err(_) => {}
            }
        }
        let mut waiting = lock(&self.waiting);
        let count = waiting.len().min(most);
        match count {
            0 if self.is_exhausted() => Pulled::Exhausted,
            0 => Pulled::Later,
            _ => Pulled::Jobs(waiting.drain(..count).collect()),
        }
    }

    /// Asks the iterator for jobs until enough wait, or it takes too long.
    fn ask_ahead(&self, mut jobs: MutexGuard<'_, SourceJobs<'a, T>>) {
        let oldest = lock(&self.window).oldest;
        let end = oldest + self.most_ahead;
        let began = Instant::now();
        let mut waiting = lock(&self.waiting).len();
        while waiting < self.most_waiting
            && jobs.next < end
            && !self.is_exhausted()
            && (waiting == 0 || began.elapsed() < ASKED_FOR)
        {
            let Some(job) = jobs.iterator.as_mut().and_then(|iterator| iterator.next()) else {
                jobs.iterator = None;
                self.exhausted.store(true, Ordering::Release);
                break;
            };
            let job = NumberedJob { number: jobs.next, job };
            jobs.next += 1;
            let mut all = lock(&self.waiting);
            all.push_back(job);
            waiting = all.len();
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::Entry;

    /// So many jobs, each of which takes so long to find; the counter has those that were found.
    fn jobs(count: u64, time: Duration, found: &AtomicU64) -> impl Iterator<Item = Job<u64>> + Send + '_ {
        (0..count).map(move |token| {
            std::thread::sleep(time);
            found.fetch_add(1, Ordering::Relaxed);
            let entry = Entry::named(std::path::Path::new("/dev/null")).unwrap();
            Job { entry, set: 0, token }
        })
    }

    fn pull(source: &JobSource<u64>, most: usize) -> Vec<u64> {
        match source.pull(most, true) {
            Pulled::Jobs(jobs) => jobs.iter().map(|job| job.job.token).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn jobs_are_asked_for_before_none_waits() {
        let found = AtomicU64::new(0);
        let mut all = jobs(100, Duration::ZERO, &found);
        let source = JobSource::new(&mut all, 1000, 10, 2);
        let mut pulled = pull(&source, 6);
        // Less than a half waits.
        while pulled.len() < 97 {
            let before = pulled.len() as u64;
            assert!(found.load(Ordering::Relaxed) > before, "{pulled:?}");
            pulled.extend(pull(&source, 6));
        }
        assert!(pulled.iter().copied().eq(0..pulled.len() as u64));
    }

    #[test]
    fn what_is_found_is_not_kept_waiting_for_what_is_hard_to_find() {
        let found = AtomicU64::new(0);
        let mut all = jobs(5, ASKED_FOR, &found);
        let source = JobSource::new(&mut all, 1000, 100, 2);
        for token in 0..5 {
            assert_eq!(pull(&source, 100), [token]);
        }
        assert!(matches!(source.pull(100, true), Pulled::Exhausted));
    }

    #[test]
    fn nothing_is_asked_for_after_the_end_or_beyond_the_window() {
        let found = AtomicU64::new(0);
        let mut all = jobs(100, Duration::ZERO, &found);
        let source = JobSource::new(&mut all, 3, 100, 2);
        assert_eq!(pull(&source, 100), [0, 1, 2]);
        assert!(matches!(source.pull(100, true), Pulled::Later));
        source.finished([1].into_iter());
        assert!(matches!(source.pull(100, true), Pulled::Later));
        source.finished([0].into_iter());
        assert_eq!(pull(&source, 1), [3]);
        // What was asked for is still given out, to be reported.
        source.close();
        assert_eq!(pull(&source, 100), [4]);
        assert!(matches!(source.pull(100, true), Pulled::Exhausted));
        assert_eq!(found.load(Ordering::Relaxed), 5);
    }
}
