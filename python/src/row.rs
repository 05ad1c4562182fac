//! A file and its digests, or why it has none.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use verisum::FileDigests;
use verisum::digest::Output;
use verisum::files::place::{ContentEvidence, FileAnswer, FileRead, Reason, RecordedDigest};
use verisum::files::{Stat, Timestamp};
use verisum::remote::Address;

use crate::digests::hex;
use crate::errors::{Failure, Kind};

/// What came of one file.
pub(crate) struct Row {
    /// The host that it is on; none for this machine.
    pub(crate) host: Option<Arc<str>>,
    pub(crate) path: PathBuf,
    pub(crate) result: Result<Hashed, Failure>,
}

/// What is known of a file that was hashed. A host tells no more than the time of modification.
pub(crate) struct Hashed {
    pub(crate) digests: Vec<Output>,
    pub(crate) size: Option<u64>,
    pub(crate) modified: Option<Timestamp>,
    pub(crate) stat: Option<Stat>,
    pub(crate) changed: bool,
    pub(crate) evidence: ContentEvidence,
}

impl From<Result<FileDigests, verisum::files::FileError>> for Row {
    fn from(found: Result<FileDigests, verisum::files::FileError>) -> Row {
        match found {
            Ok(FileDigests { path, digests, length, stat, changed, .. }) => {
                let (size, modified, stat) = (Some(length), Some(stat.modified), Some(stat));
                Row {
                    host: None,
                    path,
                    result: Ok(Hashed {
                        digests,
                        size,
                        modified,
                        stat,
                        changed,
                        evidence: ContentEvidence::Read,
                    }),
                }
            }
            Err(error) => {
                let failure = Failure::from(&error);
                Row { host: None, path: error.path().to_path_buf(), result: Err(failure) }
            }
        }
    }
}

/// Why what a store gave is no file of it.
pub(crate) fn contradiction(told: &RecordedDigest, found: &Output) -> String {
    format!("{} is {found}, recorded by the store {}", told.algorithm, told.digest)
}

impl Row {
    /// What a host answered.
    pub(crate) fn of_host(host: &Arc<str>, address: &Address, answer: FileAnswer) -> Row {
        let FileAnswer { request, result } = answer;
        let path = PathBuf::from(OsStr::from_bytes(address.shown(&request.path)));
        let result = match result.map_err(|error| error.reason()) {
            Ok(read) if read.digests.is_empty() => Err(Reason::Failed(String::new())),
            result => result,
        };
        let result = match result {
            Ok(FileRead { contradicted: Some((told, found)), .. }) => {
                Err(Reason::Failed(contradiction(&told, &found)))
            }
            result => result,
        };
        let result = match result {
            Ok(read) => Ok(Hashed {
                digests: read.digests,
                size: request.seen.size,
                modified: request.seen.modified.map(|modified| modified.time),
                stat: None,
                changed: read.changed,
                evidence: read.evidence,
            }),
            Err(reason) => {
                let message = format!("{host}: {}: read: {}", path.display(), reason.message());
                Err(Failure::new(Kind::File, &message).path(&path).operation("read"))
            }
        };
        Row { host: Some(host.clone()), path, result }
    }

    /// A tree of a host, or a part of it, of which nothing could be read.
    pub(crate) fn of_tree(host: &Arc<str>, address: &Address, failure: Failure) -> Row {
        let path = PathBuf::from(OsStr::from_bytes(address.shown(&address.path)));
        Row { host: Some(host.clone()), path, result: Err(failure) }
    }
}

#[doc = stub!("FileRow")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct FileRow(Row);

impl From<Row> for FileRow {
    fn from(row: Row) -> FileRow {
        FileRow(row)
    }
}

impl FileRow {
    /// What was found; raises the error that there was instead.
    fn found(&self, py: Python<'_>) -> PyResult<&Hashed> {
        self.0.result.as_ref().map_err(|failure| failure.raise(py))
    }

    fn stat<T>(&self, py: Python<'_>, part: impl FnOnce(&Stat) -> T) -> PyResult<Option<T>> {
        Ok(self.found(py)?.stat.as_ref().map(part))
    }
}

#[pymethods]
impl FileRow {
    #[doc = stub!("FileRow.host")]
    #[getter]
    fn host(&self) -> Option<&str> {
        self.0.host.as_deref()
    }

    #[doc = stub!("FileRow.path")]
    #[getter]
    fn path(&self) -> &OsStr {
        self.0.path.as_os_str()
    }

    #[doc = stub!("FileRow.path_bytes")]
    #[getter]
    fn path_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.path.as_os_str().as_bytes())
    }

    #[doc = stub!("FileRow.error")]
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.0.result.as_ref().err().map(|failure| failure.object(py))
    }

    #[doc = stub!("FileRow.size")]
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.found(py)?.size)
    }

    #[doc = stub!("FileRow.digests")]
    #[getter]
    fn digests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let digests = &self.found(py)?.digests;
        PyTuple::new(py, digests.iter().map(|digest| PyBytes::new(py, digest.as_bytes())))
    }

    #[doc = stub!("FileRow.digest")]
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.found(py)?.digests[0].as_bytes()))
    }

    #[doc = stub!("FileRow.hexdigest")]
    #[getter]
    fn hexdigest(&self, py: Python<'_>) -> PyResult<String> {
        Ok(hex(self.found(py)?.digests[0].as_bytes()))
    }

    #[doc = stub!("FileRow.mtime_ns")]
    #[getter]
    fn mtime_ns(&self, py: Python<'_>) -> PyResult<Option<i128>> {
        Ok(self.found(py)?.modified.map(nanoseconds))
    }

    #[doc = stub!("FileRow.ctime_ns")]
    #[getter]
    fn ctime_ns(&self, py: Python<'_>) -> PyResult<Option<i128>> {
        self.stat(py, |stat| nanoseconds(stat.changed))
    }

    #[doc = stub!("FileRow.inode")]
    #[getter]
    fn inode(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.stat(py, |stat| stat.inode)
    }

    #[doc = stub!("FileRow.device")]
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.stat(py, |stat| stat.device)
    }

    #[doc = stub!("FileRow.links")]
    #[getter]
    fn links(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.stat(py, |stat| stat.links)
    }

    #[doc = stub!("FileRow.stored")]
    #[getter]
    fn stored(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.stat(py, |stat| stat.stored)
    }

    #[doc = stub!("FileRow.changed")]
    #[getter]
    fn changed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.found(py)?.changed)
    }

    #[doc = stub!("FileRow.evidence")]
    #[getter]
    fn evidence(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.found(py)?.evidence.name())
    }

    #[doc = stub!("FileRow.recorded_ns")]
    #[getter]
    fn recorded_ns(&self, py: Python<'_>) -> PyResult<Option<i128>> {
        Ok(recorded_at(self.found(py)?.evidence))
    }

    fn __repr__(&self) -> String {
        let name = self.0.path.to_string_lossy();
        match &self.0.result {
            Ok(file) => format!("<verisum.FileRow {name:?}: {}>", file.digests[0]),
            Err(failure) => format!("<verisum.FileRow {name:?}: {}>", failure.message()),
        }
    }
}

/// When a store recorded digests, if it did and tells that.
pub(crate) fn recorded_at(evidence: ContentEvidence) -> Option<i128> {
    match evidence {
        ContentEvidence::Recorded(at) => at.map(|at| nanoseconds(at.time)),
        _ => None,
    }
}

/// A time as one number. Those of files can lie further away than 64 bits reach.
pub(crate) fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}
