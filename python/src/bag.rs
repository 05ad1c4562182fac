//! `create_bag`: turns a directory into a BagIt bag.

use std::path::Path;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::files::bag::{BagError, BagOptions, Bagged, create_bag as bag};
use verisum::files::{Progress, StartError};

use crate::arguments::{Callback, FsPath, Several};
use crate::errors::{Failure, Kind};
use crate::files::several;
use crate::interrupt::interruptible;

fields! {
    Bag {
        files: u64,
        bytes: u64,
    }
}

#[pymethods]
impl Bag {
    fn __repr__(&self) -> String {
        format!("<verisum.Bag of {} files, {} bytes>", self.files, self.bytes)
    }
}

#[doc = stub!("create_bag")]
#[pyfunction]
#[pyo3(signature = (directory, algorithms=None, *, info=None, threads=0, progress=None))]
pub(crate) fn create_bag(
    py: Python<'_>,
    directory: FsPath,
    algorithms: Option<Several<String>>,
    info: Option<Vec<(String, String)>>,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    progress: Option<Callback>,
) -> PyResult<Bag> {
    let directory = directory.path;
    let done = Arc::new(Progress::default());
    let mut options = BagOptions::default();
    options.digests = several(py, algorithms, "sha512")?;
    options.info = info.unwrap_or_default();
    let is_plain = |text: &str| !text.trim().is_empty() && !text.contains(char::is_control);
    if options.info.iter().any(|(label, value)| !is_plain(label) || label.contains(':') || !is_plain(value)) {
        return Err(PyValueError::new_err("info: labels and values are lines of text"));
    }
    if threads > 0 {
        options.threads = threads;
    }
    options.progress = done.clone();
    let mut tick = |py: Python<'_>| Callback::tell(progress.as_ref(), py, (done.files(), done.bytes()));
    let made = interruptible(py, &mut tick, |stop| {
        options.stop = Arc::new(stop.clone());
        bag(&directory, &options)
    })?;
    let Bagged { files, bytes, .. } = made.map_err(|error| failure(&directory, &error).raise(py))?;
    Ok(Bag { files, bytes })
}

fn failure(directory: &Path, error: &BagError) -> Failure {
    let of = |path: &Path| Failure::new(Kind::File, &error.to_string()).path(path);
    match error {
        BagError::Tree(error) => Failure::from(error),
        BagError::Start(StartError::Digest(error)) => Failure::from(error),
        BagError::IsBag { path } | BagError::Unfit { path, .. } => of(path).operation("create"),
        BagError::Changed { path } => of(path).operation("read"),
        BagError::Io { path, operation, source } => of(path).operation(operation).system(Some(source)),
        _ => of(directory).operation("create"),
    }
}
