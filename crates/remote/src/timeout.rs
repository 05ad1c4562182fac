//! Timeouts: how long a host may be silent. Ends work that takes longer.

use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use verisum_files::{Stop, lock};

use crate::FileState;

/// How often somebody looks whether a host is late.
const TICK: Duration = Duration::from_millis(100);

/// The fewest bytes a second at which a host is taken to be still reading.
const SLOWEST: u64 = 5_000_000;

/// What stands for no limit, in milliseconds.
const NO_LIMIT: u64 = u64::MAX;

/// How long one command on a host may go on without a sign of life. It counts only while the host is the one
/// that everybody waits for.
#[derive(Debug)]
pub(crate) struct Timeout {
    begun: Instant,
    /// For what needs no reading.
    answer: Duration,
    /// When it was last known to work, in milliseconds since the beginning.
    last: AtomicU64,
    /// Milliseconds.
    limit: AtomicU64,
    /// How many of our threads keep it waiting.
    paused: AtomicU64,
}

impl Timeout {
    /// With so long for what needs no reading, and without a limit at first where there is none.
    pub(crate) fn new(answer: Duration, limit: Option<Duration>) -> Arc<Timeout> {
        let timeout = Timeout {
            begun: Instant::now(),
            answer,
            last: AtomicU64::new(0),
            limit: AtomicU64::new(NO_LIMIT),
            paused: AtomicU64::new(0),
        };
        timeout.allow(limit);
        Arc::new(timeout)
    }

    /// How long it may take for what needs no reading.
    pub(crate) fn answer(&self) -> Duration {
        self.answer
    }

    /// Lets it work for so long from now.
    pub(crate) fn allow(&self, limit: Option<Duration>) {
        self.set(limit);
        self.touch();
    }

    /// Changes the limit, and not the time at which it begins to count.
    pub(crate) fn set(&self, limit: Option<Duration>) {
        let limit = limit.map_or(NO_LIMIT, |limit| limit.as_millis() as u64);
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Does something of ours, for which the host has to wait.
    pub(crate) fn paused<T>(&self, work: impl FnOnce() -> T) -> T {
        self.paused.fetch_add(1, Ordering::SeqCst);
        let done = work();
        self.touch();
        self.paused.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// The limit, in seconds.
    fn seconds(&self) -> u64 {
        self.limit.load(Ordering::Relaxed).div_ceil(1000)
    }

    fn touch(&self) {
        self.last.store(self.now(), Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        // In this order: whoever goes on says so before the pause ends.
        let is_paused = self.paused.load(Ordering::SeqCst) > 0;
        let passed = self.now().saturating_sub(self.last.load(Ordering::SeqCst));
        !is_paused && passed > self.limit.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}

/// What a host was asked to read, and has not answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    bytes: u64,
    /// How many files nobody knows the sizes of.
    unknown: u64,
}

impl Load {
    pub(crate) fn add(&mut self, seen: &FileState) {
        match seen.size {
            Some(size) => self.bytes = self.bytes.saturating_add(size),
            None => self.unknown += 1,
        }
    }

    pub(crate) fn remove(&mut self, seen: &FileState) {
        match seen.size {
            Some(size) => self.bytes = self.bytes.saturating_sub(size),
            None => self.unknown = self.unknown.saturating_sub(1),
        }
    }

    /// How long nothing may come meanwhile, of a host that has so long for what needs no reading. Files
    /// of unknown sizes may take any time.
    pub(crate) fn limit(&self, answer: Duration) -> Option<Duration> {
        (self.unknown == 0).then(|| answer + Duration::from_secs(self.bytes / SLOWEST))
    }
}

/// Ends the work of a place in the middle of a file: only while it hashes, so that what it writes is whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct HashStop(Arc<Mutex<Option<Arc<Stop>>>>);

impl HashStop {
    /// From now on the work ends by this.
    pub(crate) fn set(&self, stop: Option<Arc<Stop>>) {
        *lock(&self.0) = stop;
    }

    pub(crate) fn is_due(&self) -> bool {
        lock(&self.0).as_ref().is_some_and(|stop| stop.is_due())
    }
}

/// Ends a process that takes too long, or that nobody wants an answer of any more.
#[derive(Debug)]
pub(crate) struct Watch {
    timeout: Arc<Timeout>,
    /// Dropped when nobody has to be watched any more.
    done: Option<Sender<()>>,
    watcher: Option<JoinHandle<()>>,
    has_barked: Arc<AtomicBool>,
}

impl Watch {
    /// Watches a process that is not waited for before [`stop`](Self::stop), so that its number stays its own.
    pub(crate) fn new(child: &Child, is_group: bool, timeout: &Arc<Timeout>, stop: &HashStop) -> Watch {
        let has_barked = Arc::new(AtomicBool::new(false));
        let (done, waiting) = channel::<()>();
        let stop = stop.clone();
        let (pid, limits, barked) =
            (Pid::from_raw(child.id() as i32), Arc::clone(timeout), Arc::clone(&has_barked));
        let watcher = std::thread::spawn(move || {
            while waiting.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if limits.is_over() || stop.is_due() {
                    barked.store(true, Ordering::SeqCst);
                    if let Some(pid) = pid {
                        let _ = match is_group {
                            true => kill_process_group(pid, Signal::KILL),
                            false => kill_process(pid, Signal::KILL),
                        };
                    }
                    return;
                }
            }
        });
        Watch { timeout: Arc::clone(timeout), done: Some(done), watcher: Some(watcher), has_barked }
    }

    /// Watches no more. Returns after how many seconds the process was ended, if it was.
    pub(crate) fn stop(&mut self) -> Option<u64> {
        drop(self.done.take());
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
        self.has_barked.load(Ordering::SeqCst).then(|| self.timeout.seconds())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_host_takes_counts() {
        let timeout = Timeout::new(Duration::ZERO, Some(Duration::ZERO));
        let wait = || std::thread::sleep(Duration::from_millis(5));
        wait();
        assert!(timeout.is_over());
        timeout.paused(|| {
            wait();
            assert!(!timeout.is_over());
        });
        timeout.allow(None);
        wait();
        assert!(!timeout.is_over());
    }

    #[test]
    fn large_files_take_longer_and_unknown_ones_any_time() {
        let answer = Duration::from_secs(70);
        let seen = |size| FileState { size, ..FileState::default() };
        let mut load = Load::default();
        load.add(&seen(Some(5_000_000_000)));
        assert_eq!(load.limit(answer), Some(Duration::from_secs(1070)));
        load.add(&seen(None));
        assert_eq!(load.limit(answer), None);
        load.remove(&seen(None));
        load.remove(&seen(Some(5_000_000_000)));
        assert_eq!(load.limit(answer), Some(answer));
    }
}
