//! `Catalog`: what is recorded of trees, and how their scrubs went; and `accept`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::catalog::scrub::{self, Accept, Accepted, PlaceTree};
use verisum::catalog::store::{self, Lock, Moment, Root, Run, State, absolute, absolute_name, is_address};
use verisum::files::place::{PlaceEvent, StoppingPlace};
use verisum::files::{FUTURE, Timestamp, lock};
use verisum::lake::LakeExport;
use verisum::remote::{Address, Host};

use crate::arguments::FsPath;
use crate::errors::{Failure, Kind, by_arguments};
use crate::hash::find;
use crate::hosts::{Hosts, Reach};
use crate::interrupt::interruptible;
use crate::place;
use crate::records::{Filter, Problems, Records};
use crate::scrub::{FileState, Time};

#[doc = stub!("Catalog")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct Catalog {
    pub(crate) path: PathBuf,
    pub(crate) store: Mutex<store::Catalog>,
}

#[doc = stub!("CatalogTree")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct CatalogTree {
    root: Root,
    troubles: BTreeMap<&'static str, u64>,
    stalest_verification_ms: Option<i64>,
}

getters! { |tree: CatalogTree|
    path: &OsStr = tree.root.path.as_os_str();
    path_bytes: &[u8] = tree.root.path.as_os_str().as_bytes();
    files: u64 = tree.root.files;
    bytes: u64 = tree.root.bytes;
    troubles: BTreeMap<&'static str, u64> = tree.troubles.clone();
    stalest_verification_ms: Option<i64> = tree.stalest_verification_ms;
}

impl CatalogTree {
    pub(crate) fn read(store: &store::Catalog, root: Root) -> Result<CatalogTree, store::CatalogError> {
        let troubles = store.troubles(root.id)?;
        let troubles = troubles.into_iter().map(|(state, count)| (state.name(), count)).collect();
        let until = Moment::now() + FUTURE;
        let stalest_verification_ms = store.oldest(root.id, until)?.map(Moment::milliseconds);
        Ok(CatalogTree { root, troubles, stalest_verification_ms })
    }
}

#[pymethods]
impl CatalogTree {
    fn __repr__(&self) -> String {
        format!("<verisum.CatalogTree {:?}: {} files>", self.root.path.to_string_lossy(), self.root.files)
    }
}

fields! {
    CatalogRun {
        started_ms: i64,
        finished_ms: Option<i64>,
        how: &'static str,
        error: Option<String>,
        seconds: f64,
        read_files: u64,
        read_bytes: u64,
        counts: BTreeMap<String, u64>,
    }
}

#[pymethods]
impl CatalogRun {
    fn __repr__(&self) -> String {
        format!("<verisum.CatalogRun {}: {}, {} files read>", self.started_ms, self.how, self.read_files)
    }
}

impl CatalogRun {
    pub(crate) fn new(run: Run, goes_on: bool) -> CatalogRun {
        CatalogRun {
            started_ms: run.started.milliseconds(),
            finished_ms: run.finished.map(Moment::milliseconds),
            how: run.how(goes_on),
            counts: run.verdicts(),
            error: run.error,
            seconds: run.seconds,
            read_files: run.read_files,
            read_bytes: run.read_bytes,
        }
    }
}

getters! { |catalog: Catalog|
    path: &OsStr = catalog.path.as_os_str();
    rehash_target(py): PyResult<Option<String>> = catalog.read(py, store::Catalog::rehash_target);
    algorithms(py): PyResult<BTreeMap<String, u64>> =
        catalog.read(py, |store| Ok(store.files_by_algorithm(None)?.into_iter().collect()));
}

#[pymethods]
impl Catalog {
    #[new]
    #[pyo3(signature = (path))]
    fn open(py: Python<'_>, path: FsPath) -> PyResult<Catalog> {
        let path = path.path;
        let opened = py.detach(|| {
            let path = absolute(&path)?;
            let store = store::Catalog::open_to_read(&path)?;
            store.require_complete()?;
            Ok((path, store))
        });
        let (path, store) = opened.map_err(|error| raise(py, &error))?;
        Ok(Catalog { path, store: Mutex::new(store) })
    }

