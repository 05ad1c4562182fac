//! Checks a catalogue for damage in the background, while a scrub already reads. Nothing is written before it is done.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use super::{Catalog, CatalogError, Result, open};
use verisum_files::lock;

/// KiB of pages that it keeps in memory.
const CHECK_CACHE_KIB: i64 = 1 << 10;

/// A check that has begun.
pub(crate) struct PendingCheck {
    path: PathBuf,
    thread: Mutex<Option<JoinHandle<Result<()>>>>,
    found: OnceLock<Result<()>>,
}

impl PendingCheck {
    /// Waits for its end; whether nothing is wrong.
    pub(crate) fn is_sound(&self) -> bool {
        let join = || {
            // SQLite asks too, and takes a panic for consent.
            let failed = || CatalogError::io(&self.path, "read", io::Error::other("its check did not end"));
            let thread = lock(&self.thread).take();
            thread.and_then(|thread| thread.join().ok()).unwrap_or_else(|| Err(failed()))
        };
        self.found.get_or_init(join).is_ok()
    }
}

impl Catalog {
    /// Begins to look for what [`Catalog::require_sound`] finds, and whether the tree that a path is in has all of its
    /// records. Whoever commits anything by this connection waits for the result first, and keeps nothing if the
    /// catalogue is damaged: what is written to such a file may damage more of it.
    pub(crate) fn check_meanwhile(&self, path: &Path) -> Result<Arc<PendingCheck>> {
        let (catalog, path) = (self.again()?, path.to_path_buf());
        // It comes to each page once.
        let small = catalog.connection.pragma_update(None, "cache_size", -CHECK_CACHE_KIB);
        small.map_err(self.failed("read"))?;
        let check = move || {
            catalog.at_one_moment(|| {
                catalog.require_sound()?;
                match catalog.root_of(&path)? {
                    Some(root) => catalog.require_all_records(root.id),
                    None => Ok(()),
                }
            })
        };
        let thread = std::thread::Builder::new().spawn(check);
        let thread = thread.map_err(|error| CatalogError::io(self.path(), "read", error))?;
        let (path, thread) = (self.path().to_path_buf(), Mutex::new(Some(thread)));
        let check = Arc::new(PendingCheck { path, thread, found: OnceLock::new() });
        let asked = check.clone();
        self.connection.commit_hook(Some(move || !asked.is_sound()));
        Ok(check)
    }

    /// Waits for the end of a check. From then on nobody asks for its result.
    ///
    /// # Errors
    /// What is wrong, which is also why nothing could be committed.
    pub(crate) fn end_check(&self, check: Arc<PendingCheck>) -> Result<()> {
        if !check.is_sound() {
            open::keep_log(&self.connection, self.path());
        }
        self.connection.commit_hook(None::<fn() -> bool>);
        Arc::into_inner(check).and_then(|check| check.found.into_inner()).unwrap_or(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::super::tests::{catalog, record};
    use crate::store::RecordChange;

    #[test]
    fn nothing_is_committed_to_a_damaged_catalogue() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let add = |name: &str| {
            catalog.apply(root.id, root.directory, OsStr::new(name), &RecordChange::Add(record(1)))
        };
        add("one").unwrap();
        let check = catalog.check_meanwhile(&root.path).unwrap();
        add("two").unwrap();
        catalog.end_check(check).unwrap();
        // A record is lost.
        catalog.connection.execute("DELETE FROM file WHERE name = x'6f6e65'", []).unwrap();
        let check = catalog.check_meanwhile(&root.path).unwrap();
        add("three").unwrap_err();
        assert!(catalog.end_check(check).is_err_and(|error| error.is_damage()));
        assert_eq!(catalog.record(root.directory, OsStr::new("three")).unwrap(), None);
        // Nobody asks any more.
        add("three").unwrap();
        // What the log has may damage more.
        let files = || ["c.db", "c.db-wal"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
        let before = files();
        drop(catalog);
        assert!(before == files());
    }
}
