//! Copies of a catalogue.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};

use super::lock::{beside, sweep};
use super::{Catalog, Error, Result};

impl Catalog {
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
        // SQLite takes the bytes of a name as they are, UTF-8 or not.
        let name = ToSqlOutput::Borrowed(ValueRef::Text(partial.as_os_str().as_bytes()));
        let copied = self.connection.execute("VACUUM INTO ?1", [name]);
        copied.map(drop).map_err(|e| Error::database(partial, "write", e))
    }
}

#[cfg(test)]
mod tests {
    use crate::store::catalog::tests::catalog;

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
}
