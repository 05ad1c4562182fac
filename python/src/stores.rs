//! Files of stores that fsspec opens: read through Python on a thread of their own, and hashed without the GIL.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyCFunction, PyList, PyString};
use verisum::Outlet;
use verisum::digest::{Digest, DigestError, Output};
use verisum::files::Timestamp;
use verisum::files::place::ContentEvidence;

use crate::at_exit;
use crate::errors::{Failure, Kind};
use crate::file_row::{Hashed, Row};
use crate::log::Event;
use crate::many::hash_on;
use crate::scrub::cores;

/// Whether an object is a store, a file of one, or a file object.
pub(crate) fn is_store(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.py().import("verisum._stores")?.call_method1("is_store", (object,))?.extract()
}

/// Files of stores, batch by batch, as Python reads them.
pub(crate) struct Batches {
    python: Py<PyAny>,
    /// The short contents of the last batch.
    contents: Vec<PyBackedBytes>,
}

/// A batch, if there is one more.
type Batch = Result<Option<Vec<Read>>, Failure>;

/// A file as Python gives it.
struct Read {
    /// The protocol of its store.
    host: Arc<str>,
    name: OsString,
    size: Option<u64>,
    modified: Option<i64>,
    content: Content,
}

enum Content {
    /// The next one of the batch.
    Bytes,
    Digests(Vec<Vec<u8>>),
    Failed(Failure),
}

impl Batches {
    /// Nothing is read before the outlet is there.
    pub(crate) fn of(py: Python<'_>, stores: &[Bound<'_, PyAny>], digests: &[Digest]) -> PyResult<Batches> {
        at_exit::register(py)?;
        let names: Vec<&str> = digests.iter().map(Digest::name).collect();
        let batches = py.import("verisum._stores")?.getattr("Batches")?.call1((stores, names))?;
        Ok(Batches { python: batches.unbind(), contents: Vec::new() })
    }

    /// Reads and hashes all files.
    pub(crate) fn run(mut self, digests: &[Digest], outlet: &Outlet<Event<Row>>) {
        self.read(digests, outlet);
        // As all that is Python's, it ends with the GIL: without it, PyO3 locks a list for what is to end, and a process
        // that is forked just then would wait for that lock for ever.
        at_exit::attach(|_| drop(self));
    }

    fn read(&mut self, digests: &[Digest], outlet: &Outlet<Event<Row>>) {
        let fault = |failure: Failure| {
            let row = Row { host: Some("fsspec".into()), path: PathBuf::new(), result: Err(failure) };
            outlet.give(Event::Result(row));
        };
        if let Some(Err(failure)) = at_exit::attach(|py| self.stop_with(py, outlet)) {
            return fault(failure);
        }
        while !outlet.stop().is_due() {
            let read = match at_exit::attach(|py| self.next(py)) {
                Some(Ok(Some(read))) => read,
                Some(Ok(None)) => return,
                Some(Err(failure)) => return fault(failure),
                None => {
                    return fault(Failure::new(Kind::Fault, "the interpreter ends: not all files were read"));
                }
            };
            match hashed(digests, read, &self.contents, outlet) {
                Ok(rows) => {
                    for row in rows {
                        if !outlet.give(Event::Result(row)) {
                            return;
                        }
                    }
                }
                Err(error) => return fault(Failure::from(&error)),
            }
        }
    }

    /// Lets Python end in the middle of a batch once nobody wants it.
    fn stop_with(&self, py: Python<'_>, outlet: &Outlet<Event<Row>>) -> Result<(), Failure> {
        let stop = outlet.stop().clone();
        let set = PyCFunction::new_closure(py, None, None, move |_, _| stop.is_due() || at_exit::is_over())
            .and_then(|is_over| self.python.bind(py).setattr("is_over", is_over));
        set.map_err(|raised| failure("", "read", py, &raised))
    }

    fn next(&mut self, py: Python<'_>) -> Batch {
        let Batches { python, contents } = self;
        contents.clear();
        let batch = python.bind(py).try_iter().and_then(|mut batches| batches.next().transpose());
        let batch = batch.map_err(|raised| failure("", "read", py, &raised))?;
        let read = batch.map(|batch| batch.try_iter()?.map(|file| Read::of(&file?, contents)).collect());
        read.transpose().map_err(|raised: PyErr| failure("", "read", py, &raised))
    }
}

