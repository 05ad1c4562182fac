//! Keeps the application's signals away from the library's threads.

use std::mem::MaybeUninit;
use std::ptr;

/// Signals that the faulting instruction's own thread must get: while they are blocked, the kernel
/// would end the process past its handlers. A caller's mapped file that shrinks is one way to get them.
const SYNCHRONOUS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Runs `start` while all other signals are blocked for this thread. The threads that it starts inherit
/// that, so that a signal of the process is never handled on one of them.
pub(crate) fn blocked(start: &mut dyn FnMut()) {
    /// Puts the thread's own mask back, even when `start` panics.
    struct Restore(libc::sigset_t);

    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the set was filled by the system; a null pointer asks for no old set.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
        }
    }

    let mut all = MaybeUninit::uninit();
    let mut old = MaybeUninit::uninit();
    // SAFETY: `sigfillset` makes `all` a valid set before the others use it, and `pthread_sigmask`
    // fills `old` when it returns 0.
    let restore = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in SYNCHRONOUS {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        match libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), old.as_mut_ptr()) {
            0 => Some(Restore(old.assume_init())),
            _ => None,
        }
    };
    start();
    drop(restore);
}
