//! Verdicts of a scrub that runs in Python: the tables of the library, and the second read that they ask for.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use verisum::catalog::scrub;
use verisum::catalog::store::{Stamp, State, Trouble};
use verisum::files::reread::{self, Failed};
use verisum::files::{self, Comparison, Evidence, SecondRead, Timestamp, Verdict, VerdictClass};

use crate::hash::find;

#[doc = stub!("verdicts")]
#[pyfunction]
pub(crate) fn verdicts() -> Vec<(&'static str, &'static str)> {
    let class = |verdict: Verdict| match verdict.class() {
        VerdictClass::Clean => "clean",
        VerdictClass::Change => "change",
        VerdictClass::Unchecked => "unchecked",
        VerdictClass::Corrupt => "corrupt",
    };
    Verdict::ALL.map(|verdict| (verdict.name(), class(verdict))).into()
}

#[doc = stub!("judge")]
#[pyfunction]
pub(crate) fn judge(evidence: &str) -> PyResult<&'static str> {
    let evidence = match evidence {
        "unrecorded" => Evidence::Unrecorded { moved_here: false },
        "gone" => Evidence::Gone { moved_away: false },
        "unsettled" => Evidence::Unsettled,
        "record-damaged" => Evidence::RecordDamaged,
        "unreadable" => Evidence::Unreadable { storage_failed: false },
        "storage-failed" => Evidence::Unreadable { storage_failed: true },
        other => return Err(PyValueError::new_err(format!("there is no evidence {other:?}"))),
    };
    Ok(evidence.verdict().name())
}

#[doc = stub!("judge_comparison")]
#[pyfunction]
#[pyo3(signature = (*, same_digest, same_mtime, same_ctime, same_file, time_tells, second=None))]
pub(crate) fn judge_comparison(
    same_digest: bool,
    same_mtime: bool,
    same_ctime: Option<bool>,
    same_file: Option<bool>,
    time_tells: bool,
    second: Option<&str>,
) -> PyResult<Option<&'static str>> {
    let second = match second {
        None => SecondRead::NotMade,
        Some("same") => SecondRead::Same,
        Some("different") => SecondRead::Different,
        Some("failed") => SecondRead::Failed,
        Some(other) => return Err(PyValueError::new_err(format!("there is no second read {other:?}"))),
    };
    let seen = Comparison { same_digest, same_mtime, same_ctime, same_file, time_tells, second };
    let is_open = seen.needs_second_read() && second == SecondRead::NotMade;
    Ok((!is_open).then(|| Evidence::Compared(seen).verdict().name()))
}

#[doc = stub!("state_after")]
#[pyfunction]
pub(crate) fn state_after(before: &str, found: &str) -> PyResult<(&'static str, &'static str, bool)> {
    let unknown = |name: &str| PyValueError::new_err(format!("there is no state or verdict {name:?}"));
    let before = State::find(before).ok_or_else(|| unknown(before))?;
    let found = Verdict::find(found).ok_or_else(|| unknown(found))?;
    let (verdict, state) = scrub::state_after(before, found);
    let is_replaced = verdict.may_replace_record() && state != State::Trouble(Trouble::Held);
    let state = if is_replaced { State::Sound } else { state };
    Ok((verdict.name(), state.name(), is_replaced))
}

#[doc = stub!("storage_failed")]
#[pyfunction]
pub(crate) fn storage_failed(errno: i32) -> bool {
    files::says_storage_failed(Errno::from_raw_os_error(errno))
}

#[doc = stub!("Excludes")]
#[pyclass(frozen, module = "verisum._native")]
pub(crate) struct Excludes(files::Excludes);

#[pymethods]
impl Excludes {
    #[new]
    fn new(patterns: Vec<String>) -> PyResult<Excludes> {
        let read = files::Excludes::new(patterns.iter().map(String::as_str));
        read.map(Excludes).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    #[doc = stub!("Excludes.leaves_out")]
    fn leaves_out(&self, path: &[u8], is_directory: bool) -> bool {
        self.0.leaves_out(Path::new(OsStr::from_bytes(path)), is_directory)
    }

    #[doc = stub!("Excludes.leaves_out_file")]
    fn leaves_out_file(&self, path: &[u8]) -> bool {
        self.0.leaves_out_file(Path::new(OsStr::from_bytes(path)))
    }
}

#[doc = stub!("SecondLook")]
#[pyclass(frozen, module = "verisum._native", get_all)]
pub(crate) struct SecondLook {
    digest: Py<PyBytes>,
    mtime_ns: i64,
    ctime_ns: i64,
    born_ms: Option<i64>,
    settled: bool,
    source: &'static str,
}

#[doc = stub!("read_again")]
#[pyfunction]
pub(crate) fn read_again(py: Python<'_>, path: PathBuf, algorithm: &str) -> PyResult<SecondLook> {
    let digest = find(py, algorithm)?;
    let (read, born) = py
        .detach(|| -> Result<_, Failed> {
            // A pipe is not waited for.
            let flags =
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
            let file = File::from(rustix::fs::open(&path, flags, Mode::empty())?);
            Ok((reread::past_the_cache(&file, &digest)?, files::born(&file)))
        })
        .map_err(|failed| match failed {
            Failed::System(errno) => io::Error::from(errno).into(),
            Failed::Digest(error) => PyRuntimeError::new_err(error.to_string()),
            Failed::Stopped => io::Error::from(io::ErrorKind::Interrupted).into(),
        })?;
    Ok(SecondLook {
        digest: PyBytes::new(py, read.digest.as_bytes()).unbind(),
        mtime_ns: Stamp::from(read.after.modified).nanoseconds(),
        ctime_ns: Stamp::from(read.after.changed).nanoseconds(),
        born_ms: born.and_then(Timestamp::milliseconds),
        settled: read.before.is_same_state(&read.after),
        source: read.bypass.name(),
    })
}
