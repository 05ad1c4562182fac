//! Rows as a Parquet file that appears whole or not at all.

use std::path::Path;
use std::sync::Arc;
use std::task::Poll;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use verisum::files::Stop;
use verisum::lake::ParquetFile;

use crate::arrow::{Columns, Table};
use crate::errors::{Failure, Kind};
use crate::interrupt::{TICK, interruptible};

/// Rows that are gathered before they are written.
const BATCH: usize = 8 << 10;

/// Writes what rows are left, and says how many. If a signal raises, nothing is left behind.
pub(crate) fn write<T: Table>(py: Python<'_>, table: &T, path: &Path) -> PyResult<u64> {
    let written = interruptible(py, &mut |_| Ok(()), |stop| written(table, path, stop));
    if written.is_err() {
        py.detach(|| table.close());
    }
    written?.map_err(|failure| failure.raise(py))
}

fn written<T: Table>(table: &T, path: &Path, stop: &Stop) -> Result<u64, Failure> {
    let odd = |error: ArrowError| {
        let message = format!("{}: write: {error}", path.display());
        Failure::new(Kind::File, &message).path(path).operation("write")
    };
    let schema = Arc::new(table.columns().schema());
    let mut file = ParquetFile::create(path, schema.clone()).map_err(|error| Failure::from(&error))?;
    let (mut count, mut has_ended) = (0, false);
    while !has_ended {
        let (mut columns, mut rows) = (table.columns(), 0);
        while rows < BATCH && !has_ended {
            match table.wait(TICK)? {
                Poll::Ready(Some(row)) => {
                    columns.add(&row).map_err(odd)?;
                    rows += 1;
                }
                Poll::Ready(None) => has_ended = true,
                Poll::Pending => {}
            }
            if stop.is_due() {
                return Ok(count);
            }
        }
        let batch = RecordBatch::try_new(schema.clone(), columns.finish()).map_err(odd)?;
        file.write(&batch).map_err(|error| Failure::from(&error))?;
        count += rows as u64;
    }
    file.finish().map_err(|error| Failure::from(&error))?;
    Ok(count)
}
