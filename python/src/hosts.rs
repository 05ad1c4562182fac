//! `Hosts`: how other machines and buckets are reached, and what their stores were asked for.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use verisum::files::Limits;
use verisum::files::place::Place;
use verisum::object::{BucketPlace, Location, Meter, Prices, RequestClass, StoreLists, StoreOptions};
use verisum::remote::{Address, Host, HostOptions, Program, WAYS};

use crate::arguments::FsPath;
use crate::errors::{Failure, Kind};
use crate::place::Named;

#[doc = stub!("Hosts")]
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
    requests_per_second: Option<f64>,
    lists: StoreLists,
    prices: Option<(PathBuf, Prices)>,
    /// Counts what stores are asked for, by all that use this object.
    meter: Arc<Meter>,
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
            requests_per_second: None,
            lists: StoreLists::default(),
            prices: None,
            meter: Arc::default(),
        }
    }
}

#[pymethods]
impl Hosts {
    #[new]
    #[pyo3(signature = (
        *, way=None, push=None, ssh_config=None, timeout=30, endpoint=None, region=None, profile=None,
        no_sign_request=false, requests_per_second=None, inventory=None, checksum_report=None, prices=None
    ))]
    #[allow(clippy::too_many_arguments)] // Python names them.
    fn new(
        way: Option<String>,
        push: Option<FsPath>,
        ssh_config: Option<FsPath>,
        #[pyo3(from_py_with = crate::arguments::whole)] timeout: u32,
        endpoint: Option<String>,
        region: Option<String>,
        profile: Option<String>,
        no_sign_request: bool,
        requests_per_second: Option<f64>,
        inventory: Option<FsPath>,
        checksum_report: Option<FsPath>,
        prices: Option<FsPath>,
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
        if requests_per_second.is_some_and(|most| !(0.001..=1e6).contains(&most)) {
            return Err(PyValueError::new_err("requests_per_second: must be a number of 0.001 to 1000000"));
        }
        let (push, ssh_config) = (push.map(PathBuf::from), ssh_config.map(PathBuf::from));
        let lists = StoreLists {
            inventory: inventory.map(|typed| location("inventory", typed)).transpose()?,
            checksum_report: checksum_report.map(|typed| location("checksum_report", typed)).transpose()?,
        };
        let prices = prices.map(|prices| read_prices(prices.path)).transpose()?;
        let hosts = Hosts {
            way,
            push,
            ssh_config,
            timeout,
            endpoint,
            region,
            profile,
            no_sign_request,
            requests_per_second,
            lists,
            prices,
            meter: Arc::default(),
        };
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
        words.set_item("requests_per_second", self.requests_per_second)?;
        words.set_item("inventory", typed(py, self.lists.inventory.as_ref()))?;
        words.set_item("checksum_report", typed(py, self.lists.checksum_report.as_ref()))?;
        words.set_item("prices", self.prices.as_ref().map(|(path, _)| path.as_os_str()))?;
        Ok((PyTuple::empty(py), words))
    }

    #[doc = stub!("Hosts.costs")]
    fn costs(&self) -> StoreCosts {
        let usage = self.meter.usage();
        let requests = RequestClass::ALL.iter().map(|class| class.name()).zip(usage.requests);
        let money = self.prices.as_ref().map(|(_, prices)| prices.of(&usage));
        StoreCosts {
            requests: requests.filter(|(_, count)| *count > 0).collect(),
            received: usage.received,
            sent: usage.sent,
            amount: money.as_ref().map(|money| money.amount),
            currency: money.map(|money| money.currency),
        }
    }
}

impl Hosts {
    fn options(&self) -> PyResult<HostOptions> {
        let open = |path: &Path| Program::open(path).map_err(|error| unreadable(path, &error));
        let push = self.push.as_deref().map(open).transpose()?;
        let mut options = HostOptions::default();
        options.ssh.config.clone_from(&self.ssh_config);
        options.ssh.timeout = Duration::from_secs(self.timeout.into());
        options.ssh.may_ask = false;
        options.required = self.way.clone().into_iter().collect();
        options.push = push.map(|program| Arc::new(vec![program]));
        Ok(options)
    }
}

