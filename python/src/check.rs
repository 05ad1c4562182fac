//! `check`: files against lists of checksums.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use verisum::digest::{Digest, Output};
use verisum::files::check::{CheckOutcome, Compute, Difference, Event, Extra, Lists, check as check_lists};
use verisum::files::place::{ContentEvidence, Files, PlaceEvent, Sink};
use verisum::files::store::manifest::{Bad, BlockHashes, Claim, ListOptions, Listed, ReadError};
use verisum::files::{Excludes, Limits, Plan, VerdictClass, lock};
use verisum::remote::{Address, HostList, HostListError, kept};

use crate::arguments::{Callback, FsPath, Rate, Several};
use crate::errors::{Failure, Kind};
use crate::file_row::recorded_at;
use crate::files::{excludes, limits};
use crate::hash::find;
use crate::hosts::{Hosts, ObjectReading, Reach};
use crate::image::listed_sum;
use crate::iterator::{Done, Running, Steps, python_iterator};
use crate::place::{self, Named, refuse};

/// The keys of summaries: those of `verisum check --json`, and lists that cannot be read.
const COUNTED: [&str; 12] = [
    "verified",
    "size_only",
    "present",
    "failed",
    "missing",
    "unreadable",
    "bad_lines",
    "comments",
    "unknown_digests",
    "extra",
    "left_out",
    "unreadable_lists",
];

#[doc = stub!("CheckRow")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct CheckRow {
    list: Option<OsString>,
    line: Option<u64>,
    host: Option<String>,
    name: Vec<u8>,
    outcome: &'static str,
    digests: Vec<(String, Output, Option<Output>)>,
    listed_size: Option<u64>,
    found_size: Option<u64>,
    evidence: Option<ContentEvidence>,
    error: Option<Failure>,
}

getters! { |row: CheckRow|
    list: Option<&OsStr> = row.list.as_deref();
    name: &OsStr = OsStr::from_bytes(&row.name);
    name_bytes: &[u8] = &row.name;
    class_: &'static str = class_of(row.outcome);
    evidence: Option<&'static str> = row.evidence.map(ContentEvidence::name);
    recorded_ns: Option<i128> = row.evidence.and_then(recorded_at);
    line: Option<u64> = row.line;
    host: Option<&str> = row.host.as_deref();
    outcome: &'static str = row.outcome;
    listed_size: Option<u64> = row.listed_size;
    found_size: Option<u64> = row.found_size;
    error: Option<&Failure> = row.error.as_ref();
}

#[pymethods]
impl CheckRow {
    #[doc = stub!("CheckRow.digests")]
    #[getter]
    fn digests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let bytes = |output: &Output| PyBytes::new(py, output.as_bytes());
        let digest = |(algorithm, listed, found): &(String, Output, Option<Output>)| {
            (algorithm.clone(), bytes(listed), found.as_ref().map(bytes))
        };
        PyTuple::new(py, self.digests.iter().map(digest))
    }

    fn __repr__(&self) -> String {
        format!("<verisum.CheckRow {:?}: {}>", String::from_utf8_lossy(&self.name), self.outcome)
    }
}

impl CheckRow {
    fn new(list: Option<&OsString>, name: &[u8], outcome: &'static str) -> CheckRow {
        CheckRow {
            list: list.cloned(),
            line: None,
            host: None,
            name: name.to_vec(),
            outcome,
            digests: Vec::new(),
            listed_size: None,
            found_size: None,
            evidence: None,
            error: None,
        }
    }
}

/// What an outcome means.
fn class_of(outcome: &str) -> &'static str {
    match outcome {
        "ok" | "size-only" | "bad-line" => "clean",
        "failed" | "extra" | "nothing-verified" => "mismatch",
        _ => "unchecked",
    }
}

type Counts = BTreeMap<&'static str, u64>;

/// What was found in all.
struct Ended {
    counts: Counts,
    class: &'static str,
}

#[doc = stub!("Check")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Check(Running<CheckRow, Ended>);

getters! { |check: Check|
    class_: Option<&'static str> = check.0.summary().map(|ended| ended.class);
}

