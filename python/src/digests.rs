//! A table of digests of one length, one after the other in memory.

use std::ffi::c_int;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};

use crate::buffer::{Shape, lend};

#[doc = stub!("Digests")]
#[pyclass(frozen, sequence, module = "verisum")]
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

    fn row(&self, row: usize) -> &[u8] {
        let width = self.shape.width();
        &self.bytes[row * width..(row + 1) * width]
    }

    /// The rows that are this digest.
    fn places<'a>(&'a self, digest: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        (0..self.shape.rows()).filter(move |row| self.row(*row) == digest)
    }
}

getters! { |digests: Digests|
    digest_size: usize = digests.shape.width();
}

#[pymethods]
impl Digests {
    fn __len__(&self) -> usize {
        self.shape.rows()
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, rows) = (index.py(), self.shape.rows());
        if let Ok(slice) = index.cast::<PySlice>() {
            let found = slice.indices(rows as isize)?;
            let row = |number: usize| self.row((found.start + number as isize * found.step) as usize);
            let bytes = (0..found.slicelength).flat_map(|number| row(number).iter().copied()).collect();
            let part = Digests::new(bytes, found.slicelength, self.shape.width());
            return Ok(Bound::new(py, part)?.into_any());
        }
        let index: isize = index.extract()?;
        let row = if index < 0 { index.checked_add_unsigned(rows) } else { Some(index) };
        let row = row.and_then(|row| usize::try_from(row).ok()).filter(|row| *row < rows);
        let row = row.ok_or_else(|| PyIndexError::new_err(format!("there are {rows} digests")))?;
        Ok(PyBytes::new(py, self.row(row)).into_any())
    }

    #[doc = stub!("Digests.count")]
    fn count(&self, value: &Bound<'_, PyAny>) -> usize {
        value.cast::<PyBytes>().map_or(0, |digest| self.places(digest.as_bytes()).count())
    }

    #[doc = stub!("Digests.index")]
    #[pyo3(signature = (value, start=0, stop=isize::MAX))]
    fn index(&self, value: &Bound<'_, PyAny>, start: isize, stop: isize) -> PyResult<usize> {
        let rows = self.shape.rows();
        let from_front =
            |at: isize| if at < 0 { rows.saturating_sub(at.unsigned_abs()) } else { at as usize };
        let within = from_front(start)..from_front(stop);
        let found = value.cast::<PyBytes>().ok();
        let found = found.and_then(|digest| self.places(digest.as_bytes()).find(|row| within.contains(row)));
        found.ok_or_else(|| PyValueError::new_err("no such digest"))
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
