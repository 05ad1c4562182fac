//! A large file in progress: a part that reads and a part that hashes, which two threads may hold.

use std::fs::File;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use verisum_digest::{Digest, Message, Output};

use super::source::Numbered;
use crate::Stat;

/// How much of a large file is read and hashed at once.
pub(super) const CHUNK: usize = 128 << 10;

/// What holes are full of.
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// A file that was opened, and found to be one.
pub(super) struct Opened<T> {
    pub(super) job: Numbered<T>,
    pub(super) file: File,
    pub(super) before: Stat,
    /// Whether it changed when it was read for the first time.
    pub(super) again: bool,
    /// Whether other names of it may wait for what comes of this one.
    pub(super) awaited: bool,
}

/// A piece of a file.
pub(super) struct Chunk {
    buffer: Box<[u8]>,
    length: usize,
    /// Of a hole: the buffer holds nothing.
    zeros: bool,
    /// Whether nothing follows.
    pub(super) last: bool,
    /// Why nothing follows that should.
    pub(super) failure: Option<Errno>,
}

impl Chunk {
    pub(super) fn empty() -> Chunk {
        Chunk { buffer: vec![0; CHUNK].into(), length: 0, zeros: false, last: false, failure: None }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        if self.zeros { &ZEROS[..self.length] } else { &self.buffer[..self.length] }
    }

    /// How many bytes were read for it.
    pub(super) fn stored(&self) -> u64 {
        if self.zeros { 0 } else { self.length as u64 }
    }
}

/// The part that reads.
pub(super) struct Reader<T> {
    pub(super) opened: Opened<T>,
    offset: u64,
    /// Where the data at `offset` ends, or the hole, if the file has any.
    run: Option<Run>,
    pub(super) ended: bool,
}

#[derive(Clone, Copy)]
struct Run {
    end: u64,
    hole: bool,
}

impl<T> Reader<T> {
    pub(super) fn new(opened: Opened<T>) -> Self {
        let sparse = opened.before.stored < opened.before.size;
        let run = sparse.then_some(Run { end: 0, hole: false });
        if !sparse {
            // Reads ahead of several files at once; a file system that cannot does without.
            let _ = rustix::fs::fadvise(&opened.file, 0, None, rustix::fs::Advice::Sequential);
        }
        Reader { opened, offset: 0, run, ended: false }
    }

    /// Reads the next piece.
    pub(super) fn fill(&mut self, chunk: &mut Chunk) {
        (chunk.length, chunk.zeros, chunk.last) = (0, false, false);
        chunk.failure = self.read(chunk).err();
        self.ended |= chunk.failure.is_some();
    }

    fn read(&mut self, chunk: &mut Chunk) -> Result<(), Errno> {
        let mut room = CHUNK;
        if let Some(run) = self.run_at_offset()? {
            let left = usize::try_from(run.end - self.offset).unwrap_or(usize::MAX);
            room = room.min(left);
            if run.hole {
                self.offset += room as u64;
                (chunk.length, chunk.zeros) = (room, true);
                return Ok(());
            }
        }
        while chunk.length < room {
            let space = &mut chunk.buffer[chunk.length..room];
            let asked = space.len();
            let count = read_at(&self.opened.file, space, self.offset)?;
            chunk.length += count;
            self.offset += count as u64;
            // A short read at the size that it had is the end, and spares the read of nothing.
            if count == 0 || count < asked && self.offset == self.opened.before.size {
                chunk.last = true;
                self.ended = true;
                break;
            }
        }
        Ok(())
    }

    /// The run of data or of a hole that the offset is in; none if the file has no holes, or at its end.
    fn run_at_offset(&mut self) -> Result<Option<Run>, Errno> {
        let Some(run) = self.run else { return Ok(None) };
        if self.offset < run.end {
            return Ok(Some(run));
        }
        let file = &self.opened.file;
        let run = match rustix::fs::seek(file, SeekFrom::Data(self.offset)) {
            Ok(data) if data > self.offset => Run { end: data, hole: true },
            Ok(_) => Run { end: rustix::fs::seek(file, SeekFrom::Hole(self.offset))?, hole: false },
            // No data from here to the end, wherever that is by now.
            Err(Errno::NXIO) => Run { end: rustix::fs::seek(file, SeekFrom::End(0))?, hole: true },
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
    pub(super) length: u64,
    /// Why there will be no digests.
    pub(super) failure: Option<verisum_digest::Error>,
}

impl Hasher {
    pub(super) fn new(digests: &[Digest]) -> Result<Self, verisum_digest::Error> {
        let messages = digests.iter().map(Digest::message).collect::<Result<_, _>>()?;
        Ok(Hasher { messages, length: 0, failure: None })
    }

    pub(super) fn finish(&mut self, digests: &[Digest]) -> Result<Vec<Output>, verisum_digest::Error> {
        self.length = 0;
        let finished = self.messages.iter_mut().zip(digests).map(|(message, digest)| {
            let mut output = Output::zeroed(digest.len());
            message.finish(output.as_mut_bytes()).map(|()| output)
        });
        finished.collect()
    }
}
