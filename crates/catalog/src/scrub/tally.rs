//! Counts of a running scrub: what was read, and the errors of each device.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::store::Moment;

/// Counters that all threads add to.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) read_files: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    /// With those of holes.
    pub(super) hashed_bytes: AtomicU64,
    /// Files over which another one is mounted.
    pub(super) mounted_over: AtomicU64,
    /// Files that were not read because their device fails.
    given_up: AtomicU64,
    /// Files that are known to be bad and were not read, for whatever reason.
    not_tried: AtomicU64,
    /// New and changed files for which there was no time.
    waiting: AtomicU64,
    /// Whether there was no time for some file that is due.
    is_out_of_time: AtomicBool,
    /// The most errors of a device, new and known ones each.
    most: Option<u64>,
    /// Whether any device failed: all threads ask that for every file.
    has_failed: AtomicBool,
    failures: Mutex<HashMap<u64, Failures>>,
}

/// How many files were met, and when the stalest of them was verified.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Met {
    pub(super) files: u64,
    pub(super) oldest: Option<Moment>,
}

impl Met {
    pub(super) fn add(&mut self, verified: Moment) {
        self.files += 1;
        self.oldest = Some(self.oldest.map_or(verified, |oldest| oldest.min(verified)));
    }
}

/// Why a file that is due is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Untried {
    /// Somebody ended the run.
    #[error("the run was ended")]
    Ended,
    /// The budget of the run was spent.
    #[error("there was no time")]
    NoTime,
    /// Too many other files of its device could not be read.
    #[error("the device fails too often")]
    DeviceFails,
}

/// Errors of a device's storage.
#[derive(Clone, Copy, Default)]
struct Failures {
    new: u64,
    known: u64,
}

impl Tally {
    /// One that gives a device up after so many errors.
    pub(super) fn new(most: Option<u64>) -> Tally {
        Tally { most, ..Tally::default() }
    }

    /// Counts a file that was read to its end: so many bytes of it, and so many that were hashed.
    pub(super) fn read(&self, read: u64, hashed: u64) {
        self.read_files.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(read, Ordering::Relaxed);
        self.hashed_bytes.fetch_add(hashed, Ordering::Relaxed);
    }

    /// Counts an error of a device's storage.
    pub(super) fn failed(&self, device: u64, is_known_bad: bool) {
        let mut failures = self.failures.lock().unwrap_or_else(|e| e.into_inner());
        let failures = failures.entry(device).or_default();
        match is_known_bad {
            true => failures.known += 1,
            false => failures.new += 1,
        }
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Whether too much of a device could not be read to go on with it. Files that were known to be bad
    /// say nothing new of it, and are given up apart from the others.
    pub(super) fn gives_up(&self, device: u64, is_known_bad: bool) -> bool {
        let Some(most) = self.most.filter(|_| self.has_failed.load(Ordering::Relaxed)) else { return false };
        let failures = self.failures.lock().unwrap_or_else(|e| e.into_inner());
        let failures = failures.get(&device).copied().unwrap_or_default();
        // A device that has just failed anew is left alone by all.
        failures.new >= most || is_known_bad && failures.known >= most
    }

    /// Counts a file that is not read.
    pub(super) fn leave(&self, why: Untried, is_bad: bool, is_fresh: bool) {
        let count = |counter: &AtomicU64, is_one| counter.fetch_add(u64::from(is_one), Ordering::Relaxed);
        count(&self.not_tried, is_bad);
        count(&self.given_up, why == Untried::DeviceFails && !is_bad);
        if why == Untried::NoTime {
            count(&self.waiting, is_fresh && !is_bad);
            self.is_out_of_time.store(true, Ordering::Relaxed);
        }
    }

    /// How many files were not read because their device fails, and how many that are known to be bad.
    pub(super) fn given_up(&self) -> (u64, u64) {
        (self.given_up.load(Ordering::Relaxed), self.not_tried.load(Ordering::Relaxed))
    }

    /// How many new and changed files there was no time for, if there was none for some file that is due.
    pub(super) fn left(&self) -> Option<u64> {
        self.is_out_of_time.load(Ordering::Relaxed).then(|| self.waiting.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_errors_do_not_count_against_the_others() {
        let tally = Tally::new(Some(2));
        tally.failed(1, true);
        tally.failed(1, true);
        tally.failed(1, true);
        assert!(tally.gives_up(1, true) && !tally.gives_up(1, false) && !tally.gives_up(2, true));
        tally.failed(1, false);
        assert!(!tally.gives_up(1, false));
        tally.failed(1, false);
        assert!(tally.gives_up(1, false) && !tally.gives_up(2, false));
        let without = Tally::new(None);
        without.failed(1, false);
        assert!(!without.gives_up(1, false));
    }
}
