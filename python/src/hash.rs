//! `new` and the hash object, as in hashlib.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use verisum::digest::{ALGORITHMS, Digest, DigestClass, DigestError, DigestStream, MAX_DIGEST_LEN};
use verisum::files::lock;

use crate::buffer::Bytes;
use crate::digests::hex;
use crate::errors;

/// Messages up to this long are hashed with the GIL held: giving it away and taking it back takes longer.
const HELD_BYTES: usize = 2047;

/// Messages up to this long are kept as they are, and hashed when their digest is asked for, by a stream that the
/// last one has left: to set a stream up and to copy it takes longer than to hash so little.
const KEPT_BYTES: usize = 512;

/// Between pieces of this length Python is asked whether a signal came: some milliseconds.
const PIECE_BYTES: usize = 8 << 20;

thread_local! {
    /// The object that this thread hashes into while signal handlers run.
    static BUSY: Cell<usize> = const { Cell::new(0) };

    /// The digest that this thread asked for last: to look into a table takes as long as to hash.
    static LAST: Cell<Option<&'static Found>> = const { Cell::new(None) };
}

/// A digest, and a stream of it that nobody uses.
struct Found {
    /// As it was asked for.
    name: String,
    digest: Digest,
    idle: Mutex<Option<Box<dyn DigestStream>>>,
}

impl Found {
    /// The digest of a name, found once and kept for ever.
    fn find(py: Python<'_>, name: &str) -> PyResult<&'static Found> {
        static FOUND: LazyLock<Mutex<HashMap<String, &'static Found>>> = LazyLock::new(Mutex::default);
        let found = || lock(&FOUND);
        if let Some(last) = LAST.get().filter(|last| last.name == name) {
            return Ok(last);
        }
        let known = found().get(name).copied();
        let known = match known {
            Some(known) => known,
            None => {
                // It may have to load a library, which takes milliseconds.
                let digest =
                    py.detach(|| Digest::find(name)).map_err(|error| errors::of_digest(py, &error))?;
                let made =
                    Box::leak(Box::new(Found { name: name.to_string(), digest, idle: Mutex::default() }));
                *found().entry(name.to_string()).or_insert(made)
            }
        };
        LAST.set(Some(known));
        Ok(known)
    }

    /// Hashes a short message.
    fn hash(&self, message: &[u8], digest: &mut [u8]) -> Result<(), DigestError> {
        // Nobody waits for it, for a child process may find it locked for ever.
        let left = self.idle.try_lock().ok().and_then(|mut idle| idle.take());
        let mut stream = left.map_or_else(|| self.digest.stream(), Ok)?;
        stream.hash(message, digest)?;
        if let Ok(mut idle) = self.idle.try_lock() {
            *idle = Some(stream);
        }
        Ok(())
    }
}

/// The digest of a name, found once.
pub(crate) fn find(py: Python<'_>, name: &str) -> PyResult<Digest> {
    Found::find(py, name).map(|found| found.digest.clone())
}

#[doc = stub!("Hash")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Hash {
    found: &'static Found,
    message: Mutex<Message>,
}

/// The bytes of a message so far.
enum Message {
    Kept(Vec<u8>),
    Begun(Box<dyn DigestStream>),
}

impl Message {
    fn update(&mut self, digest: &Digest, bytes: &[u8]) -> Result<(), DigestError> {
        if let Message::Kept(kept) = self {
            if kept.len() + bytes.len() <= KEPT_BYTES {
                kept.extend_from_slice(bytes);
                return Ok(());
            }
            *self = Message::Begun(self.stream(digest)?);
        }
        match self {
            Message::Begun(stream) => stream.update(bytes),
            Message::Kept(_) => Ok(()),
        }
    }

    /// A stream of the bytes so far.
    fn stream(&self, digest: &Digest) -> Result<Box<dyn DigestStream>, DigestError> {
        match self {
            Message::Begun(stream) => stream.copy(),
            Message::Kept(kept) => {
                let mut stream = digest.stream()?;
                stream.update(kept)?;
                Ok(stream)
            }
        }
    }

    fn copy(&self) -> Result<Message, DigestError> {
        Ok(match self {
            Message::Kept(kept) => Message::Kept(kept.clone()),
            Message::Begun(stream) => Message::Begun(stream.copy()?),
        })
    }
}

