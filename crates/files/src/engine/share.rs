//! How many large files each thread hashes at once. An estimate from measured times decides, because processors
//! differ.
//!
//! Many side by side use a processor's vectors best. Few for each of the threads use all processors. And threads that do
//! not hash read for those who do.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use verisum_digest::{Digest, Message};

use super::Plan;

/// How many bytes of each message are hashed to measure, and how often: the least time counts.
const MEASURED: usize = 8 << 10;
const TIMES: usize = 3;

/// What reading takes until it is known, in seconds a byte: about what memory gives.
const USUAL_READ: f64 = 1e-10;

/// The shares of the threads.
pub(super) struct Shares {
    threads: usize,
    /// The caller's choice for all sets.
    chosen: Option<usize>,
    sets: Vec<Set>,
    read_bytes: AtomicU64,
    read_nanoseconds: AtomicU64,
}

struct Set {
    digests: Vec<Digest>,
    /// What one byte of each of so many files takes, in seconds, by their number less one.
    times: Vec<OnceLock<f64>>,
}

impl Shares {
    /// For the sets of digests of a plan, each with the most files that are hashed side by side.
    pub(super) fn new(plan: &Plan, lanes: &[usize], threads: usize) -> Shares {
        let set = |(digests, lanes): (&Vec<Digest>, &usize)| Set {
            digests: digests.clone(),
            times: (0..*lanes).map(|_| OnceLock::new()).collect(),
        };
        let (read_bytes, read_nanoseconds) = Default::default();
        let sets = plan.sets.iter().zip(lanes).map(set).collect();
        Shares { threads, chosen: plan.side_by_side, sets, read_bytes, read_nanoseconds }
    }

    /// Says how long reading took.
    pub(super) fn has_read(&self, bytes: u64, time: Duration) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.read_nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// How many of so many files of a set a thread is to hash side by side.
    pub(super) fn of(&self, set: usize, files: usize) -> usize {
        let set = &self.sets[set];
        let most = files.clamp(1, set.times.len());
        if let Some(chosen) = self.chosen {
            return chosen.clamp(1, most);
        }
        if files < 2 || self.threads < 2 {
            return most;
        }
        let read = self.read_time();
        // Not all need be looked at: these are the most, and the least for each number of groups.
        let shares = (1..=files).map(|groups| files.div_ceil(groups)).filter(|share| *share < most);
        let shares = shares.take_while(|share| *share > 1).chain([1]);
        std::iter::once(most)
            .chain(shares)
            .map(|share| (share, self.estimate(files, share, set, read)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map_or(most, |best| best.0)
    }

    /// How long one byte of each file takes, in seconds. Whoever does not hash reads for the others, so that all threads
    /// have work until the end, but a group cannot be done sooner than it is hashed.
    fn estimate(&self, files: usize, share: usize, set: &Set, read: f64) -> f64 {
        let rest = match files % share {
            0 => 0.0,
            rest => set.time(rest),
        };
        let work = (files / share) as f64 * set.time(share) + rest + files as f64 * read;
        set.time(share).max(work / self.threads as f64)
    }

    fn read_time(&self) -> f64 {
        match self.read_bytes.load(Ordering::Relaxed) {
            0 => USUAL_READ,
            bytes => self.read_nanoseconds.load(Ordering::Relaxed) as f64 / 1e9 / bytes as f64,
        }
    }
}

impl Set {
    /// What one byte of each of so many files takes, in seconds.
    fn time(&self, files: usize) -> f64 {
        let Some(time) = self.times.get(files - 1) else { return f64::INFINITY };
        *time.get_or_init(|| {
            let message = vec![0; MEASURED];
            let of_digest = |digest: &Digest| -> Option<f64> {
                let messages: Result<Vec<Message>, _> = (0..files).map(|_| digest.message()).collect();
                let mut messages = messages.ok()?;
                messages.iter_mut().try_for_each(|one| one.expect((TIMES * MEASURED) as u64)).ok()?;
                let mut least = Duration::MAX;
                for _ in 0..TIMES {
                    let started = Instant::now();
                    let mut pieces: Vec<_> = messages.iter_mut().map(|one| (one, &message[..])).collect();
                    digest.advance(&mut pieces).ok()?;
                    least = least.min(started.elapsed());
                }
                Some(least.as_secs_f64() / MEASURED as f64)
            };
            self.digests.iter().map(|digest| of_digest(digest).unwrap_or_default()).sum()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set whose digests take so long, in nanoseconds a byte of each of 1, 2, … files.
    fn shares(threads: usize, times: &[f64]) -> Shares {
        let times = times.iter().map(|time| OnceLock::from(time * 1e-9)).collect();
        let sets = vec![Set { digests: Vec::new(), times }];
        Shares {
            threads,
            chosen: None,
            sets,
            read_bytes: AtomicU64::new(10),
            read_nanoseconds: AtomicU64::new(1),
        }
    }

    #[test]
    fn all_processors_hash_where_a_few_lanes_are_as_good_as_many() {
        // Two streams of instructions side by side, and beyond that two after two.
        let of = |files| shares(2, &[0.56, 0.65, 1.2, 1.3, 1.85, 1.95, 2.5, 2.6]).of(0, files);
        assert_eq!((of(1), of(3), of(4), of(8)), (1, 2, 2, 4));
        // Eight take as long as one: all go to one thread, and the other reads.
        let vectors = shares(2, &[4.0; 8]);
        assert_eq!((vectors.of(0, 2), vectors.of(0, 8), vectors.of(0, 16)), (2, 8, 8));
        // One too many goes from group to group: all lanes are better than three groups that are not full.
        let eight = shares(2, &[0.9, 1.7, 1.7, 1.7, 1.7, 1.7, 1.7, 1.7]);
        assert_eq!((eight.of(0, 16), eight.of(0, 17)), (8, 8));
        // Four threads, and one of them is enough to read.
        assert_eq!(shares(4, &[4.0, 4.0, 4.0]).of(0, 9), 3);
    }

    #[test]
    fn a_share_fits_the_lanes_and_the_files() {
        for threads in 1..9 {
            let shares = shares(threads, &[0.5, 0.6, 1.1, 1.2, 1.7, 1.8]);
            for files in 1..70 {
                assert!((1..=files.min(6)).contains(&shares.of(0, files)), "{files} on {threads}");
            }
        }
    }
}
