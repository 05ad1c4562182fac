//! Standard output, of which no error is lost. (`println!` panics on a closed pipe, and what is left
//! in its buffer at the end is written without a look at the result.)

use std::io::{self, StdoutLock, Write};

use crate::failure::Failure;

/// The most bytes held back between flushes.
const BUFFER: usize = 16 * 1024;

/// Buffered standard output. Call [`Output::flush`] whenever the user should see what there is, and at
/// the end: dropping it writes nothing.
pub(crate) struct Output {
    stdout: StdoutLock<'static>,
    buffer: Vec<u8>,
}

impl Output {
    /// Takes standard output.
    pub(crate) fn new() -> Output {
        Output { stdout: io::stdout().lock(), buffer: Vec::new() }
    }

    /// Adds text.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Adds a line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.text(text)?;
        self.text("\n")
    }

    /// Adds bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.buffer.extend_from_slice(bytes);
        match self.buffer.len() > BUFFER {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Adds a line of JSON.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.buffer, value).map_err(|error| Failure::Output(error.into()))?;
        self.text("\n")
    }

    /// Writes what was added so far.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let result = self.stdout.write_all(&self.buffer).and_then(|()| self.stdout.flush());
        self.buffer.clear();
        result.map_err(Failure::Output)
    }
}
