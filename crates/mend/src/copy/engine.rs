//! The threads of a copy, and the queues to them.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use rustix::fs::{Mode, OFlags, openat, syncfs};
use rustix::process::{Resource, getrlimit};
use verisum_catalog::store::Catalog;
use verisum_files::{Directory, lock};

use super::digests::Sets;
use super::feed::WalkFeed;
use super::links::Links;
use super::shared::Shared;
use super::worker::{Common, Job, Worker};
use super::{CopyError, CopyEvent, CopyOptions, CopySummary, Verification};

/// The most entries that wait for a thread.
const MOST_WAITING: usize = 512;

/// The most entries that a thread takes at once: so many small files are hashed side by side.
const MOST_TAKEN: usize = 32;

/// The most files that a thread holds open until they are on the disk.
const MOST_PENDING: usize = 1000;

/// Descriptors that are left to the rest of the process, and to the walk.
const RESERVED: usize = 96;

/// Copies a directory with all that is in it to TO, or a file to the name TO or into the directory TO.
///
/// `catalog` has the records that the files of FROM are compared with; tags are read in any case. The sink is
/// told what came of each entry but directories, from several threads, in no order.
///
/// # Errors
/// FROM cannot be opened, TO cannot be made, or one is in the other. What fails later is told to the sink.
pub fn copy(
    from: &Path,
    to: &Path,
    options: &CopyOptions,
    catalog: Option<&Catalog>,
    sink: &(dyn Fn(&CopyEvent) + Sync),
) -> Result<CopySummary, CopyError> {
    let shared = Shared::new(options, sink);
    copy_tree(&shared, from, to, catalog)?;
    Ok(shared.ended())
}

fn copy_tree<'a>(
    shared: &'a Shared<'a>,
    from: &Path,
    to: &Path,
    catalog: Option<&Catalog>,
) -> Result<(), CopyError> {
    let options = shared.options;
    let (mut feed, top) = WalkFeed::open(shared, from, to, catalog)?;
    let threads = options.threads.max(1);
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    let files = limit.unwrap_or(usize::MAX).saturating_sub(RESERVED);
    let common = Common {
        shared,
        sets: Sets::new(options.policy.clone()),
        links: Links::default(),
        top: top.clone(),
        // Each with the directories that it is in.
        most_pending: (files / (4 * threads)).clamp(1, MOST_PENDING),
    };
    let queue = Queue::new((files / 8).clamp(1, MOST_WAITING), threads);
    let ended = thread::scope(|scope| {
        let mut workers = 0;
        for _ in 0..threads {
            let work = || {
                let _guard = Guard(&queue);
                let mut worker = Worker::new(&common);
                while let Some(jobs) = queue.take() {
                    worker.take(jobs);
                }
                worker.end();
            };
            // With fewer threads it takes longer.
            workers += usize::from(thread::Builder::new().spawn_scoped(scope, work).is_ok());
        }
        queue.workers.store(workers, Ordering::Relaxed);
        let mut own = (workers == 0).then(|| Worker::new(&common));
        let mut ended = Ok(());
        while let Some(job) = feed.next() {
            match (job, &mut own) {
                (Ok(job), Some(worker)) => worker.take(vec![job]),
                (Ok(job), None) => {
                    if !queue.put(job) {
                        break;
                    }
                }
                (Err(error), _) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        // Directories get their times when nobody makes anything in them any more.
        drop(feed);
        queue.end();
        if let Some(worker) = &mut own {
            worker.end();
        }
        ended
    });
    ended?;
    sync_names(shared, &top, to)
}

/// Brings the last names to the disk, where that is wanted.
pub(super) fn sync_names(shared: &Shared, top: &Directory, to: &Path) -> Result<(), CopyError> {
    let summary = *shared.summary();
    let is_written = summary.copied + summary.linked + summary.touched + summary.made > 0;
    if is_written && shared.options.verification != Verification::None {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let synced = openat(top, ".", flags, Mode::empty()).and_then(syncfs);
        synced.map_err(|errno| CopyError::target(to, "sync", errno))?;
    }
    Ok(())
}

/// Entries on the way to the threads.
struct Queue<'a> {
    state: Mutex<WaitingCopy<'a>>,
    changed: Condvar,
    most: usize,
    threads: usize,
    /// How many threads still take.
    workers: AtomicUsize,
}

struct WaitingCopy<'a> {
    jobs: VecDeque<Job<'a>>,
    is_ended: bool,
}

