//! `verisum scrub`: compares trees with the catalogue.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueHint};
use verisum::catalog::scrub::{ScrubOptions, ScrubSummary};
use verisum::catalog::store::{Catalog, Moment, Root, State};
use verisum::digest::{Digest, Policy};
use verisum::files::{Excludes, Stop, Verdict};
use verisum::mend::repair;
use verisum::parity_sources;

use super::health;
use super::metrics::{KnownTroubles, Summaries};
use super::report::ScrubStyle;
use super::results::{Failing, ScrubResultArgs};
use super::trees::{self, Trees};
use crate::ui::bad_file::{self, BadFile};
use crate::ui::catalog::{CatalogArgs, absolute};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{HOSTS, HostArgs, ManyArgs, refuse, refuse_urls};
use crate::ui::parity::NamedParity;
use crate::ui::reading::{Order, ReadingArgs};
use crate::ui::repair_commands::{Remedies, Remedy, RepairCommands};
use crate::ui::repair_report::RepairReport;
use crate::ui::repair_run::{finish_in_place, repair_wherever};
use crate::ui::repair_sources::sources;
use crate::ui::values;
use crate::ui::{self, Output, PROGRAM};
use crate::ui::{digests, kernel, names, parity, signals, sizes};

/// How many files that went missing are looked at, to find some that can be had again.
const MOST_MISSING: usize = 1000;

/// What `verisum scrub` takes.
#[derive(Args, Debug)]
#[command(mut_arg("threads", |threads| threads.help(sizes::ThreadArgs::WITH_BUCKETS)))]
pub(crate) struct ScrubArgs {
    #[command(flatten)]
    pub(super) catalog: CatalogArgs,

    /// The digest for new files; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    #[command(flatten)]
    pub(super) threads: sizes::ThreadArgs,

    /// Read files early enough that no verification gets older than this: 90d
    #[arg(long, value_name = "DURATION")]
    max_age: Option<String>,

    /// Time budget for the walk and the reads. A run always finishes its walk and the files that it has begun, and reads for
    /// at least a tenth of this time
    #[arg(long = "for", value_name = "DURATION")]
    budget: Option<String>,

    /// Verify a random share of the files that are due: 5%
    #[arg(long, value_name = "SHARE")]
    sample: Option<String>,

    /// Random order among files that are about equally stale
    #[arg(long)]
    shuffle: bool,

    /// Verify only files that have not been verified since this time: a date, @SECONDS, or a duration before
    /// now
    #[arg(long, value_name = "WHEN", conflicts_with = "max_age")]
    since: Option<String>,

    /// Do not enter file systems that are mounted below (the default)
    #[arg(short = 'x', long, conflicts_with = "cross_file_systems")]
    one_file_system: bool,

    /// Enter file systems that are mounted below
    #[arg(long)]
    cross_file_systems: bool,

    /// Stop reading a device after N I/O errors (0 = never)
    #[arg(long, value_name = "N", default_value_t = 100)]
    stop_after: u64,

    #[command(flatten)]
    pub(super) reading: ReadingArgs,

    /// Order among files that are about equally urgent
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) order: Order,

    /// Run at normal priority; without it, at the lowest priority
    #[arg(long)]
    foreground: bool,

    #[command(flatten)]
    pub(super) results: ScrubResultArgs,

    /// After the scrub, repair bad files from other copies, as `verisum repair` does; missing files stay
    /// missing
    #[arg(long, conflicts_with = "nagios", help_heading = "Repair")]
    pub(super) repair: bool,

    /// A copy of DIR to repair from, a directory or HOST:DIR; without it, all trees of the catalogue
    #[arg(long, value_name = "PLACE", requires = "repair", value_hint = ValueHint::AnyPath, help_heading = "Repair")]
    from: Vec<OsString>,

    /// The parity of DIR, if it is in another directory of this machine and not beside the files. Without --repair,
    /// the printed commands name it
    #[arg(long, value_name = "PARITY", value_hint = ValueHint::DirPath, help_heading = "Repair")]
    parity: Option<PathBuf>,

    /// Move bad files to this directory instead of removing them; to another file system they are copied
    #[arg(long, value_name = "DIR", requires = "repair", value_hint = ValueHint::DirPath, help_heading = "Repair")]
    keep_bad: Option<PathBuf>,

    /// The directories. HOST:DIR and ssh://HOST/DIR are on other machines, s3://BUCKET/PREFIX in a bucket
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) directories: Vec<OsString>,

    #[command(flatten, next_help_heading = HOSTS)]
    pub(super) hosts: HostArgs,

    #[command(flatten)]
    pub(super) many: ManyArgs,
}

