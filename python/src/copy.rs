//! `copy`: copies trees; every byte is hashed, compared with its record, and read back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::catalog::store::{Catalog, absolute};
use verisum::digest::Output;
use verisum::files::place::PlaceError;
use verisum::mend::copy::{
    self as engine, CopyError, CopyEvent, CopyOptions, CopyOutcome, CopySummary as Summary, PlaceTree,
    Reflink, Verification,
};
use verisum::remote::Address;

use crate::digests::hex;
use crate::errors::{Failure, Kind};
use crate::files::{excludes, limits};
use crate::hash::find;
use crate::iterator::{Done, Running, python_iterator};
use crate::place::{self, Hosts, Named};

/// What came of an entry of the tree that was copied.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct CopiedFile {
    path: PathBuf,
    name: PathBuf,
    #[pyo3(get)]
    outcome: &'static str,
    #[pyo3(get)]
    is_problem: bool,
    #[pyo3(get)]
    size: u64,
    digests: Vec<(String, Output)>,
    /// What was recorded or written, and what was read.
    mismatch: Option<(Output, Output)>,
    error: Option<Failure>,
}

impl CopiedFile {
    fn of(event: &CopyEvent) -> CopiedFile {
        let mismatch = match &event.outcome {
            CopyOutcome::Bad(mismatch) | CopyOutcome::CopiedBad(mismatch) => {
                Some((mismatch.expected, mismatch.found))
            }
            CopyOutcome::Differs { written, found, .. } => Some((*written, *found)),
            _ => None,
        };
        let error = match &event.outcome {
            CopyOutcome::Failed(error) => Some(failure(error)),
            _ => None,
        };
        let digests = event.digests.iter().map(|(digest, output)| (digest.name().to_string(), *output));
        CopiedFile {
            path: event.path.to_path_buf(),
            name: event.name.to_path_buf(),
            outcome: event.outcome.name(),
            is_problem: event.outcome.is_problem(),
            size: event.size,
            digests: digests.collect(),
            mismatch,
            error,
        }
    }
}

#[pymethods]
impl CopiedFile {
    #[getter]
    fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    #[getter]
    fn name(&self) -> &OsStr {
        self.name.as_os_str()
    }

    #[getter]
    fn hexdigests(&self) -> std::collections::BTreeMap<&str, String> {
        self.digests.iter().map(|(name, output)| (name.as_str(), hex(output.as_bytes()))).collect()
    }

    #[getter]
    fn mismatch(&self) -> Option<(String, String)> {
        self.mismatch.map(|(expected, found)| (hex(expected.as_bytes()), hex(found.as_bytes())))
    }

    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.error.as_ref().map(|failure| failure.object(py))
    }

    fn __repr__(&self) -> String {
        format!("<verisum.CopiedFile {:?}: {}>", self.path.to_string_lossy(), self.outcome)
    }
}

/// What came of all.
#[pyclass(frozen, get_all, module = "verisum")]
pub(crate) struct CopySummary {
    copied: u64,
    bytes: u64,
    compared: u64,
    linked: u64,
    current: u64,
    touched: u64,
    made: u64,
    directories: u64,
    bad: u64,
    differ: u64,
    failed: u64,
    reduced: u64,
    stopped: bool,
}

impl From<Arc<Summary>> for CopySummary {
    fn from(summary: Arc<Summary>) -> CopySummary {
        CopySummary {
            copied: summary.copied,
            bytes: summary.bytes,
            compared: summary.compared,
            linked: summary.linked,
            current: summary.current,
            touched: summary.touched,
            made: summary.made,
            directories: summary.directories,
            bad: summary.bad,
            differ: summary.differ,
            failed: summary.failed,
            reduced: summary.reduced,
            stopped: summary.stopped,
        }
    }
}

#[pymethods]
impl CopySummary {
    fn __repr__(&self) -> String {
        let CopySummary { copied, current, bad, failed, .. } = self;
        format!("<verisum.CopySummary: {copied} copied, {current} current, {bad} bad, {failed} failed>")
    }
}

/// A copy that goes on.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Copy(Running<CopiedFile, Summary>);

#[pymethods]
impl Copy {
    #[getter]
    fn summary(&self) -> Option<CopySummary> {
        self.0.summary().map(CopySummary::from)
    }

    fn finish(&self, py: Python<'_>) -> PyResult<CopySummary> {
        self.0.finish(py).map(CopySummary::from)
    }
}

python_iterator!(Copy, CopiedFile);

