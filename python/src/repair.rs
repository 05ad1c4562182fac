//! `repair`: gives bad and missing files of a catalogue their recorded content again, from other copies.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::catalog::store::{Catalog, Lock, absolute};
use verisum::digest::Digest;
use verisum::files::place::LocalPlace;
use verisum::files::{FileError, Stop, lock};
use verisum::mend::repair::{
    self as engine, ExpectedContent, RepairOptions, RepairOutcome, RepairSummary as Summary, Repaired,
    Source, SourceCatalog, UselessLine,
};
use verisum::remote::Address;
use verisum::{TRUSTED_DIGEST, parity_sources};

use crate::arguments::{Callback, FsPath, Several};
use crate::digests::hex;
use crate::errors::{Failure, Kind, by_arguments};
use crate::hash::find;
use crate::hosts::{Hosts, Reach};
use crate::iterator::{Done, Running, Steps, python_iterator};
use crate::place::{self, Named};

#[doc = stub!("RepairedFile")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct RepairedFile(Repaired);

impl From<Repaired> for RepairedFile {
    fn from(file: Repaired) -> RepairedFile {
        RepairedFile(file)
    }
}

getters! { |file: RepairedFile|
    path: &OsStr = file.0.path.as_os_str();
    path_bytes: &[u8] = file.0.path.as_os_str().as_bytes();
    outcome: &'static str = file.0.outcome.name();
    was: &'static str = file.0.state.name();
    size: Option<u64> = file.0.size;
    algorithm: &str = &file.0.algorithm;
    digest: &[u8] = file.0.recorded.as_bytes();
    hexdigest: String = hex(file.0.recorded.as_bytes());
    needs_keep_bad: bool = matches!(file.0.outcome, RepairOutcome::Mendable { needs_keep_bad: true, .. });
    source: Option<&OsStr> = match &file.0.outcome {
        RepairOutcome::Repaired { from, .. } | RepairOutcome::Mendable { from, .. } => {
            Some(from.as_os_str())
        }
        _ => None,
    };
    also_from: Vec<&OsStr> = match &file.0.outcome {
        RepairOutcome::Repaired { also_from, .. } => {
            also_from.iter().map(|path| path.as_os_str()).collect()
        }
        _ => Vec::new(),
    };
    bad_copies: Vec<&OsStr> = file.0.bad_copies.iter().map(|path| path.as_os_str()).collect();
    bytes: u64 = match file.0.outcome {
        RepairOutcome::Repaired { bytes, .. } | RepairOutcome::Mendable { bytes, .. } => bytes,
        _ => 0,
    };
    ranges: Option<Vec<(u64, u64)>> =
        file.0.ranges.as_ref().map(|ranges| ranges.iter().map(|range| (range.start, range.end)).collect());
    before_hexdigest: Option<String> = file.0.before.map(|before| hex(before.as_bytes()));
    kept_unread: u64 = file.0.kept_unread;
    has_usual_permissions: bool =
        matches!(file.0.outcome, RepairOutcome::Repaired { has_usual_permissions: true, .. });
    other_names: u64 = match file.0.outcome {
        RepairOutcome::Repaired { other_names, .. } => other_names,
        _ => 0,
    };
    tried: Vec<(&OsStr, String)> = match &file.0.outcome {
        RepairOutcome::NoSource { tried } => {
            tried.iter().map(|(path, why)| (path.as_os_str(), by_arguments(&why.to_string()))).collect()
        }
        _ => Vec::new(),
    };
    error: Option<String> = match &file.0.outcome {
        RepairOutcome::Refused(why) => Some(by_arguments(&why.to_string())),
        RepairOutcome::Failed(why) => Some(by_arguments(&why.to_string())),
        _ => None,
    };
}

#[pymethods]
impl RepairedFile {
    fn __repr__(&self) -> String {
        format!("<verisum.RepairedFile {:?}: {}>", self.0.path.to_string_lossy(), self.0.outcome.name())
    }
}

fields! {
    RepairSummary {
        repaired: u64,
        mendable: u64,
        ok: u64,
        no_source: u64,
        left: u64,
        bytes: u64,
        interrupted: bool,
    }
}