python_iterator!(Check, CheckRow, |ended| -> Counts { ended.counts.clone() });

#[doc = stub!("check")]
#[pyfunction]
#[pyo3(signature = (
    lists, place=None, *, algorithm=None, base=None, strict_tree=None, zero=false, ignore_missing=false, strict=false,
    threads=0, exclude=None, limit=None, recorded=false, hosts=None, progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn check(
    py: Python<'_>,
    lists: Several<FsPath>,
    place: Option<FsPath>,
    algorithm: Option<&str>,
    base: Option<FsPath>,
    strict_tree: Option<FsPath>,
    zero: bool,
    ignore_missing: bool,
    strict: bool,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    exclude: Option<Several<String>>,
    limit: Option<Rate>,
    recorded: bool,
    hosts: Option<Hosts>,
    progress: Option<Callback>,
) -> PyResult<Check> {
    let algorithm = algorithm.map(|name| find(py, name)).transpose()?;
    let algorithm = algorithm.map(|digest| Cow::Owned(digest.name().to_string()));
    let lists = lists.paths();
    if lists.is_empty() {
        return Err(PyValueError::new_err("lists: none is named"));
    }
    let done = Arc::new(Done::default());
    let told = (done.clone(), progress);
    let telling = Telling { ignore_missing, strict };
    let named = place.map(Named::of).transpose()?;
    if recorded && !matches!(&named, Some(Named::There(address)) if address.host.keeps_records()) {
        return Err(PyValueError::new_err("recorded: only for files in buckets"));
    }
    let Some(named) = named else {
        let here = Here {
            lists: lists.iter().map(list_name).collect(),
            reading: {
                let mut options = ListOptions::default();
                options.algorithm = algorithm;
                options.zero = zero;
                options.block_hashes = BlockHashes::Tagged;
                options
            },
            base: base.map(PathBuf::from),
            strict_tree: strict_tree.map(PathBuf::from),
            threads: if threads == 0 { crate::scrub::cores() } else { threads },
            excludes: excludes(exclude)?,
            limits: limits(limit),
        };
        let running = Running::start(true, told, move |steps| steps.end(here.check(telling, &done, steps)))?;
        return Ok(Check(running));
    };
    let is_bucket = named.is_bucket();
    let Named::There(address) = named else {
        return Err(PyValueError::new_err("place: must be an address; names of this machine begin at base"));
    };
    refuse(&[
        ("base", base.is_some()),
        ("strict_tree", strict_tree.is_some()),
        ("threads", threads > 0 && !is_bucket),
        ("exclude", exclude.is_some()),
        ("limit", limit.is_some() && !is_bucket),
    ])?;
    let [list] = &lists[..] else {
        return Err(PyValueError::new_err("one list is checked on other machines at a time"));
    };
    let name = list.as_os_str().as_bytes().to_vec();
    let mut reading = ListOptions::default();
    reading.algorithm = algorithm;
    reading.zero = zero;
    reading.name = name;
    let objects = ObjectReading { limits: limits(limit), at_once: (threads > 0).then_some(threads) };
    let reach = Reach::of(py, hosts)?.reading(objects);
    let there = There { list: list.clone(), reading, address, recorded, reach };
    let running = Running::start(false, told, move |steps| steps.end(there.check(telling, &done, steps)))?;
    Ok(Check(running))
}

/// The name of a list, which is never standard input.
fn list_name(path: &PathBuf) -> OsString {
    match path.as_os_str() == "-" {
        true => "./-".into(),
        false => path.into(),
    }
}

/// What is a failure.
#[derive(Clone, Copy)]
struct Telling {
    ignore_missing: bool,
    strict: bool,
}

/// How many lines of a list name files, how many of these were verified, and how many were not for a reason that
/// was told.
#[derive(Default)]
struct OfList {
    formatted: u64,
    verified: u64,
    told: u64,
}

/// Counts what is found, and gives it away.
struct Counter<'a> {
    telling: Telling,
    steps: &'a Steps<'a, CheckRow, Ended>,
    counts: Counts,
    /// What was found in the list at hand.
    list: OfList,
    has_mismatch: bool,
    has_unchecked: bool,
}