impl ScrubArgs {
    /// Fails if a value is not one that a run takes.
    pub(super) fn check(&self) -> Result<(), Failure> {
        options(self).map(drop)
    }

    /// The first option that was given and that trees on other machines do not have.
    fn refused_for_hosts(&self) -> Result<(), Failure> {
        refuse(&[("--cross-file-systems", self.cross_file_systems)])
    }

    /// The commands that it prints, with its own options.
    pub(super) fn repair_commands(&self) -> RepairCommands {
        let commands = RepairCommands::new(self.catalog.catalog.as_deref()).with_hosts(&self.hosts);
        commands.with_parity(self.named_parity())
    }

    /// The parity that was named, and its tree.
    pub(super) fn named_parity(&self) -> Option<NamedParity> {
        let [tree] = &self.directories[..] else { return None };
        let tree = absolute(Path::new(tree)).ok()?;
        Some(NamedParity { tree, place: absolute(self.parity.as_deref()?).ok()? })
    }

    /// The files that it names, the directories not among them.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.catalog.catalog.iter().chain(&self.results.prometheus).chain(self.reading.lists())
    }
}

/// Scrubs each directory. One that cannot be scrubbed does not keep the others from it; a damaged catalogue does.
pub(crate) fn run(arguments: &ScrubArgs, output: &mut Output) -> Result<Exit, Failure> {
    let ended = scrub_all(arguments, output);
    let roots = || {
        let (here, there) = arguments.many.split(&arguments.directories)?;
        let here = here.iter().map(|path| absolute(Path::new(path)));
        here.chain(there.iter().flat_map(|on| &on.places).map(|place| Ok(trees::path(place)))).collect()
    };
    arguments.results.ended(ended, &arguments.catalog, &roots, output)
}

