//! `overview`: what state catalogues are in, as `verisum report` tells it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use verisum::catalog::overview::{
    self as engine, AGES, DirectoryOverview, DirectoryPart, Duplicate, KnownCopy, OverviewOptions, Troubled,
};
use verisum::catalog::store::{self, Record, Seen, absolute};
use verisum::files::Timestamp;

use crate::background::Feed;
use crate::catalog::CatalogRun;
use crate::digests::hex;
use crate::errors::Failure;
use crate::place;
use crate::scrub::{FileState, Forecast, Moment, Span};

/// So many files, and the sum of their lengths.
#[pyclass(frozen, get_all, eq, module = "verisum")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amount {
    files: u64,
    bytes: u64,
}

impl From<engine::Amount> for Amount {
    fn from(engine::Amount { files, bytes }: engine::Amount) -> Amount {
        Amount { files, bytes }
    }
}

#[pymethods]
impl Amount {
    fn __repr__(&self) -> String {
        format!("<verisum.Amount {} files, {} bytes>", self.files, self.bytes)
    }
}

/// The state of catalogues.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Overview(Arc<Told>);

/// What objects of an overview share.
struct Told {
    overview: engine::Overview,
    catalogs: Vec<PathBuf>,
    now: i64,
}

impl Told {
    fn catalog(&self, number: usize) -> &OsStr {
        self.catalogs[number].as_os_str()
    }
}

/// Gives a row of an overview its number, and what it is of.
macro_rules! row {
    ($name:ident, $of:ty, |$told:ident, $number:ident| $row:expr) => {
        #[pyclass(frozen, module = "verisum")]
        pub(crate) struct $name {
            told: Arc<Told>,
            number: usize,
        }

        impl $name {
            fn row(&self) -> &$of {
                let ($told, $number) = (&self.told.overview, self.number);
                $row
            }

            fn all(told: &Arc<Told>, count: usize) -> Vec<$name> {
                (0..count).map(|number| $name { told: told.clone(), number }).collect()
            }
        }
    };
}

row!(TreeOverview, engine::TreeOverview, |told, number| &told.trees[number]);
row!(Directory, DirectoryOverview, |told, number| match number.checked_sub(told.directories.len()) {
    // The stalest follow the others.
    Some(number) => &told.stalest[number],
    None => &told.directories[number],
});
row!(TroubledFile, Troubled, |told, number| &told.troubled[number]);
row!(SharedContent, Duplicate, |told, number| &told.content.largest[number]);

#[pymethods]
impl Overview {
    #[getter]
    fn class_(&self) -> &'static str {
        self.0.overview.class().name()
    }

    #[getter]
    fn now_ms(&self) -> i64 {
        self.0.now
    }

    #[getter]
    fn trees(&self) -> Vec<TreeOverview> {
        TreeOverview::all(&self.0, self.0.overview.trees.len())
    }

    #[getter]
    fn ages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ages = PyDict::new(py);
        for ((name, _), amount) in AGES.iter().zip(self.0.overview.ages) {
            ages.set_item(name, Amount::from(amount).into_pyobject(py)?)?;
        }
        Ok(ages)
    }

    #[getter]
    fn digests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let digests = PyDict::new(py);
        for (name, amount) in &self.0.overview.digests {
            digests.set_item(name, Amount::from(*amount).into_pyobject(py)?)?;
        }
        Ok(digests)
    }

    #[getter]
    fn months<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let months = PyDict::new(py);
        for (month, amount) in &self.0.overview.months {
            let name = format!("{:04}-{:02}", 1970 + month.div_euclid(12), month.rem_euclid(12) + 1);
            months.set_item(name, Amount::from(*amount).into_pyobject(py)?)?;
        }
        Ok(months)
    }

    #[getter]
    fn stale(&self) -> Amount {
        self.0.overview.stale.into()
    }

    #[getter]
    fn stalest_verification_ms(&self) -> Option<i64> {
        self.0.overview.oldest()
    }

    #[getter]
    fn damaged(&self) -> u64 {
        self.0.overview.damaged
    }

    #[getter]
    fn directories(&self) -> Vec<Directory> {
        Directory::all(&self.0, self.0.overview.directories.len())
    }

    #[getter]
    fn stalest(&self) -> Vec<Directory> {
        let engine::Overview { directories, stalest, .. } = &self.0.overview;
        Directory::all(&self.0, directories.len() + stalest.len()).split_off(directories.len())
    }

    #[getter]
    fn troubled(&self) -> Vec<TroubledFile> {
        TroubledFile::all(&self.0, self.0.overview.troubled.len())
    }

    #[getter]
    fn only(&self) -> Amount {
        self.0.overview.content.only.into()
    }

    #[getter]
    fn one_tree(&self) -> Amount {
        self.0.overview.content.one_tree.into()
    }

    #[getter]
    fn several_trees(&self) -> Amount {
        self.0.overview.content.several_trees.into()
    }

    #[getter]
    fn extra(&self) -> Amount {
        self.0.overview.content.extra.into()
    }

    #[getter]
    fn duplicates(&self) -> Vec<SharedContent> {
        SharedContent::all(&self.0, self.0.overview.content.largest.len())
    }

    fn __repr__(&self) -> String {
        format!("<verisum.Overview of {} trees: {}>", self.0.overview.trees.len(), self.class_())
    }
}

