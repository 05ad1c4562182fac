//! Updates that do not wait.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use verisum_blockhash::Completion;

use crate::boundary::errno_of;
use crate::handle::{Handle, State, bytes};

/// Completions are taken from the hasher in portions of this many.
const PORTION: usize = 64;

/// `struct blkhash_completion`.
#[repr(C)]
pub struct BlkhashCompletion {
    /// What was given with the update.
    pub(crate) user_data: *mut c_void,
    /// 0 or an errno value.
    pub(crate) error: c_int,
}

impl Default for BlkhashCompletion {
    fn default() -> Self {
        BlkhashCompletion { user_data: ptr::null_mut(), error: 0 }
    }
}

/// Adds bytes without waiting for them to be hashed.
///
/// # Safety
/// `hash` is null or valid. If this returns 0, `buf` stays good for reading `len` bytes, which nobody
/// changes, until the update's completion was taken, or the hash was finished without an error or freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_aio_update(
    hash: *mut Handle,
    buf: *const c_void,
    len: usize,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { hash.as_ref() }) else { return libc::EINVAL };
    handle.add(|hasher| {
        // SAFETY: the caller's promise, which outlasts this call.
        let data = unsafe { bytes(buf, len) }?;
        // SAFETY: the bytes stay until the completion was taken, as the caller promises.
        unsafe { hasher.submit(data, user_data.expose_provenance()) }.map_err(|error| errno_of(&error))
    })
}

/// The file descriptor that is readable when completions wait.
///
/// # Safety
/// `hash` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_aio_completion_fd(hash: *mut Handle) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { hash.as_ref() } {
        None => -libc::EINVAL,
        Some(handle) => handle.event.as_ref().map_or(-libc::ENOTSUP, |event| event.raw()),
    }
}

/// Takes up to `count` completions.
///
/// # Safety
/// `hash` is null or valid; `out` is null or has room for `count` completions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_aio_completions(
    hash: *mut Handle,
    out: *mut BlkhashCompletion,
    count: c_uint,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { hash.as_ref() }) else { return -libc::EINVAL };
    let Some(event) = &handle.event else { return -libc::ENOTSUP };
    if out.is_null() && count > 0 {
        return -libc::EINVAL;
    }
    // The number must fit the result.
    let count = count.min(c_int::MAX as c_uint) as usize;
    let mut state = handle.lock();
    let mut taken = 0;
    loop {
        let mut portion = [Completion::default(); PORTION];
        let wanted = PORTION.min(count - taken);
        let arrived = match handle.run(&mut state, |hasher| {
            hasher.completions(&mut portion[..wanted]).map_err(|error| errno_of(&error))
        }) {
            Ok(arrived) => arrived,
            Err(errno) => return -errno,
        };
        for completion in &portion[..arrived] {
            let error = if completion.failed { reason(handle, &mut state) } else { 0 };
            let user_data = ptr::with_exposed_provenance_mut(completion.token);
            // SAFETY: `taken` is less than `count`, for which there is room.
            unsafe { out.add(taken).write(BlkhashCompletion { user_data, error }) };
            taken += 1;
        }
        if arrived < PORTION || taken == count {
            break;
        }
    }
    // Somebody who has read the descriptor must not go to sleep beside completions that found no room.
    if taken == count && count > 0 {
        event.signal();
    }
    taken as c_int
}

/// Why updates fail: the first error, which stays.
fn reason(handle: &Handle, state: &mut State) -> c_int {
    let failure = handle
        .run(state, |hasher| hasher.update(&[]).map_err(|error| errno_of(&error)))
        .err()
        .unwrap_or(libc::EIO);
    state.fail(failure);
    failure
}
