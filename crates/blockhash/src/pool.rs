//! Worker threads that hash blocks which are already in memory.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::blocks::{BlockHasher, LongBlock, Piece, Span, ZeroBlock};
use crate::sequencer::Sequencer;
use crate::{BlockHashError, Params};

/// Buffers that are filled or wait in the queue, besides the one that each worker hashes.
pub(crate) const MORE_BUFFERS: usize = 2;

/// The most jobs that wait. With very short blocks one update is very many jobs.
const MAX_QUEUED: usize = 1024;

/// Bytes of whole blocks; only the last block of a message may be short.
pub(crate) enum Bytes {
    /// Ours, given back to the store when hashed.
    Owned(Vec<u8>),
    /// Somebody else's, who keeps them in place until the job is done.
    Borrowed(Borrowed),
}

/// Memory that its owner keeps valid and unchanged until the job that holds it is done.
pub(crate) struct Borrowed {
    data: *const u8,
    len: usize,
}

// SAFETY: it is read only, and `Borrowed::new` demands that it stays valid wherever it is read.
#[allow(unsafe_code)]
unsafe impl Send for Borrowed {}

impl Borrowed {
    /// Takes note of `data` without a lifetime.
    ///
    /// # Safety
    /// The bytes stay valid and unchanged until the job they are given to was completed or dropped.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(data: &[u8]) -> Borrowed {
        Borrowed { data: data.as_ptr(), len: data.len() }
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[allow(unsafe_code)]
    fn bytes(&self) -> &[u8] {
        // SAFETY: the promise made to `new`.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl Bytes {
    fn bytes(&self) -> &[u8] {
        match self {
            Bytes::Owned(bytes) => bytes,
            Bytes::Borrowed(borrowed) => borrowed.bytes(),
        }
    }
}

/// One piece of the message to hash.
pub(crate) struct Job {
    pub(crate) sequence: u64,
    pub(crate) bytes: Bytes,
    pub(crate) layout: Vec<Span>,
    /// Who waits for the bytes; dropped when the job needs them no longer.
    pub(crate) owner: Option<Box<dyn Owner>>,
}

/// Whoever keeps borrowed bytes in place for a job. Being dropped is the sign that it need not any more.
pub(crate) trait Owner: Send {
    /// The job failed.
    fn failed(&self) {}
}

/// The means of hashing jobs, shared by whoever does so.
pub(crate) struct JobEngine {
    pub(crate) params: Params,
    pub(crate) sequencer: Sequencer<'static>,
    zero: Arc<ZeroBlock>,
    queue: Mutex<Queue>,
    /// A job came, or no more will come.
    work: Condvar,
    /// A buffer came back, jobs were taken, or a worker failed.
    returned: Condvar,
    /// A worker takes small jobs together until it has this many bytes, so that they fill its lanes.
    fill_bytes: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
    /// Buffers that are free to be filled.
    buffers: Vec<Vec<u8>>,
    /// Buffers that exist.
    made: usize,
}

impl JobEngine {
    pub(crate) fn new(params: Params, sequencer: Sequencer<'static>, zero: Arc<ZeroBlock>) -> JobEngine {
        let fill_bytes = params.digest().lanes() * params.block_len();
        JobEngine {
            params,
            sequencer,
            zero,
            queue: Mutex::default(),
            work: Condvar::new(),
            returned: Condvar::new(),
            fill_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a job into the queue; waits while that is very long.
    pub(crate) fn push(&self, job: Job) {
        let mut queue = self.lock();
        while queue.jobs.len() >= MAX_QUEUED {
            queue = self.returned.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.work.notify_one();
    }

    /// Gives an empty buffer; waits for one when every worker has one and [`MORE_BUFFERS`] are queued.
    pub(crate) fn buffer(&self, capacity: usize) -> Result<Vec<u8>, BlockHashError> {
        let most = self.params.thread_count(MORE_BUFFERS) + MORE_BUFFERS;
        let mut queue = self.lock();
        loop {
            if let Some(buffer) = queue.buffers.pop() {
                return Ok(buffer);
            }
            if queue.made < most {
                queue.made += 1;
                return Ok(Vec::with_capacity(capacity));
            }
            // After a panic a buffer may be lost, and nobody would bring it back.
            if let Some(failure) = self.sequencer.failure() {
                return Err(failure);
            }
            queue = self.returned.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Means of hashing blocks, for one thread.
    pub(crate) fn block_hasher(&self) -> Result<BlockHasher, BlockHashError> {
        BlockHasher::new(&self.params, self.zero.clone())
    }

    /// Ends a long block.
    pub(crate) fn long_piece(&self, block: &mut LongBlock) -> Result<Piece, BlockHashError> {
        let mut piece = self.sequencer.spare();
        block.finish(&mut piece.digests)?;
        piece.layout.push(Span::Data(1));
        Ok(piece)
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.lock().buffers.push(buffer);
        self.returned.notify_all();
    }

    /// Lets the workers end after what they have begun; drops the jobs that none has begun.
    fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        queue.jobs.clear();
        drop(queue);
        self.work.notify_all();
    }

    /// Waits for jobs: one, or as many small ones as fill a batch. Empty when the queue was closed.
    fn take(&self, jobs: &mut Vec<Job>) {
        let mut queue = self.lock();
        while queue.jobs.is_empty() && !queue.closed {
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let mut bytes = 0;
        while let Some(job) = queue.jobs.front() {
            bytes += job.bytes.bytes().len();
            if !jobs.is_empty() && bytes > self.fill_bytes {
                break;
            }
            jobs.extend(queue.jobs.pop_front());
        }
        drop(queue);
        self.returned.notify_all();
    }

    fn serve(&self) {
        let mut hasher = self.block_hasher();
        let mut jobs = Vec::new();
        loop {
            self.take(&mut jobs);
            if jobs.is_empty() {
                return;
            }
            let work = || {
                let hasher = hasher.as_mut().map_err(|error| error.clone());
                let result = hasher.and_then(|hasher| self.hash(hasher, &jobs));
                self.conclude(&mut jobs, result);
            };
            // The thread goes on after a panic, so that the jobs in the queue come to an end too.
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                self.sequencer.fail(BlockHashError::Panicked);
                jobs.clear();
                drop(self.lock());
                self.returned.notify_all();
            }
        }
    }

    /// Hashes the blocks of several jobs as one batch; gives one piece a job.
    fn hash(&self, hasher: &mut BlockHasher, jobs: &[Job]) -> Result<Vec<Piece>, BlockHashError> {
        let mut all = self.sequencer.spare();
        hasher.hash(jobs.iter().map(|job| job.bytes.bytes()), &mut all.digests)?;
        let digest_len = self.params.digest().len();
        if let [job] = jobs {
            all.layout.extend_from_slice(&job.layout);
            return Ok(vec![all]);
        }
        let mut digests = &all.digests[..];
        Ok(jobs
            .iter()
            .map(|job| {
                let mut piece = self.sequencer.spare();
                let blocks = job.bytes.bytes().len().div_ceil(self.params.block_len());
                let (own, rest) = digests.split_at(blocks * digest_len);
                digests = rest;
                piece.digests.extend_from_slice(own);
                piece.layout.extend_from_slice(&job.layout);
                piece
            })
            .collect())
    }

    /// Delivers the pieces, gives buffers back, and tells the jobs' owners.
    fn conclude(&self, jobs: &mut Vec<Job>, result: Result<Vec<Piece>, BlockHashError>) {
        let mut pieces = Vec::new();
        let result = result.map(|hashed| pieces = hashed);
        if let Err(error) = &result {
            self.sequencer.fail(error.clone());
        }
        let mut pieces = pieces.into_iter();
        for job in jobs.drain(..) {
            if let Bytes::Owned(buffer) = job.bytes {
                self.give_back(buffer);
            }
            // The owner is told before the piece is delivered: delivery may wait for slower workers,
            // and the bytes are free already.
            if let Some(owner) = job.owner {
                if result.is_err() {
                    owner.failed();
                }
                drop(owner);
            }
            if let Some(piece) = pieces.next() {
                // A failure is recorded in the sequencer, where the next call finds it.
                let _: Result<(), BlockHashError> = self.sequencer.deliver(job.sequence, piece);
            }
        }
    }

    /// Hashes one job on the calling thread.
    pub(crate) fn run_here(&self, hasher: &mut BlockHasher, job: Job) -> Result<(), BlockHashError> {
        let mut jobs = vec![job];
        let result = self.hash(hasher, &jobs);
        let failure = result.as_ref().err().cloned();
        self.conclude(&mut jobs, result);
        failure.map_or(Ok(()), Err)
    }
}

/// The threads that serve an engine. Ends them when dropped.
pub(crate) struct Pool {
    engine: Arc<JobEngine>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `count` threads, or as many as the system gives; fails when it gives none.
    pub(crate) fn start(engine: &Arc<JobEngine>, count: usize) -> Result<Pool, BlockHashError> {
        let mut pool = Pool { engine: engine.clone(), threads: Vec::with_capacity(count) };
        let mut failure = None;
        engine.params.start(&mut || {
            for _ in 0..count {
                let engine = engine.clone();
                match std::thread::Builder::new().name("blkhash".into()).spawn(move || engine.serve()) {
                    Ok(thread) => pool.threads.push(thread),
                    Err(error) => return failure = Some(error.kind()),
                }
            }
        });
        match failure {
            Some(kind) if pool.threads.is_empty() => Err(BlockHashError::Thread(kind)),
            _ => Ok(pool),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.engine.close();
        for thread in self.threads.drain(..) {
            // A worker catches its panics and reports them as a failure.
            let _: std::thread::Result<()> = thread.join();
        }
    }
}