/// Where a manifest is.
fn location(option: &str, typed: FsPath) -> PyResult<Location> {
    match Named::of(typed)? {
        Named::Here(path) => Ok(Location::File(path)),
        Named::There(Address { host: Host::Bucket(bucket), path, .. }) => {
            Ok(Location::Object { bucket, key: String::from_utf8_lossy(&path).into_owned() })
        }
        Named::There(_) => {
            Err(PyValueError::new_err(format!("{option}: must be a file or the address of an object")))
        }
    }
}

/// The same for `pickle`: bytes are always a file.
fn typed<'py>(py: Python<'py>, location: Option<&Location>) -> Option<Bound<'py, PyAny>> {
    location.map(|location| match location {
        Location::File(path) => PyBytes::new(py, path.as_os_str().as_bytes()).into_any(),
        Location::Object { bucket, key } => PyString::new(py, &format!("{bucket}{key}")).into_any(),
    })
}

/// The exception for a file that cannot be read: Python's own, with the path.
fn unreadable(path: &Path, error: &io::Error) -> PyErr {
    let why = Failure::new(Kind::File, &error.to_string()).message().to_string();
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, why, path.as_os_str().to_os_string())),
        None => PyValueError::new_err(format!("{}: {why}", path.display())),
    }
}

fn read_prices(path: PathBuf) -> PyResult<(PathBuf, Prices)> {
    let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
    let prices = Prices::parse(&text)
        .map_err(|why| PyValueError::new_err(format!("prices: {}: {why}", path.display())))?;
    Ok((path, prices))
}

fields! {
    StoreCosts {
        requests: BTreeMap<&'static str, u64>,
        received: u64,
        sent: u64,
        amount: Option<f64>,
        currency: Option<String>,
    }
}

#[pymethods]
impl StoreCosts {
    fn __repr__(&self) -> String {
        format!("<verisum.StoreCosts: {} requests>", self.requests.values().sum::<u64>())
    }
}

/// How hosts and buckets are reached, with the variables of Python's environment: those are read while Python waits,
/// for other threads may change them.
pub(crate) struct Reach {
    options: HostOptions,
    hosts: Hosts,
    variables: Vec<(String, String)>,
    reading: ObjectReading,
}

/// How objects are read.
#[derive(Default)]
pub(crate) struct ObjectReading {
    pub(crate) limits: Option<Arc<Limits>>,
    /// How many requests are under way, if that was chosen.
    pub(crate) at_once: Option<usize>,
}

impl Reach {
    /// Of an option that was left out or given.
    pub(crate) fn of(py: Python<'_>, option: Option<Hosts>) -> PyResult<Reach> {
        if option.as_ref().is_some_and(|hosts| hosts.lists.checksum_report.is_some()) {
            return Err(PyValueError::new_err("checksum_report: only for compare, copy and scrub"));
        }
        Reach::with_report(py, option)
    }

    /// The same for functions that ask stores for their records.
    pub(crate) fn with_report(py: Python<'_>, option: Option<Hosts>) -> PyResult<Reach> {
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
        let reading = ObjectReading::default();
        Ok(Reach { options: hosts.options()?, hosts, variables, reading })
    }

    /// The same, where objects are read in this way.
    pub(crate) fn reading(self, reading: ObjectReading) -> Reach {
        Reach { reading, ..self }
    }

    /// What opens connections.
    pub(crate) fn open(self) -> verisum::remote::Hosts {
        let Reach { options, hosts, variables, reading } = self;
        let opened = verisum::remote::Hosts::new(options, &std::env::temp_dir());
        opened.with_buckets(Box::new(move |bucket| {
            let mut options = match bucket.starts_with("s3://") {
                true => StoreOptions::from_environment(variables.clone(), hosts.profile.as_deref())?,
                false => StoreOptions::of_variables(variables.clone()),
            };
            options.endpoint.clone_from(&hosts.endpoint);
            options.region.clone_from(&hosts.region);
            options.unsigned = hosts.no_sign_request;
            options.timeout = Duration::from_secs(hosts.timeout.into());
            options.requests_per_second = hosts.requests_per_second;
            options.meter = hosts.meter.clone();
            options.limits = reading.limits.clone();
            options.at_once = reading.at_once.unwrap_or(options.at_once);
            let place = BucketPlace::open_with_lists(bucket, &options, &hosts.lists, &std::env::temp_dir())?;
            Ok(Box::new(place) as Box<dyn Place>)
        }))
    }
}
