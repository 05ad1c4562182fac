//! A copy of a catalogue, for commands with `--dry-run`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;

use tempfile::TempDir;
use verisum::catalog::store::Catalog;
use verisum::files::Stop;

use crate::ui::catalog::CatalogArgs;
use crate::ui::failure::Failure;
use crate::ui::signals::Ending;

/// The copy. It goes when this is dropped; a signal that came until then has its effect after that.
pub(super) struct Tried {
    // In the order in which they are dropped.
    catalog: Catalog,
    _folder: TempDir,
    ending: Obeyed,
}

impl Tried {
    /// Copies the catalogue, if there is one, below the directory for temporary files.
    pub(super) fn new(original: &CatalogArgs) -> Result<Tried, Failure> {
        let ending = Obeyed(Ending::new()?);
        let parent = std::env::temp_dir();
        let failed = |error| Failure::file(&parent, "create a folder", error);
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("verisum-dry-run-").permissions(private).tempdir();
        let folder = folder.map_err(failed)?;
        let copy = folder.path().join("catalog.db");
        let path = original.path()?;
        if path.try_exists().map_err(|error| Failure::file(&path, "find", error))? {
            original.open_shared()?.back_up(&copy, &Stop::when(ending.0.asked().clone()))?;
        }
        Ok(Tried { catalog: Catalog::open(&copy)?, _folder: folder, ending })
    }

    /// The catalogue to change.
    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Whether a signal asked for the end.
    pub(super) fn is_ended(&self) -> bool {
        self.ending.0.asked().load(Ordering::SeqCst)
    }
}

/// Lets a signal have its effect when it is dropped.
struct Obeyed(Ending);

impl Drop for Obeyed {
    fn drop(&mut self) {
        self.0.obey();
    }
}
