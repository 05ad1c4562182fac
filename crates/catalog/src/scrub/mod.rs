//! A scrub compares a tree with its catalogue, records new and changed files, and reads the others again.
//!
//! A run has three stages that feed one engine: the files that were bad the last time; a walk, which gives the new and
//! the changed ones and finds the missing; and the others that are due, stalest first. Where everything due is read (no
//! budget, no sample, not shuffled), the walk gives these too, directory by directory. Results go to one writer, which
//! commits every second: a run that is killed loses no more than that, and the next one goes on where it was.
//!
//! Non-goals: repair, and finding out who did it.

mod accept;
mod alarm;
mod digests;
mod file_fault;
mod finish;
mod forecast;
mod jobs;
mod join;
mod judge;
mod local_tree;
mod merge;
mod other_digests;
mod parity_files;
mod plan;
mod remote_tree;
mod renamed_bad;
mod run;
mod tally;
mod top_directory;
mod tree_guard;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use verisum_digest::Digest;

use crate::store::{self, Catalog, Moment, Seen};
use tally::Tally;
use verisum_files::{Entry, Excludes, Limits, Order, Progress, Stat, Stop, Timestamp, Verdict, VerdictClass};

pub use accept::{Accept, Accepted, accept, accept_tree};
pub use file_fault::FileFault;
pub use forecast::Forecast;
pub use judge::state_after;
pub use remote_tree::{Notes, PlaceTree, has_same_change, is_same_time};
pub use run::{scrub, scrub_tree};
pub use tally::Untried;
pub use tree_guard::require_tree;
pub use verisum_files::reread::Bypass;

/// How to scrub.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScrubOptions {
    /// The digest of files that have no record. Others keep the algorithm of their record.
    pub digest: Digest,
    /// Which implementations compute the digests of records.
    pub policy: verisum_digest::Policy,
    /// Threads that read and hash, at least 1.
    pub threads: usize,
    /// No file's last verification is to be longer ago than this.
    pub max_age: Option<Duration>,
    /// How long the run may take. A file that was begun is read to its end.
    pub budget: Option<Duration>,
    /// The share of the files due that is verified, chosen at random; more than 0 and at most 1.
    pub sample: f64,
    /// Verify in random order within each stretch of equally stale files.
    pub shuffle: bool,
    /// Verify what was not verified since then.
    pub since: Option<Timestamp>,
    /// Do not enter other file systems.
    pub one_file_system: bool,
    /// Stop reading from a device after as many errors of its storage. Files that are known to be bad are
    /// counted apart: after as many errors of theirs no more of them are tried.
    pub stop_after: Option<u64>,
    /// When so much changed that something must be wrong.
    pub alarm: Alarm,
    /// Nothing in the tree is meant to change: what is modified is not recorded anew, and what is missing
    /// is reported by every run, until somebody accepts it.
    pub archive: bool,
    /// Missing files are reported by every run, until somebody accepts it, though the tree is no archive.
    pub missing_fails: bool,
    /// Take the root for the tree that was recorded, though nothing says that it is.
    pub replaced_root: bool,
    /// What is left out, by paths from the directory that is scrubbed. What is recorded of it stays as it
    /// is, and is neither verified nor missing.
    pub excludes: Option<Arc<Excludes>>,
    /// Files that nothing is to look at now, and why: those of unfinished repairs. Each is told as one that could not be
    /// verified, by all of its names, and its record stays as it is.
    pub withheld: Vec<(PathBuf, String)>,
    /// In which order files are read that are about equally urgent.
    pub order: Order,
    /// The limit of read bandwidth.
    pub limits: Option<Arc<Limits>>,
    /// When to end early: files in progress are given up, and what was done is kept.
    pub stop: Arc<Stop>,
    /// Where to tell how far it is.
    pub progress: Arc<Progress>,
    /// The time of the start; none for that of the clock then.
    pub now: Option<Timestamp>,
}

impl Default for ScrubOptions {
    /// What is usual for new files of SHA-256.
    fn default() -> ScrubOptions {
        ScrubOptions::new(Digest::find("sha256").expect("our own kernels compute it"))
    }
}

impl ScrubOptions {
    /// What is usual for new files of this digest: all that is due is verified, on all cores, without limits.
    pub fn new(digest: Digest) -> ScrubOptions {
        ScrubOptions {
            digest,
            policy: verisum_digest::Policy::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            max_age: None,
            budget: None,
            sample: 1.0,
            shuffle: false,
            since: None,
            one_file_system: true,
            stop_after: None,
            alarm: Alarm::default(),
            archive: false,
            missing_fails: false,
            replaced_root: false,
            excludes: None,
            withheld: Vec::new(),
            order: Order::Directory,
            limits: None,
            stop: Arc::default(),
            progress: Arc::default(),
            now: None,
        }
    }

    /// The time of the start.
    pub fn started(&self) -> Moment {
        self.now.map_or_else(Moment::now, Moment::from)
    }