impl From<Arc<Summary>> for RepairSummary {
    fn from(summary: Arc<Summary>) -> RepairSummary {
        let Summary { repaired, mendable, sound, without_source, left, bytes, interrupted, .. } = *summary;
        RepairSummary { repaired, mendable, ok: sound, no_source: without_source, left, bytes, interrupted }
    }
}

#[pymethods]
impl RepairSummary {
    fn __repr__(&self) -> String {
        let RepairSummary { repaired, mendable, no_source, left, .. } = self;
        format!(
            "<verisum.RepairSummary: {repaired} repaired, {mendable} mendable, {no_source} without a source, \
            {left} left>"
        )
    }
}

#[doc = stub!("Repair")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Repair(Running<Repaired, Summary>);

python_iterator!(Repair, RepairedFile, |summary| -> RepairSummary { summary.into() });

#[doc = stub!("repair")]
#[pyfunction]
#[pyo3(signature = (
    path, *, catalog=None, sums=None, tags=false, trust=None, algorithm=None, sources=None, source_catalog=None, dry_run=false,
    keep_bad=None, except_missing=false, cross_file_systems=false, in_place=false, parity=None,
    hosts=None, progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn repair(
    py: Python<'_>,
    path: FsPath,
    catalog: Option<FsPath>,
    sums: Option<Several<FsPath>>,
    tags: bool,
    trust: Option<FsPath>,
    algorithm: Option<&str>,
    sources: Option<Several<FsPath>>,
    source_catalog: Option<FsPath>,
    dry_run: bool,
    keep_bad: Option<FsPath>,
    except_missing: bool,
    cross_file_systems: bool,
    in_place: bool,
    parity: Option<FsPath>,
    hosts: Option<Hosts>,
    progress: Option<Callback>,
) -> PyResult<Repair> {
    let whole = |path: FsPath| absolute(&path.path).map_err(|error| Failure::from(&error).raise(py));
    let path = whole(path)?;
    let algorithm = algorithm.map(|name| find(py, name)).transpose()?;
    if algorithm.is_some() && sums.is_none() {
        return Err(PyValueError::new_err("algorithm: only for sums"));
    }
    let records = match (catalog, sums, tags, trust) {
        (Some(catalog), None, false, None) => Records::Catalog(whole(catalog)?),
        (None, Some(sums), false, None) => Records::Lists { lists: sums.paths(), algorithm },
        (None, None, true, None) => Records::Tags,
        (None, None, false, Some(trusted)) => Records::Place(Named::of(trusted)?, find(py, TRUSTED_DIGEST)?),
        _ => {
            return Err(PyValueError::new_err(
                "one of catalog, sums, tags and trust says what the files should be",
            ));
        }
    };
    let mut named = sources.map(Named::several).transpose()?.unwrap_or_default();
    if let Records::Place(trusted, _) = &records {
        named.insert(0, trusted.clone());
    }
    let parity = parity.map(whole).transpose()?;
    if named.is_empty() && parity.is_none() && !matches!(records, Records::Catalog(_)) {
        return Err(PyValueError::new_err(
            "sources: sums and tags know of no copies, and parity is not given",
        ));
    }
    let source_catalog = source_catalog.map(whole).transpose()?;
    if named.is_empty() && source_catalog.is_some() {
        return Err(PyValueError::new_err("source_catalog: it is of named sources"));
    }
    let mut options = RepairOptions::default();
    options.dry = dry_run;
    options.keep_bad = keep_bad.map(PathBuf::from);
    options.except_missing = except_missing;
    options.cross_file_systems = cross_file_systems;
    options.in_place = in_place;
    if in_place && !matches!(records, Records::Catalog(_)) {
        return Err(PyValueError::new_err("in_place: only a catalogue keeps its journal"));
    }
    let reach = Reach::of(py, hosts)?;
    let waits = named.iter().all(Named::is_here);
    let done = Arc::new(Done::default());
    let told = (done.clone(), progress);
    let running = Running::start(waits, told, move |steps| {
        let hosts = reach.open();
        let job = Job { path, records, named, source_catalog, parity, done };
        steps.end(job.repair(&hosts, options, steps));
    })?;
    Ok(Repair(running))
}

