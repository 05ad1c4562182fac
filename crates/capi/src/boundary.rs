//! Crossing between Rust and C: errno values, and panics that must not cross.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use verisum_blockhash::BlockHashError;

/// The errno value that stands for an error. The table is in blkhash(3).
pub(crate) fn errno_of(error: &BlockHashError) -> c_int {
    use verisum_digest::DigestError;
    match error {
        BlockHashError::BlockSize(_) | BlockHashError::Threads(_) | BlockHashError::Finished => libc::EINVAL,
        BlockHashError::Digest(DigestError::Unknown { .. }) => libc::EINVAL,
        BlockHashError::Digest(DigestError::Unavailable { .. }) => libc::ELIBACC,
        BlockHashError::TooLong => libc::EOVERFLOW,
        BlockHashError::QueueFull => libc::EAGAIN,
        BlockHashError::NoQueue => libc::ENOTSUP,
        // What the system says is EAGAIN, but here that means a full queue, which callers wait for.
        BlockHashError::Thread(_) => libc::ENOMEM,
        // A digest or a worker failed. (The variant for images exists only if another crate of the same
        // build wants it, and never occurs here.)
        _ => libc::EIO,
    }
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library gives a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() = value }
}

/// Runs `call`; `None` if it panicked.
pub(crate) fn no_unwind<T>(call: impl FnOnce() -> T) -> Option<T> {
    // Whoever calls treats what `call` worked on as broken after a panic.
    catch_unwind(AssertUnwindSafe(call))
        // Dropping what was thrown could panic again.
        .map_err(std::mem::forget)
        .ok()
}

/// Makes an object for C; on failure it is null, and errno says why.
pub(crate) fn construct<T>(make: impl FnOnce() -> Result<T, c_int>) -> *mut T {
    match no_unwind(|| make().map(Box::new)).unwrap_or(Err(libc::EIO)) {
        Ok(object) => Box::into_raw(object),
        Err(errno) => {
            set_errno(errno);
            ptr::null_mut()
        }
    }
}

/// Frees an object made by [`construct`]; nothing to do for null.
///
/// # Safety
/// `object` is null, or came from [`construct`] and is not used again.
pub(crate) unsafe fn destroy<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: as the caller promises.
        let object = unsafe { Box::from_raw(object) };
        no_unwind(|| drop(object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_errno() {
        use verisum_digest::DigestError;
        let name = || "x".to_string();
        let table = [
            (BlockHashError::BlockSize(3), libc::EINVAL),
            (BlockHashError::Threads(0), libc::EINVAL),
            (BlockHashError::Finished, libc::EINVAL),
            (DigestError::Unknown { name: name() }.into(), libc::EINVAL),
            (DigestError::Unavailable { name: name(), reason: name() }.into(), libc::ELIBACC),
            (DigestError::Failed { name: name(), operation: "x" }.into(), libc::EIO),
            (BlockHashError::TooLong, libc::EOVERFLOW),
            (BlockHashError::QueueFull, libc::EAGAIN),
            (BlockHashError::NoQueue, libc::ENOTSUP),
            (BlockHashError::Thread(std::io::ErrorKind::WouldBlock), libc::ENOMEM),
            (BlockHashError::Panicked, libc::EIO),
        ];
        for (error, errno) in table {
            assert_eq!(errno_of(&error), errno, "{error}");
        }
    }

    #[test]
    fn a_panic_makes_no_object() {
        /// Panics again when it is dropped.
        struct Bomb;

        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("second");
            }
        }

        assert!(no_unwind(|| std::panic::panic_any(Bomb)).is_none());
        let object: *mut u8 = construct(|| panic!("first"));
        assert!(object.is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EIO));
    }
}
