//! The records of a catalogue one by one, and those of files that are not as recorded.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pyo3::prelude::*;
use verisum::catalog::store::{
    Catalog, CatalogError, CatalogRecord as Record, KnownDirectory, Moment, Position, RecordFinding, Root,
    Stamp, State,
};
use verisum::lake::{Column, Value};

use crate::arrow::{Table, Whole, python_table};
use crate::background::Broken;
use crate::digests::hex;
use crate::errors::Failure;
use crate::iterator::{Done, Running, Step, Steps, python_iterator};
use crate::record_columns;
use crate::scrub::FileState;

/// How many files in trouble are read at once.
const PAGE: usize = 1024;

/// A record, and where its file is.
pub(crate) struct Recorded {
    /// The tree.
    pub(crate) place: Arc<Path>,
    /// The whole path or address.
    pub(crate) path: PathBuf,
    pub(crate) algorithm: Arc<str>,
    pub(crate) record: Record,
}

/// Which records.
pub(crate) struct Filter {
    /// Those of this directory of a tree, and below it.
    pub(crate) below: Option<(Root, i64)>,
    pub(crate) state: Option<State>,
    /// Those whose content is new since then.
    pub(crate) changed_since: Option<Moment>,
}

#[doc = stub!("Record")]
#[pyclass(frozen, module = "verisum", name = "Record")]
pub(crate) struct CatalogRecord(Recorded);

impl From<Recorded> for CatalogRecord {
    fn from(recorded: Recorded) -> CatalogRecord {
        CatalogRecord(recorded)
    }
}

getters! { |record: CatalogRecord as Record|
    tree: &OsStr = record.0.place.as_os_str();
    path: &OsStr = record.0.path.as_os_str();
    path_bytes: &[u8] = record.0.path.as_os_str().as_bytes();
    size: u64 = record.0.record.size;
    mtime_ns: i64 = record.0.record.mtime.nanoseconds();
    ctime_ns: Option<i64> = record.0.record.ctime.known().map(Stamp::nanoseconds);
    inode: Option<u64> = Some(record.0.record.inode).filter(|inode| *inode != 0);
    algorithm: &str = &record.0.algorithm;
    digest: &[u8] = record.0.record.digest.as_bytes();
    hexdigest: String = hex(record.0.record.digest.as_bytes());
    first_seen_ms: i64 = record.0.record.first_seen.milliseconds();
    last_changed_ms: i64 = record.0.record.changed.milliseconds();
    last_verified_ms: i64 = record.0.record.verified.milliseconds();
    state: &'static str = record.0.record.state.name();
}

#[pymethods]
impl CatalogRecord {
    fn __repr__(&self) -> String {
        format!("<verisum.Record {:?}: {}>", self.0.path.to_string_lossy(), self.state())
    }
}

/// Records as they are read.
pub(crate) struct Reading {
    running: Running<Recorded, ()>,
    whole: Whole,
}

impl Table for Reading {
    type Row = Recorded;

    fn columns(&self) -> Vec<Column> {
        record_columns::columns()
    }

