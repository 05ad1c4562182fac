//! Places of other machines for `verisum.dask`: a listing of one, and the digests of some of its files.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use verisum::digest::Output;
use verisum::files::place::{
    Contradicted, FileAnswer, FileRead, FileRequest, FileState, Files, Modified, Place, PlaceEvent, Reason,
    StoppingPlace,
};
use verisum::files::{Timestamp, lock};
use verisum::remote::Address;

use crate::arguments::FsPath;
use crate::errors::Failure;
use crate::file_row::{contradiction, nanoseconds};
use crate::hash::find;
use crate::hosts::{Hosts, Reach};
use crate::interrupt::interruptible;
use crate::place;

const SECOND: i64 = 1_000_000_000;

/// A file below a place: its path there, its length, and its time of modification in nanoseconds since 1970.
type Listed = (Vec<u8>, Option<u64>, Option<i128>);

#[doc = stub!("place_address")]
#[pyfunction]
#[pyo3(signature = (text))]
pub(crate) fn place_address(text: FsPath) -> PyResult<std::ffi::OsString> {
    let path = text.path;
    let wrong = |must: &str| PyValueError::new_err(format!("{}: {must}", path.display()));
    let recorded = Address::parse(path.as_os_str(), false).and_then(|address| address.recorded());
    let recorded = recorded.map_err(|error| wrong(&error.to_string()))?.into_os_string();
    let scheme = |text: &std::ffi::OsStr| text.to_string_lossy().split("://").next().map(str::to_string);
    match scheme(&recorded) == scheme(path.as_os_str()) {
        true => Ok(recorded),
        false => Err(wrong("no address of a host or a bucket")),
    }
}

/// The same for Python.
type ListedFile = (Py<PyBytes>, Option<u64>, Option<i128>);

/// What could not be listed, and why.
type Unlisted = (Py<PyBytes>, String);

/// A file that is asked for.
type Asked = (Vec<u8>, Option<u64>, Option<i64>);

/// A tree that is opened, whose work ends when it is time to stop.
fn opened(
    address: &Address,
    hosts: &verisum::remote::Hosts,
    stop: &verisum::files::Stop,
) -> Result<StoppingPlace<'static>, Failure> {
    let place = place::host(hosts, &address.host)?;
    Ok(StoppingPlace::new(place, Arc::new(stop.clone())))
}

fn known(address: &Path) -> PyResult<Address> {
    let known = Address::from_recorded(address.as_os_str().as_bytes());
    known.ok_or_else(|| {
        PyValueError::new_err(format!("{}: no address of a host or a bucket", address.display()))
    })
}

#[doc = stub!("list_place")]
#[pyfunction]
#[pyo3(signature = (address, hosts=None))]
pub(crate) fn list_place(
    py: Python<'_>,
    address: FsPath,
    hosts: Option<Hosts>,
) -> PyResult<(Vec<ListedFile>, Vec<Unlisted>)> {
    let address = known(&address.path)?;
    let reach = Reach::of(py, hosts)?;
    let found = interruptible(py, &mut |_| Ok(()), |stop| {
        let hosts = reach.open();
        let mut place = opened(&address, &hosts, stop)?;
        let found = Mutex::new((Vec::<Listed>::new(), Vec::<(Vec<u8>, String)>::new()));
        let sink = |event: PlaceEvent| {
            let (files, errors) = &mut *lock(&found);
            match event {
                PlaceEvent::Answer(FileAnswer { request, result }) => {
                    let below = address.below(&request.path).to_vec();
                    match result {
                        Ok(_) => files.push((below, request.seen.size, time(&request.seen))),
                        Err(error) => errors.push((below, error.reason().message())),
                    }
                }
                // Nothing is known of what is where.
                PlaceEvent::Unlisted(line) => errors.push((Vec::new(), line)),
                PlaceEvent::Way(_) | PlaceEvent::Note(_) => {}
            }
            true
        };
        let ended = place.list(&address.path, &sink);
        ended.map_err(|error| place::failure(&address, &error))?;
        Ok::<_, Failure>(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    })?;
    let (files, errors) = found.map_err(|failure| failure.raise(py))?;
    let bytes = |path: &[u8]| PyBytes::new(py, path).unbind();
    let files = files.into_iter().map(|(path, size, time)| (bytes(&path), size, time)).collect();
    Ok((files, errors.into_iter().map(|(path, why)| (bytes(&path), why)).collect()))
}

fn time(seen: &FileState) -> Option<i128> {
    seen.modified.map(|modified| nanoseconds(modified.time))
}

#[doc = stub!("PlaceRead")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct PlaceRead {
    digest: Option<Output>,
    #[pyo3(get)]
    size: Option<u64>,
    #[pyo3(get)]
    mtime_ns: Option<i128>,
    #[pyo3(get)]
    changed: bool,
    #[pyo3(get)]
    missing: bool,
    #[pyo3(get)]
    error: Option<String>,
}