fn scrub_all(arguments: &ScrubArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options = options(arguments)?;
    // The first ends the run in good order, from now on: the catalogue is about to be taken.
    options.stop = Arc::new(Stop::when(signals::ask_once()?));
    let (here, there) = arguments.many.split(&arguments.directories)?;
    trees::check(&there)?;
    if !there.is_empty() {
        arguments.refused_for_hosts()?;
        arguments.hosts.require_endpoints(there.iter().map(|on| &on.host))?;
    }
    let all_recorded = arguments.directories.is_empty();
    let (_lock, mut catalog) = match all_recorded {
        true => arguments.catalog.open_existing()?,
        false => arguments.catalog.open()?,
    };
    arguments.results.refuse_own(&catalog)?;
    let directories = directories(&here, all_recorded, &catalog)?;
    let waits = finish_in_place(&catalog, &arguments.repair_commands(), &options.stop)?;
    options.withheld.extend(waits);
    if let Some(named) = arguments.named_parity() {
        parity::require(&named)?;
    }
    let places = trees::with_recorded(&there, &catalog.roots()?, all_recorded);
    let trees = directories.len() + places.iter().map(|on| on.places.len()).sum::<usize>();
    if !arguments.from.is_empty() && trees != 1 || arguments.parity.is_some() && directories.len() != 1 {
        return Err(Failure::Usage(
            "--from PLACE and --parity PLACE are of one directory: name that one alone".to_string(),
        ));
    }
    if !arguments.foreground {
        verisum::files::go_to_background();
    }
    let trees = Trees::new(arguments, &mut *output);
    trees.here(&directories, &mut catalog, &mut options)?;
    let is_interrupted = options.stop.is_due();
    if !is_interrupted && !places.is_empty() {
        trees.there(&places, &catalog, &options)?;
    }
    let is_interrupted = options.stop.is_due();
    let (summaries, found, damaged_parity, printed) = trees.end();
    // A run that could not look at a bad file does not make it better.
    let known = known(&catalog, &summaries, &options)?;
    let found = if known.bad() > 0 { found.max(Exit::Mismatch) } else { found };
    if arguments.repair && !is_interrupted {
        mend(arguments, &catalog, &summaries, &options, output)?;
    }
    let alarmed = match arguments.results.style() {
        ScrubStyle::Nothing => Ok(()),
        style => {
            // What was printed stands above what is said of it.
            let flushed = output.flush();
            if style != ScrubStyle::Json {
                advise(arguments, &catalog, &summaries, options.excludes.as_deref());
            }
            flushed.and(tell_bad_files(arguments, &catalog, (&summaries, &options), style, output))
        }
    };
    let worst = if is_interrupted { Exit::Interrupted } else { found };
    // Monitoring is told what was found, whether or not that could be printed.
    let untold = printed.as_ref().and(alarmed.as_ref()).map_or_else(Failure::exit, |()| Exit::Clean);
    let told = arguments.results.tell(
        (&summaries, &known),
        &|| remedies(arguments, &catalog, &summaries, options.excludes.as_deref()),
        (worst, untold),
        &options,
        output,
    );
    if let Ok(Exit::Nagios(_)) = told {
        let (bad, _, lost) = found_bad(arguments, &catalog, (&summaries, &options), [health::NAMED; 2])?;
        for file in bad.iter().chain(&lost) {
            output.line(&file.line_without_pipes())?;
        }
        damaged_parity.iter().try_for_each(|line| output.line(line))?;
    }
    let told = printed.and(alarmed).and(told).and_then(|exit| output.flush().map(|()| exit));
    if let Err(failure @ Failure::Output(_)) = &told {
        note_untold(&catalog, &summaries, &failure.message());
    }
    told
}

/// Has the next run tell what this one could not, as of files that are gone, which are told of once.
fn note_untold(catalog: &Catalog, summaries: &Summaries, why: &str) {
    for (path, _) in summaries {
        // On a full disk it cannot be noted, nor anything else be written.
        if let Ok(Some(root)) = catalog.root_of(path) {
            let _ = catalog.note_untold(root.id, why);
        }
    }
}

/// What is known of the trees that were to be scrubbed. What a run leaves out it does not tell of.
fn known(catalog: &Catalog, summaries: &Summaries, options: &ScrubOptions) -> Result<KnownTroubles, Failure> {
    let mut known = KnownTroubles::default();
    if options.excludes.is_some() {
        return Ok(known);
    }
    for root in catalog.roots()? {
        if summaries.iter().any(|(path, _)| *path == root.path) {
            let troubles = catalog.recorded_troubles(root.id)?;
            known.0.push((root.path, troubles));
        }
    }
    Ok(known)
}

/// What mends each tree that was scrubbed.
fn remedies(
    arguments: &ScrubArgs,
    catalog: &Catalog,
    summaries: &Summaries,
    excludes: Option<&Excludes>,
) -> Result<Vec<(PathBuf, Option<Remedy>)>, Failure> {
    let commands = arguments.repair_commands();
    let mut remedies = Remedies::new(catalog, &commands).without(excludes);
    let mut found = Vec::new();
    for summary in summaries.iter().filter_map(|(_, summary)| summary.as_ref().ok()) {
        if let Some(root) = catalog.root_of(&summary.root)? {
            found.push((summary.root.clone(), remedies.of(&root)?));
        }
    }
    Ok(found)
}

