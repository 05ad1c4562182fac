//! Prints what a comparison found.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use serde_json::{Value, json};
use verisum::catalog::compare::{Judgement, RecordedStanding, Settled};
use verisum::digest::Digest;
use verisum::files::Timestamp;
use verisum::files::compare::{ComparedFile, ContentEvidence, FileStatus, Pair};
use verisum::remote::{Address, Host};

use super::PlaceCompareArgs;
use crate::ui::digests;
use crate::ui::exit::Exit;
use crate::ui::hosts::{Costs, PlaceReport, tally};
use crate::ui::names::{self, Name};
use crate::ui::values::counted;
use crate::ui::verbosity;

/// The sides, as they are called in results.
const LETTERS: [&str; 3] = ["A", "B", "C"];
/// The same as fields of JSON.
const FIELDS: [&str; 3] = ["a", "b", "c"];

/// What results are told of.
pub(super) struct CompareReport<'a, 'r, const N: usize> {
    pub(super) arguments: &'a PlaceCompareArgs,
    pub(super) digest: &'a Digest,
    pub(super) addresses: &'a [Address; N],
    pub(super) report: &'a PlaceReport<'r>,
}

/// What is known of the sides in the end.
pub(super) struct SideFacts<const N: usize> {
    /// What computed the digests.
    pub(super) ways: [&'static str; N],
    /// When the listing of a side was made, if not in this run.
    pub(super) listed_at: [Option<String>; N],
    /// When the report of its checksums was made, if one was given.
    pub(super) reported_at: [Option<String>; N],
}

impl<const N: usize> CompareReport<'_, '_, N> {
    /// Says which files differ, by name. If one of the trees is not there, which is said, all that the others have is
    /// unknown. False where nothing can be printed any more.
    pub(super) fn files(
        &self,
        pairs: &[Pair<N>],
        judged: &HashMap<usize, Judgement<N>>,
        is_lost: bool,
        counts: &mut CompareCounts,
    ) -> bool {
        let report = self.report;
        for (number, pair) in pairs.iter().enumerate() {
            *counts.of(pair.status) += 1;
            if pair.status == FileStatus::Same && !verbosity::names_all() {
                continue;
            }
            if pair.status != FileStatus::Same {
                report.worse(exit(pair.status));
            }
            let mut read = pair.files.iter().flatten().map(|file| file.read.as_deref());
            let is_said = match pair.status {
                FileStatus::Unknown => is_lost,
                // A place failed at the first of these, and none that follows was read.
                FileStatus::Unreadable if !read.any(|read| matches!(read, Some(Err(_)))) => {
                    std::mem::replace(&mut counts.is_cut, true)
                }
                _ => false,
            };
            if is_said && !self.arguments.json && !verbosity::names_all() {
                continue;
            }
            let judgement = judged.get(&number);
            counts.unrecorded += u64::from(judgement.is_some_and(|judgement| !judgement.is_recorded));
            let goes_on = match self.arguments.json {
                true => report.json("file", &self.record(pair, judgement)),
                false => self.line(pair, judgement),
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    /// Says how many are the same.
    pub(super) fn end(&self, counts: CompareCounts, settled: Settled, facts: SideFacts<N>) {
        let report = self.report;
        if self.arguments.json {
            let sides = self.sides(|side| Some(self.compared(side, &facts)));
            report.json(
                "summary",
                &CompareSummary {
                    counts,
                    settled: json!({
                        "sizes": settled.sizes,
                        "records": settled.records,
                        "times": settled.times,
                        "one_read": settled.one_read,
                        "store": settled.store,
                        "read": settled.read,
                    }),
                    sides,
                    costs: self.arguments.hosts.costs(),
                },
            );
            return;
        }
        let others = [
            (counts.differ, "differ"),
            (counts.missing, "missing"),
            (counts.extra, "extra"),
            (counts.unreadable, "unreadable"),
            (counts.unknown, "unknown"),
        ];
        if self.arguments.quiet && others.iter().all(|(count, _)| *count == 0) {
            return;
        }
        if counts.unrecorded > 0 {
            let files = counted(counts.unrecorded, "file");
            report.say(&format!("nobody knows which copy is right of {files}: no record tells"));
        }
        for (side, address) in self.addresses.iter().enumerate() {
            let Some(at) = &facts.listed_at[side] else { continue };
            let place = address.host.name();
            let but = facts.reported_at[side].as_ref().map_or(String::new(), |reported| {
                format!(" that the checksum report of {reported} does not show")
            });
            report.say(&format!(
                "{place}: listed by an inventory of {at}; the store was asked about each difference{but}"
            ));
        }
        report.say(&tally(counts.same, "the same", &others));
        if self.arguments.quick || settled.store > 0 {
            let others = [
                (settled.store, "by digests that the store recorded"),
                (settled.records, "by records"),
                (settled.times, "by sizes and times"),
                (settled.one_read, "by a record and reading the other side"),
                (settled.read, "by reading"),
            ];
            report.say(&format!("settled: {}", tally(settled.sizes, "by sizes", &others)));
        }
        self.arguments.hosts.say_costs(report, false, self.arguments.quiet);
    }

    fn line(&self, pair: &Pair<N>, judgement: Option<&Judgement<N>>) -> bool {
        let name = self.name(pair);
        let mut line = Vec::new();
        names::result_name(&mut line, OsStr::from_bytes(name));
        let mut remarks = odd_in_words(pair);
        let is_same = pair.status == FileStatus::Same;
        match pair.evidence {
            ContentEvidence::Recorded(_) => {
                let what = if is_same { "recorded by the store" } else { "as the store recorded it" };
                let at = recorded_at(pair).map_or(String::new(), |at| format!(" at {at}"));
                remarks.push(format!("{what}{at}"));
            }
            ContentEvidence::Read if is_same && self.has_bucket() => remarks.push("read".to_string()),
            _ => {}
        }
        remarks.extend(judgement.map(|judgement| in_words(&judgement.sides)).into_iter().flatten());
        let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join(", ")) };
        line.extend_from_slice(b": ");
        let word = line.len()..line.len() + pair.status.name().len();
        line.extend_from_slice(format!("{}{remarks}\n", pair.status.name().to_uppercase()).as_bytes());
        for (address, file) in self.addresses.iter().zip(&pair.files) {
            if let Some(Err(reason)) = file.as_ref().and_then(|file| file.read.as_deref()) {
                let name = names::quoted(OsStr::from_bytes(name));
                self.report.note(&address.host, &format!("{name}: {}", reason.message()));
            }
        }
        self.report.outcome(&line, word, exit(pair.status))
    }

    fn has_bucket(&self) -> bool {
        self.addresses.iter().any(|address| matches!(address.host, Host::Bucket(_)))
    }

    fn record<'p>(&'p self, pair: &'p Pair<N>, judgement: Option<&Judgement<N>>) -> CompareRecord<'p> {
        let standings = judgement.map_or([None; N], |judgement| judgement.sides);
        let algorithm = pair.settled_by.as_deref().unwrap_or(self.digest.name());
        let state = |side: usize| {
            pair.files[side].as_ref().map(|file| SideState::of(file, algorithm, standings[side]))
        };
        CompareRecord {
            name: Name::of_bytes(self.name(pair)),
            outcome: pair.status.name(),
            algorithm,
            evidence: pair.evidence.name(),
            recorded_at: recorded_at(pair),
            as_recorded: judgement.and_then(Judgement::as_recorded),
            odd: pair.odd().map(|side| FIELDS[side]),
            sides: self.sides(state),
        }
    }

    /// Below the trees; of files that are compared, the path of the first.
    fn name<'p>(&'p self, pair: &'p Pair<N>) -> &'p [u8] {
        match pair.name.is_empty() {
            true => self.addresses[0].shown(&self.addresses[0].path),
            false => &pair.name,
        }
    }

    fn sides<T>(&self, of: impl Fn(usize) -> Option<T>) -> Sides<T> {
        let side = |side: usize| if side < N { of(side) } else { None };
        Sides { a: side(0), b: side(1), c: side(2) }
    }

    fn compared<'f>(&self, side: usize, facts: &'f SideFacts<N>) -> Compared<'f> {
        let address = &self.addresses[side];
        let path = String::from_utf8_lossy(address.shown(&address.path)).into_owned();
        let listed_at = facts.listed_at[side].as_deref();
        Compared { host: address.host.name(), path, way: facts.ways[side], listed_at }
    }
}

