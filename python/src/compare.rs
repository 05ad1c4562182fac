//! `compare`: the differences of two or three trees, each in any place, and which copy is the recorded one.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::catalog::compare::{
    AskedPairs, Judge, Judgement, ListedContents, RecordedStanding, RecordedTree, Settled, known_bad,
    settle_by_records,
};
use verisum::catalog::store::{Catalog, absolute};
use verisum::digest::{Digest, Output};
use verisum::files::Progress;
use verisum::files::compare::{
    self as trees, CompareError, ComparedFile, ContentEvidence, FileStatus, Pair, Tree,
};
use verisum::files::place::{FileAnswer, PlaceEvent};
use verisum::mend::repair::{UselessLine, recorded_in};
use verisum::remote::{Address, Host};

use crate::arguments::{Callback, FsPath, Several};
use crate::errors::{Failure, Kind};
use crate::file_row::nanoseconds;
use crate::hash::find;
use crate::hosts::{Hosts, Reach};
use crate::iterator::{Done, Running, Steps, python_iterator};
use crate::place::{self, Named};

/// The words of summaries, for each status.
const COUNTED: [(FileStatus, &str); 6] = [
    (FileStatus::Same, "same"),
    (FileStatus::Differs, "differ"),
    (FileStatus::Missing, "missing"),
    (FileStatus::Extra, "extra"),
    (FileStatus::Unreadable, "unreadable"),
    (FileStatus::Unknown, "unknown"),
];

/// What could not be listed, in summaries and results.
const UNLISTED: &str = "unlisted";

/// Files that differ and of which nothing is recorded, in summaries.
const UNRECORDED: &str = "unrecorded";

/// The sides, in results.
const LETTERS: [&str; 3] = ["a", "b", "c"];

#[doc = stub!("Difference")]
#[pyclass(frozen, module = "verisum")]
#[derive(Default)]
pub(crate) struct Difference {
    name: Vec<u8>,
    outcome: &'static str,
    sides: [Option<Side>; 3],
    evidence: Option<&'static str>,
    recorded_ns: Option<i128>,
    as_recorded: Option<&'static str>,
    odd: Option<&'static str>,
    error: Option<Failure>,
}

#[doc = stub!("Side")]
#[pyclass(frozen, module = "verisum")]
#[derive(Clone)]
pub(crate) struct Side {
    size: Option<u64>,
    mtime_ns: Option<i128>,
    as_recorded: Option<&'static str>,
    read: Option<Result<Output, String>>,
}

getters! { |side: Side|
    size: Option<u64> = side.size;
    mtime_ns: Option<i128> = side.mtime_ns;
    as_recorded: Option<&'static str> = side.as_recorded;
    digest: Option<&[u8]> = Some(side.read.as_ref()?.as_ref().ok()?.as_bytes());
    error: Option<&str> = side.read.as_ref()?.as_ref().err().map(String::as_str);
}

impl Side {
    fn new(file: &ComparedFile, standing: Option<RecordedStanding>) -> Side {
        Side {
            size: file.seen.size,
            mtime_ns: file.seen.modified.map(|modified| nanoseconds(modified.time)),
            as_recorded: standing.map(RecordedStanding::name),
            read: file.read.as_deref().map(|read| (*read).clone().map_err(|reason| reason.message())),
        }
    }
}

getters! { |difference: Difference|
    name: &OsStr = OsStr::from_bytes(&difference.name);
    name_bytes: &[u8] = &difference.name;
    a: Option<Side> = difference.sides[0].clone();
    b: Option<Side> = difference.sides[1].clone();
    c: Option<Side> = difference.sides[2].clone();
    outcome: &'static str = difference.outcome;
    evidence: Option<&'static str> = difference.evidence;
    recorded_ns: Option<i128> = difference.recorded_ns;
    as_recorded: Option<&'static str> = difference.as_recorded;
    odd: Option<&'static str> = difference.odd;
    class_: &'static str = match difference.outcome {
        "differs" | "missing" | "extra" => "mismatch",
        _ => "unchecked",
    };
    error: Option<&Failure> = difference.error.as_ref();
}

#[pymethods]
impl Difference {
    fn __repr__(&self) -> String {
        format!("<verisum.Difference {:?}: {}>", String::from_utf8_lossy(&self.name), self.outcome)
    }
}

