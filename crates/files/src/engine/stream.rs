//! A large file in progress: one part reads and one part hashes, on up to two threads.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use verisum_digest::{Digest, Message, Output};

use super::source::NumberedJob;
use super::work::Lengths;
use crate::{FileError, Operation, Stat};

/// The most of a hole that is hashed at once: threads take turns for each piece, which takes long on a busy machine.
const MOST_ZEROS: usize = 1 << 20;

/// What holes are full of. The kernel gives one page of zeros for all that is only read.
static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; MOST_ZEROS]);

/// A file that was opened, and found to be one.
pub(super) struct OpenedStream<T> {
    pub(super) job: NumberedJob<T>,
    pub(super) file: Arc<File>,
    pub(super) before: Stat,
    /// What it said after the last byte, if that is known already.
    pub(super) after: Option<Stat>,
    /// Whether it changed when it was read for the first time.
    pub(super) again: bool,
    /// Whether other names of it may wait for what comes of this one.
    pub(super) awaited: bool,
}

/// A piece of a file, whose bytes are in a buffer.
#[derive(Default)]
pub(super) struct Piece {
    length: usize,
    /// Of a hole: the buffer holds nothing of it.
    zeros: bool,
    /// Whether nothing follows.
    pub(super) last: bool,
    /// Why nothing follows that should.
    pub(super) failure: Option<(Errno, u64)>,
}

impl Piece {
    pub(super) fn bytes<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        if self.zeros { &ZEROS[..self.length] } else { &buffer[..self.length] }
    }

    pub(super) fn len(&self) -> u64 {
        self.length as u64
    }

    /// How many bytes were read for it.
    pub(super) fn stored(&self) -> u64 {
        if self.zeros { 0 } else { self.len() }
    }
}

/// The part that reads.
pub(super) struct StreamReader<T> {
    pub(super) opened: OpenedStream<T>,
    pub(super) offset: u64,
    /// Where the data at `offset` ends, or the hole, if the file has any.
    run: Option<StreamRun>,
    pub(super) ended: bool,
}

#[derive(Clone, Copy)]
struct StreamRun {
    end: u64,
    hole: bool,
}

impl<T> StreamReader<T> {
    pub(super) fn new(opened: OpenedStream<T>) -> Self {
        let sparse = opened.before.stored < opened.before.size;
        let run = sparse.then_some(StreamRun { end: 0, hole: false });
        if !sparse {
            // Reads ahead of several files at once; a file system that cannot does without.
            let _ = rustix::fs::fadvise(&opened.file, 0, None, rustix::fs::Advice::Sequential);
        }
        StreamReader { opened, offset: 0, run, ended: false }
    }

    /// How many bytes are to be read yet.
    pub(super) fn left(&self) -> u64 {
        self.opened.before.size.saturating_sub(self.offset)
    }

    /// Reads the next piece: as much as fits the buffer, if no hole begins or ends before.
    pub(super) fn next(&mut self, buffer: &mut [u8]) -> Piece {
        let mut piece = Piece::default();
        piece.failure = self.read(&mut piece, buffer).err().map(|errno| (errno, self.offset));
        self.ended |= piece.failure.is_some();
        piece
    }

    fn read(&mut self, piece: &mut Piece, buffer: &mut [u8]) -> Result<(), Errno> {
        let mut room = buffer.len();
        if let Some(run) = self.run_at_offset()? {
            let left = usize::try_from(run.end - self.offset).unwrap_or(usize::MAX);
            if run.hole {
                piece.length = left.min(MOST_ZEROS);
                piece.zeros = true;
                self.offset += piece.len();
                return Ok(());
            }
            room = room.min(left);
        }
        while piece.length < room {
            let space = &mut buffer[piece.length..room];
            let asked = space.len();
            let count = read_at(&self.opened.file, space, self.offset)?;
            piece.length += count;
            self.offset += count as u64;
            // A short read at the size that it had is the end, and spares the read of nothing.
            if count == 0 || count < asked && self.offset == self.opened.before.size {
                piece.last = true;
                self.ended = true;
                break;
            }
        }
        Ok(())
    }

    /// The run of data or of a hole that the offset is in; none if the file has no holes, or at its end.
    fn run_at_offset(&mut self) -> Result<Option<StreamRun>, Errno> {
        let Some(run) = self.run else { return Ok(None) };
        if self.offset < run.end {
            return Ok(Some(run));
        }
        let file = &self.opened.file;
        let run = match rustix::fs::seek(file, SeekFrom::Data(self.offset)) {
            Ok(data) if data > self.offset => StreamRun { end: data, hole: true },
            Ok(_) => StreamRun { end: rustix::fs::seek(file, SeekFrom::Hole(self.offset))?, hole: false },
            // No data from here to the end, wherever that is by now.
            Err(Errno::NXIO) => StreamRun { end: rustix::fs::seek(file, SeekFrom::End(0))?, hole: true },
            // The file system does not know holes.
            Err(_) => {
                self.run = None;
                return Ok(None);
            }
        };
        self.run = Some(run);
        // At the end a read says so.
        Ok((run.end > self.offset).then_some(run))
    }
}

/// Reads at an offset, whatever signals come.
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    loop {
        match rustix::io::pread(file, &mut *buffer, offset) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// The part that hashes.
pub(super) struct Hasher {
    /// One for each digest of the set.
    pub(super) messages: Vec<Message>,
    pub(super) lengths: Lengths,
    /// Why there will be no digests.
    pub(super) failure: Option<StreamFailure>,
}

impl Hasher {
    pub(super) fn new(
        digests: &[Digest],
        message: &dyn Fn(&Digest) -> Result<Message, verisum_digest::DigestError>,
    ) -> Result<Self, verisum_digest::DigestError> {
        let messages = digests.iter().map(message).collect::<Result<_, _>>()?;
        Ok(Hasher { messages, lengths: Lengths::default(), failure: None })
    }

    /// Says how long the file is.
    pub(super) fn expect(&mut self, length: u64) {
        let expected = self.messages.iter_mut().try_for_each(|message| message.expect(length));
        self.failure = expected.err().map(StreamFailure::Digest);
    }

    pub(super) fn finish(&mut self, digests: &[Digest]) -> Result<Vec<Output>, StreamFailure> {
        self.lengths = Lengths::default();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let finished = self.messages.iter_mut().zip(digests).map(|(message, digest)| {
            let mut output = Output::zeroed(digest.len());
            message.finish(output.as_mut_bytes()).map(|()| output)
        });
        finished.collect::<Result<_, _>>().map_err(StreamFailure::Digest)
    }
}

/// Why a file that was opened has no digests.
pub(super) enum StreamFailure {
    /// At this offset.
    Read(Errno, u64),
    Digest(verisum_digest::DigestError),
}

impl StreamFailure {
    pub(super) fn error(self, path: PathBuf) -> FileError {
        match self {
            StreamFailure::Read(cause, offset) => {
                let (operation, offset) = (Operation::Read, Some(offset));
                FileError::Io { path, operation, offset, source: cause.into() }
            }
            StreamFailure::Digest(source) => FileError::Digest { path, source },
        }
    }
}
