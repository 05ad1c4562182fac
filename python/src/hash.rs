//! `new` and the hash object, as in hashlib.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use verisum::digest::{ALGORITHMS, Class, Digest, Error, MAX_DIGEST_LEN, Stream};

use crate::buffer::Bytes;
use crate::digests::hex;
use crate::errors;

/// Messages up to this long are hashed with the GIL held: giving it away and taking it back takes longer.
const HELD_BYTES: usize = 2047;

/// Between pieces of this length Python is asked whether a signal came: some milliseconds.
const PIECE_BYTES: usize = 8 << 20;

thread_local! {
    /// The object that this thread hashes into while signal handlers run.
    static BUSY: Cell<usize> = const { Cell::new(0) };
}

/// The digest of a name, found once.
pub(crate) fn find(py: Python<'_>, name: &str) -> PyResult<Digest> {
    static FOUND: LazyLock<Mutex<HashMap<String, Digest>>> = LazyLock::new(Mutex::default);
    let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(digest) = found().get(name) {
        return Ok(digest.clone());
    }
    // It may have to load a library, which takes milliseconds.
    let digest = py.detach(|| Digest::find(name)).map_err(|error| errors::of_digest(py, &error))?;
    found().insert(name.to_string(), digest.clone());
    Ok(digest)
}

/// A message that is being hashed.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Hash {
    digest: Digest,
    stream: Mutex<Box<dyn Stream>>,
}

/// Starts a message of the digest of this name.
#[pyfunction]
#[pyo3(signature = (name, data=None, *, usedforsecurity=true))]
pub(crate) fn new(
    py: Python<'_>,
    name: &str,
    data: Option<&Bound<'_, PyAny>>,
    usedforsecurity: bool,
) -> PyResult<Hash> {
    // hashlib has it for systems that forbid some digests; nothing is forbidden here.
    let _ = usedforsecurity;
    let digest = find(py, name)?;
    let stream = digest.stream().map_err(|error| errors::of_digest(py, &error))?;
    let hash = Hash { digest, stream: Mutex::new(stream) };
    if let Some(data) = data {
        hash.update(py, data)?;
    }
    Ok(hash)
}

/// Every digest of the table that can be had here: name, length, block length, and what it is good for.
#[pyfunction]
pub(crate) fn algorithms(py: Python<'_>) -> Vec<(&'static str, usize, usize, &'static str)> {
    // The first that needs OpenSSL loads it.
    let available =
        || ALGORITHMS.iter().filter(|row| row.class != Class::Null && Digest::find(row.id).is_ok());
    let row = |row: &verisum::digest::Algorithm| (row.id, row.digest_len(), row.block_len, row.class.name());
    py.detach(|| available().map(row).collect())
}

#[pymethods]
impl Hash {
    /// The name of the digest, as verisum writes it.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::new(py, self.digest.name())
    }

    /// Length of the digest in bytes.
    #[getter]
    fn digest_size(&self) -> usize {
        self.digest.len()
    }

    /// Length in bytes of the blocks that the message is taken in; 0 where it is not known.
    #[getter]
    fn block_size(&self) -> usize {
        match self.digest.algorithm() {
            Some(algorithm) => algorithm.block_len,
            None if self.digest.name().starts_with("blake2b-") => 128,
            None => 0,
        }
    }

    /// Adds bytes to the message.
    #[pyo3(signature = (data, /))]
    fn update(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = Bytes::of(data)?;
        let bytes = bytes.as_slice();
        if bytes.len() <= HELD_BYTES
            && let Ok(mut stream) = self.stream.try_lock()
        {
            return stream.update(bytes).map_err(|error| errors::of_digest(py, &error));
        }
        self.require_idle()?;
        py.detach(|| match bytes.len() <= PIECE_BYTES {
            true => self.lock().update(bytes).map_err(Interrupted::Failed),
            false => self.update_long(bytes),
        })
        .map_err(|error| error.raise(py))
    }

    /// The digest of the bytes so far.
    fn digest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.finished(py, |digest| PyBytes::new(py, digest))
    }

    /// The digest of the bytes so far, in hexadecimal.
    fn hexdigest(&self, py: Python<'_>) -> PyResult<String> {
        self.finished(py, hex)
    }

    /// Another message that begins with the same bytes.
    fn copy(&self, py: Python<'_>) -> PyResult<Hash> {
        let stream = self.copied(py)?;
        Ok(Hash { digest: self.digest.clone(), stream: Mutex::new(stream) })
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Hash> {
        self.copy(py)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        format!("<{} verisum.Hash object @ {:p}>", slf.get().digest.name(), slf.as_ptr())
    }
}

impl Hash {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Stream>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// A signal handler that runs in the middle of an update must not wait for the end of that very update.
    fn require_idle(&self) -> PyResult<()> {
        match BUSY.get() == self.address() {
            true => Err(PyRuntimeError::new_err("a signal handler uses the hash that it interrupted")),
            false => Ok(()),
        }
    }

    /// Adds a message that takes so long that Ctrl-C should end it. Then nothing of it is added.
    fn update_long(&self, bytes: &[u8]) -> Result<(), Interrupted> {
        let mut stream = self.lock();
        let mut longer = stream.copy().map_err(Interrupted::Failed)?;
        for piece in bytes.chunks(PIECE_BYTES) {
            longer.update(piece).map_err(Interrupted::Failed)?;
            let outer = BUSY.replace(self.address());
            let raised = Python::try_attach(|py| py.check_signals());
            BUSY.set(outer);
            raised.unwrap_or(Ok(())).map_err(Interrupted::Raised)?;
        }
        *stream = longer;
        Ok(())
    }

    /// A copy of the message, to be ended.
    fn copied(&self, py: Python<'_>) -> PyResult<Box<dyn Stream>> {
        let copy = match self.stream.try_lock() {
            Ok(stream) => stream.copy(),
            Err(_) => {
                self.require_idle()?;
                py.detach(|| self.lock().copy())
            }
        };
        copy.map_err(|error| errors::of_digest(py, &error))
    }

    fn finished<T>(&self, py: Python<'_>, give: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
        let mut digest = [0; MAX_DIGEST_LEN];
        let digest = &mut digest[..self.digest.len()];
        self.copied(py)?.finish(digest).map_err(|error| errors::of_digest(py, &error))?;
        Ok(give(digest))
    }
}

/// Why a long message was not added.
enum Interrupted {
    Failed(Error),
    Raised(PyErr),
}

impl Interrupted {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Interrupted::Failed(error) => errors::of_digest(py, &error),
            Interrupted::Raised(error) => error,
        }
    }
}
