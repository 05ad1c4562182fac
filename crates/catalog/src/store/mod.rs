//! The catalogue: one SQLite file with the last good state of each file, and when that was last verified.
//!
//! One process at a time writes; that is what [`Lock`] is for. Others may read meanwhile. Commits come
//! every few moments and survive the death of the process at any point; after a loss of power the last
//! of them may be gone, but never the file.
//!
//! Names are bytes. Non-goals: the content of files, and directories without files.

mod absolute;
mod alarm_hold;
mod backup;
mod by_path;
mod check;
mod check_meanwhile;
mod directory;
mod due_files;
mod error;
mod export_import;
mod export_lines;
mod files;
mod generations;
mod guard;
mod heirs;
mod holders;
mod known_bad;
mod listing;
mod lock;
mod manifests;
mod mapping;
mod open;
mod other_digests;
mod overview;
mod pass_progress;
mod previous;
mod record;
mod record_import;
mod repairs;
mod restore;
mod root;
mod run;
mod schema;
mod survey;
mod times;
mod tree_records;
mod written;

use std::cell::RefCell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(crate) use open::uri;
use open::{OpenHere, Still};
use pass_progress::Watcher;
use rusqlite::{Connection, OptionalExtension, Params, Row};

pub use absolute::{absolute, absolute_name, default_catalog};
pub use alarm_hold::Changed;
pub use check::Problem;
pub use directory::KnownDirectory;
pub(crate) use due_files::{DueFile, DuePlace, Heap};
pub use error::CatalogError;
pub use export_import::{ImportCounts, ImportFault};
pub use files::Position;
pub(crate) use files::VerifiedFile;
pub use heirs::{Heir, Likeness, RecordName};
pub use known_bad::{Copied, KnownBad, PAST, Succession};
pub use listing::ListedRecord;
pub use lock::{Lock, own_files};
pub use manifests::Exported;
pub(crate) use other_digests::OtherDigest;
pub(crate) use overview::{FileContent, SoundFile};
pub use pass_progress::{CatalogPass, PassCost};
pub(crate) use previous::GoneContents;
pub use record::{CatalogRecord, RecordChange, RecordFinding, RecordSummary, Seen, State, Trouble};
pub use record_import::{RecordImport, RecordToImport, RepairToImport};
pub use repairs::{Repair, Repairs};
pub use restore::restore;
pub use root::{Identity, Root, Unmovable, is_address};
pub use run::{Run, UNLISTED};
pub use survey::TreeSurvey;
pub use times::{Moment, Stamp};
pub use tree_records::TreeRecords;
pub use written::Written;

type Result<T, E = CatalogError> = std::result::Result<T, E>;

/// An open catalogue.
pub struct Catalog {
    path: PathBuf,
    connection: Connection,
    /// The device and inode of what is written to.
    file: Option<(u64, u64)>,
    /// What it is read by where nothing can be made beside it.
    still: Option<Still>,
    watcher: RefCell<Watcher>,
    /// Dropped after the connection.
    _here: OpenHere,
}

impl Catalog {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A second connection to the same catalogue, for another thread.
    pub fn again(&self) -> Result<Catalog> {
        Catalog::open_existing(&self.path)
    }

    /// Fails if nothing can be written, for those who would otherwise work in vain.
    pub fn require_writable(&self) -> Result<()> {
        let tried = self.connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK");
        tried.map_err(|e| self.failed("write")(e))
    }

    /// Does what only reads, and all of it sees the catalogue as it is at one moment, whoever writes
    /// meanwhile. Their log cannot be worked in before it is done.
    ///
    /// # Errors
    /// [`CatalogError::Changed`] where others could not be kept from the file itself.
    pub fn at_one_moment<T, E: From<CatalogError>>(
        &self,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        // A part of what sees one moment sees it too.
        if !self.connection.is_autocommit() {
            return read();
        }
        self.connection.execute_batch("BEGIN").map_err(self.failed("read"))?;
        let found = read();
        self.roll_back();
        self.require_unchanged()?;
        found
    }

    /// Fails if somebody wrote where nobody was kept from it.
    fn require_unchanged(&self) -> Result<()> {
        match &self.still {
            Some(still) if !still.is_so(&self.path) => Err(CatalogError::Changed { path: self.path.clone() }),
            _ => Ok(()),
        }
    }

