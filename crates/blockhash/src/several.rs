//! Computes several digests of an image or a stream in one read: one thread reads, and one thread hashes for
//! each digest.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use verisum_digest::{DigestStream, Output};
use verisum_image::{AlignedBuffer, Extent, Image, Stream};

use crate::blocks::update_zeros;
use crate::pump::ImageProgress;
use crate::{BlockHashError, Hasher, Params};

/// So much is read at once: runs for all workers of a [`Hasher`].
const PIECE: usize = 8 << 20;

/// So many pieces wait for the slowest digest.
const WAITING: usize = 2;

/// What comes next of a message.
#[derive(Clone)]
enum Fed {
    /// So many bytes at the beginning of the buffer.
    Bytes(Arc<AlignedBuffer>, usize),
    Zeros(u64),
}

/// The digests of an image by each of these: its block hash, or where a digest is [made of
/// blocks](verisum_digest::block_digests) itself, that.
///
/// # Errors
/// The image cannot be read, or changes its length meanwhile.
pub fn digests_of_image(
    image: &dyn Image,
    each: &[Params],
    progress: &ImageProgress,
) -> Result<Vec<Output>, BlockHashError> {
    let length = image.length();
    side_by_side(each, Some(length), |feed| {
        let (mut at, mut extents) = (0, Vec::new());
        while at < length {
            extents.clear();
            image.extents(at..length, &mut extents)?;
            for Extent { range, kind, .. } in &extents {
                let mut next = range.start;
                if kind.is_zero() {
                    feed.zeros(range.end - range.start)?;
                    progress.add(range.end - range.start);
                    next = range.end;
                }
                while next < range.end {
                    let count = (range.end - next).min(PIECE as u64) as usize;
                    feed.bytes(|buffer| Ok(image.read_at(&mut buffer[..count], next).map(|()| count)?))?;
                    next += count as u64;
                    progress.add(count as u64);
                }
                at = range.end;
            }
        }
        Ok(image.check_unchanged()?)
    })
}

/// The same of all bytes of a stream, and how many there were.
///
/// # Errors
/// The stream cannot be read.
pub fn digests_of_stream(
    stream: &mut Stream,
    each: &[Params],
    progress: &ImageProgress,
) -> Result<(Vec<Output>, u64), BlockHashError> {
    let mut length = 0;
    let digests = side_by_side(each, None, |feed| {
        loop {
            let filled = feed.bytes(|buffer| Ok(stream.fill(buffer)?))?;
            length += filled as u64;
            progress.add(filled as u64);
            if filled < PIECE {
                return Ok(());
            }
        }
    })?;
    Ok((digests, length))
}

/// Starts a thread for each digest, and has `read` feed them.
fn side_by_side(
    each: &[Params],
    length: Option<u64>,
    read: impl FnOnce(&mut Feed) -> Result<(), BlockHashError>,
) -> Result<Vec<Output>, BlockHashError> {
    thread::scope(|scope| {
        let mut feed = Feed { takers: Vec::new(), buffers: Vec::new() };
        let mut hashing = Vec::new();
        for params in each {
            let (give, take) = sync_channel(WAITING);
            let thread = thread::Builder::new().spawn_scoped(scope, move || digest(params, length, &take));
            hashing.push(thread.map_err(|error| BlockHashError::Thread(error.kind()))?);
            feed.takers.push(give);
        }
        let was_read = read(&mut feed);
        drop(feed);
        let ended = hashing.into_iter().map(|thread| thread.join().unwrap_or(Err(BlockHashError::Panicked)));
        // A digest that failed ended the reading too, and says why.
        let digests = ended.collect::<Result<Vec<_>, _>>()?;
        was_read.map(|()| digests)
    })
}

/// Gives what is read to all digests.
struct Feed {
    takers: Vec<SyncSender<Fed>>,
    /// Those that were made; a digest may still hold some.
    buffers: Vec<Arc<AlignedBuffer>>,
}

impl Feed {
    /// Reads into a buffer that nobody holds, and gives it to all. Returns how many bytes it has.
    fn bytes(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> Result<usize, BlockHashError>,
    ) -> Result<usize, BlockHashError> {
        let free = self.buffers.iter_mut().position(|buffer| Arc::get_mut(buffer).is_some());
        let mut buffer = match free {
            Some(at) => self.buffers.swap_remove(at),
            None => Arc::new(AlignedBuffer::new(PIECE)),
        };
        let Some(room) = Arc::get_mut(&mut buffer) else { return Err(BlockHashError::Panicked) };
        let count = read(room)?;
        self.buffers.push(buffer.clone());
        self.give(&Fed::Bytes(buffer, count)).map(|()| count)
    }

    fn zeros(&self, length: u64) -> Result<(), BlockHashError> {
        self.give(&Fed::Zeros(length))
    }

    fn give(&self, fed: &Fed) -> Result<(), BlockHashError> {
        // What takes no more has failed, and says why itself.
        self.takers.iter().try_for_each(|taker| taker.send(fed.clone())).map_err(|_| BlockHashError::Panicked)
    }
}

/// One of the digests in the making.
enum Hashing {
    Blocks(Box<Hasher>),
    Made(Box<dyn DigestStream>, usize),
}

fn digest(params: &Params, length: Option<u64>, take: &Receiver<Fed>) -> Result<Output, BlockHashError> {
    let mut hashing = match params.digest().blocks() {
        None => Hashing::Blocks(Box::new(Hasher::new(params)?)),
        Some(_) => {
            let mut stream = params.digest().stream()?;
            if let Some(length) = length {
                stream.expect(length)?;
            }
            Hashing::Made(stream, params.digest().len())
        }
    };
    for fed in take {
        match (&mut hashing, fed) {
            (Hashing::Blocks(hasher), Fed::Bytes(buffer, count)) => hasher.update(&buffer[..count])?,
            (Hashing::Blocks(hasher), Fed::Zeros(count)) => hasher.zero(count)?,
            (Hashing::Made(stream, _), Fed::Bytes(buffer, count)) => stream.update(&buffer[..count])?,
            (Hashing::Made(stream, _), Fed::Zeros(count)) => update_zeros(&mut **stream, count)?,
        }
    }
    match hashing {
        Hashing::Blocks(mut hasher) => hasher.finish(),
        Hashing::Made(mut stream, length) => {
            let mut output = Output::zeroed(length);
            stream.finish(output.as_mut_bytes())?;
            Ok(output)
        }
    }
}
