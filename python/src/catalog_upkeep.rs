//! The upkeep of a `Catalog`: looks for damage, backs it up and restores it, and moves or forgets trees.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use verisum::catalog::store::{self, CatalogError, Problem, Unmovable, absolute};
use verisum::files::lock;

use crate::arguments::FsPath;
use crate::catalog::{Catalog, CatalogTree, Wanted, open_to_write};
use crate::errors::{Failure, Kind};
use crate::interrupt::interruptible;

#[doc = stub!("ForgottenTree")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct ForgottenTree {
    path: PathBuf,
    records: u64,
    waiting: u64,
}

getters! { |tree: ForgottenTree|
    path: &OsStr = tree.path.as_os_str();
    path_bytes: &[u8] = tree.path.as_os_str().as_bytes();
    records: u64 = tree.records;
    waiting: u64 = tree.waiting;
}

#[pymethods]
impl ForgottenTree {
    fn __repr__(&self) -> String {
        format!("<verisum.ForgottenTree {:?}: {} records>", self.path.to_string_lossy(), self.records)
    }
}

#[pymethods]
impl Catalog {
    #[doc = stub!("Catalog.check")]
    #[staticmethod]
    fn check(py: Python<'_>, path: FsPath) -> PyResult<Vec<String>> {
        let path = path.path;
        let checked = interruptible(py, &mut |_| Ok(()), |stop| {
            let store = store::Catalog::open_to_read(&absolute(&path)?)?;
            store.end_early(stop);
            store.check()
        })?;
        match checked {
            Ok(problems) => Ok(problems.into_iter().map(|Problem(text)| text).collect()),
            Err(error) if error.is_damage() => Ok(vec![error.to_string()]),
            Err(error) => Err(Failure::from(&error).raise(py)),
        }
    }

    #[doc = stub!("Catalog.backup")]
    fn backup(&self, py: Python<'_>, to: FsPath) -> PyResult<()> {
        let to = to.path;
        let copied = interruptible(py, &mut |_| Ok(()), |stop| lock(&self.store).back_up(&to, stop))?;
        copied.map_err(|error| Failure::from(&error).raise(py))
    }

    #[doc = stub!("Catalog.restore")]
    #[staticmethod]
    fn restore(py: Python<'_>, path: FsPath, backup: FsPath) -> PyResult<()> {
        let (path, backup) = (path.path, backup.path);
        let restored = interruptible(py, &mut |_| Ok(()), |stop| {
            let backup = absolute(&backup)?;
            let from = store::Catalog::open_to_read(&backup)?;
            Ok::<_, CatalogError>((store::restore(&from, &absolute(&path)?, stop)?, backup))
        })?;
        let (problems, backup) = restored.map_err(|error| Failure::from(&error).raise(py))?;
        if problems.is_empty() {
            return Ok(());
        }
        let problems: Vec<_> = problems.iter().map(|Problem(text)| text.as_str()).collect();
        Err(failed(&backup, "check", &problems.join("; ")).raise(py))
    }

    #[doc = stub!("Catalog.relocate")]
    #[pyo3(signature = (tree, to, *, unmounted=false))]
    fn relocate(&self, py: Python<'_>, tree: FsPath, to: FsPath, unmounted: bool) -> PyResult<CatalogTree> {
        let (tree, to) = (Wanted::of(tree), Wanted::of(to));
        let moved = interruptible(py, &mut |_| Ok(()), |_| {
            let catalog_error = |error: CatalogError| Failure::from(&error);
            let (_lock, store) = open_to_write(&self.path).map_err(catalog_error)?;
            let root = tree.root(&store).map_err(catalog_error)?;
            let root = root.ok_or_else(|| tree.unknown(&self.path))?;
            let to = to.new_path(root.is_remote()).map_err(catalog_error)?;
            match store.why_unmovable(&root, &to).map_err(catalog_error)? {
                Some(Unmovable::NoDirectory) if unmounted => {}
                Some(why) => return Err(failed(&to, "relocate", &why.to_string())),
                None => {}
            }
            store.relocate(root.id, &to).map_err(catalog_error)?;
            CatalogTree::read(&store, store::Root { path: to, ..root }).map_err(catalog_error)
        })?;
        moved.map_err(|failure| failure.raise(py))
    }

    #[doc = stub!("Catalog.forget")]
    #[pyo3(signature = (tree, *, yes=false, dry_run=false))]
    fn forget(&self, py: Python<'_>, tree: FsPath, yes: bool, dry_run: bool) -> PyResult<ForgottenTree> {
        let tree = Wanted::of(tree);
        let forgotten = interruptible(py, &mut |_| Ok(()), |stop| {
            let catalog_error = |error: CatalogError| Failure::from(&error);
            let look = |store: &store::Catalog| {
                let root = tree.root(store).map_err(catalog_error)?;
                let root = root.ok_or_else(|| tree.unknown(&self.path))?;
                let waiting = store.waiting(root.id).map_err(catalog_error)?;
                Ok::<_, Failure>((root, waiting))
            };
            if dry_run {
                let (root, waiting) = look(&lock(&self.store))?;
                return Ok(ForgottenTree { path: root.path, records: root.files, waiting });
            }
            let (_lock, store) = open_to_write(&self.path).map_err(catalog_error)?;
            let (root, waiting) = look(&store)?;
            if waiting > 0 && !yes {
                let why =
                    format!("files of it are bad, missing or waiting: {waiting} (yes=True forgets them too)");
                return Err(failed(&root.path, "forget", &why));
            }
            store.end_early(stop);
            let records = store.forget_root(&root).map_err(catalog_error)?;
            Ok(ForgottenTree { path: root.path, records, waiting })
        })?;
        forgotten.map_err(|failure| failure.raise(py))
    }
}

fn failed(path: &Path, operation: &str, why: &str) -> Failure {
    let message = format!("{}: {operation}: {why}", path.display());
    Failure::new(Kind::Catalog, &message).path(path).operation(operation)
}