/// Says what mends each tree, now that all that were scrubbed are known.
fn advise(arguments: &ScrubArgs, catalog: &Catalog, summaries: &Summaries, excludes: Option<&Excludes>) {
    let commands = arguments.repair_commands();
    let mut remedies = Remedies::new(catalog, &commands).without(excludes);
    for summary in summaries.iter().filter_map(|(_, summary)| summary.as_ref().ok()) {
        if let Some(remedy) = trees::remedy(arguments, catalog, summary, &mut remedies) {
            let root = names::quoted(summary.root.as_os_str());
            ui::say(PROGRAM, &format!("{root}: {}", remedy.text()));
        }
    }
}

/// The first bad files of the trees that were scrubbed, how many there are beyond them, and the first files that went
/// missing in this run, unless these are among the bad ones.
fn found_bad(
    arguments: &ScrubArgs,
    catalog: &Catalog,
    (summaries, options): (&Summaries, &ScrubOptions),
    [most, most_missing]: [usize; 2],
) -> Result<(Vec<BadFile>, u64, Vec<BadFile>), Failure> {
    let (commands, missing_fails) = (arguments.repair_commands(), arguments.results.failing().missing);
    let roots = catalog.roots()?;
    let summary = |root: &Root| summaries.iter().find(|(path, _)| *path == root.path).map(|(_, end)| end);
    let mut scrubbed: Vec<&Root> = roots.iter().filter(|root| summary(root).is_some()).collect();
    let wanted = (missing_fails, options.excludes.as_deref());
    let (bad, beyond) = bad_file::of_trees(catalog, &commands, &scrubbed, wanted, most)?;
    // No later run names them, unless that is asked for.
    scrubbed.retain(|root| {
        let lost = summary(root).and_then(|end| Some(end.as_ref().ok()?.count(Verdict::Missing)));
        !missing_fails && lost.is_some_and(|lost| lost > 0)
    });
    let lost = bad_file::of_missing(catalog, &commands, &scrubbed, options.started(), most_missing)?;
    Ok((bad, beyond, lost))
}

/// Tells of the first bad files, and of those that went missing and can be had again, what helps to mend them, when all else is said.
fn tell_bad_files(
    arguments: &ScrubArgs,
    catalog: &Catalog,
    found: (&Summaries, &ScrubOptions),
    style: ScrubStyle,
    output: &mut Output,
) -> Result<(), Failure> {
    let (mut bad_files, mut beyond, mut lost) =
        found_bad(arguments, catalog, found, [bad_file::NAMED, MOST_MISSING])?;
    // Without a copy it is as likely that somebody removed it; its line says enough.
    lost.retain(BadFile::is_mendable);
    let missing_fails = arguments.results.failing().missing;
    let missing = if missing_fails || !lost.is_empty() { " --missing" } else { "" };
    let room = bad_file::NAMED.saturating_sub(bad_files.len());
    beyond += lost.len().saturating_sub(room) as u64;
    bad_files.extend(lost.into_iter().take(room));
    let list = format!("verisum catalog list --bad{missing}{}", arguments.repair_commands().catalog());
    bad_file::tell(&bad_files, beyond, Some(&list), style == ScrubStyle::Json, output)
}

