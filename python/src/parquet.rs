//! Rows as a Parquet file that appears whole or not at all.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::files::Stop;
use verisum::lake::{LakeError, ParquetFile};

use crate::arguments::Callback;
use crate::arrow::Table;
use crate::errors::Failure;
use crate::interrupt::{TICK, interruptible};

/// Writes all rows, and says how many. `progress` is called with the rows so far. If it or a signal raises, nothing is
/// left behind.
pub(crate) fn write<T: Table>(
    py: Python<'_>,
    table: &T,
    path: &Path,
    progress: Option<Callback>,
) -> PyResult<u64> {
    table.whole().take().map_err(PyValueError::new_err)?;
    let done = AtomicU64::new(0);
    let mut tick = |py: Python<'_>| Callback::tell(progress.as_ref(), py, (done.load(Ordering::Relaxed),));
    let written = interruptible(py, &mut tick, |stop| written(table, path, &done, stop));
    if !matches!(written, Ok(Ok(_))) {
        py.detach(|| table.close());
    }
    let count = written?.map_err(|failure| failure.raise(py))?;
    tick(py)?;
    Ok(count)
}

fn written<T: Table>(table: &T, path: &Path, done: &AtomicU64, stop: &Stop) -> Result<u64, Failure> {
    let wrong = |error: LakeError| Failure::from(&error);
    let mut file = ParquetFile::create(path, &table.columns()).map_err(wrong)?;
    loop {
        match table.wait_for_all(TICK)? {
            Poll::Ready(Some(row)) => {
                file.write(&table.values(&row)).map_err(wrong)?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Poll::Ready(None) => break,
            Poll::Pending => {}
        }
        // Whoever asked for it raises.
        if stop.is_due() {
            return Ok(0);
        }
    }
    file.finish().map_err(wrong)?;
    Ok(done.load(Ordering::Relaxed))
}
