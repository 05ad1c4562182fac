//! Work on a thread of its own, whose results Python takes one by one while it goes on.

use std::mem::ManuallyDrop;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use verisum::Outlet;
use verisum::files::{Stop, lock};

use crate::at_exit;
use crate::interrupt::TICK;

/// Results that come from a thread of their own.
pub(crate) struct Feed<T> {
    // `close` empties these two. A forked process drops neither: their locks, and the one within the receiver, may be
    // held for ever by threads that it lacks.
    results: ManuallyDrop<Mutex<Option<Receiver<T>>>>,
    worker: ManuallyDrop<Mutex<Option<JoinHandle<()>>>>,
    stop: Arc<Stop>,
    /// Whether nobody takes more. Who waits for a result looks here: the lock would go to that thread again and again.
    is_closed: AtomicBool,
    /// Whether closing waits for the end of the work. What waits for another machine may take long.
    waits: bool,
    /// Whether a signal ended the work. Then closing does not wait for a call of the system that lasts.
    is_interrupted: AtomicBool,
    /// The process whose thread it is: a forked one has none.
    process: u32,
}

/// Why nothing can be taken.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The thread is that of another process, which this one was forked from.
    Forked,
    /// The work panicked.
    Panicked,
    /// Somebody closed what all of it was to be taken from.
    Closed,
}

impl Broken {
    pub(crate) fn message(&self) -> &'static str {
        match self {
            Broken::Forked => "the work is done by the process that this one was forked from",
            Broken::Panicked => "the work ended by a fault in verisum: not all results came",
            Broken::Closed => "it was closed before all results came",
        }
    }

    pub(crate) fn raise(&self) -> PyErr {
        PyRuntimeError::new_err(self.message())
    }
}

impl<T: Send + 'static> Feed<T> {
    /// Begins the work. With `waits`, closing waits for its end.
    pub(crate) fn start(waits: bool, work: impl FnOnce(&Outlet<T>) + Send + 'static) -> PyResult<Feed<T>> {
        let stop = Arc::new(Stop::default());
        let (outlet, results) = Outlet::new(stop.clone());
        let worker = thread::Builder::new().name("verisum".to_string()).spawn(move || work(&outlet))?;
        Ok(Feed {
            results: ManuallyDrop::new(Mutex::new(Some(results))),
            worker: ManuallyDrop::new(Mutex::new(Some(worker))),
            stop,
            is_closed: AtomicBool::new(false),
            waits,
            is_interrupted: AtomicBool::new(false),
            process: process::id(),
        })
    }
}

impl<T> Feed<T> {
    /// The next result, if it comes within this time.
    pub(crate) fn wait(&self, time: Duration) -> Result<Poll<Option<T>>, Broken> {
        if process::id() != self.process {
            return Err(Broken::Forked);
        }
        if self.is_closed.load(Ordering::Relaxed) {
            return Ok(Poll::Ready(None));
        }
        let mut results = lock(&self.results);
        let Some(receiver) = &*results else { return Ok(Poll::Ready(None)) };
        match receiver.recv_timeout(time) {
            Ok(result) => Ok(Poll::Ready(Some(result))),
            Err(RecvTimeoutError::Timeout) => Ok(Poll::Pending),
            Err(RecvTimeoutError::Disconnected) => {
                *results = None;
                match lock(&self.worker).take().map(JoinHandle::join) {
                    Some(Err(_)) => Err(Broken::Panicked),
                    _ => Ok(Poll::Ready(None)),
                }
            }
        }
    }

    /// The next result. `tick` is called while it does not come; what it raises, and what a signal raises, ends the
    /// work. Signals are looked for before each result: `list` runs no Python that would look.
    pub(crate) fn next(
        &self,
        py: Python<'_>,
        tick: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
    ) -> PyResult<Option<T>>
    where
        T: Send,
    {
        let mut raised = self.check_signals(py);
        loop {
            if let Err(raised) = raised {
                self.give_up();
                return Err(raised);
            }
            match py.detach(|| self.wait(TICK)).map_err(|broken| broken.raise())? {
                Poll::Ready(result) => return Ok(result),
                Poll::Pending => raised = self.check_signals(py).and_then(|()| tick(py)),
            }
        }
    }

    fn check_signals(&self, py: Python<'_>) -> PyResult<()> {
        let raised = py.check_signals();
        if raised.is_err() {
            self.interrupt(py)?;
        }
        raised
    }

    fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        self.is_interrupted.store(true, Ordering::Relaxed);
        at_exit::register(py)
    }

    /// Ends the work as a signal would.
    pub(crate) fn leave(&self, py: Python<'_>) -> PyResult<()>
    where
        T: Send,
    {
        self.interrupt(py)?;
        py.detach(|| self.close());
        Ok(())
    }

    /// Asks the work to end, and waits for nothing.
    pub(crate) fn give_up(&self) {
        if process::id() == self.process {
            self.stop.request();
            self.is_closed.store(true, Ordering::Relaxed);
            // Whoever gives a result away is not kept waiting.
            *lock(&self.results) = None;
        }
    }

    /// Ends the work.
    pub(crate) fn close(&self) {
        if process::id() != self.process {
            return;
        }
        self.give_up();
        let worker = lock(&self.worker).take();
        if let (true, Some(worker)) = (self.waits, worker) {
            match self.is_interrupted.load(Ordering::Relaxed) {
                true => at_exit::leave(worker),
                // It panicked for nobody.
                false => drop(worker.join()),
            }
        }
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        // The GIL is neither given away nor asked for: other libraries drop streams on threads of their own.
        self.close();
    }
}
