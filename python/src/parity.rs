//! `Parity`: parity of a tree, or the PAR2 files of other programs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::files::{Progress, Stop};
use verisum::parity::{
    self, CreateOptions, FileVerdict, ParityLocation, ParityRepairOptions, ParityVerifyOptions, UpdateOptions,
};

use crate::arguments::{Callback, FsPath, Several};
use crate::errors::{Failure, Kind};
use crate::hosts::{Hosts, Reach};
use crate::iterator::{Done, Running, python_iterator};
use crate::place::Named;

type Counts = BTreeMap<&'static str, u64>;

#[doc = stub!("ParityFinding")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct ParityFinding {
    path: PathBuf,
    outcome: &'static str,
    bytes: Option<u64>,
    ranges: Option<Vec<(u64, u64)>>,
    mendable: Option<bool>,
    kept_unread: Option<u64>,
    unread_sets: Option<u64>,
    of_parity: bool,
    error: Option<Failure>,
}

getters! { |finding: ParityFinding|
    path: &OsStr = finding.path.as_os_str();
    outcome: &'static str = finding.outcome;
    bytes: Option<u64> = finding.bytes;
    ranges: Option<Vec<(u64, u64)>> = finding.ranges.clone();
    mendable: Option<bool> = finding.mendable;
    kept_unread: Option<u64> = finding.kept_unread;
    unread_sets: Option<u64> = finding.unread_sets;
    of_parity: bool = finding.of_parity;
    error: Option<&Failure> = finding.error.as_ref();
}

#[pymethods]
impl ParityFinding {
    fn __repr__(&self) -> String {
        format!("<verisum.ParityFinding {:?}: {}>", self.path.to_string_lossy(), self.outcome)
    }
}

impl From<parity::Finding> for ParityFinding {
    fn from(finding: parity::Finding) -> ParityFinding {
        let of = |path, outcome| ParityFinding {
            path,
            outcome,
            bytes: None,
            ranges: None,
            mendable: None,
            kept_unread: None,
            unread_sets: None,
            of_parity: false,
            error: None,
        };
        match finding {
            parity::Finding::File(file) => {
                let found = of(file.path, file.verdict.name());
                match file.verdict {
                    FileVerdict::Damaged { bytes, can_be_repaired } => {
                        ParityFinding { bytes: Some(bytes), mendable: Some(can_be_repaired), ..found }
                    }
                    FileVerdict::Missing { can_be_repaired } => {
                        ParityFinding { mendable: Some(can_be_repaired), ..found }
                    }
                    FileVerdict::Repaired { bytes, ranges, kept_unread, unread_sets, .. } => {
                        let ranges = ranges.into_iter().map(|range| (range.start, range.end)).collect();
                        let (bytes, ranges, kept_unread) = (Some(bytes), Some(ranges), Some(kept_unread));
                        ParityFinding { bytes, ranges, kept_unread, unread_sets: Some(unread_sets), ..found }
                    }
                    FileVerdict::Finished { bytes, ranges } => {
                        let ranges = ranges.into_iter().map(|range| (range.start, range.end)).collect();
                        ParityFinding { bytes: Some(bytes), ranges: Some(ranges), ..found }
                    }
                    FileVerdict::Unreadable(error) => {
                        ParityFinding { error: Some(Failure::from(&error)), ..found }
                    }
                    FileVerdict::NotRepaired(error) => {
                        ParityFinding { error: Some(failure(&error)), ..found }
                    }
                    _ => found,
                }
            }
            parity::Finding::Parity(found) => {
                ParityFinding { of_parity: true, ..of(found.path, found.verdict.name()) }
            }
            parity::Finding::Unseen(error) => {
                let path = error.path().to_path_buf();
                ParityFinding { error: Some(Failure::from(&error)), ..of(path, "unreadable") }
            }
            _ => of(PathBuf::new(), "unknown"),
        }
    }
}

#[doc = stub!("ParityRun")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct ParityRun(Running<ParityFinding, Totals>);

python_iterator!(ParityRun, ParityFinding, |totals| -> Counts { totals.counts.clone() });

getters! { |run: ParityRun|
    bad_sets: Option<Vec<u64>> = run.0.summary().map(|totals| totals.bad_sets.clone());
}

/// What a run came to.
#[derive(Default)]
struct Totals {
    counts: Counts,
    bad_sets: Vec<u64>,
}

impl From<Counts> for Totals {
    fn from(counts: Counts) -> Totals {
        Totals { counts, ..Totals::default() }
    }
}

/// How a run tells how far it is, and when it is to end.
type Watched = (Arc<Progress>, Arc<Stop>);

#[doc = stub!("Parity")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Parity {
    tree: PathBuf,
    /// Where its parity is, as it was named and what that is; none in the tree itself.
    place: Option<(PathBuf, Named)>,
    hosts: Option<Hosts>,
    is_par2: bool,
}

