//! Scrubs: compares a tree with its catalogue, records what is new or changed, and reads the rest again,
//! stalest first.
//!
//! A run has three stages that feed one engine: the files that were bad the last time; a walk, which
//! gives the new and the changed ones and finds the missing; and the files whose turn it is. Where everything
//! due is read (no budget, no sample), the walk gives these too, in its own order. Results go to one writer, which commits every second: a run that is killed loses no more than that, and the next
//! one goes on where it was.
//!
//! Non-goals: repair, and finding out who did it.

mod accept;
mod alarm;
mod due;
mod finish;
mod forecast;
mod guard;
mod jobs;
mod join;
mod judge;
mod known_bad;
mod merge;
mod remote_tree;
mod tally;
mod top;
mod writer;

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use verisum_digest::Digest;

use crate::store::{self, Catalog, Run, Seen};
use tally::Tally;
use verisum_files::place::LocalPlace;
use verisum_files::{
    Class, Entry, Excludes, Limits, Operation, Order, Plan, Progress, Stat, Stop, Verdict, hash_wanted,
};

pub use accept::{Accept, Accepted, accept, accept_tree};
pub use forecast::Forecast;
pub use guard::require_tree;
pub use judge::state_after;
pub use remote_tree::{Notes, PlaceTree, is_same_time};
pub use verisum_files::reread::Bypass;

/// How to scrub.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
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
    /// Verify what was not verified since then, in milliseconds since 1970.
    pub since: Option<i64>,
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
    /// In which order files are read that are about equally urgent.
    pub order: Order,
    /// The limit of read bandwidth.
    pub limits: Option<Arc<Limits>>,
    /// When to end early: files in progress are given up, and what was done is kept.
    pub stop: Arc<Stop>,
    /// Where to tell how far it is.
    pub progress: Arc<Progress>,
    /// The time of the start, in milliseconds since 1970.
    pub now: i64,
}

impl Default for Options {
    /// What is usual for new files of SHA-256.
    fn default() -> Options {
        Options::new(Digest::find("sha256").expect("our own kernels compute it"))
    }
}

