//! The progress of long passes over a catalogue: counts the steps of SQLite, and ends its statements early.

use std::sync::Arc;

use super::{Catalog, Result};
use verisum_files::Stop;

/// After how many steps SQLite says so: a few milliseconds.
const STEPS: i32 = 10_000;

/// A pass over the records of a catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogPass {
    /// [`Catalog::require_complete`].
    Complete,
    /// [`Catalog::check`].
    Check,
    /// [`Catalog::back_up`].
    Backup,
    /// [`Catalog::export`], or [`Catalog::list`].
    Export,
    /// [`Catalog::records_by_path`].
    ByPath,
    /// [`Catalog::survey`].
    Survey,
    /// [`Catalog::copies_of_troubled`].
    Copies,
    /// [`Catalog::each_stale`].
    Stale,
    /// [`Catalog::each_duplicate`].
    Duplicates,
    /// [`Catalog::forget_root`].
    Forget,
    /// [`crate::overview::Overview::of`].
    Overview,
}

impl CatalogPass {
    /// About how many steps SQLite takes for each record.
    const fn steps(self, is_small: bool) -> u64 {
        match self {
            CatalogPass::Complete if is_small => 38,
            CatalogPass::Complete => 5,
            CatalogPass::Check => 77,
            CatalogPass::Backup => 4,
            CatalogPass::Export => 33,
            CatalogPass::ByPath => 38,
            CatalogPass::Survey if is_small => 50,
            CatalogPass::Survey => 16,
            CatalogPass::Copies => 20,
            CatalogPass::Stale => 59,
            CatalogPass::Duplicates => 71,
            CatalogPass::Forget => 12,
            CatalogPass::Overview => 110,
        }
    }

    /// About how many nanoseconds it takes for each record: steps of one pass take longer than those of another.
    const fn nanoseconds(self, is_small: bool) -> u64 {
        match self {
            CatalogPass::Complete if is_small => 400,
            CatalogPass::Complete => 150,
            CatalogPass::Survey if is_small => 600,
            CatalogPass::Survey => 350,
            CatalogPass::Copies => 100,
            CatalogPass::Backup => 300,
            CatalogPass::Check | CatalogPass::Stale | CatalogPass::Duplicates => 2000,
            CatalogPass::Export | CatalogPass::ByPath => 3000,
            CatalogPass::Forget | CatalogPass::Overview => 4000,
        }
    }
}

/// What a pass takes, as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassCost {
    /// How many steps of SQLite.
    pub steps: u64,
    /// How many nanoseconds.
    pub nanoseconds: u64,
}

/// Who is told of SQLite's steps.
type Told = Arc<dyn Fn(u64) + Send + Sync>;

/// Who watches a connection.
#[derive(Default)]
pub(super) struct Watcher {
    stop: Stop,
    told: Option<Told>,
}

impl Catalog {
    /// Has SQLite end what it does when somebody asks for that, with [`super::CatalogError::Stopped`].
    pub fn end_early(&self, stop: &Stop) {
        self.watcher.borrow_mut().stop = stop.clone();
        self.watch();
    }

    /// Tells of the steps that SQLite takes, thousands at a time.
    pub fn count_steps(&self, told: Arc<dyn Fn(u64) + Send + Sync>) {
        self.watcher.borrow_mut().told = Some(told);
        self.watch();
    }

    fn watch(&self) {
        let watcher = self.watcher.borrow();
        let (stop, told) = (watcher.stop.clone(), watcher.told.clone());
        let each = move || {
            if let Some(told) = &told {
                told(STEPS as u64);
            }
            stop.is_due()
        };
        self.connection.progress_handler(STEPS, Some(each));
    }

