//! `verisum compare`: two trees, on any two machines.

mod records;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum::digest::{Digest, Output as Sum};

use self::records::{Recorded, Records};
use crate::ui::Output;
use crate::ui::catalog::CatalogArgs;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HOSTS, HostArgs, Report, tally};
use crate::ui::names::{self, Name};
use verisum::remote::{Event, Host, Place, Reason, Request, Seen, Session, SessionError};

/// What `verisum compare` takes.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// The digest; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    /// Do not read files of the same size and time, or files whose digests the catalogue has
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    catalog: CatalogArgs,

    /// Print only problems
    #[arg(short, long)]
    quiet: bool,

    /// Print a line of JSON for each difference, and one with the totals
    #[arg(long)]
    json: bool,

    /// A tree: a directory, HOST:DIR or ssh://HOST/DIR
    #[arg(value_name = "A", value_hint = ValueHint::DirPath)]
    a: OsString,

    /// The other tree
    #[arg(value_name = "B", value_hint = ValueHint::DirPath)]
    b: OsString,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,
}

/// One of the two trees.
struct Side<'a> {
    place: Place,
    session: Session<'a>,
    /// Its files, by name.
    files: Vec<Listed>,
    /// Whether something in it could not be listed.
    incomplete: bool,
}

/// A file of a tree.
struct Listed {
    /// Below the tree; empty if the tree is a file.
    name: Vec<u8>,
    path: Vec<u8>,
    seen: Seen,
}

/// What is known of a file on both sides.
struct Pair {
    name: Vec<u8>,
    a: Option<usize>,
    b: Option<usize>,
    status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// Nothing but reading tells.
    Asked,
    Same,
    Differs,
    /// Only A has it.
    Missing,
    /// Only B has it.
    Extra,
    /// One side has it, and the other could not be listed whole.
    Unknown,
    Unreadable,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Asked | Status::Unknown => "unknown",
            Status::Same => "same",
            Status::Differs => "differs",
            Status::Missing => "missing",
            Status::Extra => "extra",
            Status::Unreadable => "unreadable",
        }
    }
}

/// A digest, or why there is none; none where it was not asked for.
type Read = Option<Result<Sum, Reason>>;

/// Does what `verisum compare` was asked for.
pub(crate) fn run(arguments: CompareArgs, output: &mut Output) -> Result<Exit, Failure> {
    let digest = hosts::digest(&arguments.algorithm)?;
    let places = [hosts::any(&arguments.a)?, hosts::any(&arguments.b)?];
    let folder = hosts::folder(places.iter().map(|place| &place.host))?;
    let remote = places.iter().filter(|place| place.host != Host::Local).count();
    let options = arguments.hosts.options(remote)?;
    let report = Report::new(output).quiet(arguments.quiet);
    let listed = both(places, |place| {
        let session = hosts::open(&place.host, &digest, &options, folder.as_ref(), &report)?;
        list(place, session, &report)
    });
    let [Some(mut a), Some(mut b)] = listed else { return report.end() };
    let mut pairs = paired(&a, &b);
    let count = |status| pairs.iter().filter(|pair| pair.status == status).count() as u64;
    let mut settled =
        Settled { sizes: count(Status::Differs), read: count(Status::Asked), ..Settled::default() };
    let mut known = [HashMap::new(), HashMap::new()];
    if arguments.quick {
        known = quickly(&arguments, &digest, [&a, &b], &mut pairs, &mut settled, &report)?;
    }
    let asked = |side: &Side, known: &Known, of: fn(&Pair) -> Option<usize>| -> Vec<Request> {
        let asked = pairs.iter().enumerate().filter(|(_, pair)| pair.status == Status::Asked);
        let asked = asked.filter(|(tag, _)| !known.contains_key(tag));
        let file = |(tag, pair): (usize, &Pair)| {
            of(pair).map(|at| Request {
                path: side.files[at].path.clone(),
                tag: tag as u64,
                seen: side.files[at].seen,
                ..Request::default()
            })
        };
        asked.filter_map(file).collect()
    };
    let [known_a, known_b] = known;
    let wanted = [
        (asked(&a, &known_a, |pair| pair.a), known_a, &mut a),
        (asked(&b, &known_b, |pair| pair.b), known_b, &mut b),
    ];
    let count = pairs.len();
    let [from_a, from_b] = both(wanted, |(asked, known, side)| read(side, asked, known, count, &report));
    for (place, pair) in pairs.iter_mut().enumerate().filter(|(_, pair)| pair.status == Status::Asked) {
        pair.status = match (&from_a[place], &from_b[place]) {
            (Some(Ok(one)), Some(Ok(other))) if one == other => Status::Same,
            (Some(Ok(_)), Some(Ok(_))) => Status::Differs,
            (Some(Err(Reason::Missing)), Some(Ok(_))) => Status::Extra,
            (Some(Ok(_)), Some(Err(Reason::Missing))) => Status::Missing,
            _ => Status::Unreadable,
        };
    }
    tell(&arguments, &digest, [&a, &b], &pairs, [&from_a, &from_b], settled, &report);
    drop((a, b));
    report.end()
}