/// When the store recorded the digest by which files were compared.
fn recorded_at<const N: usize>(pair: &Pair<N>) -> Option<String> {
    match pair.evidence {
        ContentEvidence::Recorded(at) => at.map(|at| Timestamp::of_seconds(at.time.seconds).to_rfc3339()),
        _ => None,
    }
}

/// What a file that is not the same everywhere means for the end of the run.
fn exit(status: FileStatus) -> Exit {
    match status {
        FileStatus::Differs | FileStatus::Missing | FileStatus::Extra => Exit::Mismatch,
        _ => Exit::Unchecked,
    }
}

/// What is to be said of three trees.
fn odd_in_words<const N: usize>(pair: &Pair<N>) -> Vec<String> {
    if N < 3 || !matches!(pair.status, FileStatus::Differs | FileStatus::Missing | FileStatus::Extra) {
        return Vec::new();
    }
    if let Some(odd) = pair.odd() {
        return vec![format!("{} is the odd one out", LETTERS[odd])];
    }
    let (has, lacks): (Vec<usize>, Vec<usize>) = (0..N).partition(|side| pair.has(*side));
    let differ = |one: usize, other: usize| pair.is_same(one, other) == Some(false);
    match (&has[..], &lacks[..]) {
        ([one], _) => vec![format!("only {} has it", LETTERS[*one])],
        (_, [one]) => vec![format!("{} lacks it", LETTERS[*one])],
        _ if differ(0, 1) && differ(1, 2) && differ(0, 2) => vec!["all differ".to_string()],
        _ => Vec::new(),
    }
}

