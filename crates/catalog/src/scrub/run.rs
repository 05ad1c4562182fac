//! One run over a tree: the loop for trees of all places. It plans what is due, goes through the tree, ends
//! what it began, and records the result. Each kind of place goes through its trees by a [`Passage`].

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use super::digests::{Digests, rehash_target};
use super::jobs::Outcome;
use super::judge::ScrubJudge;
use super::local_tree::LocalTree;
use super::plan::Plan;
use super::tally::Tally;
use super::writer::{SpentBoxes, Writer};
use super::{PlaceTree, Scope, ScrubError, ScrubOptions, ScrubReport, ScrubSummary, forecast};
use crate::store::{self, Catalog, Run, absolute};
use verisum_files::place::LocalPlace;
use verisum_files::{Verdict, lock};

/// How a tree is gone through, which depends on where it is: this machine tells all of its inodes and is asked at
/// every file; another place is asked once for many.
pub(super) trait Passage {
    /// Finds out what part of which root a path is, and whether that is what was recorded.
    fn scope(&self, catalog: &Catalog, path: &Path, options: &ScrubOptions) -> Result<Scope, ScrubError>;

    /// Whether it computes a second digest in the same read, for records that are to have another.
    fn rehashes(&self) -> bool;

    /// Finds what is there, reads what is due, and has it judged and written.
    fn go<'w>(&mut self, work: &Work, writer: Writer<'w>) -> Result<(Writer<'w>, Outcome), ScrubError>;
}

/// What all parts of a run go by.
pub(super) struct Work<'a> {
    pub(super) scope: &'a Scope,
    pub(super) options: &'a ScrubOptions,
    pub(super) plan: &'a Plan,
    pub(super) judge: ScrubJudge<'a>,
    /// Whether records get the digest of new files.
    pub(super) is_rehashed: bool,
    /// Those who scrub other trees at the same time write meanwhile.
    pub(super) turn: &'a Mutex<()>,
    /// The number of the run, once it is recorded that it began.
    pub(super) run: OnceLock<i64>,
}

impl<'a> Work<'a> {
    /// Waits until nobody else writes.
    pub(super) fn take_turn(&self) -> MutexGuard<'a, ()> {
        take(self.turn)
    }
}

fn take(turn: &Mutex<()>) -> MutexGuard<'_, ()> {
    lock(turn)
}

/// Scrubs one directory of this machine: a root of the catalogue, a directory in one, or a new root.
///
/// `report` is called for every file that is not as it was. Whoever calls holds the catalogue's lock.
pub fn scrub(
    catalog: &mut Catalog,
    directory: &Path,
    options: &ScrubOptions,
    report: &mut (dyn FnMut(ScrubReport) + Send),
) -> Result<ScrubSummary, ScrubError> {
    // As the catalogue names it: by another name it would be another tree, all of whose files are new.
    let directory = &absolute(directory)?;
    let mut place = LocalPlace::default();
    let root = directory.as_os_str().as_bytes();
    let mut tree = PlaceTree { place: &mut place, root, notes: &|_| true };
    scrub_tree(catalog, directory, (options, &Mutex::new(())), &mut tree, report)
}

/// Scrubs one directory of any place, by the path or address that the catalogue has for it. A new root of which
/// nothing can be recorded is forgotten again.
///
/// `report` is called for every file that is not as it was. Whoever calls holds the catalogue's lock; several
/// runs over directories of other machines may go on at once, each with a connection of its own, and take turns
/// to write.
pub fn scrub_tree(
    catalog: &mut Catalog,
    path: &Path,
    (options, turn): (&ScrubOptions, &Mutex<()>),
    tree: &mut PlaceTree,
    report: &mut (dyn FnMut(ScrubReport) + Send),
) -> Result<ScrubSummary, ScrubError> {
    let held = take(turn);
    catalog.require_writable()?;
    let check = catalog.check_meanwhile(path)?;
    let passage: &mut dyn Passage = match tree.place.is_here() {
        true => &mut LocalTree,
        false => {
            // Many of these are scrubbed at once: so they are checked one after the other.
            check.is_sound();
            tree
        }
    };
    drop(held);
    let done = go_on(catalog, path, (options, turn), passage, report);
    catalog.end_check(check)?;
    done
}

