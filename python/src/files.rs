//! The digests of the files of trees, as an iterator of rows.

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use verisum::digest::Digest;
use verisum::files::place::{Choice, Files, Place, PlaceEvent, Sink, StoppingPlace};
use verisum::files::{Excludes, Limits, StartError, Stop, lock};
use verisum::lake::{Column, Value};
use verisum::remote::{Address, Host};
use verisum::{HashOptions, Outlet, ResultOrder};

use crate::arguments::{Rate, Several, is_one};
use crate::arrow::{Table, Whole, python_table};
use crate::background::{Broken, Feed};
use crate::errors::{self, Failure, Kind};
use crate::file_row::{FileRow, Row};
use crate::file_row_columns;
use crate::hash::find;
use crate::hosts::{Hosts, ObjectReading, Reach};
use crate::interrupt::TICK;
use crate::log::{Event, results};
use crate::place::{self, AT_ONCE, Named, is_bucket, refuse};
use crate::stores::{Batches, is_store};

/// Files that are being hashed on threads of their own.
pub(crate) struct Source {
    rows: Rows,
    /// The digests of each row.
    digests: Vec<Digest>,
    whole: Whole,
}

enum Rows {
    /// Those of this machine.
    Here(Here),
    /// Those of several places.
    Places(Feed<Event<Row>>),
}

struct Here {
    /// None once it is closed.
    files: Mutex<Option<ManuallyDrop<verisum::HashFiles>>>,
    /// Whether nobody takes more, as in `Feed`.
    is_closed: AtomicBool,
    /// The process whose threads they are: a forked one has none of them.
    process: u32,
}

impl Here {
    fn wait(&self, time: Duration) -> Result<Poll<Option<Row>>, Broken> {
        if process::id() != self.process {
            return Err(Broken::Forked);
        }
        if self.is_closed.load(Ordering::Relaxed) {
            return Ok(Poll::Ready(None));
        }
        let mut files = lock(&self.files);
        Ok(files
            .as_mut()
            .map_or(Poll::Ready(None), |files| files.next_within(time).map(|row| row.map(Row::from))))
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Row>> {
        loop {
            // Also where a row is always ready: `list` runs no Python that would look.
            py.check_signals()?;
            if let Poll::Ready(row) = py.detach(|| self.wait(TICK)).map_err(|broken| broken.raise())? {
                return Ok(row);
            }
        }
    }

    fn close(&self) {
        if process::id() == self.process {
            self.is_closed.store(true, Ordering::Relaxed);
            let files = lock(&self.files).take();
            drop(files.map(ManuallyDrop::into_inner));
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        // In a forked process it would wait for threads that are not there.
        self.close();
    }
}

impl Table for Source {
    type Row = Row;

    fn columns(&self) -> Vec<Column> {
        file_row_columns::columns(&self.digests)
    }

    fn values<'a>(&self, row: &'a Row) -> Vec<Value<'a>> {
        file_row_columns::values(row, &self.digests)
    }

    /// What places tell beside rows is left out: there may be no Python to log it.
    fn wait(&self, time: Duration) -> Result<Poll<Option<Row>>, Failure> {
        let told = |broken: Broken| Failure::from(&broken);
        match &self.rows {
            Rows::Here(here) => here.wait(time).map_err(told),
            Rows::Places(feed) => Ok(match feed.wait(time).map_err(told)? {
                Poll::Ready(Some(Event::Result(row))) => Poll::Ready(Some(row)),
                Poll::Ready(None) => Poll::Ready(None),
                Poll::Ready(Some(Event::Note(_))) | Poll::Pending => Poll::Pending,
            }),
        }
    }

    fn whole(&self) -> &Whole {
        &self.whole
    }

    fn close(&self) {
        self.whole.close();
        match &self.rows {
            Rows::Here(here) => here.close(),
            Rows::Places(feed) => feed.close(),
        }
    }
}

impl Source {
    /// The next row, which a signal may come before.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Row>> {
        self.whole.end();
        match &self.rows {
            Rows::Here(here) => here.next(py),
            Rows::Places(feed) => results(feed, py, &mut |_| Ok(())),
        }
    }
}

