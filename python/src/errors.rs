//! Errors of the library as exceptions of `verisum/_errors.py`: with path, operation and cause.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;
use verisum::blockhash::{self, MapError};
use verisum::catalog::{scrub, store};
use verisum::{digest, files, image, lake};

use crate::background::Broken;

/// The classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A digest is not known, not available, or failed.
    Digest,
    /// A file could not be found, opened, read or hashed.
    File,
    /// An image or a block map could not be opened, read or understood.
    Image,
    /// Another machine cannot be reached, or does not do what it should.
    Host,
    /// A catalogue cannot be used.
    Catalog,
    /// verisum does not do what it should.
    Fault,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Kind::Digest => "DigestError",
            Kind::File => "FileError",
            Kind::Image => "ImageError",
            Kind::Host => "HostError",
            Kind::Catalog => "CatalogError",
            Kind::Fault => "Error",
        }
    }
}

/// An exception that is not raised yet, for threads that are not Python's.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    kind: Kind,
    /// The whole error.
    message: String,
    path: Option<OsString>,
    operation: Option<String>,
    /// The system's number, if it was the system that failed.
    errno: Option<i32>,
}

impl Failure {
    /// An error of this kind, with the whole of it as text.
    pub(crate) fn new(kind: Kind, message: &str) -> Failure {
        // Rust adds the system's number, which is an attribute here.
        let message = message.split(" (os error ").next().unwrap_or_default();
        Failure { kind, message: by_arguments(message), path: None, operation: None, errno: None }
    }

    /// The same error as one of another kind.
    pub(crate) fn of(self, kind: Kind) -> Failure {
        Failure { kind, ..self }
    }

    /// What it is about.
    pub(crate) fn path(self, path: impl AsRef<OsStr>) -> Failure {
        Failure { path: Some(path.as_ref().to_os_string()), ..self }
    }

    /// What was being done.
    pub(crate) fn operation(self, operation: &str) -> Failure {
        Failure { operation: Some(operation.to_string()), ..self }
    }

    /// The system's error, if it was one.
    pub(crate) fn system(self, error: Option<&io::Error>) -> Failure {
        Failure { errno: error.and_then(io::Error::raw_os_error), ..self }
    }

    /// The whole error.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The exception itself. If it cannot be made, why not.
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let made = || {
            let errors = ERRORS.get_or_try_init(py, || py.import("verisum._errors").map(Bound::unbind))?;
            let class = errors.bind(py).getattr(self.kind.class())?;
            class.call1((&self.message, &self.path, &self.operation, self.errno))
        };
        made().map_or_else(|error| error, PyErr::from_value)
    }
}

impl<'py> IntoPyObject<'py> for &Failure {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Infallible> {
        Ok(self.raise(py).into_value(py).into_bound(py).into_any())
    }
}

/// What texts of the library say of options of the command, and how Python says it. They are whole phrases, for names of
/// files stay as they are.
const PHRASES: [(&str, &str); 15] = [
    ("--keep-bad DIR repairs it", "keep_bad=DIR repairs it"),
    ("--keep-bad: ", "keep_bad: "),
    ("(--cross-file-systems enters it)", "(cross_file_systems=True enters it)"),
    ("(--overwrite)", "(overwrite=True)"),
    ("(without --in-place a repair", "(without in_place=True a repair"),
    ("--in-place needs digests", "in_place needs digests"),
    ("--in-place repairs the rest", "in_place=True repairs the rest"),
    ("--replaced-root takes it for", "replaced_root=True takes it for"),
    ("not below --tree", "not below tree"),
    ("(--tree names another DIR)", "(tree names another DIR)"),
    ("by --region or", "by Hosts(region=…) or"),
    ("by --profile, ", "by Hosts(profile=…), "),
    ("use --no-sign-request for", "use Hosts(no_sign_request=True) for"),
    ("-a names a different digest", "algorithm names a different digest"),
    ("(-a ", "(algorithm="),
];

/// The same text with the names of arguments in the place of options.
pub(crate) fn by_arguments(text: &str) -> String {
    PHRASES.iter().fold(text.to_string(), |text, (option, argument)| text.replace(option, argument))
}

impl From<&digest::DigestError> for Failure {
    fn from(error: &digest::DigestError) -> Failure {
        let operation = match error {
            digest::DigestError::Unknown { .. }
            | digest::DigestError::PartLength { .. }
            | digest::DigestError::Unavailable { .. } => "find",
            digest::DigestError::Failed { operation, .. } => operation,
            _ => "hash",
        };
        Failure::new(Kind::Digest, &error.to_string()).operation(operation)
    }
}