#[doc = include_str!(concat!(env!("OUT_DIR"), "/copy"))]
#[pyfunction]
#[pyo3(signature = (
    source, target, *, algorithm=None, verify="reread", catalog=None, allow_bad=false, update=false, tag=false,
    reflink="never", one_file_system=false, exclude=None, limit=None, threads=0, hosts=None, progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn copy(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    algorithm: Option<&str>,
    verify: &str,
    catalog: Option<&Bound<'_, PyAny>>,
    allow_bad: bool,
    update: bool,
    tag: bool,
    reflink: &str,
    one_file_system: bool,
    exclude: Option<Vec<String>>,
    limit: Option<u64>,
    threads: usize,
    hosts: Option<Hosts>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Copy> {
    let (source, target) = (Named::of(source)?, place::fs_path(target)?);
    if !source.is_here() {
        place::refuse(&[
            ("update", update),
            ("one_file_system", one_file_system),
            ("reflink", reflink != "never"),
        ])?;
    }
    let catalog = catalog.map(place::fs_path).transpose()?;
    let done = Arc::new(Done::default());
    let mut options = CopyOptions::default();
    options.algorithm = algorithm.map(|name| find(py, name)).transpose()?;
    options.verification = match verify {
        "reread" => Verification::Reread,
        "written" => Verification::Written,
        "none" => Verification::None,
        _ => return Err(PyValueError::new_err("verify must be 'reread', 'written' or 'none'")),
    };
    options.reflink = match reflink {
        "never" => Reflink::Never,
        "auto" => Reflink::Auto,
        "always" => Reflink::Always,
        _ => return Err(PyValueError::new_err("reflink must be 'never', 'auto' or 'always'")),
    };
    (options.allow_bad, options.update, options.tag) = (allow_bad, update, tag);
    options.one_file_system = one_file_system;
    options.excludes = excludes(exclude)?;
    options.limits = limits(limit);
    if threads > 0 {
        options.threads = threads;
    }
    options.progress = done.here.clone();
    let hosts = Hosts::of(hosts).open();
    let running = Running::start(true, (done, progress), move |steps| {
        options.stop = steps.stop();
        let copied = open(catalog.as_deref()).and_then(|catalog| {
            // Who takes no more has also asked it to stop.
            let sink = |event: &CopyEvent| {
                steps.result(CopiedFile::of(event));
            };
            let (to, catalog) = (&*target, catalog.as_ref());
            let copied = match &source {
                Named::Here(from) => engine::copy(from, to, &options, catalog, &sink),
                Named::There(from) => {
                    fetched(from, &hosts, |from| engine::copy_from(from, to, &options, catalog, &sink))
                }
            };
            copied.map_err(|error| failure(&error))
        });
        steps.end(copied);
    })?;
    Ok(Copy(running))
}

/// Copies a tree of another machine.
fn fetched(
    from: &Address,
    hosts: &verisum::remote::Hosts,
    act: impl FnOnce(PlaceTree) -> Result<Summary, CopyError>,
) -> Result<Summary, CopyError> {
    let address = PathBuf::from(OsStr::from_bytes(from.shown(&from.path)));
    let open = || hosts.place(&from.host).map_err(|error| PlaceError::Machine(error.into()));
    act(PlaceTree { address: &address, root: &from.path, open: &open })
}

fn open(catalog: Option<&Path>) -> Result<Option<Catalog>, Failure> {
    let Some(path) = catalog else { return Ok(None) };
    let path = absolute(path).map_err(|error| Failure::from(&error))?;
    Catalog::open_to_read(&path).map(Some).map_err(|error| Failure::from(&error))
}

fn failure(error: &CopyError) -> Failure {
    let of =
        |path: &Path, operation| Failure::new(Kind::File, &error.to_string()).path(path).operation(operation);
    match error {
        CopyError::Source(error) => Failure::from(error),
        CopyError::Catalog(error) => Failure::from(error),
        CopyError::Target { path, operation, source } => of(path, operation).system(Some(source)),
        CopyError::Reflink { path, source } => of(path, "reflink").system(Some(source)),
        CopyError::InTheWay { path, .. } => of(path, "create"),
        CopyError::Overlap { to, .. } => of(to, "create"),
        CopyError::Changed { path } => of(path, "read"),
        CopyError::Digest { path, .. } => of(path, "hash"),
        CopyError::Place { path, .. } => of(path, "read"),
        _ => Failure::new(Kind::File, &error.to_string()),
    }
}
