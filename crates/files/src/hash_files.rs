//! The digests of all files of trees, as an iterator.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use verisum_digest::{Digest, Output};

use crate::{
    Content, Entry, Error, Job, Kind, Limits, Order, Plan, Roots, Stat, Stop, Walk, WalkOptions, hash,
};

/// How many results wait for whoever takes them; then reading waits too.
const WAITING: usize = 1024;

/// Results that come faster than this gather for as long: to be woken for each takes longer than to hash it.
const GATHER: Duration = Duration::from_micros(500);

/// How many files may be begun while an earlier one is unfinished, if results are to be in order.
const WINDOW: usize = 1 << 14;

/// What to hash, and how. The default is SHA-256 on all cores, results as they come.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HashOptions {
    /// The digests, all computed in one read; none stands for SHA-256.
    pub digests: Vec<Digest>,
    /// Threads; 0 for as many as there are cores.
    pub threads: usize,
    /// In which order results come.
    pub order: ResultOrder,
    /// Do not enter directories of other file systems.
    pub one_file_system: bool,
    /// Follow links to files and directories. Roots are followed anyway.
    pub follow_links: bool,
    /// What is left out.
    pub excludes: Option<Arc<crate::Excludes>>,
    /// The limit of read bandwidth.
    pub limits: Option<Arc<Limits>>,
}

/// In which order results come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultOrder {
    /// As files are finished: the fastest.
    #[default]
    AsFinished,
    /// Root by root, by the bytes of the paths, as `LC_ALL=C sort` has them.
    ByName,
}

/// A file and its digests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileDigests {
    /// Its path, below the root as that was given.
    pub path: PathBuf,
    /// Its digests, in the order of [`HashOptions::digests`].
    pub digests: Vec<Output>,
    /// How many bytes were hashed.
    pub length: u64,
    /// What the file system said of it before it was read.
    pub stat: Stat,
    /// Whether it changed while it was read: the digests may fit no state of it then.
    pub changed: bool,
}

/// The results of [`hash_files`]. Dropping it ends the work.
#[derive(Debug)]
pub struct HashFiles {
    /// None once it is dropped, so that those who send notice.
    results: Option<Receiver<Numbered>>,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
    /// The number of the next result, and those that came before their turn; none where there is no order.
    next: Option<(u64, BTreeMap<u64, HashResult>)>,
    /// When a result was received last.
    last: Instant,
}

type HashResult = Result<FileDigests, Error>;
type Numbered = (u64, HashResult);

/// Hashes the regular files of trees, each root being a file or a directory.
///
/// Files are read and hashed on threads of their own while results are taken. If nobody takes them, reading
/// waits: memory does not grow with the number of files. What cannot be listed, opened or read is an error
/// among the results, and the others go on.
///
/// # Errors
/// SHA-256 is not available, or the system has no thread left.
pub fn hash_files(roots: Vec<PathBuf>, options: &HashOptions) -> Result<HashFiles, StartError> {
    let digests = match options.digests.is_empty() {
        true => vec![Digest::find("sha256")?],
        false => options.digests.clone(),
    };
    let threads = match options.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let is_ordered = options.order == ResultOrder::ByName;
    let walk = WalkOptions {
        one_file_system: options.one_file_system,
        follow_links: options.follow_links,
        roots: Roots::default(),
        order: if is_ordered { Order::Name } else { Order::Directory },
        excludes: options.excludes.clone(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let plan = Plan {
        limits: options.limits.clone(),
        stop: Arc::new(Stop::when(stop.clone())),
        window: WINDOW,
        ..Plan::new(vec![digests], threads)
    };
    let (sender, results) = sync_channel(WAITING);
    let worker = thread::Builder::new().name("hash-files".to_string()).spawn(move || {
        work(&plan, &mut Walk::new(roots, walk), &sender);
    })?;
    let next = is_ordered.then(|| (0, BTreeMap::new()));
    Ok(HashFiles { results: Some(results), stop, worker: Some(worker), next, last: Instant::now() })
}

/// Why nothing was hashed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The digest is not available.
    #[error(transparent)]
    Digest(#[from] verisum_digest::Error),
    /// The system has no thread left.
    #[error("start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

fn work(
    plan: &Plan,
    walk: &mut (dyn Iterator<Item = Result<Entry, Error>> + Send),
    sender: &SyncSender<Numbered>,
) {
    let number = AtomicU64::new(0);
    let mut jobs = std::iter::from_fn(|| {
        loop {
            let found = walk.next()?;
            if found.as_ref().is_ok_and(|entry| entry.kind() != Kind::File) {
                continue;
            }
            let token = number.fetch_add(1, Ordering::Relaxed);
            match found {
                Ok(entry) => return Some(Job { entry, set: 0, token }),
                Err(error) => sender.send((token, Err(error))).ok()?,
            }
        }
    });
    hash(plan, &mut jobs, &|hashed| {
        let path = hashed.entry.path();
        let result = hashed.result.map(|content| FileDigests::new(path, content));
        match sender.send((hashed.token, result)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
}

impl FileDigests {
    fn new(path: PathBuf, content: Content) -> FileDigests {
        FileDigests {
            path,
            length: content.length,
            changed: !content.before.is_same_state(&content.after),
            stat: content.before,
            digests: content.digests,
        }
    }
}

impl Iterator for HashFiles {
    type Item = HashResult;

    fn next(&mut self) -> Option<HashResult> {
        self.take(|results| results.recv().map_err(RecvTimeoutError::from)).ok()?
    }
}

impl HashFiles {
    /// The next result, if it comes within this time, for who has to look after something else meanwhile.
    pub fn next_within(&mut self, time: Duration) -> Poll<Option<HashResult>> {
        let deadline = Instant::now() + time;
        match self.take(|results| results.recv_timeout(deadline.saturating_duration_since(Instant::now()))) {
            Ok(result) => Poll::Ready(result),
            Err(StillWaiting) => Poll::Pending,
        }
    }

    fn take(
        &mut self,
        receive: impl Fn(&Receiver<Numbered>) -> Result<Numbered, RecvTimeoutError>,
    ) -> Result<Option<HashResult>, StillWaiting> {
        let Some(results) = &self.results else { return Ok(None) };
        loop {
            if let Some((next, early)) = &mut self.next
                && let Some(result) = early.remove(next)
            {
                *next += 1;
                return Ok(Some(result));
            }
            let received = match results.try_recv() {
                Err(TryRecvError::Empty) if self.last.elapsed() < GATHER => {
                    thread::sleep(GATHER);
                    receive(results)
                }
                Err(_) => receive(results),
                Ok(result) => Ok(result),
            };
            if received.is_ok() {
                self.last = Instant::now();
            }
            match (received, &mut self.next) {
                (Ok((number, result)), Some((_, early))) => drop(early.insert(number, result)),
                (Ok((_, result)), None) => return Ok(Some(result)),
                (Err(RecvTimeoutError::Timeout), _) => return Err(StillWaiting),
                // Only where the work ended early are numbers left out.
                (Err(RecvTimeoutError::Disconnected), next) => {
                    let left = next.as_mut().and_then(|(_, early)| early.pop_first());
                    return Ok(left.map(|(_, result)| result));
                }
            }
        }
    }
}

/// Nothing came in time.
struct StillWaiting;

impl Drop for HashFiles {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.results = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}
