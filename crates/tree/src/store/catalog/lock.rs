//! The right to write to a catalogue, and what processes left beside it that had it.

use std::fs::{File, TryLockError};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Catalog, Error, Result};

/// How often the lock is asked for, and how long is waited between.
const ATTEMPTS: u32 = 4;
const MOMENT: Duration = Duration::from_millis(50);

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
        // What is no catalogue should get no lock beside it.
        if catalog.symlink_metadata().is_ok() && beside(catalog, ".lock").symlink_metadata().is_err() {
            Catalog::open_to_read(catalog)?;
        }
        Lock::hold(catalog)
    }

    /// Takes it beside whatever is there.
    pub(super) fn hold(catalog: &Path) -> Result<Lock> {
        let path = beside(catalog, ".lock");
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

/// The files that a catalogue of this path consists of.
pub fn own_files(catalog: &Path) -> Vec<PathBuf> {
    let mut files = vec![catalog.to_path_buf()];
    files.extend(["-wal", "-shm", ".lock"].map(|end| beside(catalog, end)));
    files
}

/// How long nobody has written to what was left behind by a process that is gone. It may be gone only from
/// here: another machine or container has processes of its own.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Removes what processes that were killed left beside a file: `NAME.PID.END` and its journal.
pub(super) fn sweep(path: &Path, end: &str) {
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
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn only_one_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let lock = Lock::take(&path).unwrap();
        assert!(matches!(Lock::take(&path), Err(Error::InUse { .. })));
        drop(lock);
        Lock::take(&path).unwrap();
    }
}
