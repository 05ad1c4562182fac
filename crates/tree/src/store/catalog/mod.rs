//! The catalogue: one SQLite file that remembers what trees of files were, and when that was last
//! found to be so.
//!
//! One process at a time writes; that is what [`Lock`] is for. Others may read meanwhile. Commits come
//! every few moments and survive the death of the process at any point; after a loss of power the last
//! of them may be gone, but never the file.
//!
//! Names are bytes. Non-goals: the content of files, and directories without files.

mod check;
mod condemned;
mod directory;
mod error;
mod files;
mod former;
mod fresh;
mod guard;
mod held;
mod manifests;
mod mapping;
mod record;
mod root;
mod run;
mod schema;
mod transfer;

use std::fs::{File, TryLockError};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

pub use check::Problem;
pub use condemned::{Condemned, Likeness};
pub use error::Error;
pub use files::Position;
pub use fresh::Place;
pub use manifests::Exported;
pub use record::{Change, Finding, Known, Record, Seen, State, Trouble, stamp};
pub use root::{Identity, Root, is_address};
pub use run::Run;
pub use transfer::Imported;

type Result<T, E = Error> = std::result::Result<T, E>;

/// KiB of pages that a connection keeps in memory.
const CACHE_KIB: i64 = 24 << 10;

/// Pages of the log before it is worked into the file, which waits for the disk.
const LOG_PAGES: i64 = 8192;

/// How often the lock is asked for, and how long is waited between.
const ATTEMPTS: u32 = 4;
const MOMENT: Duration = Duration::from_millis(50);

/// An open catalogue.
pub struct Catalog {
    path: PathBuf,
    connection: Connection,
    /// Keeps others from writing, where it could not be read otherwise.
    _kept_still: Option<File>,
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
    /// [`Error::InUse`] if another process has it, and has it still after a moment: who only asks whether
    /// somebody has it needs no longer.
    pub fn take(catalog: &Path) -> Result<Lock> {
        let path = beside(catalog, ".lock");
        // What is no catalogue should get no lock beside it.
        if catalog.symlink_metadata().is_ok() && path.symlink_metadata().is_err() {
            Catalog::open_to_read(catalog)?;
        }
        let options = File::options().create(true).truncate(false).read(true).write(true).clone();
        let file = options.open(&path).map_err(|e| Error::io(&path, "open", e))?;
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => std::thread::sleep(MOMENT),
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::InUse { path: catalog.to_path_buf() });
                }
                Err(TryLockError::Error(e)) => return Err(Error::io(&path, "lock", e)),
            }
        }
        sweep(catalog, "new");
        Ok(Lock { _file: file })
    }

    /// Whether a process has it. One that cannot be asked for has nobody.
    pub fn is_taken(catalog: &Path) -> bool {
        let file = File::open(beside(catalog, ".lock"));
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
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
        look_at(path)?;
        let (mut connection, version) = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, Sharing::Shared)?;
        let failed = |e| Error::database(path, "open", e);
        (|| {
            if connection.is_readonly("main")? {
                return schema::stand_in(&connection, version);
            }
            connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "normal")?;
            connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
            schema::migrate(&mut connection, version)
        })()
        .map_err(failed)?;
        Ok(Catalog { path: path.to_path_buf(), connection, _kept_still: None })
    }

    /// Opens a catalogue that is there for reading alone, while others may write. It needs no right to
    /// write, neither to the file nor beside it, and an older one stays as it is.
    pub fn open_to_read(path: &Path) -> Result<Catalog> {
        look_at(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let opened = if is_on_read_only_file_system(path) && !has_log(path) {
            // Nobody can write to it, so nothing has to be shared with anybody.
            connect(&uri(path, "immutable=1"), flags, Sharing::Shared).map(|opened| (opened, None))
        } else if may_write_beside(path) {
            let writing = OpenFlags::SQLITE_OPEN_READ_WRITE;
            let opened = connect(path, writing, Sharing::Shared).or_else(|error| {
                // Without space for the memory that is shared with others it can be read alone.
                match error.is_out_of_space() {
                    true => connect(path, writing, Sharing::Alone),
                    false => Err(error),
                }
            });
            opened.map(|opened| (opened, None))
        } else {
            connect(&uri(path, "mode=ro"), flags, Sharing::Shared).map(|opened| (opened, None)).or_else(
                |error| {
                    // Without its log and index, which only a writer can make, it can be read as long as
                    // nobody begins to write.
                    let is_alone = error.is_cannot_open() || error.is_out_of_space();
                    match (is_alone && !has_log(path)).then(|| keep_still(path)).flatten() {
                        Some(kept) => connect(&uri(path, "immutable=1"), flags, Sharing::Shared)
                            .map(|opened| (opened, Some(kept))),
                        None => Err(error),
                    }
                },
            )
        };
        let ((connection, version), kept) = opened.map_err(|error| error.of(path))?;
        schema::stand_in(&connection, version).map_err(|e| Error::database(path, "open", e))?;
        Ok(Catalog { path: path.to_path_buf(), connection, _kept_still: kept })
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
    /// at all, and replaces the file that had its name, or to which a link of its name leads.
    ///
    /// # Errors
    /// Also where its name is that of something else than a regular file.
    pub fn back_up(&self, to: &Path) -> Result<()> {
        let to = &*to.canonicalize().unwrap_or_else(|_| to.to_path_buf());
        if to.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err(Error::io(to, "write", std::io::Error::other("not a regular file")));
        }
        sweep(to, "partial");
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
        own_files(&self.path)
    }

    fn failed(&self, operation: &'static str) -> impl Fn(rusqlite::Error) -> Error {
        move |source| Error::database(&self.path, operation, source)
    }

    fn damaged(&self, what: impl Into<String>) -> Error {
        Error::Damaged { path: self.path.clone(), what: what.into() }
    }
}

