//! `copy`: copies trees; every byte is hashed, compared with its record, and read back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::catalog::store::{Catalog, Lock, absolute};
use verisum::digest::Output;
use verisum::files::lock;
use verisum::files::place::PlaceError;
use verisum::mend::copy::{
    self as engine, CopyError, CopyEvent, CopyOptions, CopyOutcome, CopyRecorder, CopySummary as Summary,
    Reflink, RemoteTree, SumsList, Verification,
};
use verisum::remote::{Address, Host};

use crate::arguments::{Callback, FsPath, Rate, Several};
use crate::digests::hex;
use crate::errors::{Failure, Kind};
use crate::files::{excludes, limits};
use crate::hash::find;
use crate::hosts::{Hosts, Reach};
use crate::iterator::{Done, Running, python_iterator};
use crate::place::{self, Named};

#[doc = stub!("CopiedFile")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct CopiedFile {
    path: PathBuf,
    name: PathBuf,
    outcome: &'static str,
    is_problem: bool,
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

getters! { |file: CopiedFile|
    path: &OsStr = file.path.as_os_str();
    name: &OsStr = file.name.as_os_str();
    hexdigests: std::collections::BTreeMap<&str, String> =
        file.digests.iter().map(|(name, output)| (name.as_str(), hex(output.as_bytes()))).collect();
    mismatch: Option<(String, String)> =
        file.mismatch.map(|(expected, found)| (hex(expected.as_bytes()), hex(found.as_bytes())));
    outcome: &'static str = file.outcome;
    is_problem: bool = file.is_problem;
    size: u64 = file.size;
    error: Option<&Failure> = file.error.as_ref();
}

#[pymethods]
impl CopiedFile {
    fn __repr__(&self) -> String {
        format!("<verisum.CopiedFile {:?}: {}>", self.path.to_string_lossy(), self.outcome)
    }
}

fields! {
    CopySummary {
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
        left_out: u64,
        unlisted: u64,
        recorded: Option<u64>,
        stopped: bool,
        gave_up: bool,
    }
}

