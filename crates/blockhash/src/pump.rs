//! Computes the block hash of an image or a stream, on every thread.
//!
//! There is no reader apart from the hashers: a worker takes the next run, reads it into its own buffer, which with blocks
//! of the usual size is about the size of a level-2 cache, hashes it from there, and hands over digests. Or it hashes the
//! run where it is in the page cache, if that is faster.

use std::iter;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use verisum_digest::Output;
use verisum_image::{AlignedBuffer, Image, Stream};
use verisum_pagecache::{WayTimes, may_map};

use crate::blocks::{BlockHasher, DigestSink, LongBlock, Outer, Piece, Span, ZeroBlock};
use crate::runs::{BlockRun, RunPlanner};
use crate::sequencer::Sequencer;
use crate::{BlockHashError, Params};

/// Stack of the threads besides the calling one, in bytes: several times what hashing takes, and small
/// enough for many threads in a small address space.
const HELPER_STACK: usize = 1 << 20;

/// How far a running computation is. Shared with whoever draws it.
#[derive(Debug, Default)]
pub struct ImageProgress(AtomicU64);

impl ImageProgress {
    /// Bytes of the message that are hashed, holes included. Runs end out of order, so this is a sum,
    /// not a position.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The block hash of an image.
///
/// Fails when the image cannot be read, or changes its length meanwhile.
pub fn hash_image(
    image: &dyn Image,
    params: &Params,
    progress: &ImageProgress,
) -> Result<Output, BlockHashError> {
    pump_image(image, params, progress, None)
}

/// As [`hash_image`], and gives the digest of each block to `sink`. A failure of the sink ends it.
pub fn hash_image_to(
    image: &dyn Image,
    params: &Params,
    progress: &ImageProgress,
    sink: &mut dyn DigestSink,
) -> Result<Output, BlockHashError> {
    pump_image(image, params, progress, Some(sink))
}

fn pump_image(
    image: &dyn Image,
    params: &Params,
    progress: &ImageProgress,
    sink: Option<&mut dyn DigestSink>,
) -> Result<Output, BlockHashError> {
    let params = &params.for_unit(image.unit());
    let planner = RunPlanner::new(image, params.block_len(), params.run_blocks(0).unwrap_or(1));
    let engine = PumpEngine::new(params, progress, sink.map(|sink| sink as &mut dyn DigestSink))?;
    let source = ImageSource { image, params, planner: Mutex::new(planner), times: WayTimes::default() };
    engine.run(&source)?;
    image.check_unchanged()?;
    let runs = lock(&source.planner).count();
    engine.sequencer.finish(runs, image.length())
}

/// The block hash of all bytes of a stream, and how many there were.
pub fn hash_stream(
    stream: &mut Stream,
    params: &Params,
    progress: &ImageProgress,
) -> Result<(Output, u64), BlockHashError> {
    pump_stream(stream, params, progress, None)
}

/// As [`hash_stream`], and gives the digest of each block to `sink`. A failure of the sink ends it.
pub fn hash_stream_to(
    stream: &mut Stream,
    params: &Params,
    progress: &ImageProgress,
    sink: &mut dyn DigestSink,
) -> Result<(Output, u64), BlockHashError> {
    pump_stream(stream, params, progress, Some(sink))
}

fn pump_stream<'a>(
    stream: &mut Stream,
    params: &'a Params,
    progress: &'a ImageProgress,
    sink: Option<&'a mut dyn DigestSink>,
) -> Result<(Output, u64), BlockHashError> {
    let engine = PumpEngine::new(params, progress, sink)?;
    let state = StreamState { stream, sequence: 0, length: 0, ended: false };
    let source = StreamSource { state: Mutex::new(state), block_len: params.block_len() };
    engine.run(&source)?;
    let state = source.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((engine.sequencer.finish(state.sequence, state.length)?, state.length))
}

/// Where runs come from.
trait Source: Sync {
    /// Takes the next run, hashes it, and leaves its layout and its digests in `piece`. Calls `on_data` where there is
    /// something to hash. `None` at the end.
    fn take(
        &self,
        buffer: &mut [u8],
        hasher: &mut BlockHasher,
        piece: &mut Piece,
        on_data: &mut dyn FnMut(),
    ) -> Result<Option<Taken>, BlockHashError>;

