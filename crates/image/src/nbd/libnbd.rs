//! Bindings to the few calls of libnbd that reading needs, resolved at run time.
//!
//! Signatures are those of libnbd's manual pages, section 3. All are there since libnbd 1.12, and the
//! library's name promises that they stay.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libloading::Library;

/// File name of the library.
const NAME: &str = "libnbd.so.0";

/// The Debian package that has it.
pub(super) const PACKAGE: &str = "libnbd0";

const BASE_ALLOCATION: &CStr = c"base:allocation";

/// `LIBNBD_SIZE_MINIMUM` and `LIBNBD_SIZE_MAXIMUM`.
const SIZE_MINIMUM: c_int = 0;
const SIZE_MAXIMUM: c_int = 2;

/// `LIBNBD_AIO_DIRECTION_READ` and `LIBNBD_AIO_DIRECTION_WRITE`.
const DIRECTION_READ: c_uint = 1;
const DIRECTION_WRITE: c_uint = 2;

/// `LIBNBD_STATE_ZERO`: reading gives zeros.
const STATE_ZERO: u32 = 2;

/// An `nbd_completion_callback`.
#[repr(C)]
struct CompletionCallback {
    callback: Option<unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int>,
    user_data: *mut c_void,
    free: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// `NBD_NULL_COMPLETION`.
const NO_COMPLETION: CompletionCallback =
    CompletionCallback { callback: None, user_data: std::ptr::null_mut(), free: None };

/// An `nbd_extent_callback`.
#[repr(C)]
struct ExtentCallback {
    callback: unsafe extern "C" fn(
        user_data: *mut c_void,
        context: *const c_char,
        offset: u64,
        entries: *mut u32,
        count: usize,
        error: *mut c_int,
    ) -> c_int,
    user_data: *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

/// An `nbd_handle`.
type Raw = *mut c_void;

/// The library and the functions found in it.
pub(super) struct LibNbd {
    create: unsafe extern "C" fn() -> Raw,
    close: unsafe extern "C" fn(Raw),
    get_error: unsafe extern "C" fn() -> *const c_char,
    get_errno: unsafe extern "C" fn() -> c_int,
    get_version: unsafe extern "C" fn(Raw) -> *const c_char,
    add_meta_context: unsafe extern "C" fn(Raw, *const c_char) -> c_int,
    set_uri_allow_local_file: unsafe extern "C" fn(Raw, bool) -> c_int,
    set_pread_initialize: unsafe extern "C" fn(Raw, bool) -> c_int,
    aio_connect_uri: unsafe extern "C" fn(Raw, *const c_char) -> c_int,
    aio_connect_socket: unsafe extern "C" fn(Raw, c_int) -> c_int,
    poll: unsafe extern "C" fn(Raw, c_int) -> c_int,
    aio_is_connecting: unsafe extern "C" fn(Raw) -> c_int,
    aio_is_dead: unsafe extern "C" fn(Raw) -> c_int,
    aio_is_closed: unsafe extern "C" fn(Raw) -> c_int,
    get_size: unsafe extern "C" fn(Raw) -> i64,
    get_block_size: unsafe extern "C" fn(Raw, c_int) -> i64,
    can_multi_conn: unsafe extern "C" fn(Raw) -> c_int,
    can_meta_context: unsafe extern "C" fn(Raw, *const c_char) -> c_int,
    get_tls_negotiated: unsafe extern "C" fn(Raw) -> c_int,
    aio_pread: unsafe extern "C" fn(Raw, *mut c_void, usize, u64, CompletionCallback, u32) -> i64,
    aio_block_status: unsafe extern "C" fn(Raw, u64, u64, ExtentCallback, CompletionCallback, u32) -> i64,
    aio_command_completed: unsafe extern "C" fn(Raw, u64) -> c_int,
    aio_peek_command_completed: unsafe extern "C" fn(Raw) -> i64,
    aio_get_fd: unsafe extern "C" fn(Raw) -> c_int,
    aio_get_direction: unsafe extern "C" fn(Raw) -> c_uint,
    aio_notify_read: unsafe extern "C" fn(Raw) -> c_int,
    aio_notify_write: unsafe extern "C" fn(Raw) -> c_int,
    aio_disconnect: unsafe extern "C" fn(Raw, u32) -> c_int,
    _library: Library,
}

impl LibNbd {
    /// The library, loaded at the first call; or why it cannot be.
    pub(super) fn load() -> Result<&'static LibNbd, &'static str> {
        static LIBRARY: OnceLock<Result<LibNbd, String>> = OnceLock::new();
        LIBRARY.get_or_init(LibNbd::open).as_ref().map_err(String::as_str)
    }

