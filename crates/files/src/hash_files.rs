//! The digests of all files of trees, as an iterator.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use verisum_digest::{Digest, Output};

use crate::in_order::InOrder;
use crate::{
    Content, Entry, FileError, Job, Kind, Limits, Order, Outlet, Plan, Progress, Results, Roots, Stat, Stop,
    Walk, WalkOptions, hash,
};

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
    /// How far it is, for whoever draws it meanwhile.
    pub progress: Arc<Progress>,
    /// Ends the work, also within a file, when it is due.
    pub stop: Arc<Stop>,
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
    results: Results<NumberedResult, ()>,
    /// Those that came before their turn; none where there is no order.
    early: Option<InOrder<HashResult>>,
}

type HashResult = Result<FileDigests, FileError>;
type NumberedResult = (u64, HashResult);

/// Hashes the regular files of trees, each root being a file or a directory.
///
/// Files are read and hashed on threads of their own while results are taken. If nobody takes them, reading
/// waits: memory does not grow with the number of files. What cannot be listed, opened or read is an error
/// among the results, and the others go on; so is a root that is neither a file nor a directory, such as a pipe.
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
        roots: Roots::Followed,
        order: if is_ordered { Order::Name } else { Order::Directory },
        excludes: options.excludes.clone(),
    };
    let plan = Plan {
        limits: options.limits.clone(),
        progress: options.progress.clone(),
        window: WINDOW,
        ..Plan::new(vec![digests], threads)
    };
    let results = Results::start("hash-files", &options.stop, move |outlet| {
        let plan = Plan { stop: outlet.stop().clone(), ..plan };
        work(&plan, &mut Walk::new(roots, walk), outlet);
    })?;
    Ok(HashFiles { results, early: is_ordered.then(InOrder::new) })
}

/// Why nothing was hashed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The digest is not available.
    #[error(transparent)]
    Digest(#[from] verisum_digest::DigestError),
    /// The system has no thread left.
    #[error("start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

fn work(
    plan: &Plan,
    walk: &mut (dyn Iterator<Item = Result<Entry, FileError>> + Send),
    outlet: &Outlet<NumberedResult>,
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
                Err(error) => outlet.give((token, Err(error))).then_some(())?,
            }
        }
    });
    hash(plan, &mut jobs, &|hashed| {
        let path = hashed.entry.path();
        let result = hashed.result.map(|content| FileDigests::new(path, content));
        match outlet.give((hashed.token, result)) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
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
        match self.next_until(None) {
            Poll::Ready(result) => result,
            Poll::Pending => None,
        }
    }
}

impl HashFiles {
    /// The next result, if it comes within this time, for who has to look after something else meanwhile.
    pub fn next_within(&mut self, time: Duration) -> Poll<Option<HashResult>> {
        self.next_until(Some(Instant::now() + time))
    }

    fn next_until(&mut self, deadline: Option<Instant>) -> Poll<Option<HashResult>> {
        loop {
            if let Some(result) = self.early.as_mut().and_then(InOrder::take) {
                return Poll::Ready(Some(result));
            }
            match (self.results.next_until(deadline), &mut self.early) {
                (Poll::Ready(Some((number, result))), Some(early)) => early.put(number, result),
                (Poll::Ready(Some((_, result))), None) => return Poll::Ready(Some(result)),
                (Poll::Pending, _) => return Poll::Pending,
                // Only where the work ended early are numbers left out.
                (Poll::Ready(None), early) => {
                    return Poll::Ready(early.as_mut().and_then(InOrder::take_any));
                }
            }
        }
    }
}
