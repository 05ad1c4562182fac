//! One connection to a server, shared by any number of threads.
//!
//! A thread sends its requests, whose answers go straight into its own buffer, and waits for them. One of
//! those that wait has the turn at the socket: it lets the library move bytes, for all of them, until its
//! own requests have ended, and then passes the turn on. As servers answer about in order, most threads
//! receive what they asked for themselves. A connection used by one thread costs no more than that
//! thread's own waiting.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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
    state: Mutex<ConnectionState>,
    /// Ends the wait of the thread that has the turn.
    wake: OwnedFd,
}

#[derive(Default)]
struct ConnectionState {
    /// Whether a thread has the turn.
    taken: bool,
    /// The requests that have not ended.
    requests: Vec<Request>,
    /// Why the connection was lost.
    loss: Option<Failure>,
}

/// A request that was sent.
struct Request {
    cookie: Cookie,
    offset: u64,
    caller: Arc<Caller>,
}

/// A thread that waits for its requests. Its fields change only while the state is locked.
#[derive(Default)]
struct Caller {
    left: AtomicUsize,
    failed: Mutex<Option<Failed>>,
    /// Its requests have ended, or it is to take the turn.
    called: Condvar,
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
            state: Mutex::default(),
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
        let caller = Arc::default();
        let mut state = self.lock();
        state.requests.reserve(buf.len().div_ceil(self.piece as usize));
        let mut at = offset;
        for piece in buf.chunks_mut(self.piece as usize) {
            let start: *mut MaybeUninit<u8> = piece.as_mut_ptr().cast();
            // SAFETY: `finish` below returns when the last of the requests has ended, and nothing between
            // here and there panics or looks at the buffer, which is borrowed for longer than that.
            let sent = unsafe { self.handle.start_read(start, piece.len(), at) };
            if !state.sent(&caller, at, sent) {
                break;
            }
            at += piece.len() as u64;
        }
        self.finish(state, &caller)
    }

    /// Asks which parts of a range read as zeros. The first begins where the range does.
    pub(super) fn block_status(&self, offset: u64, length: u64) -> Result<Vec<Status>, Failed> {
        let caller = Arc::default();
        let answer = Statuses::default();
        let mut state = self.lock();
        state.sent(&caller, offset, self.handle.start_block_status(offset, length, &answer));
        self.finish(state, &caller)?;
        Ok(std::mem::take(&mut *lock(&answer)))
    }

    /// Waits until all requests of the caller have ended. Gives the failure at the lowest offset.
    fn finish<'a>(
        &'a self,
        mut state: MutexGuard<'a, ConnectionState>,
        caller: &Arc<Caller>,
    ) -> Result<(), Failed> {
        let ended = loop {
            let ended = state.retire(&self.handle, caller);
            if caller.left.load(Ordering::Relaxed) == 0 {
                break ended;
            }
            if !state.taken {
                state.taken = true;
                drop(state);
                let moved = self.handle.turn(self.wake.as_fd(), -1);
                state = self.lock();
                state.taken = false;
                state.note(moved, &self.handle);
                continue;
            }
            // Who has the turn waits for something to read. It must hear of what it does not expect: that
            // more is to be written, and that sending brought the end of its own requests.
            if ended || self.handle.wants_to_write() {
                self.end_wait();
            }
            state = caller.called.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        match state.requests.first() {
            _ if state.taken && ended => self.end_wait(),
            Some(request) if !state.taken => request.caller.called.notify_one(),
            _ => {}
        }
        let failed = lock(&caller.failed).take();
        match failed {
            None => Ok(()),
            // Requests in flight on a connection that is lost fail with no more than that.
            Some(failed) if self.handle.is_lost() => Err(Failed { failure: lost(&state), ..failed }),
            Some(failed) => Err(failed),
        }
    }

    /// Fails where the server has gone though nothing was asked of it since.
    pub(super) fn check_alive(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        if state.taken {
            return Ok(());
        }
        let moved = self.handle.turn(self.wake.as_fd(), 0);
        state.note(moved, &self.handle);
        if self.handle.is_lost() { Err(lost(&state)) } else { Ok(()) }
    }

    fn end_wait(&self) {
        // Fails only where it was woken four thousand million times before.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        lock(&self.state)
    }
}

impl ConnectionState {
    /// Keeps a request that was sent, or why it was not; whether it was.
    fn sent(&mut self, caller: &Arc<Caller>, offset: u64, sent: Result<Cookie, Failure>) -> bool {
        match sent {
            Ok(cookie) => {
                caller.left.fetch_add(1, Ordering::Relaxed);
                self.requests.push(Request { cookie, offset, caller: caller.clone() });
                true
            }
            Err(failure) => {
                caller.fail(offset, failure);
                false
            }
        }
    }

    /// Keeps why the connection was lost, if it was.
    fn note(&mut self, moved: Result<(), Failure>, handle: &Handle) {
        if let Err(failure) = moved
            && handle.is_lost()
        {
            self.loss.get_or_insert(failure);
        }
    }

    /// Takes the requests that have ended, and calls the threads of which it was the last, but not
    /// `caller`. Whether a request of another thread ended.
    fn retire(&mut self, handle: &Handle, caller: &Arc<Caller>) -> bool {
        let mut others = false;
        while let Some((cookie, result)) = handle.take_completed() {
            let Some(place) = self.requests.iter().position(|request| request.cookie == cookie) else {
                continue;
            };
            let request = self.requests.remove(place);
            if let Err(failure) = result {
                request.caller.fail(request.offset, failure);
            }
            let was_last = request.caller.left.fetch_sub(1, Ordering::Relaxed) == 1;
            if !Arc::ptr_eq(&request.caller, caller) {
                others = true;
                if was_last {
                    request.caller.called.notify_one();
                }
            }
        }
        others
    }
}

impl Caller {
    /// Keeps a failure if it is the one at the lowest offset.
    fn fail(&self, offset: u64, failure: Failure) {
        let mut failed = lock(&self.failed);
        if failed.as_ref().is_none_or(|other| offset < other.offset) {
            *failed = Some(Failed { offset, failure });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const CLOSED: &str = "the server closed the connection";

fn lost(state: &ConnectionState) -> Failure {
    let text = match &state.loss {
        Some(loss) => format!("the connection was lost: {}", loss.text),
        None => CLOSED.to_string(),
    };
    Failure { errno: 0, text }
}