    /// How many records there are, and about what each of these passes over them takes.
    ///
    /// # Errors
    /// What keeps the catalogue from being read.
    pub fn costs_of(&self, passes: &[CatalogPass]) -> Result<(u64, Vec<PassCost>)> {
        let records = self.roots()?.iter().fold(0, |sum: u64, root| sum.saturating_add(root.files));
        let is_small = self.is_small()?;
        let cost = |pass: &CatalogPass| PassCost {
            steps: records.saturating_mul(pass.steps(is_small)),
            nanoseconds: records.saturating_mul(pass.nanoseconds(is_small)),
        };
        Ok((records, passes.iter().map(cost).collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::overview::{Overview, OverviewOptions};
    use crate::store::tests::record;
    use crate::store::{CatalogError, CatalogRecord, Identity, Moment, RecordChange, RecordFinding, Root};

    const FILES: u64 = 20_000;

    /// A catalogue with a hundred files in each directory, one of which is missing.
    fn filled(path: &Path) -> (Catalog, Root) {
        let catalog = Catalog::open(path).unwrap();
        catalog.algorithm("sha256").unwrap();
        let root = catalog.add_root(Path::new("/srv"), Identity { device: 1, inode: 2 }).unwrap();
        catalog.begin().unwrap();
        for number in 0..FILES {
            let folder = catalog.make_directories(&root, format!("d{}", number / 100).as_ref()).unwrap();
            let (name, digest) = (format!("f{number}"), number.to_le_bytes().repeat(4));
            let mut new = CatalogRecord { size: 1000, ..record(1) };
            new.digest.as_mut_bytes().copy_from_slice(&digest);
            catalog.apply(root.id, folder, name.as_ref(), &RecordChange::Add(new)).unwrap();
            if number == 7 {
                assert!(catalog.lose(folder, name.as_ref(), &RecordFinding::default()).unwrap());
            }
        }
        catalog.commit().unwrap();
        let root = catalog.root(&root.path).unwrap().unwrap();
        (catalog, root)
    }

    #[test]
    fn about_as_many_steps_are_taken_as_are_foretold() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = filled(&folder.path().join("c.db"));
        let steps = Arc::new(AtomicU64::new(0));
        let counter = steps.clone();
        catalog.count_steps(Arc::new(move |more| {
            counter.fetch_add(more, Ordering::Relaxed);
        }));
        let catalogs = [catalog];
        let catalog = &catalogs[0];
        let copy = folder.path().join("copy.db");
        let none = |_| Ok::<_, CatalogError>(());
        let passes: [(CatalogPass, &dyn Fn() -> Result<()>); 11] = [
            (CatalogPass::Complete, &|| catalog.require_complete()),
            (CatalogPass::Check, &|| catalog.check().map(|problems| assert_eq!(problems, []))),
            (CatalogPass::Backup, &|| catalog.back_up(&copy, &Stop::default())),
            (CatalogPass::Export, &|| catalog.export(&mut std::io::sink()).map(drop)),
            (CatalogPass::ByPath, &|| catalog.records_by_path(&root, &mut |_, _| Ok(()))),
            (CatalogPass::Copies, &|| catalog.copies_of_troubled().map(drop)),
            (CatalogPass::Survey, &|| catalog.survey(Moment::MAX).map(drop)),
            (CatalogPass::Stale, &|| catalog.each_stale(&root, Moment::MAX, Moment::MAX, &mut { none })),
            (CatalogPass::Duplicates, &|| catalog.each_duplicate(&mut { none })),
            (CatalogPass::Overview, &|| {
                Overview::of(&catalogs, &OverviewOptions::new(Moment::NEVER)).map(drop)
            }),
            (CatalogPass::Forget, &|| catalog.forget_root(&root).map(drop)),
        ];
        for (pass, work) in passes {
            let foretold = catalog.costs_of(&[pass]).unwrap().1[0].steps;
            let before = steps.load(Ordering::Relaxed);
            work().unwrap();
            let taken = steps.load(Ordering::Relaxed) - before;
            assert!(
                (foretold * 2 / 3..foretold * 3 / 2).contains(&taken),
                "{pass:?}: {taken}, not {foretold}"
            );
        }
    }
}
