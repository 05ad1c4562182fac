//! A table of digests of one length, one after the other in memory.

use std::ffi::c_int;

use pyo3::exceptions::PyIndexError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::{Shape, lend};

#[doc = stub!("Digests")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Digests {
    bytes: Vec<u8>,
    shape: Shape,
}

impl Digests {
    /// The digests of `len` bytes each that are in `bytes`, `rows` of them.
    pub(crate) fn new(bytes: Vec<u8>, rows: usize, len: usize) -> Digests {
        assert_eq!(bytes.len(), rows * len, "one digest a row");
        Digests { bytes, shape: Shape::new(rows, len) }
    }
}

#[pymethods]
impl Digests {
    #[doc = stub!("Digests.digest_size")]
    #[getter]
    fn digest_size(&self) -> usize {
        self.shape.width()
    }

    fn __len__(&self) -> usize {
        self.shape.rows()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyBytes>> {
        let (rows, width) = (self.shape.rows(), self.shape.width());
        let row = if index < 0 { index.checked_add_unsigned(rows) } else { Some(index) };
        let row = row.and_then(|row| usize::try_from(row).ok()).filter(|row| *row < rows);
        let row = row.ok_or_else(|| PyIndexError::new_err(format!("there are {rows} digests")))?;
        Ok(PyBytes::new(py, &self.bytes[row * width..(row + 1) * width]))
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the GIL is held; the call gives a new reference, or null with an exception.
        unsafe { Bound::from_owned_ptr_or_err(slf.py(), ffi::PySeqIter_New(slf.as_ptr())) }
    }

    #[doc = stub!("Digests.hex")]
    fn hex(&self) -> Vec<String> {
        match self.shape.width() {
            0 => vec![String::new(); self.shape.rows()],
            width => self.bytes.chunks_exact(width).map(hex).collect(),
        }
    }

    fn __repr__(&self) -> String {
        format!("<verisum.Digests: {} of {} bytes>", self.shape.rows(), self.shape.width())
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let digests = slf.get();
        // SAFETY: Python gave the view. The object is frozen, so its bytes and its shape stay as they are.
        unsafe { lend(slf.as_any().clone(), &digests.bytes, &digests.shape, view, flags) }
    }
}

/// Lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}
