//! Allocates the memory that SQLite's readers and writers share, a mapped file beside the catalogue. On a
//! full file system with blocks smaller than a page, SQLite's own way to lengthen the file leaves holes in
//! it, and the first access to a hole ends the process with SIGBUS. So the pages are allocated before they
//! are mapped. If there is no space for them, that is an error like any other.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::sync::Once;

use rusqlite::ffi;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Has SQLite map files by [`map`]. Whoever opens a connection calls it before.
pub(super) fn allocate_before_mapping() {
    static ONCE: Once = Once::new();
    ONCE.call_once(install);
}

#[allow(unsafe_code)]
fn install() {
    // SAFETY: The default file system of SQLite lives as long as the process, and is that of Unix, which has
    // a call of this name. SQLite casts the pointer back to the type that `map` has before it calls it.
    // `Once` keeps two threads from being here, and no connection is made before.
    unsafe {
        let system = ffi::sqlite3_vfs_find(std::ptr::null());
        if let Some(set) = system.as_ref().and_then(|system| system.xSetSystemCall) {
            let map: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void = map;
            let map = std::mem::transmute::<
                unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void,
                unsafe extern "C" fn(),
            >(map);
            set(system, c"mmap".as_ptr(), Some(map));
        }
    }
}

/// `mmap`, after the part of the file was allocated, if it is to be written to.
///
/// # Safety
/// As `mmap`.
#[allow(unsafe_code)]
unsafe extern "C" fn map(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    if protection & libc::PROT_WRITE != 0 && flags & libc::MAP_SHARED != 0 && file >= 0 {
        // SAFETY: It is open: SQLite is about to map it.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let allocated = fallocate(file, FallocateFlags::KEEP_SIZE, offset as u64, length as u64);
        // Where it is not known how, things are as they were.
        if let Err(Errno::NOSPC | Errno::DQUOT | Errno::IO) = allocated {
            return libc::MAP_FAILED;
        }
    }
    // SAFETY: What is asked for is what SQLite asks of `mmap`.
    unsafe { libc::mmap(address, length, protection, flags, file, offset as libc::off_t) }
}