impl Options {
    /// What is usual for new files of this digest: all that is due is verified, on one thread, without limits.
    pub fn new(digest: Digest) -> Options {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Options {
            digest,
            policy: verisum_digest::Policy::default(),
            threads: 1,
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
            order: Order::Directory,
            limits: None,
            stop: Arc::default(),
            progress: Arc::default(),
            now: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
        }
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
pub enum Error {
    /// The catalogue failed.
    #[error(transparent)]
    Catalog(#[from] store::Error),
    /// The root cannot be looked at.
    #[error(transparent)]
    Tree(#[from] verisum_files::Error),
    /// A digest that records need cannot be computed here.
    #[error("{name}: {source}")]
    Digest {
        /// Its name.
        name: String,
        /// Why not.
        source: verisum_digest::Error,
    },
    /// What is at the root's path is not what was recorded, or not a directory.
    #[error("{}: {why}", path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// A tree of another machine cannot be listed or read.
    #[error("{}: {why}", path.display())]
    Remote {
        /// Its address.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// One file that is not as it was, for those who report it.
#[derive(Clone, Debug)]
pub struct Report {
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
    pub second: Option<(bool, Bypass)>,
    /// When it was found to be so, in milliseconds since 1970, if an earlier run has reported it.
    pub since: Option<i64>,
    /// Where a moved file was before.
    pub from: Option<PathBuf>,
    /// Why it could not be read.
    pub error: Option<String>,
}

/// How a run went.
#[derive(Clone, Debug, Default)]
pub struct Summary {
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
    /// Files that were not read because their device fails.
    pub given_up: u64,
    /// Files that are known to be bad and were not tried again, because enough others of their device had
    /// failed.
    pub not_tried: u64,
    /// Mount points below that were not entered.
    pub mount_points: u64,
    /// When the stalest file was last verified, in milliseconds since 1970; 0 for never.
    pub oldest: Option<i64>,
    /// Files that are missing since an earlier run.
    pub still_missing: u64,
    /// Directories that could not be listed.
    pub unlisted: u64,
    /// Whether everything due was verified.
    pub complete: bool,
    /// Whether it was ended by [`Options::stop`]. New, changed, moved and missing files are told by the next run
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

impl Summary {
    /// How many files have a verdict.
    pub fn count(&self, verdict: Verdict) -> u64 {
        Verdict::ALL.iter().position(|v| *v == verdict).map_or(0, |at| self.counts[at])
    }

    /// What the run means as a whole. Modified and missing files are changes, unless they are failures.
    pub fn class(&self, modified_fails: bool, missing_fails: bool) -> Class {
        let has = |class: Class| Verdict::ALL.iter().any(|v| v.class() == class && self.count(*v) > 0);
        let missing = self.count(Verdict::Missing) + self.still_missing;
        if has(Class::Corrupt)
            || self.alarm.is_some()
            || self.held > 0
            || modified_fails && self.count(Verdict::Modified) > 0
            || missing_fails && missing > 0
        {
            Class::Corrupt
        } else if has(Class::Unchecked) || self.unlisted + self.given_up > 0 {
            Class::Unchecked
        } else if has(Class::Change) {
            Class::Change
        } else {
            Class::Clean
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
    top: Option<top::Top>,
}

impl Scope {
    /// What has a path in the root, be it in this part of it or not.
    fn find(&self, path: &Path, options: &Options) -> Result<(Entry, Stat), verisum_files::Error> {
        match &self.top {
            Some(top) if top.holds(path) => top.find(path),
            _ => top::Top::open(&self.root.path, options.one_file_system)?.find(path),
        }
    }
}

/// Scrubs one directory of this machine: a root of the catalogue, a directory in one, or a new root.
///
/// `report` is called for every file that is not as it was. Whoever calls holds the catalogue's lock.
pub fn scrub(
    catalog: &mut Catalog,
    directory: &Path,
    options: &Options,
    report: &mut (dyn FnMut(Report) + Send),
) -> Result<Summary, Error> {
    let mut place = LocalPlace::default();
    let root = directory.as_os_str().as_bytes();
    let mut tree = PlaceTree { place: &mut place, root, notes: &|_| true };
    scrub_tree(catalog, directory, (options, &Mutex::new(())), &mut tree, report)
}

/// Scrubs one directory of any place, by the path or address that the catalogue has for it. A new root of another
/// machine is forgotten again if nothing of it can be recorded.
///
/// `report` is called for every file that is not as it was. Whoever calls holds the catalogue's lock; several
/// runs over directories of other machines may go on at once, each with a connection of its own, and take turns
/// to write.
pub fn scrub_tree(
    catalog: &mut Catalog,
    path: &Path,
    (options, turn): (&Options, &Mutex<()>),
    tree: &mut PlaceTree,
    report: &mut (dyn FnMut(Report) + Send),
) -> Result<Summary, Error> {
    let clock = Instant::now();
    let take_turn = || turn.lock().unwrap_or_else(PoisonError::into_inner);
    let held = take_turn();
    catalog.require_writable()?;
    catalog.require_sound()?;
    let is_here = tree.place.is_here();
    let scope = match is_here {
        true => guard::scope(catalog, path, options)?,
        false => remote_tree::scope(catalog, path)?,
    };
    let history = catalog.runs(scope.root.id, forecast::RUNS)?;
    let target = if is_here { rehash_target(catalog, options)? } else { None };
    let is_rehashed = target.is_some();
    let options = &Options { digest: target.unwrap_or(options.digest.clone()), ..options.clone() };
    let algorithm = catalog.algorithm(options.digest.name())?;
    let digests = digests(catalog, options)?;
    let plan = due::Plan::new(options, &history, clock);
    let mut run = Run { started: options.now, cycle: plan.cycle, ..Run::default() };
    run.id = catalog.begin_run(scope.root.id, run.started, run.cycle)?;
    drop(held);
    let run_plan = RunPlan { history: &history, due: &plan, algorithm };
    let done = match is_here {
        true => work(catalog, &scope, (options, is_rehashed), run_plan, digests, report),
        false => remote_tree::work(catalog, &scope, (options, &take_turn), run_plan, digests, tree, report),
    };
    let _held = take_turn();
    if !is_here && done.is_err() && remote_tree::forgotten(catalog, &scope, &done, &history)? {
        return done.map(|(summary, _)| summary);
    }
    end(catalog, run, done, EndOfRun { history: &history, options, clock })
}

/// What the end of a run is told by: the runs before it, how it was to go, and since when it went.
struct EndOfRun<'a> {
    history: &'a [Run],
    options: &'a Options,
    clock: Instant,
}

/// What a run goes by: the runs before it, what is due in it, and the number of its algorithm.
struct RunPlan<'a> {
    history: &'a [Run],
    due: &'a due::Plan,
    algorithm: i64,
}

/// Records how a run went.
fn end(
    catalog: &Catalog,
    mut run: Run,
    done: Result<(Summary, bool), Error>,
    EndOfRun { history, options, clock }: EndOfRun,
) -> Result<Summary, Error> {
    run.finished = Some(options.now + clock.elapsed().as_millis() as i64);
    run.seconds = clock.elapsed().as_secs_f64();
    let (mut summary, is_through) = match done {
        Ok(done) => done,
        Err(error) => {
            // If that cannot be kept either, it looks as if it had been killed.
            run.error = Some(error.to_string());
            let _ = catalog.end_run(&run);
            return Err(error);
        }
    };
    summary.clock_went_back = history.first().is_some_and(|last| last.started > options.now);
    summary.time = clock.elapsed();
    (run.complete, run.interrupted) = (is_through, summary.interrupted);
    (run.read_files, run.read_bytes) = (summary.read_files, summary.hashed_bytes);
    run.counts = counts(&summary);
    summary.forecast = forecast::forecast(&summary, &run, history, options);
    catalog.end_run(&run)?;
    Ok(summary)
}

/// Reads, judges and writes. Returns also whether all that is due was given out: what could not be listed
/// is not among it, or a tree with such a place would never be done, and nothing in it due again.
fn work(
    catalog: &mut Catalog,
    scope: &Scope,
    (options, is_rehashed): (&Options, bool),
    RunPlan { history, due: plan, algorithm }: RunPlan,
    Digests { sets, set_of, unavailable }: Digests,
    report: &mut (dyn FnMut(Report) + Send),
) -> Result<(Summary, bool), Error> {
    let names = sets.iter().map(|digest| digest.name().to_string()).collect();
    let (reader, tally) = (catalog.again()?, Tally::new(options.stop_after));
    let (sender, receiver) = mpsc::sync_channel(4096);
    let mut writer = writer::Writer::new(catalog, scope, history, names, options, report);
    let judge = judge::Judge {
        sets: &sets,
        unavailable: &unavailable,
        algorithm,
        options,
        tally: &tally,
        now: plan.clock(),
    };
    let mut jobs = jobs::Jobs::new(reader, scope, options, plan, set_of, &tally, sender.clone())?;
    let written = std::thread::scope(|threads| {
        let write = move || writer.run(receiver).map(|()| writer);
        let writing = match std::thread::Builder::new().spawn_scoped(threads, write) {
            Ok(writing) => writing,
            Err(error) => {
                return Ok(Err(verisum_files::Error::io(&scope.path, Operation::Hash, error).into()));
            }
        };
        let target = Some(&options.digest).filter(|_| is_rehashed);
        let sets = sets.iter().map(|digest| {
            let target = target.filter(|target| target.name() != digest.name());
            [digest].into_iter().chain(target).cloned().collect()
        });
        let sets = sets.collect();
        let is_short = options.budget.is_some() && options.limits.is_some();
        let engine = Plan {
            streams: is_short.then_some(1),
            hard_links_once: true,
            settles: true,
            limits: options.limits.clone(),
            stop: options.stop.clone(),
            progress: options.progress.clone(),
            // What was begun is read to its end: at a limited rate that is to be one file.
            ..Plan::new(sets, if is_short { 1 } else { options.threads })
        };
        // Files are taken in heaps, and wait for their turn where there are limits: it is asked again then.
        let wanted =
            |token: &judge::Token| !plan.is_over() && !tally.gives_up(token.device, token.is_known_bad);
        hash_wanted(&engine, &mut jobs, &wanted, &|hashed| judge.judge(hashed, &sender));
        drop(sender);
        jobs.close();
        writing.join()
    });
    let outcome = jobs.outcome()?;
    let writer = match written {
        Ok(writer) => writer?,
        Err(panic) => std::panic::resume_unwind(panic),
    };

    let mut summary = writer.finish(&outcome)?;
    summary.count_reads(&tally);
    Ok((summary, outcome.is_through))
}

/// The digest that all records are to have, if somebody wants that.
fn rehash_target(catalog: &Catalog, options: &Options) -> Result<Option<Digest>, Error> {
    let Some(name) = catalog.rehash_target()? else { return Ok(None) };
    Digest::find_with(&name, &options.policy).map(Some).map_err(digest_failed(&name))
}

/// The digests that records need and new files get.
struct Digests {
    sets: Vec<Digest>,
    /// The place of each algorithm among them.
    set_of: HashMap<i64, usize>,
    /// Algorithms that cannot be computed here, and why not.
    unavailable: HashMap<i64, String>,
}

fn digests(catalog: &Catalog, options: &Options) -> Result<Digests, Error> {
    let mut digests = Digests { sets: Vec::new(), set_of: HashMap::new(), unavailable: HashMap::new() };
    for (number, name) in catalog.algorithms()? {
        let digest = match name == options.digest.name() {
            true => Ok(options.digest.clone()),
            false => Digest::find_with(&name, &options.policy),
        };
        match digest {
            Ok(digest) => {
                digests.set_of.insert(number, digests.sets.len());
                digests.sets.push(digest);
            }
            // Its files cannot be compared, which each of them is told of; the others can.
            Err(error) => {
                digests.unavailable.insert(number, error.to_string());
            }
        }
    }
    Ok(digests)
}

fn digest_failed(name: &str) -> impl FnOnce(verisum_digest::Error) -> Error {
    move |source| Error::Digest { name: name.to_string(), source }
}

/// An error without the path and without Rust's ` (os error 2)`.
fn error_text(error: &verisum_files::Error) -> String {
    match error {
        verisum_files::Error::Io { operation, offset, source, .. } => {
            let text = verisum_files::text::of_system(source);
            format!("{operation}{}: {text}", verisum_files::at(*offset))
        }
        other => other.to_string(),
    }
}

fn counts(summary: &Summary) -> String {
    let counts = Verdict::ALL.iter().zip(summary.counts).map(|(verdict, count)| (verdict.name(), count));
    let counts: serde_json::Map<_, _> = counts
        .chain([(store::UNLISTED, summary.unlisted)])
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_string(), count.into()))
        .collect();
    serde_json::Value::Object(counts).to_string()
}
