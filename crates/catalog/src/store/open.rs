//! Opens catalogues: to write, to read without the right to write, and for the first time.

use std::cell::RefCell;
use std::fs::{File, Metadata, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::lock::beside;
use super::{Catalog, CatalogError, Result, guard, mapping, schema};
use verisum_files::percent;
use verisum_files::replace::folder_of;
use verisum_files::{Replacement, lock};

/// KiB of pages that a connection keeps in memory.
const CACHE_KIB: i64 = 24 << 10;

/// Pages of the log before it is worked into the file. That waits for the disk: while a scrub reads, only its writer, and
/// at the end everybody.
const LOG_PAGES: i64 = 1024;

impl Catalog {
    /// Opens a catalogue for reading and writing, makes it if there is none, and brings an older one
    /// up to date. Whoever writes holds the [`Lock`](super::Lock).
    ///
    /// # Errors
    /// Also if there is none, but the log of one that was removed or renamed.
    pub fn open(path: &Path) -> Result<Catalog> {
        if std::fs::symlink_metadata(path).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
            create(path)?;
        }
        Catalog::open_existing(path)
    }

    /// Opens a catalogue that is there.
    pub fn open_existing(path: &Path) -> Result<Catalog> {
        look_at(path)?;
        let found = std::fs::metadata(path).map_err(|e| CatalogError::io(path, "open", e))?;
        if found.nlink() > 1 {
            return Err(CatalogError::Linked { path: path.to_path_buf() });
        }
        let file = Some((found.dev(), found.ino()));
        let here = OpenHere::add(&found);
        let (mut connection, version) = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, Sharing::Shared)?;
        let failed = |e| CatalogError::database(path, "open", e);
        (|| {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
            if connection.is_readonly("main")? {
                return schema::stand_in(&connection, version);
            }
            connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "normal")?;
            connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
            schema::migrate(&mut connection, version)
        })()
        .map_err(failed)?;
        Ok(Catalog {
            path: path.to_path_buf(),
            connection,
            file,
            still: None,
            watcher: RefCell::default(),
            _here: here,
        })
    }

    /// Opens a catalogue that is there for reading alone, while others may write. It needs no right to
    /// write, neither to the file nor beside it, and an older one stays as it is.
    pub fn open_to_read(path: &Path) -> Result<Catalog> {
        look_at(path)?;
        let here = OpenHere::add(&std::fs::metadata(path).map_err(|e| CatalogError::io(path, "open", e))?);
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
                    match (is_alone && !has_log(path)).then(|| Still::keep(path)).flatten() {
                        Some(kept) => connect(&uri(path, "immutable=1"), flags, Sharing::Shared)
                            .map(|opened| (opened, Some(kept))),
                        None => Err(error),
                    }
                },
            )
        };
        let ((connection, version), kept) =
            opened.map_err(|error| denied(path, &error).unwrap_or(error).of(path))?;
        schema::stand_in(&connection, version).map_err(|e| CatalogError::database(path, "open", e))?;
        Ok(Catalog {
            path: path.to_path_buf(),
            connection,
            file: None,
            still: kept,
            watcher: RefCell::default(),
            _here: here,
        })
    }
}

/// The files of the catalogues that this process has open, each as often as it has.
static OPEN_HERE: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Says that this process has a catalogue open. The system tells only other processes of its locks, and forgets them as
/// soon as this one opens the file once more and closes it.
pub(super) struct OpenHere((u64, u64));

impl OpenHere {
    fn add(found: &Metadata) -> OpenHere {
        let file = (found.dev(), found.ino());
        lock(&OPEN_HERE).push(file);
        OpenHere(file)
    }

    /// Whether somebody in this process has this file open as a catalogue.
    pub(super) fn is(found: &Metadata) -> bool {
        lock(&OPEN_HERE).contains(&(found.dev(), found.ino()))
    }
}

impl Drop for OpenHere {
    fn drop(&mut self) {
        let mut open = lock(&OPEN_HERE);
        if let Some(at) = open.iter().position(|file| *file == self.0) {
            open.swap_remove(at);
        }
    }
}

