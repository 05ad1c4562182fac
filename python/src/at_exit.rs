//! Calls of Python by threads that Python did not start, and work that Ctrl-C has left: the end of the interpreter waits
//! for both.
//!
//! An interpreter that ends lets no other thread have the GIL: CPython before 3.14 ends such a thread by unwinding its
//! stack, and no stack with frames of Rust may be unwound so; the process aborts. So nothing is called any more once the
//! functions of `atexit` run, and what was called before comes to its end first.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCFunction;

/// Whether nothing is called any more.
static OVER: AtomicBool = AtomicBool::new(false);

/// The process in the upper half, and how many of its calls go on in the lower. A forked process has no threads of ours,
/// so it begins anew; and a lock could be held by a thread that it lacks.
static CALLS: AtomicU64 = AtomicU64::new(0);

const POLL: Duration = Duration::from_millis(1);

/// So long Ctrl-C waits for work that it has ended.
const GRACE: Duration = Duration::from_millis(50);

/// Lets the end of the interpreter wait for calls.
pub(crate) fn register(py: Python<'_>) -> PyResult<()> {
    static REGISTERED: PyOnceLock<()> = PyOnceLock::new();
    let register = || {
        let end = PyCFunction::new_closure(py, None, None, |arguments, _| end(arguments.py()))?;
        py.import("atexit")?.call_method1("register", (end,)).map(drop)
    };
    REGISTERED.get_or_try_init(py, register).map(|_| ())
}

/// Calls Python. None where the interpreter ends.
pub(crate) fn attach<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    // Before the look at `OVER`: whoever sets that sees this call, or this call sees that.
    count(|calls| calls + 1);
    let _ended = CallEnd;
    if is_over() { None } else { Python::try_attach(call) }
}

/// Waits shortly for work that was asked to end. Work that sits in a long call of the system, such as `fsync` on a busy
/// disk, then ends by itself: the end of the interpreter waits for that, so the work removes what it has half written.
pub(crate) fn leave(worker: JoinHandle<()>) {
    let until = Instant::now() + GRACE;
    while !worker.is_finished() {
        if Instant::now() >= until && !is_over() {
            count(|calls| calls + 1);
            let ended = CallEnd;
            // Where no thread can be had, the work ends all the same.
            let _ = thread::Builder::new().name("verisum-end".to_string()).spawn(move || {
                let _ended = ended;
                // It panicked for nobody.
                let _ = worker.join();
            });
            return;
        }
        thread::sleep(POLL);
    }
}

/// Whether the interpreter ends.
pub(crate) fn is_over() -> bool {
    OVER.load(Ordering::SeqCst)
}

struct CallEnd;

impl Drop for CallEnd {
    fn drop(&mut self) {
        count(|calls| calls.saturating_sub(1));
    }
}

/// Waits for calls and for work. Ctrl-C ends the wait: what is called may wait for a store that does not answer.
fn end(py: Python<'_>) -> PyResult<()> {
    OVER.store(true, Ordering::SeqCst);
    while count(|calls| calls) > 0 {
        py.detach(|| thread::sleep(POLL));
        py.check_signals()?;
    }
    Ok(())
}

/// Changes the count of this process. The new count.
fn count(change: impl Fn(u64) -> u64) -> u64 {
    let process = u64::from(process::id()) << 32;
    let mut new = 0;
    let mut counted = |old: u64| {
        let is_own = old >> 32 == process >> 32;
        new = change(if is_own { old & u64::from(u32::MAX) } else { 0 });
        Some(process | new)
    };
    let _ = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, &mut counted);
    new
}