    /// Takes the next block and hashes it piece by piece; for blocks too long for a buffer.
    fn take_long(
        &self,
        buffer: &mut [u8],
        block: &mut LongBlock,
        piece: &mut Piece,
    ) -> Result<Option<Taken>, BlockHashError>;

    /// Whether another worker would find nothing to do.
    fn is_finished(&self) -> bool;
}

/// A run that was hashed.
struct Taken {
    sequence: u64,
    /// Bytes of the message that the run covers.
    covered: u64,
}

struct PumpEngine<'a> {
    params: &'a Params,
    progress: &'a ImageProgress,
    zero: Arc<ZeroBlock>,
    sequencer: Sequencer<'a>,
}

impl<'a> PumpEngine<'a> {
    fn new(
        params: &'a Params,
        progress: &'a ImageProgress,
        sink: Option<&'a mut dyn DigestSink>,
    ) -> Result<PumpEngine<'a>, BlockHashError> {
        let zero = ZeroBlock::new(params);
        let outer = Outer::new(params, zero.clone())?;
        let outer = match sink {
            Some(sink) => outer.with_sink(sink),
            None => outer,
        };
        Ok(PumpEngine { params, progress, zero, sequencer: Sequencer::new(outer) })
    }

    /// Works until the source ends. The calling thread is one of the workers, and others are started
    /// only once there is data for them: an image of holes needs none.
    fn run(&self, source: &dyn Source) -> Result<(), BlockHashError> {
        thread::scope(|scope| {
            let helpers = self.params.thread_count(0) - 1;
            let mut started = helpers == 0;
            let mut start = || {
                if !std::mem::replace(&mut started, true) && !source.is_finished() {
                    for _ in 0..helpers {
                        let helper = thread::Builder::new().stack_size(HELPER_STACK);
                        let spawned = helper.spawn_scoped(scope, || {
                            // A failure is in the sequencer. Without memory there is one helper less.
                            if let Some(buffer) = AlignedBuffer::try_new(self.buffer_len()) {
                                let _: Result<(), BlockHashError> = self.guarded(source, buffer, &mut || {});
                            }
                        });
                        // Fewer threads are slower, not wrong.
                        if spawned.is_err() {
                            break;
                        }
                    }
                }
            };
            // Its memory is touched only where it is used, so that an image of holes costs none.
            self.guarded(source, AlignedBuffer::new(self.buffer_len()), &mut start)
        })?;
        self.sequencer.failure().map_or(Ok(()), Err)
    }

    /// Works, and tells the others of a failure or a panic, so that they stop.
    fn guarded(
        &self,
        source: &dyn Source,
        buffer: AlignedBuffer,
        on_data: &mut dyn FnMut(),
    ) -> Result<(), BlockHashError> {
        struct Alarm<'a, 'b>(&'a Sequencer<'b>);

        impl Drop for Alarm<'_, '_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    self.0.fail(BlockHashError::Panicked);
                }
            }
        }

        let _alarm = Alarm(&self.sequencer);
        let result = self.work(source, buffer, on_data);
        if let Err(error) = &result {
            self.sequencer.fail(error.clone());
        }
        result
    }

    /// Length in bytes of each worker's buffer: a run, or a piece of a long block.
    fn buffer_len(&self) -> usize {
        match self.params.run_blocks(0) {
            Some(blocks) => blocks * self.params.block_len(),
            None => self.params.piece_len(),
        }
    }

    fn work(
        &self,
        source: &dyn Source,
        mut buffer: AlignedBuffer,
        on_data: &mut dyn FnMut(),
    ) -> Result<(), BlockHashError> {
        if self.params.run_blocks(0).is_none() {
            return self.work_long(source, buffer, on_data);
        }
        let mut hasher = BlockHasher::new(self.params, self.zero.clone())?;
        while self.sequencer.failure().is_none() {
            let mut piece = self.sequencer.spare();
            let Some(taken) = source.take(&mut buffer, &mut hasher, &mut piece, on_data)? else { break };
            self.sequencer.deliver(taken.sequence, piece)?;
            self.progress.add(taken.covered);
        }
        Ok(())
    }

    fn work_long(
        &self,
        source: &dyn Source,
        mut buffer: AlignedBuffer,
        on_data: &mut dyn FnMut(),
    ) -> Result<(), BlockHashError> {
        let mut block = LongBlock::new(self.params, self.zero.clone())?;
        while self.sequencer.failure().is_none() {
            let mut piece = self.sequencer.spare();
            let Some(taken) = source.take_long(&mut buffer, &mut block, &mut piece)? else { break };
            self.sequencer.deliver(taken.sequence, piece)?;
            self.progress.add(taken.covered);
            on_data();
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct ImageSource<'a> {
    image: &'a dyn Image,
    params: &'a Params,
    planner: Mutex<RunPlanner<'a>>,
    times: WayTimes,
}

impl ImageSource<'_> {
    fn next_run(&self) -> Result<Option<(BlockRun, u64)>, BlockHashError> {
        let mut planner = lock(&self.planner);
        let start = planner.position();
        let share = planner.left() / planner.run_len() / self.params.thread_count(0) as u64;
        let times = self.times.parts_at_once(planner.run_len(), share).min(self.params.most_runs());
        Ok(planner.next_run(times)?.map(|run| {
            let covered = run.end - start;
            (run, covered)
        }))
    }

    /// Hashes a run where it is, if it is in the page cache, and if that is measured to be faster. Returns whether it did.
    fn hash_in_page_cache(
        &self,
        reads: &[Range<u64>],
        hasher: &mut BlockHasher,
        digests: &mut Vec<u8>,
    ) -> Result<bool, BlockHashError> {
        let [range] = reads else { return Ok(false) };
        if !may_map() || !self.times.prefer_mapping() {
            return Ok(false);
        }
        let Some(bytes) = self.image.in_page_cache(range.clone()) else { return Ok(false) };
        let started = Instant::now();
        let Some(hashed) = bytes.look(|bytes| hasher.hash(iter::once(bytes), digests)) else {
            digests.clear();
            return Ok(false);
        };
        if hashed? == 0 {
            self.times.add_mapped(range.end - range.start, started.elapsed());
        }
        Ok(true)
    }

    fn read_and_hash(
        &self,
        reads: &[Range<u64>],
        buffer: &mut [u8],
        hasher: &mut BlockHasher,
        digests: &mut Vec<u8>,
    ) -> Result<(), BlockHashError> {
        let (started, mut filled, mut zeros) = (Instant::now(), 0, 0);
        for range in reads {
            let mut at = range.start;
            while at < range.end {
                if filled == buffer.len() {
                    zeros += hasher.hash(iter::once(&*buffer), digests)?;
                    filled = 0;
                }
                let len = (buffer.len() - filled).min((range.end - at) as usize);
                self.image.read_at(&mut buffer[filled..filled + len], at)?;
                (filled, at) = (filled + len, at + len as u64);
            }
        }
        zeros += hasher.hash(iter::once(&buffer[..filled]), digests)?;
        if zeros == 0 {
            let bytes = reads.iter().map(|range| range.end - range.start).sum();
            self.times.add_read(bytes, started.elapsed());
        }
        Ok(())
    }
}