/// Digests that need not be read, by the places of their pairs.
type Known = HashMap<usize, Sum>;

/// Settles pairs by the catalogue's records, and by times if those of one side are missing. Returns the
/// records of files whose other side has to be read.
fn quickly(
    arguments: &CompareArgs,
    digest: &Digest,
    sides: [&Side; 2],
    pairs: &mut [Pair],
    settled: &mut Settled,
    report: &Report,
) -> Result<[Known; 2], Failure> {
    let catalog = match arguments.catalog.open_if_there() {
        Err(failure) if arguments.catalog.catalog.is_none() => {
            report.say(&failure.message());
            None
        }
        other => other?,
    };
    let records = |side: &Side| match &catalog {
        Some(catalog) => Records::of(catalog, &side.place, digest),
        None => Ok(None),
    };
    let mut records = [records(sides[0])?, records(sides[1])?];
    let mut known = [HashMap::new(), HashMap::new()];
    for (tag, pair) in pairs.iter_mut().enumerate().filter(|(_, pair)| pair.status == Status::Asked) {
        let (Some(a), Some(b)) = (pair.a, pair.b) else { continue };
        let files = [&sides[0].files[a], &sides[1].files[b]];
        let mut found = [Recorded::Nothing; 2];
        for side in 0..2 {
            if let Some(records) = &mut records[side] {
                found[side] = records.recorded(&files[side].name, &files[side].seen)?;
            }
        }
        let doubted = found.iter().any(|recorded| matches!(recorded, Recorded::Doubt));
        let found = found.map(|recorded| match recorded {
            Recorded::Digest(digest) => Some(digest),
            _ => None,
        });
        let count = match (found, files[0].seen.modified, files[1].seen.modified) {
            ([Some(one), Some(other)], _, _) => {
                pair.status = if one == other { Status::Same } else { Status::Differs };
                &mut settled.records
            }
            (_, Some(one), Some(other))
                if !doubted && files[0].seen.size.is_some() && one.is_same(&other) =>
            {
                pair.status = Status::Same;
                &mut settled.times
            }
            ([None, None], _, _) => continue,
            (found, _, _) => {
                for (known, found) in known.iter_mut().zip(found) {
                    known.extend(found.map(|digest| (tag, digest)));
                }
                &mut settled.one_read
            }
        };
        *count += 1;
        settled.read -= 1;
    }
    Ok(known)
}

/// Does the same on both sides at once.
fn both<T: Send, U: Send>(of: [T; 2], work: impl Fn(T) -> U + Sync) -> [U; 2] {
    let [a, b] = of;
    thread::scope(|scope| {
        let other = scope.spawn(|| work(b));
        let first = work(a);
        match other.join() {
            Ok(second) => [first, second],
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn list<'a>(place: Place, mut session: Session<'a>, report: &Report) -> Option<Side<'a>> {
    let found: Mutex<(Vec<Listed>, bool)> = Mutex::default();
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let unlisted = |what: &str| {
        lock().1 = true;
        report.worse(Exit::Unchecked);
        report.note(&place.host, what)
    };
    let sink = |event: Event| match event {
        Event::Note(note) => report.note(&place.host, &note),
        Event::Unlisted(line) => unlisted(&names::plain(&line)),
        Event::Answer(answer) => match answer.result {
            Ok(_) => {
                let Request { path, seen, .. } = answer.request;
                let name = if path == place.path { Vec::new() } else { place.below(&path).to_vec() };
                lock().0.push(Listed { name, path, seen });
                true
            }
            Err(reason) => {
                let name = names::quoted(OsStr::from_bytes(place.shown(&answer.request.path)));
                unlisted(&format!("{name}: {}", reason.message()))
            }
        },
    };
    let listed = session.tree(&place.path, false, &sink);
    if let Err(error) = listed {
        hosts::fail(&place.host, &error, report);
        return None;
    }
    let (mut files, incomplete) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    if let Some(pair) = files.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let name = names::quoted(OsStr::from_bytes(place.shown(&pair[0].path)));
        hosts::fail(&place.host, &SessionError::Odd(format!("{name} is listed twice")), report);
        return None;
    }
    Some(Side { place, session, files, incomplete })
}

/// Brings the files of both sides together by name, and settles what can be settled unread.
fn paired(a: &Side, b: &Side) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(a.files.len().max(b.files.len()));
    let (mut i, mut j) = (0, 0);
    loop {
        let order = match (a.files.get(i), b.files.get(j)) {
            (None, None) => return pairs,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(one), Some(other)) => one.name.cmp(&other.name),
        };
        let (in_a, in_b) = (order.is_le().then_some(i), order.is_ge().then_some(j));
        let status = match (in_a, in_b) {
            (Some(i), Some(j)) => match (a.files[i].seen.size, b.files[j].seen.size) {
                (Some(one), Some(other)) if one != other => Status::Differs,
                _ => Status::Asked,
            },
            (Some(_), None) if b.incomplete => Status::Unknown,
            (Some(_), None) => Status::Missing,
            _ if a.incomplete => Status::Unknown,
            _ => Status::Extra,
        };
        let name = in_a.map_or_else(|| &b.files[j].name, |i| &a.files[i].name).clone();
        pairs.push(Pair { name, a: in_a, b: in_b, status });
        i += usize::from(in_a.is_some());
        j += usize::from(in_b.is_some());
    }
}