#[doc = stub!("new")]
#[pyfunction]
#[pyo3(signature = (name, data=Given::default(), *, usedforsecurity=true), text_signature = "(name, data=b'', *, usedforsecurity=True)")]
pub(crate) fn new(py: Python<'_>, name: &str, data: Given<'_>, usedforsecurity: bool) -> PyResult<Hash> {
    // hashlib has it for systems that forbid some digests; nothing is forbidden here.
    let _ = usedforsecurity;
    let hash = Hash { found: Found::find(py, name)?, message: Mutex::new(Message::Kept(Vec::new())) };
    if let Some(data) = data.0 {
        hash.update(py, &data)?;
    }
    Ok(hash)
}

/// What is to be hashed, if something was given. `None` is something, and has no bytes.
#[derive(Default)]
pub(crate) struct Given<'py>(Option<Bound<'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Given<'py>> {
        Ok(Given(Some(object.to_owned())))
    }
}

#[doc = stub!("algorithms")]
#[pyfunction]
pub(crate) fn algorithms(py: Python<'_>) -> Vec<(&'static str, usize, usize, &'static str)> {
    // The first that needs OpenSSL loads it.
    let available =
        || ALGORITHMS.iter().filter(|row| row.class != DigestClass::Null && Digest::find(row.id).is_ok());
    let row = |row: &verisum::digest::Algorithm| (row.id, row.digest_len(), row.block_len, row.class.name());
    py.detach(|| available().map(row).collect())
}

getters! { |hash: Hash|
    name: &str = hash.found.digest.name();
    digest_size: usize = hash.found.digest.len();
    block_size: usize = match hash.found.digest.algorithm() {
        Some(algorithm) => algorithm.block_len,
        None if hash.found.digest.name().starts_with("blake2b-") => 128,
        None => 0,
    };
}

#[pymethods]
impl Hash {
    #[doc = stub!("Hash.update")]
    #[pyo3(signature = (data, /))]
    fn update(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = Bytes::of(data)?;
        let bytes = bytes.as_slice();
        if bytes.len() <= HELD_BYTES
            && let Ok(mut message) = self.message.try_lock()
        {
            return message.update(&self.found.digest, bytes).map_err(|error| errors::of_digest(py, &error));
        }
        self.require_idle()?;
        py.detach(|| match bytes.len() <= PIECE_BYTES {
            true => self.lock().update(&self.found.digest, bytes).map_err(Interrupted::Failed),
            false => self.update_long(bytes),
        })
        .map_err(|error| error.raise(py))
    }

    #[doc = stub!("Hash.digest")]
    fn digest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.finished(py, |digest| PyBytes::new(py, digest))
    }

    #[doc = stub!("Hash.hexdigest")]
    fn hexdigest(&self, py: Python<'_>) -> PyResult<String> {
        self.finished(py, hex)
    }

    #[doc = stub!("Hash.copy")]
    fn copy(&self, py: Python<'_>) -> PyResult<Hash> {
        let copy = self.look(py, Message::copy)?;
        Ok(Hash { found: self.found, message: Mutex::new(copy) })
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Hash> {
        self.copy(py)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        format!("<{} verisum.Hash object @ {:p}>", slf.get().found.digest.name(), slf.as_ptr())
    }
}

impl Hash {
    fn lock(&self) -> MutexGuard<'_, Message> {
        lock(&self.message)
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
        let mut message = self.lock();
        let mut longer = message.stream(&self.found.digest).map_err(Interrupted::Failed)?;
        for piece in bytes.chunks(PIECE_BYTES) {
            longer.update(piece).map_err(Interrupted::Failed)?;
            let outer = BUSY.replace(self.address());
            let raised = Python::try_attach(|py| py.check_signals());
            BUSY.set(outer);
            raised.unwrap_or(Ok(())).map_err(Interrupted::Raised)?;
        }
        *message = Message::Begun(longer);
        Ok(())
    }

    /// Looks at the message, once no other thread adds to it.
    fn look<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&Message) -> Result<T, DigestError> + Send,
    ) -> PyResult<T> {
        let seen = match self.message.try_lock() {
            Ok(message) => look(&message),
            Err(_) => {
                self.require_idle()?;
                py.detach(|| look(&self.lock()))
            }
        };
        seen.map_err(|error| errors::of_digest(py, &error))
    }

    fn finished<T>(&self, py: Python<'_>, give: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
        let mut digest = [0; MAX_DIGEST_LEN];
        let digest = &mut digest[..self.found.digest.len()];
        self.look(py, |message| match message {
            Message::Kept(kept) => self.found.hash(kept, digest),
            Message::Begun(stream) => stream.copy()?.finish(digest),
        })?;
        Ok(give(digest))
    }
}

/// Why a long message was not added.
enum Interrupted {
    Failed(DigestError),
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
