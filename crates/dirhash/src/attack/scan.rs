//! Tries numbers in order on all processors, and gives the answer that one processor would find first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How often progress is told.
const INTERVAL: Duration = Duration::from_millis(200);

/// What a scan came to.
pub(super) struct Scan {
    /// The names, in the order of their numbers.
    pub(super) names: Vec<Vec<u8>>,
    /// Numbers tried.
    pub(super) tried: u64,
}

/// A block of numbers: the first, and the one past the last.
pub(super) type NumberBlock = std::ops::Range<u64>;

/// Tries the numbers below `most`, `block` of them at a time, until there are `count` names. `work` adds
/// the names of a block with their numbers; `watch` is told from time to time how many numbers were
/// tried and names found.
pub(super) fn scan(
    count: usize,
    most: u64,
    block: u64,
    watch: &mut dyn FnMut(u64, usize),
    work: impl Fn(NumberBlock, &mut Vec<(u64, Vec<u8>)>) + Sync,
) -> Scan {
    let threads = thread::available_parallelism().map_or(1, |number| number.get());
    let next = AtomicU64::new(0);
    let tried = AtomicU64::new(0);
    let running = AtomicUsize::new(threads);
    let found = Mutex::new(Vec::new());
    let locked = || found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let watcher = thread::current();
    // Blocks are begun in order and always finished: the lowest numbers are found, however many threads.
    let worker = || {
        let mut mine = Vec::new();
        while locked().len() < count {
            let first = next.fetch_add(block, Ordering::Relaxed);
            if first >= most {
                break;
            }
            let numbers = first..most.min(first.saturating_add(block));
            let length = numbers.end - numbers.start;
            work(numbers, &mut mine);
            tried.fetch_add(length, Ordering::Relaxed);
            if !mine.is_empty() {
                locked().append(&mut mine);
            }
        }
        running.fetch_sub(1, Ordering::Release);
        watcher.unpark();
    };
    thread::scope(|scope| {
        let mut started = 0;
        for _ in 0..threads {
            started += usize::from(thread::Builder::new().spawn_scoped(scope, worker).is_ok());
        }
        running.fetch_sub(threads - started, Ordering::Release);
        if started == 0 {
            running.store(1, Ordering::Release);
            worker();
        }
        while running.load(Ordering::Acquire) > 0 {
            thread::park_timeout(INTERVAL);
            watch(tried.load(Ordering::Relaxed), locked().len());
        }
    });
    let mut found = found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    found.sort();
    found.truncate(count);
    Scan { names: found.into_iter().map(|(_, name)| name).collect(), tried: tried.into_inner() }
}