#[pymethods]
impl TreeOverview {
    #[getter]
    fn catalog(&self) -> &OsStr {
        self.told.catalog(self.row().catalog)
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.row().root.path.as_os_str()
    }

    #[getter]
    fn path_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.row().root.path.as_os_str().as_bytes())
    }

    #[getter]
    fn files(&self) -> u64 {
        self.row().root.files
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.row().root.bytes
    }

    #[getter]
    fn troubles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let troubles = PyDict::new(py);
        for (state, count) in &self.row().troubles {
            troubles.set_item(state.name(), count)?;
        }
        Ok(troubles)
    }

    #[getter]
    fn wanted(&self) -> u64 {
        self.row().wanted
    }

    #[getter]
    fn mendable(&self) -> u64 {
        self.row().mendable
    }

    #[getter]
    fn stalest_verification_ms(&self) -> Option<i64> {
        self.row().oldest
    }

    #[getter]
    fn stale(&self) -> Amount {
        self.row().stale.into()
    }

    #[getter]
    fn only(&self) -> Amount {
        self.row().only.into()
    }

    #[getter]
    fn runs(&self) -> Vec<CatalogRun> {
        // One that goes on has the lock; whoever asks for that has `Catalog.runs`.
        self.row().runs.iter().map(|run| CatalogRun::new(run.clone(), false)).collect()
    }

    #[getter]
    fn repairs(&self) -> Vec<RecordedRepair> {
        self.row().repairs.iter().cloned().map(RecordedRepair).collect()
    }

    #[getter]
    fn forecast(&self) -> Option<Forecast> {
        self.row().forecast.as_ref().map(Forecast::from)
    }

    fn __repr__(&self) -> String {
        format!("<verisum.TreeOverview {:?}: {} files>", self.row().root.path.to_string_lossy(), self.files())
    }
}

#[pymethods]
impl Directory {
    #[getter]
    fn catalog(&self) -> &OsStr {
        self.told.catalog(self.row().catalog)
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.row().path.as_os_str()
    }

    #[getter]
    fn path_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.row().path.as_os_str().as_bytes())
    }

    #[getter]
    fn part(&self) -> &'static str {
        match self.row().part {
            DirectoryPart::All => "all",
            DirectoryPart::Own => "own",
            DirectoryPart::Others(_) => "others",
        }
    }

    #[getter]
    fn others(&self) -> usize {
        match self.row().part {
            DirectoryPart::Others(count) => count,
            _ => 0,
        }
    }

    #[getter]
    fn files(&self) -> u64 {
        self.row().amount.files
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.row().amount.bytes
    }

    #[getter]
    fn stalest_verification_ms(&self) -> Option<i64> {
        self.row().oldest
    }

    fn __repr__(&self) -> String {
        format!("<verisum.Directory {:?}: {}>", self.row().path.to_string_lossy(), self.part())
    }
}

#[pymethods]
impl TroubledFile {
    #[getter]
    fn catalog(&self) -> &OsStr {
        self.told.catalog(self.row().catalog)
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.row().file.path.as_os_str()
    }

    #[getter]
    fn path_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.row().file.path.as_os_str().as_bytes())
    }

    #[getter]
    fn state(&self) -> &'static str {
        self.row().file.record.state.name()
    }

    #[getter]
    fn algorithm(&self) -> &str {
        &self.row().file.algorithm
    }

    #[getter]
    fn recorded(&self) -> FileState {
        let Record { size, mtime, ctime, inode, digest, .. } = self.row().file.record;
        FileState(Seen { size, mtime, ctime, inode, digest })
    }

    #[getter]
    fn last_verified_ms(&self) -> i64 {
        self.row().file.record.verified
    }

    #[getter]
    fn found(&self) -> Option<FileState> {
        self.row().finding.as_ref()?.read.map(FileState)
    }

    #[getter]
    fn since_ms(&self) -> Option<i64> {
        self.row().finding.as_ref().map(|finding| finding.since)
    }

    #[getter]
    fn error(&self) -> Option<&str> {
        self.row().finding.as_ref()?.detail.as_deref()
    }

    #[getter]
    fn copy(&self) -> Option<&OsStr> {
        self.row().copy.as_ref().map(|KnownCopy { path, .. }| path.as_os_str())
    }

    #[getter]
    fn copy_catalog(&self) -> Option<&OsStr> {
        self.row().copy.as_ref().map(|copy| self.told.catalog(copy.catalog))
    }

    fn __repr__(&self) -> String {
        format!("<verisum.TroubledFile {:?}: {}>", self.row().file.path.to_string_lossy(), self.state())
    }
}