impl From<Arc<Ended>> for CopySummary {
    fn from(ended: Arc<Ended>) -> CopySummary {
        let Ended { summary, unlisted, recorded } = &*ended;
        CopySummary {
            unlisted: *unlisted,
            recorded: *recorded,
            left_out: summary.left_out,
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
            gave_up: summary.gave_up,
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

#[doc = stub!("Copy")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Copy(Running<CopiedFile, Ended>);

/// What came of all, and how many files at the target are not in the list.
pub(crate) struct Ended {
    summary: Summary,
    unlisted: u64,
    recorded: Option<u64>,
}

python_iterator!(Copy, CopiedFile, |summary| -> CopySummary { summary.into() });

#[doc = stub!("copy")]
#[pyfunction]
#[pyo3(signature = (
    source, target, *, algorithm=None, verify="reread", catalog=None, allow_bad=false, update=false, tag=false,
    reflink="never", one_file_system=false, exclude=None, limit=None, threads=0, sums=None, record=None, hosts=None,
    progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn copy(
    py: Python<'_>,
    source: FsPath,
    target: FsPath,
    algorithm: Option<&str>,
    verify: &str,
    catalog: Option<FsPath>,
    allow_bad: bool,
    update: bool,
    tag: bool,
    reflink: &str,
    one_file_system: bool,
    exclude: Option<Several<String>>,
    limit: Option<Rate>,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    sums: Option<FsPath>,
    record: Option<FsPath>,
    hosts: Option<Hosts>,
    progress: Option<Callback>,
) -> PyResult<Copy> {
    let ends = Ends::of(source, target)?;
    if !matches!(ends, Ends::Here { .. }) {
        place::refuse(&[
            ("update", update),
            ("one_file_system", one_file_system && !matches!(ends, Ends::To { .. })),
            ("reflink", reflink != "never"),
            ("tag", tag && !matches!(ends, Ends::From { .. })),
            ("record", record.is_some() && !matches!(ends, Ends::From { .. })),
        ])?;
    }
    let [catalog, sums, record] = [catalog, sums, record].map(|path| path.map(PathBuf::from));
    let done = Arc::new(Done::default());
    let mut options = options_of(verify, reflink)?;
    options.algorithm = algorithm.map(|name| find(py, name)).transpose()?;
    (options.allow_bad, options.update, options.tag) = (allow_bad, update, tag);
    options.record = record.is_some();
    options.one_file_system = one_file_system;
    options.excludes = excludes(exclude)?;
    options.limits = limits(limit);
    if threads > 0 {
        options.threads = threads;
    }
    options.progress = done.here.clone();
    options.scratch = std::env::temp_dir();
    let hosts = Reach::with_report(py, hosts)?.open();
    let running = Running::start(true, (done, progress), move |steps| {
        options.stop = steps.stop().clone();
        let copied = open(catalog.as_deref()).and_then(|catalog| {
            let list = sums.as_deref().map(SumsList::open).transpose().map_err(|error| failure(&error))?;
            let verification = options.verification;
            let recorder = recorder(record.as_deref(), &ends, verification)?;
            let listing = Mutex::new((list, recorder, None));
            // Who takes no more has also asked it to stop.
            let sink = |event: &CopyEvent| {
                {
                    let (list, recorder, failed) = &mut *lock(&listing);
                    let listed = list.as_mut().map_or(Ok(()), |list| list.add(event));
                    let done = listed.map_err(|error| failure(&error)).and_then(|()| match recorder {
                        Some((_, recorder)) => recorder.add(event).map_err(|error| Failure::from(&error)),
                        None => Ok(()),
                    });
                    if let (Err(error), None) = (done, &failed) {
                        *failed = Some(error);
                        options.stop.request();
                    }
                }
                steps.result(CopiedFile::of(event));
            };
            let catalog = catalog.as_ref();
            let copied = match &ends {
                Ends::Here { from, to } => engine::copy(from, to, &options, catalog, &sink),
                Ends::From { from, to } => {
                    opened(from, &hosts, |from| engine::copy_from(from, to, &options, catalog, &sink))
                }
                Ends::To { from, to } => {
                    opened(to, &hosts, |to| engine::copy_to(from, to, &options, catalog, &sink))
                }
                Ends::Between { from, to } => opened(from, &hosts, |from| {
                    opened(to, &hosts, |to| engine::copy_between(from, to, &options, catalog, &sink))
                }),
            };
            let summary = copied.map_err(|error| failure(&error))?;
            let (list, recorder, failed) = listing.into_inner().unwrap_or_else(PoisonError::into_inner);
            let complaint = recorder.as_ref().and_then(|(_, recorder)| recorder.complaint());
            let recorded = recorder.map(|(_lock, recorder)| recorder.end()).transpose();
            let recorded = recorded.map_err(|error| Failure::from(&error))?;
            let unlisted = list.map(SumsList::end).transpose().map_err(|error| failure(&error))?;
            match failed.or(complaint.map(|text| Failure::new(Kind::Catalog, &text))) {
                Some(failed) => Err(failed),
                None => Ok(Ended { summary, unlisted: unlisted.unwrap_or(0), recorded }),
            }
        });
        steps.end(copied);
    })?;
    Ok(Copy(running))
}

fn options_of(verify: &str, reflink: &str) -> PyResult<CopyOptions> {
    let mut options = CopyOptions::default();
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
    Ok(options)
}

/// From where to where.
enum Ends {
    Here { from: PathBuf, to: PathBuf },
    From { from: Remote, to: PathBuf },
    To { from: PathBuf, to: Remote },
    Between { from: Remote, to: Remote },
}

/// A tree on another machine, and its address as the catalogue has it.
struct Remote {
    tree: Address,
    address: PathBuf,
}

impl Ends {
    fn of(source: FsPath, target: FsPath) -> PyResult<Ends> {
        let typed = target.path.clone();
        Ok(match (Named::of(source)?, Named::of(target)?) {
            (Named::Here(from), Named::Here(to)) => Ends::Here { from, to },
            (Named::There(from), Named::Here(to)) => Ends::From { from: Remote::of(from)?, to },
            (Named::Here(from), Named::There(to)) => {
                let mut to = Remote::of(to)?;
                // As into a directory.
                let ends_with_slash = typed.as_os_str().as_bytes().ends_with(b"/") || to.tree.path == b"/";
                if let Some(name) = from.file_name().filter(|_| ends_with_slash && !from.is_dir()) {
                    to.tree = Address::new(to.tree.host.clone(), &to.tree.join(name.as_bytes()));
                    to.address = to.address.join(name);
                }
                Ends::To { from, to }
            }
            (Named::There(from), Named::There(to)) => {
                Ends::Between { from: Remote::of(from)?, to: Remote::of(to)? }
            }
        })
    }
}

impl Remote {
    fn of(tree: Address) -> PyResult<Remote> {
        let address = match tree.host {
            Host::Local => PathBuf::from(OsStr::from_bytes(tree.shown(&tree.path))),
            _ => tree.recorded().map_err(|error| PyValueError::new_err(error.to_string()))?,
        };
        Ok(Remote { tree, address })
    }
}

/// What records the copies in a catalogue, which is made if it is not there.
fn recorder(
    record: Option<&Path>,
    ends: &Ends,
    verification: Verification,
) -> Result<Option<(Lock, CopyRecorder)>, Failure> {
    let (Some(path), Ends::Here { to, .. } | Ends::From { to, .. }) = (record, ends) else { return Ok(None) };
    let failed = |error: verisum::catalog::store::CatalogError| Failure::from(&error);
    let path = absolute(path).map_err(failed)?;
    let lock = Lock::take(&path).map_err(failed)?;
    let catalog = Catalog::open(&path).map_err(failed)?;
    let recorder = CopyRecorder::new(catalog, to, true, verification).map_err(failed)?;
    Ok(Some((lock, recorder)))
}

/// Copies to or from a tree of another machine.
fn opened(
    Remote { tree, address }: &Remote,
    hosts: &verisum::remote::Hosts,
    act: impl FnOnce(RemoteTree) -> Result<Summary, CopyError>,
) -> Result<Summary, CopyError> {
    let open = || hosts.place(&tree.host).map_err(|error| PlaceError::Machine(error.into()));
    act(RemoteTree { address, root: &tree.path, open: &open })
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
