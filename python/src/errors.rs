//! Errors of the library as exceptions of `verisum/_errors.py`: with path, operation and cause.

use std::ffi::OsStr;
use std::path::Path;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;
use verisum::blockhash::{self, MapError};
use verisum::{digest, files, image};

/// The classes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A digest is not known, not available, or failed.
    Digest,
    /// A file could not be found, opened, read or hashed.
    File,
    /// An image or a block map could not be opened, read or understood.
    Image,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Kind::Digest => "DigestError",
            Kind::File => "FileError",
            Kind::Image => "ImageError",
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

/// The exception for an error of an image or a block map. `path` is its name where the error has none.
pub(crate) fn of_image(py: Python<'_>, path: &Path, error: &blockhash::Error) -> PyErr {
    let (path, operation, system) = match error {
        blockhash::Error::Digest(error) => return of_digest(py, error),
        blockhash::Error::Image(error) => match &**error {
            image::Error::Io { path, operation, source, .. } => (&**path, operation.name(), Some(source)),
            image::Error::Invalid { path, operation, .. } => (&**path, operation.name(), None),
            image::Error::Changed { path, .. } => (&**path, "read", None),
            error => (error.path(), "open", None),
        },
        blockhash::Error::Map(MapError::Io { path, operation, source }) => {
            (&**path, *operation, Some(&**source))
        }
        blockhash::Error::Map(MapError::NotAMap { path, .. }) => (&**path, "open", None),
        blockhash::Error::Map(MapError::Corrupt { path, .. }) => (&**path, "read", None),
        _ => (path, "hash", None),
    };
    Failure {
        kind: Kind::Image,
        message: error.to_string(),
        path: Some(path.as_os_str()),
        operation: Some(operation),
        system,
    }
    .raise(py)
}
