//! `verisum compare`: two trees, on any two machines.

mod records;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum::digest::Digest;
use verisum::files::compare::{self, CompareError, ComparedFile, FileStatus, Pair, Tree};
use verisum::files::place::{FileAnswer, PlaceEvent};
use verisum::remote::Address;

use self::records::{Recorded, Records};
use crate::ui::Output;
use crate::ui::catalog::CatalogArgs;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HOSTS, HostArgs, Report, tally};
use crate::ui::names::{self, Name};

/// What `verisum compare` takes.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// The digest; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    /// Do not read files of the same size and time, or files whose digests the catalogue has
    #[arg(long)]
    quick: bool,

    /// Read every file: do not take the digest that a store recorded for what is in the bucket
    #[arg(long, conflicts_with = "quick")]
    read: bool,

    #[command(flatten)]
    catalog: CatalogArgs,

    /// Print only problems
    #[arg(short, long)]
    quiet: bool,

    /// Print a line of JSON for each difference, and one with the totals
    #[arg(long)]
    json: bool,

    /// A tree: a directory, HOST:DIR, ssh://HOST/DIR or s3://BUCKET/PREFIX
    #[arg(value_name = "A", value_hint = ValueHint::DirPath)]
    a: OsString,

    /// The other tree
    #[arg(value_name = "B", value_hint = ValueHint::DirPath)]
    b: OsString,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,
}

/// One of the two trees.
struct Side {
    address: Address,
    tree: Tree<'static>,
}

/// Does what `verisum compare` was asked for.
pub(crate) fn run(arguments: CompareArgs, output: &mut Output) -> Result<Exit, Failure> {
    let digest = hosts::digest(&arguments.algorithm)?;
    let typed = [&arguments.a, &arguments.b];
    let remote = typed.iter().filter(|text| hosts::is_remote(text)).count();
    let reached = arguments.hosts.hosts(remote)?;
    let side = |text| {
        let (address, place) = hosts::tree(text, &reached)?;
        let tree = Tree::new(place, &address.path);
        Ok::<_, Failure>(Side { address, tree })
    };
    let [mut a, mut b] = [side(typed[0])?, side(typed[1])?];
    let report = Report::new(output).quiet(arguments.quiet);
    let addresses = [a.address.clone(), b.address.clone()];
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
        for (address, error) in addresses.iter().zip(*error.0) {
            if let Some(error) = error {
                report.failed(&address.host, error.to_string());
            }
        }
    };
    let mut pairs = match compare::list([&mut a.tree, &mut b.tree], &digest, &sink) {
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
        Some(catalog) => Records::of(catalog, address, &digest),
        None => Ok(None),
    };
    let mut records = [records(&addresses[0])?, records(&addresses[1])?];
    if arguments.quick {
        quickly(&mut records, &mut pairs, &mut settled)?;
    }
    if !arguments.read {
        match compare::settle_recorded([&mut a.tree, &mut b.tree], &mut pairs, &sink) {
            Ok(count) => {
                settled.store = count;
                settled.read -= count;
            }
            Err(error) => failed(error),
        }
    }
    if let Err(error) = compare::read([&mut a.tree, &mut b.tree], &digest, &mut pairs, &sink) {
        failed(error);
    }
    let ways = [&mut a, &mut b].map(|side| {
        let capabilities = side.tree.place.capabilities(std::slice::from_ref(&digest), &|_| true);
        capabilities.map_or("", |capabilities| capabilities.way)
    });
    tell(&arguments, &digest, (&addresses, ways), &pairs, (settled, &mut records), &report)?;
    drop((a, b));
    report.end()
}