/// The files that a catalogue of this path consists of.
pub fn own_files(catalog: &Path) -> Vec<PathBuf> {
    let mut files = vec![catalog.to_path_buf()];
    files.extend(["-wal", "-shm", ".lock"].map(|end| beside(catalog, end)));
    files
}

/// Fails for what cannot be a catalogue, before SQLite waits for it or makes it one.
fn look_at(path: &Path) -> Result<()> {
    let found = std::fs::metadata(path).map_err(|e| Error::io(path, "open", e))?;
    if !found.is_file() {
        let error = match found.is_dir() {
            true => std::io::Error::from(rustix::io::Errno::ISDIR),
            false => std::io::Error::other("not a regular file"),
        };
        return Err(Error::io(path, "open", error));
    }
    if found.len() == 0 {
        // SQLite would take it for a new one, and everything in the trees would be new.
        return Err(Error::Damaged { path: path.to_path_buf(), what: "it is empty".to_string() });
    }
    Ok(())
}

/// Whether others may use the catalogue at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// They may: what is in the log is known to all from memory that is shared.
    Shared,
    /// They wait.
    Alone,
}

/// A connection to a catalogue, and its version.
fn connect(path: &Path, flags: OpenFlags, sharing: Sharing) -> Result<(Connection, i64)> {
    let failed = |e| Error::database(path, "open", e);
    mapping::allocate_before_mapping();
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
    if sharing == Sharing::Alone {
        connection.pragma_update(None, "locking_mode", "exclusive").map_err(failed)?;
    }
    let version = schema::version(&connection).map_err(failed)?;
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if application != schema::APPLICATION && (tables > 0 || version > 0) {
        return Err(Error::Foreign { path: path.to_path_buf() });
    }
    if version > schema::VERSION {
        let (found, known) = (version, schema::VERSION);
        return Err(Error::Newer { path: path.to_path_buf(), found, known });
    }
    connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    guard::register(&connection).map_err(failed)?;
    Ok((connection, version))
}

/// A path as SQLite's URI with one parameter.
fn uri(path: &Path, parameter: &str) -> PathBuf {
    let mut text = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                text.push(char::from(*byte));
            }
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    format!("{text}?{parameter}").into()
}