/// Scrubs the directory while the catalogue is checked.
fn go_on(
    catalog: &mut Catalog,
    path: &Path,
    (options, turn): (&ScrubOptions, &Mutex<()>),
    passage: &mut dyn Passage,
    report: &mut (dyn FnMut(ScrubReport) + Send),
) -> Result<ScrubSummary, ScrubError> {
    let clock = Instant::now();
    let mut options = options.starting();
    let held = take(turn);
    let scope = match passage.scope(catalog, path, &options) {
        Ok(scope) => scope,
        Err(error) => {
            // If that cannot be kept either, it looks as if nobody had tried.
            let _ = note_attempt(catalog, path, &options, &error, clock);
            return Err(error);
        }
    };
    let history = catalog.runs(scope.root.id, forecast::RUNS)?;
    let target = if passage.rehashes() { rehash_target(catalog, &options)? } else { None };
    let is_rehashed = target.is_some();
    if let Some(digest) = target {
        options.digest = digest;
    }
    let options = &options;
    let algorithm = catalog.algorithm(options.digest.name())?;
    let digests = Digests::new(catalog, options)?;
    let plan = Plan::new(options, &history, clock);
    drop(held);

    let tally = Tally::new(options.stop_after);
    let generations = match catalog.has_generations(scope.root.id)? {
        true => Some((Mutex::new(catalog.again()?), scope.root.id)),
        false => None,
    };
    let keeps_births = AtomicU64::new(u64::MAX);
    let spent = SpentBoxes::default();
    let judge = ScrubJudge {
        digests: &digests,
        algorithm,
        options,
        tally: &tally,
        plan: &plan,
        generations,
        keeps_births,
        spent: &spent,
    };
    let work = Work { scope: &scope, options, plan: &plan, judge, is_rehashed, turn, run: OnceLock::new() };
    let writer = Writer::new(catalog, &work, &history, report);
    let done = go(passage, &work, writer);
    let Some(id) = work.run.get().copied() else { return done.map(|(summary, _)| summary) };
    let mut run = Run { id, started: options.started(), cycle: plan.cycle, ..Run::default() };
    run.read_files = tally.read_files.load(Ordering::Relaxed);
    run.read_bytes = tally.hashed_bytes.load(Ordering::Relaxed);
    let _held = take(turn);
    if let Err(ScrubError::Remote { .. } | ScrubError::Root { .. }) = &done
        && history.is_empty()
        && is_forgotten(catalog, &scope)?
    {
        return done.map(|(summary, _)| summary);
    }
    end(catalog, run, done, EndOfRun { history: &history, options, clock })
}

/// Records that a tree of the catalogue could not be scrubbed at all, as where its file system is not mounted: what
/// watches the catalogue would take it for well.
fn note_attempt(
    catalog: &Catalog,
    path: &Path,
    options: &ScrubOptions,
    error: &ScrubError,
    clock: Instant,
) -> Result<(), ScrubError> {
    let root = match error {
        ScrubError::Root { .. } => catalog.root_of(path)?,
        // A directory of that name in a tree may be a name that was mistyped.
        _ => catalog.root(path)?,
    };
    let Some(root) = root else { return Ok(()) };
    let plan = Plan::new(options, &catalog.runs(root.id, forecast::RUNS)?, clock);
    let mut run = Run { started: options.started(), cycle: plan.cycle, ..Run::default() };
    run.id = catalog.begin_run(root.id, run.started, run.cycle)?;
    run.finished = Some(options.started() + clock.elapsed());
    fail(&mut run, error);
    Ok(catalog.end_run(&run)?)
}

/// Reads, judges and writes. Returns also whether all that is due was given out: what could not be listed
/// is not among it, or a tree with such a place would never be done, and nothing in it due again.
fn go(passage: &mut dyn Passage, work: &Work, writer: Writer) -> Result<(ScrubSummary, bool), ScrubError> {
    let (mut writer, mut outcome) = passage.go(work, writer)?;
    let _turn = work.take_turn();
    if let Err(error) = writer.read_by_own_records(work.judge.digests) {
        writer.tell_doubtful();
        return Err(error);
    }
    outcome.close(work.judge.tally, work.options.stop.is_due());
    let mut summary = writer.finish(&outcome)?;
    summary.count_reads(work.judge.tally);
    Ok((summary, outcome.is_through))
}

/// Forgets a new root of which nothing could be read: nobody could tell it from a name that was mistyped.
fn is_forgotten(catalog: &Catalog, scope: &Scope) -> Result<bool, ScrubError> {
    match catalog.root(&scope.root.path)?.filter(|root| root.files == 0) {
        // What another catalogue knew of it may be all that there is.
        Some(root) if !catalog.remembers(root.id)? => Ok(catalog.forget_root(&root).map(|_| true)?),
        Some(_) => Ok(false),
        None => Ok(false),
    }
}

/// What the end of a run is told by: the runs before it, how it was to go, and since when it went.
struct EndOfRun<'a> {
    history: &'a [Run],
    options: &'a ScrubOptions,
    clock: Instant,
}

/// Records how a run went.
fn end(
    catalog: &Catalog,
    mut run: Run,
    done: Result<(ScrubSummary, bool), ScrubError>,
    EndOfRun { history, options, clock }: EndOfRun,
) -> Result<ScrubSummary, ScrubError> {
    run.finished = Some(options.started() + clock.elapsed());
    run.seconds = clock.elapsed().as_secs_f64();
    let (mut summary, is_through) = match done {
        Ok(done) => done,
        Err(error) => {
            // If that cannot be kept either, it looks as if it had been killed.
            fail(&mut run, &error);
            let _ = catalog.end_run(&run);
            return Err(error);
        }
    };
    summary.clock_went_back = history.first().is_some_and(|last| last.started > options.started());
    summary.time = clock.elapsed();
    (run.complete, run.interrupted) = (is_through, summary.interrupted);
    run.counts = counts(&summary);
    summary.forecast = forecast::forecast(&summary, &run, history, options);
    catalog.end_run(&run)?;
    Ok(summary)
}

/// Notes why a run failed.
fn fail(run: &mut Run, error: &ScrubError) {
    run.error = Some(error.to_string());
    if matches!(error, ScrubError::Tree(error) if error.is_storage_failure()) {
        run.counts = serde_json::json!({ Verdict::IoError.name(): 1 }).to_string();
    }
}

fn counts(summary: &ScrubSummary) -> String {
    let counts = Verdict::ALL.iter().zip(summary.counts).map(|(verdict, count)| (verdict.name(), count));
    let counts: serde_json::Map<_, _> = counts
        .chain([(store::UNLISTED, summary.unlisted + summary.not_tried)])
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_string(), count.into()))
        .collect();
    serde_json::Value::Object(counts).to_string()
}
