//! Detects which standard streams were closed when the program was started.
//!
//! Rust's runtime opens /dev/null for each of them before `main`. From then on a closed standard input
//! looks empty, and what is written to a closed standard output is lost without an error. So it is looked
//! at before: by a function that the dynamic loader, or the start code of a static program, calls first.
//! Elsewhere than on Linux nothing is known to be closed.

/// Whether standard input was closed.
pub(crate) fn standard_input() -> bool {
    at_start::closed(0)
}

/// Whether standard output was closed.
pub(crate) fn standard_output() -> bool {
    at_start::closed(1)
}

#[cfg(target_os = "linux")]
mod at_start {
    use std::sync::atomic::{AtomicU8, Ordering};

    /// One bit for each of the descriptors 0 to 2 that was closed.
    static CLOSED: AtomicU8 = AtomicU8::new(0);

    // SAFETY: this section holds pointers to functions of the C ABI, which are called once each before
    // `main`, on the only thread there is. `look` may be called so early: it needs nothing of Rust's
    // runtime, allocates nothing and cannot panic. It takes fewer arguments than some C libraries pass,
    // which the C ABI permits on every platform that has this section.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static BEFORE_MAIN: extern "C" fn() = look;

    extern "C" fn look() {
        for descriptor in 0..3 {
            // SAFETY: `F_GETFD` takes a number that need not be an open descriptor and touches no memory
            // of ours. The C library is ready: the loader initializes it before those who link to it.
            if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
                CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn closed(descriptor: u8) -> bool {
        // A use in code that is used: no linker can take the pointer for one that nobody needs.
        std::hint::black_box(&BEFORE_MAIN);
        CLOSED.load(Ordering::Relaxed) & (1 << descriptor) != 0
    }
}

#[cfg(not(target_os = "linux"))]
mod at_start {
    pub(super) fn closed(_: u8) -> bool {
        false
    }
}
