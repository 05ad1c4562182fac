//! `scrub`: compares a tree with its catalogue, and gives the files that are not as recorded.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::catalog::scrub::{
    Alarm, PlaceTree, ScrubOptions, ScrubReport, ScrubSummary as Summary, scrub_tree,
};
use verisum::catalog::store::{Catalog, Lock, Moment, Seen, Stamp, absolute};
use verisum::files::place::PlaceEvent;
use verisum::files::{Entry, Verdict};
use verisum::mend::repair::{self, Finished, Repaired, finish_in_place};
use verisum::parity_sources;

use crate::arguments::{Callback, FsPath, Rate, Several};
use crate::digests::hex;
use crate::errors::Failure;
use crate::files::{excludes, limits};
use crate::hash::find;
use crate::hosts::{Hosts, ObjectReading, Reach};
use crate::iterator::{Done, Running, Steps, python_iterator};
use crate::place::{self, Named, refuse};
use crate::repair::{RepairSummary, RepairedFile, known_sources, sources_of_parity};

#[doc = stub!("FileState")]
#[pyclass(frozen, module = "verisum")]
#[derive(Clone)]
pub(crate) struct FileState(pub(crate) Seen);

getters! { |state: FileState|
    size: u64 = state.0.size;
    mtime_ns: i64 = state.0.mtime.nanoseconds();
    ctime_ns: Option<i64> = state.0.ctime.known().map(Stamp::nanoseconds);
    inode: Option<u64> = Some(state.0.inode).filter(|inode| *inode != 0);
    digest: &[u8] = state.0.digest.as_bytes();
    hexdigest: String = hex(state.0.digest.as_bytes());
}

#[pymethods]
impl FileState {
    fn __repr__(&self) -> String {
        format!("<verisum.FileState {} bytes, {}>", self.0.size, self.0.digest)
    }
}

#[doc = stub!("Finding")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Finding(ScrubReport);

impl From<ScrubReport> for Finding {
    fn from(report: ScrubReport) -> Finding {
        Finding(report)
    }
}

getters! { |finding: Finding|
    path: &OsStr = finding.0.path.as_os_str();
    path_bytes: &[u8] = finding.0.path.as_os_str().as_bytes();
    verdict: &'static str = finding.0.verdict.name();
    class_: &'static str = finding.0.verdict.class().name();
    held: bool = finding.0.held;
    restored: bool = finding.0.restored;
    algorithm: &str = &finding.0.algorithm;
    recorded: Option<FileState> = finding.0.recorded.map(FileState);
    found: Option<FileState> = finding.0.found.map(FileState);
    second_read_same: Option<bool> = finding.0.second.map(|read| read.same);
    since_ms: Option<i64> = finding.0.since.map(Moment::milliseconds);
    moved_from: Option<&OsStr> = finding.0.from.as_deref().map(Path::as_os_str);
    error: Option<String> = finding.0.error.as_ref().map(ToString::to_string);
}

#[pymethods]
impl Finding {
    fn __repr__(&self) -> String {
        format!("<verisum.Finding {:?}: {}>", self.0.path.to_string_lossy(), self.0.verdict)
    }
}

fields! {
    Forecast {
        seconds: f64,
        needed: Option<f64>,
        assumed_daily: bool,
    }
}

impl From<&verisum::catalog::scrub::Forecast> for Forecast {
    fn from(forecast: &verisum::catalog::scrub::Forecast) -> Forecast {
        let (needed, assumed_daily) = (forecast.needed, forecast.assumed_daily);
        Forecast { seconds: forecast.time.as_secs_f64(), needed, assumed_daily }
    }
}

#[doc = stub!("ScrubSummary")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct ScrubSummary {
    summary: Arc<Ended>,
}

/// A summary, and what of it is a failure.
struct Ended {
    summary: Summary,
    mended: Mended,
    archive: bool,
    missing_fails: bool,
}

