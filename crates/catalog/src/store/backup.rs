//! Backups of a catalogue.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::absolute::absolute;
use super::lock::{own_files, sweep};
use super::open::uri;
use super::restore::is_catalogue;
use super::{Catalog, CatalogError, Result};
use verisum_files::replace::Permitted;
use verisum_files::{Replacement, Stop, percent};

impl Catalog {
    /// Copies the catalogue as it is at one moment, while others use it. The copy appears whole or not
    /// at all, with the catalogue's group and permissions, and replaces the file that had its name, or to which a link
    /// of its name leads.
    ///
    /// # Errors
    /// Also where its name is that of something else than a catalogue or an empty file, and [`CatalogError::Stopped`].
    pub fn back_up(&self, to: &Path, stop: &Stop) -> Result<()> {
        if own_files(&self.path).contains(&absolute(to)?) {
            return Err(CatalogError::io(to, "write", io::Error::other("it belongs to the catalogue")));
        }
        let permitted = std::fs::metadata(&self.path).as_ref().map_or(Permitted::PRIVATE, copies_of);
        self.end_early(stop);
        let copied = self.copy(to, permitted);
        self.end_early(&Stop::default());
        Ok(copied?.place()?)
    }

    /// A copy that has to be placed yet. It goes if it is not.
    pub(super) fn copy(&self, to: &Path, permitted: Permitted) -> Result<Replacement> {
        let copy = Replacement::named(to, permitted)?;
        if let Ok(old) = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(copy.target())
            && old.metadata().is_ok_and(|old| old.is_file() && old.len() > 0)
            && !is_catalogue(&old)
        {
            let why = "it is no catalogue of verisum (move it away first)";
            return Err(CatalogError::io(to, "write", io::Error::other(why)));
        }
        sweep(&copy.target());
        self.write_copy(copy.path(), copy.path()).map_err(|e| CatalogError::database(to, "write", e))?;
        // SQLite goes there by a path of its own making, which somebody may have led elsewhere meanwhile.
        if copy.file().metadata().map_err(|e| CatalogError::io(to, "write", e))?.len() == 0 {
            return Err(CatalogError::io(to, "write", io::Error::other("its folder was moved meanwhile")));
        }
        self.require_unchanged().map(|()| copy)
    }

    /// Writes a copy into an empty file, with the permissions of `like`: SQLite may also make a file of its own, where
    /// somebody led it.
    fn write_copy(&self, to: &Path, like: &Path) -> rusqlite::Result<()> {
        let mode = format!("modeof={}", percent::encoded(like.as_os_str().as_bytes(), b"/"));
        self.connection.execute("VACUUM INTO ?1", [uri(to, &mode).to_string_lossy()]).map(drop)
    }
}

/// Who may use copies of a catalogue.
pub(super) fn copies_of(catalog: &Metadata) -> Permitted {
    Permitted::of(catalog).without_others()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use crate::store::tests::catalog;
    use verisum_files::Stop;

    /// As one in a folder that another user moves meanwhile.
    #[test]
    fn a_copy_that_sqlite_makes_by_itself_is_no_more_readable_than_ours() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, _) = catalog(folder.path());
        let like = folder.path().join("% e?f&g#h");
        std::fs::write(&like, "").unwrap();
        for (name, mode) in [("% a?b&c#d", 0o600), ("other", 0o640)] {
            let path = folder.path().join(name);
            std::fs::set_permissions(&like, Permissions::from_mode(mode)).unwrap();
            catalog.write_copy(&path, &like).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode, "{name}");
        }
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
            assert!(catalog.back_up(&path(name), &Stop::default()).is_err(), "{name}");
            assert!(!path(name).symlink_metadata().unwrap().is_file(), "{name}");
        }
        std::fs::write(path("data"), "somebody's").unwrap();
        assert!(catalog.back_up(&path("data"), &Stop::default()).is_err());
        assert_eq!(std::fs::read(path("data")).unwrap(), b"somebody's");
        std::fs::write(path("old"), "").unwrap();
        std::os::unix::fs::symlink("old", path("link")).unwrap();
        catalog.back_up(&path("link"), &Stop::default()).unwrap();
        assert!(path("link").is_symlink() && path("old").metadata().unwrap().len() > 0);
        catalog.back_up(&path("old"), &Stop::default()).unwrap();
        for end in ["", "-wal", "-shm", ".lock"] {
            assert!(catalog.back_up(&path(&format!("c.db{end}")), &Stop::default()).is_err(), "{end}");
        }
        std::fs::write(path("mine"), "something of mine").unwrap();
        assert!(catalog.back_up(&path("mine"), &Stop::default()).is_err());
        assert_eq!(std::fs::read_to_string(path("mine")).unwrap(), "something of mine");
    }
}