impl Parity {
    fn run<T: Into<Totals>>(
        &self,
        py: Python<'_>,
        changes: bool,
        progress: Option<Callback>,
        work: impl FnOnce(
            &Path,
            ParityLocation<'_>,
            Watched,
            &mut dyn FnMut(parity::Finding),
        ) -> Result<T, parity::ParityError>
        + Send
        + 'static,
    ) -> PyResult<ParityRun> {
        let done = Arc::new(Done::default());
        let (tree, place, told) = (self.tree.clone(), self.place.clone(), done.here.clone());
        let reach = Reach::of(py, self.hosts.clone())?;
        let running = Running::start(changes, (done, progress), move |steps| {
            // Who takes no more has also asked it to stop.
            let mut report = |finding: parity::Finding| {
                steps.result(finding.into());
            };
            let ended = location(place.as_ref(), reach, steps.stop()).and_then(|location| {
                work(&tree, location, (told, steps.stop().clone()), &mut report)
                    .map_err(|error| failure(&error))
            });
            steps.end(ended.map(Into::into));
        })?;
        Ok(ParityRun(running))
    }

    /// Fails for what only verisum's own parity has.
    fn require_own(&self, what: &str) -> PyResult<()> {
        match self.is_par2 {
            true => Err(PyValueError::new_err(format!("PAR2 files have no {what}"))),
            false => Ok(()),
        }
    }
}

/// Where parity is. A place in a bucket ends its work when it is time to stop.
fn location<'p>(
    place: Option<&'p (PathBuf, Named)>,
    reach: Reach,
    stop: &Arc<Stop>,
) -> Result<ParityLocation<'p>, Failure> {
    Ok(match place {
        None => ParityLocation::Usual,
        Some((_, Named::Here(path))) => ParityLocation::Directory(path),
        Some((name, Named::There(address))) => {
            let mut place = crate::place::host(&reach.open(), &address.host)?;
            place.end_by(stop);
            let root = address.path.strip_suffix(b"/").unwrap_or(&address.path).to_vec();
            ParityLocation::Place { place, root, name: name.clone() }
        }
    })
}

#[pymethods]
impl Parity {
    #[new]
    #[pyo3(signature = (tree, place=None, *, hosts=None))]
    fn new(tree: FsPath, place: Option<FsPath>, hosts: Option<Hosts>) -> PyResult<Parity> {
        let tree = tree.path;
        let place = place.map(|place| PyResult::Ok((place.path.clone(), Named::of(place)?))).transpose()?;
        if place.as_ref().is_some_and(|(_, named)| !named.is_here() && !named.is_bucket()) {
            return Err(PyValueError::new_err("place: must be a directory of this machine, or in a bucket"));
        }
        let is_par2 = std::fs::metadata(&tree).is_ok_and(|found| found.is_file());
        match is_par2 && place.is_some() {
            true => Err(PyValueError::new_err("a PAR2 file has no place")),
            false => Ok(Parity { tree, place, hosts, is_par2 }),
        }
    }

    #[doc = stub!("Parity.create")]
    #[pyo3(signature = (*, redundancy=0.05, set_bytes=None, threads=0, progress=None))]
    fn create(
        &self,
        py: Python<'_>,
        redundancy: f64,
        #[pyo3(from_py_with = crate::arguments::whole)] set_bytes: Option<u64>,
        #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
        progress: Option<Callback>,
    ) -> PyResult<ParityRun> {
        self.require_own("create")?;
        if !(0.000_001..=1.0).contains(&redundancy) {
            return Err(PyValueError::new_err("redundancy must be a share above 0 and at most 1"));
        }
        let mut options = CreateOptions::default();
        options.redundancy = (redundancy * 1e6).round() as u32;
        options.set_bytes = set_bytes;
        self.run(py, true, progress, move |tree, place, (progress, stop), report| {
            (options.progress, options.stop) = (progress, stop);
            set_threads(&mut options.threads, threads);
            parity::create(tree, place, &options, report).map(|made| counts_of_made(&made))
        })
    }

    #[doc = stub!("Parity.update")]
    #[pyo3(signature = (*, accept_damage=false, accept_changes=false, threads=0, progress=None))]
    fn update(
        &self,
        py: Python<'_>,
        accept_damage: bool,
        accept_changes: bool,
        #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
        progress: Option<Callback>,
    ) -> PyResult<ParityRun> {
        self.require_own("update")?;
        let mut options = UpdateOptions::default();
        options.accept_damage = accept_damage;
        options.accept_changes = accept_changes;
        self.run(py, true, progress, move |tree, place, (progress, stop), report| {
            (options.progress, options.stop) = (progress, stop);
            set_threads(&mut options.threads, threads);
            parity::update(tree, place, &options, report).map(|made| counts_of_made(&made))
        })
    }