/// Repairs what is bad in the trees. The run ends with what was found all the same: that something
/// was bad is to be known. Missing files may be meant to be gone.
fn mend(
    arguments: &ScrubArgs,
    catalog: &Catalog,
    summaries: &Summaries,
    options: &ScrubOptions,
    output: &mut Output,
) -> Result<(), Failure> {
    let style = arguments.results.style();
    for (path, summary) in summaries {
        // So much changed at once that it may be on purpose.
        let is_alarmed = !summary.as_ref().is_ok_and(|summary| summary.alarm.is_none());
        let Some(root) = catalog.root_of(path)?.filter(|_| !is_alarmed) else { continue };
        let troubles = catalog.recorded_troubles(root.id)?;
        if !troubles.iter().any(|(state, _)| state.is_repairable() && *state != State::MISSING) {
            continue;
        }
        let mut sources = sources(&arguments.from, &arguments.hosts, Some((catalog, path)))?;
        if !root.is_remote() {
            let named = arguments.parity.as_deref().map(absolute).transpose()?;
            sources.extend(parity::sources(
                path,
                named.as_deref(),
                parity_sources::troubled(catalog, path)?,
            )?);
        }
        let options = {
            let mut adapted = repair::RepairOptions::default();
            adapted.keep_bad.clone_from(&arguments.keep_bad);
            adapted.except_missing = true;
            adapted.cross_file_systems = !options.one_file_system;
            adapted.stop = options.stop.clone();
            adapted
        };
        let mut telling = RepairReport::new(["repair", "repairs"], style == ScrubStyle::Json, false, output);
        let sources = (&mut sources[..], &arguments.hosts);
        let done = repair_wherever(catalog, path, sources, &options, &mut telling)?;
        telling.end(&done, false)?;
    }
    Ok(())
}

/// What is scrubbed here: each directory, and the roots below it, which have records of their own.
fn directories(typed: &[OsString], all_recorded: bool, catalog: &Catalog) -> Result<Vec<PathBuf>, Failure> {
    let roots = catalog.roots()?.into_iter().map(|root| root.path);
    // Those of other machines have addresses.
    let roots: Vec<PathBuf> = roots.filter(|path| path.is_absolute()).collect();
    if all_recorded {
        return Ok(roots);
    }
    let mut directories = Vec::new();
    for directory in typed {
        let directory = absolute(Path::new(directory))?;
        let below = roots.iter().filter(|root| **root != directory && root.starts_with(&directory));
        for path in std::iter::once(&directory).chain(below) {
            if !directories.contains(path) {
                directories.push(path.clone());
            }
        }
    }
    Ok(directories)
}

fn options(arguments: &ScrubArgs) -> Result<ScrubOptions, Failure> {
    refuse_urls(arguments.parity.iter().chain(&arguments.keep_bad))?;
    let policy = kernel::policy()?;
    let now = Moment::now();
    let sample = arguments.sample.as_deref().map(|text| values::share("--sample", text)).transpose()?;
    let digest = digests::to_record("--algorithm", &arguments.algorithm, &policy)?;
    let usual = usual(digest, &arguments.results, arguments.reading.excludes()?, (policy, now))?;
    let mut options = usual;
    options.threads = arguments.threads.or_cores()?;
    options.max_age = values::optional_duration("--max-age", &arguments.max_age)?;
    options.budget = values::optional_duration("--for", &arguments.budget)?;
    options.sample = sample.unwrap_or(1.0);
    options.shuffle = arguments.shuffle;
    options.since = arguments
        .since
        .as_deref()
        .map(|text| values::moment("--since", text, now))
        .transpose()?
        .map(Moment::timestamp);
    options.one_file_system = arguments.one_file_system || !arguments.cross_file_systems;
    options.stop_after = (arguments.stop_after > 0).then_some(arguments.stop_after);
    options.limits = arguments.reading.limits()?;
    Ok(options)
}

/// What all scrubs have, with the rest as it is where nobody says otherwise.
pub(crate) fn usual(
    digest: Digest,
    results: &ScrubResultArgs,
    excludes: Option<Arc<Excludes>>,
    (policy, now): (Policy, Moment),
) -> Result<ScrubOptions, Failure> {
    let mut options = ScrubOptions::new(digest);
    options.policy = policy;
    options.alarm = results.alarm()?;
    options.archive = results.archive;
    options.missing_fails = results.failing().missing;
    options.replaced_root = results.replaced_root;
    options.excludes = excludes;
    options.now = Some(now.timestamp());
    Ok(options)
}

/// How a run over one directory ends.
pub(crate) fn exit(summary: &ScrubSummary, failing: Failing) -> Exit {
    if summary.interrupted {
        return Exit::Interrupted;
    }
    summary.class(failing.modified, failing.missing).into()
}