type Counts = BTreeMap<&'static str, u64>;

/// What a comparison came to.
#[derive(Default)]
struct Summary {
    counts: Counts,
    settled: Settled,
    /// Lines of lists that are of no use.
    useless: u64,
}

#[doc = stub!("Comparison")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Comparison(Running<Difference, Summary>);

getters! { |comparison: Comparison|
    settled: Option<Counts> = {
        let Settled { sizes, records, times, one_read, store, read } = comparison.0.summary()?.settled;
        let counts = [
            ("sizes", sizes),
            ("records", records),
            ("times", times),
            ("one_read", one_read),
            ("store", store),
            ("read", read),
        ];
        Some(counts.into())
    };
    class_: Option<&'static str> = {
        let summary = comparison.0.summary()?;
        let has =
            |keys: &[&str]| keys.iter().any(|key| summary.counts.get(key).is_some_and(|count| *count > 0));
        let is_unchecked = has(&["unreadable", "unknown", UNLISTED]) || summary.useless > 0;
        Some(match (has(&["differ", "missing", "extra"]), is_unchecked) {
            (true, _) => "mismatch",
            (false, true) => "unchecked",
            (false, false) => "clean",
        })
    };
}

python_iterator!(Comparison, Difference, |summary| -> Counts { summary.counts.clone() });

#[doc = stub!("compare")]
#[pyfunction]
#[pyo3(signature = (
    a, b, algorithm=None, *, c=None, quick=false, read=false, catalog=None, sums=None, hosts=None, progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn compare(
    py: Python<'_>,
    a: FsPath,
    b: FsPath,
    algorithm: Option<String>,
    c: Option<FsPath>,
    quick: bool,
    read: bool,
    catalog: Option<FsPath>,
    sums: Option<Several<FsPath>>,
    hosts: Option<Hosts>,
    progress: Option<Callback>,
) -> PyResult<Comparison> {
    let digest = find(py, algorithm.as_deref().unwrap_or("sha256"))?;
    if quick && (read || c.is_some()) {
        return Err(PyValueError::new_err("quick: neither with read nor with a third tree"));
    }
    let mut named = vec![Named::of(a)?, Named::of(b)?];
    named.extend(c.map(Named::of).transpose()?);
    let whole = |path: &Path| absolute(path).map_err(|error| Failure::from(&error).raise(py));
    let catalog = catalog.map(|path| whole(&path.path)).transpose()?;
    let lists = sums.map(Several::paths).unwrap_or_default();
    let reach = Reach::with_report(py, hosts)?;
    let waits = named.iter().all(Named::is_here);
    let done = Arc::new(Done::default());
    let told = (done.clone(), progress);
    let running = Running::start(waits, told, move |steps| {
        let hosts = reach.open();
        let job = Job { digest, algorithm, quick, read, catalog, lists, done };
        steps.end(match <[Named; 2]>::try_from(named) {
            Ok(two) => job.compare(two, &hosts, steps),
            Err(named) => match <[Named; 3]>::try_from(named) {
                Ok(three) => job.compare(three, &hosts, steps),
                Err(_) => Err(Failure::new(Kind::Fault, "neither two trees nor three")),
            },
        });
    })?;
    Ok(Comparison(running))
}

/// How files are compared.
struct Job {
    digest: Digest,
    /// What lists have that do not tell.
    algorithm: Option<String>,
    /// Files of one size and time of modification, or with good records, are not read.
    quick: bool,
    /// Digests that stores recorded do not stand for reading.
    read: bool,
    catalog: Option<PathBuf>,
    lists: Vec<PathBuf>,
    done: Arc<Done>,
}

/// Trees that are compared, and their results.
struct Compared<'a, const N: usize> {
    addresses: [Address; N],
    steps: &'a Steps<'a, Difference, Summary>,
    unlisted: AtomicU64,
}

