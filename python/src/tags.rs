//! `tag`, `verify`, `untag` and `list_tags`: checksums in the attributes of files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::catalog::store::Moment;
use verisum::digest::{Algorithm, Output};
use verisum::files::store::xattr::{Defect, Family, Stored, id_of};
use verisum::files::tags::{
    self, AdoptOptions, Counts, TagFinding as Finding, TagOptions, TagSlot, TaggedFile, TaggingOptions,
    VerifyOptions,
};
use verisum::files::{Order, Plan, Record, Roots, Standing, Timestamp, VerdictClass, Walk, WalkOptions};

use crate::arguments::{Callback, FsPath, Rate, Several};
use crate::digests::hex;
use crate::errors::Failure;
use crate::files::{excludes, limits};
use crate::hash::find;
use crate::interrupt::{Leftover, abandonable};
use crate::iterator::{Done, Running, Steps, python_iterator};
use crate::scrub::{Span, cores};

#[doc = stub!("TagFinding")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct TagFinding {
    path: PathBuf,
    outcome: &'static str,
    class_: &'static str,
    record: Option<Record>,
    found: Option<Output>,
    error: Option<Failure>,
}

impl TagFinding {
    fn of(finding: &Finding) -> TagFinding {
        TagFinding {
            path: finding.path(),
            outcome: finding.outcome.name(),
            class_: finding.outcome.class().name(),
            record: finding.record.copied(),
            found: finding.computed.copied(),
            error: finding.error.map(Failure::from),
        }
    }

    /// A tag of a file, as far as it can be understood.
    fn of_tag(file: &TaggedFile, tag: &Stored) -> TagFinding {
        let (outcome, class) = match tag {
            Ok(record) => match record.standing(file.stat) {
                Standing::Current => ("current", VerdictClass::Clean),
                Standing::Outdated => ("outdated", VerdictClass::Clean),
                Standing::Resized => ("resized", VerdictClass::Clean),
                Standing::Unknown => ("untimed", VerdictClass::Clean),
            },
            Err(Defect::Damaged) => ("damaged", VerdictClass::Corrupt),
            Err(Defect::Version(_) | Defect::Algorithm(_)) => ("unknown", VerdictClass::Unchecked),
        };
        TagFinding {
            path: file.path.to_path_buf(),
            outcome,
            class_: class.name(),
            record: tag.as_ref().ok().copied(),
            found: None,
            error: None,
        }
    }
}

getters! { |finding: TagFinding|
    path: &OsStr = finding.path.as_os_str();
    path_bytes: &[u8] = finding.path.as_os_str().as_bytes();
    algorithm: Option<&'static str> = finding.record.map(|record| record.algorithm.id);
    hexdigest: Option<String> = finding.record.map(|record| hex(record.digest.as_bytes()));
    size: Option<u64> = finding.record.and_then(|record| record.size);
    verified_ms: Option<i64> =
        finding.record.and_then(|record| record.verified).map(|at| Moment::from(at).milliseconds());
    outcome: &'static str = finding.outcome;
    class_: &'static str = finding.class_;
    digest: Option<&[u8]> = finding.record.as_ref().map(|record| record.digest.as_bytes());
    found: Option<&[u8]> = finding.found.as_ref().map(|found| found.as_bytes());
    error: Option<&Failure> = finding.error.as_ref();
}

#[pymethods]
impl TagFinding {
    fn __repr__(&self) -> String {
        format!("<verisum.TagFinding {:?}: {}>", self.path.to_string_lossy(), self.outcome)
    }
}

#[doc = stub!("Tagging")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Tagging(Running<TagFinding, Counts>);

getters! { |tagging: Tagging|
    class_: Option<&'static str> = tagging.0.summary().map(|counts| counts.worst().name());
}

fn words(counts: &Counts) -> BTreeMap<&'static str, u64> {
    counts.occurred().map(|(outcome, count)| (outcome.name(), count)).collect()
}

