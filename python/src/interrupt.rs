//! Long work without the GIL that Ctrl-C ends, and that a callback may watch.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use verisum::files::Stop;

use crate::background::Feed;

/// How often Python is asked whether a signal came.
pub(crate) const TICK: Duration = Duration::from_millis(40);

/// Does `work` on another thread, without the GIL, and looks meanwhile whether a signal came, and calls `tick`. If
/// either raises, `work` is asked to stop, waited for, and its result dropped.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    tick: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce(&Stop) -> T + Send,
) -> PyResult<T> {
    let stop = Stop::default();
    thread::scope(|scope| {
        let (sender, receiver) = channel::<()>();
        let stop = &stop;
        let worker = thread::Builder::new().name("verisum".to_string()).spawn_scoped(scope, move || {
            // Dropped at the end, also by a panic.
            let _sender = sender;
            work(stop)
        })?;
        // A receiver belongs to one thread, and so may not be used where another could hold the GIL.
        let receiver = std::sync::Mutex::new(receiver);
        let mut raised = Ok(());
        while raised.is_ok() {
            let ended = py.detach(|| {
                let receiver = receiver.lock().unwrap_or_else(|e| e.into_inner());
                receiver.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout)
            });
            if ended {
                break;
            }
            raised = py.check_signals().and_then(|()| tick(py));
        }
        if raised.is_err() {
            stop.request();
        }
        let result = py.detach(|| worker.join());
        raised?;
        Ok(result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// What is to happen to work that was asked to end and sits in a long call of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftover {
    /// It only reads: the end of the interpreter ends it.
    Reads,
    /// The end of the interpreter waits for it, so that it removes what it has half written.
    Writes,
}

/// The same for work that owns what it needs. If it sits in a long call of the system, as the opening of a named pipe
/// is, nobody waits for its end.
pub(crate) fn abandonable<T: Send + 'static>(
    py: Python<'_>,
    leftover: Leftover,
    tick: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce(&Arc<Stop>) -> T + Send + 'static,
) -> PyResult<T> {
    let feed = Feed::start(leftover == Leftover::Writes, move |outlet| {
        outlet.give(work(outlet.stop()));
    })?;
    let taken = feed.next(py, tick);
    if taken.is_err() {
        feed.leave(py)?;
    }
    // Without a result it panicked, which `next` has told, or the feed was closed, which nobody else can do.
    taken?.ok_or_else(|| PyRuntimeError::new_err("the work gave no result"))
}
