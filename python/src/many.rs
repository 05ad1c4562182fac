//! `hash_many`: many messages at once, side by side in the kernels, on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use verisum::digest::{Digest, DigestError};
use verisum::files::Stop;

use crate::buffer::Bytes;
use crate::digests::Digests;
use crate::errors;
use crate::hash::find;
use crate::interrupt::interruptible;

/// Less than this is hashed on the calling thread: starting another takes as long.
const ALONE_BYTES: usize = 256 << 10;

/// A thread takes at least this much at a time, and at least as many messages as go side by side.
const CHUNK_BYTES: usize = 512 << 10;

/// So much is hashed piece by piece, so that Ctrl-C ends it soon.
const LONG_BYTES: usize = 64 << 20;

/// Length of the pieces, of each message.
const PIECE_BYTES: usize = 512 << 10;

#[doc = stub!("hash_many")]
#[pyfunction]
#[pyo3(signature = (buffers, algorithm="sha256", *, threads=0, packed=false))]
pub(crate) fn hash_many<'py>(
    py: Python<'py>,
    buffers: &Bound<'py, PyAny>,
    algorithm: &str,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    packed: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let digest = find(py, algorithm)?;
    let mut ticks = SignalTicks::new(py);
    let mut lend = |buffer: PyResult<Bound<'py, PyAny>>| {
        ticks.tick()?;
        Bytes::of(&buffer?).inspect_err(|error| {
            // As PyO3 does for other arguments.
            let _ = error.value(py).call_method1("add_note", ("while processing 'buffers'",));
        })
    };
    let lent = buffers.try_iter()?.map(&mut lend).collect::<PyResult<Vec<Bytes>>>()?;
    let messages: Vec<&[u8]> = lent.iter().map(Bytes::as_slice).collect();
    let mut digests = vec![0; messages.len() * digest.len()];
    let total: usize = messages.iter().map(|message| message.len()).sum();
    let hashed = match total < ALONE_BYTES {
        true => py.detach(|| digest.batch()?.hash(&messages, &mut digests)),
        false => interruptible(py, &mut |_| Ok(()), |stop| {
            let threads =
                if threads == 0 { thread::available_parallelism().map_or(1, usize::from) } else { threads };
            hash_on(threads, &digest, &messages, &mut digests, stop)
        })?,
    };
    hashed.map_err(|error| errors::of_digest(py, &error))?;
    drop(messages);
    let rows = lent.len();
    if packed {
        return Ok(Bound::new(py, Digests::new(digests, rows, digest.len()))?.into_any());
    }
    let mut digest_at = |row: usize| -> PyResult<_> {
        ticks.tick()?;
        Ok(PyBytes::new(py, &digests[row * digest.len()..(row + 1) * digest.len()]))
    };
    let objects = (0..rows).map(&mut digest_at).collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, objects)?.into_any())
}

/// Looks for signals once in so many steps of a loop that runs no Python.
struct SignalTicks<'py> {
    py: Python<'py>,
    steps: u32,
}

impl<'py> SignalTicks<'py> {
    const STEPS: u32 = 1 << 14;

    fn new(py: Python<'py>) -> SignalTicks<'py> {
        SignalTicks { py, steps: 0 }
    }

    /// Counts a step. What a signal raises.
    fn tick(&mut self) -> PyResult<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(SignalTicks::STEPS) { self.py.check_signals() } else { Ok(()) }
    }
}

/// What a thread takes at a time.
struct Chunk<'a> {
    messages: &'a [&'a [u8]],
    digests: &'a mut [u8],
}

/// Hashes messages on so many threads, until it is time to stop.
pub(crate) fn hash_on(
    threads: usize,
    digest: &Digest,
    messages: &[&[u8]],
    digests: &mut [u8],
    stop: &Stop,
) -> Result<(), DigestError> {
    let chunks = chunks(digest, messages, digests);
    let threads = threads.min(chunks.len()).max(1);
    let chunks: Vec<Mutex<Chunk>> = chunks.into_iter().map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), DigestError> {
        let mut batch = digest.batch()?;
        while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop.is_due() {
                break;
            }
            let mut chunk = chunk.lock().unwrap_or_else(|e| e.into_inner());
            let Chunk { messages, digests } = &mut *chunk;
            match messages.iter().map(|message| message.len()).sum::<usize>() < LONG_BYTES {
                true => batch.hash(messages, digests)?,
                false => hash_long(digest, messages, digests, stop)?,
            }
        }
        Ok(())
    };
    if threads == 1 {
        return work();
    }
    thread::scope(|scope| {
        // This thread only waits: if it worked too, one that it starts would often wait for its core, beside an idle
        // one, until the system moves it, and 64 MiB took as long as on one thread.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let started: Vec<_> = (0..threads).filter_map(start).collect();
        // With fewer threads it is done too.
        let own = if started.len() < threads { work() } else { Ok(()) };
        started.into_iter().fold(own, |result, thread| {
            result.and(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    })
}

/// Messages of any length side by side, given up when it is time to stop.
fn hash_long(
    digest: &Digest,
    messages: &[&[u8]],
    digests: &mut [u8],
    stop: &Stop,
) -> Result<(), DigestError> {
    let start = |_| if messages.len() == 1 { digest.lone_message() } else { digest.message() };
    let mut hashed = messages.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let longest = messages.iter().map(|message| message.len()).max().unwrap_or(0);
    for at in (0..longest).step_by(PIECE_BYTES) {
        if stop.is_due() {
            return Ok(());
        }
        let piece = |message: &'_ &[u8]| at..message.len().min(at + PIECE_BYTES);
        let all = hashed.iter_mut().zip(messages);
        let mut pieces: Vec<_> = all
            .filter(|(_, message)| at < message.len())
            .map(|(hashed, message)| (hashed, &message[piece(message)]))
            .collect();
        digest.advance(&mut pieces)?;
    }
    // A digest of no bytes has nowhere to go.
    for (message, digest) in hashed.iter_mut().zip(digests.chunks_exact_mut(digest.len().max(1))) {
        message.finish(digest)?;
    }
    Ok(())
}

/// Cuts the work into pieces that threads take one after the other.
fn chunks<'a>(digest: &Digest, mut messages: &'a [&'a [u8]], mut digests: &'a mut [u8]) -> Vec<Chunk<'a>> {
    let mut chunks = Vec::new();
    while !messages.is_empty() {
        let mut bytes = 0;
        let is_enough = |(count, message): (usize, &&[u8])| {
            bytes += message.len();
            count + 1 >= digest.lanes() && bytes >= CHUNK_BYTES
        };
        let count = messages.iter().enumerate().position(is_enough).map_or(messages.len(), |last| last + 1);
        let (now, later) = messages.split_at(count);
        let (digests_now, digests_later) = std::mem::take(&mut digests).split_at_mut(count * digest.len());
        chunks.push(Chunk { messages: now, digests: digests_now });
        (messages, digests) = (later, digests_later);
    }
    chunks
}