/// Which files are as recorded. Of the others nothing need be said then, unless they were written to.
fn in_words<const N: usize>(sides: &[Option<RecordedStanding>; N]) -> Vec<String> {
    let of = |standing: RecordedStanding| -> Vec<&str> {
        (0..N).filter(|side| sides[*side] == Some(standing)).map(|side| LETTERS[side]).collect()
    };
    let (recorded, changed, other) =
        (of(RecordedStanding::AsRecorded), of(RecordedStanding::Changed), of(RecordedStanding::Other));
    let mut words = Vec::new();
    match (&recorded[..], &other[..]) {
        ([], _) if other.len() == N => words.push("neither is as recorded".to_string()),
        ([], other) => words.extend(other.iter().map(|side| format!("{side} is not as recorded"))),
        ([one], _) => words.push(format!("{one} is as recorded")),
        (all, _) if all.len() == N && N == 2 => words.push("both are as recorded".to_string()),
        (some, _) => words.push(format!("{} are as recorded", some.join(" and "))),
    }
    words.extend(changed.iter().map(|side| format!("{side} was changed since it was recorded")));
    words
}

/// How many files are what.
#[derive(Default, Serialize)]
pub(super) struct CompareCounts {
    same: u64,
    differ: u64,
    missing: u64,
    extra: u64,
    unreadable: u64,
    unknown: u64,
    /// Of those that differ.
    unrecorded: u64,
    /// Whether it was said that files are unreadable because a place failed.
    #[serde(skip)]
    is_cut: bool,
}

impl CompareCounts {
    fn of(&mut self, status: FileStatus) -> &mut u64 {
        match status {
            FileStatus::Same => &mut self.same,
            FileStatus::Differs => &mut self.differ,
            FileStatus::Missing => &mut self.missing,
            FileStatus::Extra => &mut self.extra,
            FileStatus::Unreadable => &mut self.unreadable,
            FileStatus::Unknown | FileStatus::Asked => &mut self.unknown,
        }
    }
}

/// The last line of JSON.
#[derive(Serialize)]
struct CompareSummary<'a> {
    #[serde(flatten)]
    counts: CompareCounts,
    /// How it was settled whether files that both sides have are the same.
    settled: Value,
    #[serde(flatten)]
    sides: Sides<Compared<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<Costs>,
}

/// Something of each side.
#[derive(Serialize)]
struct Sides<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<T>,
}

/// Where a tree is, and what computed its digests.
#[derive(Serialize)]
struct Compared<'a> {
    host: String,
    path: String,
    way: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    listed_at: Option<&'a str>,
}

/// A line of JSON.
#[derive(Serialize)]
struct CompareRecord<'a> {
    #[serde(flatten)]
    name: Name,
    outcome: &'a str,
    algorithm: &'a str,
    evidence: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_recorded: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    odd: Option<&'a str>,
    #[serde(flatten)]
    sides: Sides<SideState>,
}

/// A file on one side.
#[derive(Serialize)]
struct SideState {
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_recorded: Option<&'static str>,
}

impl SideState {
    fn of(file: &ComparedFile, algorithm: &str, standing: Option<RecordedStanding>) -> SideState {
        let read = file.read.as_deref();
        SideState {
            size: file.seen.size,
            digest: read
                .and_then(|read| Some(digests::shown(algorithm, read.as_ref().ok()?, file.seen.size))),
            error: read.and_then(|read| Some(read.as_ref().err()?.message())),
            as_recorded: standing.map(RecordedStanding::name),
        }
    }
}
