//! Parameters of a block hash: what changes its value, and how much of the machine to use for it.

use verisum_digest::Digest;

use crate::BlockHashError;

/// The block size used when none is given, in bytes.
pub const DEFAULT_BLOCK_SIZE: u32 = 64 * 1024;

/// The most threads that can be asked for.
pub const MAX_THREADS: usize = 128;

/// The most bytes that one thread hashes faster alone than with the help of others that must be started.
pub const ONE_THREAD_BYTES: u64 = 1 << 20;

/// A run is at least this long: 16 blocks of the default size, which is one batch of the widest kernel,
/// and about what a level-2 cache holds.
const RUN_BYTES: usize = 1024 * 1024;

/// All workers' buffers together stay below this, whatever the block size and the number of threads.
const BUFFERS_BYTES: usize = 40 * 1024 * 1024;

/// The digests of a run stay below this. A number of runs wait for their turn as digests, and where blocks
/// are shorter than digests these, not the data, would fill the memory.
const RUN_DIGESTS_BYTES: usize = 64 * 1024;

/// The digest and block size of a block hash, and the number of threads.
#[derive(Clone, Debug)]
pub struct Params {
    digest: Digest,
    block_size: u32,
    threads: usize,
    around_start: fn(&mut dyn FnMut()),
    /// Bytes that make a run at least.
    run_bytes: usize,
}

impl Params {
    /// A block hash of `digest` with the default block size on one thread.
    pub fn new(digest: Digest) -> Params {
        Params {
            digest,
            block_size: DEFAULT_BLOCK_SIZE,
            threads: 1,
            around_start: |start| start(),
            run_bytes: RUN_BYTES,
        }
    }

    /// Sets the block size in bytes: even and not zero.
    pub fn block_size(mut self, bytes: u32) -> Result<Params, BlockHashError> {
        if bytes == 0 || bytes % 2 == 1 {
            return Err(BlockHashError::BlockSize(bytes));
        }
        self.block_size = bytes;
        Ok(self)
    }

    /// Sets the number of threads that hash: 1 to [`MAX_THREADS`]. Never changes the value.
    pub fn threads(mut self, threads: usize) -> Result<Params, BlockHashError> {
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(BlockHashError::Threads(threads));
        }
        self.threads = threads;
        Ok(self)
    }

    /// Has the threads of a [`Hasher`](crate::Hasher) started inside `around`, which must call what it is
    /// given, once. What threads inherit from the one that starts them, such as blocked signals, can be
    /// set there.
    pub fn around_start(mut self, around: fn(&mut dyn FnMut())) -> Params {
        self.around_start = around;
        self
    }

    /// The same for an image that is decompressed in units of this many bytes: its runs hold whole units,
    /// so that two workers do not need the same one.
    #[cfg(feature = "image")]
    pub(crate) fn for_unit(&self, bytes: u64) -> Params {
        let run_bytes =
            usize::try_from(bytes).map_or(BUFFERS_BYTES, |bytes| bytes.next_multiple_of(RUN_BYTES));
        Params { run_bytes, ..self.clone() }
    }

    /// The same with another digest.
    #[cfg(feature = "image")]
    pub(crate) fn with_digest(self, digest: Digest) -> Params {
        Params { digest, ..self }
    }

    /// The digest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The block size in bytes.
    pub fn block_bytes(&self) -> u32 {
        self.block_size
    }

    /// The block size in bytes, as an index.
    pub(crate) fn block_len(&self) -> usize {
        self.block_size as usize
    }

    /// How many threads hash: as many as were asked for, unless the blocks are so long that the memory
    /// bound holds fewer of them. Besides each thread's own there are `more` buffers.
    pub(crate) fn thread_count(&self, more: usize) -> usize {
        self.threads.min((BUFFERS_BYTES / self.block_len()).saturating_sub(more)).max(1)
    }

    /// Calls `start` inside what was given for it.
    pub(crate) fn start(&self, start: &mut dyn FnMut()) {
        (self.around_start)(start);
    }

    /// How many blocks make a run: enough for the kernel's lanes, within the memory bound. `None` when
    /// not even one block fits, so that blocks must be hashed piece by piece. `more` is as for
    /// [`thread_count`](Params::thread_count).
    pub(crate) fn run_blocks(&self, more: usize) -> Option<usize> {
        let most = BUFFERS_BYTES / (self.thread_count(more) + more) / self.block_len();
        let wanted = (self.run_bytes / self.block_len()).max(self.digest.lanes());
        let digests = RUN_DIGESTS_BYTES / self.digest.len().max(1);
        (most > 0).then(|| wanted.min(most).min(digests))
    }

    /// How many runs may be taken as one: so many that the digests of one stay below their bound.
    #[cfg(feature = "image")]
    pub(crate) fn most_runs(&self) -> u64 {
        let digests = self.run_blocks(0).unwrap_or(1) * self.digest.len().max(1);
        (RUN_DIGESTS_BYTES / digests).max(1) as u64
    }

    /// Length in bytes of the pieces that a block is read in when it does not fit a worker's buffer.
    #[cfg(feature = "image")]
    pub(crate) fn piece_len(&self) -> usize {
        RUN_BYTES / 4
    }
}
