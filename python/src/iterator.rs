//! Work that Python iterates over: its results come one by one, and its summary comes at its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use verisum::Outlet;
use verisum::files::{Progress, Stop, lock};

use crate::arguments::Callback;
use crate::background::{Broken, Feed};
use crate::errors::Failure;
use crate::log::{Event, results};

/// Gives a class that wraps such work, or a table, what all of them have: it is an iterator of items, and `close` or the
/// end of a `with` block ends the work. With a way from what the work came to in all to a `summary`, it has that too.
macro_rules! python_iterator {
    ($class:ty, $item:ty, |$all:ident| -> $summary:ty { $told:expr }) => {
        $crate::iterator::python_iterator!($class, $item);

        #[pyo3::pymethods]
        impl $class {
            #[doc = stub!(stringify!($class), ".summary")]
            #[getter]
            fn summary(&self) -> Option<$summary> {
                self.0.summary().map(|$all| $told)
            }

            #[doc = stub!(stringify!($class), ".finish")]
            fn finish(&self, py: pyo3::Python<'_>) -> pyo3::PyResult<$summary> {
                self.0.finish(py).map(|$all| $told)
            }

            fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
                self.0.traverse(&visit)
            }

            fn __clear__(&self) {
                self.0.forget_progress();
            }
        }
    };
    ($class:ty, $item:ty) => {
        #[pyo3::pymethods]
        impl $class {
            #[doc = stub!("_Iterator.close")]
            fn close(&self, py: pyo3::Python<'_>) {
                py.detach(|| self.0.close());
            }

            fn __iter__(slf: pyo3::Bound<'_, Self>) -> pyo3::Bound<'_, Self> {
                slf
            }

            fn __next__(&self, py: pyo3::Python<'_>) -> pyo3::PyResult<Option<$item>> {
                Ok(self.0.next(py)?.map(Into::into))
            }

            fn __enter__(slf: pyo3::Bound<'_, Self>) -> pyo3::Bound<'_, Self> {
                slf
            }

            #[pyo3(signature = (*_exception))]
            fn __exit__(&self, py: pyo3::Python<'_>, _exception: &pyo3::Bound<'_, pyo3::types::PyTuple>) {
                self.close(py);
            }
        }
    };
}

pub(crate) use python_iterator;

/// What work gives.
pub(crate) enum Step<R, S> {
    Result(R),
    /// It came to its end.
    End(S),
    /// It cannot go on.
    Failed(Failure),
}

/// Where work puts its steps.
pub(crate) struct Steps<'a, R, S>(&'a Outlet<Event<Step<R, S>>>);

impl<R, S> Steps<'_, R, S> {
    /// Comes when nobody wants more.
    pub(crate) fn stop(&self) -> &Arc<Stop> {
        self.0.stop()
    }

    /// Gives a result away. False where nobody wants more.
    pub(crate) fn result(&self, result: R) -> bool {
        self.0.give(Event::Result(Step::Result(result)))
    }

    /// Tells something beside. False where nobody wants more.
    pub(crate) fn note(&self, note: String) -> bool {
        self.0.give(Event::Note(note))
    }

    /// Tells how it ended.
    pub(crate) fn end(&self, ended: Result<S, Failure>) {
        self.0.give(Event::Result(ended.map_or_else(Step::Failed, Step::End)));
    }
}

/// Work that goes on, as Python's iterators have it.
pub(crate) struct Running<R, S> {
    feed: Feed<Event<Step<R, S>>>,
    summary: Mutex<Option<Arc<S>>>,
    done: Arc<Done>,
    /// It may refer to the iterator itself, so Python's garbage collector sees it and takes it away.
    progress: Mutex<Option<Callback>>,
}

impl<R: Send + 'static, S: Send + Sync + 'static> Running<R, S> {
    /// Begins work. With `waits`, closing waits for its end. `progress` is called with files and bytes while nothing
    /// comes.
    pub(crate) fn start(
        waits: bool,
        (done, progress): (Arc<Done>, Option<Callback>),
        work: impl FnOnce(&Steps<R, S>) + Send + 'static,
    ) -> PyResult<Running<R, S>> {
        let (feed, progress) =
            (Feed::start(waits, move |outlet| work(&Steps(outlet)))?, Mutex::new(progress));
        Ok(Running { feed, summary: Mutex::default(), done, progress })
    }

    /// The next result.
    pub(crate) fn next(&self, py: Python<'_>) -> PyResult<Option<R>> {
        let mut tick = |py: Python<'_>| self.tell(py);
        loop {
            match results(&self.feed, py, &mut tick)? {
                Some(Step::Result(result)) => return Ok(Some(result)),
                Some(Step::End(summary)) => {
                    *lock(&self.summary) = Some(Arc::new(summary));
                    self.tell(py)?;
                }
                Some(Step::Failed(failure)) => return Err(failure.raise(py)),
                None => return Ok(None),
            }
        }
    }

    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        // What is called may ask for the lock.
        let known = lock(&self.progress);
        let progress = known.as_ref().map(|Callback(callback)| Callback(callback.clone_ref(py)));
        drop(known);
        Callback::tell(progress.as_ref(), py, (self.done.files(), self.done.bytes()))
    }

    /// Shows Python's garbage collector what is kept. Whoever uses it just now keeps it too.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.progress.try_lock().as_deref() {
            Ok(Some(Callback(callback))) => visit.call(callback),
            _ => Ok(()),
        }
    }

    /// Calls nobody any more.
    pub(crate) fn forget_progress(&self) {
        let forgotten = lock(&self.progress).take();
        // Only now: what ends with it may ask for the lock.
        drop(forgotten);
    }

    /// What was found in all, once it came to its end.
    pub(crate) fn summary(&self) -> Option<Arc<S>> {
        lock(&self.summary).clone()
    }

    /// Takes all results that are left, and gives the summary.
    pub(crate) fn finish(&self, py: Python<'_>) -> PyResult<Arc<S>> {
        while self.next(py)?.is_some() {}
        self.summary().ok_or_else(|| PyRuntimeError::new_err("it was ended before there was a summary"))
    }

    /// The next step, if it comes within this time, without Python. What is told beside is left out.
    pub(crate) fn wait(&self, time: Duration) -> Result<Poll<Option<Step<R, S>>>, Broken> {
        Ok(match self.feed.wait(time)? {
            Poll::Ready(Some(Event::Result(step))) => Poll::Ready(Some(step)),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Event::Note(_))) | Poll::Pending => Poll::Pending,
        })
    }

    /// Ends the work.
    pub(crate) fn close(&self) {
        self.feed.close();
    }
}

/// How much was done, here and on hosts.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// What this machine's engine tells.
    pub(crate) here: Arc<Progress>,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Done {
    /// Counts a file of a host.
    pub(crate) fn add(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn files(&self) -> u64 {
        self.here.files() + self.files.load(Ordering::Relaxed)
    }

    fn bytes(&self) -> u64 {
        self.here.bytes() + self.bytes.load(Ordering::Relaxed)
    }
}