    fn open() -> Result<LibNbd, String> {
        // SAFETY: libnbd's initialisers may run at any time; it is never unloaded, because the value
        // lives in a static.
        let library = unsafe { Library::new(NAME) }
            .map_err(|_| format!("NBD needs {NAME}, which is not installed (Debian package {PACKAGE})"))?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the field's type is the signature in libnbd's manual.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }
                    .map_err(|_| format!("{NAME} lacks {}: libnbd 1.12 or newer is needed", $name))?
            };
        }
        Ok(LibNbd {
            create: symbol!("nbd_create"),
            close: symbol!("nbd_close"),
            get_error: symbol!("nbd_get_error"),
            get_errno: symbol!("nbd_get_errno"),
            get_version: symbol!("nbd_get_version"),
            add_meta_context: symbol!("nbd_add_meta_context"),
            set_uri_allow_local_file: symbol!("nbd_set_uri_allow_local_file"),
            set_pread_initialize: symbol!("nbd_set_pread_initialize"),
            aio_connect_uri: symbol!("nbd_aio_connect_uri"),
            aio_connect_socket: symbol!("nbd_aio_connect_socket"),
            poll: symbol!("nbd_poll"),
            aio_is_connecting: symbol!("nbd_aio_is_connecting"),
            aio_is_dead: symbol!("nbd_aio_is_dead"),
            aio_is_closed: symbol!("nbd_aio_is_closed"),
            get_size: symbol!("nbd_get_size"),
            get_block_size: symbol!("nbd_get_block_size"),
            can_multi_conn: symbol!("nbd_can_multi_conn"),
            can_meta_context: symbol!("nbd_can_meta_context"),
            get_tls_negotiated: symbol!("nbd_get_tls_negotiated"),
            aio_pread: symbol!("nbd_aio_pread"),
            aio_block_status: symbol!("nbd_aio_block_status"),
            aio_command_completed: symbol!("nbd_aio_command_completed"),
            aio_peek_command_completed: symbol!("nbd_aio_peek_command_completed"),
            aio_get_fd: symbol!("nbd_aio_get_fd"),
            aio_get_direction: symbol!("nbd_aio_get_direction"),
            aio_notify_read: symbol!("nbd_aio_notify_read"),
            aio_notify_write: symbol!("nbd_aio_notify_write"),
            aio_disconnect: symbol!("nbd_aio_disconnect"),
            _library: library,
        })
    }

    /// What the last call of this thread that failed says of it.
    fn failure(&self) -> Failure {
        // SAFETY: gives this thread's number.
        let errno = unsafe { (self.get_errno)() };
        // SAFETY: gives null or this thread's text, which stays until its next call of the library.
        let text = unsafe { (self.get_error)().as_ref().map(|text| CStr::from_ptr(text)) };
        let text = text.map(CStr::to_string_lossy).unwrap_or_default();
        // The text begins with the name of the function.
        let text = match text.split_once(": ") {
            Some((call, rest)) if call.starts_with("nbd_") => rest,
            _ => &text,
        };
        Failure { errno, text: text.to_string() }
    }

    fn check(&self, result: c_int) -> Result<c_int, Failure> {
        if result == -1 { Err(self.failure()) } else { Ok(result) }
    }
}

/// Why a call of the library failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// The number of the system's error, or 0.
    pub(super) errno: i32,
    /// What happened, in words.
    pub(super) text: String,
}

