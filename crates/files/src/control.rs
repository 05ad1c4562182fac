//! Progress, speed limit and stop of a running hash.

use crate::lock;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long somebody who waits for a limit sleeps at most before looking whether to stop.
pub(crate) const NAP: Duration = Duration::from_millis(50);

/// How far it is, for whoever draws it meanwhile.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    bytes: AtomicU64,
    /// Of these, those of holes.
    holes: AtomicU64,
    expected: AtomicU64,
    /// Of files that need not be read.
    skipped_files: AtomicU64,
    skipped_bytes: AtomicU64,
    /// Whether somebody wants to know which file is read.
    is_named: AtomicBool,
    /// The file of which a piece was begun last.
    current: Mutex<PathBuf>,
}

impl Progress {
    /// Files that came to their end, well or not.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Bytes that were hashed, those of holes included.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of holes that were hashed: nothing was read for them.
    pub fn holes(&self) -> u64 {
        self.holes.load(Ordering::Relaxed)
    }

    /// Bytes of all files that are known to be wanted, if somebody who chooses them has told; it may grow.
    pub fn expected(&self) -> Option<u64> {
        Some(self.expected.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Tells that so many more bytes are wanted.
    pub fn expect(&self, bytes: u64) {
        self.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Tells that so many bytes are not wanted after all.
    pub(crate) fn expect_less(&self, bytes: u64) {
        self.expected.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Files that were looked at and need not be read, and their bytes.
    pub fn skipped(&self) -> (u64, u64) {
        (self.skipped_files.load(Ordering::Relaxed), self.skipped_bytes.load(Ordering::Relaxed))
    }

    /// Counts a file that need not be read.
    pub fn skip(&self, bytes: u64) {
        self.skipped_files.fetch_add(1, Ordering::Relaxed);
        self.skipped_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Has the engine tell which file it reads, which costs a little for each.
    pub fn name_files(&self) {
        self.is_named.store(true, Ordering::Relaxed);
    }

    /// The file of which a piece was begun last; empty if that is not told.
    pub fn current(&self) -> PathBuf {
        lock(&self.current).clone()
    }

    /// Tells which file a piece is read of now. Nobody waits for that: where another thread tells it just now, its file
    /// is as good.
    pub fn now_at(&self, path: impl FnOnce() -> PathBuf) {
        if self.is_named.load(Ordering::Relaxed)
            && let Ok(mut current) = self.current.try_lock()
        {
            *current = path();
        }
    }

    /// Counts more files that came to their end, and more bytes.
    pub fn add(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts more bytes of holes, which are counted as hashed too.
    pub(crate) fn add_holes(&self, bytes: u64) {
        self.holes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A request to end early: made by somebody, or by the clock.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    requested: Arc<AtomicBool>,
    deadline: Option<Instant>,
    outer: Option<Arc<Stop>>,
}

impl Stop {
    /// One that comes by itself at an instant.
    pub fn at(deadline: Instant) -> Stop {
        Stop { deadline: Some(deadline), ..Stop::default() }
    }

    /// One that comes when this is set, which a handler of signals may do.
    pub fn when(requested: Arc<AtomicBool>) -> Stop {
        Stop { requested, ..Stop::default() }
    }

    /// One that comes with another. A request to it is none to the other.
    pub fn within(outer: Arc<Stop>) -> Stop {
        Stop { outer: Some(outer), ..Stop::default() }
    }

    /// Asks to end: no more files are begun, and those in progress are given up.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Whether it is time to end.
    pub fn is_due(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|at| Instant::now() >= at)
            || self.outer.as_ref().is_some_and(|outer| outer.is_due())
    }
}

/// The most bytes and operations a second that all threads together may read; 0 is no limit.
///
/// It is a bucket of tokens for a quarter of a second, so that a limit holds on average and after a pause
/// nothing is caught up.
#[derive(Debug)]
pub struct Limits {
    bytes: u64,
    operations: u64,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    bytes: f64,
    operations: f64,
    filled: Instant,
}

/// What reading and hashing one file gives at least, in bytes a second, and how much of it is read at once.
const STREAM: u64 = 50 << 20;
const PIECE: u64 = 128 << 10;

/// The seconds that a bucket lasts.
const BURST: f64 = 0.25;

impl Limits {
    /// Limits of bytes and of operations a second; 0 is none.
    pub fn new(bytes: u64, operations: u64) -> Limits {
        let bucket = Bucket { bytes: 0.0, operations: 0.0, filled: Instant::now() };
        Limits { bytes, operations, bucket: Mutex::new(bucket) }
    }

    /// How many large files are enough to read what is allowed, if anything is limited. Of more side by side each would
    /// only take longer, and what is found out of it come later.
    pub(crate) fn streams(&self) -> Option<usize> {
        let rates = [self.bytes, self.operations.saturating_mul(PIECE)];
        let lowest = rates.into_iter().filter(|rate| *rate > 0).min()?;
        Some(usize::try_from(lowest / STREAM).unwrap_or(usize::MAX).max(1))
    }

    /// Waits until so much may be read. More than a bucket holds is let through and owed.
    pub fn wait(&self, bytes: u64, operations: u64, stop: &Stop) {
        Limits::pause(self.reserve(bytes, operations), stop);
    }

    /// Waits so long, or until it is time to stop.
    pub(crate) fn pause(mut left: Duration, stop: &Stop) {
        while !left.is_zero() && !stop.is_due() {
            let nap = left.min(NAP);
            thread::sleep(nap);
            left -= nap;
        }
    }

    /// Counts what is about to be read, and says how long to wait before: for those who do not let a thread wait.
    pub fn reserve(&self, bytes: u64, operations: u64) -> Duration {
        self.take(bytes, operations, Instant::now())
    }

    /// Takes tokens, also those that are not there yet, and says in how long they will be.
    fn take(&self, bytes: u64, operations: u64, now: Instant) -> Duration {
        let mut bucket = self.bucket.lock().unwrap_or_else(|e| e.into_inner());
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.filled = bucket.filled.max(now);
        let mut wait = 0.0_f64;
        let Bucket { bytes: byte_tokens, operations: operation_tokens, .. } = &mut *bucket;
        for (tokens, rate, wanted) in
            [(byte_tokens, self.bytes, bytes), (operation_tokens, self.operations, operations)]
        {
            if rate > 0 {
                let rate = rate as f64;
                *tokens = (*tokens + passed * rate).min(rate * BURST) - wanted as f64;
                wait = wait.max(-*tokens / rate);
            }
        }
        Duration::from_secs_f64(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_the_rate_on_average() {
        let limits = Limits::new(1000, 0);
        let start = limits.bucket.lock().unwrap().filled;
        let at = |seconds| start + Duration::from_secs(seconds);
        // Nothing is there yet; what is taken is owed.
        assert_eq!(limits.take(500, 7, at(0)), Duration::from_millis(500));
        assert_eq!(limits.take(500, 7, at(0)), Duration::from_secs(1));
        assert_eq!(limits.take(1000, 7, at(2)), Duration::from_millis(750));
        // A long pause fills the bucket once.
        assert_eq!(limits.take(250, 7, at(1000)), Duration::ZERO);
        assert_eq!(limits.take(250, 7, at(1000)), Duration::from_millis(250));
    }

    #[test]
    fn operations_are_limited_apart() {
        let limits = Limits::new(0, 10);
        let start = limits.bucket.lock().unwrap().filled;
        assert_eq!(limits.take(1 << 40, 1, start), Duration::from_millis(100));
        assert_eq!(Limits::new(0, 0).take(1 << 40, 1 << 40, start), Duration::ZERO);
    }

    #[test]
    fn low_rates_are_for_few_files() {
        assert_eq!(Limits::new(0, 0).streams(), None);
        assert_eq!(Limits::new(10 << 20, 0).streams(), Some(1));
        assert_eq!(Limits::new(1 << 30, 0).streams(), Some(20));
        assert_eq!(Limits::new(1 << 30, 5).streams(), Some(1));
        assert_eq!(Limits::new(0, u64::MAX).streams(), Some((u64::MAX / STREAM) as usize));
    }

    #[test]
    fn a_deadline_is_due_by_itself() {
        assert!(Stop::at(Instant::now()).is_due());
        let stop = Stop::at(Instant::now() + Duration::from_secs(3600));
        assert!(!stop.is_due());
        stop.request();
        assert!(stop.is_due());
    }
}
