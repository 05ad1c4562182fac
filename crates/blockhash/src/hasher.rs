//! The block hash of bytes that arrive in memory, in pieces of any size.

use std::sync::Arc;
use std::sync::mpsc;

use verisum_digest::Output;

use crate::blocks::{BlockHasher, LongBlock, Outer, Piece, Span, ZeroBlock, push_span};
use crate::completions::{Completion, Completions};
use crate::pool::{Borrowed, Bytes, Job, JobEngine, MORE_BUFFERS, Owner, Pool};
use crate::sequencer::Sequencer;
use crate::{BlockHashError, Params};

/// A staged job is sent off after this many changes between data and zeros.
const MAX_SPANS: usize = 512;

/// A block hash in the making.
///
/// Any way of cutting a message into [`update`](Hasher::update), [`zero`](Hasher::zero) and
/// [`submit`](Hasher::submit) calls gives the same value. After a first failure every call reports it.
///
/// Bytes are gathered into runs of about 1 MiB, which the workers hash side by side; large updates are
/// hashed where they lie. Threads are started when there is a first run for them.
pub struct Hasher {
    // Dropped first: it ends the workers, and with them every use of borrowed bytes.
    pool: Option<Pool>,
    engine: Arc<JobEngine>,
    mode: Mode,
    /// Runs made so far.
    sequence: u64,
    length: u64,
    queue: Option<Arc<Completions>>,
    finished: bool,
}

enum Mode {
    /// Blocks are gathered in memory and hashed in batches.
    Runs(Stage),
    /// Blocks are too long for that, and hashed as they arrive, on the calling thread.
    Long(Box<LongBlock>),
}

/// What is to become the next run.
struct Stage {
    /// Blocks of data; the last may be incomplete.
    bytes: Vec<u8>,
    /// How blocks of data and of zeros alternate, up to the block of data number `settled`.
    layout: Vec<Span>,
    settled: usize,
    /// Length in bytes at which it is sent off.
    run_len: usize,
    /// The calling thread's own means of hashing, while there are no workers.
    hasher: Option<BlockHasher>,
}

impl Stage {
    /// Brings the layout up to date with the bytes.
    fn settle(&mut self, block_len: usize) {
        let blocks = self.bytes.len().div_ceil(block_len);
        push_span(&mut self.layout, Span::Data((blocks - self.settled) as u64));
        self.settled = blocks;
    }
}

impl Hasher {
    /// Starts a block hash.
    pub fn new(params: &Params) -> Result<Hasher, BlockHashError> {
        Hasher::start(params, None)
    }

    /// Starts a block hash that also takes up to `depth` asynchronous updates at a time. `notify` is
    /// called, from any thread, whenever a completion can be taken; a panic of it is caught and ignored.
    pub fn with_queue(
        params: &Params,
        depth: usize,
        notify: impl Fn() + Send + Sync + 'static,
    ) -> Result<Hasher, BlockHashError> {
        Hasher::start(params, Some(Arc::new(Completions::new(depth, Box::new(notify)))))
    }

    fn start(params: &Params, queue: Option<Arc<Completions>>) -> Result<Hasher, BlockHashError> {
        let zero = ZeroBlock::new(params);
        let sequencer = Sequencer::new(Outer::new(params, zero.clone())?);
        let mode = match params.run_blocks(MORE_BUFFERS) {
            Some(blocks) => Mode::Runs(Stage {
                bytes: Vec::new(),
                layout: Vec::new(),
                settled: 0,
                run_len: blocks * params.block_len(),
                hasher: None,
            }),
            None => Mode::Long(Box::new(LongBlock::new(params, zero.clone())?)),
        };
        let engine = Arc::new(JobEngine::new(params.clone(), sequencer, zero));
        Ok(Hasher { pool: None, engine, mode, sequence: 0, length: 0, queue, finished: false })
    }

