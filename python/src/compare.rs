//! `compare`: the differences of two trees, each in any place.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use verisum::digest::{Digest, Output};
use verisum::files::compare::{self as trees, CompareError, ComparedFile, FileStatus, Pair, Tree};
use verisum::files::place::{FileAnswer, PlaceEvent};
use verisum::remote::Address;

use crate::errors::{Failure, Kind};
use crate::hash::find;
use crate::iterator::{Done, Running, Steps, python_iterator};
use crate::place::{self, Hosts, Named, Reach};
use crate::row::nanoseconds;

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

/// A file that is not the same on both sides.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Difference {
    name: Vec<u8>,
    outcome: &'static str,
    sides: [Option<Side>; 2],
    error: Option<Failure>,
}

/// A file on one side.
#[pyclass(frozen, module = "verisum")]
#[derive(Clone)]
pub(crate) struct Side {
    #[pyo3(get)]
    size: Option<u64>,
    #[pyo3(get)]
    mtime_ns: Option<i128>,
    read: Option<Result<Output, String>>,
}

#[pymethods]
impl Side {
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let digest = self.read.as_ref()?.as_ref().ok()?;
        Some(PyBytes::new(py, digest.as_bytes()))
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        self.read.as_ref()?.as_ref().err().map(String::as_str)
    }
}

impl From<&ComparedFile> for Side {
    fn from(file: &ComparedFile) -> Side {
        Side {
            size: file.seen.size,
            mtime_ns: file.seen.modified.map(|modified| nanoseconds(modified.time)),
            read: file.read.as_ref().map(|read| (*read).clone().map_err(|reason| reason.message())),
        }
    }
}

#[pymethods]
impl Difference {
    #[getter]
    fn name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }

    #[getter]
    fn name_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.name)
    }

    #[getter]
    fn outcome(&self) -> &'static str {
        self.outcome
    }

    #[getter]
    fn class_(&self) -> &'static str {
        match self.outcome {
            "differs" | "missing" | "extra" => "mismatch",
            _ => "unchecked",
        }
    }

    #[getter]
    fn a(&self) -> Option<Side> {
        self.sides[0].clone()
    }

    #[getter]
    fn b(&self) -> Option<Side> {
        self.sides[1].clone()
    }

    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.error.as_ref().map(|failure| failure.object(py))
    }

    fn __repr__(&self) -> String {
        format!("<verisum.Difference {:?}: {}>", String::from_utf8_lossy(&self.name), self.outcome)
    }
}

type Counts = BTreeMap<&'static str, u64>;

/// The differences of two trees.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Comparison(Running<Difference, Counts>);

#[pymethods]
impl Comparison {
    /// How many files there were of each outcome, once all were compared.
    #[getter]
    fn summary(&self) -> Option<Counts> {
        self.0.summary().map(|counts| (*counts).clone())
    }

    #[getter]
    fn class_(&self) -> Option<&'static str> {
        let counts = self.0.summary()?;
        let has = |keys: &[&str]| keys.iter().any(|key| counts.get(key).is_some_and(|count| *count > 0));
        Some(match (has(&["differ", "missing", "extra"]), has(&["unreadable", "unknown", UNLISTED])) {
            (true, _) => "mismatch",
            (false, true) => "unchecked",
            (false, false) => "clean",
        })
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Counts> {
        Ok((*self.0.finish(py)?).clone())
    }
}

python_iterator!(Comparison, Difference);