impl Counter<'_> {
    fn new<'a>(telling: Telling, steps: &'a Steps<'a, CheckRow, Ended>) -> Counter<'a> {
        let counts = COUNTED.iter().map(|key| (*key, 0)).collect();
        let (has_mismatch, has_unchecked) = (false, false);
        Counter { telling, steps, counts, list: OfList::default(), has_mismatch, has_unchecked }
    }

    fn add(&mut self, key: &'static str, count: u64) {
        *self.counts.entry(key).or_default() += count;
    }

    /// Gives a row away. False where nobody wants more.
    fn row(&mut self, row: CheckRow) -> bool {
        self.mean(row.class_());
        self.steps.result(row)
    }

    fn mean(&mut self, class: &str) {
        self.has_mismatch |= class == "mismatch";
        self.has_unchecked |= class == "unchecked";
    }

    /// Takes note of a file; false where it is not worth a row.
    fn count(&mut self, outcome: &'static str) -> bool {
        self.list.formatted += 1;
        let key = match outcome {
            "ok" => "verified",
            "size-only" => "size_only",
            "missing" if self.telling.ignore_missing => return false,
            other => other,
        };
        self.list.verified += u64::from(key == "verified");
        self.list.told += u64::from(matches!(key, "failed" | "missing" | "unreadable"));
        self.add(key, 1);
        true
    }

    /// Judges a list as a whole, once all of it was read. Nothing that was not compared looks clean.
    fn list_ended(&mut self, list: Option<&OsString>, bad_lines: u64, unknown_digests: u64) -> bool {
        if self.telling.strict && bad_lines > 0 {
            self.mean("mismatch");
        }
        let OfList { formatted, verified, told } = std::mem::take(&mut self.list);
        match verified == 0 && told == 0 && (formatted > 0 || unknown_digests == 0) {
            true => self.row(CheckRow::new(list, b"", "nothing-verified")),
            false => true,
        }
    }

    fn end(self) -> Ended {
        let class = match (self.has_mismatch, self.has_unchecked) {
            (true, _) => "mismatch",
            (false, true) => "unchecked",
            (false, false) => "clean",
        };
        Ended { counts: self.counts, class }
    }
}

/// A check of files of this machine.
struct Here {
    lists: Vec<OsString>,
    reading: ListOptions,
    base: Option<PathBuf>,
    strict_tree: Option<PathBuf>,
    threads: usize,
    excludes: Option<Arc<Excludes>>,
    limits: Option<Arc<Limits>>,
}

