//! `verisum scrub`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use clap::{Args, ValueHint};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use verisum_digest::{Digest, Policy};
use verisum_tree::scrub::{self, Options, Report, Summary};
use verisum_tree::store::catalog::Catalog;
use verisum_tree::{Class, Entry, Excludes, Stop, Verdict};

use super::metrics::Reason;
use super::place::{CatalogArgs, absolute};
use super::report::Reporter;
use super::results::ResultArgs;
use super::values;
use crate::commands::reading::{Order, ReadingArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, Output, progress};
use crate::verisum::PROGRAM;
use crate::{digests, kernel, sizes};

/// What `verisum scrub` takes.
#[derive(Args, Debug)]
pub(crate) struct ScrubArgs {
    #[command(flatten)]
    pub(super) catalog: CatalogArgs,

    /// The digest of new files; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    /// Workers, 1 to 128; without it, as many as this process may use cores
    #[arg(short = 'j', short_alias = 't', long, value_name = "N")]
    threads: Option<String>,

    /// Let no file's last verification be longer ago than this
    #[arg(long, value_name = "DURATION")]
    max_age: Option<String>,

    /// Begin no more files after this time
    #[arg(long = "for", value_name = "DURATION")]
    budget: Option<String>,

    /// Verify a random share of what is due
    #[arg(long, value_name = "SHARE")]
    sample: Option<String>,

    /// Verify in random order among about equally stale files
    #[arg(long)]
    shuffle: bool,

    /// Verify what was not verified since then: a date, @SECONDS, or a time ago
    #[arg(long, value_name = "WHEN", conflicts_with = "max_age")]
    since: Option<String>,

    /// Do not enter other file systems that are mounted below, as is done without this option too
    #[arg(short = 'x', long, conflicts_with = "cross_file_systems")]
    one_file_system: bool,

    /// Enter other file systems that are mounted below
    #[arg(long)]
    cross_file_systems: bool,

    /// Read no more from a device after N errors of its storage; 0 goes on for ever
    #[arg(long, value_name = "N", default_value_t = 100)]
    stop_after: u64,

    #[command(flatten)]
    reading: ReadingArgs,

    /// In which order files are read that are about equally urgent
    #[arg(long, value_enum, default_value = "auto")]
    order: Order,

    /// Do not give way to other programs that read or compute
    #[arg(long)]
    foreground: bool,

    #[command(flatten)]
    results: ResultArgs,

    /// The directories
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) directories: Vec<PathBuf>,
}

impl ScrubArgs {
    /// Fails if a value is not one that a run takes.
    pub(super) fn check(&self) -> Result<(), Failure> {
        options(self).map(drop)
    }

    /// The files that it names, the directories not among them.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.catalog.catalog.iter().chain(&self.results.prometheus).chain(self.reading.lists())
    }
}

/// Scrubs each directory. One that cannot be scrubbed does not keep the others from it.
pub(crate) fn run(arguments: &ScrubArgs, output: &mut Output) -> Result<Exit, Failure> {
    let ended = scrub_all(arguments, output);
    let roots = || arguments.directories.iter().map(|path| absolute(path)).collect();
    arguments.results.ended(ended, &arguments.catalog, &roots, output)
}

fn scrub_all(arguments: &ScrubArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options = options(arguments)?;
    let (_lock, mut catalog) = match arguments.directories.is_empty() {
        true => arguments.catalog.open_existing()?,
        false => arguments.catalog.open()?,
    };
    arguments.results.refuse_own(&catalog)?;
    let directories = directories(arguments, &catalog)?;
    if !arguments.foreground {
        verisum_tree::go_to_background();
    }
    end_by_signals(&mut options)?;
    let mut worst = Exit::Clean;
    let mut summaries = Vec::new();
    let wanted = arguments.reading.progress();
    let shared = Mutex::new(&mut *output);
    let reporter =
        Reporter::new(&shared, arguments.results.style(), arguments.results.archive, wanted.is_drawn());
    let reporter = Mutex::new(reporter);
    let told = options.progress.clone();
    progress::of_files(wanted, progress::Total::Unknown, &told, || {
        for directory in &directories {
            if options.stop.is_due() {
                break;
            }
            if let Ok(root) = Entry::followed(directory) {
                options.order = arguments.order.of_walk(&root, verisum_tree::Order::Directory);
            }
            // What cannot be printed any more is an error at the end; the run is of use without it.
            let mut report =
                |report: Report| reporter.lock().unwrap_or_else(|e| e.into_inner()).file(&report);
            match scrub::scrub(&mut catalog, directory, &options, &mut report) {
                Ok(summary) => {
                    worst = worst.max(exit(&summary, arguments.results.archive));
                    reporter.lock().unwrap_or_else(|e| e.into_inner()).summary(&summary);
                    summaries.push((directory.clone(), Ok(summary)));
                }
                Err(error) => {
                    let failure = Failure::from(error);
                    worst = worst.max(failure.exit());
                    render::say(PROGRAM, &failure.message());
                    summaries.push((directory.clone(), Err(Reason::of(&failure))));
                }
            }
        }
    });
    reporter.into_inner().unwrap_or_else(|e| e.into_inner()).end()?;
    if options.stop.is_due() {
        worst = Exit::Interrupted;
    }
    arguments.results.tell(&summaries, worst, &options, output)
}