    #[doc = stub!("Parity.verify")]
    #[pyo3(signature = (*, threads=0, progress=None))]
    fn verify(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
        progress: Option<Callback>,
    ) -> PyResult<ParityRun> {
        let is_par2 = self.is_par2;
        let mut options = ParityVerifyOptions::default();
        self.run(py, false, progress, move |tree, place, (progress, stop), report| {
            (options.progress, options.stop) = (progress, stop);
            set_threads(&mut options.threads, threads);
            let verified = match is_par2 {
                true => parity::verify_par2(tree, &options, report),
                false => parity::verify(tree, place, &options, report),
            };
            verified
                .map(|verified| Totals { counts: counts_of_verified(&verified), bad_sets: verified.bad_sets })
        })
    }

    #[doc = stub!("Parity.repair")]
    #[pyo3(signature = (
        *, dry_run=false, changed=false, keep_bad=None, only=None, sets=None, in_place=false, threads=0,
        progress=None
    ))]
    #[allow(clippy::too_many_arguments)] // Python names them.
    fn repair(
        &self,
        py: Python<'_>,
        dry_run: bool,
        changed: bool,
        keep_bad: Option<FsPath>,
        only: Option<Several<FsPath>>,
        sets: Option<Vec<u64>>,
        in_place: bool,
        #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
        progress: Option<Callback>,
    ) -> PyResult<ParityRun> {
        if changed {
            self.require_own("changed files, as they record no times")?;
        }
        if in_place {
            self.require_own("repair in place")?;
        }
        if sets.is_some() {
            self.require_own("sets that can be named")?;
        }
        let is_par2 = self.is_par2;
        let mut options = ParityRepairOptions::default();
        (options.dry_run, options.changed, options.in_place) = (dry_run, changed, in_place);
        options.sets = sets.unwrap_or_default();
        options.keep_bad = keep_bad.map(PathBuf::from);
        options.only = only.map(Several::paths).unwrap_or_default();
        self.run(py, !dry_run, progress, move |tree, place, (progress, stop), report| {
            (options.progress, options.stop) = (progress, stop);
            set_threads(&mut options.threads, threads);
            let repaired = match is_par2 {
                true => parity::repair_par2(tree, &options, report),
                false => parity::repair(tree, place, &options, report),
            };
            repaired.map(|repaired| counts_of_repaired(&repaired, dry_run))
        })
    }

    fn __repr__(&self) -> String {
        format!("<verisum.Parity of {:?}>", self.tree.to_string_lossy())
    }
}

fn set_threads(threads: &mut usize, wanted: usize) {
    if wanted > 0 {
        *threads = wanted;
    }
}

fn counts_of_made(made: &parity::Made) -> Counts {
    Counts::from([
        ("files", made.files),
        ("bytes", made.data),
        ("new", made.new),
        ("changed", made.changed),
        ("gone", made.gone),
        ("sets_written", made.sets_written),
        ("sets_kept", made.sets_kept),
        ("bytes_written", made.written),
        ("sets_lost", made.sets_lost),
    ])
}

fn counts_of_verified(verified: &parity::Verified) -> Counts {
    Counts::from([
        ("files", verified.files),
        ("bytes", verified.bytes),
        ("damaged", verified.damaged),
        ("missing", verified.missing),
        ("beyond_repair", verified.beyond_repair),
        ("changed", verified.changed),
        ("touched", verified.touched),
        ("unreadable", verified.unreadable),
        ("parity_damaged", verified.parity_damaged),
        ("parity_lost", verified.parity_lost),
    ])
}

fn counts_of_repaired(repaired: &parity::ParityRepairSummary, dry_run: bool) -> Counts {
    let done = |count: u64| if dry_run { (0, count) } else { (count, 0) };
    let ((files, mendable), (parity, parity_mendable)) =
        (done(repaired.repaired), done(repaired.parity_repaired));
    Counts::from([
        ("repaired", files),
        ("mendable", mendable),
        ("not_repaired", repaired.not_repaired),
        ("changed", repaired.changed),
        ("unreadable", repaired.unreadable),
        ("parity_repaired", parity),
        ("parity_mendable", parity_mendable),
        ("parity_damaged", repaired.parity_damaged),
        ("sets", repaired.sets),
    ])
}

pub(crate) fn failure(error: &parity::ParityError) -> Failure {
    let of = |path: &PathBuf| Failure::new(Kind::File, &error.to_string()).path(path);
    match error {
        parity::ParityError::Tree(error) => Failure::from(error),
        parity::ParityError::Digest(error) => Failure::from(error),
        parity::ParityError::Io { path, operation, source } => {
            of(path).operation(operation).system(Some(source))
        }
        parity::ParityError::Damaged { path, .. } | parity::ParityError::OtherSets { path, .. } => {
            of(path).operation("read")
        }
        parity::ParityError::None { path } | parity::ParityError::Exists { path } => {
            of(path).operation("open")
        }
        parity::ParityError::TooMuch { path, .. } => of(path).operation("update"),
        parity::ParityError::Busy { path } => of(path).operation("lock"),
        _ => Failure::new(Kind::File, &error.to_string()),
    }
}
