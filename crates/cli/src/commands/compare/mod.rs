//! `verisum compare`: two or three trees, each on any machine.

mod report;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueHint};
use verisum::catalog::compare::{
    AskedPairs, Judge, ListedContents, RecordedTree, Settled, known_bad, settle_by_records,
};
use verisum::catalog::store::Catalog;
use verisum::digest::Digest;
use verisum::files::compare::{self, CompareError, Tree};
use verisum::files::place::{FileAnswer, LocalPlace, Place, PlaceError, PlaceEvent};
use verisum::files::{Plan, Progress, Timestamp};
use verisum::remote::{Address, Host};

use crate::ui::Output;
use crate::ui::catalog::{CatalogArgs, absolute};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HOSTS, HostArgs, ObjectReading, PlaceReport, refuse};
use crate::ui::progress::{self, Total};
use crate::ui::reading::ReadingArgs;
use crate::ui::{list_records, names, sizes};
use report::{CompareCounts, CompareReport, SideFacts};

/// The digest, unless somebody says otherwise.
const DIGEST: &str = "sha256";

/// What `verisum compare` takes.
#[derive(Args, Debug)]
#[command(mut_arg("threads", |threads| threads.help(sizes::ThreadArgs::WITH_BUCKETS)))]
pub(crate) struct PlaceCompareArgs {
    /// The digest, also for lists that do not name theirs; without it sha256
    #[arg(short, long, value_name = "DIGEST")]
    algorithm: Option<String>,

    /// Do not read files of the same size and time, or files whose digests the catalogue has
    #[arg(long, conflicts_with = "c")]
    quick: bool,

    /// Read every file, and do not trust the digests that a store recorded
    #[arg(long, conflicts_with = "quick")]
    read: bool,

    #[command(flatten)]
    catalog: CatalogArgs,

    /// If two files differ, say which of them matches this list of checksums; may be given several times
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    sums: Vec<PathBuf>,

    /// Print only problems
    #[arg(short, long)]
    quiet: bool,

    /// Print a line of JSON for each difference, and one with the totals; with --verbose a line for each file
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    threads: sizes::ThreadArgs,

    #[command(flatten)]
    reading: ReadingArgs,

    /// A tree: a directory, HOST:DIR, ssh://HOST/DIR or s3://BUCKET/PREFIX
    #[arg(value_name = "A", value_hint = ValueHint::DirPath)]
    a: OsString,

    /// Another tree
    #[arg(value_name = "B", value_hint = ValueHint::DirPath)]
    b: OsString,

    /// A third tree, to see which of three files differs from the other two
    #[arg(value_name = "C", value_hint = ValueHint::DirPath)]
    c: Option<OsString>,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,
}

/// One of the trees.
struct TreeSide {
    address: Address,
    tree: Tree<'static>,
}

/// Opens the trees as they were typed.
fn sides<const N: usize>(
    arguments: &PlaceCompareArgs,
    typed: [&OsString; N],
) -> Result<[TreeSide; N], Failure> {
    let remote = typed.iter().filter(|text| hosts::is_remote(text)).count();
    let (limits, excludes) = (arguments.reading.limits()?, arguments.reading.excludes()?);
    let at_once = arguments.threads.number()?;
    let mut here = LocalPlace::new(Plan::new(Vec::new(), arguments.threads.or_cores()?));
    (here.plan.limits, here.walk.excludes) = (limits.clone(), excludes.clone());
    let reached = arguments.hosts.hosts_with_report(remote, ObjectReading { limits, at_once })?;
    all(typed.map(|text| {
        let (address, place) = hosts::tree(text, &reached)?;
        let place = match address.host {
            Host::Local if place.is_here() => Box::new(here.clone()) as Box<dyn Place>,
            Host::Bucket(_) => place,
            _ => {
                refuse(&[("--limit", arguments.reading.is_limiting()), ("--threads", at_once.is_some())])?;
                place
            }
        };
        let tree = Tree { excludes: excludes.clone(), ..Tree::new(place, &address.path) };
        Ok(TreeSide { address, tree })
    }))
}

