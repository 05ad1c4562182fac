//! Reads a file once: one thread writes its bytes while another hashes them.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use verisum_digest::{Digest, Message, Output};

use super::shared::Shared;

/// The bytes of one read.
pub(super) const PIECE: usize = 512 << 10;

/// Enough for direct reads of any sector.
pub(super) const ALIGNMENT: usize = 4096;

/// How many pieces are in memory.
const PIECES: usize = 6;

/// From this length on a thread is worth its start.
const LARGE: u64 = 2 << 20;

/// So much of a hole is hashed before somebody may end it.
const HOLE: u64 = 2 << 20;

/// What holes are full of.
static ZEROS: [u8; 128 << 10] = [0; 128 << 10];

/// Why a file was not read to its end.
pub(super) enum Stopped {
    /// At this offset.
    Read(Errno, u64),
    Write(Errno),
    Digest(verisum_digest::DigestError),
    /// Somebody asked to end.
    Asked,
}

/// What is read, and what becomes of it.
pub(super) struct Pump<'p> {
    pub(super) from: &'p File,
    /// The length that it should have.
    pub(super) size: u64,
    /// Whether it has holes: they are not read.
    pub(super) is_sparse: bool,
    /// Where to write the bytes.
    pub(super) to: Option<&'p File>,
    /// The file of FROM whose bytes these are, for the counts and limits; none if they are read back.
    pub(super) counted: Option<&'p Path>,
}

/// A run of bytes on the way to whoever hashes them.
enum Run {
    Bytes(Arc<Buffer>, usize),
    Zeros(u64),
}

/// Room for a piece, where direct reads may write.
pub(super) struct Buffer {
    room: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(super) fn new(length: usize) -> Buffer {
        let room = vec![0; length + ALIGNMENT];
        let start = room.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Buffer { room, start }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.room.len() - (ALIGNMENT - self.start)]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let end = self.room.len() - (ALIGNMENT - self.start);
        &mut self.room[self.start..end]
    }
}

impl Pump<'_> {
    /// Reads to the end, and returns the digests and the length of what was read.
    pub(super) fn run(&self, shared: &Shared, digests: &[Digest]) -> Result<(Vec<Output>, u64), Stopped> {
        let mut hasher = Hasher::new(digests).map_err(Stopped::Digest)?;
        if self.size < LARGE {
            let mut pieces = Inline { hasher: &mut hasher, buffer: Some(Arc::new(Buffer::new(PIECE))) };
            let length = self.read(shared, &mut pieces)?;
            return Ok((hasher.finish().map_err(Stopped::Digest)?, length));
        }
        thread::scope(|scope| {
            let (filled, take) = mpsc::sync_channel(PIECES);
            let (hashed, back) = mpsc::channel();
            let hash = move || -> Result<Vec<Output>, Stopped> {
                for run in take {
                    hasher.update(&run).map_err(Stopped::Digest)?;
                    drop(run);
                    // Nobody waits for it at the end.
                    let _ = hashed.send(());
                }
                hasher.finish().map_err(Stopped::Digest)
            };
            let thread = thread::Builder::new().spawn_scoped(scope, hash);
            let thread = thread
                .map_err(|error| Stopped::Read(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN), 0))?;
            let mut pieces = Piped { filled, back, ring: VecDeque::new(), sent: 0, done: 0 };
            let read = self.read(shared, &mut pieces);
            drop(pieces);
            let outputs = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // A thread that fails is why nobody takes what is read.
            let outputs = outputs?;
            Ok((outputs, read?))
        })
    }

    fn read(&self, shared: &Shared, pieces: &mut dyn Pieces) -> Result<u64, Stopped> {
        let mut offset = 0;
        let mut runs = self.is_sparse.then_some(Runs { end: 0, is_hole: false });
        if !self.is_sparse && self.size > PIECE as u64 {
            let _ = rustix::fs::fadvise(self.from, 0, None, rustix::fs::Advice::Sequential);
        }
        loop {
            // What is read back was written whole.
            let ends = if self.counted.is_some() { shared.is_stopped() } else { shared.is_asked() };
            if ends {
                return Err(Stopped::Asked);
            }
            let mut room = PIECE;
            if let Some(run) = &mut runs {
                match run.at(self.from, offset).map_err(|errno| Stopped::Read(errno, offset))? {
                    Found::Run => {}
                    Found::End => {}
                    Found::Unknown => runs = None,
                }
            }
            if let Some(run) = runs.as_ref().filter(|run| run.end > offset) {
                if run.is_hole {
                    let length = HOLE.min(run.end - offset);
                    pieces.put(Run::Zeros(length))?;
                    self.count(shared, length);
                    offset += length;
                    continue;
                }
                room = room.min(usize::try_from(run.end - offset).unwrap_or(usize::MAX));
            }
            if let Some(path) = self.counted {
                shared.options.progress.now_at(|| path.to_path_buf());
                if let Some(limits) = &shared.options.limits {
                    limits.wait(room as u64, 1, &shared.options.stop);
                }
            }
            let mut buffer = pieces.take()?;
            let Some(space) = Arc::get_mut(&mut buffer) else { return Err(Stopped::Asked) };
            let space = &mut space.bytes_mut()[..room];
            let count = rustix::io::retry_on_intr(|| rustix::io::pread(self.from, &mut *space, offset));
            let count = count.map_err(|errno| Stopped::Read(errno, offset))?;
            if count > 0 {
                pieces.put(Run::Bytes(buffer.clone(), count))?;
                if let Some(to) = self.to {
                    to.write_all_at(&buffer.bytes()[..count], offset).map_err(|error| written(&error))?;
                }
                self.count(shared, count as u64);
            }
            pieces.give_back(buffer);
            offset += count as u64;
            if count == 0 || count < room && offset == self.size {
                break;
            }
        }
        if let Some(to) = self.to.filter(|_| self.is_sparse) {
            rustix::fs::ftruncate(to, offset).map_err(Stopped::Write)?;
        }
        Ok(offset)
    }

    fn count(&self, shared: &Shared, bytes: u64) {
        if self.counted.is_some() {
            shared.options.progress.add(0, bytes);
        }
    }
}

