//! Writes programs and scripts that a test starts.
//!
//! Another process writes them. If a test wrote one itself, a command that another test starts at that
//! moment would have the file open for writing too, until its `exec`, and the system starts no program
//! that somebody may write to (`ETXTBSY`).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies a program; everybody may run the copy.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    let ended = Command::new("install").args(["-m", "755", "--"]).args([from, to]).status();
    assert!(ended.is_ok_and(|ended| ended.success()), "{}: copy to {}", from.display(), to.display());
}

/// Writes a script that everybody may run, in place of what has the name.
///
/// # Panics
/// If it cannot be written.
pub fn write_script(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    let mut command = Command::new("install");
    command.args(["-m", "755", "--", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut child = command.spawn().expect("install starts");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("install reads");
    let ended = child.wait();
    assert!(ended.is_ok_and(|ended| ended.success()), "{}: write", path.display());
}