impl Here {
    fn check(self, telling: Telling, done: &Done, steps: &Steps<CheckRow, Ended>) -> Result<Ended, Failure> {
        let lists = Lists::new(&self.lists, self.reading, self.base, || Ok(Box::new(io::empty())));
        let mut lists = lists.excluding(self.excludes.clone());
        let names = lists.names();
        let mut extra = Extra::new(self.strict_tree.as_deref(), self.excludes, &lists).map_err(|error| {
            let message = format!(".: open: {error}");
            Failure::new(Kind::File, &message).path(".").operation("open").system(Some(&error))
        })?;
        let stop = steps.stop().clone();
        let block_hash = |folder: &Path, listed: &Listed| listed_sum(folder, listed, &stop);
        let find = |name: &str| Digest::find(name);
        let compute = Compute { find: &find, block_hash: &block_hash, reads_streams: false };
        let plan = Plan {
            limits: self.limits,
            stop: steps.stop().clone(),
            progress: done.here.clone(),
            ..Plan::new(Vec::new(), self.threads)
        };
        let mut counter = Counter::new(telling, steps);
        let mut of_list = (0, 0);
        let mut tell = |event: Event| {
            extra.note(&event);
            match told(&mut counter, &mut of_list, &names, event, None) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        check_lists(&plan, compute, &mut lists, &mut tell);
        for found in extra.find() {
            if steps.stop().is_due() {
                break;
            }
            let row = match found {
                Ok((path, _)) => {
                    counter.add("extra", 1);
                    CheckRow::new(None, path.as_os_str().as_bytes(), "extra")
                }
                Err(error) => {
                    counter.add("unreadable", 1);
                    let name = error.path().as_os_str().as_bytes();
                    CheckRow { error: Some((&error).into()), ..CheckRow::new(None, name, "unreadable") }
                }
            };
            counter.row(row);
        }
        Ok(counter.end())
    }
}

/// Takes an event, on a host with what the content of its file is known by. `of_list` counts the bad lines and the unknown
/// digests of the list at hand.
fn told(
    counter: &mut Counter,
    of_list: &mut (u64, u64),
    names: &[OsString],
    event: Event,
    there: Option<(&str, Option<ContentEvidence>)>,
) -> bool {
    match event {
        Event::File { manifest, number, listed, outcome } => {
            let list = names.get(manifest);
            let Some(outcome_name) = name_of(&outcome) else {
                counter.list.formatted += 1;
                match outcome {
                    CheckOutcome::Present { .. } => counter.add("present", 1),
                    CheckOutcome::LeftOut => counter.add("left_out", 1),
                    _ => {}
                }
                return true;
            };
            if !counter.count(outcome_name) {
                return true;
            }
            let sizes = match &outcome {
                CheckOutcome::Unlike(Difference::Size { listed, found }) => (Some(*listed), Some(*found)),
                _ => (None, None),
            };
            let error = match &outcome {
                CheckOutcome::Missing(error) | CheckOutcome::Failed(error) => Some(Failure::from(&**error)),
                _ => None,
            };
            counter.row(CheckRow {
                line: Some(number),
                digests: compared(&listed.claims, &outcome),
                listed_size: sizes.0,
                found_size: sizes.1,
                host: there.map(|(host, _)| host.to_string()),
                evidence: there.and_then(|(_, evidence)| evidence),
                error,
                ..CheckRow::new(list, &listed.name, outcome_name)
            })
        }
        Event::Bad { manifest, number, bad } => {
            let outcome = match &bad {
                Bad::UnknownDigest(_) => {
                    counter.add("unknown_digests", 1);
                    of_list.1 += 1;
                    "unknown-digest"
                }
                _ => {
                    counter.add("bad_lines", 1);
                    of_list.0 += 1;
                    // It may name any file.
                    if bad == Bad::TooLong { "unreadable-line" } else { "bad-line" }
                }
            };
            let list = names.get(manifest);
            let message = format!("{}: line {number}: {bad}", shown(list));
            let error = Some(Failure::new(Kind::File, &message).path(shown(list)).operation("read"));
            counter.row(CheckRow { line: Some(number), error, ..CheckRow::new(list, b"", outcome) })
        }
        Event::End { manifest, error, skipped } => {
            counter.add("comments", skipped.comments);
            let list = names.get(manifest);
            let (bad_lines, unknown_digests) = std::mem::take(of_list);
            match error {
                None => counter.list_ended(list, bad_lines, unknown_digests),
                Some(error) => {
                    counter.add("unreadable_lists", 1);
                    counter.list = OfList::default();
                    let error = Some(unreadable(&shown(list), &error));
                    counter.row(CheckRow { error, ..CheckRow::new(list, b"", "unreadable-list") })
                }
            }
        }
    }
}

fn shown(list: Option<&OsString>) -> String {
    list.map_or_else(String::new, |list| list.to_string_lossy().into_owned())
}

/// The word for an outcome; none for what is there without a digest or a length, need not be there, or is left out.
fn name_of(outcome: &CheckOutcome) -> Option<&'static str> {
    Some(match outcome {
        CheckOutcome::Match => "ok",
        CheckOutcome::Present { sized: true } => "size-only",
        CheckOutcome::Present { sized: false } | CheckOutcome::Absent | CheckOutcome::LeftOut => return None,
        CheckOutcome::Mismatch(_) | CheckOutcome::Unlike(_) => "failed",
        CheckOutcome::Missing(_) => "missing",
        CheckOutcome::Failed(_) => "unreadable",
    })
}