impl From<&files::FileError> for Failure {
    fn from(error: &files::FileError) -> Failure {
        let (operation, system) = match error {
            files::FileError::Io { operation, source, .. } => (operation.name(), Some(source)),
            files::FileError::NotAFile { .. }
            | files::FileError::IsLink { .. }
            | files::FileError::Loop { .. } => ("open", None),
            files::FileError::Stopped { .. } | files::FileError::NotRead { .. } => ("read", None),
            files::FileError::Digest { .. } => ("hash", None),
            files::FileError::Record { .. } => ("read attribute", None),
            files::FileError::Conflict { operation, .. } => (operation.name(), None),
            _ => ("read", None),
        };
        let failure = Failure::new(Kind::File, &error.to_string()).path(error.path());
        failure.operation(operation).system(system)
    }
}

impl From<&store::CatalogError> for Failure {
    fn from(error: &store::CatalogError) -> Failure {
        let failure = Failure::new(Kind::Catalog, &error.to_string()).path(error.path());
        Failure { errno: error.errno(), ..failure.operation(error.operation()) }
    }
}

impl From<&scrub::ScrubError> for Failure {
    fn from(error: &scrub::ScrubError) -> Failure {
        let of = |kind, path: &Path| Failure::new(kind, &error.to_string()).path(path);
        match error {
            scrub::ScrubError::Catalog(error) => Failure::from(error),
            scrub::ScrubError::Tree(error) => Failure::from(error),
            scrub::ScrubError::Digest { source, .. } => Failure::from(source),
            scrub::ScrubError::Root { path, .. } => of(Kind::File, path).operation("open"),
            scrub::ScrubError::Remote { path, .. } => of(Kind::Host, path).operation("connect"),
            _ => Failure::new(Kind::Catalog, &error.to_string()),
        }
    }
}

impl From<&lake::LakeError> for Failure {
    fn from(error: &lake::LakeError) -> Failure {
        let of = |path: &Path| Failure::new(Kind::File, &error.to_string()).path(path);
        match error {
            lake::LakeError::Catalog(error) => Failure::from(error),
            lake::LakeError::Io { path, operation, source } => {
                of(path).operation(operation).system(Some(source))
            }
            lake::LakeError::InUse { path } => of(path).operation("lock"),
            lake::LakeError::Part { path, .. } => of(path).operation("read"),
            lake::LakeError::Row { path, .. } => of(path).operation("write"),
            _ => Failure::new(Kind::File, &error.to_string()),
        }
    }
}

impl From<&Broken> for Failure {
    fn from(broken: &Broken) -> Failure {
        Failure::new(Kind::Fault, broken.message())
    }
}

/// The exception for a digest's error.
pub(crate) fn of_digest(py: Python<'_>, error: &digest::DigestError) -> PyErr {
    Failure::from(error).raise(py)
}

/// The exception for an error of an image or a block map. `path` is its name where the error has none.
pub(crate) fn of_image(py: Python<'_>, path: &Path, error: &blockhash::BlockHashError) -> PyErr {
    image_failure(path, error).raise(py)
}

/// The same, for threads that are not Python's.
pub(crate) fn image_failure(path: &Path, error: &blockhash::BlockHashError) -> Failure {
    let (path, operation, system) = match error {
        blockhash::BlockHashError::Digest(error) => return Failure::from(error),
        blockhash::BlockHashError::Image(error) => match &**error {
            image::ImageError::Io { path, operation, source, .. } => {
                (&**path, operation.name(), Some(source))
            }
            image::ImageError::Invalid { path, operation, .. } => (&**path, operation.name(), None),
            image::ImageError::Changed { path, .. } => (&**path, "read", None),
            error => (error.path(), "open", None),
        },
        blockhash::BlockHashError::Map(MapError::Io { path, operation, source }) => {
            (&**path, *operation, Some(&**source))
        }
        blockhash::BlockHashError::Map(MapError::NotAMap { path, .. }) => (&**path, "open", None),
        blockhash::BlockHashError::Map(MapError::Corrupt { path, .. }) => (&**path, "read", None),
        _ => (path, "hash", None),
    };
    let failure = Failure::new(Kind::Image, &error.to_string()).path(path);
    failure.operation(operation).system(system)
}
