//! Imports records from other stores, one by one.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum_digest::Output;

use super::export_import::{CatalogImport, ImportError, ImportFault, ImportTarget, length};
use super::{
    Catalog, CatalogError, CatalogRecord, Identity, ImportCounts, Moment, Repair, Result, Stamp, State,
};
use verisum_files::Timestamp;

/// A record of another store.
#[derive(Clone, Debug)]
pub struct RecordToImport<'a> {
    /// The file's path below its tree.
    pub path: &'a Path,
    /// The name of the digest.
    pub algorithm: &'a str,
    /// The digest.
    pub digest: Output,
    /// What was last thought of it.
    pub state: State,
    /// As in [`CatalogRecord`].
    pub size: u64,
    /// As in [`CatalogRecord`].
    pub mtime: Stamp,
    /// As in [`CatalogRecord`].
    pub ctime: Stamp,
    /// As in [`CatalogRecord`].
    pub inode: u64,
    /// As in [`CatalogRecord`].
    pub first_seen: Moment,
    /// As in [`CatalogRecord`].
    pub changed: Moment,
    /// As in [`CatalogRecord`].
    pub verified: Moment,
}

/// A repair of another store, as in [`Repair`].
#[derive(Clone, Debug)]
pub struct RepairToImport<'a> {
    /// The file's path below its tree.
    pub path: &'a Path,
    /// When it was repaired.
    pub repaired: Moment,
    /// What the file had been found to be.
    pub state: State,
    /// The path or address of the file whose content it took.
    pub source: PathBuf,
    /// How many bytes were written.
    pub bytes: u64,
    /// The name of the digests' algorithm.
    pub algorithm: &'a str,
    /// The digest that it had.
    pub before: Option<Output>,
    /// The digest that it has since.
    pub digest: Output,
    /// Which bytes it has anew.
    pub ranges: Option<Vec<Range<u64>>>,
}

/// Records that are taken in. What is not [finished](RecordImport::finish) is forgotten.
pub struct RecordImport<'a> {
    catalog: &'a Catalog,
    importing: CatalogImport,
    algorithm: Option<(String, i64)>,
    target: Option<ImportTarget>,
    imported: ImportCounts,
    now: Moment,
    is_done: bool,
}

impl Catalog {
    /// Begins to take records in, at this time.
    pub fn import_records(&self, now: Timestamp) -> Result<RecordImport<'_>> {
        self.begin_import()?;
        Ok(RecordImport {
            catalog: self,
            importing: CatalogImport::default(),
            algorithm: None,
            target: None,
            imported: ImportCounts::default(),
            now: now.into(),
            is_done: false,
        })
    }
}

impl RecordImport<'_> {
    /// Says which tree the next files are of. The inner error says what is wrong with it.
    pub fn tree(&mut self, path: &Path) -> Result<Result<(), ImportFault>> {
        let found = self.catalog.target(path, Identity { device: 0, inode: 0 });
        refused(found.map(|target| self.target = Some(target)))
    }

    /// Records a file, unless it has a record. The inner error says what is wrong with the file.
    pub fn file(&mut self, file: &RecordToImport) -> Result<Result<(), ImportFault>> {
        refused(self.take(file))
    }

    /// Remembers a repair, unless it is remembered. The inner error says what is wrong with it.
    pub fn repair(&mut self, repair: RepairToImport) -> Result<Result<(), ImportFault>> {
        refused(self.take_repair(repair))
    }

    /// Keeps what was recorded.
    pub fn finish(mut self) -> Result<ImportCounts> {
        self.catalog.commit_import()?;
        self.is_done = true;
        Ok(std::mem::take(&mut self.imported))
    }

    fn take(&mut self, file: &RecordToImport) -> Result<(), ImportError> {
        let target = self.target.as_mut().ok_or(ImportFault::NoRoot)?;
        self.importing.require_length(file.algorithm, &file.digest)?;
        let place = self.catalog.record_name(target, file.path)?;
        let algorithm = match &self.algorithm {
            Some((name, number)) if name == file.algorithm => *number,
            _ => self.catalog.algorithm(file.algorithm)?,
        };
        if self.algorithm.as_ref().is_none_or(|(_, number)| *number != algorithm) {
            self.algorithm = Some((file.algorithm.to_string(), algorithm));
        }
        let name = OsStr::from_bytes(&place.1);
        if let Some(known) = self.catalog.record(place.0, name)? {
            self.imported.known += 1;
            let is_same = (known.algorithm, known.digest) == (algorithm, file.digest);
            self.imported.differing += u64::from(!is_same);
            return Ok(());
        }
        let RecordToImport { digest, state, mtime, ctime, inode, first_seen, changed, verified, .. } = *file;
        let size = length(file.size)?;
        let record = CatalogRecord {
            size,
            mtime,
            ctime,
            inode,
            algorithm,
            digest,
            first_seen,
            changed,
            verified,
            state,
        };
        self.catalog.add_imported(target, &place, record, self.now)?;
        self.imported.added += 1;
        Ok(())
    }
}

impl RecordImport<'_> {
    fn take_repair(&mut self, arriving: RepairToImport) -> Result<(), ImportError> {
        let target = self.target.as_mut().ok_or(ImportFault::NoRoot)?;
        for digest in arriving.before.iter().chain([&arriving.digest]) {
            self.importing.require_length(arriving.algorithm, digest)?;
        }
        let place = self.catalog.record_name(target, arriving.path)?;
        let repair = Repair {
            repaired: arriving.repaired,
            state: arriving.state,
            source: arriving.source,
            bytes: length(arriving.bytes)?,
            algorithm: self.catalog.algorithm(arriving.algorithm)?,
            before: arriving.before,
            digest: arriving.digest,
            ranges: arriving.ranges,
        };
        Ok(self.catalog.remember_repair(target.root.id, &place, &repair)?)
    }
}

impl Drop for RecordImport<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.catalog.roll_back();
        }
    }
}

fn refused(done: Result<(), ImportError>) -> Result<Result<(), ImportFault>> {
    match done {
        Ok(()) => Ok(Ok(())),
        Err(ImportError::Fault(what)) => Ok(Err(what)),
        Err(ImportError::Catalog(error)) => Err::<_, CatalogError>(error),
    }
}
