//! Streams: pipes, terminals and sockets, read once from the start to an end not known before.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags};

use crate::{Error, Operation};

/// The pipe buffer to ask for, in bytes: what one batch of blocks takes.
const PIPE_SIZE: usize = 1 << 20;

/// A sequence of bytes of unknown length.
#[derive(Debug)]
pub struct Stream {
    file: File,
    path: PathBuf,
    position: u64,
}

impl Stream {
    /// Wraps an open file; enlarges its pipe buffer if it is a pipe and the system allows.
    pub(crate) fn new(file: File, path: &Path) -> Self {
        enlarge_pipe(&file);
        Stream { file, path: path.to_path_buf(), position: 0 }
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
    pub fn fill(&mut self, buf: &mut [u8]) -> Result<usize, Error> {
        let mut done = 0;
        while done < buf.len() {
            match self.read(&mut buf[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) => {
                    return Err(Error::io_at(&self.path, Operation::Read, self.position, error));
                }
            }
        }
        Ok(done)
    }
}

impl Read for Stream {
    /// Reads what is there, and waits if there is nothing. Waits too where the descriptor is set not to
    /// wait, as one shared with another program may be. Goes on after signals.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buf) {
                Ok(count) => {
                    self.position += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut wait = [PollFd::new(&self.file, PollFlags::IN)];
                    rustix::io::retry_on_intr(|| rustix::event::poll(&mut wait, None))?;
                }
                Err(error) => return Err(error),
            }
        }
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
