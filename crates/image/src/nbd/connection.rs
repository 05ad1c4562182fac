//! One connection to a server, shared by any number of threads.
//!
//! A thread sends its requests, which go straight into its own buffer, and waits for them. One of those
//! that wait has the turn at the socket: it lets the library move bytes, for all of them, until its own
//! requests have ended, and then passes the turn on. A connection used by one thread costs no more than
//! that thread's own waiting.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;

use super::libnbd::{Cookie, Failure, Handle, LibNbd, Status, Statuses};

/// How many bytes to ask for at a time, if the server takes so many: large enough that the overhead does
/// not show, small enough for several to be in flight for one run of blocks.
const REQUEST: u64 = 256 << 10;

/// The most bytes to ask for at a time where the server gives no limit, by the protocol's rules.
const DEFAULT_MAXIMUM: u64 = 32 << 20;

/// The largest unit of requests that a server may ask for, by the protocol's rules.
const LARGEST_MINIMUM: u64 = 64 << 10;

/// What to connect to.
pub(super) enum Address<'a> {
    /// An NBD URI.
    Uri(&'a CStr),
    /// A socket that is connected to the server.
    Socket(UnixStream),
}

/// Why a request failed.
#[derive(Debug)]
pub(super) struct Failed {
    /// Where in the export, in bytes.
    pub(super) offset: u64,
    pub(super) failure: Failure,
}

/// A connection that is ready for requests.
pub(super) struct Connection {
    handle: Handle,
    size: u64,
    /// Requests are multiples of this.
    minimum: u64,
    /// Length in bytes of each request of a large read.
    piece: u64,
    turn: Mutex<Turn>,
    passed: Condvar,
    /// Ends the wait of the thread that has the turn.
    wake: OwnedFd,
}

/// Who is at the socket.
#[derive(Default)]
struct Turn {
    taken: bool,
    /// Why the connection was lost.
    loss: Option<Failure>,
}

/// A request that was sent.
struct Request {
    cookie: Cookie,
    offset: u64,
}

