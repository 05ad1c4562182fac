//! Hashes many files in parallel.
//!
//! Small files are read whole, some tens at a time, and hashed as one batch. Large ones are read piece by
//! piece, several at the same time, and their pieces hashed side by side. Every thread does whatever is
//! best next: open and read small files, or read and hash pieces of large ones, in its own buffer. Memory is
//! bounded by the number of threads, and open descriptors by the limit of the process, whatever the number
//! and size of files.

mod budget;
mod large;
mod links;
mod pool;
mod share;
mod small;
mod source;
mod split;
mod stream;
mod work;

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::{Arc, Once};
use std::thread;

use verisum_digest::{Digest, Output};

use crate::{Entry, FileError, Limits, Progress, Stat, Stop};
pub(crate) use budget::Budget;
pub use budget::LEAST_OPEN_FILES;
use work::Engine;

/// A file to hash.
#[derive(Debug)]
pub struct Job<T> {
    /// The file.
    pub entry: Entry,
    /// Which of [`Plan::sets`] to compute of it.
    pub set: usize,
    /// Whatever the caller needs to know it by.
    pub token: T,
}

/// How to hash. [`Plan::new`] has what is usual.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sets of digests, each computed in one read.
    pub sets: Vec<Vec<Digest>>,
    /// Threads, at least 1.
    pub threads: usize,
    /// The most jobs that are taken while an earlier one is unfinished: what a caller who wants results
    /// in order has to hold.
    pub window: usize,
    /// The most large files that are read at the same time, and hashed side by side; `None` for what suits the digests and
    /// the limits. A disk that has to move its heads wants few.
    pub streams: Option<usize>,
    /// How many large files a thread hashes side by side; `None` for what is estimated to be done soonest.
    pub side_by_side: Option<usize>,
    /// Read a file of several names once, and give the digests to each of the names among the jobs.
    pub hard_links_once: bool,
    /// Before a file is read that was changed lately, see to it that whoever writes to it from then on moves
    /// its times, also through mapped memory. It is for those who record what they read.
    pub settles: bool,
    /// The limit of read bandwidth.
    pub limits: Option<Arc<Limits>>,
    /// When to end early.
    pub stop: Arc<Stop>,
    /// Where to tell how far it is.
    pub progress: Arc<Progress>,
}

impl Plan {
    /// These sets of digests on so many threads, without limits.
    pub fn new(sets: Vec<Vec<Digest>>, threads: usize) -> Plan {
        Plan {
            sets,
            threads,
            window: 1 << 16,
            streams: None,
            side_by_side: None,
            hard_links_once: false,
            settles: false,
            limits: None,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// The same for a run that begins no file after some time, and reads to its end what it began: if the rate is
    /// limited, one file at a time, so that it ends soon.
    pub fn for_some_time(mut self) -> Plan {
        if self.limits.is_some() {
            (self.threads, self.streams) = (1, Some(1));
        }
        self
    }
}

/// A file that was hashed, or could not be.
#[derive(Debug)]
pub struct Hashed<T> {
    /// The file.
    pub entry: Entry,
    /// The caller's own.
    pub token: T,
    /// Its digests, or why there are none.
    pub result: Result<Content, FileError>,
}

/// What was read of a file.
#[derive(Debug)]
pub struct Content {
    /// The digests of its set, in the set's order.
    pub digests: Vec<Output>,
    /// The file, still open for reading, so that what is done next is done to what was read.
    pub file: File,
    /// What the file system said of it when it was opened.
    pub before: Stat,
    /// The same after the last byte. Where it is another state, the digests may fit no state: the file was
    /// read once more then, and changed again.
    pub after: Stat,
    /// How many bytes were hashed.
    pub length: u64,
    /// How many bytes were read for that: none of holes, and none if the file was read under another name.
    pub read: u64,
    /// Whether it was read under this name, and not under another name of the same file.
    pub is_own_read: bool,
}

/// Hashes files until there are no more, until `done` breaks, or until the plan's [`Stop`] is due.
///
/// `done` is called on the threads that hash, in no particular order; what it does there is done in
/// parallel. A file that fails is reported and the others go on. Each job is reported once, those given up
/// because of the stop too; after a break none is reported any more.
///
/// What is not a regular file is refused, and never waited for: [`Entry::open`] on it is the caller's to
/// risk.
pub fn hash<T: Send>(
    plan: &Plan,
    jobs: &mut (dyn Iterator<Item = Job<T>> + Send),
    done: &(dyn Fn(Hashed<T>) -> ControlFlow<()> + Sync),
) {
    hash_wanted(plan, jobs, &|_| true, done);
}

/// As [`hash`], but for the files that are still `wanted` when their turn comes. It is asked right before
/// a file is opened, and before it is read if that is later: jobs are taken in heaps, and what was
/// found out of some of them may say that the others are not to be touched. The others are reported as
/// [`FileError::Stopped`].
pub fn hash_wanted<T: Send>(
    plan: &Plan,
    jobs: &mut (dyn Iterator<Item = Job<T>> + Send),
    wanted: &(dyn Fn(&T) -> bool + Sync),
    done: &(dyn Fn(Hashed<T>) -> ControlFlow<()> + Sync),
) {
    run(&Engine::new(plan, jobs, wanted, &Some, done));
}

/// As [`hash_wanted`], but for the jobs that `prepare` makes of those that come, if any: on the threads that hash,
/// right before a file is opened. What takes long to find out of each file is found out in parallel there.
pub(crate) fn hash_prepared<T: Send>(
    plan: &Plan,
    jobs: &mut (dyn Iterator<Item = Job<T>> + Send),
    wanted: &(dyn Fn(&T) -> bool + Sync),
    prepare: &(dyn Fn(Job<T>) -> Option<Job<T>> + Sync),
    done: &(dyn Fn(Hashed<T>) -> ControlFlow<()> + Sync),
) {
    run(&Engine::new(plan, jobs, wanted, prepare, done));
}

fn run<T: Send>(engine: &Engine<T>) {
    thread::scope(|scope| {
        // One small file is hashed before another thread has begun, and there the end would wait for it.
        let help = Once::new();
        engine.work(&|| {
            help.call_once(|| {
                for _ in 1..engine.threads {
                    // With fewer threads it is done too.
                    let _ = thread::Builder::new().spawn_scoped(scope, || engine.help());
                }
            });
        });
    });
}