impl Read {
    /// A short content is added to those of the batch.
    fn of(file: &Bound<'_, PyAny>, contents: &mut Vec<PyBackedBytes>) -> PyResult<Read> {
        let py = file.py();
        let (host, name, size, modified, content) =
            file.extract::<(String, Bound<'_, PyString>, Option<u64>, Option<i64>, Bound<'_, PyAny>)>()?;
        let (name, unfit) = match name.extract::<OsString>() {
            Ok(name) => (name, None),
            // No path of this machine can be so, but the row says which file it is.
            Err(raised) => {
                let bytes = name.call_method1("encode", ("utf-8", "backslashreplace"))?;
                (OsString::from_vec(bytes.extract()?), Some(raised))
            }
        };
        let content = if let Some(raised) = unfit {
            Content::Failed(failure(&name, "encode the name", py, &raised))
        } else if let Ok(bytes) = content.cast::<PyBytes>() {
            contents.push(bytes.clone().into());
            Content::Bytes
        } else if let Ok(digests) = content.cast::<PyList>() {
            Content::Digests(digests.extract()?)
        } else {
            Content::Failed(failure(&name, "read", py, &PyErr::from_value(content)))
        };
        Ok(Read { host: host.into(), name, size, modified, content })
    }
}

/// What a store raised.
fn failure(name: impl AsRef<OsStr>, operation: &'static str, py: Python<'_>, raised: &PyErr) -> Failure {
    let value = raised.value(py);
    let kind = value.get_type().name().map_or_else(|_| "error".to_string(), |name| name.to_string());
    let text = value.str().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
    // It may be of several lines.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let failure =
        Failure::new(Kind::File, &format!("{}: {operation}: {kind}: {text}", name.as_ref().display()));
    let failure = failure.path(name).operation(operation);
    let number = raised.is_instance_of::<PyOSError>(py).then(|| value.getattr("errno").ok()?.extract().ok());
    let system = number.flatten().map(std::io::Error::from_raw_os_error);
    failure.system(system.as_ref())
}

/// Hashes what was read, side by side.
fn hashed(
    digests: &[Digest],
    read: Vec<Read>,
    contents: &[PyBackedBytes],
    outlet: &Outlet<Event<Row>>,
) -> Result<Vec<Row>, DigestError> {
    let messages: Vec<&[u8]> = contents.iter().map(|content| &**content).collect();
    let mut found: Vec<Vec<u8>> = Vec::new();
    for digest in digests {
        let mut of_all = vec![0; messages.len() * digest.len()];
        hash_on(cores(), digest, &messages, &mut of_all, outlet.stop())?;
        found.push(of_all);
    }
    let mut at = 0;
    let mut rows = Vec::new();
    for Read { host, name, size, modified, content } in read {
        let outputs = match content {
            Content::Failed(failure) => Err(failure),
            Content::Digests(list) => Ok(list.iter().filter_map(|bytes| Output::from_bytes(bytes)).collect()),
            Content::Bytes => {
                let of = |(digest, of_all): (&Digest, &Vec<u8>)| {
                    Output::from_bytes(&of_all[at * digest.len()..(at + 1) * digest.len()])
                };
                let outputs = Ok(digests.iter().zip(&found).filter_map(of).collect());
                at += 1;
                outputs
            }
        };
        let result = outputs.map(|digests| Hashed {
            digests,
            size,
            modified: modified.map(timestamp),
            stat: None,
            changed: false,
            evidence: ContentEvidence::Read,
        });
        rows.push(Row { host: Some(host), path: PathBuf::from(name), result });
    }
    Ok(rows)
}

fn timestamp(nanoseconds: i64) -> Timestamp {
    const SECOND: i64 = 1_000_000_000;
    let below = nanoseconds.rem_euclid(SECOND);
    Timestamp { seconds: nanoseconds.div_euclid(SECOND), nanoseconds: u32::try_from(below).unwrap_or(0) }
}