    /// These, for a run that starts now.
    fn starting(&self) -> ScrubOptions {
        ScrubOptions { now: Some(self.started().timestamp()), ..self.clone() }
    }
}

/// How much may change in one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alarm {
    /// The share of recorded files, from 0 to 1.
    pub share: f64,
    /// Fewer files than these are no alarm, whatever their share.
    pub at_least: u64,
}

impl Default for Alarm {
    /// Half of the files, and at least 100.
    fn default() -> Alarm {
        Alarm { share: 0.5, at_least: 100 }
    }
}

/// Why a run could not be made, or not be ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScrubError {
    /// The catalogue failed.
    #[error(transparent)]
    Catalog(#[from] store::CatalogError),
    /// The root cannot be looked at.
    #[error(transparent)]
    Tree(#[from] verisum_files::FileError),
    /// A digest that records need cannot be computed here.
    #[error("{name}: {source}")]
    Digest {
        /// Its name.
        name: String,
        /// Why not.
        source: verisum_digest::DigestError,
    },
    /// What is at the root's path is not what was recorded, or not a directory.
    #[error("{}: {why}", path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// What is wrong.
        why: RootFault,
    },
    /// A tree of another machine cannot be listed or read.
    #[error("{}: {why}", path.display())]
    Remote {
        /// Its address.
        path: PathBuf,
        /// What is wrong.
        why: Box<FileFault>,
    },
}

/// Why a directory is not taken for a tree of the catalogue, or for part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootFault {
    /// A recorded tree is gone.
    #[error(
        "it is not there: is it mounted? (`verisum catalog relocate` gives its records another path, `verisum \
         catalog forget` drops them)"
    )]
    Gone,
    /// It is a file.
    #[error("open: Not a directory")]
    NotADirectory,
    /// It is a file of another place.
    #[error("it is no directory, and trees are what is recorded")]
    RemoteFile,
    /// Another directory is there, without the recorded files.
    #[error(
        "its file system or inode is not the recorded one, and neither are its files: is it mounted? \
         (--replaced-root takes it for the same tree)"
    )]
    Replaced,
    /// The same, where something is to be repaired or accepted.
    #[error(
        "it is not the tree that was recorded: is it mounted? (a scrub with --replaced-root takes it for the same \
         tree)"
    )]
    OtherTree,
    /// A place has none of the recorded files.
    #[error(
        "nothing is there of what is recorded: is it mounted? (--replaced-root takes it for the same tree)"
    )]
    Empty,
    /// A file system was mounted there that is not mounted now.
    #[error(
        "another file system was recorded here: is it mounted? (a scrub of this directory with --replaced-root \
         takes what is there for the same files)"
    )]
    Unmounted,
    /// A file system is mounted there, or above, that was not.
    #[error(
        "something is mounted there, or above, that is not what was recorded (--cross-file-systems enters it)"
    )]
    MountedOver,
    /// Trees are below it.
    #[error(
        "accept: it is above a tree of the catalogue: name the tree, or what is in it (`verisum catalog status` \
         lists the trees)"
    )]
    AboveTrees,
    /// The catalogue knows nothing of it.
    #[error("accept: it is in no tree of the catalogue")]
    InNoTree,
    /// The walk did not come to it when it should.
    #[error("list: the walk came to it out of order")]
    OutOfOrder,
}

/// One file that is not as it was, for those who report it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScrubReport {
    /// Its path, which begins with that of the root.
    pub path: PathBuf,
    /// What it means.
    pub verdict: Verdict,
    /// Whether the record stays as it was until somebody accepts the file.
    pub held: bool,
    /// Whether it was in trouble, and its content is the recorded one again.
    pub restored: bool,
    /// What was recorded.
    pub recorded: Option<Seen>,
    /// What was found, if it could be read.
    pub found: Option<Seen>,
    /// The name of the digest.
    pub algorithm: String,
    /// The second read, if there was one: whether it gave what the first gave, and how it was made.
    pub second: Option<SecondReading>,
    /// When it was found to be so, if an earlier run has reported it.
    pub since: Option<Moment>,
    /// Where a moved file was before.
    pub from: Option<PathBuf>,
    /// Why it could not be read.
    pub error: Option<FileFault>,
}

/// A second read of a file whose content is not the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondReading {
    /// Whether it gave what the first gave.
    pub same: bool,
    /// How the page cache was kept out of it.
    pub bypass: Bypass,
}

