//! Places as Python names them: paths of this machine, and addresses of trees on others.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use verisum::files::Stop;
use verisum::files::place::{FileAnswer, LocalPlace, Place, PlaceError, StoppingPlace};
use verisum::object::{BucketPlace, StoreOptions};
use verisum::remote::{Address, Host, OpenError, Options, Program, WAYS, without_secrets};

use crate::errors::{Failure, Kind};
use crate::iterator::Done;

/// How many hosts are worked on at once.
pub(crate) const AT_ONCE: usize = 8;

/// What a user names.
pub(crate) enum Named {
    /// A path of this machine.
    Here(PathBuf),
    /// Something on a host, or on this machine by the programs that a host would use.
    There(Address),
}

impl Named {
    /// Whether it is a path of this machine.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Named::Here(_))
    }

    /// Text may be an address, as on the command line; bytes and objects of `pathlib` are paths of this machine.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Named> {
        let path = fs_path(object)?;
        if !object.is_instance_of::<PyString>() {
            return Ok(Named::Here(path));
        }
        let address = Address::typed(path.as_os_str()).map_err(|must| {
            let shown = without_secrets(path.as_os_str());
            PyValueError::new_err(format!("{}: {must}", Path::new(&shown).display()))
        })?;
        Ok(address.map_or(Named::Here(path), Named::There))
    }

    /// One path or several.
    pub(crate) fn several(objects: &Bound<'_, PyAny>) -> PyResult<Vec<Named>> {
        several(objects, Named::of)
    }
}

/// One path or several of this machine.
pub(crate) fn paths(objects: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    several(objects, fs_path)
}

/// Whether an object is one path, and not several.
pub(crate) fn is_one(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
        || object.hasattr("__fspath__")?)
}

fn several<T>(objects: &Bound<'_, PyAny>, of: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Vec<T>> {
    match is_one(objects)? {
        true => Ok(vec![of(objects)?]),
        false => objects.try_iter()?.map(|object| of(&object?)).collect(),
    }
}

/// A path as Python has them: text, bytes, or an object of `pathlib`.
pub(crate) fn fs_path(object: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let encoded = object.py().import("os")?.call_method1("fsencode", (object,))?;
    let name = encoded.extract::<Vec<u8>>()?;
    match name.contains(&0) {
        true => Err(PyValueError::new_err("embedded null byte")),
        false => Ok(PathBuf::from(OsString::from_vec(name))),
    }
}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/Hosts"))]
#[pyclass(frozen, from_py_object, module = "verisum")]
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    way: Option<String>,
    push: Option<PathBuf>,
    ssh_config: Option<PathBuf>,
    timeout: u32,
    endpoint: Option<String>,
    region: Option<String>,
    profile: Option<String>,
    no_sign_request: bool,
}

impl Default for Hosts {
    fn default() -> Hosts {
        Hosts {
            way: None,
            push: None,
            ssh_config: None,
            timeout: 30,
            endpoint: None,
            region: None,
            profile: None,
            no_sign_request: false,
        }
    }
}

#[pymethods]
impl Hosts {
    #[new]
    #[pyo3(signature = (
        *, way=None, push=None, ssh_config=None, timeout=30, endpoint=None, region=None, profile=None,
        no_sign_request=false
    ))]
    #[allow(clippy::too_many_arguments)] // Python names them.
    fn new(
        way: Option<String>,
        push: Option<&Bound<'_, PyAny>>,
        ssh_config: Option<&Bound<'_, PyAny>>,
        timeout: u32,
        endpoint: Option<String>,
        region: Option<String>,
        profile: Option<String>,
        no_sign_request: bool,
    ) -> PyResult<Hosts> {
        if let Some(way) = way.as_ref().filter(|way| !WAYS.contains(&way.as_str())) {
            let ways = WAYS.join(", ");
            return Err(PyValueError::new_err(format!("way: {way:?} is none of {ways}")));
        }
        if !(1..=86400).contains(&timeout) {
            return Err(PyValueError::new_err("timeout: must be 1 to 86400 seconds"));
        }
        if profile.is_some() && no_sign_request {
            return Err(PyValueError::new_err("profile and no_sign_request exclude each other"));
        }
        let (push, ssh_config) = (push.map(fs_path).transpose()?, ssh_config.map(fs_path).transpose()?);
        let hosts = Hosts { way, push, ssh_config, timeout, endpoint, region, profile, no_sign_request };
        // What cannot be read is told at once.
        hosts.options()?;
        Ok(hosts)
    }

    /// For `pickle`: the same words again.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let words = PyDict::new(py);
        words.set_item("way", self.way.as_deref())?;
        words.set_item("push", self.push.as_deref().map(Path::as_os_str))?;
        words.set_item("ssh_config", self.ssh_config.as_deref().map(Path::as_os_str))?;
        words.set_item("timeout", self.timeout)?;
        words.set_item("endpoint", self.endpoint.as_deref())?;
        words.set_item("region", self.region.as_deref())?;
        words.set_item("profile", self.profile.as_deref())?;
        words.set_item("no_sign_request", self.no_sign_request)?;
        Ok((PyTuple::empty(py), words))
    }
}

