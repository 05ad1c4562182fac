//! Errors of the library as exceptions of `verisum/_errors.py`: with path, operation and cause.

use std::ffi::OsStr;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;
use verisum::{digest, files};

/// The classes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A digest is not known, not available, or failed.
    Digest,
    /// A file could not be found, opened, read or hashed.
    File,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Kind::Digest => "DigestError",
            Kind::File => "FileError",
        }
    }
}

/// An exception, with the text of the whole error.
pub(crate) struct Failure<'a> {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) path: Option<&'a OsStr>,
    pub(crate) operation: Option<&'a str>,
    /// The system's number and text, if it was the system that failed.
    pub(crate) system: Option<&'a std::io::Error>,
}

impl Failure<'_> {
    /// The exception itself. If it cannot be made, why not.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let made = || {
            let errors = ERRORS.get_or_try_init(py, || py.import("verisum._errors").map(Bound::unbind))?;
            let errno = self.system.and_then(std::io::Error::raw_os_error);
            let class = errors.bind(py).getattr(self.kind.class())?;
            // Rust adds the system's number, which is an attribute here.
            let message = self.message.split(" (os error ").next();
            class.call1((message, self.path, self.operation, errno))
        };
        made().map_or_else(|error| error, PyErr::from_value)
    }
}

/// The exception for a digest's error.
pub(crate) fn of_digest(py: Python<'_>, error: &digest::Error) -> PyErr {
    let operation = match error {
        digest::Error::Unknown { .. } | digest::Error::Unavailable { .. } => "find",
        digest::Error::Failed { operation, .. } => operation,
    };
    Failure {
        kind: Kind::Digest,
        message: error.to_string(),
        path: None,
        operation: Some(operation),
        system: None,
    }
    .raise(py)
}

/// The exception for a file's error.
pub(crate) fn of_file(py: Python<'_>, error: &files::Error) -> PyErr {
    let (operation, system) = match error {
        files::Error::Io { operation, source, .. } => (operation.name(), Some(source)),
        files::Error::NotAFile { .. } | files::Error::IsLink { .. } | files::Error::Loop { .. } => {
            ("open", None)
        }
        files::Error::Stopped { .. } | files::Error::NotRead { .. } => ("read", None),
        files::Error::Digest { .. } => ("hash", None),
        files::Error::Record { .. } => ("read attribute", None),
        files::Error::Conflict { operation, .. } => (operation.name(), None),
    };
    Failure {
        kind: Kind::File,
        message: error.to_string(),
        path: Some(error.path().as_os_str()),
        operation: Some(operation),
        system,
    }
    .raise(py)
}
