//! `overview`: what state catalogues are in, as `verisum report` tells it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use verisum::catalog::overview::{
    self as engine, AGES, DirectoryOverview, DirectoryPart, Duplicate, KnownCopy, OverviewOptions, Troubled,
};
use verisum::catalog::store::{self, Moment, Seen, State, absolute};

use crate::arguments::{FsPath, Several};
use crate::background::Feed;
use crate::catalog::CatalogRun;
use crate::digests::hex;
use crate::errors::Failure;
use crate::scrub::{FileState, Forecast, Span, Time};

#[doc = stub!("Amount")]
#[pyclass(frozen, get_all, eq, module = "verisum")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amount {
    #[doc = stub!("Amount.files")]
    files: u64,
    #[doc = stub!("Amount.bytes")]
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

#[doc = stub!("Overview")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Overview(Arc<Told>);

/// What objects of an overview share.
struct Told {
    overview: engine::Overview,
    catalogs: Vec<PathBuf>,
    now: Moment,
}

impl Told {
    fn catalog(&self, number: usize) -> &OsStr {
        self.catalogs[number].as_os_str()
    }
}

/// Gives a row of an overview its number, and what it is of.
macro_rules! row {
    ($name:ident, $of:ty, |$told:ident, $number:ident| $row:expr) => {
        #[doc = stub!(stringify!($name))]
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

getters! { |overview: Overview|
    class_: &'static str = overview.0.overview.class().name();
    now_ms: i64 = overview.0.now.milliseconds();
    trees: Vec<TreeOverview> = TreeOverview::all(&overview.0, overview.0.overview.trees.len());
    stale: Amount = overview.0.overview.stale.into();
    stalest_verification_ms: Option<i64> = overview.0.overview.oldest().map(Moment::milliseconds);
    damaged: u64 = overview.0.overview.count(|state| state == State::DAMAGED);
    directories: Vec<Directory> = Directory::all(&overview.0, overview.0.overview.directories.len());
    troubled: Vec<TroubledFile> = TroubledFile::all(&overview.0, overview.0.overview.troubled.len());
    only: Amount = overview.0.overview.content.only.into();
    one_tree: Amount = overview.0.overview.content.one_tree.into();
    several_trees: Amount = overview.0.overview.content.several_trees.into();
    extra: Amount = overview.0.overview.content.extra.into();
    duplicates: Vec<SharedContent> =
        SharedContent::all(&overview.0, overview.0.overview.content.largest.len());
    stalest: Vec<Directory> = {
        let engine::Overview { directories, stalest, .. } = &overview.0.overview;
        Directory::all(&overview.0, directories.len() + stalest.len()).split_off(directories.len())
    };
}

#[pymethods]
impl Overview {
    #[doc = stub!("Overview.ages")]
    #[getter]
    fn ages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ages = PyDict::new(py);
        for ((name, _), amount) in AGES.iter().zip(self.0.overview.ages) {
            ages.set_item(name, Amount::from(amount).into_pyobject(py)?)?;
        }
        Ok(ages)
    }

    #[doc = stub!("Overview.digests")]
    #[getter]
    fn digests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let digests = PyDict::new(py);
        for (name, amount) in &self.0.overview.digests {
            digests.set_item(name, Amount::from(*amount).into_pyobject(py)?)?;
        }
        Ok(digests)
    }

    #[doc = stub!("Overview.months")]
    #[getter]
    fn months<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let months = PyDict::new(py);
        for (month, amount) in &self.0.overview.months {
            let name = format!("{:04}-{:02}", 1970 + month.div_euclid(12), month.rem_euclid(12) + 1);
            months.set_item(name, Amount::from(*amount).into_pyobject(py)?)?;
        }
        Ok(months)
    }

    fn __repr__(&self) -> String {
        format!("<verisum.Overview of {} trees: {}>", self.0.overview.trees.len(), self.class_())
    }
}

getters! { |tree: TreeOverview|
    catalog: &OsStr = tree.told.catalog(tree.row().catalog);
    path: &OsStr = tree.row().root.path.as_os_str();
    path_bytes: &[u8] = tree.row().root.path.as_os_str().as_bytes();
    files: u64 = tree.row().root.files;
    bytes: u64 = tree.row().root.bytes;
    wanted: u64 = tree.row().wanted;
    mendable: u64 = tree.row().mendable;
    stalest_verification_ms: Option<i64> = tree.row().oldest.map(Moment::milliseconds);
    stale: Amount = tree.row().stale.into();
    only: Amount = tree.row().only.into();
    repairs: Vec<RecordedRepair> = tree.row().repairs.iter().cloned().map(RecordedRepair).collect();
    forecast: Option<Forecast> = tree.row().forecast.as_ref().map(Forecast::from);
    runs: Vec<CatalogRun> = {
        // One that goes on has the lock; whoever asks for that has `Catalog.runs`.
        tree.row().runs.iter().map(|run| CatalogRun::new(run.clone(), false)).collect()
    };
}

#[pymethods]
impl TreeOverview {
    #[doc = stub!("TreeOverview.troubles")]
    #[getter]
    fn troubles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let troubles = PyDict::new(py);
        for (state, count) in &self.row().troubles {
            troubles.set_item(state.name(), count)?;
        }
        Ok(troubles)
    }

    fn __repr__(&self) -> String {
        format!("<verisum.TreeOverview {:?}: {} files>", self.row().root.path.to_string_lossy(), self.files())
    }
}