/// Fails for what cannot be a catalogue, before SQLite waits for it or makes it one.
fn look_at(path: &Path) -> Result<()> {
    let found = std::fs::metadata(path).map_err(|e| CatalogError::io(path, "open", e))?;
    if !found.is_file() {
        let error = match found.is_dir() {
            true => std::io::Error::from(rustix::io::Errno::ISDIR),
            false => std::io::Error::other("not a regular file"),
        };
        return Err(CatalogError::io(path, "open", error));
    }
    if found.len() <= 1 {
        // SQLite would take it for a new one, and everything in the trees would be new.
        let what = if found.len() == 0 { "it is empty" } else { "it is cut off" };
        return Err(CatalogError::damaged_at_open(path, what));
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
    let failed = |e| CatalogError::database(path, "open", e);
    mapping::allocate_before_mapping();
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // A backup names its file by a URL, which SQLite takes only from a connection that was opened by one.
    let opened = match flags.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
        true => Connection::open_with_flags(uri(path, "mode=rw"), flags | OpenFlags::SQLITE_OPEN_URI),
        false => Connection::open_with_flags(path, flags),
    };
    let connection = opened.map_err(failed)?;
    // Reading changes nothing, nor does it if the catalogue turns out to be damaged.
    keep_log(&connection, path);
    connection.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
    if sharing == Sharing::Alone {
        connection.pragma_update(None, "locking_mode", "exclusive").map_err(failed)?;
    }
    let (version, application, parts) = (|| {
        // Somebody may bring it up to date meanwhile.
        let moment = connection.unchecked_transaction()?;
        let version = schema::version(&moment)?;
        let application: i32 = moment.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let parts = schema::parts(&moment)?;
        moment.commit()?;
        Ok((version, application, parts))
    })()
    .map_err(failed)?;
    if application != schema::APPLICATION && (!parts.is_empty() || version > 0) {
        return Err(CatalogError::Foreign { path: path.to_path_buf() });
    }
    if version > schema::VERSION {
        let (found, known) = (version, schema::VERSION);
        return Err(CatalogError::Newer { path: path.to_path_buf(), found, known });
    }
    if let Some(what) = schema::difference(&parts, version).map_err(failed)? {
        return Err(CatalogError::damaged_at_open(path, &what));
    }
    connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    guard::register(&connection).map_err(failed)?;
    if flags.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
        give_logs(path);
    }
    Ok((connection, version))
}

/// Leaves the log beside a catalogue as it is when the connection is closed, if there is anything in it.
pub(super) fn keep_log(connection: &Connection, path: &Path) {
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log(path));
}

/// Gives the catalogue's group the files beside it: SQLite gives them its permissions and the group of the process.
/// They are not opened for that, as the system would forget then that this process locked them.
fn give_logs(path: &Path) {
    let Ok(found) = std::fs::metadata(path) else { return };
    for log in ["-wal", "-shm"].map(|end| beside(path, end)) {
        let is_others = |about: Metadata| about.is_file() && about.gid() != found.gid();
        if log.symlink_metadata().is_ok_and(is_others) && lchown(&log, None, Some(found.gid())).is_err() {
            // Another user's: that is for their process to do.
            let _ = std::fs::set_permissions(&log, Permissions::from_mode(found.mode() & 0o700));
        }
    }
}

/// A path as SQLite's URI with one parameter.
pub(crate) fn uri(path: &Path, parameter: &str) -> PathBuf {
    format!("file:{}?{parameter}", percent::encoded(path.as_os_str().as_bytes(), b"/")).into()
}

fn is_on_read_only_file_system(path: &Path) -> bool {
    let flags = rustix::fs::statvfs(path).map(|found| found.f_flag);
    flags.is_ok_and(|flags| flags.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Whether there may be commits that are in the log alone.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// The error of what we have no right to read, where SQLite says only that it cannot open something.
fn denied(path: &Path, error: &CatalogError) -> Option<CatalogError> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use rustix::io::Errno;
    let is_denied =
        |path: &PathBuf| accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS) == Err(Errno::ACCESS);
    // Without a log it is the lock that would let us read.
    let last = if has_log(path) { "-shm" } else { ".lock" };
    let files = [path.to_path_buf(), beside(path, "-wal"), beside(path, last)];
    let file = files.into_iter().find(is_denied).filter(|_| error.is_cannot_open())?;
    Some(CatalogError::io(&file, "open", Errno::ACCESS))
}

/// Whether SQLite can make its log and index.
fn may_write_beside(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let may_write = |path: &Path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    may_write(path) && may_write(folder_of(path))
}

/// A catalogue that is read as if nobody could write to it.
#[derive(Debug)]
pub(super) struct Still {
    /// Keeps those from it who go by it. Who may not write to the catalogue is not waited for.
    _lock: File,
    /// Its inode, length and time.
    before: [i64; 4],
}

impl Still {
    /// Keeps others from beginning to write, if nobody does.
    fn keep(path: &Path) -> Option<Still> {
        let lock = File::open(beside(path, ".lock")).ok()?;
        lock.try_lock_shared().ok()?;
        Some(Still { _lock: lock, before: Still::look(path)? })
    }