    #[doc = stub!("Catalog.trees")]
    fn trees(&self, py: Python<'_>) -> PyResult<Vec<CatalogTree>> {
        self.read(py, |store| store.roots()?.into_iter().map(|root| CatalogTree::read(store, root)).collect())
    }

    #[doc = stub!("Catalog.runs")]
    #[pyo3(signature = (tree, *, most=1000))]
    fn runs(
        &self,
        py: Python<'_>,
        tree: FsPath,
        #[pyo3(from_py_with = crate::arguments::whole)] most: usize,
    ) -> PyResult<Vec<CatalogRun>> {
        let wanted = Wanted::of(tree);
        let found = self.read(py, |store| {
            let Some(root) = wanted.root(store)? else { return Ok(None) };
            let mut last = None;
            for other in store.roots()? {
                last = last.max(store.runs(other.id, 1)?.first().map(|run| run.id));
            }
            let runs = store.runs(root.id, most)?;
            // One goes on at a time, and it is the last that was begun.
            let goes_on = last.filter(|_| Lock::is_taken(store.path()));
            let run = |run: Run| (goes_on == Some(run.id), run);
            Ok(Some(runs.into_iter().map(run).map(|(on, run)| CatalogRun::new(run, on)).collect()))
        });
        found?.ok_or_else(|| wanted.unknown(&self.path).raise(py))
    }

    #[doc = stub!("Catalog.rows")]
    #[pyo3(signature = (tree=None, *, state=None, changed_since=None))]
    fn rows(
        &self,
        py: Python<'_>,
        tree: Option<FsPath>,
        state: Option<&str>,
        changed_since: Option<Time>,
    ) -> PyResult<Records> {
        let state = state.map(known_state).transpose()?;
        let below = self.below(py, tree)?;
        Records::start(&self.path, Filter { below, state, changed_since: changed_since.map(|time| time.0) })
    }

    #[doc = stub!("Catalog.problems")]
    #[pyo3(signature = (tree=None))]
    fn problems(&self, py: Python<'_>, tree: Option<FsPath>) -> PyResult<Problems> {
        let below = self.below(py, tree)?;
        Problems::start(&self.path, below)
    }

    #[doc = stub!("Catalog.export")]
    fn export(&self, py: Python<'_>, lake: FsPath) -> PyResult<BTreeMap<&'static str, u64>> {
        let lake = lake.path;
        let exported = interruptible(py, &mut |_| Ok(()), |stop| {
            let store = lock(&self.store);
            verisum::lake::export(&store, &lake, Timestamp::now(), stop)
        })?;
        let LakeExport { changed, gone, unchanged, damaged } =
            exported.map_err(|error| Failure::from(&error).raise(py))?;
        let counts = [("changed", changed), ("gone", gone), ("unchanged", unchanged), ("damaged", damaged)];
        Ok(counts.into())
    }

    #[doc = stub!("Catalog.import_lake")]
    #[staticmethod]
    fn import_lake(py: Python<'_>, path: FsPath, lake: FsPath) -> PyResult<BTreeMap<&'static str, u64>> {
        let (path, lake) = (path.path, lake.path);
        let imported = interruptible(py, &mut |_| Ok(()), |stop| {
            let path = absolute(&path).map_err(|error| Failure::from(&error))?;
            let is_new = path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
            let lock = Lock::take(&path).map_err(|error| Failure::from(&error))?;
            let store = store::Catalog::open(&path).map_err(|error| Failure::from(&error))?;
            let imported = verisum::lake::import(&store, &lake, Timestamp::now(), stop);
            // Another run may have made it meanwhile.
            if is_new && imported.is_err() && store.roots().is_ok_and(|roots| roots.is_empty()) {
                drop(store);
                lock.discard(&path).map_err(|error| Failure::from(&error))?;
            }
            imported.map_err(|error| Failure::from(&error))
        })?;
        let imported = imported.map_err(|failure| failure.raise(py))?;
        let counts =
            [("added", imported.added), ("known", imported.known), ("differing", imported.differing)];
        Ok(counts.into())
    }

    fn __repr__(&self) -> String {
        format!("<verisum.Catalog {:?}>", self.path.to_string_lossy())
    }
}

impl Catalog {
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&store::Catalog) -> Result<T, store::CatalogError> + Send,
    ) -> PyResult<T> {
        let found = py.detach(|| {
            let store: MutexGuard<store::Catalog> = lock(&self.store);
            store.at_one_moment(|| read(&store))
        });
        found.map_err(|error| raise(py, &error))
    }