fn written(error: &std::io::Error) -> Stopped {
    Stopped::Write(Errno::from_io_error(error).unwrap_or(Errno::IO))
}

/// Where data or a hole ends.
struct Runs {
    end: u64,
    is_hole: bool,
}

/// What is known of an offset.
enum Found {
    /// A run goes on there.
    Run,
    /// Nothing comes there; a read says so.
    End,
    /// The file system does not know holes.
    Unknown,
}

impl Runs {
    fn at(&mut self, file: &File, offset: u64) -> Result<Found, Errno> {
        if offset < self.end {
            return Ok(Found::Run);
        }
        let (end, is_hole) = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => (data, true),
            Ok(_) => (rustix::fs::seek(file, SeekFrom::Hole(offset))?, false),
            // No data from here to the end, wherever that is by now.
            Err(Errno::NXIO) => (rustix::fs::seek(file, SeekFrom::End(0))?, true),
            Err(_) => return Ok(Found::Unknown),
        };
        *self = Runs { end, is_hole };
        Ok(if end > offset { Found::Run } else { Found::End })
    }
}

/// Takes what was read to where it is hashed.
trait Pieces {
    /// A buffer that nobody else has.
    fn take(&mut self) -> Result<Arc<Buffer>, Stopped>;
    /// Hashes, sooner or later.
    fn put(&mut self, run: Run) -> Result<(), Stopped>;
    /// Takes back a buffer whose bytes are written.
    fn give_back(&mut self, buffer: Arc<Buffer>);
}

/// Hashes at once.
struct Inline<'h, 'd> {
    hasher: &'h mut Hasher<'d>,
    buffer: Option<Arc<Buffer>>,
}

impl Pieces for Inline<'_, '_> {
    fn take(&mut self) -> Result<Arc<Buffer>, Stopped> {
        Ok(self.buffer.take().unwrap_or_else(|| Arc::new(Buffer::new(PIECE))))
    }

    fn put(&mut self, run: Run) -> Result<(), Stopped> {
        self.hasher.update(&run).map_err(Stopped::Digest)
    }

    fn give_back(&mut self, buffer: Arc<Buffer>) {
        self.buffer = Some(buffer);
    }
}

/// Lets another thread hash.
struct Piped {
    filled: SyncSender<Run>,
    back: Receiver<()>,
    /// Those that were read into, the oldest first, and how many runs each was sent before.
    ring: VecDeque<(Arc<Buffer>, u64)>,
    sent: u64,
    done: u64,
}

impl Pieces for Piped {
    fn take(&mut self) -> Result<Arc<Buffer>, Stopped> {
        if self.ring.len() < PIECES {
            return Ok(Arc::new(Buffer::new(PIECE)));
        }
        let Some((buffer, number)) = self.ring.pop_front() else { return Err(Stopped::Asked) };
        while self.done < number {
            self.back.recv().map_err(|_| Stopped::Asked)?;
            self.done += 1;
        }
        Ok(buffer)
    }

    fn put(&mut self, run: Run) -> Result<(), Stopped> {
        self.sent += 1;
        self.filled.send(run).map_err(|_| Stopped::Asked)
    }

    fn give_back(&mut self, buffer: Arc<Buffer>) {
        self.ring.push_back((buffer, self.sent));
    }
}

/// One message for each digest.
pub(super) struct Hasher<'d> {
    digests: &'d [Digest],
    messages: Vec<Message>,
}

impl<'d> Hasher<'d> {
    pub(super) fn new(digests: &'d [Digest]) -> Result<Hasher<'d>, verisum_digest::DigestError> {
        let messages = digests.iter().map(Digest::lone_message).collect::<Result<_, _>>()?;
        Ok(Hasher { digests, messages })
    }

    fn update(&mut self, run: &Run) -> Result<(), verisum_digest::DigestError> {
        match run {
            Run::Bytes(buffer, length) => self.add(&buffer.bytes()[..*length]),
            Run::Zeros(length) => {
                let mut left = *length;
                while left > 0 {
                    let part = left.min(ZEROS.len() as u64);
                    self.add(&ZEROS[..part as usize])?;
                    left -= part;
                }
                Ok(())
            }
        }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), verisum_digest::DigestError> {
        for (digest, message) in self.digests.iter().zip(&mut self.messages) {
            digest.advance(&mut [(message, bytes)])?;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<Vec<Output>, verisum_digest::DigestError> {
        let finished = self.messages.iter_mut().zip(self.digests).map(|(message, digest)| {
            let mut output = Output::zeroed(digest.len());
            message.finish(output.as_mut_bytes()).map(|()| output)
        });
        finished.collect()
    }
}