getters! { |run: ScrubSummary|
    tree: &OsStr = run.summary.summary.root.as_os_str();
    files: u64 = run.summary.summary.files;
    bytes: u64 = run.summary.summary.bytes;
    read_files: u64 = run.summary.summary.read_files;
    read_bytes: u64 = run.summary.summary.read_bytes;
    seconds: f64 = run.summary.summary.time.as_secs_f64();
    complete: bool = run.summary.summary.complete;
    interrupted: bool = run.summary.summary.interrupted;
    waiting: u64 = run.summary.summary.waiting;
    given_up: u64 = run.summary.summary.given_up;
    not_tried: u64 = run.summary.summary.not_tried;
    mount_points: u64 = run.summary.summary.mount_points;
    stalest_verification_ms: Option<i64> = run.summary.summary.oldest.map(Moment::milliseconds);
    unlisted: u64 = run.summary.summary.unlisted;
    still_missing: u64 = run.summary.summary.still_missing;
    held: u64 = run.summary.summary.held;
    alarm: bool = run.summary.summary.alarm.is_some();
    repaired: Vec<RepairedFile> = run.summary.mended.files.iter().cloned().map(RepairedFile::from).collect();
    repair: Option<RepairSummary> = run.summary.mended.summary.clone().map(RepairSummary::from);
    forecast: Option<Forecast> = run.summary.summary.forecast.as_ref().map(Forecast::from);
    class_: &'static str = {
        let Ended { summary, archive, missing_fails, .. } = &*run.summary;
        summary.class(*archive, *archive || *missing_fails).name()
    };
    counts: BTreeMap<&'static str, u64> = {
        let count = |verdict: &Verdict| (verdict.name(), run.summary.summary.count(*verdict));
        Verdict::ALL.iter().map(count).collect()
    };
}

#[pymethods]
impl ScrubSummary {
    fn __repr__(&self) -> String {
        let Summary { root, files, read_files, .. } = &self.summary.summary;
        format!(
            "<verisum.ScrubSummary {:?}: {files} files, {read_files} read, {}>",
            root.to_string_lossy(),
            self.class_()
        )
    }
}

#[doc = stub!("Scrub")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Scrub(Running<ScrubReport, Ended>);

python_iterator!(Scrub, Finding, |summary| -> ScrubSummary { ScrubSummary { summary } });