    /// Adds bytes. They are copied or hashed before this returns.
    pub fn update(&mut self, data: &[u8]) -> Result<(), BlockHashError> {
        self.begin(data.len() as u64)?;
        let (head, blocks, tail) = self.cut(data);
        let begun = self.append(head);
        self.keep(begun)?;
        // A few runs at once keep all workers busy; fewer are better gathered in the stage, so that
        // the caller can go on meanwhile.
        let in_place = match &self.mode {
            Mode::Runs(stage) if self.uses_pool() => blocks.len() >= 2 * stage.run_len * self.threads(),
            Mode::Runs(stage) => blocks.len() >= stage.run_len,
            Mode::Long(_) => false,
        };
        let added = if in_place { self.hash_in_place(blocks) } else { self.append(blocks) };
        let added = added.and_then(|()| self.append(tail));
        self.keep(added)
    }

    /// Adds `len` zeros, without any data.
    pub fn zero(&mut self, len: u64) -> Result<(), BlockHashError> {
        self.begin(len)?;
        let block_len = self.engine.params.block_len() as u64;
        let fill = len.min(self.room_in_block());
        let left = len - fill;
        let added = self
            .append_zeros(fill)
            .and_then(|()| self.add_zero_blocks(left / block_len))
            .and_then(|()| self.append_zeros(left % block_len));
        self.keep(added)
    }

    /// Adds bytes without waiting for them to be hashed; [`completions`](Hasher::completions) gives
    /// `token` back when they are no longer needed.
    ///
    /// # Safety
    /// `data` stays valid and unchanged until its completion was taken, or this hasher was finished
    /// without an error, or dropped.
    #[allow(unsafe_code)]
    pub unsafe fn submit(&mut self, data: &[u8], token: usize) -> Result<(), BlockHashError> {
        let queue = self.queue.clone().ok_or(BlockHashError::NoQueue)?;
        self.check()?;
        let ticket = queue.reserve(token)?;
        let (head, blocks, tail) = match self.begin(data.len() as u64) {
            Ok(()) => self.cut(data),
            Err(error) => {
                ticket.withdraw();
                return Err(error);
            }
        };
        // From here on the update is accepted: a failure is reported by its completion and by every
        // later call.
        let ticket = Arc::new(ticket);
        let added = self.append(head).and_then(|()| match &self.mode {
            Mode::Runs(stage) if !blocks.is_empty() => {
                let run_len = stage.run_len;
                self.send_stage()?;
                blocks.chunks(run_len).try_for_each(|run| {
                    // SAFETY: the caller keeps the bytes in place until the ticket, which each job
                    // holds, was dropped.
                    let run = unsafe { Borrowed::new(run) };
                    self.send_borrowed(run, Box::new(ticket.clone()))
                })
            }
            _ => self.append(blocks),
        });
        if let Err(error) = added.and_then(|()| self.append(tail)) {
            self.engine.sequencer.fail(error);
            ticket.failed();
        }
        Ok(())
    }

    /// As [`submit`](Hasher::submit), of bytes that stay as they are for ever.
    #[allow(unsafe_code)]
    pub fn submit_static(&mut self, data: &'static [u8], token: usize) -> Result<(), BlockHashError> {
        // SAFETY: the reference is valid, and forbids changes, as long as the process lives.
        unsafe { self.submit(data, token) }
    }

    /// Takes up to `out.len()` completions and gives their number.
    pub fn completions(&self, out: &mut [Completion]) -> Result<usize, BlockHashError> {
        Ok(self.queue.as_ref().ok_or(BlockHashError::NoQueue)?.take(out))
    }

    /// Ends the message and gives its block hash. A second call fails.
    pub fn finish(&mut self) -> Result<Output, BlockHashError> {
        self.check()?;
        self.finished = true;
        let partial = self.room_in_block() > 0;
        match &mut self.mode {
            Mode::Long(block) if partial => {
                let piece = self.engine.long_piece(block)?;
                self.deliver(piece)?;
            }
            Mode::Long(_) => {}
            Mode::Runs(_) => self.send_stage()?,
        }
        self.engine.sequencer.finish(self.sequence, self.length)
    }

