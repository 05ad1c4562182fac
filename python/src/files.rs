//! The digests of the files of trees, as an iterator of rows.

use std::ffi::OsStr;
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use verisum::digest::Digest;
use verisum::files::{Excludes, Limits, StartError, Timestamp};
use verisum::{FileDigests, HashOptions, ResultOrder};

use crate::arrow::ArrowStream;
use crate::digests::hex;
use crate::errors;
use crate::hash::find;
use crate::image::fs_path;
use crate::interrupt::TICK;

/// What was found of one file.
pub(crate) type Found = Result<FileDigests, verisum::files::Error>;

/// Files that are being hashed on threads of their own.
pub(crate) struct Source {
    /// None once it is closed.
    files: Mutex<Option<ManuallyDrop<verisum::HashFiles>>>,
    /// The process whose threads they are: a forked one has none of them.
    process: u32,
    /// The digests of each row.
    pub(crate) digests: Vec<Digest>,
}

impl Source {
    /// The next row, if it comes within this time.
    ///
    /// # Errors
    /// This is another process, forked from the one that hashes.
    pub(crate) fn wait(&self, time: Duration) -> Result<Poll<Option<Found>>, Forked> {
        if process::id() != self.process {
            return Err(Forked);
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(files.as_mut().map_or(Poll::Ready(None), |files| files.next_within(time)))
    }

    /// Ends the work.
    pub(crate) fn close(&self) {
        if process::id() == self.process {
            let files = self.files.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(files.map(ManuallyDrop::into_inner));
        }
    }

    /// The next row, which a signal may come before.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Found>> {
        let forked =
            |_| PyRuntimeError::new_err("the files are hashed by the process that this one was forked from");
        loop {
            match py.detach(|| self.wait(TICK)).map_err(forked)? {
                Poll::Ready(found) => return Ok(found),
                Poll::Pending => py.check_signals()?,
            }
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // In a forked process it would wait for threads that are not there.
        self.close();
    }
}

/// The threads that hash are those of another process.
#[derive(Debug)]
pub(crate) struct Forked;

/// Hashes the regular files of trees.
#[pyfunction]
#[pyo3(signature = (
    paths, algorithms=None, *, ordered=false, threads=0, one_file_system=false, follow_links=false,
    exclude=None, limit=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn hash_files(
    py: Python<'_>,
    paths: &Bound<'_, PyAny>,
    algorithms: Option<Vec<String>>,
    ordered: bool,
    threads: usize,
    one_file_system: bool,
    follow_links: bool,
    exclude: Option<Vec<String>>,
    limit: Option<u64>,
) -> PyResult<HashFiles> {
    let names = algorithms.unwrap_or_else(|| vec!["sha256".to_string()]);
    if names.is_empty() {
        return Err(PyValueError::new_err("no algorithm is named"));
    }
    let digests = names.iter().map(|name| find(py, name)).collect::<PyResult<Vec<_>>>()?;
    let patterns = exclude.map(|patterns| Excludes::new(patterns.iter().map(String::as_str)).map(Arc::new));
    let excludes = patterns.transpose().map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut options = HashOptions::default();
    options.digests = digests.clone();
    options.threads = threads;
    options.order = if ordered { ResultOrder::ByName } else { ResultOrder::AsFinished };
    options.one_file_system = one_file_system;
    options.follow_links = follow_links;
    options.excludes = excludes;
    options.limits = limit.map(|bytes| Arc::new(Limits::new(bytes, 0)));
    let roots = roots(paths)?;
    let files = py.detach(|| verisum::hash_files(roots, &options)).map_err(|error| match error {
        StartError::Digest(error) => errors::of_digest(py, &error),
        StartError::Thread(error) => error.into(),
    })?;
    let files = Mutex::new(Some(ManuallyDrop::new(files)));
    Ok(HashFiles(Arc::new(Source { files, process: process::id(), digests })))
}

/// One path or several.
fn roots(paths: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    let is_one = paths.is_instance_of::<PyString>()
        || paths.is_instance_of::<PyBytes>()
        || paths.hasattr("__fspath__")?;
    match is_one {
        true => Ok(vec![fs_path(paths)?]),
        false => paths.try_iter()?.map(|object| fs_path(&object?)).collect(),
    }
}

/// The rows of `hash_files`.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct HashFiles(Arc<Source>);

#[pymethods]
impl HashFiles {
    /// The names of the digests of each row.
    #[getter]
    fn algorithms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.digests.iter().map(Digest::name))
    }

    /// Ends the work. There are no more rows then.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }

    /// What rows are left, as Arrow record batches.
    #[pyo3(signature = (*, batch_rows=16384))]
    fn to_arrow(&self, batch_rows: usize) -> PyResult<ArrowStream> {
        match batch_rows {
            0 => Err(PyValueError::new_err("a batch has at least one row")),
            rows => Ok(ArrowStream::new(self.0.clone(), rows)),
        }
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.to_arrow(16384)?.__arrow_c_stream__(py, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_arrow(1)?.__arrow_c_schema__(py)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<FileRow>> {
        Ok(self.0.next(py)?.map(FileRow))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

/// A file and its digests, or why it has none.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct FileRow(Found);

impl FileRow {
    fn name(&self) -> &Path {
        match &self.0 {
            Ok(file) => &file.path,
            Err(error) => error.path(),
        }
    }

    /// What was found; raises the error that there was instead.
    fn found(&self, py: Python<'_>) -> PyResult<&FileDigests> {
        self.0.as_ref().map_err(|error| errors::of_file(py, error))
    }
}

#[pymethods]
impl FileRow {
    /// Its path, below the root as that was given.
    #[getter]
    fn path(&self) -> &OsStr {
        self.name().as_os_str()
    }

    /// The bytes of its path.
    #[getter]
    fn path_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.name().as_os_str().as_bytes())
    }

    /// Why it has no digests.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let error = self.0.as_ref().err()?;
        Some(errors::of_file(py, error).into_value(py).into_bound(py).into_any())
    }

    /// How many bytes were hashed.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.found(py)?.length)
    }

    /// Its digests, in the order of the algorithms.
    #[getter]
    fn digests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let digests = &self.found(py)?.digests;
        PyTuple::new(py, digests.iter().map(|digest| PyBytes::new(py, digest.as_bytes())))
    }

    /// The digest of the first algorithm.
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.found(py)?.digests[0].as_bytes()))
    }

    /// The digest of the first algorithm in hexadecimal.
    #[getter]
    fn hexdigest(&self, py: Python<'_>) -> PyResult<String> {
        Ok(hex(self.found(py)?.digests[0].as_bytes()))
    }

    /// When its bytes last changed, in nanoseconds since 1970.
    #[getter]
    fn mtime_ns(&self, py: Python<'_>) -> PyResult<i128> {
        Ok(nanoseconds(self.found(py)?.stat.modified))
    }

    /// When its inode last changed, in nanoseconds since 1970.
    #[getter]
    fn ctime_ns(&self, py: Python<'_>) -> PyResult<i128> {
        Ok(nanoseconds(self.found(py)?.stat.changed))
    }

    /// The number of its inode.
    #[getter]
    fn inode(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.found(py)?.stat.inode)
    }

    /// The device that it is on.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.found(py)?.stat.device)
    }

    /// How many names it has.
    #[getter]
    fn links(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.found(py)?.stat.links)
    }

    /// Bytes of storage that it takes.
    #[getter]
    fn stored(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.found(py)?.stat.stored)
    }

    /// Whether it changed while it was read.
    #[getter]
    fn changed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.found(py)?.changed)
    }

    fn __repr__(&self) -> String {
        let name = self.name().to_string_lossy();
        match &self.0 {
            Ok(file) => format!("<verisum.FileRow {name:?}: {} bytes, {}>", file.length, file.digests[0]),
            Err(error) => format!("<verisum.FileRow {name:?}: {error}>"),
        }
    }
}

/// A time as one number. Those of files can lie further away than 64 bits reach.
pub(crate) fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}