impl Job {
    fn compare<const N: usize>(
        &self,
        named: [Named; N],
        hosts: &verisum::remote::Hosts,
        steps: &Steps<Difference, Summary>,
    ) -> Result<Summary, Failure> {
        let stop = steps.stop().clone();
        let mut opened = Vec::new();
        for named in named {
            opened.push(place::open(named, hosts, &stop, &self.done)?);
        }
        let addresses: Vec<Address> = opened.iter().map(|one| one.address.clone()).collect();
        let trees: Vec<Tree> =
            opened.into_iter().map(|one| Tree::new(one.place, &one.address.path)).collect();
        let odd = || Failure::new(Kind::Fault, "another number of trees");
        let addresses: [Address; N] = addresses.try_into().map_err(|_| odd())?;
        let mut trees: [Tree; N] = trees.try_into().map_err(|_| odd())?;
        let compared = Compared { addresses, steps, unlisted: AtomicU64::new(0) };
        let sink = |side: usize, event: PlaceEvent| compared.event(side, event);
        let mut summary = Summary::default();
        let lists = self.read_lists(&compared, &mut summary)?;
        let listed = trees::list(trees.each_mut(), &self.digest, &std::env::temp_dir(), &sink);
        let mut listed = listed.map_err(|error| compared.failed(error))?;
        let catalog = self.catalog.as_deref().map(opened_catalog).transpose()?;
        let mut records = [const { None }; N];
        for (records, address) in records.iter_mut().zip(&compared.addresses) {
            if let Some(catalog) = &catalog {
                let path = address.address();
                let path = Path::new(OsStr::from_bytes(&path));
                let found = RecordedTree::of(catalog, path, address.host == Host::Local);
                *records = found.map_err(|error| Failure::from(&error))?;
            }
        }
        let mut judge = Judge {
            records,
            is_local: compared.addresses.each_ref().map(|address| address.host == Host::Local),
            lists,
            own_name: compared.addresses[0].below(&compared.addresses[0].path).to_vec(),
            digest: self.digest.clone(),
            reads: !self.quick,
        };
        let (mut failed, progress) = (None, Progress::default());
        summary.counts = COUNTED.iter().map(|(_, word)| (*word, 0)).chain([(UNRECORDED, 0)]).collect();
        while let Some(mut pairs) = listed.group().map_err(|error| compared.failed(error))? {
            let mut settled = Settled::listed(&pairs);
            if self.quick {
                let settling = settle_by_records(&mut judge.records, &mut pairs, &self.digest, &mut settled);
                settling.map_err(|error| Failure::from(&error))?;
            }
            if !self.read {
                let bad = known_bad(&mut judge.records, &pairs).map_err(|error| Failure::from(&error))?;
                let store = trees::settle_recorded(trees.each_mut(), &mut pairs, &bad, &sink);
                settled.store = store.map_err(|error| compared.failed(error))?;
            }
            let asked = AskedPairs::of(&pairs);
            if let Err(error) = listed.read(trees.each_mut(), &self.digest, &mut pairs, &sink, &progress) {
                failed = Some(compared.failed(error));
                judge.reads = false;
            }
            settled.by_reading(&asked, &pairs);
            summary.settled += settled;
            let judged = judge.judge(&pairs, trees.each_mut(), &sink, &mut |side, error| {
                failed.get_or_insert_with(|| place::failure(&compared.addresses[side], &error));
            });
            let judged = judged.map_err(|error| Failure::from(&error))?;
            if !compared.tell(&pairs, &judged, &mut summary.counts) {
                break;
            }
        }
        summary.counts.insert(UNLISTED, compared.unlisted.load(Ordering::Relaxed));
        // What was found before a place failed is told first.
        failed.map_or(Ok(summary), Err)
    }

    fn read_lists<const N: usize>(
        &self,
        compared: &Compared<N>,
        summary: &mut Summary,
    ) -> Result<ListedContents, Failure> {
        let here = compared.addresses.iter().filter(|address| address.host == Host::Local);
        let here = here.map(|address| absolute(Path::new(OsStr::from_bytes(&address.path))));
        let here: Vec<PathBuf> = here.collect::<Result<_, _>>().map_err(|error| Failure::from(&error))?;
        let mut lists = ListedContents::default();
        for list in &self.lists {
            let useless = &mut |UselessLine { number, why }| {
                summary.useless += 1;
                compared.steps.note(format!("{}: line {number}: {why}", list.display()));
            };
            let found = recorded_in(list, self.algorithm.as_deref(), &here, useless);
            let found = found.map_err(|error| crate::repair::failure(&error))?;
            if let Some(unknown) = found.skipped.without_digest() {
                summary.useless += found.skipped.unknown_digests;
                compared.steps.note(format!("{}: {unknown}", list.display()));
            }
            for record in found.contents {
                let name = record.below.into_os_string().into_vec();
                lists.add(name, record.digest.name(), record.value);
            }
        }
        Ok(lists)
    }
}

