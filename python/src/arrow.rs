//! Rows as Arrow record batches, by the PyCapsule interface: whoever reads Arrow takes them without a copy.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::task::Poll;
use std::thread::{self, ThreadId};
use std::time::Duration;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, StringBuilder, TimestampNanosecondBuilder,
    UInt64Builder,
};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use verisum::digest::Digest;

use crate::buffer::interrupt_again;
use crate::errors::Failure;
use crate::files::Source;
use crate::interrupt::TICK;
use crate::note::Event;
use crate::row::{Row, nanoseconds};

/// Rows of files, to be taken once by what reads Arrow.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct ArrowStream {
    source: Arc<Source>,
    schema: SchemaRef,
    batch_rows: usize,
}

impl ArrowStream {
    pub(crate) fn new(source: Arc<Source>, batch_rows: usize) -> ArrowStream {
        let schema = Arc::new(schema(&source.digests));
        ArrowStream { source, schema, batch_rows }
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
        let batches = Batches {
            source: self.source.clone(),
            schema: self.schema.clone(),
            rows: self.batch_rows,
            thread: thread::current().id(),
            has_ended: false,
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        Ok(PyCapsule::new_with_value(py, stream, c"arrow_array_stream")?.into_any())
    }

    pub(crate) fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema);
        let schema = schema.map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
        Ok(PyCapsule::new_with_value(py, schema, c"arrow_schema")?.into_any())
    }
}

/// The columns: those of every row, and one for each digest.
fn schema(digests: &[Digest]) -> Schema {
    let time = || DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let mut fields = vec![
        Field::new("path", DataType::Utf8, true),
        Field::new("path_bytes", DataType::Binary, true),
        Field::new("error", DataType::Utf8, true),
        Field::new("size", DataType::UInt64, true),
        Field::new("mtime", time(), true),
        Field::new("ctime", time(), true),
        Field::new("device", DataType::UInt64, true),
        Field::new("inode", DataType::UInt64, true),
        Field::new("changed", DataType::Boolean, true),
        Field::new("host", DataType::Utf8, true),
    ];
    let digest =
        |digest: &Digest| Field::new(digest.name(), DataType::FixedSizeBinary(digest.len() as i32), true);
    fields.extend(digests.iter().map(digest));
    Schema::new(fields)
}

/// Takes rows while somebody reads batches, which need not be Python.
struct Batches {
    source: Arc<Source>,
    schema: SchemaRef,
    rows: usize,
    /// The thread that asked for the stream: where signals are looked for.
    thread: ThreadId,
    has_ended: bool,
}

impl Batches {
    /// The next row. What places tell beside is left out: there may be no Python to log it.
    fn row(&self) -> Result<Option<Row>, ArrowError> {
        loop {
            match self.event()? {
                Some(Event::Result(row)) => return Ok(Some(row)),
                Some(Event::Note(_)) => {}
                None => return Ok(None),
            }
        }
    }

    fn event(&self) -> Result<Option<Event<Row>>, ArrowError> {
        let wait = |time| self.source.wait(time).map_err(|broken| failed(broken.message()));
        if let Poll::Ready(found) = wait(Duration::ZERO)? {
            return Ok(found);
        }
        // Whoever reads may hold the GIL or not; another thread than that of Python's must not ask for it, as the
        // thread that holds it may wait for that one.
        let is_pythons = thread::current().id() == self.thread;
        loop {
            let waited = match is_pythons {
                true => Python::try_attach(|py| (py.detach(|| wait(TICK)), py.check_signals())),
                false => None,
            };
            let (found, raised) = waited.unwrap_or_else(|| (wait(TICK), Ok(())));
            if let Err(error) = raised {
                // Through Arrow only a text comes, which its reader makes an exception of its own from.
                let is_ctrl_c = Python::attach(|py| error.is_instance_of::<PyKeyboardInterrupt>(py));
                self.source.close();
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
        let mut columns = Columns::new(&self.source.digests);
        let mut rows = 0;
        while rows < self.rows {
            let Some(found) = self.row()? else {
                self.has_ended = true;
                break;
            };
            columns.add(&found)?;
            rows += 1;
        }
        match rows {
            0 => Ok(None),
            _ => RecordBatch::try_new(self.schema.clone(), columns.finish()).map(Some),
        }
    }
}

fn failed(message: &str) -> ArrowError {
    ArrowError::ExternalError(message.into())
}

impl Iterator for Batches {
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

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The columns of a batch that is being filled.
struct Columns {
    path: StringBuilder,
    path_bytes: BinaryBuilder,
    error: StringBuilder,
    size: UInt64Builder,
    modified: TimestampNanosecondBuilder,
    changed: TimestampNanosecondBuilder,
    device: UInt64Builder,
    inode: UInt64Builder,
    has_changed: BooleanBuilder,
    host: StringBuilder,
    digests: Vec<FixedSizeBinaryBuilder>,
}

impl Columns {
    fn new(digests: &[Digest]) -> Columns {
        let time = || TimestampNanosecondBuilder::new().with_timezone("UTC");
        Columns {
            path: StringBuilder::new(),
            path_bytes: BinaryBuilder::new(),
            error: StringBuilder::new(),
            size: UInt64Builder::new(),
            modified: time(),
            changed: time(),
            device: UInt64Builder::new(),
            inode: UInt64Builder::new(),
            has_changed: BooleanBuilder::new(),
            host: StringBuilder::new(),
            digests: digests.iter().map(|digest| FixedSizeBinaryBuilder::new(digest.len() as i32)).collect(),
        }
    }

    fn add(&mut self, row: &Row) -> Result<(), ArrowError> {
        // Text where it is text, and the bytes only where it is none: nothing is lost, and most have one of them.
        let text = row.path.to_str();
        self.path.append_option(text);
        self.path_bytes.append_option(text.is_none().then(|| row.path.as_os_str().as_bytes()));
        self.error.append_option(row.result.as_ref().err().map(Failure::message));
        let file = row.result.as_ref().ok();
        let stat = file.and_then(|file| file.stat.as_ref());
        let time = |time| i64::try_from(nanoseconds(time)).ok();
        self.size.append_option(file.and_then(|file| file.size));
        self.modified.append_option(file.and_then(|file| file.modified).and_then(time));
        self.changed.append_option(stat.and_then(|stat| time(stat.changed)));
        self.device.append_option(stat.map(|stat| stat.device));
        self.inode.append_option(stat.map(|stat| stat.inode));
        self.has_changed.append_option(file.map(|file| file.changed));
        self.host.append_option(row.host.as_deref());
        for (number, column) in self.digests.iter_mut().enumerate() {
            match file {
                Some(file) => column.append_value(file.digests[number].as_bytes())?,
                None => column.append_null(),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<ArrayRef> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.path.finish()),
            Arc::new(self.path_bytes.finish()),
            Arc::new(self.error.finish()),
            Arc::new(self.size.finish()),
            Arc::new(self.modified.finish()),
            Arc::new(self.changed.finish()),
            Arc::new(self.device.finish()),
            Arc::new(self.inode.finish()),
            Arc::new(self.has_changed.finish()),
            Arc::new(self.host.finish()),
        ];
        columns.extend(self.digests.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
        columns
    }
}