getters! { |directory: Directory|
    catalog: &OsStr = directory.told.catalog(directory.row().catalog);
    path: &OsStr = directory.row().path.as_os_str();
    path_bytes: &[u8] = directory.row().path.as_os_str().as_bytes();
    files: u64 = directory.row().amount.files;
    bytes: u64 = directory.row().amount.bytes;
    stalest_verification_ms: Option<i64> = directory.row().oldest.map(Moment::milliseconds);
    part: &'static str = match directory.row().part {
        DirectoryPart::All => "all",
        DirectoryPart::Own => "own",
        DirectoryPart::Others(_) => "others",
    };
    others: usize = match directory.row().part {
        DirectoryPart::Others(count) => count,
        _ => 0,
    };
}

#[pymethods]
impl Directory {
    fn __repr__(&self) -> String {
        format!("<verisum.Directory {:?}: {}>", self.row().path.to_string_lossy(), self.part())
    }
}

getters! { |file: TroubledFile|
    catalog: &OsStr = file.told.catalog(file.row().catalog);
    path: &OsStr = file.row().file.path.as_os_str();
    path_bytes: &[u8] = file.row().file.path.as_os_str().as_bytes();
    state: &'static str = file.row().file.record.state.name();
    algorithm: &str = &file.row().file.algorithm;
    last_verified_ms: i64 = file.row().file.record.verified.milliseconds();
    found: Option<FileState> = file.row().finding.as_ref()?.read.map(FileState);
    since_ms: Option<i64> = file.row().finding.as_ref().map(|finding| finding.since.milliseconds());
    error: Option<&str> = file.row().finding.as_ref()?.detail.as_deref();
    copy: Option<&OsStr> = file.row().copy.as_ref().map(|KnownCopy { path, .. }| path.as_os_str());
    copy_catalog: Option<&OsStr> = file.row().copy.as_ref().map(|copy| file.told.catalog(copy.catalog));
    recorded: Option<FileState> = {
        let file = &file.row().file;
        file.is_recorded().then(|| FileState(Seen::of(&file.record)))
    };
}

#[pymethods]
impl TroubledFile {
    fn __repr__(&self) -> String {
        format!("<verisum.TroubledFile {:?}: {}>", self.row().file.path.to_string_lossy(), self.state())
    }
}

getters! { |content: SharedContent|
    algorithm: &str = &content.row().algorithm;
    hexdigest: &str = &content.row().digest;
    size: u64 = content.row().size;
    files: u64 = content.row().files;
    path: &OsStr = content.row().path.as_os_str();
}

#[pymethods]
impl SharedContent {
    fn __repr__(&self) -> String {
        let Duplicate { files, size, .. } = self.row();
        format!("<verisum.SharedContent of {files} files, {size} bytes each>")
    }
}

#[doc = stub!("RecordedRepair")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct RecordedRepair(engine::RepairedFile);

getters! { |repair: RecordedRepair|
    path: &OsStr = repair.0.path.as_os_str();
    path_bytes: &[u8] = repair.0.path.as_os_str().as_bytes();
    repaired_ms: i64 = repair.0.repair.repaired.milliseconds();
    was: &'static str = repair.0.repair.state.name();
    source: &OsStr = repair.0.repair.source.as_os_str();
    bytes: u64 = repair.0.repair.bytes;
    algorithm: &str = &repair.0.algorithm;
    before_hexdigest: Option<String> = repair.0.repair.before.as_ref().map(|before| hex(before.as_bytes()));
    hexdigest: String = hex(repair.0.repair.digest.as_bytes());
}

#[pymethods]
impl RecordedRepair {
    fn __repr__(&self) -> String {
        format!("<verisum.RecordedRepair {:?}: was {}>", self.0.path.to_string_lossy(), self.was())
    }
}

#[doc = stub!("overview")]
#[pyfunction]
#[pyo3(signature = (
    catalogs, *, max_age=None, now=None, directories=48, troubled=500, duplicates=12, runs=16, repairs=100
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn overview(
    py: Python<'_>,
    catalogs: Several<FsPath>,
    max_age: Option<Span>,
    now: Option<Time>,
    #[pyo3(from_py_with = crate::arguments::whole)] directories: usize,
    #[pyo3(from_py_with = crate::arguments::whole)] troubled: usize,
    #[pyo3(from_py_with = crate::arguments::whole)] duplicates: usize,
    #[pyo3(from_py_with = crate::arguments::whole)] runs: usize,
    #[pyo3(from_py_with = crate::arguments::whole)] repairs: usize,
) -> PyResult<Overview> {
    let paths = catalogs.paths();
    if paths.is_empty() {
        return Err(PyValueError::new_err("catalogs: none is named"));
    }
    let mut options = OverviewOptions::new(now.map_or_else(Moment::now, |time| time.0));
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

fn told(paths: &[PathBuf], options: &OverviewOptions) -> Result<Told, store::CatalogError> {
    let open = |path: &Path| {
        let path = absolute(path)?;
        Ok::<_, store::CatalogError>((store::Catalog::open_to_read(&path)?, path))
    };
    let opened = paths.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let (stores, catalogs): (Vec<store::Catalog>, Vec<PathBuf>) = opened.into_iter().unzip();
    let overview = engine::Overview::of(&stores, options)?;
    Ok(Told { overview, catalogs, now: options.now })
}