/// Reads what was asked for, beside what is known.
fn read(side: &mut Side, requests: Vec<Request>, known: Known, count: usize, report: &Report) -> Vec<Read> {
    let mut results: Vec<Read> = vec![None; count];
    for (tag, digest) in known {
        results[tag] = Some(Ok(digest));
    }
    let results = Mutex::new(results);
    let place = &side.place;
    let sink = |event: Event| match event {
        Event::Note(note) | Event::Unlisted(note) => report.note(&place.host, &names::plain(&note)),
        Event::Answer(answer) => {
            let result = match answer.result {
                Ok(found) => found.digest.ok_or(Reason::Failed(String::new())),
                Err(reason) => Err(reason),
            };
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results[answer.request.tag as usize] = Some(result);
            true
        }
    };
    let ended: Result<(), SessionError> = match requests.is_empty() {
        true => Ok(()),
        false => side.session.names(&mut requests.into_iter(), &sink),
    };
    if let Err(error) = ended {
        hosts::fail(&side.place.host, &error, report);
    }
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Says how they differ, by name, and how many are the same.
fn tell(
    arguments: &CompareArgs,
    digest: &Digest,
    sides: [&Side; 2],
    pairs: &[Pair],
    read: [&Vec<Read>; 2],
    settled: Settled,
    report: &Report,
) {
    let mut counts = Counts::default();
    for (place, pair) in pairs.iter().enumerate() {
        let count = match pair.status {
            Status::Same => {
                counts.same += 1;
                continue;
            }
            Status::Differs => &mut counts.differ,
            Status::Missing => &mut counts.missing,
            Status::Extra => &mut counts.extra,
            Status::Unreadable => &mut counts.unreadable,
            Status::Unknown | Status::Asked => &mut counts.unknown,
        };
        *count += 1;
        report.worse(match pair.status {
            Status::Differs | Status::Missing | Status::Extra => Exit::Mismatch,
            _ => Exit::Unchecked,
        });
        let name: &[u8] =
            if pair.name.is_empty() { sides[0].place.shown(&sides[0].place.path) } else { &pair.name };
        let goes_on = if arguments.json {
            let of = |side: usize, at: Option<usize>| {
                at.map(|at| State {
                    size: sides[side].files[at].seen.size,
                    digest: match &read[side][place] {
                        Some(Ok(sum)) => Some(sum.to_string()),
                        _ => None,
                    },
                    error: match &read[side][place] {
                        Some(Err(reason)) => Some(reason.message()),
                        _ => None,
                    },
                })
            };
            let record = Record {
                name: Name::of_bytes(name),
                outcome: pair.status.name(),
                algorithm: digest.name(),
                a: of(0, pair.a),
                b: of(1, pair.b),
            };
            report.json(&record)
        } else {
            let mut line = Vec::new();
            names::result_name(&mut line, OsStr::from_bytes(name));
            line.extend_from_slice(format!(": {}\n", pair.status.name().to_uppercase()).as_bytes());
            for (side, read) in sides.iter().zip(read) {
                if let Some(Err(reason)) = &read[place] {
                    let name = names::quoted(OsStr::from_bytes(name));
                    report.note(&side.place.host, &format!("{name}: {}", reason.message()));
                }
            }
            report.result(&line)
        };
        if !goes_on {
            return;
        }
    }
    if arguments.json {
        #[derive(Serialize)]
        struct Summary<'a> {
            summary: Counts,
            settled: Settled,
            a: Tree<'a>,
            b: Tree<'a>,
        }
        let [a, b] = sides.map(Tree::of);
        report.json(&Summary { summary: counts, settled, a, b });
        return;
    }
    let others = [
        (counts.differ, "differ"),
        (counts.missing, "missing"),
        (counts.extra, "extra"),
        (counts.unreadable, "unreadable"),
        (counts.unknown, "unknown"),
    ];
    if arguments.quiet && others.iter().all(|(count, _)| *count == 0) {
        return;
    }
    report.say(&tally(counts.same, "the same", &others));
    if arguments.quick {
        let others = [
            (settled.records, "by records"),
            (settled.times, "by sizes and times"),
            (settled.one_read, "by a record and reading the other side"),
            (settled.read, "by reading"),
        ];
        report.say(&format!("settled: {}", tally(settled.sizes, "by sizes", &others)));
    }
}

/// Where a tree is, and what computed its digests.
#[derive(Serialize)]
struct Tree<'a> {
    host: String,
    path: String,
    way: &'a str,
}

impl<'a> Tree<'a> {
    fn of(side: &Side<'a>) -> Tree<'a> {
        let path = String::from_utf8_lossy(side.place.shown(&side.place.path)).into_owned();
        Tree { host: side.place.host.name(), path, way: side.session.way() }
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
