//! `struct blkhash`: a hash in progress, and the calls that wait.

use std::ffi::{c_int, c_uchar, c_uint, c_void};
use std::slice;
use std::sync::{Mutex, MutexGuard, PoisonError};

use verisum_blockhash::{Hasher, Params};
use verisum_digest::{Digest, Output};

use crate::boundary::{construct, destroy, errno_of, no_unwind};
use crate::event::Event;
use crate::options::Options;
use crate::signals;

/// A hash in the making.
pub struct Handle {
    state: Mutex<State>,
    /// Readable when completions wait; none without a queue.
    pub(crate) event: Option<Event>,
}

pub(crate) struct State {
    /// Taken away by a panic, since nothing is known about it then.
    hasher: Option<Hasher>,
    /// The first error, which every later call reports.
    failure: Option<c_int>,
    finished: bool,
}

impl State {
    /// The hasher, or the failure that took it away.
    pub(crate) fn hasher(&mut self) -> Result<&mut Hasher, c_int> {
        self.hasher.as_mut().ok_or(libc::EIO)
    }

    /// Remembers the first error.
    pub(crate) fn fail(&mut self, errno: c_int) {
        self.failure.get_or_insert(errno);
    }
}

impl Handle {
    pub(crate) fn new(options: &Options) -> Result<Handle, c_int> {
        let name = options.digest.to_str().map_err(|_| libc::EINVAL)?;
        let params = Digest::find(name)
            .map_err(verisum_blockhash::BlockHashError::from)
            .and_then(|digest| Params::new(digest).block_size(options.block_size))
            .and_then(|params| params.threads(usize::from(options.threads)))
            .map_err(|error| errno_of(&error))?
            .around_start(signals::blocked);
        let event = match options.queue_depth {
            0 => None,
            _ => Some(Event::new()?),
        };
        let hasher = match event.clone() {
            None => Hasher::new(&params),
            Some(event) => Hasher::with_queue(&params, options.queue_depth as usize, move || event.signal()),
        };
        let hasher = hasher.map_err(|error| errno_of(&error))?;
        let state = State { hasher: Some(hasher), failure: None, finished: false };
        Ok(Handle { state: Mutex::new(state), event })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Panics are caught inside the lock, so that it is never poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call that adds to the message. Its error stays, unless it says that nothing was added and
    /// that another call would do better.
    pub(crate) fn add(&self, call: impl FnOnce(&mut Hasher) -> Result<(), c_int>) -> c_int {
        let mut state = self.lock();
        if state.finished {
            return libc::EINVAL;
        }
        if let Some(failure) = state.failure {
            return failure;
        }
        match self.run(&mut state, call) {
            Ok(()) => 0,
            Err(errno) => {
                if ![libc::EAGAIN, libc::ENOTSUP].contains(&errno) {
                    state.fail(errno);
                }
                errno
            }
        }
    }

    fn finish(&self) -> Result<Output, c_int> {
        let mut state = self.lock();
        if state.finished {
            return Err(libc::EINVAL);
        }
        state.finished = true;
        if let Some(failure) = state.failure {
            return Err(failure);
        }
        self.run(&mut state, |hasher| hasher.finish().map_err(|error| errno_of(&error)))
    }

    /// Runs a call of the hasher. If that panics, the hasher is dropped at once: this ends the workers,
    /// so that they touch no caller's memory any more. Whoever waits for a completion is woken up to
    /// learn that there will be none.
    pub(crate) fn run<T>(
        &self,
        state: &mut State,
        call: impl FnOnce(&mut Hasher) -> Result<T, c_int>,
    ) -> Result<T, c_int> {
        let hasher = state.hasher()?;
        no_unwind(|| call(hasher)).unwrap_or_else(|| {
            state.fail(libc::EIO);
            let hasher = state.hasher.take();
            no_unwind(|| drop(hasher));
            if let Some(event) = &self.event {
                event.signal();
            }
            Err(libc::EIO)
        })
    }
}

/// The bytes that C means by a pointer and a length. A null pointer is fine without a length.
///
/// # Safety
/// `data` is null or good for reading `len` bytes, which nobody changes during `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> Result<&'a [u8], c_int> {
    match len {
        0 => Ok(&[]),
        // No object is longer than that.
        _ if data.is_null() || len > isize::MAX as usize => Err(libc::EINVAL),
        // SAFETY: neither null nor too long, and the caller promises the rest.
        _ => Ok(unsafe { slice::from_raw_parts(data.cast(), len) }),
    }
}