    /// The directory that rows are wanted of.
    fn below(&self, py: Python<'_>, tree: Option<FsPath>) -> PyResult<Option<(Root, i64)>> {
        let Some(tree) = tree else { return Ok(None) };
        let wanted = Wanted::of(tree);
        let found = self.read(py, |store| wanted.find(store))?;
        found.map(Some).ok_or_else(|| wanted.unknown(&self.path).raise(py))
    }
}

fn raise(py: Python<'_>, error: &store::CatalogError) -> PyErr {
    Failure::from(error).raise(py)
}

fn known_state(name: &str) -> PyResult<State> {
    State::find(name).ok_or_else(|| PyValueError::new_err(format!("state: {name:?} is no state of a record")))
}

/// Opens a catalogue to write.
pub(crate) fn open_to_write(path: &Path) -> Result<(Lock, store::Catalog), store::CatalogError> {
    let path = absolute(path)?;
    // Before the lock, which would be a file beside nothing.
    path.metadata().map_err(|source| store::CatalogError::Io {
        path: path.clone(),
        operation: "open",
        source,
    })?;
    Ok((Lock::take(&path)?, store::Catalog::open_existing(&path)?))
}

/// A tree, or something in it, as a user names it.
pub(crate) struct Wanted {
    path: PathBuf,
    address: Option<PathBuf>,
}

impl Wanted {
    pub(crate) fn of(FsPath { path, is_text }: FsPath) -> Wanted {
        let place = Address::parse(path.as_os_str(), false).ok().filter(|place| place.host != Host::Local);
        // The catalogue decides what is an address: nobody is called.
        let address = place.filter(|_| is_text || is_address(&path)).and_then(|place| place.recorded().ok());
        Wanted { path, address }
    }

    /// The root that holds it, and the number of its directory.
    fn find(&self, store: &store::Catalog) -> Result<Option<(Root, i64)>, store::CatalogError> {
        let candidates = [
            Some(self.path.clone()).filter(|path| is_address(path)),
            self.address.clone(),
            Some(absolute_name(&self.path)?),
            Some(absolute(&self.path)?),
        ];
        for path in candidates.into_iter().flatten() {
            let Some(root) = store.root_of(&path)? else { continue };
            let below = root.below(&path);
            if let Some(directory) = store.directory(&root, below)? {
                return Ok(Some((root, directory)));
            }
        }
        Ok(None)
    }

    /// The root that it is.
    pub(crate) fn root(&self, store: &store::Catalog) -> Result<Option<Root>, store::CatalogError> {
        let found = self.find(store)?.filter(|(root, directory)| root.directory == *directory);
        Ok(found.map(|(root, _)| root))
    }

    /// The path that a catalogue would have for it; `HOST:PATH` is one of another machine where that is wanted.
    pub(crate) fn new_path(&self, is_remote: bool) -> Result<PathBuf, store::CatalogError> {
        match &self.address {
            Some(address) if is_remote || is_address(&self.path) => Ok(address.clone()),
            _ => absolute(&self.path),
        }
    }

    /// The path by which the catalogue knows a file, whether it is there or not.
    pub(crate) fn file(&self, store: &store::Catalog) -> Result<PathBuf, store::CatalogError> {
        if is_address(&self.path) && store.root_of(&self.path)?.is_some() {
            return Ok(self.path.clone());
        }
        if let Some(address) = &self.address
            && (is_address(&self.path) || self.path.symlink_metadata().is_err())
            && store.root_of(address)?.is_some()
        {
            return Ok(address.clone());
        }
        let named = absolute_name(&self.path)?;
        if store.root_of(&named)?.is_some() { Ok(named) } else { absolute(&self.path) }
    }

    pub(crate) fn unknown(&self, catalog: &Path) -> Failure {
        let message = format!("{}: not in the catalogue {}", self.path.display(), catalog.display());
        Failure::new(Kind::Catalog, &message).path(&self.path).operation("find")
    }
}

