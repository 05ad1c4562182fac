//! Rows as a Parquet file that appears whole or not at all.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::files::Stop;
use verisum::lake::ParquetFile;

use crate::arguments::Callback;
use crate::arrow::{Columns, Table};
use crate::errors::{Failure, Kind};
use crate::interrupt::{TICK, interruptible};

/// Rows that are gathered before they are written.
const BATCH: usize = 8 << 10;

/// Writes what rows are left, and says how many. `progress` is called with the rows so far. If it or a signal raises,
/// nothing is left behind.
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
    if written.is_err() {
        py.detach(|| table.close());
    }
    let count = written?.map_err(|failure| failure.raise(py))?;
    tick(py)?;
    Ok(count)
}

fn written<T: Table>(table: &T, path: &Path, done: &AtomicU64, stop: &Stop) -> Result<u64, Failure> {
    let odd = |error: ArrowError| {
        let message = format!("{}: write: {error}", path.display());
        Failure::new(Kind::File, &message).path(path).operation("write")
    };
    let schema = Arc::new(table.columns().schema());
    let mut file = ParquetFile::create(path, schema.clone()).map_err(|error| Failure::from(&error))?;
    let mut has_ended = false;
    while !has_ended {
        let (mut columns, mut rows) = (table.columns(), 0);
        while rows < BATCH && !has_ended {
            match table.wait(TICK)? {
                Poll::Ready(Some(row)) => {
                    columns.add(&row).map_err(odd)?;
                    rows += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Poll::Ready(None) => has_ended = true,
                Poll::Pending => {}
            }
            if stop.is_due() {
                return Ok(0);
            }
        }
        let batch = RecordBatch::try_new(schema.clone(), columns.finish()).map_err(odd)?;
        file.write(&batch).map_err(|error| Failure::from(&error))?;
    }
    file.finish().map_err(|error| Failure::from(&error))?;
    Ok(done.load(Ordering::Relaxed))
}
