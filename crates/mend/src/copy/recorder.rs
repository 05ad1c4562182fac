//! Records copies in a catalogue that knows TO, or that learns of TO now.

use std::path::{Path, PathBuf};

use verisum_catalog::scrub::is_same_time;
use verisum_catalog::store::{Catalog, CatalogError, Identity, Moment, Root, Stamp, Written, absolute};
use verisum_files::{Entry, Kind, Timestamp};

use super::{CopyEvent, CopyOutcome, Verification};

/// So many copies are recorded at once.
const BATCH: u64 = 256;

/// Records what comes of a copy, file by file. Whoever makes it holds the catalogue's lock.
pub struct CopyRecorder {
    catalog: Catalog,
    /// TO, from the root of the file system.
    to: PathBuf,
    /// Whether a tree of its own is made for TO, if it is in none.
    adds: bool,
    is_read_back: bool,
    now: Timestamp,
    /// The directory of the last file, and the tree that it is in.
    last: Option<(PathBuf, Option<Root>)>,
    /// How many records are not committed yet.
    open: u64,
    recorded: u64,
    missed: u64,
}

impl CopyRecorder {
    /// Records copies to TO in a catalogue, in the trees that it knows; if it `adds`, TO becomes one of them.
    ///
    /// # Errors
    /// TO has no absolute path.
    pub fn new(
        catalog: Catalog,
        to: &Path,
        adds: bool,
        verification: Verification,
    ) -> Result<CopyRecorder, CatalogError> {
        Ok(CopyRecorder {
            catalog,
            to: absolute(to)?,
            adds,
            is_read_back: verification == Verification::Reread,
            now: Timestamp::now(),
            last: None,
            open: 0,
            recorded: 0,
            missed: 0,
        })
    }

    /// Records a copy, if it is one or was read, is as it was written, and is not known to be bad.
    ///
    /// # Errors
    /// The catalogue cannot be written.
    pub fn add(&mut self, event: &CopyEvent) -> Result<(), CatalogError> {
        let was_there = matches!(event.outcome, CopyOutcome::Current) && !event.digests.is_empty();
        let is_copy =
            matches!(event.outcome, CopyOutcome::Copied | CopyOutcome::Linked | CopyOutcome::Touched);
        if !is_copy && !was_there {
            return Ok(());
        }
        let path = match event.name.as_os_str().is_empty() {
            true => self.to.clone(),
            false => self.to.join(event.name),
        };
        let Ok(stat) = Entry::named(&path).and_then(|entry| entry.stat()) else {
            self.missed += 1;
            return Ok(());
        };
        // What somebody wrote to meanwhile the next scrub looks at.
        let is_as_written = stat.kind == Kind::File
            && stat.size == event.size
            && event.modified.is_some_and(|time| is_same_time(Stamp::from(time), Stamp::from(stat.modified)));
        let Some(root) = self.root(&path)?.filter(|_| is_as_written) else { return Ok(()) };
        let known = self.catalog.algorithms_of(root.id)?;
        let names = self.catalog.algorithms()?;
        let is_usual = |name: &str| known.iter().any(|id| names.get(id).is_some_and(|known| known == name));
        let chosen = event.digests.iter().find(|(digest, _)| is_usual(digest.name()));
        let Some((digest, output)) = chosen.or(event.digests.first()) else { return Ok(()) };
        let Ok(below) = path.strip_prefix(&root.path) else { return Ok(()) };
        let written = Moment::from(self.now);
        let file = Written {
            below,
            algorithm: digest.name(),
            digest: *output,
            stat,
            verified: if self.is_read_back || was_there { written } else { Moment::NEVER },
            written,
        };
        if self.open == 0 {
            self.catalog.begin()?;
        }
        self.open += 1;
        self.recorded += u64::from(self.catalog.record_written(&root, &file)?);
        if self.open >= BATCH { self.commit() } else { Ok(()) }
    }

    /// Says that copies were no longer at TO when they were to be recorded; none if all were there.
    pub fn complaint(&self) -> Option<String> {
        let (to, missed) = (self.to.display(), self.missed);
        let text = format!("{to}: not recorded, as they were moved or removed meanwhile: {missed} copies");
        (missed > 0).then_some(text)
    }

    /// Keeps what was recorded, and returns how many copies that were.
    ///
    /// # Errors
    /// The catalogue cannot be written.
    pub fn end(mut self) -> Result<u64, CatalogError> {
        self.commit()?;
        Ok(self.recorded)
    }

    fn commit(&mut self) -> Result<(), CatalogError> {
        if std::mem::take(&mut self.open) == 0 {
            return Ok(());
        }
        self.catalog.commit()
    }

    /// The tree that a file is in; none if the catalogue knows none, and is not to know one.
    fn root(&mut self, path: &Path) -> Result<Option<Root>, CatalogError> {
        let folder = path.parent().unwrap_or(path);
        if let Some((last, root)) = &self.last
            && last == folder
        {
            return Ok(root.clone());
        }
        let mut root = self.catalog.root_of(path)?;
        if root.is_none() && self.adds && path != self.to {
            // What it is the first scrub finds out.
            self.commit()?;
            root = Some(self.catalog.add_root(&self.to, Identity { device: 0, inode: 0 })?);
        }
        self.last = Some((folder.to_path_buf(), root.clone()));
        Ok(root)
    }
}

impl Drop for CopyRecorder {
    fn drop(&mut self) {
        // What was recorded is at TO.
        let _ = self.commit();
    }
}
