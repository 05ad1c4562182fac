//! Rows as Arrow record batches, by the PyCapsule interface: whoever reads Arrow takes them without a copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::{self, ThreadId};
use std::time::Duration;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use verisum::lake::{Column, Value};

use crate::arrow_columns::{ArrowColumn, schema};
use crate::background::Broken;
use crate::buffer::interrupt_again;
use crate::errors::Failure;
use crate::interrupt::TICK;

/// Makes a class that wraps a table, `Arc<impl Table>`, an iterator of its rows that Arrow and Parquet take whole too.
macro_rules! python_table {
    ($class:ty, $row:ty) => {
        $crate::iterator::python_iterator!($class, $row);

        #[pyo3::pymethods]
        impl $class {
            #[doc = stub!(stringify!($class), ".to_arrow")]
            #[pyo3(signature = (*, batch_rows=16384))]
            fn to_arrow(
                &self,
                #[pyo3(from_py_with = $crate::arguments::whole)] batch_rows: usize,
            ) -> pyo3::PyResult<$crate::arrow::ArrowStream> {
                $crate::arrow::Table::whole(&*self.0).require_untaken()?;
                $crate::arrow::ArrowStream::new(&self.0, batch_rows)
            }

            #[doc = stub!(stringify!($class), ".to_parquet")]
            #[pyo3(signature = (path, *, progress=None))]
            fn to_parquet(
                &self,
                py: pyo3::Python<'_>,
                path: $crate::arguments::FsPath,
                progress: Option<$crate::arguments::Callback>,
            ) -> pyo3::PyResult<u64> {
                $crate::parquet::write(py, &*self.0, &path.path, progress)
            }

            #[pyo3(signature = (requested_schema=None))]
            fn __arrow_c_stream__<'py>(
                &self,
                py: pyo3::Python<'py>,
                requested_schema: Option<&pyo3::Bound<'py, pyo3::PyAny>>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                self.to_arrow(16384)?.__arrow_c_stream__(py, requested_schema)
            }

            fn __arrow_c_schema__<'py>(
                &self,
                py: pyo3::Python<'py>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::arrow::ArrowStream::new(&self.0, 1)?.__arrow_c_schema__(py)
            }
        }
    };
}

pub(crate) use python_table;

/// Rows that are made elsewhere while they are taken.
pub(crate) trait Table: Send + Sync + 'static {
    type Row: Send;

    fn columns(&self) -> Vec<Column>;

    /// The values of a row, one for each column.
    fn values<'a>(&self, row: &'a Self::Row) -> Vec<Value<'a>>;

    /// The next row, if it comes within this time.
    fn wait(&self, time: Duration) -> Result<Poll<Option<Self::Row>>, Failure>;

    /// The same for whoever takes all rows. Fails if they were closed, since the table lacks some then.
    fn wait_for_all(&self, time: Duration) -> Result<Poll<Option<Self::Row>>, Failure> {
        match self.wait(time)? {
            Poll::Ready(None) if self.whole().is_closed() => Err(Failure::from(&Broken::Closed)),
            found => Ok(found),
        }
    }

    /// Whether all rows are still to be had.
    fn whole(&self) -> &Whole;

    /// Ends the work.
    fn close(&self);
}

/// Whether nobody has taken a row. A table that lacks some must not look like a whole one.
#[derive(Default)]
pub(crate) struct Whole {
    is_taken: AtomicBool,
    is_closed: AtomicBool,
}

impl Whole {
    const TAKEN: &str = "the rows were already read, or closed: call again what gave them";

    /// From now on rows come one by one.
    pub(crate) fn end(&self) {
        self.is_taken.store(true, Ordering::Relaxed);
    }

    /// From now on no rows come.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.end();
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Takes all rows.
    pub(crate) fn take(&self) -> Result<(), &'static str> {
        if self.is_taken.swap(true, Ordering::Relaxed) { Err(Whole::TAKEN) } else { Ok(()) }
    }

    pub(crate) fn require_untaken(&self) -> PyResult<()> {
        match self.is_taken.load(Ordering::Relaxed) {
            true => Err(PyValueError::new_err(Whole::TAKEN)),
            false => Ok(()),
        }
    }
}

/// Begins to read.
type Open = Box<dyn Fn() -> PyResult<Box<dyn RecordBatchReader + Send>> + Send + Sync>;

