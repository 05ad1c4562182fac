//! The log file: when a run began and ended, what it printed, and each line about a problem.
//!
//! Each entry is one write to the end of the file, so that runs may share it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use verisum::catalog::store::Moment;
use verisum::files::lock;
use verisum::files::replace::{is_trusted, open_trusted};
use verisum::remote::without_secrets;

use super::catalog::{NO_TEXT, begins_as_no_text};
use super::failure::Failure;
use super::{names, secrets, shell, values};

static LOG: OnceLock<Mutex<Log>> = OnceLock::new();

struct Log {
    /// None if it cannot be opened.
    file: Option<File>,
    path: PathBuf,
    begun: Instant,
    /// Why it could not be opened, or an entry not be written, and what failed.
    failure: Option<(&'static str, io::Error)>,
}

/// Opens the log of this run, and notes the command line. A disk that is not mounted or full is told at the end: the work
/// is worth more than its log. A file that must not be written to is refused.
pub(crate) fn open(path: &Path, line: &[OsString]) -> Result<(), Failure> {
    let (file, failure) = match opened(path) {
        Ok(file) => (Some(file), None),
        Err(error) if error.raw_os_error().is_some() => (None, Some(("open", error))),
        Err(error) => return Err(Failure::file(path, "open", error)),
    };
    let log = Log { file, path: path.to_path_buf(), begun: Instant::now(), failure };
    let _ = LOG.set(Mutex::new(log));
    let words: Vec<String> =
        line.iter().skip(1).map(|word| shell::quoted(&without_secrets(word), true)).collect();
    note(format!("begin: verisum {} {}", env!("CARGO_PKG_VERSION"), words.join(" ")).as_bytes());
    Ok(())
}

/// Opens a file to add to. A link or a file of another user would lead what we write elsewhere.
fn opened(path: &Path) -> io::Result<File> {
    let file = open_trusted(path, File::options().append(true).create(true).mode(0o600))?;
    let stat = file.metadata()?;
    if stat.is_file() && !is_trusted(stat.uid()) {
        return Err(io::Error::other("it is a file of another user"));
    }
    if stat.is_file() && begins_as_no_text(path) {
        return Err(io::Error::other(NO_TEXT));
    }
    Ok(file)
}

/// Adds an entry, if there is a log.
pub(crate) fn note(text: &[u8]) {
    if let Some(log) = LOG.get() {
        lock(log).add(text);
    }
}

/// Whether there is a log.
pub(crate) fn is_kept() -> bool {
    LOG.get().is_some()
}

/// Notes how the run ended. An entry that could not be written is a failure of the run.
pub(crate) fn end(how: &str) -> Result<(), Failure> {
    let Some(log) = LOG.get() else { return Ok(()) };
    let mut log = lock(log);
    let text = format!("end: {how}, {:.1} s", log.begun.elapsed().as_secs_f64());
    log.add(text.as_bytes());
    match log.failure.take() {
        Some((operation, error)) => Err(Failure::file(&log.path, operation, error)),
        None => Ok(()),
    }
}

impl Log {
    fn add(&mut self, text: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let text = text.strip_suffix(b"\n").or(text.strip_suffix(b"\0")).unwrap_or(text);
        let mut entry = format!("{} [{}] ", values::written(Moment::now()), std::process::id()).into_bytes();
        entry.extend(names::for_terminal(&secrets::hidden(text)));
        // One entry, one line, whatever is in a name.
        for byte in &mut entry {
            if matches!(byte, b'\n' | b'\0') {
                *byte = b' ';
            }
        }
        entry.push(b'\n');
        if let Err(error) = file.write_all(&entry) {
            self.failure.get_or_insert(("write", error));
        }
    }
}
