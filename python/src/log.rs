//! What places tell beside results, for Python's logging.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::background::Feed;

/// A result, or something that a user may want to know.
pub(crate) enum Event<T> {
    Result(T),
    Note(String),
}

/// The next result; the notes before it are logged. `tick` is called while it does not come.
pub(crate) fn results<T: Send>(
    feed: &Feed<Event<T>>,
    py: Python<'_>,
    tick: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<Option<T>> {
    loop {
        match feed.next(py, tick)? {
            Some(Event::Result(result)) => return Ok(Some(result)),
            Some(Event::Note(note)) => log(py, &note)?,
            None => return Ok(None),
        }
    }
}

/// Gives a note to the logger `verisum`.
fn log(py: Python<'_>, note: &str) -> PyResult<()> {
    static LOGGER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = || py.import("logging")?.call_method1("getLogger", ("verisum",)).map(Bound::unbind);
    let logger = LOGGER.get_or_try_init(py, made)?;
    // A percent sign in it is no place for an argument.
    logger.bind(py).call_method1("info", ("%s", note)).map(drop)
}