    fn threads(&self) -> usize {
        self.engine.params.thread_count(MORE_BUFFERS)
    }

    /// Whether others than the calling thread hash.
    fn uses_pool(&self) -> bool {
        self.threads() > 1 || self.queue.is_some()
    }

    fn check(&self) -> Result<(), BlockHashError> {
        match self.engine.sequencer.failure() {
            Some(failure) => Err(failure),
            None if self.finished => Err(BlockHashError::Finished),
            None => Ok(()),
        }
    }

    /// Starts a call that adds `len` bytes.
    fn begin(&mut self, len: u64) -> Result<(), BlockHashError> {
        self.check()?;
        match self.length.checked_add(len) {
            Some(length) => self.length = length,
            None => {
                self.engine.sequencer.fail(BlockHashError::TooLong);
                return Err(BlockHashError::TooLong);
            }
        }
        Ok(())
    }

    /// Makes a failure of the calling thread's own work the one that every later call reports.
    fn keep(&self, result: Result<(), BlockHashError>) -> Result<(), BlockHashError> {
        result.inspect_err(|error| self.engine.sequencer.fail(error.clone()))
    }

    /// How many bytes an incomplete block still takes; 0 where the next byte begins a block.
    fn room_in_block(&self) -> u64 {
        let block_len = self.engine.params.block_len();
        match &self.mode {
            Mode::Runs(stage) => {
                let partial = stage.bytes.len() % block_len;
                if partial == 0 { 0 } else { (block_len - partial) as u64 }
            }
            Mode::Long(block) => block.room() % block_len as u64,
        }
    }