/// What says what the files should be.
enum Records {
    Catalog(PathBuf),
    Lists {
        lists: Vec<PathBuf>,
        algorithm: Option<Digest>,
    },
    Tags,
    /// The content of a place, by this digest.
    Place(Named, Digest),
}

/// What is repaired.
struct Job {
    path: PathBuf,
    records: Records,
    named: Vec<Named>,
    source_catalog: Option<PathBuf>,
    parity: Option<PathBuf>,
    done: Arc<Done>,
}

impl Job {
    fn repair(
        self,
        hosts: &verisum::remote::Hosts,
        mut options: RepairOptions,
        steps: &Steps<Repaired, Summary>,
    ) -> Result<Summary, Failure> {
        let Job { path, records, named, source_catalog, parity, done } = self;
        options.stop = steps.stop().clone();
        let of_parity = |below| sources_of_parity(&path, parity.as_deref(), below, &|note| steps.note(note));
        let all_sources = |named: Vec<Named>, below, stop: &Arc<Stop>| -> Result<_, Failure> {
            let opened = named.into_iter().map(|named| source(named, hosts, true, stop));
            let mut sources = opened.collect::<Result<Vec<_>, _>>()?;
            look_up(&mut sources, source_catalog.as_deref())?;
            sources.extend(of_parity(below)?);
            Ok(sources)
        };
        let mut report = |file: &Repaired| {
            done.add(file.size.unwrap_or_default());
            // Who takes no more has also asked it to stop.
            steps.result(file.clone());
        };
        let mending;
        let mut recorded: Box<dyn Iterator<Item = ExpectedContent>> = match records {
            Records::Catalog(catalog) => {
                let _lock = Lock::take(&catalog).map_err(|error| Failure::from(&error))?;
                let catalog = Catalog::open(&catalog).map_err(|error| Failure::from(&error))?;
                let mut sources = known_sources(named, hosts, &catalog, &path, &options.stop)?;
                look_up(&mut sources, source_catalog.as_deref())?;
                let troubled = parity_sources::troubled(&catalog, &path);
                sources.extend(of_parity(troubled.map_err(|error| Failure::from(&error))?)?);
                let repaired = engine::repair(&catalog, &path, &mut sources, &options, &mut report);
                return repaired.map_err(|error| failure(&error));
            }
            Records::Tags => {
                mending = parity_sources::tops_below(&path);
                Box::new(engine::tagged(&path))
            }
            Records::Place(trusted, digest) => {
                let mut place = place::open(trusted, hosts, &options.stop, &Arc::default())?;
                let mut sources = all_sources(named, BTreeSet::new(), &options.stop)?;
                // Told after the others: a file without a record never looks sound.
                let unread_first = Mutex::new(None);
                let unread = |path: &Path, error: Option<FileError>| {
                    let changed = || {
                        let text = format!("{}: changed while it was read", path.display());
                        Failure::new(Kind::File, &text).path(path).operation("read")
                    };
                    let failure = error.as_ref().map_or_else(changed, Failure::from);
                    lock(&unread_first).get_or_insert(failure);
                };
                let root = &place.address.path;
                let (repaired, hashed) =
                    verisum::with_records_of(&mut *place.place, root, &digest, &unread, |records| {
                        engine::repair_recorded(&path, records, &mut sources, &options, &mut report)
                    });
                let repaired = repaired.map_err(|error| failure(&error))?;
                hashed.map_err(|error| place::failure(&place.address, &error))?;
                let unread = unread_first.into_inner().unwrap_or_else(PoisonError::into_inner);
                return unread.map_or(Ok(repaired), Err);
            }
            Records::Lists { lists, algorithm } => {
                let mut all = Vec::new();
                for list in lists {
                    let useless = &mut |UselessLine { number, why }| {
                        steps.note(format!("{}: line {number}: {why}", list.display()));
                    };
                    let trees = std::slice::from_ref(&path);
                    let found =
                        engine::recorded_in(&list, algorithm.as_ref().map(Digest::name), trees, useless);
                    let found = found.map_err(|error| failure(&error))?;
                    if let Some(unknown) = found.skipped.without_digest() {
                        steps.note(format!("{}: {unknown}", list.display()));
                    }
                    all.extend(found.contents);
                }
                let files = all.iter().map(|record: &ExpectedContent| path.join(&record.below));
                mending = parity_sources::tops_above(&path, files);
                Box::new(all.into_iter())
            }
        };
        let mut sources = all_sources(named, mending, &options.stop)?;
        let repaired = engine::repair_recorded(&path, &mut *recorded, &mut sources, &options, &mut report);
        repaired.map_err(|error| failure(&error))
    }
}

