//! Records repairs in the catalogue that knows the files, if the repair itself did not use it.

use std::path::{Path, PathBuf};

use verisum::catalog::store::{Catalog, Lock};
use verisum::digest::Output as DigestValue;
use verisum::files::{Stop, Timestamp};
use verisum::mend::repair::{MendedFile, Noted, RepairOutcome, Repaired, Taken, is_known, note};

use crate::ui::catalog::CatalogArgs;
use crate::ui::failure::Failure;
use crate::ui::{self, PROGRAM, names};

/// The catalogue that knows what is repaired, if one does.
pub(crate) struct RepairRecorder {
    catalog: Option<(Lock, Catalog)>,
    stop: Stop,
    failure: Option<Failure>,
}

impl RepairRecorder {
    /// Opens the catalogue if it knows a path, which begins at the root of the file system. Files are read again for it
    /// until it is time to stop.
    pub(crate) fn new(catalog: &CatalogArgs, path: &Path, stop: &Stop) -> Result<RepairRecorder, Failure> {
        let catalog = catalog.open_if_known(path, "the repair is not recorded")?;
        Ok(RepairRecorder { catalog, stop: stop.clone(), failure: None })
    }

    /// Records what was repaired.
    pub(crate) fn file(&mut self, file: &Repaired) {
        if let RepairOutcome::Repaired { from, bytes, .. } = &file.outcome {
            let mut taken = file.taken.clone();
            if taken.is_empty() {
                taken.push(Taken { from: from.clone(), bytes: *bytes, ranges: file.ranges.clone() });
            }
            let before = file.before.map(|before| (file.algorithm.clone(), before));
            self.take((file.path.clone(), false), before, taken);
        }
    }

    /// Records that a file took something from sources, unless that is nothing. Returns whether the catalogue knows that
    /// it is bad; of one that was looked at in part only that is not said.
    pub(crate) fn take(
        &mut self,
        (path, is_part): (PathBuf, bool),
        before: Option<(String, DigestValue)>,
        taken: Vec<Taken>,
    ) -> bool {
        let Some((_, catalog)) = &self.catalog else { return false };
        if taken.is_empty() || self.failure.is_some() {
            return false;
        }
        let file = MendedFile { path, before, taken, now: Timestamp::now(), is_part };
        match note(catalog, &file, &self.stop) {
            Ok(Noted::Confirmed | Noted::Unknown) => {}
            Ok(Noted::Different) if is_part => return true,
            Ok(Noted::Different) => {
                let path = names::quoted(file.path.as_os_str());
                let what = "it is not what the catalogue recorded, whose verdict stays";
                ui::say(PROGRAM, &format!("{path}: {what}"));
                return true;
            }
            Err(error) => self.failure = Some(error.into()),
        }
        false
    }

    /// Whether the catalogue has a record of a file.
    pub(crate) fn knows(&self, path: &Path) -> bool {
        self.catalog.as_ref().is_some_and(|(_, catalog)| is_known(catalog, path).unwrap_or(false))
    }

    /// Fails if something could not be recorded.
    pub(crate) fn end(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), Err)
    }
}