/// Settles pairs by the catalogue's records, and by times if those of one side are missing. Of files whose
/// other side has to be read, the record stands for reading.
fn quickly(
    records: &mut [Option<Records>; 2],
    pairs: &mut [Pair],
    settled: &mut Settled,
) -> Result<(), Failure> {
    for pair in pairs.iter_mut().filter(|pair| pair.status == FileStatus::Asked) {
        let [Some(a), Some(b)] = &mut pair.files else { continue };
        let mut found = [Recorded::Nothing; 2];
        for (found, (records, file)) in found.iter_mut().zip(records.iter_mut().zip([&a, &b])) {
            if let Some(records) = records {
                *found = records.recorded(&pair.name, &file.seen)?;
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

/// Says how they differ, by name, and how many are the same.
fn tell(
    arguments: &CompareArgs,
    digest: &Digest,
    (addresses, ways): (&[Address; 2], [&str; 2]),
    pairs: &[Pair],
    (settled, records): (Settled, &mut [Option<Records>; 2]),
    report: &Report,
) -> Result<(), Failure> {
    let mut counts = Counts::default();
    for pair in pairs {
        let count = match pair.status {
            FileStatus::Same => {
                counts.same += 1;
                continue;
            }
            FileStatus::Differs => &mut counts.differ,
            FileStatus::Missing => &mut counts.missing,
            FileStatus::Extra => &mut counts.extra,
            FileStatus::Unreadable => &mut counts.unreadable,
            FileStatus::Unknown | FileStatus::Asked => &mut counts.unknown,
        };
        *count += 1;
        report.worse(match pair.status {
            FileStatus::Differs | FileStatus::Missing | FileStatus::Extra => Exit::Mismatch,
            _ => Exit::Unchecked,
        });
        let name: &[u8] =
            if pair.name.is_empty() { addresses[0].shown(&addresses[0].path) } else { &pair.name };
        let right = match pair.status {
            FileStatus::Differs => right(pair, records)?,
            _ => None,
        };
        let goes_on = if arguments.json {
            let [a, b] = pair.files.each_ref().map(|file| file.as_ref().map(State::of));
            let (name, outcome) = (Name::of_bytes(name), pair.status.name());
            let as_recorded = right.map(Right::name);
            report.json(&Record { name, outcome, algorithm: digest.name(), as_recorded, a, b })
        } else {
            let mut line = Vec::new();
            names::result_name(&mut line, OsStr::from_bytes(name));
            let right = right.map_or("", Right::text);
            line.extend_from_slice(format!(": {}{right}\n", pair.status.name().to_uppercase()).as_bytes());
            for (address, file) in addresses.iter().zip(&pair.files) {
                if let Some(Err(reason)) = file.as_ref().and_then(|file| file.read.as_ref()) {
                    let name = names::quoted(OsStr::from_bytes(name));
                    report.note(&address.host, &format!("{name}: {}", reason.message()));
                }
            }
            report.result(&line)
        };
        if !goes_on {
            return Ok(());
        }
    }
    if arguments.json {
        #[derive(Serialize)]
        struct Summary<'a> {
            summary: Counts,
            settled: Settled,
            a: Compared<'a>,
            b: Compared<'a>,
        }
        let [a, b] = [0, 1].map(|side| Compared::of(&addresses[side], ways[side]));
        report.json(&Summary { summary: counts, settled, a, b });
        return Ok(());
    }
    let others = [
        (counts.differ, "differ"),
        (counts.missing, "missing"),
        (counts.extra, "extra"),
        (counts.unreadable, "unreadable"),
        (counts.unknown, "unknown"),
    ];
    if arguments.quiet && others.iter().all(|(count, _)| *count == 0) {
        return Ok(());
    }
    report.say(&tally(counts.same, "the same", &others));
    if arguments.quick || settled.store > 0 {
        let others = [
            (settled.store, "by digests that the store recorded"),
            (settled.records, "by records"),
            (settled.times, "by sizes and times"),
            (settled.one_read, "by a record and reading the other side"),
            (settled.read, "by reading"),
        ];
        report.say(&format!("settled: {}", tally(settled.sizes, "by sizes", &others)));
    }
    Ok(())
}

/// Which of two files that differ is as the catalogue has either of them.
#[derive(Clone, Copy)]
enum Right {
    A,
    B,
    Both,
    Neither,
    /// The other was not read.
    NotA,
    /// The other was not read.
    NotB,
}

impl Right {
    fn name(self) -> &'static str {
        match self {
            Right::A => "a",
            Right::B => "b",
            Right::Both => "both",
            Right::Neither => "neither",
            Right::NotA => "not-a",
            Right::NotB => "not-b",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Right::A => " (A is as recorded)",
            Right::B => " (B is as recorded)",
            Right::Both => " (both are as recorded)",
            Right::Neither => " (neither is as recorded)",
            Right::NotA => " (A is not as recorded)",
            Right::NotB => " (B is not as recorded)",
        }
    }
}

/// Says that of two files; nothing where neither is recorded with this digest, or what was seen does not tell.
fn right(pair: &Pair, records: &mut [Option<Records>; 2]) -> Result<Option<Right>, Failure> {
    let [Some(a), Some(b)] = &pair.files else { return Ok(None) };
    let mut contents = Vec::new();
    for records in records.iter_mut().flatten() {
        contents.extend(records.expected(&pair.name)?);
    }
    let is_right = |file: &ComparedFile| match &file.read {
        Some(Ok(digest)) => Some(contents.iter().any(|(_, recorded)| recorded == digest)),
        // Files of different sizes are not read.
        _ => {
            contents.iter().all(|(size, _)| file.seen.size.is_some_and(|seen| seen != *size)).then_some(false)
        }
    };
    Ok(match (contents.is_empty(), is_right(a), is_right(b)) {
        (true, ..) | (_, None, None) => None,
        (_, Some(true), Some(true)) => Some(Right::Both),
        (_, Some(true), _) => Some(Right::A),
        (_, _, Some(true)) => Some(Right::B),
        (_, Some(false), Some(false)) => Some(Right::Neither),
        (_, Some(false), None) => Some(Right::NotA),
        (_, None, Some(false)) => Some(Right::NotB),
    })
}

/// Where a tree is, and what computed its digests.
#[derive(Serialize)]
struct Compared<'a> {
    host: String,
    path: String,
    way: &'a str,
}

impl<'a> Compared<'a> {
    fn of(address: &Address, way: &'a str) -> Compared<'a> {
        let path = String::from_utf8_lossy(address.shown(&address.path)).into_owned();
        Compared { host: address.host.name(), path, way }
    }
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

#[derive(Default, Serialize)]
struct Counts {
    same: u64,
    differ: u64,
    missing: u64,
    extra: u64,
    unreadable: u64,
    unknown: u64,
}

/// A line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    #[serde(flatten)]
    name: Name,
    outcome: &'a str,
    algorithm: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_recorded: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<State>,
}

/// A file on one side.
#[derive(Serialize)]
struct State {
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl State {
    fn of(file: &ComparedFile) -> State {
        let read = file.read.as_ref();
        State {
            size: file.seen.size,
            digest: read.and_then(|read| Some(read.as_ref().ok()?.to_string())),
            error: read.and_then(|read| Some(read.as_ref().err()?.message())),
        }
    }
}
