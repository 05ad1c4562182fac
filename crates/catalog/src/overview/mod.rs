//! Reads the state of catalogues: the age of verifications, bad files and their good copies, large and stale
//! directories, content without a copy.
//!
//! Reads the catalogues and no file. Memory grows with directories (some 70 bytes each), not with files. Non-goals:
//! drawing, and words for people.

mod content;
mod directories;
mod scan;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

pub use content::{ContentOverview, Duplicate};
pub use directories::{DirectoryOverview, DirectoryPart};
pub use trouble::{KnownCopy, Troubled};

use verisum_files::{FUTURE, VerdictClass};

use crate::scrub::Forecast;
use crate::store::{Catalog, CatalogError, Moment, Repair, Root, Run, State, TreeSurvey, UNLISTED};

type Result<T> = std::result::Result<T, CatalogError>;

/// The classes of ages: the name of each, and the age that is too old for it. What was never verified is in the last
/// one.
pub const AGES: [(&str, Duration); 9] = [
    ("less than a day", days(1)),
    ("1 to 7 days", days(7)),
    ("7 to 30 days", days(30)),
    ("30 to 90 days", days(90)),
    ("90 to 180 days", days(180)),
    ("180 days to a year", days(365)),
    ("1 to 2 years", days(730)),
    ("2 years and more", Duration::MAX),
    ("never verified", Duration::MAX),
];

const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 86_400)
}

/// So many files, and the sum of their lengths in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many files.
    pub files: u64,
    /// The sum of their lengths.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, files: u64, bytes: u64) {
        self.files = self.files.saturating_add(files);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What an overview is to hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OverviewOptions {
    /// The moment that ages are counted from.
    pub now: Moment,
    /// No verification may be older than this.
    pub max_age: Option<Duration>,
    /// How many directories are told at most.
    pub directories: usize,
    /// How many files in trouble are listed at most, of all catalogues.
    pub troubled: usize,
    /// How many contents with several copies are listed at most.
    pub duplicates: usize,
    /// How many runs of each tree are told at most.
    pub runs: usize,
    /// How many repairs of each tree are told at most.
    pub repairs: usize,
}

impl OverviewOptions {
    /// The usual ones, at a moment.
    pub fn new(now: Moment) -> OverviewOptions {
        OverviewOptions {
            now,
            max_age: None,
            directories: 48,
            troubled: 500,
            duplicates: 12,
            runs: 16,
            repairs: 100,
        }
    }

    /// When something was verified; never, if that is in the [future](verisum_files::FUTURE).
    pub fn believed(&self, verified: Moment) -> Moment {
        if verified > self.now + FUTURE { Moment::NEVER } else { verified }
    }

    /// The class of [`AGES`] of what was verified at a moment.
    pub fn age_class(&self, verified: Moment) -> usize {
        match verified.known() {
            None => AGES.len() - 1,
            Some(verified) => {
                let age = self.now - verified;
                AGES.iter().position(|(_, below)| age < *below).unwrap_or(AGES.len() - 2)
            }
        }
    }

    /// Whether what was verified at a moment is older than may be.
    pub fn is_stale(&self, verified: Moment) -> bool {
        self.max_age.is_some_and(|most| self.now - verified > most)
    }
}

/// A tree of a catalogue.
#[derive(Clone, Debug)]
pub struct TreeOverview {
    /// Which of the catalogues has it.
    pub catalog: usize,
    /// The tree.
    pub root: Root,
    /// How many files are in each trouble.
    pub troubles: Vec<(State, u64)>,
    /// How many of these want their recorded content again.
    pub wanted: u64,
    /// How many of those the tree's own catalogue knows a copy of.
    pub mendable: u64,
    /// How many of the others another catalogue knows a copy of.
    pub elsewhere: u64,
    /// These catalogues, by their numbers, and the trees that have the copies.
    pub sources: BTreeSet<(usize, PathBuf)>,
    /// When its stalest file was verified; [`Moment::NEVER`] if it never was.
    pub oldest: Option<Moment>,
    /// How many files were verified by a clock that ran ahead; they count as never verified.
    pub future: u64,
    /// Whether scrubs have begun and none came to its end.
    pub is_unfinished: bool,
    /// What is verified too seldom.
    pub stale: Amount,
    /// What has content that no other recorded file has.
    pub only: Amount,
    /// Its last runs, newest first.
    pub runs: Vec<Run>,
    /// Its last repairs, the latest first, with the name of their digest.
    pub repairs: Vec<RepairedFile>,
    /// How long it takes to verify everything once, if it goes on like this.
    pub forecast: Option<Forecast>,
}

impl TreeOverview {
    /// Whether the last run over it failed, or none came to its end.
    pub fn has_failed(&self) -> bool {
        self.is_unfinished || self.runs.first().is_some_and(|run| run.error.is_some())
    }
}

/// A repair that a catalogue has recorded.
#[derive(Clone, Debug)]
pub struct RepairedFile {
    /// The file.
    pub path: PathBuf,
    /// The name of the digest.
    pub algorithm: String,
    /// What was done.
    pub repair: Repair,
}

