//! Bytes that Python objects lend, and bytes that are lent to Python.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// The bytes of a Python object. While it lives they stay where they are: the object can neither be resized nor
/// released.
pub(crate) enum Bytes<'py> {
    /// Those of `bytes`, which never change.
    Fixed(Bound<'py, PyBytes>),
    /// Those of anything else with the buffer protocol.
    Lent(Buffer<'py>),
}

impl<'py> Bytes<'py> {
    /// Borrows the bytes of an object, whatever it holds: `bytes`, `memoryview`, `array`, NumPy's arrays.
    ///
    /// # Errors
    /// `TypeError` for what has no bytes, `BufferError` (NumPy: `ValueError`) for what is not contiguous.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Bytes<'py>> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Bytes::Fixed(bytes.clone()));
        }
        if object.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("Strings must be encoded before hashing"));
        }
        Buffer::of(object).map(Bytes::Lent)
    }

    /// The bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Fixed(bytes) => bytes.as_bytes(),
            Bytes::Lent(buffer) => buffer.as_slice(),
        }
    }
}

/// A contiguous view that an object gave.
pub(crate) struct Buffer<'py> {
    // Some exporters expect to get it back at the address where they filled it in.
    view: Box<ffi::Py_buffer>,
    _py: Python<'py>,
}

impl<'py> Buffer<'py> {
    fn of(object: &Bound<'py, PyAny>) -> PyResult<Buffer<'py>> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object is alive, the GIL is held, and `view` is a place for a view.
        let failed =
            unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, ffi::PyBUF_SIMPLE) } != 0;
        match failed {
            true => Err(PyErr::fetch(object.py())),
            false => Ok(Buffer { view, _py: object.py() }),
        }
    }

    fn as_slice(&self) -> &[u8] {
        if self.view.len == 0 {
            return &[];
        }
        // SAFETY: a simple view is `len` contiguous bytes at `buf`, which stay there until it is released. Another
        // thread may write to them meanwhile, as it may under hashlib: kernels and OpenSSL only read them, never
        // index by them, and the digest is then one of no particular state.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast(), self.view.len as usize) }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: it was filled in by PyObject_GetBuffer, is released once, and `_py` says that the GIL is held.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.view) }
    }
}

/// What a view says of a table of bytes: how many rows, and how long each is.
#[derive(Debug)]
pub(crate) struct Shape {
    shape: [isize; 2],
    strides: [isize; 2],
}

impl Shape {
    /// The shape of `rows` rows of `width` bytes.
    pub(crate) fn new(rows: usize, width: usize) -> Shape {
        Shape { shape: [rows as isize, width as isize], strides: [width as isize, 1] }
    }

    /// How many rows.
    pub(crate) fn rows(&self) -> usize {
        self.shape[0] as usize
    }

    /// Bytes of a row.
    pub(crate) fn width(&self) -> usize {
        self.shape[1] as usize
    }
}

const UNSIGNED_BYTES: &CStr = c"B";

/// Lends `bytes`, which `owner` holds and never changes or moves, as a read-only table of this shape, which it holds
/// too.
///
/// # Safety
/// `view` is what Python gave to `__getbuffer__`.
pub(crate) unsafe fn lend(
    owner: Bound<'_, PyAny>,
    bytes: &[u8],
    shape: &Shape,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no view to fill in"));
    }
    if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
        return Err(PyBufferError::new_err("digests are read-only"));
    }
    let wants = |flag: c_int| flags & flag == flag;
    // SAFETY: `view` is a place for a view. Whatever it points to belongs to `owner`, which the view keeps alive;
    // nobody writes to it, though the C type has no `const`.
    unsafe {
        (*view).buf = bytes.as_ptr().cast_mut().cast::<c_void>();
        (*view).len = bytes.len() as isize;
        (*view).readonly = 1;
        (*view).itemsize = 1;
        (*view).format =
            if wants(ffi::PyBUF_FORMAT) { UNSIGNED_BYTES.as_ptr().cast_mut() } else { ptr::null_mut() };
        (*view).ndim = if wants(ffi::PyBUF_ND) { 2 } else { 1 };
        (*view).shape = if wants(ffi::PyBUF_ND) { shape.shape.as_ptr().cast_mut() } else { ptr::null_mut() };
        (*view).strides =
            if wants(ffi::PyBUF_STRIDES) { shape.strides.as_ptr().cast_mut() } else { ptr::null_mut() };
        (*view).suboffsets = ptr::null_mut();
        (*view).internal = ptr::null_mut();
        (*view).obj = owner.into_ptr();
    }
    Ok(())
}

/// Raises `KeyboardInterrupt` in the main thread as soon as that runs Python code again.
pub(crate) fn interrupt_again() {
    extern "C" fn raise(_: *mut c_void) -> c_int {
        // SAFETY: Python calls it with the GIL held, and takes -1 to say that an exception is set.
        unsafe { ffi::PyErr_SetNone(ffi::PyExc_KeyboardInterrupt) };
        -1
    }
    // SAFETY: it may be called by any thread, without the GIL. Where too much is pending already, nothing is lost: the
    // reader of the rows raises an exception of its own.
    unsafe { ffi::Py_AddPendingCall(Some(raise), ptr::null_mut()) };
}
