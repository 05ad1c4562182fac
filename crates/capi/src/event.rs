//! The file descriptor that signals completions.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::fcntl_dupfd_cloexec;

/// An eventfd; clones are the same one. Closed with the last of them.
#[derive(Clone)]
pub(crate) struct Event(Arc<OwnedFd>);

impl Event {
    pub(crate) fn new() -> Result<Event, c_int> {
        // Never the number of a standard stream that the program has closed: it may yet use that.
        eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .and_then(|fd| if fd.as_raw_fd() > 2 { Ok(fd) } else { fcntl_dupfd_cloexec(&fd, 3) })
            .map(|fd| Event(Arc::new(fd)))
            .map_err(|errno| errno.raw_os_error())
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