#[doc = stub!("scrub")]
#[pyfunction]
#[pyo3(signature = (
    tree, *, catalog, algorithm="sha256", threads=0, max_age=None, budget=None, sample=1.0, shuffle=false, since=None,
    cross_file_systems=false, stop_after=100, exclude=None, limit=None, archive=false, missing_fails=false,
    replaced_root=false, alarm_changed=None, repair_from=None, keep_bad=None, parity=None, hosts=None,
    progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn scrub(
    py: Python<'_>,
    tree: FsPath,
    catalog: FsPath,
    algorithm: &str,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    max_age: Option<Span>,
    budget: Option<Span>,
    sample: f64,
    shuffle: bool,
    since: Option<Time>,
    cross_file_systems: bool,
    #[pyo3(from_py_with = crate::arguments::whole)] stop_after: u64,
    exclude: Option<Several<String>>,
    limit: Option<Rate>,
    archive: bool,
    missing_fails: bool,
    replaced_root: bool,
    alarm_changed: Option<f64>,
    repair_from: Option<Several<FsPath>>,
    keep_bad: Option<FsPath>,
    parity: Option<FsPath>,
    hosts: Option<Hosts>,
    progress: Option<Callback>,
) -> PyResult<Scrub> {
    let named = Named::of(tree)?;
    let path = known_path(py, &named)?;
    let catalog = absolute(&catalog.path).map_err(|error| Failure::from(&error).raise(py))?;
    require_share("sample", sample)?;
    alarm_changed.map_or(Ok(()), |share| require_share("alarm_changed", share))?;
    if budget.as_ref().is_some_and(|span| span.0.is_zero()) {
        return Err(PyValueError::new_err("budget must be more than 0 seconds"));
    }
    if max_age.is_some() && since.is_some() {
        return Err(PyValueError::new_err("max_age and since exclude each other"));
    }
    if !named.is_here() {
        refuse(&[("cross_file_systems", cross_file_systems), ("repair_from", repair_from.is_some())])?;
    }
    for (option, is_given) in [("keep_bad", keep_bad.is_some()), ("parity", parity.is_some())] {
        if is_given && repair_from.is_none() {
            return Err(PyValueError::new_err(format!("{option}: only with repair_from")));
        }
    }
    let whole = |path: FsPath| absolute(&path.path).map_err(|error| Failure::from(&error).raise(py));
    let mending = Mending {
        sources: repair_from.map(Named::several).transpose()?,
        keep_bad: keep_bad.map(PathBuf::from),
        parity: parity.map(whole).transpose()?,
    };
    let done = Arc::new(Done::default());
    let mut options = ScrubOptions::new(find(py, algorithm)?);
    options.threads = if threads == 0 { cores() } else { threads };
    options.max_age = max_age.map(|span| span.0);
    options.budget = budget.map(|span| span.0);
    options.sample = sample;
    options.shuffle = shuffle;
    options.since = since.map(|time| time.0.timestamp());
    options.one_file_system = !cross_file_systems;
    options.stop_after = (stop_after > 0).then_some(stop_after);
    options.alarm = alarm_changed.map_or_else(Alarm::default, |share| Alarm { share, at_least: 1 });
    options.archive = archive;
    options.missing_fails = archive || missing_fails;
    options.replaced_root = replaced_root;
    options.excludes = excludes(exclude)?;
    options.limits = limits(limit);
    options.progress = done.here.clone();
    let at_once = (threads > 0).then_some(threads);
    let reach = Reach::with_report(py, hosts)?;
    let reach = reach.reading(ObjectReading { limits: options.limits.clone(), at_once });
    if named.is_bucket() {
        // It keeps to the limits itself.
        options.limits = None;
    }
    let target = Target { named, path, catalog, mending };
    let waits = target.named.is_here();
    let told = (done.clone(), progress);
    let running = Running::start(waits, told, move |steps| {
        let ended = scrubbed(target, options, reach, &done, steps);
        steps.end(ended.map(|(summary, mended)| Ended { summary, mended, archive, missing_fails }));
    })?;
    Ok(Scrub(running))
}

/// How many threads work where nobody says otherwise.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Fails for what is no share.
pub(crate) fn require_share(name: &str, share: f64) -> PyResult<()> {
    match share > 0.0 && share <= 1.0 {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!("{name}: must be more than 0 and at most 1"))),
    }
}

/// The path or address that a catalogue has for a tree.
fn known_path(py: Python<'_>, named: &Named) -> PyResult<PathBuf> {
    match named {
        Named::Here(path) => absolute(path).map_err(|error| Failure::from(&error).raise(py)),
        Named::There(address) => address.recorded().map_err(|error| PyValueError::new_err(error.to_string())),
    }
}

/// What is scrubbed.
struct Target {
    named: Named,
    /// As the catalogue knows it.
    path: PathBuf,
    catalog: PathBuf,
    mending: Mending,
}

/// Whether bad files are repaired afterwards, and from where.
struct Mending {
    /// Copies of the tree; an empty list for all trees of the catalogue.
    sources: Option<Vec<Named>>,
    keep_bad: Option<PathBuf>,
    /// Where the parity of the tree is, if not beside the files.
    parity: Option<PathBuf>,
}

/// What was repaired.
#[derive(Default)]
struct Mended {
    files: Vec<Repaired>,
    summary: Option<Arc<repair::RepairSummary>>,
}

