//! The catalogue: one SQLite file that remembers what trees of files were, and when that was last
//! found to be so.
//!
//! One process at a time writes; that is what [`Lock`] is for. Others may read meanwhile. Commits come
//! every few moments and survive the death of the process at any point; after a loss of power the last
//! of them may be gone, but never the file.
//!
//! Names are bytes. Non-goals: the content of files, and directories without files.

mod check;
mod error;
mod fresh;
mod record;
mod root;
mod run;
mod schema;
mod transfer;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

pub use check::Problem;
pub use error::Error;
pub use fresh::Place;
pub use record::{Change, Finding, Known, Record, Seen, State, Trouble, stamp};
pub use root::{Identity, Root};
pub use run::Run;
pub use transfer::Imported;

type Result<T, E = Error> = std::result::Result<T, E>;

/// KiB of pages that a connection keeps in memory.
const CACHE_KIB: i64 = 24 << 10;

/// Pages of the log before it is worked into the file, which waits for the disk.
const LOG_PAGES: i64 = 8192;

/// An open catalogue.
pub struct Catalog {
    path: PathBuf,
    connection: Connection,
}

/// The right to write. Only one process has it; it ends with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock beside the catalogue.
    ///
    /// # Errors
    /// [`Error::InUse`] at once if another process has it.
    pub fn take(catalog: &Path) -> Result<Lock> {
        let path = beside(catalog, ".lock");
        let options = File::options().create(true).truncate(false).read(true).write(true).clone();
        let file = options.open(&path).map_err(|e| Error::io(&path, "open", e))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::InUse { path: catalog.to_path_buf() }),
            Err(TryLockError::Error(e)) => Err(Error::io(&path, "lock", e)),
        }
    }
}

impl Catalog {
    /// Opens a catalogue for reading and writing, makes it if there is none, and brings an older one
    /// up to date. Whoever writes holds the [`Lock`].
    pub fn open(path: &Path) -> Result<Catalog> {
        if std::fs::symlink_metadata(path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
            create(path)?;
        }
        Catalog::open_existing(path)
    }

    /// Opens a catalogue that is there.
    pub fn open_existing(path: &Path) -> Result<Catalog> {
        let found = std::fs::metadata(path).map_err(|e| Error::io(path, "open", e))?;
        if found.is_file() && found.len() == 0 {
            // SQLite would take it for a new one, and everything in the trees would be new.
            return Err(Error::Damaged { path: path.to_path_buf(), what: "it is empty".to_string() });
        }
        Catalog::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    fn open_with(path: &Path, flags: OpenFlags) -> Result<Catalog> {
        let failed = |e| Error::database(path, "open", e);
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
        let version = schema::version(&connection).map_err(failed)?;
        let application: i32 =
            connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(failed)?;
        if application != schema::APPLICATION && (tables > 0 || version > 0) {
            return Err(Error::Foreign { path: path.to_path_buf() });
        }
        if version > schema::VERSION {
            let (found, known) = (version, schema::VERSION);
            return Err(Error::Newer { path: path.to_path_buf(), found, known });
        }
        (|| {
            connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
            connection.set_prepared_statement_cache_capacity(64);
            if connection.is_readonly("main")? {
                return Ok(());
            }
            connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "normal")?;
            connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
            schema::migrate(&mut connection, version)
        })()
        .map_err(failed)?;
        Ok(Catalog { path: path.to_path_buf(), connection })
    }

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