python_iterator!(Tagging, TagFinding, |counts| -> BTreeMap<&'static str, u64> { words(&counts) });

/// The files, and how to work on them.
struct Work {
    paths: Vec<PathBuf>,
    walk: WalkOptions,
    options: TaggingOptions,
    done: Arc<Done>,
}

/// Options that all of these functions have.
struct Shared {
    threads: usize,
    one_file_system: bool,
    exclude: Option<Several<String>>,
    limit: Option<Rate>,
    dry_run: bool,
}

impl Work {
    fn new(named: Several<FsPath>, shared: Shared) -> PyResult<Work> {
        let paths = named.paths();
        if paths.is_empty() {
            return Err(PyValueError::new_err("paths: none is named"));
        }
        let done = Arc::new(Done::default());
        let threads = if shared.threads == 0 { cores() } else { shared.threads };
        let mut plan = Plan::new(Vec::new(), threads);
        plan.limits = limits(shared.limit);
        plan.progress = done.here.clone();
        let mut walk = WalkOptions::default();
        walk.one_file_system = shared.one_file_system;
        walk.roots = Roots::Trusted;
        // Attributes are in the inodes, or found from there: those of one block come one after the other.
        walk.order = Order::Inode;
        walk.excludes = excludes(shared.exclude)?;
        let mut options = TaggingOptions::default();
        options.plan = plan;
        options.dry = shared.dry_run;
        Ok(Work { paths, walk, options, done })
    }

    fn start(
        self,
        progress: Option<Callback>,
        act: impl FnOnce(&mut Walk, &TaggingOptions, &Steps<TagFinding, Counts>) -> Counts + Send + 'static,
    ) -> PyResult<Tagging> {
        self.start_if(progress, |walk, options, steps| Ok(act(walk, options, steps)))
    }

    /// The same of work that may fail before it begins.
    fn start_if(
        self,
        progress: Option<Callback>,
        act: impl FnOnce(&mut Walk, &TaggingOptions, &Steps<TagFinding, Counts>) -> Result<Counts, Failure>
        + Send
        + 'static,
    ) -> PyResult<Tagging> {
        let Work { paths, walk, mut options, done } = self;
        let running = Running::start(true, (done, progress), move |steps| {
            options.plan.stop = steps.stop().clone();
            steps.end(act(&mut Walk::new(paths, walk), &options, steps));
        })?;
        Ok(Tagging(running))
    }
}

fn tell(steps: &Steps<TagFinding, Counts>, finding: &Finding) {
    // Who takes no more has also asked it to stop.
    steps.result(TagFinding::of(finding));
}

/// A digest that tags have a place for.
fn tagged_by(py: Python<'_>, name: &str) -> PyResult<&'static Algorithm> {
    let algorithm = find(py, name)?.algorithm().filter(|algorithm| id_of(algorithm).is_some());
    algorithm.ok_or_else(|| PyValueError::new_err(format!("{name}: tags have no place for it")))
}

#[doc = stub!("tag")]
#[pyfunction]
#[pyo3(signature = (
    paths, algorithm="sha256", *, new_only=false, dry_run=false, threads=0, one_file_system=false, exclude=None,
    limit=None, progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn tag(
    py: Python<'_>,
    paths: Several<FsPath>,
    algorithm: &str,
    new_only: bool,
    dry_run: bool,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    one_file_system: bool,
    exclude: Option<Several<String>>,
    limit: Option<Rate>,
    progress: Option<Callback>,
) -> PyResult<Tagging> {
    let mut tagging = TagOptions::default();
    tagging.algorithm = tagged_by(py, algorithm)?;
    tagging.new_only = new_only;
    let work = Work::new(paths, Shared { threads, one_file_system, exclude, limit, dry_run })?;
    work.start(progress, move |walk, options, steps| {
        tags::tag(walk, options, &tagging, &|finding| tell(steps, finding))
    })
}

#[doc = stub!("verify")]
#[pyfunction]
#[pyo3(signature = (
    paths, *, stamp=false, max_age=None, sample=1.0, threads=0, one_file_system=false, exclude=None, limit=None,
    progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn verify(
    paths: Several<FsPath>,
    stamp: bool,
    max_age: Option<Span>,
    sample: f64,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    one_file_system: bool,
    exclude: Option<Several<String>>,
    limit: Option<Rate>,
    progress: Option<Callback>,
) -> PyResult<Tagging> {
    crate::scrub::require_share("sample", sample)?;
    let mut verifying = VerifyOptions::default();
    verifying.stamp = stamp;
    verifying.max_age = max_age.map(Duration::from);
    verifying.sample = sample;
    let work = Work::new(paths, Shared { threads, one_file_system, exclude, limit, dry_run: false })?;
    work.start(progress, move |walk, options, steps| {
        tags::verify(walk, options, verifying, &|finding| tell(steps, finding))
    })
}

#[doc = stub!("untag")]
#[pyfunction]
#[pyo3(signature = (paths, algorithm=None, *, dry_run=false, threads=0, one_file_system=false, exclude=None))]
pub(crate) fn untag(
    py: Python<'_>,
    paths: Several<FsPath>,
    algorithm: Option<&str>,
    dry_run: bool,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    one_file_system: bool,
    exclude: Option<Several<String>>,
) -> PyResult<Tagging> {
    let wanted = algorithm.map(|name| tagged_by(py, name)).transpose()?;
    let work = Work::new(paths, Shared { threads, one_file_system, exclude, limit: None, dry_run })?;
    work.start(None, move |walk, options, steps| {
        tags::untag(walk, options, wanted, &|finding| tell(steps, finding))
    })
}

#[doc = stub!("list_tags")]
#[pyfunction]
#[pyo3(signature = (paths, *, threads=0, one_file_system=false, exclude=None))]
pub(crate) fn list_tags(
    paths: Several<FsPath>,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    one_file_system: bool,
    exclude: Option<Several<String>>,
) -> PyResult<Tagging> {
    let shared = Shared { threads, one_file_system, exclude, limit: None, dry_run: false };
    Work::new(paths, shared)?.start(None, |walk, options, steps| {
        let failed = |finding: &Finding| tell(steps, finding);
        tags::list(walk, options, &failed, &|file| {
            for tag in file.tags {
                steps.result(TagFinding::of_tag(file, tag));
            }
        })
    })
}

#[doc = stub!("retag")]
#[pyfunction]
#[pyo3(signature = (
    paths, old, new, *, dry_run=false, threads=0, one_file_system=false, exclude=None, limit=None, progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn retag(
    py: Python<'_>,
    paths: Several<FsPath>,
    old: &str,
    new: &str,
    dry_run: bool,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    one_file_system: bool,
    exclude: Option<Several<String>>,
    limit: Option<Rate>,
    progress: Option<Callback>,
) -> PyResult<Tagging> {
    let slot = |name| Ok::<_, PyErr>(TagSlot { family: Family::Verisum, algorithm: tagged_by(py, name)? });
    let (from, to) = (slot(old)?, slot(new)?);
    if from.algorithm.id == to.algorithm.id {
        return Err(PyValueError::new_err("old and new are the same digest"));
    }
    let work = Work::new(paths, Shared { threads, one_file_system, exclude, limit, dry_run })?;
    work.start_if(progress, move |walk, options, steps| {
        let counts = tags::retag(walk, options, from, to, &|finding| tell(steps, finding));
        counts.map_err(|error| Failure::from(&error))
    })
}

#[doc = stub!("adopt")]
#[pyfunction]
#[pyo3(signature = (
    paths, *, verify=false, dry_run=false, threads=0, one_file_system=false, exclude=None, limit=None, progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn adopt(
    paths: Several<FsPath>,
    verify: bool,
    dry_run: bool,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    one_file_system: bool,
    exclude: Option<Several<String>>,
    limit: Option<Rate>,
    progress: Option<Callback>,
) -> PyResult<Tagging> {
    let mut adopting = AdoptOptions::default();
    adopting.verify = verify;
    let work = Work::new(paths, Shared { threads, one_file_system, exclude, limit, dry_run })?;
    work.start(progress, move |walk, options, steps| {
        tags::adopt(walk, options, adopting, &|finding| tell(steps, finding))
    })
}

#[doc = stub!("TagStatus")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct TagStatus {
    status: tags::Status,
    unreadable: u64,
}

getters! { |found: TagStatus|
    current: u64 = found.status.current;
    outdated: u64 = found.status.outdated;
    resized: u64 = found.status.resized;
    untimed: u64 = found.status.untimed;
    damaged: u64 = found.status.damaged;
    unknown: u64 = found.status.unknown;
    untagged: u64 = found.status.untagged;
    tagged_bytes: u64 = found.status.tagged_bytes;
    untagged_bytes: u64 = found.status.untagged_bytes;
    by_digest: BTreeMap<&'static str, u64> = found.status.by_digest.clone();
    adoptable: BTreeMap<&'static str, u64> = found.status.adoptable.clone();
    unverified: u64 = found.status.unverified;
    stale: u64 = found.status.stale;
    oldest_verified_ms: Option<i64> = found.status.oldest.map(|at| Moment::from(at).milliseconds());
    unreadable: u64 = found.unreadable;
}

#[pymethods]
impl TagStatus {
    fn __repr__(&self) -> String {
        let tags::Status { current, untagged, .. } = self.status;
        format!("<verisum.TagStatus: {current} current, {untagged} untagged>")
    }
}

#[doc = stub!("status")]
#[pyfunction]
#[pyo3(signature = (paths, *, older_than=None, threads=0, one_file_system=false, exclude=None))]
pub(crate) fn status(
    py: Python<'_>,
    paths: Several<FsPath>,
    older_than: Option<Span>,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    one_file_system: bool,
    exclude: Option<Several<String>>,
) -> PyResult<TagStatus> {
    let before = older_than.map(|age| {
        let seconds = i64::try_from(Duration::from(age).as_secs()).unwrap_or(i64::MAX);
        let now = Timestamp::now();
        Timestamp { seconds: now.seconds.saturating_sub(seconds), ..now }
    });
    let shared = Shared { threads, one_file_system, exclude, limit: None, dry_run: false };
    let Work { paths, walk, mut options, .. } = Work::new(paths, shared)?;
    abandonable(py, Leftover::Reads, &mut |_| Ok(()), move |stop| {
        options.plan.stop = stop.clone();
        let counted = tags::status_before(&mut Walk::new(paths, walk), &options, before, &|_| ());
        TagStatus { status: counted.0, unreadable: counted.1.files() }
    })
}
