//! The file descriptor that tells of completions.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd; clones are the same one. Closed with the last of them.
#[derive(Clone)]
pub(crate) struct Event(Arc<OwnedFd>);

impl Event {
    pub(crate) fn new() -> Result<Event, c_int> {
        match eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC) {
            Ok(fd) => Ok(Event(Arc::new(fd))),
            Err(errno) => Err(errno.raw_os_error()),
        }
    }

    /// Makes it readable.
    pub(crate) fn signal(&self) {
        // It can only fail when the counter is full, and then it is readable.
        let _: Result<usize, rustix::io::Errno> = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    pub(crate) fn raw(&self) -> c_int {
        self.0.as_raw_fd()
    }
}
