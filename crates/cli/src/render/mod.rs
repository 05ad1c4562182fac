//! What the user sees: results on standard output, messages and progress on standard error.

pub(crate) mod names;
mod output;
pub(crate) mod progress;
pub(crate) mod shell;

use std::io::Write;

pub(crate) use output::Output;

/// Writes `program: message` to standard error as one write. Nobody is left to tell if that fails.
pub(crate) fn say(program: &str, message: &str) {
    let line = format!("{program}: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Writes a line to standard error that says no more than how to go on.
pub(crate) fn advise(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
