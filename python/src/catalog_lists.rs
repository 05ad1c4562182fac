//! Lists of checksums out of a `Catalog`, and into one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::blockhash::is_block_hash;
use verisum::catalog::store::{self, CatalogError, Lock, absolute};
use verisum::digest::{Digest, Output};
use verisum::files::check::open_to_record;
use verisum::files::store::manifest::{BlockHashes, ListFormat, ListOptions, ReadError, Reader};
use verisum::files::{Replacement, Stop, Timestamp, lock};

use crate::arguments::FsPath;
use crate::catalog::{Catalog, Wanted};
use crate::errors::{Failure, Kind};
use crate::hash::find;
use crate::interrupt::{Leftover, abandonable, interruptible};

#[pymethods]
impl Catalog {
    #[doc = stub!("Catalog.export_list")]
    #[pyo3(signature = (file, *, format="gnu", tree=None))]
    fn export_list(
        &self,
        py: Python<'_>,
        file: FsPath,
        format: &str,
        tree: Option<FsPath>,
    ) -> PyResult<BTreeMap<&'static str, u64>> {
        let file = file.path;
        let tree = tree.map(Wanted::of);
        let known = ListFormat::ALL.into_iter().find(|known| known.name() == format);
        let format = known.ok_or_else(|| {
            let names = ListFormat::ALL.map(ListFormat::name).join(", ");
            PyValueError::new_err(format!("format: {format:?} is none of {names}"))
        })?;
        let written = interruptible(py, &mut |_| Ok(()), |stop| {
            let store = lock(&self.store);
            let below = tree.as_ref().map(|tree| recorded(tree, &store, &self.path)).transpose()?;
            let replacement =
                Replacement::private(&file).map_err(|error| not_written(&file, &error.source))?;
            let mut to = ListUntilStopped { to: BufWriter::new(replacement.file()), stop };
            let listed = store.list(format, below.as_deref(), &mut to, &mut |_| ());
            let listed = listed.map_err(|error| match error {
                // The catalogue does not know the name of what it writes to.
                CatalogError::Io { operation: "write", source, .. } => not_written(&file, &source),
                error => Failure::from(&error),
            })?;
            to.flush().map_err(|error| not_written(&file, &error))?;
            drop(to);
            replacement.place().map_err(|error| not_written(&file, &error.source))?;
            Ok::<_, Failure>(listed)
        })?;
        let listed = written.map_err(|failure| failure.raise(py))?;
        let counts =
            [("files", listed.files), ("damaged", listed.damaged), ("unlistable", listed.unlistable)];
        Ok(counts.into())
    }

    #[doc = stub!("Catalog.import_list")]
    #[staticmethod]
    #[pyo3(signature = (path, list, tree, *, algorithm=None))]
    fn import_list(
        py: Python<'_>,
        path: FsPath,
        list: FsPath,
        tree: FsPath,
        algorithm: Option<&str>,
    ) -> PyResult<BTreeMap<&'static str, u64>> {
        let (path, list, base) = (path.path, list.path, tree.path);
        let mut options = ListOptions::default();
        let digest = algorithm.map(|name| find(py, name)).transpose()?;
        options.algorithm = digest.map(|digest| digest.name().to_string().into());
        options.block_hashes = BlockHashes::Tagged;
        // The list may be a pipe that nobody writes to. What SQLite has half written it takes back.
        let imported = abandonable(py, Leftover::Reads, &mut |_| Ok(()), move |stop| {
            let catalog_error = |error: CatalogError| Failure::from(&error);
            let path = absolute(&path).map_err(catalog_error)?;
            let base = absolute(&base).map_err(catalog_error)?;
            let reader = opened(&list, &base, &options)?;
            if stop.is_due() {
                return Err(Failure::new(Kind::File, "it is not wanted any more"));
            }
            let _lock = Lock::take(&path).map_err(catalog_error)?;
            let store = store::Catalog::open(&path).map_err(catalog_error)?;
            store.end_early(stop);
            let (mut absent, now) = (0, Timestamp::now());
            let imported = store.import_list(reader, &list, (&base, now), &mut |_| absent += 1);
            imported.map(|imported| (imported, absent)).map_err(catalog_error)
        })?;
        let (imported, absent) = imported.map_err(|failure| failure.raise(py))?;
        let counts = [
            ("added", imported.added),
            ("known", imported.known),
            ("differing", imported.differing),
            ("absent", absent),
            ("unknown_digests", imported.skipped.unknown_digests),
        ];
        Ok(counts.into())
    }
}

/// What a catalogue calls a directory, if it has records of it.
fn recorded(tree: &Wanted, store: &store::Catalog, catalog: &Path) -> Result<PathBuf, Failure> {
    let below = tree.file(store).map_err(|error| Failure::from(&error))?;
    let root = store.root_of(&below).map_err(|error| Failure::from(&error))?;
    root.map(|_| below).ok_or_else(|| tree.unknown(catalog))
}

/// Opens a list of checksums.
fn opened(list: &Path, base: &Path, options: &ListOptions) -> Result<Reader<impl Read + use<>>, Failure> {
    let file = File::open(list).map_err(|error| failed(list, "open", &error).system(Some(&error)))?;
    let opened = open_to_record(file, list, Some(base), options, is_image);
    opened.map(|(reader, _)| reader).map_err(|error| match &error {
        ReadError::Io(source) => failed(list, "read", source).system(Some(source)),
        ReadError::Misjudged(_) => failed(list, "import", &error),
        _ => failed(list, "read", &error),
    })
}

/// Whether a value is the block hash of a file, by any digest that there is.
fn is_image(path: &Path, algorithm: &str, value: Output) -> bool {
    Digest::find(algorithm).is_ok_and(|digest| is_block_hash(path, &digest, value, &|| false))
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    failed(path, "write", error).system(Some(error))
}

fn failed(path: &Path, operation: &str, why: &dyn std::fmt::Display) -> Failure {
    let message = format!("{}: {operation}: {why}", path.display());
    Failure::new(Kind::File, &message).path(path).operation(operation)
}

/// Fails when it is time to stop. Nobody sees its error: whoever asked to stop raises its own.
struct ListUntilStopped<'a, W> {
    to: W,
    stop: &'a Stop,
}

impl<W: Write> Write for ListUntilStopped<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.is_due() { Err(io::ErrorKind::TimedOut.into()) } else { self.to.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
