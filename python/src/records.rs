//! The records of a catalogue one by one, and those of files that are not as recorded.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use verisum::catalog::store::{Catalog, Error, Finding, Position, Record, Root, State};

use crate::arrow::{ArrowStream, Table};
use crate::background::Broken;
use crate::digests::hex;
use crate::errors::Failure;
use crate::iterator::{Done, Running, Step, Steps, python_iterator};
use crate::parquet;
use crate::place::fs_path;
use crate::record_columns::RecordColumns;
use crate::scrub::{FileState, known};

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
    /// Those whose content is new since then, in milliseconds since 1970.
    pub(crate) changed_since: Option<i64>,
}

/// What is recorded of a file.
#[pyclass(frozen, module = "verisum", name = "Record")]
pub(crate) struct CatalogRecord(Recorded);

impl From<Recorded> for CatalogRecord {
    fn from(recorded: Recorded) -> CatalogRecord {
        CatalogRecord(recorded)
    }
}

#[pymethods]
impl CatalogRecord {
    #[getter]
    fn tree(&self) -> &OsStr {
        self.0.place.as_os_str()
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.0.path.as_os_str()
    }

    #[getter]
    fn path_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.path.as_os_str().as_bytes())
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.record.size
    }

    #[getter]
    fn mtime_ns(&self) -> i64 {
        self.0.record.mtime
    }

    #[getter]
    fn ctime_ns(&self) -> Option<i64> {
        known(self.0.record.ctime)
    }

    #[getter]
    fn inode(&self) -> Option<u64> {
        Some(self.0.record.inode).filter(|inode| *inode != 0)
    }

    #[getter]
    fn algorithm(&self) -> &str {
        &self.0.algorithm
    }

    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.record.digest.as_bytes())
    }

    #[getter]
    fn hexdigest(&self) -> String {
        hex(self.0.record.digest.as_bytes())
    }

    #[getter]
    fn first_seen_ms(&self) -> i64 {
        self.0.record.first_seen
    }

    #[getter]
    fn last_changed_ms(&self) -> i64 {
        self.0.record.changed
    }

    #[getter]
    fn last_verified_ms(&self) -> i64 {
        self.0.record.verified
    }

    #[getter]
    fn state(&self) -> &'static str {
        self.0.record.state.name()
    }

    fn __repr__(&self) -> String {
        format!("<verisum.Record {:?}: {}>", self.0.path.to_string_lossy(), self.state())
    }
}

/// Records as they are read.
pub(crate) struct Reading(Running<Recorded, ()>);

impl Table for Reading {
    type Row = Recorded;
    type Columns = RecordColumns;

    fn columns(&self) -> RecordColumns {
        RecordColumns::default()
    }

    fn wait(&self, time: Duration) -> Result<Poll<Option<Recorded>>, Failure> {
        let waited = self.0.wait(time).map_err(|broken: Broken| Failure::from(&broken))?;
        match waited {
            Poll::Ready(Some(Step::Result(row))) => Ok(Poll::Ready(Some(row))),
            Poll::Ready(Some(Step::Failed(failure))) => Err(failure),
            Poll::Ready(Some(Step::End(())) | None) => Ok(Poll::Ready(None)),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    fn close(&self) {
        self.0.close();
    }
}

impl Reading {
    fn next(&self, py: Python<'_>) -> PyResult<Option<Recorded>> {
        self.0.next(py)
    }
}

/// The records of a catalogue.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Records(Arc<Reading>);

impl Records {
    pub(crate) fn start(catalog: &Path, filter: Filter) -> PyResult<Records> {
        let catalog = catalog.to_path_buf();
        let running = Running::start(true, (Arc::new(Done::default()), None), move |steps| {
            let read = read(&catalog, &filter, steps).map_err(|error| Failure::from(&error));
            steps.end(read);
        })?;
        Ok(Records(Arc::new(Reading(running))))
    }
}

#[pymethods]
impl Records {
    #[pyo3(signature = (*, batch_rows=16384))]
    fn to_arrow(&self, batch_rows: usize) -> PyResult<ArrowStream> {
        ArrowStream::new(&self.0, batch_rows)
    }

    /// Writes what rows are left to a Parquet file, and says how many there were.
    #[pyo3(signature = (path, *, progress=None))]
    fn to_parquet(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        parquet::write(py, &*self.0, &fs_path(path)?, progress)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.to_arrow(16384)?.__arrow_c_stream__(py, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_arrow(1)?.__arrow_c_schema__(py)
    }
}

python_iterator!(Records, CatalogRecord);

/// Gives the records away, tree by tree, each directory's by name.
fn read(catalog: &Path, filter: &Filter, steps: &Steps<Recorded, ()>) -> Result<(), Error> {
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
                        goes_on = !steps.is_over();
                    }
                    goes_on
                })?;
                if !goes_on {
                    return Ok(());
                }
                let mut below = store.directories_in(directory)?;
                below.sort();
                let named = |(name, id, _): (Vec<u8>, i64, u64)| (path.join(OsStr::from_bytes(&name)), id);
                directories.extend(below.into_iter().rev().map(named));
            }
        }
        Ok(())
    })
}

fn algorithms(store: &Catalog) -> Result<HashMap<i64, Arc<str>>, Error> {
    Ok(store.algorithms()?.into_iter().map(|(number, name)| (number, name.into())).collect())
}

/// The name of an algorithm; that of a damaged record may be none.
fn name_of(names: &HashMap<i64, Arc<str>>, number: i64) -> Arc<str> {
    names.get(&number).cloned().unwrap_or_else(|| "unknown".into())
}

/// A file that is not as recorded.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Problem {
    recorded: Recorded,
    finding: Finding,
}

#[pymethods]
impl Problem {
    #[getter]
    fn tree(&self) -> &OsStr {
        self.recorded.place.as_os_str()
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.recorded.path.as_os_str()
    }

    #[getter]
    fn path_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.recorded.path.as_os_str().as_bytes())
    }

    #[getter]
    fn state(&self) -> &'static str {
        self.recorded.record.state.name()
    }

    #[getter]
    fn algorithm(&self) -> &str {
        &self.recorded.algorithm
    }

    #[getter]
    fn recorded(&self) -> FileState {
        let Record { size, mtime, ctime, inode, digest, .. } = self.recorded.record;
        FileState(verisum::catalog::store::Seen { size, mtime, ctime, inode, digest })
    }

    #[getter]
    fn found(&self) -> Option<FileState> {
        self.finding.read.map(FileState)
    }

    #[getter]
    fn since_ms(&self) -> i64 {
        self.finding.since
    }

    #[getter]
    fn seen_ms(&self) -> i64 {
        self.finding.seen
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        self.finding.detail.as_deref()
    }

    fn __repr__(&self) -> String {
        format!("<verisum.Problem {:?}: {}>", self.recorded.path.to_string_lossy(), self.state())
    }
}

/// The files of a catalogue that are not as recorded.
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
) -> Result<(), Error> {
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
