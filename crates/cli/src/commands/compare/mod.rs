//! `verisum compare`: two or three trees, each on any machine.

mod judge;
mod records;
mod tell;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum::digest::Digest;
use verisum::files::compare::{self, CompareError, Evidence, FileStatus, Pair, Tree};
use verisum::files::place::{FileAnswer, PlaceEvent};
use verisum::remote::Address;

use self::judge::Judge;
use self::records::{Recorded, Records};
use crate::ui::Output;
use crate::ui::catalog::CatalogArgs;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HOSTS, HostArgs, Report};
use crate::ui::names;

/// The digest, unless somebody says otherwise.
const DIGEST: &str = "sha256";

/// What `verisum compare` takes.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// The digest, also that of lists that do not tell; without it sha256
    #[arg(short, long, value_name = "DIGEST")]
    algorithm: Option<String>,

    /// Do not read files of the same size and time, or files whose digests the catalogue has
    #[arg(long, conflicts_with = "c")]
    quick: bool,

    /// Read every file: do not take the digest that a store recorded for what is in the bucket
    #[arg(long, conflicts_with = "quick")]
    read: bool,

    #[command(flatten)]
    catalog: CatalogArgs,

    /// Say of files that differ which is as this list of checksums says; may be given several times
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    sums: Vec<PathBuf>,

    /// Print only problems
    #[arg(short, long)]
    quiet: bool,

    /// Print a line of JSON for each difference, and one with the totals
    #[arg(long)]
    json: bool,

    /// A tree: a directory, HOST:DIR, ssh://HOST/DIR or s3://BUCKET/PREFIX
    #[arg(value_name = "A", value_hint = ValueHint::DirPath)]
    a: OsString,

    /// Another tree
    #[arg(value_name = "B", value_hint = ValueHint::DirPath)]
    b: OsString,

    /// A third tree, to see which of three is the odd one out
    #[arg(value_name = "C", value_hint = ValueHint::DirPath)]
    c: Option<OsString>,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,
}

/// One of the trees.
struct Side {
    address: Address,
    tree: Tree<'static>,
}

/// Does what `verisum compare` was asked for.
pub(crate) fn run(arguments: CompareArgs, output: &mut Output) -> Result<Exit, Failure> {
    match &arguments.c {
        None => compared(&arguments, [&arguments.a, &arguments.b], output),
        Some(c) => compared(&arguments, [&arguments.a, &arguments.b, c], output),
    }
}

fn compared<const N: usize>(
    arguments: &CompareArgs,
    typed: [&OsString; N],
    output: &mut Output,
) -> Result<Exit, Failure> {
    let digest = hosts::digest(arguments.algorithm.as_deref().unwrap_or(DIGEST))?;
    let remote = typed.iter().filter(|text| hosts::is_remote(text)).count();
    let reached = arguments.hosts.hosts(remote)?;
    let side = |text| {
        let (address, place) = hosts::tree(text, &reached)?;
        let tree = Tree::new(place, &address.path);
        Ok(Side { address, tree })
    };
    let mut sides = all(typed.map(side))?;
    let report = Report::new(output).quiet(arguments.quiet);
    let addresses = sides.each_ref().map(|side| side.address.clone());
    let sink = |side: usize, event: PlaceEvent| {
        let address = &addresses[side];
        match event {
            PlaceEvent::Answer(FileAnswer { request, result: Err(error) }) => {
                report.worse(Exit::Unchecked);
                let name = names::quoted(OsStr::from_bytes(address.shown(&request.path)));
                report.note(&address.host, &format!("{name}: {}", error.reason().message()))
            }
            event => report.event(&address.host, event),
        }
    };
    let failed = |error: CompareError| {
        for (address, error) in addresses.iter().zip(error.0) {
            if let Some(error) = error {
                report.failed(&address.host, error.to_string());
            }
        }
    };
    let lists = judge::lists(&arguments.sums, arguments.algorithm.as_deref(), &sides, &report)?;
    let mut pairs = match compare::list(sides.each_mut().map(|side| &mut side.tree), &digest, &sink) {
        Ok(pairs) => pairs,
        Err(error) => {
            failed(error);
            return report.end();
        }
    };
    let count = |status| pairs.iter().filter(|pair| pair.status == status).count() as u64;
    let (sizes, read) = (count(FileStatus::Differs), count(FileStatus::Asked));
    let mut settled = Settled { sizes, read, ..Settled::default() };
    let catalog = match arguments.catalog.open_if_there() {
        Err(failure) if arguments.catalog.catalog.is_none() => {
            report.say(&failure.message());
            None
        }
        other => other?,
    };
    let records = |address: &Address| match &catalog {
        Some(catalog) => Records::of(catalog, address),
        None => Ok(None),
    };
    let mut records = all(addresses.each_ref().map(records))?;
    if arguments.quick {
        quickly(&mut records, &mut pairs, &digest, &mut settled)?;
    }
    if !arguments.read {
        let trees = sides.each_mut().map(|side| &mut side.tree);
        match compare::settle_recorded(trees, &mut pairs, &sink) {
            Ok(count) => {
                settled.store = count;
                settled.read -= count;
            }
            Err(error) => failed(error),
        }
    }
    let trees = sides.each_mut().map(|side| &mut side.tree);
    if let Err(error) = compare::read(trees, &digest, &mut pairs, &sink) {
        failed(error);
    }
    let mut judge = Judge { records, lists, digest: digest.clone(), reads: !arguments.quick };
    let judged = judge.judge(&pairs, &mut sides, &report)?;
    let ways = sides.each_mut().map(|side| {
        let capabilities = side.tree.place.capabilities(std::slice::from_ref(&digest), &|_| true);
        capabilities.map_or("", |capabilities| capabilities.way)
    });
    tell::Telling { arguments, digest: &digest, addresses: &addresses, ways, report: &report }
        .tell(&pairs, &judged, settled)?;
    drop(sides);
    report.end()
}