/// What the library waits for on the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Direction {
    read: bool,
    write: bool,
}

/// A command that was sent, by the library's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cookie(u64);

/// Part of an export: its length in bytes, and whether it reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) length: u32,
    pub(super) zero: bool,
}

/// Where the answer to a question for block status arrives.
pub(super) type Statuses = Arc<Mutex<Vec<Status>>>;

/// One connection.
///
/// Every call takes the library's lock of this handle, so that several threads may use it; none of the
/// calls here waits for the server, but [`Handle::wait_connecting`].
pub(super) struct Handle {
    library: &'static LibNbd,
    raw: NonNull<c_void>,
}

// SAFETY: a handle belongs to no thread, and libnbd(3) allows calls from several threads at a time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// A handle that is not connected yet, and will ask for block status.
    pub(super) fn new(library: &'static LibNbd) -> Result<Handle, Failure> {
        // SAFETY: takes nothing.
        let raw = unsafe { (library.create)() };
        let handle = Handle { library, raw: NonNull::new(raw).ok_or_else(|| library.failure())? };
        // SAFETY: the handle is valid, the text ends with NUL.
        library.check(unsafe { (library.add_meta_context)(handle.raw(), BASE_ALLOCATION.as_ptr()) })?;
        // SAFETY: the handle is valid. The buffers here are initialised already.
        library.check(unsafe { (library.set_pread_initialize)(handle.raw(), false) })?;
        // SAFETY: the handle is valid. Certificates and keys are files; the address comes from the user.
        library.check(unsafe { (library.set_uri_allow_local_file)(handle.raw(), true) })?;
        Ok(handle)
    }

    fn raw(&self) -> Raw {
        self.raw.as_ptr()
    }

    /// The version of the library, as in `1.14.2`.
    pub(super) fn version(&self) -> String {
        // SAFETY: the handle is valid; gives null or a text that stays, and ends with NUL.
        let text =
            unsafe { (self.library.get_version)(self.raw()).as_ref().map(|text| CStr::from_ptr(text)) };
        text.map(CStr::to_string_lossy).unwrap_or_default().into_owned()
    }

    /// Begins to connect to an address.
    pub(super) fn connect_uri(&self, uri: &CStr) -> Result<(), Failure> {
        // SAFETY: the handle is valid, the text ends with NUL.
        self.library.check(unsafe { (self.library.aio_connect_uri)(self.raw(), uri.as_ptr()) })?;
        Ok(())
    }

    /// Begins to speak over a connected socket.
    pub(super) fn connect_socket(&self, socket: OwnedFd) -> Result<(), Failure> {
        // SAFETY: the handle is valid; the library takes the descriptor over, and closes it on failure.
        self.library.check(unsafe { (self.library.aio_connect_socket)(self.raw(), socket.into_raw_fd()) })?;
        Ok(())
    }

    /// Lets the connecting go on when the server says something; gives up waiting after some
    /// milliseconds. Whether it still goes on.
    pub(super) fn wait_connecting(&self, milliseconds: i32) -> Result<bool, Failure> {
        // SAFETY: the handle is valid.
        if self.library.check(unsafe { (self.library.aio_is_connecting)(self.raw()) })? == 0 {
            return Ok(false);
        }
        // SAFETY: as above.
        self.library.check(unsafe { (self.library.poll)(self.raw(), milliseconds) })?;
        Ok(true)
    }

    /// Whether the connection has ended.
    pub(super) fn is_lost(&self) -> bool {
        // SAFETY: the handle is valid.
        unsafe {
            (self.library.aio_is_dead)(self.raw()) != 0 || (self.library.aio_is_closed)(self.raw()) != 0
        }
    }

    /// Length in bytes of the export.
    pub(super) fn size(&self) -> Result<u64, Failure> {
        // SAFETY: the handle is valid.
        u64::try_from(unsafe { (self.library.get_size)(self.raw()) }).map_err(|_| {
            let mut failure = self.library.failure();
            // The library takes 2^64 - 1 for an error of its own.
            if failure.text.is_empty() {
                failure.text = "the server tells a size that no export has".to_string();
            }
            failure
        })
    }

    /// The smallest and largest requests in bytes that the server takes, 0 where it does not say.
    pub(super) fn request_sizes(&self) -> Result<(u64, u64), Failure> {
        let size = |which| {
            // SAFETY: the handle is valid.
            let size = unsafe { (self.library.get_block_size)(self.raw(), which) };
            u64::try_from(size).map_err(|_| self.library.failure())
        };
        Ok((size(SIZE_MINIMUM)?, size(SIZE_MAXIMUM)?))
    }

    /// Whether the server promises that all connections see the same.
    pub(super) fn can_multi_conn(&self) -> bool {
        // SAFETY: the handle is valid.
        unsafe { (self.library.can_multi_conn)(self.raw()) == 1 }
    }

    /// Whether the server tells holes and zeros.
    pub(super) fn can_block_status(&self) -> bool {
        // SAFETY: the handle is valid, the text ends with NUL.
        unsafe { (self.library.can_meta_context)(self.raw(), BASE_ALLOCATION.as_ptr()) == 1 }
    }

    /// Whether the connection is encrypted.
    pub(super) fn has_tls(&self) -> bool {
        // SAFETY: the handle is valid.
        unsafe { (self.library.get_tls_negotiated)(self.raw()) == 1 }
    }

    /// Sends a request to fill `length` bytes at `buffer` from `offset` of the export.
    ///
    /// # Safety
    /// The memory is valid for writing, and nobody else touches it, until
    /// [`Handle::take_completed`] gives the command, or the handle is dropped.
    #[allow(unsafe_code)]
    pub(super) unsafe fn start_read(
        &self,
        buffer: *mut MaybeUninit<u8>,
        length: usize,
        offset: u64,
    ) -> Result<Cookie, Failure> {
        // SAFETY: the handle is valid; the memory is, by this function's own contract.
        let cookie =
            unsafe { (self.library.aio_pread)(self.raw(), buffer.cast(), length, offset, NO_COMPLETION, 0) };
        u64::try_from(cookie).map(Cookie).map_err(|_| self.library.failure())
    }

    /// Asks which parts of a range read as zeros. The answer is in the list when the command has ended;
    /// it may end before or after the range does.
    pub(super) fn start_block_status(
        &self,
        offset: u64,
        length: u64,
        answer: &Statuses,
    ) -> Result<Cookie, Failure> {
        unsafe extern "C" fn collect(
            answer: *mut c_void,
            context: *const c_char,
            _: u64,
            entries: *mut u32,
            count: usize,
            _: *mut c_int,
        ) -> c_int {
            // SAFETY: the pointer is that of the `Arc` below, which `release` has not taken back yet; the
            // name ends with NUL; there are `count` numbers. A panic (out of memory) aborts at the
            // `extern "C"` border.
            let (answer, context, entries) = unsafe {
                let answer = &*answer.cast::<Mutex<Vec<Status>>>();
                (answer, CStr::from_ptr(context), std::slice::from_raw_parts(entries, count))
            };
            if context == BASE_ALLOCATION {
                let statuses =
                    entries.chunks_exact(2).map(|e| Status { length: e[0], zero: e[1] & STATE_ZERO != 0 });
                answer.lock().unwrap_or_else(PoisonError::into_inner).extend(statuses);
            }
            0
        }

        unsafe extern "C" fn release(answer: *mut c_void) {
            // SAFETY: the pointer came from `Arc::into_raw`, and the library calls this once.
            drop(unsafe { Arc::from_raw(answer.cast::<Mutex<Vec<Status>>>()) });
        }

        let user_data = Arc::into_raw(answer.clone()).cast_mut().cast();
        let callback = ExtentCallback { callback: collect, user_data, free: release };
        // SAFETY: the handle is valid; the callback's data lives until the library releases it, which it
        // does also where the call fails.
        let cookie = unsafe {
            (self.library.aio_block_status)(self.raw(), length, offset, callback, NO_COMPLETION, 0)
        };
        u64::try_from(cookie).map(Cookie).map_err(|_| self.library.failure())
    }

    /// Takes a command that has ended, and how it ended; `None` where none has.
    pub(super) fn take_completed(&self) -> Option<(Cookie, Result<(), Failure>)> {
        // SAFETY: the handle is valid.
        let cookie = unsafe { (self.library.aio_peek_command_completed)(self.raw()) };
        let cookie = u64::try_from(cookie).ok().filter(|&cookie| cookie > 0)?;
        // SAFETY: as above.
        let result = self.library.check(unsafe { (self.library.aio_command_completed)(self.raw(), cookie) });
        Some((Cookie(cookie), result.map(|_| ())))
    }

    /// Whether something waits to be written.
    pub(super) fn wants_to_write(&self) -> bool {
        self.direction().write
    }

    /// Waits until the socket is ready for what the library wants to do with it, or the eventfd
    /// `wake` was written to, or milliseconds have passed (-1 for no limit); then lets the library do it.
    ///
    /// Only one thread at a time may call this. Signals end the wait early.
    pub(super) fn turn(&self, wake: BorrowedFd<'_>, milliseconds: i32) -> Result<(), Failure> {
        let wanted = self.direction();
        let events =
            if wanted.read { libc::POLLIN } else { 0 } | if wanted.write { libc::POLLOUT } else { 0 };
        // SAFETY: the handle is valid. A lost connection has no descriptor, -1, which poll passes over.
        let socket: RawFd = unsafe { (self.library.aio_get_fd)(self.raw()) };
        let mut polled = [
            libc::pollfd { fd: socket, events, revents: 0 },
            libc::pollfd { fd: wake.as_raw_fd(), events: libc::POLLIN, revents: 0 },
        ];
        // Another thread may find the connection lost meanwhile, and the library then closes the socket.
        // That thread writes to `wake`, so that this one does not wait for whatever got the number then.
        // SAFETY: the array is valid for as many entries; poll takes any number for a descriptor.
        let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
        if count <= 0 {
            return Ok(());
        }
        if polled[1].revents != 0 {
            // Reading resets it; that another was faster is no error.
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
        let happened = polled[0].revents;
        if happened == 0 {
            return Ok(());
        }
        // Another thread may have sent something meanwhile.
        let wanted = self.direction();
        if wanted.read && happened & !libc::POLLOUT != 0 {
            // SAFETY: the handle is valid.
            self.library.check(unsafe { (self.library.aio_notify_read)(self.raw()) })?;
        } else if wanted.write && happened & !libc::POLLIN != 0 {
            // SAFETY: as above.
            self.library.check(unsafe { (self.library.aio_notify_write)(self.raw()) })?;
        }
        Ok(())
    }

    /// What the library waits for.
    fn direction(&self) -> Direction {
        // SAFETY: the handle is valid.
        let bits = unsafe { (self.library.aio_get_direction)(self.raw()) };
        Direction { read: bits & DIRECTION_READ != 0, write: bits & DIRECTION_WRITE != 0 }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is valid. A server takes a farewell for what it is, and the loss of a client
        // for an error to be logged; nobody waits for it to be heard.
        unsafe { (self.library.aio_disconnect)(self.raw(), 0) };
        // SAFETY: the handle came from nbd_create and is closed once.
        unsafe { (self.library.close)(self.raw()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_here_has_all_symbols() {
        if verisum_testkit::require_tool("nbdinfo").is_none() {
            return;
        }
        let library = LibNbd::load().unwrap();
        let handle = Handle::new(library).unwrap();
        let failure = handle.connect_uri(c"nonsense").unwrap_err();
        assert!(!failure.text.starts_with("nbd_") && !failure.text.is_empty(), "{failure:?}");
        assert!(handle.size().is_err());
        assert!(handle.version().starts_with(|first: char| first.is_ascii_digit()));
    }
}