impl<'a> Queue<'a> {
    fn new(most: usize, threads: usize) -> Queue<'a> {
        let state = Mutex::new(WaitingCopy { jobs: VecDeque::new(), is_ended: false });
        Queue { state, changed: Condvar::new(), most, threads, workers: AtomicUsize::new(usize::MAX) }
    }

    /// Adds an entry when there is room; false if nobody takes any.
    fn put(&self, job: Job<'a>) -> bool {
        let mut state = lock(&self.state);
        while state.jobs.len() >= self.most {
            if self.workers.load(Ordering::Relaxed) == 0 {
                return false;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let was_empty = state.jobs.is_empty();
        state.jobs.push_back(job);
        drop(state);
        if was_empty {
            self.changed.notify_all();
        }
        true
    }

    /// The next entries: fewer where few are left, so that each thread has some.
    fn take(&self) -> Option<Vec<Job<'a>>> {
        let mut state = lock(&self.state);
        while state.jobs.is_empty() {
            if state.is_ended {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let was_full = state.jobs.len() >= self.most;
        let count = (state.jobs.len() / (2 * self.threads)).clamp(1, MOST_TAKEN);
        let jobs = state.jobs.drain(..count).collect();
        let is_left = !state.jobs.is_empty();
        drop(state);
        if was_full || is_left {
            self.changed.notify_all();
        }
        Some(jobs)
    }

    fn end(&self) {
        lock(&self.state).is_ended = true;
        self.changed.notify_all();
    }
}

/// Lets the feed end if all threads panic.
struct Guard<'q, 'a>(&'q Queue<'a>);

impl Drop for Guard<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.workers.fetch_sub(1, Ordering::Relaxed);
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::LEFTOVER;

    /// As on FAT, which not every kernel has.
    #[test]
    fn files_that_must_have_names_are_copied_too() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir_all(from.join("sub")).unwrap();
        std::fs::create_dir_all(to.join("sub")).unwrap();
        for name in ["one", "sub/two", "sub/three"] {
            std::fs::write(from.join(name), name).unwrap();
        }
        std::fs::write(to.join("sub/two"), "old").unwrap();
        std::fs::write(to.join(format!("sub/{LEFTOVER}1-1")), "left").unwrap();
        // What only begins so is somebody's own.
        let own = ["notes", "1", "1-2-3", "+1-1", "x-1", "1-"].map(|end| format!("{LEFTOVER}{end}"));
        let own = own.into_iter().chain([".verisum-copy-2024-1".to_string()]).map(|name| to.join(name));
        let own: Vec<_> = own.collect();
        own.iter().for_each(|path| std::fs::write(path, "own").unwrap());
        // One that another copy is at work on.
        let held = to.join(format!("{LEFTOVER}1-2"));
        std::fs::write(&held, "held").unwrap();
        let file = std::fs::File::open(&held).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared).unwrap();
        for verification in [Verification::Reread, Verification::None] {
            let options = CopyOptions { verification, ..CopyOptions::default() };
            let told = Mutex::new(Vec::new());
            let sink = |event: &CopyEvent| lock(&told).push(format!("{event:?}"));
            let shared = Shared::new(&options, &sink);
            shared.has_names_only.store(true, Ordering::Relaxed);
            copy_tree(&shared, &from, &to, None).unwrap();
            assert_eq!((shared.ended().copied, shared.ended().failed), (3, 0), "{told:?}");
            for name in ["one", "sub/two", "sub/three"] {
                assert_eq!(std::fs::read_to_string(to.join(name)).unwrap(), name);
                std::fs::remove_file(to.join(name)).unwrap();
            }
            assert_eq!(std::fs::read_dir(to.join("sub")).unwrap().count(), 0);
            assert_eq!(std::fs::read_dir(&to).unwrap().count(), 2 + own.len());
        }
    }
}
