//! Converts arguments of Python's calls: paths, one or several, rates, threads, callbacks. PyO3 adds the name of a wrong
//! argument to its exception.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};
use verisum::blockhash::MAX_THREADS;

/// A path: text, bytes, or an object of `pathlib`.
pub(crate) struct FsPath {
    pub(crate) path: PathBuf,
    /// Only text may be an address.
    pub(crate) is_text: bool,
}

impl<'py> FromPyObject<'_, 'py> for FsPath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<FsPath> {
        let encoded = object.py().import("os")?.call_method1("fsencode", (object,))?;
        let name = encoded.extract::<Vec<u8>>()?;
        // The empty one would otherwise be the working directory.
        if name.is_empty() {
            return Err(PyValueError::new_err("empty path"));
        }
        if name.contains(&0) {
            return Err(PyValueError::new_err("embedded null byte"));
        }
        let path = PathBuf::from(OsString::from_vec(name));
        Ok(FsPath { path, is_text: object.is_instance_of::<PyString>() })
    }
}

impl From<FsPath> for PathBuf {
    fn from(path: FsPath) -> PathBuf {
        path.path
    }
}

/// Whether an object is one name or path. Text and bytes are no sequences of names.
pub(crate) fn is_one(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
        || object.hasattr("__fspath__")?)
}

/// One or several.
pub(crate) struct Several<T>(pub(crate) Vec<T>);

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for Several<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Several<T>> {
        let one = |object: &Bound<'py, PyAny>| object.extract::<T>().map_err(Into::into);
        Ok(Several(match is_one(&object)? {
            true => vec![one(&object)?],
            false => object.try_iter()?.map(|object| one(&object?)).collect::<PyResult<_>>()?,
        }))
    }
}

impl Several<FsPath> {
    pub(crate) fn paths(self) -> Vec<PathBuf> {
        self.0.into_iter().map(PathBuf::from).collect()
    }
}

/// A whole number, or several. One that does not fit, such as a negative one, is a wrong value like any other.
pub(crate) fn whole<'py, T: FromPyObjectOwned<'py>>(object: &Bound<'py, PyAny>) -> PyResult<T> {
    object.extract::<T>().map_err(Into::into).map_err(|error: PyErr| {
        match error.is_instance_of::<PyOverflowError>(object.py()) {
            true => PyValueError::new_err(error.value(object.py()).to_string()),
            false => error,
        }
    })
}

/// How much in a second. True is no number here, though Python counts with it.
pub(crate) struct Rate(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Rate {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Rate> {
        if object.is_instance_of::<PyBool>() {
            return Err(PyTypeError::new_err("a number is needed, not a bool"));
        }
        match whole(&object)? {
            0 => Err(PyValueError::new_err("must be 1 or more; None is no limit")),
            rate => Ok(Rate(rate)),
        }
    }
}

/// A number of threads, or 0 for one a core. The most is that of the command's `--threads`.
pub(crate) fn threads(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    match whole(object)? {
        threads @ 0..=MAX_THREADS => Ok(threads),
        _ => Err(PyValueError::new_err(format!("must be 0 to {MAX_THREADS}"))),
    }
}

/// What is called to tell how far work is.
pub(crate) struct Callback(pub(crate) Py<PyAny>);

impl<'py> FromPyObject<'_, 'py> for Callback {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Callback> {
        match object.is_callable() {
            true => Ok(Callback(object.to_owned().unbind())),
            false => Err(PyTypeError::new_err(format!("{} cannot be called", object.get_type().name()?))),
        }
    }
}

impl Callback {
    /// Calls it, if there is one.
    pub(crate) fn tell<'py>(
        callback: Option<&Callback>,
        py: Python<'py>,
        so_far: impl PyCallArgs<'py>,
    ) -> PyResult<()> {
        callback.map_or(Ok(()), |Callback(callback)| callback.bind(py).call1(so_far).map(drop))
    }
}