    /// Cuts into what completes a begun block, whole blocks, and the rest.
    fn cut<'a>(&self, data: &'a [u8]) -> (&'a [u8], &'a [u8], &'a [u8]) {
        let room = self.room_in_block().min(data.len() as u64) as usize;
        let (head, rest) = data.split_at(room);
        let (blocks, tail) = rest.split_at(rest.len() - rest.len() % self.engine.params.block_len());
        (head, blocks, tail)
    }

    /// Copies bytes into the stage, sending off every full run; or hashes them at once in long blocks.
    fn append(&mut self, mut data: &[u8]) -> Result<(), BlockHashError> {
        while !data.is_empty() {
            match &mut self.mode {
                Mode::Long(block) => {
                    let now = block.room().min(data.len() as u64) as usize;
                    block.update(&data[..now])?;
                    data = &data[now..];
                    self.end_long_block()?;
                }
                Mode::Runs(stage) => {
                    if stage.bytes.capacity() == 0 {
                        stage.bytes = self.engine.buffer(stage.run_len)?;
                    }
                    let now = data.len().min(stage.run_len - stage.bytes.len());
                    stage.bytes.extend_from_slice(&data[..now]);
                    data = &data[now..];
                    if stage.bytes.len() == stage.run_len {
                        self.send_stage()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// As [`append`](Hasher::append), for less than a block of zeros.
    fn append_zeros(&mut self, len: u64) -> Result<(), BlockHashError> {
        if let Mode::Long(block) = &mut self.mode {
            block.zeros(len)?;
            return self.end_long_block();
        }
        let zeros = [0; 4096];
        let mut left = len;
        while left > 0 {
            let now = left.min(zeros.len() as u64) as usize;
            self.append(&zeros[..now])?;
            left -= now as u64;
        }
        Ok(())
    }

    fn add_zero_blocks(&mut self, blocks: u64) -> Result<(), BlockHashError> {
        match &mut self.mode {
            _ if blocks == 0 => Ok(()),
            Mode::Long(_) => self.deliver(Piece { digests: Vec::new(), layout: vec![Span::Zeros(blocks)] }),
            Mode::Runs(stage) => {
                stage.settle(self.engine.params.block_len());
                push_span(&mut stage.layout, Span::Zeros(blocks));
                if stage.layout.len() >= MAX_SPANS { self.send_stage() } else { Ok(()) }
            }
        }
    }

    /// Delivers a long block that is complete.
    fn end_long_block(&mut self) -> Result<(), BlockHashError> {
        let Mode::Long(block) = &mut self.mode else { return Ok(()) };
        if block.room() > 0 {
            return Ok(());
        }
        let piece = self.engine.long_piece(block)?;
        self.deliver(piece)
    }

    fn deliver(&mut self, piece: Piece) -> Result<(), BlockHashError> {
        self.sequence += 1;
        self.engine.sequencer.deliver(self.sequence - 1, piece)
    }

    /// Sends off what is staged. Only the last call may leave an incomplete block in it.
    fn send_stage(&mut self) -> Result<(), BlockHashError> {
        let Mode::Runs(stage) = &mut self.mode else { return Ok(()) };
        stage.settle(self.engine.params.block_len());
        let layout = std::mem::take(&mut stage.layout);
        stage.settled = 0;
        if layout.is_empty() {
            return Ok(());
        }
        if stage.bytes.is_empty() {
            return self.deliver(Piece { digests: Vec::new(), layout });
        }
        let bytes = Bytes::Owned(std::mem::take(&mut stage.bytes));
        self.send(bytes, layout, None)
    }

    fn send_borrowed(&mut self, run: Borrowed, owner: Box<dyn Owner>) -> Result<(), BlockHashError> {
        let blocks = run.len().div_ceil(self.engine.params.block_len());
        self.send(Bytes::Borrowed(run), vec![Span::Data(blocks as u64)], Some(owner))
    }

    /// Gives a run to the workers. Without any, the calling thread hashes it: always when there is only
    /// one thread, and at the end of a message so short that none was started.
    fn send(
        &mut self,
        bytes: Bytes,
        layout: Vec<Span>,
        owner: Option<Box<dyn Owner>>,
    ) -> Result<(), BlockHashError> {
        let job = Job { sequence: self.sequence, bytes, layout, owner };
        self.sequence += 1;
        if self.pool.is_none() && self.uses_pool() && !self.finished {
            self.pool = Some(Pool::start(&self.engine, self.threads()).inspect_err(|error| {
                self.engine.sequencer.fail(error.clone());
            })?);
        }
        if self.pool.is_some() {
            self.engine.push(job);
            return Ok(());
        }
        let Mode::Runs(stage) = &mut self.mode else { unreachable!("long blocks are never sent") };
        if stage.hasher.is_none() {
            stage.hasher = Some(self.engine.block_hasher()?);
        }
        let hasher = stage.hasher.as_mut().expect("made above");
        self.engine.run_here(hasher, job)
    }

    /// Hashes whole blocks from where they lie, on all workers, and waits.
    #[allow(unsafe_code)]
    fn hash_in_place(&mut self, blocks: &[u8]) -> Result<(), BlockHashError> {
        /// Waits, even when unwinding, until no job holds a sender any more.
        struct Wait {
            sender: Option<mpsc::Sender<()>>,
            receiver: mpsc::Receiver<()>,
        }

        impl Drop for Wait {
            fn drop(&mut self) {
                self.sender = None;
                while self.receiver.recv().is_ok() {}
            }
        }

        self.send_stage()?;
        let Mode::Runs(stage) = &self.mode else { unreachable!("long blocks are not hashed in place") };
        let run_len = stage.run_len;
        let (sender, receiver) = mpsc::channel();
        let wait = Wait { sender: Some(sender), receiver };
        let sent = blocks.chunks(run_len).try_for_each(|run| {
            // SAFETY: `wait` is dropped before this function ends, and that waits for every job.
            let run = unsafe { Borrowed::new(run) };
            let owner = wait.sender.clone().expect("held until `wait` is dropped");
            self.send_borrowed(run, Box::new(owner))
        });
        drop(wait);
        sent.and_then(|()| self.check())
    }
}

impl Owner for mpsc::Sender<()> {}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hasher")
            .field("params", &self.engine.params)
            .field("length", &self.length)
            .field("finished", &self.finished)
            .finish_non_exhaustive()
    }
}