/// All of them, or the first failure.
fn all<T, const N: usize>(of: [Result<T, Failure>; N]) -> Result<[T; N], Failure> {
    let all: Vec<T> = of.into_iter().collect::<Result<_, _>>()?;
    Ok(all.try_into().unwrap_or_else(|_| unreachable!("as many as there were")))
}

/// Settles pairs by the catalogue's records, and by times if those of one side are missing. Of files whose
/// other side has to be read, the record stands for reading.
fn quickly<const N: usize>(
    records: &mut [Option<Records>; N],
    pairs: &mut [Pair<N>],
    digest: &Digest,
    settled: &mut Settled,
) -> Result<(), Failure> {
    for pair in pairs.iter_mut().filter(|pair| pair.status == FileStatus::Asked) {
        let [Some(a), Some(b)] = &mut pair.files[..] else { continue };
        let mut found = [Recorded::Nothing; 2];
        for (found, (records, file)) in found.iter_mut().zip(records.iter_mut().zip([&a, &b])) {
            if let Some(records) = records {
                *found = records.recorded(&pair.name, &file.seen, digest)?;
            }
        }
        let doubted = found.iter().any(|recorded| matches!(recorded, Recorded::Doubt));
        let found = found.map(|recorded| match recorded {
            Recorded::Digest(digest) => Some(digest),
            _ => None,
        });
        let count = match (found, a.seen.modified, b.seen.modified) {
            ([Some(one), Some(other)], _, _) => {
                pair.status = if one == other { FileStatus::Same } else { FileStatus::Differs };
                pair.evidence = Evidence::Read;
                &mut settled.records
            }
            (_, Some(one), Some(other)) if !doubted && a.seen.size.is_some() && one.is_same(&other) => {
                pair.status = FileStatus::Same;
                &mut settled.times
            }
            ([None, None], _, _) => continue,
            (found, _, _) => {
                for (file, found) in [a, b].into_iter().zip(found) {
                    file.read = found.map(Ok);
                }
                &mut settled.one_read
            }
        };
        *count += 1;
        settled.read -= 1;
    }
    Ok(())
}

/// How it was settled whether files that both sides have are the same.
#[derive(Default, Serialize)]
struct Settled {
    /// Their sizes differ.
    sizes: u64,
    /// The catalogue has both digests.
    records: u64,
    /// Their sizes and times are the same.
    times: u64,
    /// The catalogue has the digest of one.
    one_read: u64,
    /// A store recorded the digest of one.
    store: u64,
    /// Both were read.
    read: u64,
}