fn opened_catalog(path: &Path) -> Result<Catalog, Failure> {
    let opened = Catalog::open_to_read(path).and_then(|catalog| catalog.require_complete().map(|()| catalog));
    opened.map_err(|error| Failure::from(&error))
}

impl<const N: usize> Compared<'_, N> {
    fn event(&self, side: usize, event: PlaceEvent) -> bool {
        let address = &self.addresses[side];
        match event {
            PlaceEvent::Answer(FileAnswer { request, result: Err(error) }) => {
                self.tell_unlisted(address.shown(&request.path), Failure::from(&error))
            }
            PlaceEvent::Answer(FileAnswer { request, result: Ok(read) }) => match read.contradiction() {
                Some(why) => {
                    let name = String::from_utf8_lossy(address.shown(&request.path)).into_owned();
                    self.steps.note(format!("{}: {name}: {why}", address.host.name()))
                }
                None => true,
            },
            PlaceEvent::Unlisted(line) => {
                let message = format!("{}: list: {line}", address.host.name());
                let failure = Failure::new(Kind::Host, &message).operation("list");
                self.tell_unlisted(address.shown(&address.path), failure)
            }
            PlaceEvent::Way(text) | PlaceEvent::Note(text) => {
                self.steps.note(format!("{}: {text}", address.host.name()))
            }
        }
    }

    fn tell_unlisted(&self, name: &[u8], failure: Failure) -> bool {
        self.unlisted.fetch_add(1, Ordering::Relaxed);
        let (name, error) = (name.to_vec(), Some(failure));
        self.steps.result(Difference { name, outcome: UNLISTED, error, ..Difference::default() })
    }

    fn failed(&self, error: CompareError) -> Failure {
        let mut errors = self.addresses.iter().zip(error.0);
        let first = errors.find_map(|(address, error)| Some((address, error?)));
        match first {
            Some((address, error)) => place::failure(address, &error),
            None => Failure::new(Kind::File, "the trees cannot be compared"),
        }
    }

    /// Gives the differences away, and counts them. False where nobody takes more.
    fn tell(&self, pairs: &[Pair<N>], judged: &HashMap<usize, Judgement<N>>, counts: &mut Counts) -> bool {
        let unrecorded = judged.values().filter(|judgement| !judgement.is_recorded).count();
        *counts.entry(UNRECORDED).or_default() += unrecorded as u64;
        pairs.iter().enumerate().all(|(number, pair)| {
            *counts.entry(counted(pair.status)).or_default() += 1;
            let difference = || self.difference(pair, judged.get(&number));
            pair.status == FileStatus::Same || self.steps.result(difference())
        })
    }

    fn difference(&self, pair: &Pair<N>, judgement: Option<&Judgement<N>>) -> Difference {
        let address = &self.addresses[0];
        // Files that are compared have no name below them.
        let name = if pair.name.is_empty() { address.shown(&address.path) } else { &pair.name };
        let standings = judgement.map_or([None; N], |judgement| judgement.sides);
        let mut sides = [const { None }; 3];
        for (side, (file, standing)) in sides.iter_mut().zip(pair.files.iter().zip(standings)) {
            *side = file.as_ref().map(|file| Side::new(file, standing));
        }
        let recorded = match pair.evidence {
            ContentEvidence::Recorded(at) => at.map(|at| nanoseconds(at.time)),
            _ => None,
        };
        Difference {
            name: name.to_vec(),
            outcome: pair.status.name(),
            sides,
            evidence: Some(pair.evidence.name()),
            recorded_ns: recorded,
            as_recorded: judgement.and_then(Judgement::as_recorded),
            odd: pair.odd().map(|side| LETTERS[side]),
            error: None,
        }
    }
}

fn counted(status: FileStatus) -> &'static str {
    COUNTED.iter().find(|(known, _)| *known == status).map_or("unknown", |(_, word)| word)
}
