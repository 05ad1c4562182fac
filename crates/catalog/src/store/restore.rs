//! Restores a catalogue from a backup.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, fchown};
use std::path::Path;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use super::backup::copies_of;
use super::lock::beside;
use super::open::OpenHere;
use super::{Catalog, CatalogError, Lock, Problem, Result, schema};
use verisum_files::Stop;
use verisum_files::replace::{Permitted, folder_of};

/// What SQLite keeps beside a database, which belongs to that database alone.
const LOGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The beginning of a database, up to and with the number that says whose it is.
const HEAD: usize = 72;

/// Puts a copy of the catalogue `from` in the place of the catalogue at `path`, which need not be sound, nor there.
/// Returns what is wrong with the backup; if that is anything, nothing is done.
///
/// The log that a killed run left goes first: SQLite would work the changes of another database into the
/// copy. The copy takes its place at once. Whoever ends this between the two leaves the old catalogue without
/// its log, and restores again.
///
/// # Errors
/// Also if somebody uses the catalogue, or if what is at `path` is something else, and [`CatalogError::Stopped`].
pub fn restore(from: &Catalog, path: &Path, stop: &Stop) -> Result<Vec<Problem>> {
    let backup = from.path();
    from.end_early(stop);
    let problems = from.check()?;
    if !problems.is_empty() {
        return Ok(problems);
    }
    let is_same = |a: Metadata, b: Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    if let (Ok(one), Ok(other)) = (backup.metadata(), path.metadata())
        && is_same(one, other)
    {
        return Err(CatalogError::io(backup, "restore", io::Error::other("it is the catalogue itself")));
    }
    // What cannot be replaced should get no lock beside it.
    drop(replaceable(path)?);
    let _lock = Lock::hold(path)?;
    let old = replaceable(path)?;
    let failed = |operation| move |error: io::Error| CatalogError::io(path, operation, error);
    let permitted = old.as_ref().map_or(Permitted::PRIVATE, |(_, old)| copies_of(old));
    let new = from.copy(path, permitted)?;
    if let Some((_, old)) = &old {
        // If we may.
        let _ = fchown(new.file(), Some(old.uid()), None);
    }
    new.file().sync_all().map_err(failed("sync"))?;
    for log in LOGS.map(|end| beside(path, end)) {
        match std::fs::remove_file(&log) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(CatalogError::io(&log, "remove", error));
            }
            _ => {}
        }
    }
    let folder = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
    folder.map_err(failed("sync"))?;
    new.place()?;
    Ok(problems)
}

/// What is to be replaced, locked against all who would read it. One of them could remove, by its name, the
/// log of what takes its place.
fn replaceable(path: &Path) -> Result<Option<(File, Metadata)>> {
    let failed = |error: io::Error| CatalogError::io(path, "restore", error);
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !found.is_file() {
        return Err(failed(io::Error::other("not a regular file")));
    }
    if found.nlink() > 1 {
        return Err(CatalogError::Linked { path: path.to_path_buf() });
    }
    if OpenHere::is(&found) {
        return Err(CatalogError::InUse { path: path.to_path_buf() });
    }
    let file = File::options().read(true).write(true).open(path).map_err(failed)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::ACCESS) => return Err(CatalogError::InUse { path: path.to_path_buf() }),
        Err(errno) => return Err(failed(errno.into())),
    }
    // One that was emptied is replaced too.
    if found.len() > 0 && !is_catalogue(&file) {
        let why = "no catalogue of verisum, or its beginning is damaged (move it away first)";
        return Err(failed(io::Error::other(why)));
    }
    Ok(Some((file, found)))
}