#[doc = stub!("hash_files")]
#[pyfunction]
#[pyo3(signature = (
    paths, algorithms=None, *, ordered=false, threads=0, one_file_system=false, follow_links=false,
    exclude=None, limit=None, requests=None, recorded=false, hosts=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn hash_files(
    py: Python<'_>,
    paths: Sources<'_>,
    algorithms: Option<Several<String>>,
    ordered: bool,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    one_file_system: bool,
    follow_links: bool,
    exclude: Option<Several<String>>,
    limit: Option<Rate>,
    requests: Option<Rate>,
    recorded: bool,
    hosts: Option<Hosts>,
) -> PyResult<HashFiles> {
    let digests = several(py, algorithms, "sha256")?;
    let sources = paths;
    if recorded && !sources.are_all(Host::keeps_records) {
        return Err(PyValueError::new_err("recorded: only for files in buckets"));
    }
    if !sources.stores.is_empty() {
        refuse(&[
            ("exclude", exclude.is_some()),
            ("limit", limit.is_some()),
            ("requests", requests.is_some()),
        ])?;
    }
    if !sources.are_here() {
        refuse(&[
            ("ordered", ordered),
            ("threads", threads > 0 && !sources.are_all(is_bucket)),
            ("one_file_system", one_file_system),
            ("follow_links", follow_links),
        ])?;
        if digests.len() > 1 && !sources.there.iter().all(|address| is_bucket(&address.host)) {
            return Err(PyValueError::new_err("files on other machines get one digest in a read"));
        }
    }
    let mut options = HashOptions::default();
    options.digests = digests.clone();
    options.threads = threads;
    options.order = if ordered { ResultOrder::ByName } else { ResultOrder::AsFinished };
    options.one_file_system = one_file_system;
    options.follow_links = follow_links;
    options.excludes = excludes(exclude)?;
    options.limits = match requests {
        None => limits(limit),
        Some(Rate(requests)) => Some(Arc::new(Limits::new(limit.map_or(0, |Rate(bytes)| bytes), requests))),
    };
    let are_here = sources.are_here();
    let Sources { here, there, stores } = sources;
    let rows = match are_here {
        true => {
            let files = py.detach(|| verisum::hash_files(here, &options)).map_err(|error| match error {
                StartError::Digest(error) => errors::of_digest(py, &error),
                StartError::Thread(error) => error.into(),
                error => std::io::Error::other(error).into(),
            })?;
            Rows::Here(Here {
                files: Mutex::new(Some(ManuallyDrop::new(files))),
                is_closed: AtomicBool::new(false),
                process: process::id(),
            })
        }
        false => {
            let at_once = (threads > 0).then_some(threads);
            let reading = ObjectReading { limits: options.limits.clone(), at_once };
            let reach = Reach::of(py, hosts)?.reading(reading);
            let batches = (!stores.is_empty()).then(|| Batches::of(py, &stores, &digests)).transpose()?;
            Rows::Places(Feed::start(false, move |outlet| {
                let job = PlacesJob { options: &options, recorded, hosts: &reach.open(), outlet };
                job.of_places(here, &there);
                if let Some(batches) = batches {
                    batches.run(&options.digests, outlet);
                }
            })?)
        }
    };
    Ok(HashFiles(Arc::new(Source { rows, digests, whole: Whole::default() })))
}

/// What is to be hashed.
#[derive(Default)]
pub(crate) struct Sources<'py> {
    here: Vec<PathBuf>,
    there: Vec<Address>,
    /// What Python reads.
    stores: Vec<Bound<'py, PyAny>>,
}

impl<'py> Sources<'py> {
    /// Whether all of it is on this machine.
    fn are_here(&self) -> bool {
        self.there.is_empty() && self.stores.is_empty()
    }

    /// Whether all of it is in places of this kind.
    fn are_all(&self, kind: impl Fn(&Host) -> bool) -> bool {
        let are_there = self.here.is_empty() && self.stores.is_empty() && !self.there.is_empty();
        are_there && self.there.iter().all(|address| kind(&address.host))
    }
}

impl<'py> FromPyObject<'_, 'py> for Sources<'py> {
    type Error = PyErr;

    fn extract(objects: Borrowed<'_, 'py, PyAny>) -> PyResult<Sources<'py>> {
        let mut found = Sources::default();
        let all = match is_one(&objects)? || is_store(&objects)? {
            true => vec![objects.to_owned()],
            false => objects.try_iter()?.collect::<PyResult<_>>()?,
        };
        for object in all {
            // Most are paths, and nothing of fsspec is one.
            if !is_one(&object)? && is_store(&object)? {
                found.stores.push(object);
                continue;
            }
            match Named::of(object.extract()?)? {
                Named::Here(path) => found.here.push(path),
                Named::There(address) => found.there.push(address),
            }
        }
        Ok(found)
    }
}

/// The digests of these names, or the usual one.
pub(crate) fn several(py: Python<'_>, names: Option<Several<String>>, usual: &str) -> PyResult<Vec<Digest>> {
    let Some(Several(names)) = names else { return Ok(vec![find(py, usual)?]) };
    let mut digests: Vec<Digest> = Vec::new();
    for name in names {
        let digest = find(py, &name)?;
        if digests.iter().any(|known| known.name() == digest.name()) {
            return Err(PyValueError::new_err(format!("{} is named twice", digest.name())));
        }
        digests.push(digest);
    }
    match digests.is_empty() {
        true => Err(PyValueError::new_err("no algorithm is named")),
        false => Ok(digests),
    }
}

/// Patterns of what is left out.
pub(crate) fn excludes(patterns: Option<Several<String>>) -> PyResult<Option<Arc<Excludes>>> {
    let made =
        patterns.map(|Several(patterns)| Excludes::new(patterns.iter().map(String::as_str)).map(Arc::new));
    made.transpose().map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The most bytes to read in a second.
pub(crate) fn limits(bytes: Option<Rate>) -> Option<Arc<Limits>> {
    bytes.map(|Rate(bytes)| Arc::new(Limits::new(bytes, 0)))
}

/// Files of several places that are hashed.
struct PlacesJob<'a> {
    options: &'a HashOptions,
    /// Whether digests that stores recorded are taken.
    recorded: bool,
    hosts: &'a verisum::remote::Hosts,
    outlet: &'a Outlet<Event<Row>>,
}