    /// Whether nobody wrote to it.
    pub(super) fn is_so(&self, path: &Path) -> bool {
        !has_log(path) && Still::look(path) == Some(self.before)
    }

    fn look(path: &Path) -> Option<[i64; 4]> {
        let found = std::fs::metadata(path).ok()?;
        Some([found.ino() as i64, found.len() as i64, found.mtime(), found.mtime_nsec()])
    }
}

/// Makes a catalogue in memory, and the file at once: one that is empty was emptied, and whatever ends this
/// process leaves nothing that is half made.
fn create(path: &Path) -> Result<()> {
    require_no_log(path)?;
    let new = Replacement::private(path)?;
    let failed = |error| CatalogError::database(path, "create", error);
    let mut made = Connection::open_in_memory().map_err(failed)?;
    guard::register(&made).and_then(|()| schema::migrate(&mut made, 0)).map_err(failed)?;
    new.file()
        .write_all(&made.serialize("main").map_err(failed)?)
        .map_err(|e| CatalogError::io(path, "write", e))?;
    Ok(new.place()?)
}

/// Fails if a catalogue that was removed or renamed left its log: SQLite would work it into a new one.
fn require_no_log(path: &Path) -> Result<()> {
    for end in ["-wal", "-journal", "-shm"] {
        let left = beside(path, end);
        match left.symlink_metadata() {
            // What is in the memory that was shared is in the log too.
            Ok(found) if found.len() > 0 && end != "-shm" => {
                return Err(CatalogError::LeftOver { path: left });
            }
            Ok(_) => std::fs::remove_file(&left).map_err(|e| CatalogError::io(&left, "remove", e))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(CatalogError::io(&left, "open", error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Identity;
    use super::*;

    #[test]
    fn newer_and_foreign_databases_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let catalog = Catalog::open(&path).unwrap();
        catalog.connection.pragma_update(None, "user_version", schema::VERSION + 1).unwrap();
        drop(catalog);
        assert!(matches!(Catalog::open(&path), Err(CatalogError::Newer { .. })));
        let path = folder.path().join("other.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
        assert!(matches!(Catalog::open(&path), Err(CatalogError::Foreign { .. })));
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
    fn the_log_of_a_catalogue_that_is_only_read_or_cannot_be_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (path, killed) = (folder.path().join("c.db"), folder.path().join("killed.db"));
        let catalog = Catalog::open(&path).unwrap();
        catalog.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        catalog.add_root(Path::new("/srv"), Identity { device: 1, inode: 2 }).unwrap();
        for end in ["", "-wal"] {
            std::fs::copy(beside(&path, end), beside(&killed, end)).unwrap();
        }
        let files = || ["", "-wal"].map(|end| std::fs::read(beside(&killed, end)).unwrap());
        let before = files();
        assert_eq!(Catalog::open_to_read(&killed).unwrap().roots().unwrap().len(), 1);
        assert!(before == files());
        let mut damaged = before[0].clone();
        damaged[100] ^= 0xff;
        std::fs::write(&killed, &damaged).unwrap();
        Catalog::open_existing(&killed).err().unwrap();
        assert!([damaged, before[1].clone()] == files());
        std::fs::write(&killed, &before[0]).unwrap();
        assert_eq!(Catalog::open_existing(&killed).unwrap().roots().unwrap().len(), 1);
        assert!(!beside(&killed, "-wal").exists());
    }

    #[test]
    fn the_log_of_a_catalogue_that_is_gone_is_not_worked_into_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("c.db"), folder.path().join("moved.db"));
        let catalog = Catalog::open(&path).unwrap();
        catalog.add_root(Path::new("/srv"), Identity { device: 1, inode: 2 }).unwrap();
        std::fs::rename(&path, &moved).unwrap();
        drop(catalog);
        let log = beside(&path, "-wal");
        let error = Catalog::open(&path).err().unwrap();
        assert!(matches!(&error, CatalogError::LeftOver { path } if *path == log), "{error}");
        assert!(!path.exists());
        // It is worth something to the one that was moved.
        std::fs::rename(&moved, &path).unwrap();
        assert_eq!(Catalog::open(&path).unwrap().roots().unwrap().len(), 1);
        std::fs::remove_file(&path).unwrap();
        // An empty one is worth nothing.
        File::create(&log).unwrap();
        std::fs::write(beside(&path, "-shm"), "old").unwrap();
        let catalog = Catalog::open(&path).unwrap();
        assert_eq!((catalog.roots().unwrap(), catalog.check().unwrap()), (vec![], vec![]));
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
}
