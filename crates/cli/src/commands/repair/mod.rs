//! `verisum repair`: restores the recorded content of bad and missing files from other copies.

mod trust;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use verisum::catalog::store::is_address;
use verisum::files::Stop;
use verisum::files::place::LocalPlace;
use verisum::mend::repair::{self, ExpectedContent, RepairOptions, Repaired, Source};
use verisum::parity_sources;

use crate::ui::Output;
use crate::ui::catalog::{CatalogArgs, OwnWay, absolute, address, own_way};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HOSTS, HostArgs};
use crate::ui::progress::ProgressArgs;
use crate::ui::repair_commands::RepairCommands;
use crate::ui::repair_recorder::RepairRecorder;
use crate::ui::repair_report::RepairReport;
use crate::ui::repair_run::{finish_in_place, repair_wherever};
use crate::ui::repair_sources::{look_up, sources};
use crate::ui::signals::Ending;
use crate::ui::{list_records, parity};

/// What `verisum repair` takes.
#[derive(Args, Debug)]
#[command(mut_arg("checksum_report", |report| report.hide(true)))]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    /// Repair the files below PATH that differ from this list of checksums; may be given several times
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    sums: Vec<PathBuf>,

    /// The digest, if the list does not name it; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST", requires = "sums")]
    algorithm: Option<String>,

    /// Repair the files below PATH that differ from their tags
    #[arg(long, conflicts_with = "sums")]
    tags: bool,

    /// Without records: make PATH like PLACE, whose content you trust
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["sums", "tags"], value_hint = ValueHint::AnyPath)]
    trust: Option<OsString>,

    /// A copy of PATH: a directory or file, HOST:PATH, ssh://HOST/PATH or s3://BUCKET/PREFIX. Can be given several times
    #[arg(long, value_name = "PLACE", value_hint = ValueHint::AnyPath)]
    from: Vec<OsString>,

    /// A catalogue with records of the copies, made here or on their host: with it, a copy is found under any
    /// name. Without this option: the catalogue of --catalog, and the default one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    from_catalog: Option<PathBuf>,

    /// The parity of PATH that `verisum parity create --to DIR` made, if it is not beside the files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    parity: Option<PathBuf>,

    /// Show what could be repaired and from where, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Move bad files to this directory instead of removing them; to another file system they are copied
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    keep_bad: Option<PathBuf>,

    /// Write only the bad blocks, into the file itself, if it has at least 1 MiB. This needs digests of its blocks,
    /// from parity or a block map, and is for files that are too large to copy. Not with --sums, --tags or --trust
    #[arg(long, conflicts_with_all = ["sums", "tags", "trust"])]
    in_place: bool,

    /// Leave missing files missing
    #[arg(long)]
    except_missing: bool,

    /// Also repair files on file systems that are mounted below a tree
    #[arg(long)]
    cross_file_systems: bool,

    /// Print only what could not be repaired
    #[arg(short, long)]
    quiet: bool,

    /// Print a line of JSON for each file, and one with the totals
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pub(crate) progress: ProgressArgs,

    /// A directory or file that is in the catalogue, here or at HOST:PATH; with --sums, --tags or --trust any directory of this
    /// machine
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    path: PathBuf,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,
}

/// Repairs files.
pub(crate) fn run(arguments: &RepairArgs, output: &mut Output) -> Result<Exit, Failure> {
    let is_remote = hosts::is_remote(&arguments.path.clone().into_os_string());
    if is_remote {
        hosts::refuse_because(
            "not for a PATH on another machine",
            &[
                ("--sums", !arguments.sums.is_empty()),
                ("--tags", arguments.tags),
                ("--trust", arguments.trust.is_some()),
                ("--parity", arguments.parity.is_some()),
                ("--in-place", arguments.in_place),
                ("--cross-file-systems", arguments.cross_file_systems),
            ],
        )?;
    }
    hosts::refuse_urls(arguments.parity.iter().chain(&arguments.keep_bad))?;
    let way = (!is_remote).then(|| own_way(&arguments.path)).transpose()?;
    let ending = Ending::new()?;
    let mut options = RepairOptions::default();
    options.dry = arguments.dry_run;
    options.keep_bad.clone_from(&arguments.keep_bad);
    options.except_missing = arguments.except_missing;
    options.cross_file_systems = arguments.cross_file_systems;
    options.in_place = arguments.in_place;
    options.stop = Arc::new(Stop::when(ending.asked().clone()));
    let telling = RepairReport::new(["file", "summary"], arguments.json, arguments.quiet, output);
    let has_records = arguments.tags || arguments.trust.is_some() || !arguments.sums.is_empty();
    let worst = match way {
        Some(way) if has_records => by_records(arguments, &way, &options, telling)?,
        way => by_catalog(arguments, way, &options, telling)?,
    };
    output.flush()?;
    ending.obey();
    Ok(worst)
}