    /// Begins a transaction; what follows is kept by [`Catalog::commit`].
    pub fn begin(&self) -> Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.failed("write"))
    }

    /// Keeps what was done since [`Catalog::begin`].
    pub fn commit(&self) -> Result<()> {
        self.connection.execute_batch("COMMIT").map_err(self.failed("write"))
    }

    /// Forgets what was done since [`Catalog::begin`].
    pub fn roll_back(&self) {
        let _ = self.connection.execute_batch("ROLLBACK");
    }

    /// Brings what was committed to the disk, as far as readers let it.
    pub fn checkpoint(&self) -> Result<()> {
        let done = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        done.map_err(self.failed("write"))
    }

    /// Copies the catalogue as it is at one moment, while others use it. The copy appears whole or not
    /// at all, and replaces what had its name.
    pub fn back_up(&self, to: &Path) -> Result<()> {
        let partial = beside(to, &format!(".{}.partial", std::process::id()));
        let _ = std::fs::remove_file(&partial);
        let copied = self.copy_to(&partial).and_then(|()| {
            let synced = File::open(&partial).and_then(|file| file.sync_all());
            synced.map_err(|e| Error::io(&partial, "write", e))?;
            std::fs::rename(&partial, to).map_err(|e| Error::io(to, "rename", e))
        });
        if copied.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        copied
    }

    fn copy_to(&self, partial: &Path) -> Result<()> {
        let name = partial.to_str().ok_or_else(|| {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "the name is not UTF-8");
            Error::io(partial, "write", error)
        })?;
        let copied = self.connection.execute("VACUUM INTO ?1", [name]);
        copied.map(drop).map_err(|e| Error::database(partial, "write", e))
    }

    /// The files that the catalogue consists of, which no scrub should look at.
    pub fn own_files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.path.clone()];
        files.extend(["-wal", "-shm", ".lock"].map(|end| beside(&self.path, end)));
        files
    }

    fn failed(&self, operation: &'static str) -> impl Fn(rusqlite::Error) -> Error {
        move |source| Error::database(&self.path, operation, source)
    }

    fn damaged(&self, what: impl Into<String>) -> Error {
        Error::Damaged { path: self.path.clone(), what: what.into() }
    }
}

/// Makes a catalogue beside its name and renames it: one that is empty was emptied.
fn create(path: &Path) -> Result<()> {
    let partial = beside(path, &format!(".{}.new", std::process::id()));
    let _ = std::fs::remove_file(&partial);
    let made = Connection::open(&partial).and_then(|mut connection| schema::migrate(&mut connection, 0));
    let made = made.map_err(|e| Error::database(path, "create", e));
    let made = made.and_then(|()| std::fs::rename(&partial, path).map_err(|e| Error::io(path, "create", e)));
    if made.is_err() {
        for end in ["", "-journal"] {
            let _ = std::fs::remove_file(beside(&partial, end));
        }
    }
    made
}

