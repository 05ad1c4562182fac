//! How many files may be open at the same time.

use rustix::process::{Resource, getrlimit};

/// The least that the limit of open files must be for all to be hashed whatever else the process does.
pub const LEAST_OPEN_FILES: u64 = 32;

/// Descriptors that are left to the rest of the process: standard streams, a catalogue, the walk.
const RESERVED: usize = 20;

/// The most files that a thread takes at once.
const MOST_TAKEN: usize = 128;

/// The most large files that are open at the same time.
const MOST_STREAMS: usize = 256;

/// Descriptors that may be used for files and the directories that they are in.
pub(super) struct Budget(usize);

impl Budget {
    /// What the limit of the process allows.
    pub(super) fn of_process() -> Budget {
        Budget::of(getrlimit(Resource::Nofile).current)
    }

    fn of(limit: Option<u64>) -> Budget {
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        // A file may hold a directory open besides itself, and half of the files are large.
        Budget(limit.saturating_sub(RESERVED) / 4)
    }

    /// How many threads there may be, at least one: each has a file of its own.
    pub(super) fn threads(&self, wanted: usize) -> usize {
        wanted.clamp(1, self.0.max(1))
    }

    /// How many files each of so many threads may take at once.
    pub(super) fn files_at_once(&self, threads: usize) -> usize {
        (self.0 / threads).clamp(1, MOST_TAKEN)
    }

    /// How many large files may be in progress.
    pub(super) fn streams(&self, wanted: usize) -> usize {
        wanted.min(MOST_STREAMS).clamp(1, self.0.max(1))
    }
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
                let open = 2 * (small + budget.streams(1000));
                assert!(open + RESERVED <= limit as usize, "{wanted} threads, {limit} files: {open}");
            }
        }
        assert_eq!(Budget::of(None).files_at_once(2), MOST_TAKEN);
        assert_eq!(Budget::of(Some(1024)).files_at_once(2), 125);
    }
}
