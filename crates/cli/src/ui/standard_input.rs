//! Lets only one option or argument read standard input. A second one would find it empty.

use std::sync::OnceLock;

use super::failure::Failure;

/// The option or argument that reads standard input, as it is typed.
static READER: OnceLock<&str> = OnceLock::new();

/// Takes standard input for an option or argument; for the same one as often as it is given.
///
/// # Errors
/// Another one has it.
pub(crate) fn take(reader: &'static str) -> Result<(), Failure> {
    match *READER.get_or_init(|| reader) {
        first if first == reader => Ok(()),
        first => {
            Err(Failure::Usage(format!("{first} and {reader} both read standard input: one must be a file")))
        }
    }
}
