//! Backups of a catalogue.

use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};

use super::lock::sweep;
use super::restore::is_catalogue;
use super::{Catalog, Error, Result};
use verisum_files::replace::{PRIVATE, without_others};
use verisum_files::{Replacement, Stop};

/// How many steps SQLite takes before it is asked again whether to stop: a few milliseconds.
const STEPS: i32 = 10_000;

impl Catalog {
    /// Copies the catalogue as it is at one moment, while others use it. The copy appears whole or not
    /// at all, with the catalogue's permissions, and replaces the file that had its name, or to which a link
    /// of its name leads.
    ///
    /// # Errors
    /// Also where its name is that of something else than a catalogue or an empty file, and [`Error::Stopped`].
    pub fn back_up(&self, to: &Path, stop: &Stop) -> Result<()> {
        require_replaceable(to)?;
        let mode = std::fs::metadata(&self.path).as_ref().map_or(PRIVATE, mode_of);
        self.end_early(stop);
        let copied = self.copy(to, mode);
        self.end_early(&Stop::default());
        Ok(copied?.place()?)
    }

    /// A copy that has to be placed yet. It goes if it is not.
    pub(super) fn copy(&self, to: &Path, mode: u32) -> Result<Replacement> {
        let copy = Replacement::named(to, mode)?;
        sweep(&copy.target());
        // SQLite takes the bytes of a name as they are, UTF-8 or not.
        let name = ToSqlOutput::Borrowed(ValueRef::Text(copy.path().as_os_str().as_bytes()));
        let copied = self.connection.execute("VACUUM INTO ?1", [name]);
        copied.map_err(|e| Error::database(to, "write", e))?;
        // SQLite goes there by a path of its own making, which somebody may have led elsewhere meanwhile.
        if copy.file().metadata().map_err(|e| Error::io(to, "write", e))?.len() == 0 {
            return Err(Error::io(to, "write", std::io::Error::other("its folder was moved meanwhile")));
        }
        self.require_unchanged().map(|()| copy)
    }

    /// Has SQLite end what it does when somebody asks for that, with [`Error::Stopped`].
    pub(super) fn end_early(&self, stop: &Stop) {
        let stop = stop.clone();
        self.connection.progress_handler(STEPS, Some(move || stop.is_due()));
    }
}

/// Fails for a file that would be lost. What else cannot be replaced says so later.
fn require_replaceable(to: &Path) -> Result<()> {
    let is_file = std::fs::metadata(to).is_ok_and(|found| found.is_file() && found.len() > 0);
    if !is_file || File::open(to).is_ok_and(|file| is_catalogue(&file)) {
        return Ok(());
    }
    let why = "it is no catalogue of verisum (move it away first)";
    Err(Error::io(to, "write", std::io::Error::other(why)))
}

/// The mode of a copy of a catalogue.
pub(super) fn mode_of(catalog: &Metadata) -> u32 {
    without_others(catalog.mode())
}

#[cfg(test)]
mod tests {
    use crate::store::tests::catalog;
    use verisum_files::Stop;

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
        // Backups take the place of older ones.
        catalog.back_up(&path("old"), &Stop::default()).unwrap();
    }
}
