//! Streams: pipes, terminals and sockets, read once to an end that is not known before.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags};

use crate::{ImageError, ImageOperation};

/// The pipe buffer to ask for, in bytes: what one batch of blocks takes.
const PIPE_SIZE: usize = 1 << 20;

/// The unit a guest sees.
const SECTOR: u64 = 512;

/// A sequence of bytes of unknown length.
#[derive(Debug)]
pub struct Stream {
    file: File,
    path: PathBuf,
    position: u64,
    /// Bytes that were looked at, to be read yet.
    peeked: Vec<u8>,
    /// Whether zeros up to a whole sector follow the last byte, and how many once the end was seen.
    pads: bool,
    padding: Option<u64>,
    /// How many of them are still to be read.
    padding_left: u64,
}

impl Stream {
    /// Wraps an open file; enlarges its pipe buffer if it is a pipe and the system allows.
    pub(crate) fn new(file: File, path: &Path) -> Self {
        enlarge_pipe(&file);
        let path = path.to_path_buf();
        Stream { file, path, position: 0, peeked: Vec::new(), pads: false, padding: None, padding_left: 0 }
    }

    /// Lets zeros follow the last byte up to a multiple of 512, as a guest would see a raw file of the
    /// same bytes. Only before the first read.
    pub fn pad_to_sectors(&mut self) {
        self.pads = true;
    }

    /// How many zeros follow the last byte: known once the end was reached, 0 until then.
    pub fn padded_by(&self) -> u64 {
        self.padding.unwrap_or(0)
    }

    /// Looks at the next `len` bytes without taking them; fewer are left if it returns fewer. Padding is
    /// not seen.
    pub fn peek(&mut self, len: usize) -> Result<&[u8], ImageError> {
        let mut bytes = std::mem::take(&mut self.peeked);
        let mut done = bytes.len();
        bytes.resize(len.max(done), 0);
        let mut result = Ok(());
        while done < len {
            match self.read_file(&mut bytes[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) => {
                    let offset = self.position + done as u64;
                    result = Err(ImageError::io_at(&self.path, ImageOperation::Read, offset, error));
                    break;
                }
            }
        }
        bytes.truncate(done);
        self.peeked = bytes;
        result.map(|()| &self.peeked[..len.min(done)])
    }

    /// The name to use in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes have been read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Fills all of `buf`, or what is left up to the end; returns how many bytes that is.
    pub fn fill(&mut self, buf: &mut [u8]) -> Result<usize, ImageError> {
        let mut done = 0;
        while done < buf.len() {
            match self.read(&mut buf[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) => {
                    return Err(ImageError::io_at(&self.path, ImageOperation::Read, self.position, error));
                }
            }
        }
        Ok(done)
    }

    /// Reads what is there, and waits if there is nothing. Waits too where the descriptor is set not to
    /// wait, as one shared with another program may be. Goes on after signals.
    fn read_file(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buf) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut wait = [PollFd::new(&self.file, PollFlags::IN)];
                    rustix::io::retry_on_intr(|| rustix::event::poll(&mut wait, None))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads what was looked at, then from the file.
    fn read_stored(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.peeked.is_empty() {
            return self.read_file(buf);
        }
        let count = self.peeked.len().min(buf.len());
        buf[..count].copy_from_slice(&self.peeked[..count]);
        self.peeked.drain(..count);
        Ok(count)
    }
}

impl Read for Stream {
    /// Reads what is there, and waits if there is nothing.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut count = match self.padding {
            None => self.read_stored(buf)?,
            Some(_) => 0,
        };
        if count == 0 && !buf.is_empty() && self.pads {
            if self.padding.is_none() {
                self.padding_left = self.position.next_multiple_of(SECTOR) - self.position;
                self.padding = Some(self.padding_left);
            }
            count = self.padding_left.min(buf.len() as u64) as usize;
            buf[..count].fill(0);
            self.padding_left -= count as u64;
        }
        self.position += count as u64;
        Ok(count)
    }
}

/// Makes a pipe hold more, so that its writer and reader take turns less often. Not being a pipe, or
/// not being allowed that much, is no error.
fn enlarge_pipe(file: &File) {
    let Ok(now) = rustix::pipe::fcntl_getpipe_size(file) else { return };
    let mut size = PIPE_SIZE;
    while size > now && rustix::pipe::fcntl_setpipe_size(file, size).is_err() {
        size /= 2;
    }
}