#[doc = stub!("Accepted")]
#[pyclass(frozen, module = "verisum", name = "Accepted")]
pub(crate) struct AcceptedFile(Accepted);

getters! { |file: AcceptedFile as Accepted|
    path: &OsStr = file.0.path.as_os_str();
    path_bytes: &[u8] = file.0.path.as_os_str().as_bytes();
    was: &'static str = file.0.state.name();
    algorithm: &str = &file.0.algorithm;
    recorded: FileState = FileState(file.0.old);
    now: Option<FileState> = file.0.new.map(FileState);
    error: Option<String> = file.0.error.as_ref().map(|error| by_arguments(&error.to_string()));
}

#[pymethods]
impl AcceptedFile {
    fn __repr__(&self) -> String {
        format!("<verisum.Accepted {:?}: was {}>", self.0.path.to_string_lossy(), self.0.state.name())
    }
}

#[doc = stub!("accept")]
#[pyfunction]
#[pyo3(signature = (path, *, catalog, dry_run=false, only_missing=false, cross_file_systems=false, hosts=None))]
pub(crate) fn accept(
    py: Python<'_>,
    path: FsPath,
    catalog: FsPath,
    dry_run: bool,
    only_missing: bool,
    cross_file_systems: bool,
    hosts: Option<Hosts>,
) -> PyResult<Vec<AcceptedFile>> {
    let wanted = Wanted::of(path);
    let catalog = catalog.path;
    let reach = Reach::of(py, hosts)?;
    let accepted = interruptible(py, &mut |_| Ok(()), |stop| {
        let (_lock, store) = open_to_write(&catalog).map_err(|error| Failure::from(&error))?;
        let path = wanted.file(&store).map_err(|error| Failure::from(&error))?;
        let now = Timestamp::now();
        let what = Accept { path: &path, dry: dry_run, only_missing, cross_file_systems, now };
        let mut found = Vec::new();
        let mut report = |accepted: Accepted| found.push(AcceptedFile(accepted));
        match is_address(&path) {
            false => scrub::accept(&store, &what, &mut report).map_err(|error| Failure::from(&error))?,
            true => accept_remote(&store, &what, reach, &Arc::new(stop.clone()), &mut report)?,
        };
        Ok::<_, Failure>(found)
    })?;
    accepted.map_err(|failure| failure.raise(py))
}

#[doc = stub!("rehash")]
#[pyfunction]
#[pyo3(signature = (catalog, to))]
pub(crate) fn rehash(py: Python<'_>, catalog: FsPath, to: Option<&str>) -> PyResult<u64> {
    let path = catalog.path;
    let to = to.map(|name| find(py, name)).transpose()?;
    let left = py.detach(|| {
        let (_lock, store) = open_to_write(&path)?;
        let to = to.as_ref().map(|digest| digest.name());
        store.set_rehash_target(to)?;
        let counts = store.files_by_algorithm(None)?;
        let others = counts.iter().filter(|(name, _)| to.is_some_and(|to| to != name));
        Ok(others.map(|(_, count)| count).sum())
    });
    left.map_err(|error| raise(py, &error))
}

fn accept_remote(
    store: &store::Catalog,
    what: &Accept,
    reach: Reach,
    stop: &Arc<verisum::files::Stop>,
    report: &mut dyn FnMut(Accepted),
) -> Result<u64, Failure> {
    let root = store.root_of(what.path).map_err(|error| Failure::from(&error))?;
    let root = root.map_or_else(|| what.path.to_path_buf(), |root| root.path);
    let Some(address) = Address::from_recorded(root.as_os_str().as_bytes()) else {
        let message = format!("{}: no address of a host", root.display());
        return Err(Failure::new(Kind::Host, &message).path(root).operation("find"));
    };
    let place = place::host(&reach.open(), &address.host)?;
    let mut place = StoppingPlace::new(place, stop.clone());
    let notes = |_: PlaceEvent| true;
    let mut tree = PlaceTree { place: &mut place, root: &address.path, notes: &notes };
    scrub::accept_tree(store, what, &mut tree, report).map_err(|error| Failure::from(&error))
}
