//! Limits how many files are open at the same time.

use rustix::process::{Resource, getrlimit};

/// The least that the limit of open files must be for everything to be found and hashed.
pub const LEAST_OPEN_FILES: u64 = 32;

/// Descriptors that are left to the rest of the process: standard streams, lists, a catalogue.
const RESERVED: usize = 14;

/// The most files that a thread takes at once.
const MOST_TAKEN: usize = 128;

/// The most files that wait to be taken: enough for the other threads while one lists the next directory.
const MOST_WAITING: usize = 256;

/// The most large files that are open at the same time.
const MOST_STREAMS: usize = 256;

/// The most directories that a walk is in and keeps open.
const MOST_LEVELS: usize = 32;

/// How many files may be open, each with the directory that it is in.
pub(crate) struct Budget(usize);

impl Budget {
    /// What the limit of the process allows.
    pub(crate) fn of_process() -> Budget {
        Budget::of(getrlimit(Resource::Nofile).current)
    }

    fn of(current: Option<u64>) -> Budget {
        let limit = limit(current);
        let levels = levels(limit);
        // A third each: small files, large ones, which stay open when others are taken, and those that wait, of which
        // some are open too. Each has its directory.
        Budget((limit.saturating_sub(RESERVED + levels) / 6).max(1))
    }

    /// How many of the directories that a walk is in may be open.
    pub(crate) fn levels() -> usize {
        levels(limit(getrlimit(Resource::Nofile).current))
    }

    /// How many threads there may be, at least one: each has a file of its own.
    pub(crate) fn threads(&self, wanted: usize) -> usize {
        wanted.clamp(1, self.0)
    }

    /// How many files each of so many threads may take at once.
    pub(crate) fn files_at_once(&self, threads: usize) -> usize {
        (self.0 / threads).clamp(1, MOST_TAKEN)
    }

    /// How many files may wait to be taken.
    pub(super) fn waiting(&self) -> usize {
        self.0.min(MOST_WAITING)
    }

    /// How many large files may be in progress.
    pub(super) fn streams(&self, wanted: usize) -> usize {
        wanted.min(MOST_STREAMS).clamp(1, self.0)
    }
}

fn limit(current: Option<u64>) -> usize {
    current.and_then(|current| usize::try_from(current).ok()).unwrap_or(usize::MAX)
}

fn levels(limit: usize) -> usize {
    (limit.saturating_sub(RESERVED) / 3).clamp(2, MOST_LEVELS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_fits_the_limit() {
        for limit in [LEAST_OPEN_FILES, 64, 256, 1024, 1 << 20] {
            for wanted in [1, 2, 8, 128] {
                let budget = Budget::of(Some(limit));
                let threads = budget.threads(wanted);
                let small = threads * budget.files_at_once(threads);
                // A thread that has begun to take files ends with it.
                let open = 2 * (small + budget.streams(1000) + budget.waiting());
                let rest = RESERVED + levels(limit as usize);
                assert!(open + rest <= limit as usize, "{wanted} threads, {limit} files: {open}");
            }
        }
        assert_eq!(Budget::of(None).files_at_once(2), MOST_TAKEN);
        assert_eq!(Budget::of(Some(1024)).files_at_once(2), 81);
    }
}