/// Starts a hash with the defaults.
#[unsafe(no_mangle)]
pub extern "C" fn blkhash_new() -> *mut Handle {
    construct(|| Handle::new(&Options::new(c"sha256")))
}

/// Starts a hash.
///
/// # Safety
/// `opts` is null or valid, and nobody changes it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_new_opts(opts: *const Options) -> *mut Handle {
    // SAFETY: the caller's promise.
    construct(|| Handle::new(unsafe { opts.as_ref() }.ok_or(libc::EINVAL)?))
}

/// Adds bytes, which are the caller's again when this returns.
///
/// # Safety
/// `hash` is null or valid; `buf` is null or good for reading `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_update(hash: *mut Handle, buf: *const c_void, len: usize) -> c_int {
    // SAFETY: the caller's promise. Other threads may hold references too; the lock is inside.
    let Some(handle) = (unsafe { hash.as_ref() }) else { return libc::EINVAL };
    handle.add(|hasher| {
        // SAFETY: the caller's promise, for this call.
        let data = unsafe { bytes(buf, len) }?;
        hasher.update(data).map_err(|error| errno_of(&error))
    })
}

/// Adds zeros.
///
/// # Safety
/// `hash` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_zero(hash: *mut Handle, len: usize) -> c_int {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { hash.as_ref() }) else { return libc::EINVAL };
    handle.add(|hasher| hasher.zero(len as u64).map_err(|error| errno_of(&error)))
}

/// Ends the message and writes its block hash.
///
/// # Safety
/// `hash` is null or valid; `md` is null or has room for 64 bytes; `len` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_final(hash: *mut Handle, md: *mut c_uchar, len: *mut c_uint) -> c_int {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { hash.as_ref() }) else { return libc::EINVAL };
    // The message ends in any case.
    match handle.finish() {
        Ok(_) if md.is_null() => libc::EINVAL,
        Ok(output) => {
            let digest = output.as_bytes();
            // SAFETY: there is room for the longest digest; `len` is valid unless it is null.
            unsafe {
                md.copy_from_nonoverlapping(digest.as_ptr(), digest.len());
                if let Some(len) = len.as_mut() {
                    *len = digest.len() as c_uint;
                }
            }
            0
        }
        Err(errno) => errno,
    }
}

/// Ends the workers and frees everything; null is allowed.
///
/// # Safety
/// `hash` is null or came from [`blkhash_new`] or [`blkhash_new_opts`], no other call uses it, and none
/// will.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_free(hash: *mut Handle) {
    // SAFETY: the caller's promise.
    unsafe { destroy(hash) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(queue_depth: c_uint) -> Handle {
        Handle::new(&Options { queue_depth, ..Options::new(c"sha256") }).unwrap()
    }

    #[test]
    fn a_panic_is_an_error_that_stays() {
        let handle = handle(2);
        assert_eq!(handle.add(|_| panic!("on purpose")), libc::EIO);
        assert_eq!(handle.add(|_| Ok(())), libc::EIO);
        let mut counter = [0; 8];
        assert_eq!(rustix::io::read(handle_fd(&handle), &mut counter), Ok(8));
        let mut out = [crate::asynchronous::BlkhashCompletion::default()];
        // SAFETY: the handle and the room for one completion are valid.
        let taken = unsafe {
            crate::asynchronous::blkhash_aio_completions((&raw const handle).cast_mut(), out.as_mut_ptr(), 1)
        };
        assert_eq!(taken, -libc::EIO);
        assert_eq!(handle.finish(), Err(libc::EIO));
        assert_eq!(handle.finish(), Err(libc::EINVAL));
    }

    fn handle_fd(handle: &Handle) -> std::os::fd::BorrowedFd<'_> {
        // SAFETY: the handle keeps it open.
        unsafe { std::os::fd::BorrowedFd::borrow_raw(handle.event.as_ref().unwrap().raw()) }
    }

    #[test]
    fn errors_without_effect_do_not_stay() {
        let handle = handle(0);
        for errno in [libc::EAGAIN, libc::ENOTSUP] {
            assert_eq!(handle.add(|_| Err(errno)), errno);
        }
        assert_eq!(handle.add(|_| Ok(())), 0);
        assert_eq!(handle.add(|_| Err(libc::ELIBACC)), libc::ELIBACC);
        assert_eq!(handle.add(|_| Ok(())), libc::ELIBACC);
    }
}