impl Source for ImageSource<'_> {
    fn take(
        &self,
        buffer: &mut [u8],
        hasher: &mut BlockHasher,
        piece: &mut Piece,
        on_data: &mut dyn FnMut(),
    ) -> Result<Option<Taken>, BlockHashError> {
        let Some((run, covered)) = self.next_run()? else { return Ok(None) };
        if !run.reads.is_empty() {
            on_data();
            if !self.hash_in_page_cache(&run.reads, hasher, &mut piece.digests)? {
                self.read_and_hash(&run.reads, buffer, hasher, &mut piece.digests)?;
            }
        }
        piece.layout = run.layout;
        Ok(Some(Taken { sequence: run.sequence, covered }))
    }

    fn take_long(
        &self,
        buffer: &mut [u8],
        block: &mut LongBlock,
        piece: &mut Piece,
    ) -> Result<Option<Taken>, BlockHashError> {
        let Some((run, covered)) = self.next_run()? else { return Ok(None) };
        for range in &run.reads {
            let mut at = range.start;
            while at < range.end {
                let len = (range.end - at).min(buffer.len() as u64) as usize;
                self.image.read_at(&mut buffer[..len], at)?;
                block.update(&buffer[..len])?;
                at += len as u64;
            }
            block.finish(&mut piece.digests)?;
        }
        piece.layout = run.layout;
        Ok(Some(Taken { sequence: run.sequence, covered }))
    }

    fn is_finished(&self) -> bool {
        lock(&self.planner).is_finished()
    }
}

struct StreamSource<'a> {
    state: Mutex<StreamState<'a>>,
    block_len: usize,
}