/// A path with something appended to its last name.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use verisum_digest::Output;

    fn record(verified: i64) -> Record {
        Record {
            size: 1 << 50,
            mtime: i64::MIN,
            ctime: 2,
            inode: u64::MAX,
            algorithm: 1,
            digest: Output::zeroed(32),
            first_seen: 4,
            changed: 5,
            verified,
            state: State::Sound,
        }
    }

    fn catalog(folder: &Path) -> (Catalog, Root) {
        let catalog = Catalog::open(&folder.join("c.db")).unwrap();
        catalog.algorithm("sha256").unwrap();
        let root = catalog.add_root(Path::new("/srv"), Identity { device: 1, inode: 2 }).unwrap();
        (catalog, root)
    }

    #[test]
    fn records_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        for name in [&b"plain"[..], b"new\nline", b"\xff\xfe", b"-", b"'"] {
            let name = OsStr::from_bytes(name);
            catalog.apply(root.id, root.directory, name, &Change::Add(record(3))).unwrap();
            assert_eq!(catalog.record(root.directory, name).unwrap(), Some(record(3)));
        }
        let change = Change::Forget(record(3));
        catalog.apply(root.id, root.directory, "plain".as_ref(), &change).unwrap();
        assert_eq!(catalog.record(root.directory, "plain".as_ref()).unwrap(), None);
        assert_eq!(catalog.root(&root.path).unwrap().unwrap().files, 4);
        assert_eq!(catalog.check().unwrap(), []);
    }

    #[test]
    fn the_stalest_come_first_without_a_sort() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        for number in 0..100_i64 {
            let change = Change::Add(Record { size: 1, ..record(number * 37 % 100) });
            catalog.apply(root.id, root.directory, number.to_string().as_ref(), &change).unwrap();
        }
        let mut after = (i64::MIN, 0, Vec::new());
        let mut seen = Vec::new();
        loop {
            let page = catalog.stalest(root.id, &after, 90, 7).unwrap();
            let Some((directory, name, last)) = page.last() else { break };
            after = (last.verified, *directory, name.clone());
            seen.extend(page.iter().map(|row| row.2.verified));
        }
        assert_eq!(seen, (0..90).collect::<Vec<_>>());
        for sql in [
            "SELECT * FROM file INDEXED BY file_by_age WHERE root = 1
             AND (verified, directory, name) > (1, 2, x'33') AND verified < 9
             ORDER BY verified, directory, name LIMIT 5",
            "SELECT * FROM file INDEXED BY file_in_trouble WHERE root = 1 AND state <> 0
             AND (state, directory, name) > (1, 2, x'33') ORDER BY state, directory, name LIMIT 5",
        ] {
            let mut statement = catalog.connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan: Vec<String> =
                statement.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
            assert!(plan.iter().all(|step| step.contains("SEARCH")), "{plan:?}");
        }
    }

    #[test]
    fn older_versions_are_brought_up_to_date() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(schema::STEPS[0]).unwrap();
        connection.pragma_update(None, "application_id", schema::APPLICATION).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        let row = "INSERT INTO run(root, started, cycle) VALUES (1, 2, 3)";
        connection.execute(row, []).unwrap();
        drop(connection);
        let catalog = Catalog::open(&path).unwrap();
        assert_eq!(schema::version(&catalog.connection).unwrap(), schema::VERSION);
        assert_eq!(catalog.runs(1, 10).unwrap()[0].started, 2);
        assert_eq!(catalog.replaced(1).unwrap(), 0);
    }

    #[test]
    fn newer_and_foreign_databases_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let catalog = Catalog::open(&path).unwrap();
        catalog.connection.pragma_update(None, "user_version", schema::VERSION + 1).unwrap();
        drop(catalog);
        assert!(matches!(Catalog::open(&path), Err(Error::Newer { .. })));
        let path = folder.path().join("other.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
        assert!(matches!(Catalog::open(&path), Err(Error::Foreign { .. })));
        let path = folder.path().join("text");
        std::fs::write(
            &path,
            "just some text that is long enough to be no database header, and more than that",
        )
        .unwrap();
        let error = Catalog::open(&path).err().unwrap();
        assert!(error.is_damage(), "{error}");
    }

    #[test]
    fn an_emptied_catalogue_is_no_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        drop(Catalog::open(&path).unwrap());
        File::create(&path).unwrap();
        for opened in [Catalog::open(&path), Catalog::open_existing(&path)] {
            assert!(opened.is_err_and(|error| error.is_damage()));
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn only_one_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let lock = Lock::take(&path).unwrap();
        assert!(matches!(Lock::take(&path), Err(Error::InUse { .. })));
        drop(lock);
        Lock::take(&path).unwrap();
    }

    #[test]
    fn imports_refuse_what_leads_out_and_take_nothing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, _) = catalog(folder.path());
        let file = |path: &str| {
            format!(
                "{{\"type\":\"file\",\"path\":{path:?},\"size\":1,\"mtime_ns\":1,\"ctime_ns\":1,\"inode\":1,\
                 \"algorithm\":\"md5\",\"digest\":\"00ff\",\"first_seen_ms\":1,\"last_changed_ms\":1,\
                 \"last_verified_ms\":0,\"state\":\"ok\"}}\n"
            )
        };
        let root = "{\"type\":\"root\",\"path\":\"/x\",\"device\":1,\"inode\":1}\n";
        for bad in [
            file("a"),
            format!("{root}{}{}", file("good"), file("../a")),
            format!("{root}{}", file("/etc/a")),
            format!("{root}{{}}\n"),
            format!("{root}not json\n"),
        ] {
            assert!(catalog.import(&mut bad.as_bytes(), 1).is_err(), "{bad}");
            assert_eq!(catalog.root(Path::new("/x")).unwrap(), None);
        }
        let good = format!("{root}{}{}", file("a/d"), file("a/b/c"));
        let imported = catalog.import(&mut good.as_bytes(), 1).unwrap();
        assert_eq!(imported, Imported { added: 2, known: 0 });
        assert_eq!(catalog.check().unwrap(), []);
        let mut exported = Vec::new();
        catalog.export(&mut exported).unwrap();
        assert!(String::from_utf8(exported).unwrap().ends_with(&good));
    }
}