/// How a run went.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ScrubSummary {
    /// The root.
    pub root: PathBuf,
    /// How many files have each verdict, in the order of [`Verdict::ALL`], and directories that could not be
    /// listed. Files that are known to be bad and were not tried are counted as what they are known to be.
    pub counts: [u64; Verdict::ALL.len()],
    /// Changed files whose record was not replaced, in this run or an earlier one: too much had changed, or
    /// the tree is an archive.
    pub held: u64,
    /// Records in this root.
    pub files: u64,
    /// The sum of their lengths.
    pub bytes: u64,
    /// Files that were read to their end.
    pub read_files: u64,
    /// Bytes that were read of them: none of holes.
    pub read_bytes: u64,
    /// Bytes of them that were hashed: those of holes too.
    pub hashed_bytes: u64,
    /// New and changed files for which there was no time.
    pub waiting: u64,
    /// Files that were not read because a report of their place's keeper has the recorded digest of what was listed. They
    /// are not verified.
    pub reported: u64,
    /// When that report was made.
    pub reported_at: Option<Moment>,
    /// Files that were not read because their device fails.
    pub given_up: u64,
    /// Files that are known to be bad and were not tried again: there was no time, enough others of their device had
    /// failed, or somebody ended the run.
    pub not_tried: u64,
    /// Mount points below that were not entered.
    pub mount_points: u64,
    /// When the stalest file was last verified; [`Moment::NEVER`] if it never was.
    pub oldest: Option<Moment>,
    /// Files that are missing since an earlier run.
    pub still_missing: u64,
    /// Directories that could not be listed.
    pub unlisted: u64,
    /// The directories whose parity, in its usual place, was left out: it has digests of its own.
    pub parity: Vec<PathBuf>,
    /// Damaged files of that parity, where somebody who verified it says so here.
    pub damaged_parity: u64,
    /// Whether everything due was verified.
    pub complete: bool,
    /// Whether it was ended by [`ScrubOptions::stop`]. New, changed, moved and missing files are told by the next run
    /// that comes to its end, and so is whether too much changed.
    pub interrupted: bool,
    /// What changed, if that is so much that nothing was taken over.
    pub alarm: Option<TooMuch>,
    /// How long the run took.
    pub time: Duration,
    /// Whether the clock shows an earlier time than a run before.
    pub clock_went_back: bool,
    /// When everything will have been verified, if there is enough to tell.
    pub forecast: Option<Forecast>,
}

impl ScrubSummary {
    /// How many files have a verdict.
    pub fn count(&self, verdict: Verdict) -> u64 {
        Verdict::ALL.iter().position(|v| *v == verdict).map_or(0, |at| self.counts[at])
    }

    /// What the run means as a whole. Modified and missing files are changes, unless they are failures.
    pub fn class(&self, modified_fails: bool, missing_fails: bool) -> VerdictClass {
        let has = |class: VerdictClass| Verdict::ALL.iter().any(|v| v.class() == class && self.count(*v) > 0);
        let missing = self.count(Verdict::Missing) + self.still_missing;
        if has(VerdictClass::Corrupt)
            || self.alarm.is_some()
            || self.held + self.damaged_parity > 0
            || modified_fails && self.count(Verdict::Modified) > 0
            || missing_fails && missing > 0
        {
            VerdictClass::Corrupt
        } else if has(VerdictClass::Unchecked) || self.unlisted + self.given_up > 0 {
            VerdictClass::Unchecked
        } else if has(VerdictClass::Change) {
            VerdictClass::Change
        } else {
            VerdictClass::Clean
        }
    }

    fn count_reads(&mut self, tally: &Tally) {
        self.read_files = tally.read_files.load(Ordering::Relaxed);
        self.read_bytes = tally.read_bytes.load(Ordering::Relaxed);
        self.hashed_bytes = tally.hashed_bytes.load(Ordering::Relaxed);
    }

    fn add(&mut self, verdict: Verdict, files: u64) {
        if let Some(at) = Verdict::ALL.iter().position(|v| *v == verdict) {
            self.counts[at] += files;
        }
    }
}

/// So much that something must be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch {
    /// Files that changed or went, each of them once; in comparison with the whole tree with those that were
    /// held before.
    pub files: u64,
    /// The recorded files that they are among: those of the tree, or those that the run met.
    pub of: u64,
    /// Those of them that were written to and that there was no time to read.
    pub unread: u64,
}

/// The part of a root that a run is about.
pub(crate) struct Scope {
    root: store::Root,
    /// The number of the directory that the run begins at.
    directory: i64,
    /// Its path.
    path: PathBuf,
    /// Where recorded files are looked for; nowhere on this machine if the root is on another.
    top: Option<top_directory::Top>,
}

impl Scope {
    /// Whether it is all of the root.
    fn is_whole(&self) -> bool {
        self.directory == self.root.directory
    }

    /// Roots of their own below.
    fn roots_below(&self, catalog: &Catalog) -> Result<Vec<PathBuf>, store::CatalogError> {
        let roots = catalog.roots()?.into_iter().map(|root| root.path);
        Ok(roots.filter(|path| *path != self.path && path.starts_with(&self.path)).collect())
    }

    /// What has a path in the root, be it in this part of it or not.
    fn find(&self, path: &Path, options: &ScrubOptions) -> Result<(Entry, Stat), verisum_files::FileError> {
        match &self.top {
            Some(top) if top.holds(path) => top.find(path),
            _ => top_directory::Top::open(&self.root.path, options.one_file_system)?.find(path),
        }
    }
}