fn by_catalog(
    arguments: &RepairArgs,
    way: Option<OwnWay>,
    options: &RepairOptions,
    mut telling: RepairReport,
) -> Result<Exit, Failure> {
    let (_lock, catalog) = arguments.catalog.open_existing()?;
    let path = match way {
        Some(way) if catalog.root_of(&way.named)?.is_some() => way.named,
        Some(way) => way.leads,
        None => address(&catalog, &arguments.path, true)?.unwrap_or_else(|| arguments.path.clone()),
    };
    if !options.dry {
        let commands = RepairCommands::new(arguments.catalog.catalog.as_deref());
        finish_in_place(&catalog, &commands, &options.stop)?;
    }
    let mut sources = sources(&arguments.from, &arguments.hosts, Some((&catalog, &path)))?;
    let others = arguments.catalog.paths_there().into_iter().filter(|other| other != catalog.path());
    look_up(&mut sources, arguments.from_catalog.as_deref(), &others.collect::<Vec<_>>())?;
    if !is_address(&path) {
        let named = parity_of(arguments)?;
        sources.extend(parity::sources(&path, named.as_deref(), parity_sources::troubled(&catalog, &path)?)?);
    }
    let sources = (&mut sources[..], &arguments.hosts);
    let summary = repair_wherever(&catalog, &path, sources, options, &mut telling)?;
    telling.end(&summary, arguments.dry_run)
}

/// The directory of the parity that was named.
fn parity_of(arguments: &RepairArgs) -> Result<Option<PathBuf>, Failure> {
    arguments.parity.as_deref().map(absolute).transpose()
}

/// By lists or tags. Tags know of no copies, lists of those that they name.
fn by_records(
    arguments: &RepairArgs,
    way: &OwnWay,
    options: &RepairOptions,
    mut telling: RepairReport,
) -> Result<Exit, Failure> {
    let tree = way.leads.as_path();
    // The names in a list may go by a link.
    let trees = [tree.to_path_buf(), way.named.clone()];
    let mut records = Vec::new();
    let (mut useless, mut lists, mut of_lists) = (0, Vec::new(), Exit::Clean);
    for list in &arguments.sums {
        let (of_list, bad, exit) = list_records::records_in(list, arguments.algorithm.as_deref(), &trees)?;
        records.extend(of_list.contents);
        lists.push((list, of_list.named));
        useless += bad;
        of_lists = of_lists.max(exit);
    }
    let named = parity_of(arguments)?;
    let parity = match arguments.tags {
        true => parity::sources(tree, named.as_deref(), parity_sources::tops_below(tree))?,
        false => {
            let files = records.iter().map(|record: &ExpectedContent| tree.join(&record.below));
            parity::sources(tree, named.as_deref(), parity_sources::tops_above(tree, files))?
        }
    };
    let has_copies = records.iter().any(|record| record.copies.is_some());
    let has_empty = records.iter().any(|record| repair::is_of_nothing(&record.digest, &record.value));
    let may_repair = has_copies || has_empty;
    if arguments.from.is_empty() && arguments.trust.is_none() && parity.is_empty() && !may_repair {
        return Err(Failure::Usage(
            "--sums and --tags need a copy or parity: --from PLACE, --parity DIR".to_string(),
        ));
    }
    let mut records: Box<dyn Iterator<Item = ExpectedContent>> = match arguments.tags {
        true => Box::new(repair::tagged(tree)),
        false => Box::new(records.into_iter()),
    };
    let from: Vec<OsString> = arguments.trust.iter().chain(&arguments.from).cloned().collect();
    // In a dry run too: a catalogue that cannot be used ends both.
    let mut recorder = RepairRecorder::new(&arguments.catalog, tree, &options.stop)?;
    let mut sources = sources(&from, &arguments.hosts, None)?;
    look_up(&mut sources, arguments.from_catalog.as_deref(), &arguments.catalog.paths_there())?;
    if has_copies {
        let own = Source::new(tree, Box::new(LocalPlace::default()));
        sources.push(Source { is_counterpart: false, ..own });
    }
    sources.extend(parity);
    let report = &mut |file: &Repaired| {
        recorder.file(file);
        telling.file(file);
    };
    let mut work = |records: &mut dyn Iterator<Item = ExpectedContent>| {
        Ok(repair::repair_recorded(tree, records, &mut sources, options, report)?)
    };
    let summary = match &arguments.trust {
        Some(place) => {
            let (summary, unread) = trust::with_records(place, &arguments.hosts, work)?;
            useless += unread;
            summary
        }
        None => work(&mut *records)?,
    };
    telling.not_compared(useless);
    // What is as recorded proves what the numbers are.
    if summary.repaired + summary.mendable + summary.sound == 0 {
        lists.iter().for_each(|(list, named)| list_records::say_unproven(list, named.as_ref()));
    }
    let worst = telling.end(&summary, arguments.dry_run)?;
    recorder.end()?;
    Ok(worst.max(of_lists))
}