fn scrubbed(
    Target { named, path, catalog, mending }: Target,
    mut options: ScrubOptions,
    reach: Reach,
    done: &Arc<Done>,
    steps: &Steps<ScrubReport, Ended>,
) -> Result<(Summary, Mended), Failure> {
    let _lock = Lock::take(&catalog).map_err(|error| Failure::from(&error))?;
    let mut catalog = Catalog::open(&catalog).map_err(|error| Failure::from(&error))?;
    options.stop = steps.stop().clone();
    let finished = finish_in_place(&catalog, &options.stop);
    let finished = finished.map_err(|error| crate::repair::failure(&error))?;
    if let Some(Finished::Waits { path, why, .. }) = finished {
        options.withheld.push((path, why.to_string()));
    }
    if named.is_here()
        && let Ok(root) = Entry::followed(&path)
    {
        options.order = options.order.or_by_extent(&root);
    }
    // The engine goes by the path that the catalogue has.
    let named = if named.is_here() { Named::Here(path.clone()) } else { named };
    let hosts = reach.open();
    let mut opened = place::open(named, &hosts, &options.stop, done)?;
    let (host, root) = (opened.address.host.name(), opened.address.path.clone());
    let notes = |event: PlaceEvent| match event {
        PlaceEvent::Note(text) | PlaceEvent::Way(text) => steps.note(format!("{host}: {text}")),
        _ => true,
    };
    let mut tree = PlaceTree { place: &mut *opened.place, root: &root, notes: &notes };
    let mut report = |report| {
        // Who takes no more has also asked it to stop.
        steps.result(report);
    };
    let summary = scrub_tree(&mut catalog, &path, (&options, &Mutex::new(())), &mut tree, &mut report);
    let summary = summary.map_err(|error| Failure::from(&error))?;
    // So much changed at once that it may be on purpose.
    let is_alarmed = summary.alarm.is_some() || options.stop.is_due();
    let mended = match mending.sources.as_ref().filter(|_| !is_alarmed) {
        Some(_) => mend(&catalog, &path, mending, &hosts, &options, &|note| steps.note(note))?,
        None => Mended::default(),
    };
    Ok((summary, mended))
}

/// Repairs what is bad in the tree. Missing files may be meant to be gone.
fn mend(
    catalog: &Catalog,
    path: &Path,
    Mending { sources, keep_bad, parity }: Mending,
    hosts: &verisum::remote::Hosts,
    options: &ScrubOptions,
    note: &dyn Fn(String) -> bool,
) -> Result<Mended, Failure> {
    let mut sources = known_sources(sources.unwrap_or_default(), hosts, catalog, path, &options.stop)?;
    let troubled = parity_sources::troubled(catalog, path).map_err(|error| Failure::from(&error))?;
    sources.extend(sources_of_parity(path, parity.as_deref(), troubled, note)?);
    let mut mending = repair::RepairOptions::default();
    mending.keep_bad = keep_bad;
    mending.except_missing = true;
    mending.cross_file_systems = !options.one_file_system;
    mending.stop = options.stop.clone();
    let mut files = Vec::new();
    let report = &mut |file: &Repaired| files.push(file.clone());
    let summary = repair::repair(catalog, path, &mut sources, &mending, report);
    let summary = summary.map_err(|error| crate::repair::failure(&error))?;
    Ok(Mended { files, summary: Some(Arc::new(summary)) })
}

/// A length of time: seconds, or a `timedelta`.
pub(crate) struct Span(pub(crate) Duration);

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        span.0
    }
}

impl<'py> FromPyObject<'_, 'py> for Span {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Span> {
        let seconds = match object.getattr_opt("total_seconds")? {
            Some(method) => method.call0()?.extract::<f64>()?,
            None => object.extract::<f64>()?,
        };
        let span = Duration::try_from_secs_f64(seconds);
        span.map(Span).map_err(|_| PyValueError::new_err("a time must be a number of seconds, 0 or more"))
    }
}

/// A time: seconds since 1970, or a `datetime`.
pub(crate) struct Time(pub(crate) Moment);

impl<'py> FromPyObject<'_, 'py> for Time {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Time> {
        let seconds = match object.getattr_opt("timestamp")? {
            Some(method) => method.call0()?.extract::<f64>()?,
            None => object.extract::<f64>()?,
        };
        match seconds.is_finite() {
            true => Ok(Time(Moment::of_milliseconds((seconds * 1000.0) as i64))),
            false => Err(PyValueError::new_err("a time must be a finite number of seconds")),
        }
    }
}