#[pymethods]
impl PlaceRead {
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.digest.as_ref().map(|digest| PyBytes::new(py, digest.as_bytes()))
    }
}

impl PlaceRead {
    fn of(answer: FileAnswer) -> PlaceRead {
        let FileAnswer { request, result } = answer;
        let (size, mtime_ns) = (request.seen.size, time(&request.seen));
        let failed = |reason: Reason| PlaceRead {
            digest: None,
            size,
            mtime_ns,
            changed: false,
            missing: reason == Reason::Missing,
            error: Some(reason.message()),
        };
        match result.map_err(|error| error.reason()) {
            Ok(read) if read.digests.is_empty() => failed(Reason::Failed("it was not read".to_string())),
            Ok(FileRead { contradicted: Some(Contradicted { recorded, found }), .. }) => {
                failed(Reason::Failed(contradiction(&recorded, &found)))
            }
            Ok(read) => PlaceRead {
                digest: Some(read.digests[0]),
                size,
                mtime_ns,
                changed: read.changed,
                missing: false,
                error: None,
            },
            Err(reason) => failed(reason),
        }
    }
}

#[doc = stub!("hash_place")]
#[pyfunction]
#[pyo3(signature = (address, files, algorithm, hosts=None, *, settled=false))]
pub(crate) fn hash_place(
    py: Python<'_>,
    address: FsPath,
    files: Vec<Asked>,
    algorithm: &str,
    hosts: Option<Hosts>,
    settled: bool,
) -> PyResult<Vec<Option<PlaceRead>>> {
    let address = known(&address.path)?;
    let digest = find(py, algorithm)?;
    let reach = Reach::of(py, hosts)?;
    let count = files.len();
    let request = |(number, (below, size, modified)): (usize, Asked)| {
        let path = address.join(&below);
        let modified = modified.map(|time| Modified { time: timestamp(time), is_exact: time % SECOND != 0 });
        FileRequest {
            path,
            tag: number as u64,
            seen: FileState { size, modified, ..FileState::default() },
            ..FileRequest::default()
        }
    };
    let requests: Vec<FileRequest> = files.into_iter().enumerate().map(request).collect();
    let read = interruptible(py, &mut |_| Ok(()), |stop| {
        let hosts = reach.open();
        let mut place = opened(&address, &hosts, stop)?;
        let found = Mutex::new((0..count).map(|_| None).collect::<Vec<Option<PlaceRead>>>());
        let sink = |event: PlaceEvent| {
            if let PlaceEvent::Answer(answer) = event {
                let number = usize::try_from(answer.request.tag).unwrap_or(usize::MAX);
                let mut found = lock(&found);
                if let Some(read) = found.get_mut(number) {
                    *read = Some(PlaceRead::of(answer));
                }
            }
            true
        };
        let ended = match settled {
            true => place.hash_settled(&digest, requests, &sink),
            false => {
                place.hash(std::slice::from_ref(&digest), Files::Named(&mut requests.into_iter()), &sink)
            }
        };
        ended.map_err(|error| place::failure(&address, &error))?;
        Ok::<_, Failure>(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    })?;
    read.map_err(|failure| failure.raise(py))
}

fn timestamp(nanoseconds: i64) -> Timestamp {
    let below = u32::try_from(nanoseconds.rem_euclid(SECOND)).unwrap_or(0);
    Timestamp { seconds: nanoseconds.div_euclid(SECOND), nanoseconds: below }
}