/// What is scrubbed: each directory, and the roots below it, which have records of their own.
fn directories(arguments: &ScrubArgs, catalog: &Catalog) -> Result<Vec<PathBuf>, Failure> {
    let roots = catalog.roots()?.into_iter().map(|root| root.path);
    // Those of other machines have addresses, and are scrubbed by `verisum remote scrub`.
    let roots: Vec<PathBuf> = roots.filter(|path| path.is_absolute()).collect();
    if arguments.directories.is_empty() {
        return Ok(roots);
    }
    let mut directories = Vec::new();
    for directory in &arguments.directories {
        let directory = absolute(directory)?;
        let below = roots.iter().filter(|root| **root != directory && root.starts_with(&directory));
        for path in std::iter::once(&directory).chain(below) {
            if !directories.contains(path) {
                directories.push(path.clone());
            }
        }
    }
    Ok(directories)
}

/// Lets the first SIGINT or SIGTERM end the run in good order, and a second one at once.
fn end_by_signals(options: &mut Options) -> Result<(), Failure> {
    let asked = Arc::new(AtomicBool::new(false));
    options.stop = Arc::new(Stop::when(asked.clone()));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first finds it unset, and sets it.
        flag::register_conditional_default(signal, asked.clone())
            .and_then(|_| flag::register(signal, asked.clone()))
            .map_err(Failure::of_signals)?;
    }
    Ok(())
}

fn options(arguments: &ScrubArgs) -> Result<Options, Failure> {
    let policy = kernel::policy()?;
    let now = values::now();
    let threads = match &arguments.threads {
        Some(text) => sizes::threads(text)?,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let sample = arguments.sample.as_deref().map(|text| values::share("--sample", text)).transpose()?;
    let digest = digests::find(&arguments.algorithm, &policy)?;
    let usual = usual(digest, &arguments.results, arguments.reading.excludes()?, (policy, now))?;
    Ok(Options {
        threads,
        max_age: arguments.max_age.as_deref().map(|text| values::duration("--max-age", text)).transpose()?,
        budget: arguments.budget.as_deref().map(|text| values::duration("--for", text)).transpose()?,
        sample: sample.unwrap_or(1.0),
        shuffle: arguments.shuffle,
        since: arguments.since.as_deref().map(|text| values::moment("--since", text, now)).transpose()?,
        one_file_system: arguments.one_file_system || !arguments.cross_file_systems,
        stop_after: (arguments.stop_after > 0).then_some(arguments.stop_after),
        limits: arguments.reading.limits()?,
        ..usual
    })
}

/// What all scrubs have, with the rest as it is where nobody says otherwise.
pub(crate) fn usual(
    digest: Digest,
    results: &ResultArgs,
    excludes: Option<Arc<Excludes>>,
    (policy, now): (Policy, i64),
) -> Result<Options, Failure> {
    Ok(Options {
        digest,
        policy,
        threads: 1,
        max_age: None,
        budget: None,
        sample: 1.0,
        shuffle: false,
        since: None,
        one_file_system: true,
        stop_after: None,
        alarm: results.alarm()?,
        archive: results.archive,
        replaced_root: results.replaced_root,
        excludes,
        order: verisum_tree::Order::Directory,
        limits: None,
        stop: Arc::default(),
        progress: Arc::default(),
        now,
    })
}

/// How a run over one directory ends.
pub(crate) fn exit(summary: &Summary, archive: bool) -> Exit {
    if summary.interrupted {
        return Exit::Interrupted;
    }
    let has = |class: Class| Verdict::ALL.iter().any(|v| v.class() == class && summary.count(*v) > 0);
    let archived = [Verdict::Modified, Verdict::Missing].iter().any(|v| summary.count(*v) > 0);
    if has(Class::Corrupt)
        || summary.alarm.is_some()
        || summary.held > 0
        || archive && (archived || summary.still_missing > 0)
    {
        Exit::Mismatch
    } else if has(Class::Unchecked) || summary.unlisted + summary.given_up + summary.not_tried > 0 {
        Exit::Unchecked
    } else {
        Exit::Clean
    }
}