/// The state of some catalogues.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// Their trees, by catalogue and path.
    pub trees: Vec<TreeOverview>,
    /// What is in each class of [`AGES`]. What is missing cannot be verified, and is in none.
    pub ages: [Amount; AGES.len()],
    /// What is older than may be.
    pub stale: Amount,
    /// What is recorded by each algorithm.
    pub digests: BTreeMap<String, Amount>,
    /// What was first recorded in each month, counted since January 1970; of what is still recorded.
    pub months: BTreeMap<i64, Amount>,
    /// The directories that all files are in, the largest first, as fine as [`OverviewOptions::directories`] permits.
    pub directories: Vec<DirectoryOverview>,
    /// The directories whose own files were not verified for longest, stalest first.
    pub stalest: Vec<DirectoryOverview>,
    /// Which content there is once, and which several times.
    pub content: ContentOverview,
    /// Files that are bad, missing or could not be compared, the worst first.
    pub troubled: Vec<Troubled>,
}

impl Overview {
    /// The overview of some catalogues, each as it is at one moment.
    ///
    /// # Errors
    /// What keeps a catalogue from being read.
    pub fn of(catalogs: &[Catalog], options: &OverviewOptions) -> Result<Overview> {
        at_one_moment(catalogs, &mut || Overview::read(catalogs, options))
    }

    fn read(catalogs: &[Catalog], options: &OverviewOptions) -> Result<Overview> {
        let mut overview = Overview::default();
        let directories = (options.directories / catalogs.len().max(1)).max(8);
        let options = &OverviewOptions { directories, ..options.clone() };
        for (number, catalog) in catalogs.iter().enumerate() {
            let mut surveys = catalog.survey(options.now + FUTURE)?;
            let stale = overview.scan(number, catalog, options)?;
            for root in catalog.roots()? {
                let survey = surveys.remove(&root.id).unwrap_or_default();
                let mut tree = tree(number, catalog, (root, survey), options)?;
                tree.stale = stale.get(&tree.root.id).copied().unwrap_or_default();
                overview.trees.push(tree);
            }
        }
        overview.settle_directories(options);
        overview.find_troubled(catalogs, options)?;
        overview.compare_content(catalogs, options)?;
        Ok(overview)
    }

    /// The path of a tree.
    fn root_path(&self, catalog: usize, root: i64) -> PathBuf {
        let is_it = |tree: &&TreeOverview| tree.catalog == catalog && tree.root.id == root;
        self.trees.iter().find(is_it).map(|tree| tree.root.path.clone()).unwrap_or_default()
    }

    /// How many files are in a state of a kind.
    pub fn count(&self, is_one: impl Fn(State) -> bool) -> u64 {
        let troubles = self.trees.iter().flat_map(|tree| &tree.troubles);
        troubles.filter(|(state, _)| is_one(*state)).map(|(_, count)| count).sum()
    }

    /// How many directories and files the last runs that ended could not look at.
    pub fn unlisted(&self) -> u64 {
        self.trees.iter().map(|tree| Run::of_last(&tree.runs, UNLISTED)).sum()
    }

    /// What it means as a whole: [`VerdictClass::Corrupt`] where data is bad, [`VerdictClass::Unchecked`] where something could not be
    /// checked, is older than may be, or the last run over a tree failed, or none came to its end; otherwise
    /// [`VerdictClass::Clean`].
    pub fn class(&self) -> VerdictClass {
        let is = |class: VerdictClass| self.count(|state| state.class() == class) > 0;
        let has_failed = self.trees.iter().any(TreeOverview::has_failed);
        match (is(VerdictClass::Corrupt), is(VerdictClass::Unchecked) || has_failed) {
            (true, _) => VerdictClass::Corrupt,
            (false, false) if self.stale.files + self.unlisted() == 0 => VerdictClass::Clean,
            _ => VerdictClass::Unchecked,
        }
    }

    /// When the stalest file was verified; [`Moment::NEVER`] if it never was.
    pub fn oldest(&self) -> Option<Moment> {
        self.trees.iter().filter_map(|tree| tree.oldest).min()
    }
}

fn tree(
    number: usize,
    catalog: &Catalog,
    (root, survey): (Root, TreeSurvey),
    options: &OverviewOptions,
) -> Result<TreeOverview> {
    let runs = catalog.runs(root.id, options.runs)?;
    let repairs = repairs(catalog, &root, options.repairs)?;
    Ok(TreeOverview {
        repairs,
        catalog: number,
        forecast: Forecast::of_runs(root.files, root.bytes, &runs, options.max_age),
        oldest: survey.oldest,
        future: survey.future,
        is_unfinished: survey.is_unfinished,
        stale: Amount::default(),
        only: Amount::default(),
        troubles: survey.troubles,
        wanted: survey.wanted,
        mendable: 0,
        elsewhere: 0,
        sources: BTreeSet::new(),
        runs,
        root,
    })
}

/// The last repairs of a tree.
fn repairs(catalog: &Catalog, root: &Root, most: usize) -> Result<Vec<RepairedFile>> {
    let algorithms = catalog.algorithms()?;
    let mut found = Vec::new();
    catalog.each_repair(root, &mut |path, repair| {
        if found.len() < most {
            let algorithm = algorithms.get(&repair.algorithm).cloned().unwrap_or_default();
            found.push(RepairedFile { path, algorithm, repair });
        }
        Ok::<_, CatalogError>(())
    })?;
    Ok(found)
}

/// Reads all catalogues, each as it is when its turn comes.
fn at_one_moment<T>(catalogs: &[Catalog], read: &mut dyn FnMut() -> Result<T>) -> Result<T> {
    match catalogs.split_first() {
        None => read(),
        Some((catalog, others)) => catalog.at_one_moment(|| at_one_moment(others, read)),
    }
}

#[cfg(test)]
mod tests;
