//! The comparison of trees, as an iterator.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use verisum_digest::Digest;
use verisum_files::compare::{self, CompareError, FileStatus, ListedPairs, Pair, Tree};
use verisum_files::place::{FileAnswer, PlaceEvent, StoppingPlace};
use verisum_files::{Outlet, Progress, Results, StartError, Stop, VerdictClass};

/// How trees are compared. The default is by SHA-256.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompareOptions {
    /// The digest by which files are compared that have the same size.
    pub digest: Option<Digest>,
    /// Where names wait that do not fit into memory.
    pub scratch: PathBuf,
    /// When to end early.
    pub stop: Arc<Stop>,
}

impl Default for CompareOptions {
    fn default() -> CompareOptions {
        CompareOptions { digest: None, scratch: PathBuf::from("/var/tmp"), stop: Arc::default() }
    }
}

/// What a comparison tells.
#[derive(Debug)]
pub enum Compared {
    /// A file that is in one of the trees or in both, and whether it is the same.
    File(Pair),
    /// What the place of a tree says beside: notes, what it cannot list, and answers about files that it cannot read
    /// or that are not what their store recorded.
    Event {
        /// The number of the tree, 0 or 1.
        tree: usize,
        /// What it says.
        event: PlaceEvent,
    },
}

/// What came of a comparison: how many files of each kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompareSummary {
    /// The same in both trees.
    pub same: u64,
    /// With different content.
    pub different: u64,
    /// In the first tree only.
    pub missing: u64,
    /// In the second tree only.
    pub extra: u64,
    /// Not to be read, or not known to be missing.
    pub unknown: u64,
    /// What could not be listed.
    pub unlisted: u64,
    /// Whether it ended early.
    pub stopped: bool,
}

impl CompareSummary {
    /// What it means: nothing that was not compared is clean.
    pub fn class(&self) -> VerdictClass {
        match () {
            () if self.different + self.missing + self.extra > 0 => VerdictClass::Corrupt,
            () if self.unknown + self.unlisted > 0 || self.stopped => VerdictClass::Unchecked,
            () => VerdictClass::Clean,
        }
    }

    fn count(&mut self, status: FileStatus) {
        let counter = match status {
            FileStatus::Same => &mut self.same,
            FileStatus::Differs => &mut self.different,
            FileStatus::Missing => &mut self.missing,
            FileStatus::Extra => &mut self.extra,
            FileStatus::Asked | FileStatus::Unknown | FileStatus::Unreadable => &mut self.unknown,
        };
        *counter += 1;
    }
}

/// Compares two trees, each in any place: by names, by sizes, and by digests where those do not tell. Files come in
/// the order of their names.
///
/// ```
/// use verisum::files::compare::Tree;
/// use verisum::files::place::LocalPlace;
/// use verisum::{CompareOptions, Compared};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tree = || Tree::new(Box::new(LocalPlace::default()), b"src");
/// let mut results = verisum::compare([tree(), tree()], &CompareOptions::default())?;
/// for compared in &mut results {
///     if let Compared::File(pair) = compared {
///         println!("{}: {}", pair.status.name(), String::from_utf8_lossy(&pair.name));
///     }
/// }
/// assert_eq!(results.finish()?.class(), verisum::files::VerdictClass::Clean);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// SHA-256 is not available, or the system has no thread left. A place that fails is the end of the results.
pub fn compare(
    trees: [Tree<'static>; 2],
    options: &CompareOptions,
) -> Result<Results<Compared, Result<CompareSummary, CompareError>>, StartError> {
    let digest = match &options.digest {
        Some(digest) => digest.clone(),
        None => Digest::find("sha256")?,
    };
    let scratch = options.scratch.clone();
    Ok(Results::start("compare", &options.stop, move |outlet| run(trees, &digest, &scratch, outlet))?)
}

fn run(
    trees: [Tree<'static>; 2],
    digest: &Digest,
    scratch: &Path,
    outlet: &Outlet<Compared>,
) -> Result<CompareSummary, CompareError> {
    let [mut a, mut b] = trees
        .map(|tree| Tree { place: Box::new(StoppingPlace::new(tree.place, outlet.stop().clone())), ..tree });
    let unlisted = AtomicU64::new(0);
    let sink = |tree, event| {
        if matches!(&event, PlaceEvent::Answer(FileAnswer { result: Err(_), .. }) | PlaceEvent::Unlisted(_)) {
            unlisted.fetch_add(1, Ordering::Relaxed);
        }
        outlet.give(Compared::Event { tree, event })
    };
    let mut listed: ListedPairs<2> = match compare::list([&mut a, &mut b], digest, scratch, &sink) {
        Err(_) if outlet.stop().is_due() => {
            return Ok(CompareSummary { stopped: true, ..Default::default() });
        }
        listed => listed?,
    };
    let (mut summary, mut ended, progress) = (CompareSummary::default(), Ok(()), Progress::default());
    'all: while let Some(mut pairs) = listed.group()? {
        let read = listed.read([&mut a, &mut b], digest, &mut pairs, &sink, &progress);
        ended = ended.and(read);
        for pair in pairs {
            summary.count(pair.status);
            if !outlet.give(Compared::File(pair)) {
                break 'all;
            }
        }
    }
    summary.unlisted = unlisted.load(Ordering::Relaxed);
    summary.stopped = outlet.stop().is_due();
    // What was found before a place failed is told first.
    match ended {
        Err(error) if !summary.stopped => Err(error),
        _ => Ok(summary),
    }
}
