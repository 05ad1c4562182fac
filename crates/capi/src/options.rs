//! `struct blkhash_opts`.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::ptr;

use verisum_blockhash::{DEFAULT_BLOCK_SIZE, MAX_THREADS};

use crate::boundary::{construct, destroy, set_errno};

/// The most asynchronous updates that can be in flight: far more than keep any machine busy, and few
/// enough that a negative number given for it is noticed.
const MAX_QUEUE_DEPTH: c_uint = 65536;

const DEFAULT_THREADS: u8 = 4;

/// What a new hash is to be. Every value in it is valid but the digest's name, which may be unknown.
pub struct Options {
    pub(crate) digest: CString,
    pub(crate) block_size: u32,
    pub(crate) threads: u8,
    pub(crate) queue_depth: c_uint,
}

impl Options {
    pub(crate) fn new(digest: &CStr) -> Options {
        Options {
            digest: digest.to_owned(),
            block_size: DEFAULT_BLOCK_SIZE,
            threads: DEFAULT_THREADS,
            queue_depth: 0,
        }
    }
}

/// Makes options with a copy of the digest's name, and defaults.
///
/// # Safety
/// `digest` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_opts_new(digest: *const c_char) -> *mut Options {
    construct(|| {
        if digest.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        Ok(Options::new(unsafe { CStr::from_ptr(digest) }))
    })
}

/// Frees options; null is allowed. Hashes made with them are not affected.
///
/// # Safety
/// `opts` is null or came from [`blkhash_opts_new`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_opts_free(opts: *mut Options) {
    // SAFETY: the caller's promise.
    unsafe { destroy(opts) }
}

/// Changes options if there are any and `valid` holds.
///
/// # Safety
/// `opts` is null or valid, and nobody else uses it meanwhile.
unsafe fn set(opts: *mut Options, valid: bool, change: impl FnOnce(&mut Options)) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { opts.as_mut() } {
        Some(opts) if valid => {
            change(opts);
            0
        }
        _ => libc::EINVAL,
    }
}

/// Sets the block size in bytes: even, and not 0.
///
/// # Safety
/// `opts` is null or valid, and nobody else uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_opts_set_block_size(opts: *mut Options, block_size: u32) -> c_int {
    let valid = block_size > 0 && block_size.is_multiple_of(2);
    // SAFETY: the caller's promise.
    unsafe { set(opts, valid, |opts| opts.block_size = block_size) }
}

/// Sets the number of threads that hash.
///
/// # Safety
/// `opts` is null or valid, and nobody else uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_opts_set_threads(opts: *mut Options, threads: u8) -> c_int {
    let valid = (1..=MAX_THREADS).contains(&usize::from(threads));
    // SAFETY: the caller's promise.
    unsafe { set(opts, valid, |opts| opts.threads = threads) }
}

/// Sets how many asynchronous updates can be in flight; 0 is none.
///
/// # Safety
/// `opts` is null or valid, and nobody else uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_opts_set_queue_depth(opts: *mut Options, queue_depth: c_uint) -> c_int {
    let valid = queue_depth <= MAX_QUEUE_DEPTH;
    // SAFETY: the caller's promise.
    unsafe { set(opts, valid, |opts| opts.queue_depth = queue_depth) }
}

/// Reads options; of null it is `nothing`, and errno is EINVAL.
///
/// # Safety
/// `opts` is null or valid, and nobody changes it meanwhile.
unsafe fn get<T>(opts: *const Options, nothing: T, field: impl FnOnce(&Options) -> T) -> T {
    // SAFETY: the caller's promise.
    match unsafe { opts.as_ref() } {
        Some(opts) => field(opts),
        None => {
            set_errno(libc::EINVAL);
            nothing
        }
    }
}

/// The digest's name, as it was given; valid until the options are freed.
///
/// # Safety
/// `opts` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_opts_get_digest_name(opts: *const Options) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { get(opts, ptr::null(), |opts| opts.digest.as_ptr()) }
}

/// The block size in bytes.
///
/// # Safety
/// `opts` is null or valid, and nobody changes it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_opts_get_block_size(opts: *const Options) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { get(opts, 0, |opts| opts.block_size) }
}

/// The number of threads.
///
/// # Safety
/// `opts` is null or valid, and nobody changes it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_opts_get_threads(opts: *const Options) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { get(opts, 0, |opts| opts.threads) }
}

/// How many asynchronous updates can be in flight.
///
/// # Safety
/// `opts` is null or valid, and nobody changes it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkhash_opts_get_queue_depth(opts: *const Options) -> c_uint {
    // SAFETY: the caller's promise.
    unsafe { get(opts, 0, |opts| opts.queue_depth) }
}