/// Does what `verisum compare` was asked for.
pub(crate) fn run(arguments: PlaceCompareArgs, output: &mut Output) -> Result<Exit, Failure> {
    match &arguments.c {
        None => compared(&arguments, [&arguments.a, &arguments.b], output),
        Some(c) => compared(&arguments, [&arguments.a, &arguments.b, c], output),
    }
}

fn compared<const N: usize>(
    arguments: &PlaceCompareArgs,
    typed: [&OsString; N],
    output: &mut Output,
) -> Result<Exit, Failure> {
    let digest = hosts::digest(arguments.algorithm.as_deref().unwrap_or(DIGEST))?;
    let mut sides = sides(arguments, typed)?;
    let report = PlaceReport::new(output).quiet(arguments.quiet);
    let addresses = sides.each_ref().map(|side| side.address.clone());
    let is_lost = AtomicBool::new(false);
    let sink = |side: usize, event: PlaceEvent| {
        if let PlaceEvent::Answer(FileAnswer { request, result: Err(_) }) = &event {
            is_lost.fetch_or(request.path == addresses[side].path, Ordering::Relaxed);
        }
        tell(&report, &addresses[side], event)
    };
    let failed = |error: CompareError| {
        for (address, error) in addresses.iter().zip(error.0) {
            if let Some(error) = error {
                report.failed(&address.host, error.to_string());
            }
        }
    };
    let say_costs = || arguments.hosts.say_costs(&report, arguments.json, arguments.quiet);
    let lists = lists(&arguments.sums, arguments.algorithm.as_deref(), &sides, &report)?;
    let trees = sides.each_mut().map(|side| &mut side.tree);
    let list = || compare::list(trees, &digest, &std::env::temp_dir(), &sink);
    let mut listed = match progress::of_steps(arguments.reading.progress(), "listing", &[], list) {
        Ok(listed) => listed,
        Err(error) => {
            failed(error);
            say_costs();
            return report.end();
        }
    };
    let catalog = catalog_of(&arguments.catalog, &report)?;
    let mut judge = Judge {
        records: records_of(catalog.as_ref(), &addresses)?,
        is_local: addresses.each_ref().map(|address| address.host == Host::Local),
        lists,
        own_name: addresses[0].below(&addresses[0].path).to_vec(),
        digest: digest.clone(),
        reads: !arguments.quick,
    };
    let mut failed_one =
        |side: usize, error| report.failed(&addresses[side].host, PlaceError::to_string(&error));
    let told = CompareReport { arguments, digest: &digest, addresses: &addresses, report: &report };
    let (mut counts, mut settled, progress) =
        (CompareCounts::default(), Settled::default(), Progress::default());
    let mut asks_store = !arguments.read;
    let compare = || -> Result<bool, Failure> {
        loop {
            let mut pairs = match listed.group() {
                Ok(Some(pairs)) => pairs,
                Ok(None) => return Ok(true),
                Err(error) => {
                    failed(error);
                    return Ok(false);
                }
            };
            let mut trees = sides.each_mut().map(|side| &mut side.tree);
            let mut settled_now = Settled::listed(&pairs);
            if arguments.quick {
                settle_by_records(&mut judge.records, &mut pairs, &digest, &mut settled_now)?;
            }
            if asks_store {
                let bad = known_bad(&mut judge.records, &pairs)?;
                let trees = trees.each_mut().map(|tree| &mut **tree);
                match compare::settle_recorded(trees, &mut pairs, &bad, &sink) {
                    Ok(count) => settled_now.store = count,
                    Err(error) => {
                        failed(error);
                        asks_store = false;
                    }
                }
            }
            let asked = AskedPairs::of(&pairs);
            let both = trees.each_mut().map(|tree| &mut **tree);
            let read = listed.read(both, &digest, &mut pairs, &sink, &progress);
            let is_read = read.map_err(failed).is_ok();
            settled_now.by_reading(&asked, &pairs);
            settled += settled_now;
            let judged = judge.judge(&pairs, trees, &sink, &mut failed_one)?;
            judge.reads &= is_read;
            if !told.files(&pairs, &judged, is_lost.load(Ordering::Relaxed), &mut counts) {
                return Ok(false);
            }
        }
    };
    if !progress::of_files(arguments.reading.progress(), Total::Unknown, &progress, compare)? {
        say_costs();
        return report.end();
    }
    let facts = facts(sides.each_mut().map(|side| &mut side.tree), &digest);
    told.end(counts, settled, facts);
    drop(sides);
    report.end()
}