impl Hosts {
    fn options(&self) -> PyResult<Options> {
        let push = self.push.as_deref().map(Program::open).transpose()?;
        let mut options = Options::default();
        options.ssh.config.clone_from(&self.ssh_config);
        options.ssh.timeout = self.timeout;
        options.ssh.may_ask = false;
        options.required = self.way.clone().into_iter().collect();
        options.push = push.map(|program| Arc::new(vec![program]));
        Ok(options)
    }
}

/// How hosts and buckets are reached, with the variables of Python's environment: those are read while Python waits,
/// for other threads may change them.
pub(crate) struct Reach {
    options: Options,
    hosts: Hosts,
    variables: Vec<(String, String)>,
}

impl Reach {
    /// Of an option that was left out or given.
    pub(crate) fn of(py: Python<'_>, option: Option<Hosts>) -> PyResult<Reach> {
        let hosts = option.unwrap_or_default();
        let items = py.import("os")?.getattr("environ")?.call_method0("items")?;
        let pairs = items.try_iter()?.map(|pair| pair?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>());
        let mut variables = Vec::new();
        for pair in pairs {
            let (name, value) = pair?;
            // What is no UTF-8 is nothing that stores know.
            if let (Ok(name), Ok(value)) = (name.extract(), value.extract()) {
                variables.push((name, value));
            }
        }
        Ok(Reach { options: hosts.options()?, hosts, variables })
    }

    /// What opens connections.
    pub(crate) fn open(self) -> verisum::remote::Hosts {
        let Reach { options, hosts, variables } = self;
        let opened = verisum::remote::Hosts::new(options, &std::env::temp_dir());
        opened.with_buckets(Box::new(move |bucket| {
            let mut options = match bucket.starts_with("s3://") {
                true => StoreOptions::from_environment(variables.clone(), hosts.profile.as_deref())?,
                false => StoreOptions::of_variables(variables.clone()),
            };
            options.endpoint.clone_from(&hosts.endpoint);
            options.region.clone_from(&hosts.region);
            options.unsigned = hosts.no_sign_request;
            options.timeout = hosts.timeout;
            let place = BucketPlace::open(bucket, &options)?;
            Ok(Box::new(place) as Box<dyn Place>)
        }))
    }
}

/// Fails for the first option that was given and that files on other machines do not have.
pub(crate) fn refuse(options: &[(&str, bool)]) -> PyResult<()> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(PyValueError::new_err(format!("{option}: not for files on other machines"))),
        None => Ok(()),
    }
}

/// A host, which nobody calls yet.
pub(crate) fn host(hosts: &verisum::remote::Hosts, host: &Host) -> Result<Box<dyn Place>, Failure> {
    hosts.place(host).map_err(|error| {
        let failure = Failure::new(Kind::Host, &format!("{}: {error}", host.name()));
        match &error {
            OpenError::Folder(error) => failure.path(std::env::temp_dir()).system(Some(error)),
            _ => failure,
        }
    })
}

/// Why a tree of a place is not listed or read, as an exception.
pub(crate) fn failure(address: &Address, error: &PlaceError) -> Failure {
    let path = PathBuf::from(OsStr::from_bytes(address.shown(&address.path)));
    let (kind, operation) = match error {
        PlaceError::Digest(_) => (Kind::Digest, "find"),
        PlaceError::Machine(_) | PlaceError::Absent(_) => (Kind::Host, "connect"),
        PlaceError::Unlisted(_) | PlaceError::ListedTwice(_) => (Kind::Host, "list"),
        PlaceError::Unsupported(operation) => (Kind::Host, *operation),
        PlaceError::File(error) => return Failure::from(error),
        PlaceError::Write(_) | PlaceError::NotWritten { .. } => (Kind::File, "write"),
        PlaceError::InTheWay(_) => (Kind::File, "create"),
    };
    let message = format!("{}: {error}", address.host.name());
    Failure::new(kind, &message).path(path).operation(operation)
}

/// A tree, and the place where it is.
pub(crate) struct Opened {
    pub(crate) address: Address,
    pub(crate) place: Box<dyn Place>,
}

/// Opens a place, which nobody calls yet. Its work ends when it is time to stop, and counts what is done.
pub(crate) fn open(
    named: Named,
    hosts: &verisum::remote::Hosts,
    stop: &Arc<Stop>,
    done: &Arc<Done>,
) -> Result<Opened, Failure> {
    let stop = stop.clone();
    Ok(match named {
        Named::Here(path) => {
            let mut place = LocalPlace::default();
            place.plan.stop = stop.clone();
            place.plan.progress = done.here.clone();
            let address = Address::new(Host::Local, path.as_os_str().as_bytes());
            // The engine counts by itself.
            Opened { address, place: Box::new(StoppingPlace::new(Box::new(place), stop)) }
        }
        Named::There(address) => {
            let (place, done) = (host(hosts, &address.host)?, done.clone());
            let count = move |answer: &FileAnswer| {
                if answer.result.as_ref().is_ok_and(|read| !read.digests.is_empty()) {
                    done.add(answer.request.seen.size.unwrap_or(0));
                }
            };
            Opened { address, place: Box::new(StoppingPlace::new(place, stop).watched(count)) }
        }
    })
}