/// Whether a file begins as a catalogue does.
pub(super) fn is_catalogue(file: &File) -> bool {
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0).is_ok() && head.ends_with(&schema::APPLICATION.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::Permissions;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;

    use super::super::Identity;
    use super::*;

    fn restored(backup: &Path, path: &Path) -> Result<Vec<Problem>> {
        restore(&Catalog::open_to_read(backup)?, path, &Stop::default())
    }

    #[test]
    fn the_log_of_what_is_replaced_is_never_worked_in() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("c.db"), folder.path().join("copy.db"));
        let add = |catalog: &Catalog, name: &str| {
            catalog.add_root(Path::new(name), Identity { device: 1, inode: 2 }).unwrap();
        };
        let catalog = Catalog::open(&path).unwrap();
        add(&catalog, "/first");
        catalog.back_up(&copy, &Stop::default()).unwrap();
        add(&catalog, "/second");
        // Another connection of this process is told nothing by the system.
        assert!(matches!(restored(&copy, &path), Err(CatalogError::InUse { .. })));
        // As a killed run leaves it.
        let logs = LOGS.map(|end| (beside(&path, end), std::fs::read(beside(&path, end))));
        drop(catalog);
        for (log, content) in logs {
            if let Ok(content) = content {
                std::fs::write(log, content).unwrap();
            }
        }
        assert!(beside(&path, "-wal").metadata().unwrap().len() > 0);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(restored(&copy, &path).unwrap(), []);
        assert!(!beside(&path, "-wal").exists());
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        let catalog = Catalog::open(&path).unwrap();
        assert_eq!(catalog.roots().unwrap().len(), 1);
        assert_eq!(catalog.check().unwrap(), []);
    }

    #[test]
    fn what_is_no_catalogue_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.db");
        drop(Catalog::open(&copy).unwrap());
        let text = folder.path().join("text");
        std::fs::write(&text, "some text that somebody wrote ".repeat(9)).unwrap();
        assert!(restored(&copy, &text).is_err() && restored(&text, &copy).is_err());
        assert!(std::fs::read(&text).unwrap().starts_with(b"some"));
        assert!(!beside(&text, ".lock").exists());
        for name in [&b"lost"[..], b"emptied", b"no UTF-8: \xff"] {
            let path = folder.path().join(OsStr::from_bytes(name));
            if name == b"emptied" {
                File::create(&path).unwrap();
            }
            assert_eq!(restored(&copy, &path).unwrap(), []);
            assert_eq!(Catalog::open(&path).unwrap().check().unwrap(), []);
        }
        let (path, other) = (folder.path().join("lost"), folder.path().join("linked"));
        std::fs::hard_link(&path, &other).unwrap();
        assert!(matches!(restored(&copy, &other), Err(CatalogError::Linked { .. })));
        assert_eq!(path.metadata().unwrap().ino(), other.metadata().unwrap().ino());
    }

    #[test]
    fn a_backup_in_which_others_made_something_takes_nobodys_place() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("c.db"), folder.path().join("copy.db"));
        let made = [
            ("CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM file; END", "trigger \"t\""),
            ("CREATE VIEW v AS SELECT 1", "view \"v\""),
            ("CREATE TABLE t(x)", "table \"t\""),
            ("CREATE UNIQUE INDEX i ON run(cycle)", "index \"i\""),
            ("ALTER TABLE run ADD COLUMN x", "table \"run\""),
            ("DROP INDEX file_in_trouble", "index \"file_in_trouble\" is missing"),
        ];
        for (sql, told) in made {
            let _ = std::fs::remove_file(&copy);
            drop(Catalog::open(&copy).unwrap());
            rusqlite::Connection::open(&copy).unwrap().execute_batch(sql).unwrap();
            let opened = [Catalog::open(&copy), Catalog::open_existing(&copy), Catalog::open_to_read(&copy)];
            let failed = restored(&copy, &path).err();
            for error in opened.into_iter().map(Result::err).chain([failed]).flatten() {
                assert!(error.is_damage() && error.to_string().contains(told), "{error}");
            }
            assert!(restored(&copy, &path).is_err() && Catalog::open(&copy).is_err() && !path.exists());
        }
        // What a run that was killed and other programs leave, and what changes nothing.
        std::fs::remove_file(&copy).unwrap();
        Catalog::open(&copy).unwrap().index_fresh().unwrap();
        rusqlite::Connection::open(&copy).unwrap().execute_batch("ANALYZE").unwrap();
        assert_eq!(restored(&copy, &path).unwrap(), []);
        assert_eq!(Catalog::open(&path).unwrap().check().unwrap(), []);
    }
}