/// Tells what a tree says beside its files.
fn tell(report: &PlaceReport, address: &Address, event: PlaceEvent) -> bool {
    match event {
        PlaceEvent::Answer(FileAnswer { request, result: Err(error) }) => {
            report.worse(Exit::Unchecked);
            let name = names::quoted(OsStr::from_bytes(address.shown(&request.path)));
            report.note(&address.host, &format!("{name}: {}", error.reason().message()))
        }
        PlaceEvent::Answer(FileAnswer { request, result: Ok(read) }) => {
            report.contradicted(&address.host, address.shown(&request.path), &read)
        }
        event => report.event(&address.host, event),
    }
}

/// The catalogue. One that nobody named is not needed.
fn catalog_of(named: &CatalogArgs, report: &PlaceReport) -> Result<Option<Catalog>, Failure> {
    match named.open_if_there() {
        Err(failure) if named.catalog.is_none() => {
            report.say(&failure.message());
            Ok(None)
        }
        other => other,
    }
}

/// What is known of the trees in the end.
fn facts<const N: usize>(mut trees: [&mut Tree; N], digest: &Digest) -> SideFacts<N> {
    let able =
        trees.each_mut().map(|tree| tree.place.capabilities(std::slice::from_ref(digest), &|_| true).ok());
    let date = |at: Option<Timestamp>| at.map(|at| at.to_rfc3339());
    SideFacts {
        ways: able.each_ref().map(|able| able.as_ref().map_or("", |able| able.way)),
        reported_at: able.each_ref().map(|able| date(able.as_ref().and_then(|able| able.reported_at))),
        listed_at: able.map(|able| date(able.and_then(|able| able.listed_at))),
    }
}

/// What the catalogue knows of the trees.
fn records_of<'c, const N: usize>(
    catalog: Option<&'c Catalog>,
    addresses: &[Address; N],
) -> Result<[Option<RecordedTree<'c>>; N], Failure> {
    let Some(catalog) = catalog else { return Ok([const { None }; N]) };
    all(addresses.each_ref().map(|address| {
        let path = address.address();
        let path = Path::new(OsStr::from_bytes(&path));
        Ok(RecordedTree::of(catalog, path, address.host == Host::Local)?)
    }))
}

/// Reads lists of checksums.
fn lists<const N: usize>(
    named: &[PathBuf],
    algorithm: Option<&str>,
    sides: &[TreeSide; N],
    report: &PlaceReport,
) -> Result<ListedContents, Failure> {
    let here = sides.iter().filter(|side| side.address.host == Host::Local);
    let paths = here.map(|side| absolute(Path::new(OsStr::from_bytes(&side.address.path))));
    let trees = paths.collect::<Result<Vec<_>, _>>()?;
    let mut lists = ListedContents::default();
    for list in named {
        let (records, _, exit) = list_records::records_in(list, algorithm, &trees)?;
        list_records::say_unproven(list, records.named.as_ref());
        // Whether trees differ no list says.
        report.worse(exit.min(Exit::Unchecked));
        for record in records.contents {
            let name = record.below.into_os_string().into_vec();
            lists.add(name, record.digest.name(), record.value);
        }
    }
    Ok(lists)
}

/// All of them, or the first failure.
fn all<T, const N: usize>(of: [Result<T, Failure>; N]) -> Result<[T; N], Failure> {
    let all: Vec<T> = of.into_iter().collect::<Result<_, _>>()?;
    Ok(all.try_into().unwrap_or_else(|_| unreachable!("as many as there were")))
}