/// The copies that were named; without any, all trees of the catalogue.
pub(crate) fn known_sources(
    named: Vec<Named>,
    hosts: &verisum::remote::Hosts,
    catalog: &Catalog,
    path: &Path,
    stop: &Arc<Stop>,
) -> Result<Vec<Source<'static>>, Failure> {
    let takes_all = named.is_empty();
    let mut sources = Vec::new();
    for named in named {
        sources.push(source(named, hosts, true, stop)?);
    }
    let known = catalog.roots().map_err(|error| Failure::from(&error))?;
    let own = catalog.root_of(path).map_err(|error| Failure::from(&error))?.map(|root| root.path);
    let others =
        known.into_iter().map(|root| root.path).filter(|root| takes_all && Some(root) != own.as_ref());
    // The tree itself may have copies under other names, and comes last.
    for tree in others.chain(own.clone()) {
        let named =
            Address::from_recorded(tree.as_os_str().as_bytes()).map_or(Named::Here(tree), Named::There);
        sources.push(source(named, hosts, false, stop)?);
    }
    Ok(sources)
}

/// The parity that may mend what is below a path: the one that was named, or what lies beside the files.
pub(crate) fn sources_of_parity(
    path: &Path,
    named: Option<&Path>,
    below: BTreeSet<PathBuf>,
    note: &dyn Fn(String) -> bool,
) -> Result<Vec<Source<'static>>, Failure> {
    let found = parity_sources::sources(path, named, below, &mut |error| {
        note(format!("{error}: repairing without it"));
    });
    found.map_err(|error| crate::parity::failure(&error))
}

/// Gives the copies that were named the catalogue that knows them.
fn look_up(sources: &mut [Source], catalog: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = catalog else { return Ok(()) };
    let mut knows_any = false;
    for source in sources.iter_mut().filter(|source| source.is_counterpart && !source.is_parity) {
        let opened = Catalog::open_to_read(path).map_err(|error| Failure::from(&error))?;
        source.catalog = SourceCatalog::of(opened, source).map_err(|error| Failure::from(&error))?;
        knows_any |= source.catalog.is_some();
    }
    match knows_any {
        true => Ok(()),
        false => {
            let text = format!("{}: look for copies: it knows none of the sources", path.display());
            Err(Failure::new(Kind::File, &text).path(path).operation("look for copies"))
        }
    }
}

/// A tree that may have good copies.
fn source(
    named: Named,
    hosts: &verisum::remote::Hosts,
    is_counterpart: bool,
    stop: &Arc<Stop>,
) -> Result<Source<'static>, Failure> {
    match named {
        Named::Here(path) => {
            let path = absolute(&path).map_err(|error| Failure::from(&error))?;
            let mut place = LocalPlace::default();
            place.plan.stop = stop.clone();
            Ok(Source { is_counterpart, ..Source::new(&path, Box::new(place)) })
        }
        Named::There(address) => {
            let shown = PathBuf::from(OsStr::from_bytes(&address.address()));
            let place = place::host(hosts, &address.host)?;
            Ok(Source { root: address.path, is_counterpart, ..Source::new(&shown, place) })
        }
    }
}

/// Why nothing is repaired.
pub(crate) fn failure(error: &engine::RepairError) -> Failure {
    let of = |path: &Path| Failure::new(Kind::File, &error.to_string()).path(path);
    match error {
        engine::RepairError::Catalog(error) => Failure::from(error),
        engine::RepairError::Tree(error) => Failure::from(error),
        engine::RepairError::InPlace { path, .. } => of(path).operation("repair in place"),
        engine::RepairError::Path { path, .. } | engine::RepairError::Place { address: path, .. } => {
            of(path).operation("repair")
        }
        engine::RepairError::KeepBad { path, operation, source }
        | engine::RepairError::List { path, operation, source } => {
            of(path).operation(operation).system(Some(source))
        }
        _ => Failure::new(Kind::File, &error.to_string()),
    }
}