/// The digests that are listed, and what they are.
fn compared(claims: &[Claim], outcome: &CheckOutcome) -> Vec<(String, Output, Option<Output>)> {
    let found = |place: usize| match outcome {
        CheckOutcome::Match => Some(claims[place].digest),
        CheckOutcome::Mismatch(found) => found[place],
        _ => None,
    };
    let one = |(place, claim): (usize, &Claim)| (claim.algorithm.to_string(), claim.digest, found(place));
    claims.iter().enumerate().map(one).collect()
}

/// Why a list cannot be read.
fn unreadable(list: &str, error: &ReadError) -> Failure {
    let system = match error {
        ReadError::Io(error) => Some(error),
        _ => None,
    };
    Failure::new(Kind::File, &format!("{list}: {error}")).path(list).operation("read").system(system)
}

/// A check of files of another machine.
struct There {
    list: PathBuf,
    reading: ListOptions,
    address: Address,
    recorded: bool,
    reach: Reach,
}

impl There {
    fn check(
        self,
        telling: Telling,
        done: &Arc<Done>,
        steps: &Steps<CheckRow, Ended>,
    ) -> Result<Ended, Failure> {
        let There { list: path, reading, address, recorded, reach } = self;
        let shown = path.to_string_lossy().into_owned();
        let opened = File::open(&path).and_then(|mut file| match file.metadata()?.is_file() {
            true => Ok(None),
            // It is read several times, which a pipe cannot be.
            false => kept(&mut file).map(Some),
        });
        let opened = opened.map_err(|error| unreadable(&shown, &error.into()))?;
        let named = path.clone().into_os_string();
        let again = opened.as_ref().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()).into());
        // No file of this machine tells what a number is.
        let nowhere = Some(PathBuf::from("/dev/null"));
        let lists =
            Lists::new(&[again.unwrap_or(named.clone())], reading, nowhere, || Ok(Box::new(io::empty())));
        let counter = Mutex::new(Counter::new(telling, steps));
        let of_list = Mutex::new((0, 0));
        let host = address.host.name();
        let names = [named];
        let tell = |event: Event, evidence: Option<ContentEvidence>| {
            let mut counter = lock(&counter);
            let mut of_list = lock(&of_list);
            told(&mut counter, &mut of_list, &names, event, Some((&host, evidence)))
        };
        let asked = [address.host.clone()];
        let list = HostList::open((&lists, 0), &asked, &address, &mut |event| {
            tell(event, None);
        });
        let list = list.map_err(|error| unreadable(&shown, &error))?;
        let notes = |event: PlaceEvent| match event {
            PlaceEvent::Note(text) | PlaceEvent::Way(text) => steps.note(format!("{host}: {text}")),
            _ => true,
        };
        let hosts = reach.open();
        let opened = place::open(Named::There(address.clone()), &hosts, steps.stop(), done)?;
        let mut place = opened.place;
        for claims in list.passes() {
            let digests = claims.names().iter().map(|name| Digest::find(name)).collect::<Result<Vec<_>, _>>();
            let digests = digests.map_err(|error| Failure::from(&error))?;
            let ready = place.capabilities(&digests, &notes);
            ready.map_err(|error| place::failure(&address, &error))?;
            let each = |event: Event, evidence| {
                let is_known = matches!(&event, Event::File { outcome, .. } if outcome.class() != VerdictClass::Unchecked);
                tell(event, is_known.then_some(evidence))
            };
            let mut hash = |files: Files, sink: Sink| match recorded {
                true => place.hash_recorded(&digests, files, sink),
                false => place.hash(&digests, files, sink),
            };
            let ended = list.check_lines(&mut hash, &claims, &notes, &each);
            ended.map_err(|error| match error {
                HostListError::List(error) => unreadable(&shown, &error),
                HostListError::Place(error) => place::failure(&address, &error),
            })?;
        }
        tell(Event::End { manifest: 0, error: None, skipped: list.skipped }, None);
        Ok(counter.into_inner().unwrap_or_else(PoisonError::into_inner).end())
    }
}
