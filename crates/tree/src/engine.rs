//! Hashing many files.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread;

use verisum_digest::{Digest, Output};

use crate::{Entry, Error, Limits, Operation, Progress, Stat, Stop};

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
    /// The most large files that are read at the same time; `None` for what suits the digests. A disk
    /// that has to move its heads wants few.
    pub streams: Option<usize>,
    /// Read a file of several names once, and give the digests to each of the names among the jobs.
    pub hard_links_once: bool,
    /// The most to read in a second.
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
            hard_links_once: false,
            limits: None,
            stop: Arc::default(),
            progress: Arc::default(),
        }
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
    pub result: Result<Content, Error>,
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
    /// The same after the last byte. Where it is another state, the digests may fit no state.
    pub after: Stat,
    /// How many bytes were read.
    pub length: u64,
}

/// Hashes files until there are no more, or until `done` breaks.
///
/// `done` is called on the threads that hash, in no particular order; what it does there is done in
/// parallel. A file that fails is reported and the others go on.
pub fn hash<T: Send>(
    plan: &Plan,
    jobs: &mut (dyn Iterator<Item = Job<T>> + Send),
    done: &(dyn Fn(Hashed<T>) -> ControlFlow<()> + Sync),
) {
    let jobs = Mutex::new(Some(jobs));
    let work = || {
        loop {
            let job = match &mut *jobs.lock().unwrap_or_else(|e| e.into_inner()) {
                Some(jobs) if !plan.stop.is_due() => jobs.next(),
                _ => None,
            };
            let Some(job) = job else { break };
            let result = content(&job.entry, &plan.sets[job.set]);
            let length = result.as_ref().map_or(0, |content| content.length);
            plan.progress.add(1, length);
            if let Some(limits) = &plan.limits {
                limits.wait(length, 1, &plan.stop);
            }
            if done(Hashed { entry: job.entry, token: job.token, result }).is_break() {
                *jobs.lock().unwrap_or_else(|e| e.into_inner()) = None;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..plan.threads {
            scope.spawn(work);
        }
        work();
    });
}

fn content(entry: &Entry, digests: &[Digest]) -> Result<Content, Error> {
    let path = entry.path();
    let mut file = entry.open()?;
    let stat = |file: &File| Stat::of(file).map_err(|e| Error::io(&path, Operation::Stat, e));
    let failed = |source| Error::Digest { path: path.clone(), source };
    let before = stat(&file)?;
    let mut streams = digests.iter().map(Digest::stream).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut buffer = vec![0; 256 << 10];
    let mut length = 0;
    loop {
        let count = file.read(&mut buffer).map_err(|e| Error::io(&path, Operation::Read, e))?;
        if count == 0 {
            break;
        }
        for stream in &mut streams {
            stream.update(&buffer[..count]).map_err(failed)?;
        }
        length += count as u64;
    }
    let mut outputs = Vec::with_capacity(digests.len());
    for (digest, stream) in digests.iter().zip(&mut streams) {
        let mut output = Output::zeroed(digest.len());
        stream.finish(output.as_mut_bytes()).map_err(failed)?;
        outputs.push(output);
    }
    let after = stat(&file)?;
    Ok(Content { digests: outputs, file, before, after, length })
}