    fn values<'a>(&self, row: &'a Recorded) -> Vec<Value<'a>> {
        record_columns::values(row)
    }

    fn wait(&self, time: Duration) -> Result<Poll<Option<Recorded>>, Failure> {
        let waited = self.running.wait(time).map_err(|broken: Broken| Failure::from(&broken))?;
        match waited {
            Poll::Ready(Some(Step::Result(row))) => Ok(Poll::Ready(Some(row))),
            Poll::Ready(Some(Step::Failed(failure))) => Err(failure),
            Poll::Ready(Some(Step::End(())) | None) => Ok(Poll::Ready(None)),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    fn whole(&self) -> &Whole {
        &self.whole
    }

    fn close(&self) {
        self.whole.close();
        self.running.close();
    }
}

impl Reading {
    fn next(&self, py: Python<'_>) -> PyResult<Option<Recorded>> {
        self.whole.end();
        self.running.next(py)
    }
}

#[doc = stub!("Records")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Records(Arc<Reading>);

impl Records {
    pub(crate) fn start(catalog: &Path, filter: Filter) -> PyResult<Records> {
        let catalog = catalog.to_path_buf();
        let running = Running::start(true, (Arc::new(Done::default()), None), move |steps| {
            let read = read(&catalog, &filter, steps).map_err(|error| Failure::from(&error));
            steps.end(read);
        })?;
        Ok(Records(Arc::new(Reading { running, whole: Whole::default() })))
    }
}

python_table!(Records, CatalogRecord);

/// Gives the records away, tree by tree, each directory's by name.
fn read(catalog: &Path, filter: &Filter, steps: &Steps<Recorded, ()>) -> Result<(), CatalogError> {
    let store = Catalog::open_to_read(catalog)?;
    store.at_one_moment(|| {
        store.require_complete()?;
        let names = algorithms(&store)?;
        let trees = match &filter.below {
            Some((root, directory)) => vec![(root.clone(), *directory)],
            None => store
                .roots()?
                .into_iter()
                .map(|root| (root.directory, root))
                .map(|(top, root)| (root, top))
                .collect(),
        };
        for (root, directory) in trees {
            let place: Arc<Path> = root.path.as_path().into();
            let mut directories = vec![(root.path.join(store.path_in_root(directory)?), directory)];
            while let Some((path, directory)) = directories.pop() {
                let mut goes_on = true;
                store.records_in(directory, |name, record| {
                    let is_wanted = filter.state.is_none_or(|state| state == record.state)
                        && filter.changed_since.is_none_or(|since| record.changed >= since);
                    if is_wanted {
                        let path = path.join(OsStr::from_bytes(name));
                        let algorithm = name_of(&names, record.algorithm);
                        goes_on = steps.result(Recorded { place: place.clone(), path, algorithm, record });
                    } else {
                        goes_on = !steps.stop().is_due();
                    }
                    goes_on
                })?;
                if !goes_on {
                    return Ok(());
                }
                let mut below = store.directories_in(directory)?;
                below.sort_by(|one, other| one.name.cmp(&other.name));
                let named = |one: KnownDirectory| (path.join(OsStr::from_bytes(&one.name)), one.id);
                directories.extend(below.into_iter().rev().map(named));
            }
        }
        Ok(())
    })
}

fn algorithms(store: &Catalog) -> Result<HashMap<i64, Arc<str>>, CatalogError> {
    Ok(store.algorithms()?.into_iter().map(|(number, name)| (number, name.into())).collect())
}

/// The name of an algorithm; that of a damaged record may be none.
fn name_of(names: &HashMap<i64, Arc<str>>, number: i64) -> Arc<str> {
    names.get(&number).cloned().unwrap_or_else(|| "unknown".into())
}

#[doc = stub!("Problem")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Problem {
    recorded: Recorded,
    finding: RecordFinding,
}

getters! { |problem: Problem|
    tree: &OsStr = problem.recorded.place.as_os_str();
    path: &OsStr = problem.recorded.path.as_os_str();
    path_bytes: &[u8] = problem.recorded.path.as_os_str().as_bytes();
    state: &'static str = problem.recorded.record.state.name();
    algorithm: &str = &problem.recorded.algorithm;
    found: Option<FileState> = problem.finding.read.map(FileState);
    since_ms: i64 = problem.finding.since.milliseconds();
    seen_ms: i64 = problem.finding.seen.milliseconds();
    error: Option<&str> = problem.finding.detail.as_deref();
    recorded: FileState = {
        let Record { size, mtime, ctime, inode, digest, .. } = problem.recorded.record;
        FileState(verisum::catalog::store::Seen { size, mtime, ctime, inode, digest })
    };
}

#[pymethods]
impl Problem {
    fn __repr__(&self) -> String {
        format!("<verisum.Problem {:?}: {}>", self.recorded.path.to_string_lossy(), self.state())
    }
}

#[doc = stub!("Problems")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Problems(Running<Problem, ()>);

impl Problems {
    pub(crate) fn start(catalog: &Path, below: Option<(Root, i64)>) -> PyResult<Problems> {
        let catalog = catalog.to_path_buf();
        let running = Running::start(true, (Arc::new(Done::default()), None), move |steps| {
            let read = read_problems(&catalog, below.as_ref(), steps).map_err(|error| Failure::from(&error));
            steps.end(read);
        })?;
        Ok(Problems(running))
    }
}

python_iterator!(Problems, Problem);

fn read_problems(
    catalog: &Path,
    below: Option<&(Root, i64)>,
    steps: &Steps<Problem, ()>,
) -> Result<(), CatalogError> {
    let store = Catalog::open_to_read(catalog)?;
    store.at_one_moment(|| {
        store.require_complete()?;
        let names = algorithms(&store)?;
        let roots = match below {
            Some((root, _)) => vec![root.clone()],
            None => store.roots()?,
        };
        let inside = match below {
            Some((root, directory)) => root.path.join(store.path_in_root(*directory)?),
            None => PathBuf::new(),
        };
        for root in roots {
            let place: Arc<Path> = root.path.as_path().into();
            let mut after = Position::START;
            loop {
                let page = store.in_trouble(root.id, &after, true, PAGE)?;
                let Some((last, _)) = page.last() else { break };
                after = last.clone();
                for (Position { directory, name, .. }, record) in page {
                    let name = OsStr::from_bytes(&name);
                    let path = root.path.join(store.path_in_root(directory)?).join(name);
                    if !path.starts_with(&inside) {
                        continue;
                    }
                    let finding = store.finding(directory, name)?.unwrap_or_default();
                    let algorithm = name_of(&names, record.algorithm);
                    let recorded = Recorded { place: place.clone(), path, algorithm, record };
                    if !steps.result(Problem { recorded, finding }) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    })
}