#[pymethods]
impl SharedContent {
    #[getter]
    fn algorithm(&self) -> &str {
        &self.row().algorithm
    }

    #[getter]
    fn hexdigest(&self) -> &str {
        &self.row().digest
    }

    #[getter]
    fn size(&self) -> u64 {
        self.row().size
    }

    #[getter]
    fn files(&self) -> u64 {
        self.row().files
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.row().path.as_os_str()
    }

    fn __repr__(&self) -> String {
        let Duplicate { files, size, .. } = self.row();
        format!("<verisum.SharedContent of {files} files, {size} bytes each>")
    }
}

/// A repair that a catalogue has recorded.
#[pyclass(frozen, module = "verisum")]
pub(crate) struct RecordedRepair(engine::RepairedFile);

#[pymethods]
impl RecordedRepair {
    #[getter]
    fn path(&self) -> &OsStr {
        self.0.path.as_os_str()
    }

    #[getter]
    fn path_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.path.as_os_str().as_bytes())
    }

    #[getter]
    fn repaired_ms(&self) -> i64 {
        self.0.repair.repaired
    }

    #[getter]
    fn was(&self) -> &'static str {
        self.0.repair.state.name()
    }

    #[getter]
    fn source(&self) -> &OsStr {
        self.0.repair.source.as_os_str()
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.repair.bytes
    }

    #[getter]
    fn algorithm(&self) -> &str {
        &self.0.algorithm
    }

    #[getter]
    fn before_hexdigest(&self) -> Option<String> {
        self.0.repair.before.as_ref().map(|before| hex(before.as_bytes()))
    }

    #[getter]
    fn hexdigest(&self) -> String {
        hex(self.0.repair.digest.as_bytes())
    }

    fn __repr__(&self) -> String {
        format!("<verisum.RecordedRepair {:?}: was {}>", self.0.path.to_string_lossy(), self.was())
    }
}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/overview"))]
#[pyfunction]
#[pyo3(signature = (
    catalogs, *, max_age=None, now=None, directories=48, troubled=500, duplicates=12, runs=16, repairs=100
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn overview(
    py: Python<'_>,
    catalogs: &Bound<'_, PyAny>,
    max_age: Option<Span>,
    now: Option<Moment>,
    directories: usize,
    troubled: usize,
    duplicates: usize,
    runs: usize,
    repairs: usize,
) -> PyResult<Overview> {
    let paths = place::paths(catalogs)?;
    let mut options = OverviewOptions::new(now.map_or_else(this_moment, |moment| moment.0));
    options.max_age = max_age.map(|span| span.0);
    (options.directories, options.troubled, options.duplicates) = (directories, troubled, duplicates);
    (options.runs, options.repairs) = (runs, repairs);
    // It only reads: whoever presses Ctrl-C waits for nothing.
    let feed = Feed::start(false, move |outlet| {
        outlet.give(told(&paths, &options));
    })?;
    match feed.next(py, &mut |_| Ok(()))? {
        Some(told) => {
            told.map(|told| Overview(Arc::new(told))).map_err(|error| Failure::from(&error).raise(py))
        }
        None => Err(crate::background::Broken::Panicked.raise()),
    }
}

fn this_moment() -> i64 {
    Timestamp::now().milliseconds().unwrap_or(i64::MAX)
}

fn told(paths: &[PathBuf], options: &OverviewOptions) -> Result<Told, store::Error> {
    let open = |path: &Path| {
        let path = absolute(path)?;
        Ok::<_, store::Error>((store::Catalog::open_to_read(&path)?, path))
    };
    let opened = paths.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let (stores, catalogs): (Vec<store::Catalog>, Vec<PathBuf>) = opened.into_iter().unzip();
    let overview = engine::Overview::of(&stores, options)?;
    Ok(Told { overview, catalogs, now: options.now })
}