fn is_on_read_only_file_system(path: &Path) -> bool {
    let flags = rustix::fs::statvfs(path).map(|found| found.f_flag);
    flags.is_ok_and(|flags| flags.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Whether there may be commits that are in the log alone.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// Whether SQLite can make its log and index.
fn may_write_beside(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let may_write = |path: &Path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    may_write(path) && may_write(folder)
}

/// Keeps others from beginning to write, if nobody does.
fn keep_still(path: &Path) -> Option<File> {
    let file = File::open(beside(path, ".lock")).ok()?;
    file.try_lock_shared().ok().map(|()| file)
}

/// Makes a catalogue beside its name and renames it: one that is empty was emptied.
fn create(path: &Path) -> Result<()> {
    let partial = beside(path, &format!(".{}.new", std::process::id()));
    let _ = std::fs::remove_file(&partial);
    mapping::allocate_before_mapping();
    let made = Connection::open(&partial).and_then(|mut connection| {
        guard::register(&connection)?;
        schema::migrate(&mut connection, 0)
    });
    let made = made.map_err(|e| Error::database(path, "create", e));
    let made = made.and_then(|()| std::fs::rename(&partial, path).map_err(|e| Error::io(path, "create", e)));
    if made.is_err() {
        for end in ["", "-journal"] {
            let _ = std::fs::remove_file(beside(&partial, end));
        }
    }
    made
}

/// How long nobody has written to what was left behind by a process that is gone. It may be gone only from
/// here: another machine or container has processes of its own.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Removes what processes that were killed left beside a file: `NAME.PID.END` and its journal.
fn sweep(path: &Path, end: &str) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let folder = if folder == Path::new("") { Path::new(".") } else { folder };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_left = process_of(entry.file_name().as_bytes(), name.as_bytes(), end).is_some_and(|process| {
            let is_gone = rustix::process::test_kill_process(process) == Err(rustix::io::Errno::SRCH);
            let found = entry.metadata().ok().filter(std::fs::Metadata::is_file);
            let age = found.and_then(|found| found.modified().ok()?.elapsed().ok());
            is_gone && age.is_some_and(|age| age > ABANDONED)
        });
        if is_left {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The process in a name that is `NAME.PID.END`, or that with `-journal`.
fn process_of(found: &[u8], name: &[u8], end: &str) -> Option<rustix::process::Pid> {
    let rest = found.strip_prefix(name)?.strip_prefix(b".")?;
    let rest = rest.strip_suffix(b"-journal").unwrap_or(rest);
    let number = rest.strip_suffix(end.as_bytes())?.strip_suffix(b".")?;
    if !number.iter().all(u8::is_ascii_digit) {
        return None;
    }
    rustix::process::Pid::from_raw(std::str::from_utf8(number).ok()?.parse().ok()?)
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
    fn only_files_are_replaced_by_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, _) = catalog(folder.path());
        let path = |name: &str| folder.path().join(name);
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), kind, mode, 0).unwrap();
        std::os::unix::fs::symlink("nowhere", path("dangling")).unwrap();
        for name in ["pipe", "dangling"] {
            assert!(catalog.back_up(&path(name)).is_err(), "{name}");
            assert!(!path(name).symlink_metadata().unwrap().is_file(), "{name}");
        }
        std::fs::write(path("old"), "").unwrap();
        std::os::unix::fs::symlink("old", path("link")).unwrap();
        catalog.back_up(&path("link")).unwrap();
        assert!(path("link").is_symlink() && path("old").metadata().unwrap().len() > 0);
    }

    #[test]
    fn what_is_no_catalogue_gets_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "no database, but a text that somebody wrote").unwrap();
        assert!(Lock::take(&path).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_dead_processes_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::process::id();
        // No process has such a number.
        let gone = i32::MAX;
        let names = [
            (format!("c.db.{gone}.new"), true),
            (format!("c.db.{gone}.new-journal"), true),
            (format!("c.db.{own}.new"), false),
            (format!("d.db.{gone}.new"), false),
            (format!("c.db.{gone}.old"), false),
            ("c.db.x.new".to_string(), false),
        ];
        for (name, _) in &names {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - 2 * ABANDONED).unwrap();
        }
        let fresh = folder.path().join(format!("c.db.{}.new", gone - 1));
        File::create(&fresh).unwrap();
        drop(Lock::take(&folder.path().join("c.db")).unwrap());
        for (name, is_removed) in names {
            assert_eq!(!folder.path().join(&name).exists(), is_removed, "{name}");
        }
        assert!(fresh.exists(), "its process may be elsewhere");
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
        let mut after = Position::START;
        let mut seen = Vec::new();
        loop {
            let page = catalog.stalest(root.id, &after, 90, 7).unwrap();
            let Some((place, _)) = page.last() else { break };
            after = place.clone();
            seen.extend(page.iter().map(|(_, record)| record.verified));
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

    /// A catalogue of an older version with a file, a run and a root.
    fn older(path: &Path, version: usize) {
        let connection = Connection::open(path).unwrap();
        guard::register(&connection).unwrap();
        for step in &schema::STEPS[..version] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "application_id", schema::APPLICATION).unwrap();
        connection.pragma_update(None, "user_version", version as i64).unwrap();
        connection
            .execute_batch(
                "INSERT INTO algorithm VALUES (1, 'sha256');
                 INSERT INTO root(id, path, directory, device, inode, files, bytes)
                    VALUES (1, x'2f737276', 1, 1, 2, 1, 7);
                 INSERT INTO directory VALUES (1, -1, x'', 1);
                 INSERT INTO file(directory, name, root, state, verified, size, mtime, ctime, inode,
                    algorithm, digest, first_seen, changed)
                    VALUES (1, x'61', 1, 0, 3, 7, 8, 9, 10, 1, zeroblob(32), 11, 12);
                 INSERT INTO run(root, started, cycle) VALUES (1, 2, 3)",
            )
            .unwrap();
        if version >= 5 {
            // A run that was killed has found twice that the same file was bad, and then well.
            let sql =
                "INSERT INTO former VALUES (1, 1, x'62', 6, ?1, 5, 7, 8, 9, 10, 1, zeroblob(32), 11, 12, 3,
                       7, 8, 10, x'ff')";
            connection.execute(sql, [4]).unwrap();
            connection.execute(sql, [5]).unwrap();
        }
        if version >= 4 {
            let sql = format!("UPDATE file SET guard = {}", guard::guard_with("file.state"));
            connection.execute_batch(&sql).unwrap();
        }
    }

    #[test]
    fn older_versions_are_brought_up_to_date() {
        let folder = tempfile::tempdir().unwrap();
        for version in 1..schema::STEPS.len() {
            let path = folder.path().join(format!("{version}.db"));
            older(&path, version);
            // To be read they need not be.
            let reading = Catalog::open_to_read(&path).unwrap();
            let writing = Catalog::open(&path);
            let written = writing.as_ref().unwrap();
            assert_eq!(schema::version(&written.connection).unwrap(), schema::VERSION);
            for catalog in [&reading, written] {
                let runs = catalog.runs(1, 10).unwrap();
                assert_eq!((runs[0].started, runs[0].interrupted, &runs[0].error), (2, false, &None));
                let record = catalog.record(1, "a".as_ref()).unwrap().unwrap();
                assert_eq!((record.size, record.changed, record.state), (7, 12, State::Sound));
                assert_eq!(catalog.check().unwrap(), []);
                catalog.export(&mut Vec::new()).unwrap();
            }
            assert_eq!(reading.root(Path::new("/srv")).unwrap().unwrap().born, None);
            assert_eq!(written.replaced(1).unwrap(), 0);
            assert_eq!(written.unread_as(1, &record(1)).unwrap(), None);
            written.settle_former(1).unwrap();
            let formers = written.formers(1).unwrap();
            let found: Vec<_> = formers.iter().map(|(_, former)| (former.found, former.inode)).collect();
            assert_eq!(found, if version >= 5 { vec![((5, 5), 10)] } else { vec![] });
        }
    }

    #[test]
    fn damaged_records_are_known_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let columns = ["size", "mtime", "ctime", "inode", "algorithm", "first_seen", "changed", "state"];
        for name in columns.iter().chain(&["digest", "sound", "null"]) {
            let name = name.as_ref();
            catalog.apply(root.id, root.directory, name, &Change::Add(record(3))).unwrap();
        }
        let damage = |set: &str| catalog.connection.execute(set, []).unwrap();
        for column in columns {
            damage(&format!("UPDATE file SET {column} = {column} + 4 WHERE name = CAST('{column}' AS BLOB)"));
        }
        damage("UPDATE file SET digest = x'01' WHERE name = CAST('digest' AS BLOB)");
        damage("UPDATE file SET guard = NULL WHERE name = CAST('null' AS BLOB)");
        for column in columns.iter().chain(&["digest", "null"]) {
            let found = catalog.record(root.directory, column.as_ref()).unwrap().unwrap();
            assert_eq!(found.state, State::DAMAGED, "{column}");
        }
        assert_eq!(catalog.record(root.directory, "sound".as_ref()).unwrap(), Some(record(3)));
        let problems = catalog.check().unwrap();
        let damaged: Vec<_> = problems.iter().filter(|problem| problem.0.contains("is damaged")).collect();
        assert_eq!(damaged.len(), 10, "{problems:?}");
        assert!(damaged.iter().any(|problem| problem.0 == "/srv/mtime: its record is damaged"));
        // What is told of such a file keeps the record as it is.
        let finding = Finding { since: 1, seen: 1, ..Finding::default() };
        assert!(!catalog.lose(root.directory, "mtime".as_ref(), &finding).unwrap());
        assert!(catalog.lose(root.directory, "sound".as_ref(), &finding).unwrap());
        let page = catalog.in_trouble(root.id, &Position::START, true, 100).unwrap();
        let states: Vec<State> = page.iter().map(|(_, record)| record.state).collect();
        assert!(states.contains(&State::MISSING) && states.contains(&State::DAMAGED), "{states:?}");
        assert_eq!(page.iter().find(|row| row.0.name == b"mtime").unwrap().1.mtime, record(3).mtime + 4);
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
    fn what_was_bad_is_exported_and_imported() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let name = OsStr::from_bytes(b"\xff");
        let bad = State::Trouble(Trouble::Verdict(crate::Verdict::Rot));
        let read = Seen { size: 9, mtime: 8, ctime: 7, inode: u64::MAX, digest: Output::zeroed(32) };
        let finding = Finding { since: 1, seen: 2, read: Some(read), detail: None };
        catalog.apply(root.id, root.directory, name, &Change::Add(record(3))).unwrap();
        catalog.apply(root.id, root.directory, name, &Change::Suspect(bad, finding)).unwrap();
        catalog.keep_former(root.id, root.directory, name, None).unwrap();
        // As long as it is there it is not remembered twice.
        catalog.settle_former(root.id).unwrap();
        assert_eq!(catalog.formers(root.id).unwrap(), []);
        catalog.keep_former(root.id, root.directory, name, None).unwrap();
        catalog.apply(root.id, root.directory, name, &Change::Confirm(record(3))).unwrap();
        catalog.settle_former(root.id).unwrap();
        let formers = catalog.formers(root.id).unwrap();
        assert_eq!((formers.len(), formers[0].1.found, formers[0].1.record.state), (1, (1, 2), bad));
        assert_eq!(catalog.check().unwrap(), []);

        let mut lines = Vec::new();
        catalog.export(&mut lines).unwrap();
        let other = Catalog::open(&folder.path().join("other.db")).unwrap();
        for _ in 0..2 {
            other.import(&mut &lines[..], Path::new("x.jsonl"), 1).unwrap();
        }
        let mut again = Vec::new();
        other.export(&mut again).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), String::from_utf8(lines.clone()).unwrap());
        let good = String::from_utf8(lines).unwrap().replace("\"state\":\"rot\"", "\"state\":\"ok\"");
        assert!(other.import(&mut good.as_bytes(), Path::new("x.jsonl"), 1).is_err());

        assert_eq!(catalog.absolve_below(&root, Path::new("/srv/a"), false).unwrap(), 0);
        assert_eq!(catalog.absolve_below(&root, Path::new("/srv"), true).unwrap(), 1);
        assert_eq!(catalog.absolve_below(&root, Path::new("/srv"), false).unwrap(), 1);
        assert_eq!(catalog.formers(root.id).unwrap(), []);
    }

    #[test]
    fn imports_refuse_what_leads_out_and_take_nothing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, _) = catalog(folder.path());
        let file = |path: &str| {
            format!(
                "{{\"type\":\"file\",\"path\":{path:?},\"size\":1,\"mtime_ns\":1,\"ctime_ns\":1,\"inode\":1,\
                 \"algorithm\":\"md5\",\"digest\":\"{}\",\"first_seen_ms\":1,\"last_changed_ms\":1,\
                 \"last_verified_ms\":0,\"state\":\"ok\"}}\n",
                "0f".repeat(16)
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
            let refused = catalog.import(&mut bad.as_bytes(), Path::new("x.jsonl"), 1).unwrap_err();
            assert!(refused.to_string().starts_with("x.jsonl: line "), "{refused}");
            assert_eq!(catalog.root(Path::new("/x")).unwrap(), None);
        }
        let good = format!("{root}{}{}", file("a/d"), file("a/b/c"));
        let imported = catalog.import(&mut good.as_bytes(), Path::new("x.jsonl"), 1).unwrap();
        assert_eq!(imported, Imported { added: 2, known: 0 });
        assert_eq!(catalog.check().unwrap(), []);
        let mut exported = Vec::new();
        catalog.export(&mut exported).unwrap();
        assert!(String::from_utf8(exported).unwrap().ends_with(&good));
    }
}