#[doc = stub!("ArrowStream")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct ArrowStream {
    schema: SchemaRef,
    open: Open,
}

impl ArrowStream {
    pub(crate) fn new<T: Table>(table: &Arc<T>, batch_rows: usize) -> PyResult<ArrowStream> {
        if batch_rows == 0 {
            return Err(PyValueError::new_err("a batch has at least one row"));
        }
        let schema = schema(&table.columns()).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let (table, schema) = (table.clone(), Arc::new(schema));
        let of_stream = schema.clone();
        let open = move || -> PyResult<Box<dyn RecordBatchReader + Send>> {
            table.whole().require_untaken()?;
            Ok(Box::new(Batches {
                table: table.clone(),
                schema: schema.clone(),
                rows: batch_rows,
                thread: thread::current().id(),
                has_begun: false,
                has_ended: false,
            }))
        };
        Ok(ArrowStream { schema: of_stream, open: Box::new(open) })
    }
}

#[pymethods]
impl ArrowStream {
    // A consumer that wants other types has to convert: the interface allows it.
    #[pyo3(signature = (_requested_schema=None))]
    pub(crate) fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        _requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let stream = FFI_ArrowArrayStream::new((self.open)()?);
        Ok(PyCapsule::new_with_value(py, stream, c"arrow_array_stream")?.into_any())
    }

    pub(crate) fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema);
        let schema = schema.map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
        Ok(PyCapsule::new_with_value(py, schema, c"arrow_schema")?.into_any())
    }
}

/// So many rows may come before signals are looked for: a small part of what comes in a `TICK`.
const LOOK_EVERY: usize = 256;

/// Takes rows while somebody reads batches, which need not be Python.
struct Batches<T> {
    table: Arc<T>,
    schema: SchemaRef,
    rows: usize,
    /// The thread that asked for the stream: where signals are looked for.
    thread: ThreadId,
    has_begun: bool,
    has_ended: bool,
}

impl<T: Table> Batches<T> {
    /// The next row, of this number in its batch.
    fn row(&self, number: usize) -> Result<Option<T::Row>, ArrowError> {
        let wait = |time| self.table.wait_for_all(time).map_err(|failure| failed(failure.message()));
        // Now and then signals are looked for even where a row is always ready.
        if !number.is_multiple_of(LOOK_EVERY)
            && let Poll::Ready(found) = wait(Duration::ZERO)?
        {
            return Ok(found);
        }
        // Whoever reads may hold the GIL or not; another thread than that of Python's must not ask for it, as the
        // thread that holds it may wait for that one.
        let is_pythons = thread::current().id() == self.thread;
        loop {
            let waited = match is_pythons {
                true => Python::try_attach(|py| (py.check_signals(), py.detach(|| wait(TICK)))),
                false => None,
            };
            let (raised, found) = waited.unwrap_or_else(|| (Ok(()), wait(TICK)));
            if let Err(error) = raised {
                // Through Arrow only a text comes, which its reader makes an exception of its own from.
                let is_ctrl_c = Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py));
                self.table.close();
                if is_ctrl_c {
                    interrupt_again();
                }
                return Err(failed(&error.to_string()));
            }
            if let Poll::Ready(found) = found? {
                return Ok(found);
            }
        }
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        // Not before: who only wants the schema may open a stream too.
        if !self.has_begun {
            self.table.whole().take().map_err(failed)?;
            self.has_begun = true;
        }
        let columns = self.table.columns();
        let mut columns: Vec<ArrowColumn> = columns.iter().map(ArrowColumn::new).collect::<Result<_, _>>()?;
        let mut rows = 0;
        while rows < self.rows {
            let Some(row) = self.row(rows)? else {
                self.has_ended = true;
                break;
            };
            for (column, value) in columns.iter_mut().zip(self.table.values(&row)) {
                column.add(&value)?;
            }
            rows += 1;
        }
        match rows {
            0 => Ok(None),
            _ => {
                let columns = columns.into_iter().map(ArrowColumn::finish).collect();
                RecordBatch::try_new(self.schema.clone(), columns).map(Some)
            }
        }
    }
}

fn failed(message: &str) -> ArrowError {
    ArrowError::ExternalError(message.into())
}

impl<T: Table> Iterator for Batches<T> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let batch = self.batch();
        self.has_ended |= batch.is_err();
        batch.transpose()
    }
}

impl<T: Table> RecordBatchReader for Batches<T> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