impl Connection {
    /// Connects; gives up after `patience`.
    pub(super) fn open(
        library: &'static LibNbd,
        address: Address<'_>,
        patience: Duration,
    ) -> Result<Connection, Failure> {
        let handle = Handle::new(library)?;
        match address {
            Address::Uri(uri) => handle.connect_uri(uri)?,
            Address::Socket(socket) => handle.connect_socket(socket.into())?,
        }
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !handle.wait_connecting(left.as_millis().min(i32::MAX as u128) as i32)? {
                break;
            }
            if left.is_zero() {
                let text = format!("the server did not answer within {} seconds", patience.as_secs());
                return Err(Failure { errno: 0, text });
            }
        }
        if handle.is_lost() {
            return Err(Failure { errno: 0, text: CLOSED.to_string() });
        }
        let (minimum, maximum) = handle.request_sizes()?;
        let (minimum, maximum) = (minimum.max(1), if maximum == 0 { DEFAULT_MAXIMUM } else { maximum });
        if minimum > LARGEST_MINIMUM || !minimum.is_power_of_two() || maximum < minimum {
            let text = format!("the server asks for requests of {minimum} to {maximum} bytes");
            return Err(Failure { errno: 0, text });
        }
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Failure { errno: error.raw_os_error(), text: "eventfd".to_string() })?;
        Ok(Connection {
            size: handle.size()?,
            handle,
            minimum,
            piece: REQUEST.min(maximum - maximum % minimum),
            turn: Mutex::default(),
            passed: Condvar::new(),
            wake,
        })
    }

    /// Length in bytes of the export.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The unit of requests in bytes.
    pub(super) fn minimum(&self) -> u64 {
        self.minimum
    }

    /// What else the server said of itself.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Fills `buf` from `offset` of the export, which has as many bytes.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Failed> {
        let end = offset + buf.len() as u64;
        let whole = offset - offset % self.minimum..end.next_multiple_of(self.minimum).min(self.size);
        if whole == (offset..end) {
            return self.read_whole(buf, offset);
        }
        let mut bytes = vec![0; (whole.end - whole.start) as usize];
        self.read_whole(&mut bytes, whole.start)?;
        let skip = (offset - whole.start) as usize;
        buf.copy_from_slice(&bytes[skip..skip + buf.len()]);
        Ok(())
    }

    /// Fills `buf`, which begins and ends where a request may.
    #[allow(unsafe_code)]
    fn read_whole(&self, buf: &mut [u8], offset: u64) -> Result<(), Failed> {
        let mut requests = Vec::with_capacity(buf.len().div_ceil(self.piece as usize));
        let mut unsent = None;
        let mut at = offset;
        for piece in buf.chunks_mut(self.piece as usize) {
            let start: *mut MaybeUninit<u8> = piece.as_mut_ptr().cast();
            // SAFETY: `finish` below returns when the last of the requests has ended, and nothing between
            // here and there panics or looks at the buffer, which is borrowed for longer than that.
            match unsafe { self.handle.start_read(start, piece.len(), at) } {
                Ok(cookie) => requests.push(Request { cookie, offset: at }),
                Err(failure) => {
                    unsent = Some(Failed { offset: at, failure });
                    break;
                }
            }
            at += piece.len() as u64;
        }
        self.finish(requests, unsent)
    }

    /// Asks which parts of a range read as zeros. The first begins where the range does.
    pub(super) fn block_status(&self, offset: u64, length: u64) -> Result<Vec<Status>, Failed> {
        let answer = Statuses::default();
        match self.handle.start_block_status(offset, length, &answer) {
            Ok(cookie) => self.finish(vec![Request { cookie, offset }], None)?,
            Err(failure) => self.finish(Vec::new(), Some(Failed { offset, failure }))?,
        }
        Ok(std::mem::take(&mut *answer.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Waits until each of the requests has ended. Gives the failure at the lowest offset.
    fn finish(&self, mut requests: Vec<Request>, mut failed: Option<Failed>) -> Result<(), Failed> {
        let mut turn = self.lock();
        if turn.taken {
            // Who has the turn may wait for less than what is to be moved now; and sending may have moved
            // something of its own.
            self.end_wait();
        }
        loop {
            requests.retain(|request| match self.handle.completed(request.cookie) {
                None => true,
                Some(Ok(())) => false,
                Some(Err(failure)) => {
                    if failed.as_ref().is_none_or(|other| request.offset < other.offset) {
                        failed = Some(Failed { offset: request.offset, failure });
                    }
                    false
                }
            });
            if requests.is_empty() || self.handle.has_completed() {
                self.passed.notify_all();
            }
            if requests.is_empty() {
                return match failed {
                    Some(failed) => Err(self.explained(failed, &turn)),
                    None => Ok(()),
                };
            }
            if turn.taken {
                turn = self.passed.wait(turn).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            turn.taken = true;
            drop(turn);
            let moved = self.handle.turn(self.wake.as_fd(), -1);
            turn = self.lock();
            turn.taken = false;
            if let Err(failure) = moved {
                turn.loss.get_or_insert(failure);
            }
        }
    }

    /// Fails where the server has gone though nothing was asked of it since.
    pub(super) fn check_alive(&self) -> Result<(), Failure> {
        let mut turn = self.lock();
        if turn.taken {
            return Ok(());
        }
        if let Err(failure) = self.handle.turn(self.wake.as_fd(), 0) {
            turn.loss.get_or_insert(failure);
        }
        if self.handle.is_lost() { Err(lost(&turn)) } else { Ok(()) }
    }

    /// Requests in flight on a connection that is lost fail with no more than that.
    fn explained(&self, failed: Failed, turn: &Turn) -> Failed {
        match self.handle.is_lost() {
            true => Failed { failure: lost(turn), ..failed },
            false => failed,
        }
    }

    fn end_wait(&self) {
        // Fails only where it was woken four thousand million times before.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const CLOSED: &str = "the server closed the connection";

fn lost(turn: &Turn) -> Failure {
    let text = match &turn.loss {
        Some(loss) => format!("the connection was lost: {}", loss.text),
        None => CLOSED.to_string(),
    };
    Failure { errno: 0, text }
}
