//! A file and its digests, or why it has none.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use verisum::FileDigests;
use verisum::digest::Output;
use verisum::files::place::{ContentEvidence, Contradicted, FileAnswer, FileRead, Reason, RecordedDigest};
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
            Ok(FileRead { contradicted: Some(Contradicted { recorded, found }), .. }) => {
                Err(Reason::Failed(contradiction(&recorded, &found)))
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

getters! { |row: FileRow|
    host: Option<&str> = row.0.host.as_deref();
    path: &OsStr = row.0.path.as_os_str();
    path_bytes: &[u8] = row.0.path.as_os_str().as_bytes();
    error: Option<&Failure> = row.0.result.as_ref().err();
    size(py): PyResult<Option<u64>> = Ok(row.found(py)?.size);
    digest(py): PyResult<&[u8]> = Ok(row.found(py)?.digests[0].as_bytes());
    hexdigest(py): PyResult<String> = Ok(hex(row.found(py)?.digests[0].as_bytes()));
    mtime_ns(py): PyResult<Option<i128>> = Ok(row.found(py)?.modified.map(nanoseconds));
    ctime_ns(py): PyResult<Option<i128>> = row.stat(py, |stat| nanoseconds(stat.changed));
    inode(py): PyResult<Option<u64>> = row.stat(py, |stat| stat.inode);
    device(py): PyResult<Option<u64>> = row.stat(py, |stat| stat.device);
    links(py): PyResult<Option<u64>> = row.stat(py, |stat| stat.links);
    stored(py): PyResult<Option<u64>> = row.stat(py, |stat| stat.stored);
    changed(py): PyResult<bool> = Ok(row.found(py)?.changed);
    evidence(py): PyResult<&'static str> = Ok(row.found(py)?.evidence.name());
    recorded_ns(py): PyResult<Option<i128>> = Ok(recorded_at(row.found(py)?.evidence));
}

#[pymethods]
impl FileRow {
    #[doc = stub!("FileRow.digests")]
    #[getter]
    fn digests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let digests = &self.found(py)?.digests;
        PyTuple::new(py, digests.iter().map(|digest| PyBytes::new(py, digest.as_bytes())))
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