#[doc = include_str!(concat!(env!("OUT_DIR"), "/compare"))]
#[pyfunction]
#[pyo3(signature = (a, b, algorithm="sha256", *, quick=false, hosts=None, progress=None))]
pub(crate) fn compare(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    algorithm: &str,
    quick: bool,
    hosts: Option<Hosts>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Comparison> {
    let digest = find(py, algorithm)?;
    let named = [Named::of(a)?, Named::of(b)?];
    let reach = Reach::of(py, hosts)?;
    let waits = named.iter().all(Named::is_here);
    let done = Arc::new(Done::default());
    let told = (done.clone(), progress);
    let running = Running::start(waits, told, move |steps| {
        let hosts = reach.open();
        let ended = compared(named, &Way { digest, quick }, &hosts, &done, steps);
        steps.end(ended);
    })?;
    Ok(Comparison(running))
}

/// How files are compared.
struct Way {
    digest: Digest,
    /// Files of one size and time of modification are not read.
    quick: bool,
}

fn compared(
    named: [Named; 2],
    Way { digest, quick }: &Way,
    hosts: &verisum::remote::Hosts,
    done: &Arc<Done>,
    steps: &Steps<Difference, Counts>,
) -> Result<Counts, Failure> {
    let stop = steps.stop();
    let opened = |named: Named| {
        let opened = place::open(named, hosts, &stop, done)?;
        let tree = Tree::new(opened.place, &opened.address.path);
        Ok::<_, Failure>((opened.address, tree))
    };
    let [a, b] = named;
    let ((a, mut tree_a), (b, mut tree_b)) = (opened(a)?, opened(b)?);
    let addresses = [a, b];
    let unlisted = AtomicU64::new(0);
    let tell_unlisted = |name: Vec<u8>, failure: Failure| {
        unlisted.fetch_add(1, Ordering::Relaxed);
        let sides = [None, None];
        steps.result(Difference { name, outcome: UNLISTED, sides, error: Some(failure) })
    };
    let sink = |side: usize, event: PlaceEvent| {
        let address = &addresses[side];
        match event {
            PlaceEvent::Answer(FileAnswer { request, result: Err(error) }) => {
                tell_unlisted(address.shown(&request.path).to_vec(), Failure::from(&error))
            }
            PlaceEvent::Answer(_) => true,
            PlaceEvent::Unlisted(line) => {
                let message = format!("{}: list: {line}", address.host.name());
                let failure = Failure::new(Kind::Host, &message).operation("list");
                tell_unlisted(address.shown(&address.path).to_vec(), failure)
            }
            PlaceEvent::Way(text) | PlaceEvent::Note(text) => {
                steps.note(format!("{}: {text}", address.host.name()))
            }
        }
    };
    let failed = |error: CompareError| {
        let mut errors = addresses.iter().zip(error.0);
        let first = errors.find_map(|(address, error)| Some((address, error?)));
        match first {
            Some((address, error)) => place::failure(address, &error),
            None => Failure::new(Kind::File, "the trees cannot be compared"),
        }
    };
    let mut pairs = trees::list([&mut tree_a, &mut tree_b], digest, &sink).map_err(failed)?;
    if *quick {
        pairs.iter_mut().for_each(settle_by_time);
    }
    let read = trees::read([&mut tree_a, &mut tree_b], digest, &mut pairs, &sink);
    let mut counts: Counts = COUNTED.iter().map(|(_, word)| (*word, 0)).collect();
    for pair in &pairs {
        *counts.entry(counted(pair.status)).or_default() += 1;
        if pair.status != FileStatus::Same && !steps.result(difference(pair, &addresses[0])) {
            break;
        }
    }
    counts.insert(UNLISTED, unlisted.into_inner());
    // What was found before a place failed is told first.
    read.map_err(failed)?;
    Ok(counts)
}

/// Takes files of one size and time of modification for the same.
fn settle_by_time(pair: &mut Pair) {
    if let (FileStatus::Asked, [Some(a), Some(b)]) = (pair.status, &pair.files)
        && let (Some(one), Some(other)) = (a.seen.modified, b.seen.modified)
        && a.seen.size.is_some()
        && one.is_same(&other)
    {
        pair.status = FileStatus::Same;
    }
}

fn counted(status: FileStatus) -> &'static str {
    COUNTED.iter().find(|(known, _)| *known == status).map_or("unknown", |(_, word)| word)
}

fn difference(pair: &Pair, address: &Address) -> Difference {
    // Two files that are compared have no name below them.
    let name = if pair.name.is_empty() { address.shown(&address.path) } else { &pair.name };
    let sides = pair.files.each_ref().map(|file| file.as_ref().map(Side::from));
    Difference { name: name.to_vec(), outcome: pair.status.name(), sides, error: None }
}