    /// Begins a transaction; what follows is kept by [`Catalog::commit`].
    pub fn begin(&self) -> Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.failed("write"))
    }

    /// Keeps what was done since [`Catalog::begin`].
    ///
    /// # Errors
    /// Also if the catalogue is no longer at its path: then nobody would find what was done.
    pub fn commit(&self) -> Result<()> {
        self.connection.execute_batch("COMMIT").map_err(self.failed("write"))?;
        let found = std::fs::metadata(&self.path).ok().map(|found| (found.dev(), found.ino()));
        match self.file {
            Some(file) if found != Some(file) => Err(CatalogError::Gone { path: self.path.clone() }),
            _ => Ok(()),
        }
    }

    /// Forgets what was done since [`Catalog::begin`].
    pub fn roll_back(&self) {
        let _ = self.connection.execute_batch("ROLLBACK");
    }

    /// Does what writes, all of it or nothing. A part of what is written so is kept or forgotten with the whole.
    /// [`Catalog::at_one_moment`] is for reading: it forgets what is written within.
    ///
    /// # Errors
    /// Those of what is done, of [`Catalog::begin`] and of [`Catalog::commit`].
    pub fn in_transaction<T, E: From<CatalogError>>(
        &self,
        write: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if !self.connection.is_autocommit() {
            return write();
        }
        self.begin()?;
        let done = write().and_then(|written| {
            self.commit()?;
            Ok(written)
        });
        if done.is_err() {
            self.roll_back();
        }
        done
    }

    /// Brings what was committed to the disk, as far as readers let it.
    pub fn checkpoint(&self) -> Result<()> {
        let done = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        done.map_err(self.failed("write"))
    }

    /// The files that the catalogue consists of, which no scrub should look at.
    pub fn own_files(&self) -> Vec<PathBuf> {
        own_files(&self.path)
    }

    /// All rows that a query has.
    fn rows<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<C> {
        let rows = self.connection.prepare_cached(sql);
        let rows = rows.and_then(|mut statement| statement.query_map(values, read)?.collect());
        rows.map_err(self.failed("read"))
    }

    /// The first row that a query has, if it has any.
    fn row<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let row = self.connection.prepare_cached(sql);
        let row = row.and_then(|mut statement| statement.query_row(values, read).optional());
        row.map_err(self.failed("read"))
    }

    /// Does what changes rows.
    fn write(&self, sql: &str, values: impl Params) -> Result<()> {
        self.connection.execute(sql, values).map(drop).map_err(self.failed("write"))
    }

    fn failed(&self, operation: &'static str) -> impl Fn(rusqlite::Error) -> CatalogError {
        move |source| match check::is_of_wrong_value(&source) {
            true => self.damaged(self.told_of_wrong_value()),
            false => CatalogError::database(&self.path, operation, source),
        }
    }

    fn damaged(&self, what: impl Into<String>) -> CatalogError {
        open::keep_log(&self.connection, &self.path);
        CatalogError::damaged(&self.path, &what.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use verisum_digest::Output;

    /// A record that was last verified at some time.
    pub(super) fn record(verified: i64) -> CatalogRecord {
        CatalogRecord {
            size: 1 << 50,
            mtime: Stamp::of_nanoseconds(i64::MIN),
            ctime: Stamp::of_nanoseconds(2),
            inode: u64::MAX,
            algorithm: 1,
            digest: Output::zeroed(32),
            first_seen: Moment::of_milliseconds(4),
            changed: Moment::of_milliseconds(5),
            verified: Moment::of_milliseconds(verified),
            state: State::Sound,
        }
    }

    #[test]
    fn a_root_is_recorded_with_its_top_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, _) = catalog(folder.path());
        let refuse =
            "CREATE TEMP TRIGGER refuse BEFORE INSERT ON directory BEGIN SELECT RAISE(ABORT, 'no'); END";
        catalog.connection.execute_batch(refuse).unwrap();
        let path = Path::new("/other");
        catalog.add_root(path, Identity { device: 1, inode: 2 }).unwrap_err();
        assert!(catalog.root(path).unwrap().is_none());
        assert!(catalog.check().unwrap().is_empty());
    }

    /// A catalogue with a tree.
    pub(super) fn catalog(folder: &Path) -> (Catalog, Root) {
        let catalog = Catalog::open(&folder.join("c.db")).unwrap();
        catalog.algorithm("sha256").unwrap();
        let root = catalog.add_root(Path::new("/srv"), Identity { device: 1, inode: 2 }).unwrap();
        (catalog, root)
    }
}