struct StreamState<'a> {
    stream: &'a mut Stream,
    sequence: u64,
    length: u64,
    ended: bool,
}

impl StreamState<'_> {
    /// Counts one run of `len` bytes and names it.
    fn take(&mut self, len: u64) -> Result<u64, BlockHashError> {
        self.length = self.length.checked_add(len).ok_or(BlockHashError::TooLong)?;
        self.sequence += 1;
        Ok(self.sequence - 1)
    }
}

impl Source for StreamSource<'_> {
    fn take(
        &self,
        buffer: &mut [u8],
        hasher: &mut BlockHasher,
        piece: &mut Piece,
        on_data: &mut dyn FnMut(),
    ) -> Result<Option<Taken>, BlockHashError> {
        let mut state = lock(&self.state);
        if state.ended {
            return Ok(None);
        }
        let filled = state.stream.fill(buffer)?;
        state.ended = filled < buffer.len();
        if filled == 0 {
            return Ok(None);
        }
        let sequence = state.take(filled as u64)?;
        drop(state);
        on_data();
        hasher.hash(iter::once(&buffer[..filled]), &mut piece.digests)?;
        piece.layout.push(Span::Data(filled.div_ceil(self.block_len) as u64));
        Ok(Some(Taken { sequence, covered: filled as u64 }))
    }

    fn take_long(
        &self,
        buffer: &mut [u8],
        block: &mut LongBlock,
        piece: &mut Piece,
    ) -> Result<Option<Taken>, BlockHashError> {
        let mut state = lock(&self.state);
        while !state.ended && block.room() > 0 {
            let len = block.room().min(buffer.len() as u64) as usize;
            let filled = state.stream.fill(&mut buffer[..len])?;
            state.ended = filled < len;
            block.update(&buffer[..filled])?;
        }
        let covered = self.block_len as u64 - block.room();
        if covered == 0 {
            return Ok(None);
        }
        block.finish(&mut piece.digests)?;
        piece.layout.push(Span::Data(1));
        Ok(Some(Taken { sequence: state.take(covered)?, covered }))
    }

    fn is_finished(&self) -> bool {
        lock(&self.state).ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verisum_digest::Digest;
    use verisum_image::{Extent, ExtentKind, ImageError};

    /// An image of these bytes.
    struct ByteImage(Vec<u8>);

    impl Image for ByteImage {
        fn length(&self) -> u64 {
            self.0.len() as u64
        }

        fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), ImageError> {
            out.push(Extent::new(range, ExtentKind::Data));
            Ok(())
        }

        fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ImageError> {
            buf.copy_from_slice(&self.0[offset as usize..offset as usize + buf.len()]);
            Ok(())
        }
    }

    /// As where a run of several usual ones is no longer in the page cache.
    #[test]
    fn a_run_that_is_longer_than_the_buffer_is_read_in_pieces() {
        let mut bytes: Vec<u8> = (0..10 * 512 + 100).map(|at: u32| (at / 7 % 251 + 1) as u8).collect();
        bytes[3 * 512..4 * 512].fill(0);
        let digest = Digest::find("sha256").unwrap();
        let params = Params::new(digest.clone()).block_size(512).unwrap();
        let image = ByteImage(bytes.clone());
        let planner = Mutex::new(RunPlanner::new(&image, 512, 1));
        let source = ImageSource { image: &image, params: &params, planner, times: WayTimes::default() };
        for reads in [vec![0..4608, 4608..5220], vec![0..1024, 1536..2048, 4096..5220]] {
            let read = reads.iter().map(|range| &bytes[range.start as usize..range.end as usize]);
            let blocks = read.flat_map(|part| part.chunks(512));
            let expected: Vec<u8> = blocks.flat_map(|block| sha256(&digest, block)).collect();
            for blocks in 1..=11 {
                let mut hasher = BlockHasher::new(&params, ZeroBlock::new(&params)).unwrap();
                let mut digests = Vec::new();
                source.read_and_hash(&reads, &mut vec![0; blocks * 512], &mut hasher, &mut digests).unwrap();
                assert_eq!(digests, expected, "{blocks} blocks of {reads:?}");
            }
        }
    }

    fn sha256(digest: &Digest, block: &[u8]) -> Vec<u8> {
        let mut stream = digest.stream().unwrap();
        stream.update(block).unwrap();
        let mut output = vec![0; 32];
        stream.finish(&mut output).unwrap();
        output
    }
}