impl PlacesJob<'_> {
    /// Hashes what is here, then what is on hosts, some of them at once.
    fn of_places(&self, here: Vec<PathBuf>, there: &[Address]) {
        if !here.is_empty() && !of_here(here, self.options, self.outlet) {
            return;
        }
        let mut by_host: Vec<Vec<&Address>> = Vec::new();
        for address in there {
            match by_host.iter_mut().find(|known| known[0].host == address.host) {
                Some(known) => known.push(address),
                None => by_host.push(vec![address]),
            }
        }
        let queue = Mutex::new(by_host.into_iter());
        let next = || lock(&queue).next();
        thread::scope(|scope| {
            let work = || {
                while let Some(addresses) = next() {
                    self.of_host(&addresses);
                }
            };
            for _ in 1..there.len().min(AT_ONCE) {
                // With fewer threads it is done too.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }

    /// Files of the trees of one host.
    fn of_host(&self, addresses: &[&Address]) {
        let host = &addresses[0].host;
        let name: Arc<str> = host.name().into();
        let PlacesJob { options, outlet, .. } = self;
        let tell = |address: &Address, event: PlaceEvent| match event {
            PlaceEvent::Answer(answer) => outlet.give(Event::Result(Row::of_host(&name, address, answer))),
            PlaceEvent::Unlisted(line) => {
                let failure = Failure::new(Kind::Host, &format!("{name}: list: {line}")).operation("list");
                outlet.give(Event::Result(Row::of_tree(&name, address, failure)))
            }
            PlaceEvent::Way(text) | PlaceEvent::Note(text) => {
                outlet.give(Event::Note(format!("{name}: {text}")))
            }
        };
        let failed = |address: &Address, failure: Failure| {
            outlet.give(Event::Result(Row::of_tree(&name, address, failure)));
        };
        let stop: Arc<Stop> = outlet.stop().clone();
        let opened = place::host(self.hosts, host).and_then(|mut place| {
            // A limit may have an object wait for minutes.
            place.end_by(&stop);
            let mut place = StoppingPlace::new(place, stop.clone());
            let ready = place.capabilities(&options.digests, &|event| tell(addresses[0], event));
            ready.map(|_| place).map_err(|error| place::failure(addresses[0], &error))
        });
        let mut place = match opened {
            Ok(place) => place,
            Err(failure) => {
                return addresses.iter().for_each(|address| failed(address, failure.clone()));
            }
        };
        // Buckets keep to the limits themselves.
        let limits = options.limits.clone().filter(|_| !is_bucket(host));
        let choice = Choice { excludes: options.excludes.clone(), limits, stop };
        for address in addresses {
            let sink = |event| tell(address, event);
            if let Err(failure) = self.of_tree(&mut place, address, &choice, &sink) {
                failed(address, failure);
            }
        }
    }

    /// Files of a tree.
    fn of_tree(
        &self,
        place: &mut dyn Place,
        address: &Address,
        choice: &Choice,
        sink: Sink,
    ) -> Result<(), Failure> {
        let mut hash = |files: Files| match self.recorded {
            true => place.hash_recorded(&self.options.digests, files, sink),
            false => place.hash(&self.options.digests, files, sink),
        };
        let ended = match choice.is_everything() {
            true => hash(Files::Trees(&mut std::iter::once(address.path.clone()))),
            false => {
                let mut lister = place::host(self.hosts, &address.host)?;
                choice.hash(&mut *lister, &address.path, sink, hash)
            }
        };
        ended.map_err(|error| place::failure(address, &error))
    }
}

/// Files of this machine. False where nobody wants more.
fn of_here(roots: Vec<PathBuf>, options: &HashOptions, outlet: &Outlet<Event<Row>>) -> bool {
    let first = roots.first().cloned().unwrap_or_default();
    let mut files = match verisum::hash_files(roots, options) {
        Ok(files) => files,
        Err(error) => {
            let failure = Failure::new(Kind::File, &error.to_string()).operation("open");
            return outlet.give(Event::Result(Row { host: None, path: first, result: Err(failure) }));
        }
    };
    loop {
        match files.next_within(TICK) {
            Poll::Pending if outlet.stop().is_due() => return false,
            Poll::Pending => {}
            Poll::Ready(None) => return true,
            Poll::Ready(Some(found)) => {
                if !outlet.give(Event::Result(found.into())) {
                    return false;
                }
            }
        }
    }
}

#[doc = stub!("HashFiles")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct HashFiles(Arc<Source>);

#[pymethods]
impl HashFiles {
    #[doc = stub!("HashFiles.algorithms")]
    #[getter]
    fn algorithms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.digests.iter().map(Digest::name))
    }
}

python_table!(HashFiles, FileRow);
