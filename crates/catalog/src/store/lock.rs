//! The write lock of a catalogue, and files that its former owners left beside it.

use std::fs::{File, Metadata, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::holders::{held_anew, is_named};
use super::open::OpenHere;
use super::restore::is_catalogue;
use super::{Catalog, CatalogError, Result};
use verisum_files::LockedFile;
use verisum_files::replace::{PRIVATE, RANDOM, UNPLACED, folder_of, require_trusted, without_others};

/// How often the lock is asked for, and how long is waited between.
const ATTEMPTS: u32 = 4;
const MOMENT: Duration = Duration::from_millis(50);

/// The right to write. Only one process has it; it ends with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: LockedFile,
}

impl Lock {
    /// Takes the lock beside the catalogue.
    ///
    /// # Errors
    /// [`CatalogError::InUse`] if another process has it, and has it still after a moment: who only asks whether
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
        require_trusted(catalog).map_err(|error| CatalogError::io(catalog, "open", error))?;
        let path = beside(catalog, ".lock");
        let failed = |operation| {
            let path = &path;
            move |error: io::Error| CatalogError::io(path, operation, error)
        };
        for attempt in 1.. {
            let file = open(&path, catalog).map_err(failed("open"))?;
            let held = match file.try_lock() {
                // Otherwise somebody has put another one in its place.
                Ok(()) => is_named(&file, &path).then_some(file),
                Err(TryLockError::WouldBlock) => {
                    held_anew(&path, &file, catalog).map_err(failed("replace"))?
                }
                Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
            };
            if let Some(file) = held {
                close_to_others(catalog, &file);
                sweep(catalog);
                return Ok(Lock { _file: LockedFile::new(file) });
            }
            if attempt == ATTEMPTS {
                break;
            }
            std::thread::sleep(MOMENT);
        }
        Err(CatalogError::InUse { path: catalog.to_path_buf() })
    }

    /// Removes a new catalogue that got no records, and then the lock. Nobody may have the catalogue open.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn discard(self, catalog: &Path) -> Result<()> {
        // The lock last: whoever waits for it finds that it is another one then.
        for path in own_files(catalog) {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(CatalogError::io(&path, "remove", error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a process has it. One that cannot be asked for has nobody.
    pub fn is_taken(catalog: &Path) -> bool {
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(beside(catalog, ".lock"));
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

/// Opens a lock, or makes it. It is the catalogue's owner's if we may give it to them, and never a link.
fn open(path: &Path, catalog: &Path) -> io::Result<File> {
    let mut options = File::options();
    // A pipe in its place does not keep us waiting.
    options.read(true).write(true).mode(PRIVATE).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.clone().create_new(true).open(path) {
        Ok(file) => {
            give(&file, catalog);
            file
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match options.open(path) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Err(no_lock()),
            opened => opened?,
        },
        Err(error) => return Err(error),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_lock()) }
}

fn no_lock() -> io::Error {
    io::Error::other("it is a link or no regular file; remove it if no verisum is running")
}

/// Gives a lock to the owner of the catalogue, if we may.
pub(super) fn give(lock: &File, catalog: &Path) {
    if let Ok(owner) = catalog.metadata() {
        let _ = fchown(lock, Some(owner.uid()), Some(owner.gid()));
    }
}

/// Takes the rights that all others have from what an earlier version made, and gives the lock the group
/// and mode of the catalogue: who may read the one may look at the other.
///
/// Files to which this process has a connection stay as they are: they would be opened and closed, and then the system
/// would forget that this process locked them.
fn close_to_others(catalog: &Path, lock: &File) {
    let Ok(found) = catalog.metadata() else { return };
    let mode = without_others(found.mode());
    let is_ours = |file: &Metadata| file.is_file() && file.nlink() == 1 && file.uid() == found.uid();
    // Where it cannot be done everything else still can.
    let mend = |file: &File| {
        if file.metadata().is_ok_and(|about| is_ours(&about)) {
            give(file, catalog);
            let _ = file.set_permissions(Permissions::from_mode(mode));
        }
    };
    mend(lock);
    if OpenHere::is(&found) {
        return;
    }
    for end in ["", "-wal", "-shm"] {
        let path = beside(catalog, end);
        if path.symlink_metadata().is_ok_and(|about| is_ours(&about) && about.mode() & 0o007 != 0)
            && let Ok(file) = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(&path)
            && (!end.is_empty() || is_catalogue(&file))
        {
            mend(&file);
        }
    }
}

/// The files that a catalogue of this path consists of.
pub fn own_files(catalog: &Path) -> Vec<PathBuf> {
    let mut files = vec![catalog.to_path_buf()];
    files.extend(["-wal", "-shm", ".lock"].map(|end| beside(catalog, end)));
    files
}

/// How long nobody has written to what was left behind by a process that is gone.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Removes what processes that were killed left beside a file: `NAME.RANDOM.new` and its journal.
pub(super) fn sweep(path: &Path) {
    let Some(name) = path.file_name() else { return };
    let Ok(entries) = std::fs::read_dir(folder_of(path)) else { return };
    for entry in entries.flatten() {
        if is_unplaced(entry.file_name().as_bytes(), name.as_bytes()) {
            let found = entry.metadata().ok().filter(Metadata::is_file);
            let age = found.and_then(|found| found.modified().ok()?.elapsed().ok());
            if age.is_some_and(|age| age > ABANDONED) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether a name is that of a file that was to take the place of another.
fn is_unplaced(found: &[u8], name: &[u8]) -> bool {
    let random = || {
        let rest = found.strip_prefix(name)?.strip_prefix(b".")?;
        rest.strip_suffix(b"-journal").unwrap_or(rest).strip_suffix(UNPLACED.as_bytes())
    };
    random().is_some_and(|random| random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric))
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
        let names = [
            ("c.db.abcdefABC123.new", true),
            ("c.db.abcdefABC124.new-journal", true),
            ("d.db.abcdefABC123.new", false),
            ("c.db.abcdefABC123.old", false),
            ("c.db.2024.new", false),
        ];
        let made = |name: &str, age| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        };
        for (name, _) in names {
            made(name, 2 * ABANDONED);
        }
        made("c.db.abcdefABC125.new", ABANDONED / 2);
        drop(Lock::take(&folder.path().join("c.db")).unwrap());
        for (name, is_removed) in names {
            assert_eq!(!folder.path().join(name).exists(), is_removed, "{name}");
        }
        assert!(folder.path().join("c.db.abcdefABC125.new").exists(), "its process may go on");
    }

    #[test]
    fn what_this_process_has_open_is_not_opened_once_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let catalog = Catalog::open(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mode = || path.metadata().unwrap().mode() & 0o777;
        drop(Lock::take(&path).unwrap());
        assert_eq!(mode(), 0o644);
        drop(catalog);
        drop(Lock::take(&path).unwrap());
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn only_one_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let lock = Lock::take(&path).unwrap();
        assert!(matches!(Lock::take(&path), Err(CatalogError::InUse { .. })));
        drop(lock);
        Lock::take(&path).unwrap();
    }
}
