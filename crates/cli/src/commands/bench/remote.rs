//! `verisum bench files --host`: measures each way that `verisum sum HOST:PATH` may use.
//!
//! A way is started for each batch of files, over one connection. One tiny file shows what that takes; what
//! many small files and a large one take longer is the hashing. The connection stands beside them: what it
//! takes to make one, to run a command, and to send a line there and back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueHint};
use verisum::digest::{Digest, Output as Sum};
use verisum_bench::export::{Cell, Table};
use verisum_bench::measure::{About, MeasureAmount, MeasureError, Measured, Subject};
use verisum_bench::record::{BenchResults, NOT_RANKED, Series, rate_between};
use verisum_bench::stats::Interval;
use verisum_bench::summary::Quantity;

use super::Session;
use super::files::FilesArgs;
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, default_timeout};
use crate::ui::sizes;
use verisum::files::place::FileRequest;
use verisum::remote::{
    Address, Host, HostOptions, Making, RemoteDigests, SessionError, SshOptions, Traffic, Trial, WAYS,
    WayCandidate,
};

/// Another machine.
#[derive(Args, Debug)]
pub(super) struct RemoteArgs {
    /// Measure the programs of this host that hash files, on the files at HOST:PATH or ssh://HOST/PATH; with
    /// --make, PATH may be left out
    #[arg(long, value_name = "HOST[:PATH]", value_hint = ValueHint::Other,
        conflicts_with_all = ["files", "on", "style", "cold", "small_runs", "large_runs", "shared"])]
    pub(super) host: Option<OsString>,

    /// Make files on the host, in a private directory that is removed at the end
    #[arg(long, requires = "host")]
    make: bool,

    /// Number of small files
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "host",
        value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    many: u32,

    /// Configuration file of ssh, instead of your own
    #[arg(long, value_name = "FILE", requires = "host", value_hint = ValueHint::FilePath)]
    ssh_config: Option<PathBuf>,

    /// Give up on a host that does not answer for this long
    #[arg(long, value_name = "DURATION", default_value_t = default_timeout(), requires = "host")]
    timeout: String,
}

/// The digest, unless somebody says otherwise: that of `verisum sum`.
const ALGORITHM: &str = "sha256";

/// The lengths of files that are made.
const SMALL: &str = "4K";
const LARGE: &str = "64M";

/// Of files that are there, longer ones are not small, and shorter ones not large.
const SMALL_MOST: u64 = 64 << 10;
const LARGE_LEAST: u64 = 1 << 20;

/// How many rounds there are unless somebody says otherwise.
const ROUNDS: u32 = 11;

/// The groups.
const CONNECTION: &str = "connection";
const START: &str = "one tiny file";

/// The kind of rows that are of the connection alone.
const TRANSFER: &str = "transfer only";

/// What every subject needs.
struct SubjectNeeds<'a> {
    trial: &'a Trial<'a>,
    digest: &'a Digest,
    candidates: Vec<WayCandidate>,
    /// What one run of each row sent and received, by group and name.
    traffic: RefCell<BTreeMap<(String, String), Traffic>>,
}

/// Files that are hashed in one go.
struct FileBatch {
    /// What it is in the tables.
    group: String,
    paths: Vec<Vec<u8>>,
    bytes: u64,
    /// The digest of their digests, or of the one; none where the first way has to tell.
    expected: Option<String>,
}

/// Measures.
pub(super) fn run(arguments: &FilesArgs, output: &mut Output) -> Result<Exit, Failure> {
    let remote = &arguments.remote;
    let typed = remote.host.clone().unwrap_or_default();
    let (place, named) = place(&typed)?;
    if !named && !remote.make {
        let why = "--host: needs HOST:PATH with files to read, or --make, which writes some there";
        return Err(Failure::Usage(why.to_string()));
    }
    let digest = hosts::digest(arguments.algorithm.as_deref().unwrap_or(ALGORITHM))?;
    let making = making(arguments)?;
    let options = options(arguments)?;
    let folder = hosts::folder(std::iter::once(&place.host))?;
    let mut session = Session::begin(
        "remote-files",
        &arguments.options,
        MeasureAmount::Rounds(ROUNDS),
        &[std::env::temp_dir()],
    )?;
    session.preparing("connecting");
    let host = place.host.name();
    let failed = |error: SessionError| Failure::Program { name: host.clone(), why: error.message() };
    let trial = Trial::open(&place.host, &digest, &options, folder.as_ref()).map_err(failed)?;
    session.preparing(if remote.make { "making the files" } else { "listing the files" });
    let parent: &[u8] = if named { &place.path } else { b"" };
    let made = match remote.make {
        true => Some(trial.make(&making, parent).map_err(failed)?),
        false => None,
    };
    let batches = match &made {
        Some(made) => of_made(&making, &made.folder, &digest)?,
        None => of_listed(&trial, &place, remote.many).map_err(failed)?,
    };
    let from = session.results.host.clone();
    let lies = made.as_ref().map_or(&place.path, |made| &made.folder);
    session.results.host = super::remote_host::host(&trial, lies).map_err(failed)?;
    session.note(match place.host {
        Host::Local => "on this machine, without ssh".to_string(),
        _ => format!(
            "on {host}, over ssh from a machine with {} ({}, {} processors)",
            from.kernel, from.processor, from.processors
        ),
    });
    let candidates = trial.candidates();
    let task = SubjectNeeds { trial: &trial, digest: &digest, candidates, traffic: RefCell::default() };
    task.connection(&place.host, &mut session).map_err(failed)?;
    for batch in &batches {
        if session.stopped() {
            session.skip_unreached([(batch.group.as_str(), "every way")]);
            continue;
        }
        task.batch(batch, batches.len(), &mut session);
    }
    if let Some(made) = made {
        made.remove();
    }
    task.note_traffic(&mut session.results);
    let mut report = session.report("Ways to the digests of another machine's files", Quantity::Time);
    report.tables.splice(..0, ways(&session.results, &batches));
    session.finish(&report, output)
}

/// The host, and whether a path was typed.
fn place(typed: &OsString) -> Result<(Address, bool), Failure> {
    let text = typed.to_string_lossy();
    let rest = text.strip_prefix("ssh://");
    let named = match rest {
        Some(rest) => rest.contains('/'),
        None => text.rsplit(']').next().is_some_and(|text| text.contains(':')),
    };
    let mut whole = typed.clone();
    if rest.is_none() && !named {
        whole.push(":");
    }
    let address = hosts::parse(&whole, false)?;
    match address.host {
        Host::Bucket(_) => Err(Failure::value("PLACE", text, "must be a host, not a bucket")),
        _ => Ok((address, named)),
    }
}

fn making(arguments: &FilesArgs) -> Result<Making, Failure> {
    let size = |option: &'static str, text: &str, least: u64, most: u64| {
        let found = sizes::parse(text).filter(|size| (least..=most).contains(size));
        found.ok_or_else(|| {
            Failure::value(option, text, format!("must be a number of bytes from {least} to {most}"))
        })
    };
    let small = size("--small", arguments.small.as_deref().unwrap_or(SMALL), 10, 1 << 20)?;
    let large = size("--large", arguments.large.as_deref().unwrap_or(LARGE), 1 << 16, 1 << 40)?;
    Ok(Making { many: arguments.remote.many, small, large })
}

fn options(arguments: &FilesArgs) -> Result<HostOptions, Failure> {
    let remote = &arguments.remote;
    for way in &arguments.ways {
        if !WAYS.contains(&way.as_str()) {
            let must = format!("must be a way to hash on hosts ({})", WAYS.join(", "));
            return Err(Failure::value("--way", way, must));
        }
    }
    let may_ask = rustix::termios::isatty(rustix::stdio::stdin());
    let ssh = {
        let mut options = SshOptions::default();
        options.config = remote.ssh_config.clone();
        options.timeout = hosts::timeout(&remote.timeout)?;
        options.may_ask = may_ask;
        options
    };
    let mut options = HostOptions::default();
    options.ssh = ssh;
    options.required = arguments.ways.clone();
    Ok(options)
}

/// The batches of files that were made, whose digests are known here.
fn of_made(making: &Making, folder: &[u8], digest: &Digest) -> Result<Vec<FileBatch>, Failure> {
    let path = |name: &str| [folder, b"/", name.as_bytes()].concat();
    let tiny = Making::tiny();
    let small: Vec<Sum> =
        (0..making.many).map(|number| digest.hash(&making.small(number))).collect::<Result<_, _>>()?;
    let mut large = digest.stream()?;
    for piece in making.large() {
        large.update(&piece)?;
    }
    let mut whole = Sum::zeroed(digest.len());
    large.finish(whole.as_mut_bytes())?;
    let expected = |digests: &[Sum]| together(digest, digests).map(Some);
    Ok(vec![
        FileBatch {
            group: START.to_string(),
            paths: vec![path("tiny")],
            bytes: tiny.len() as u64,
            expected: expected(&[digest.hash(&tiny)?])?,
        },
        FileBatch {
            group: format!("{} files of {} bytes", making.many, making.small),
            paths: (0..making.many).map(|number| path(&format!("small/{number}"))).collect(),
            bytes: u64::from(making.many) * making.small,
            expected: expected(&small)?,
        },
        FileBatch {
            group: format!("one file of {} bytes", making.large),
            paths: vec![path("large")],
            bytes: making.large,
            expected: expected(&[whole])?,
        },
    ])
}

/// A file's length and path.
type Listed = (u64, Vec<u8>);

/// The batches of files that are there: the shortest that is not empty, small ones, and the longest.
fn of_listed(trial: &Trial, place: &Address, many: u32) -> Result<Vec<FileBatch>, SessionError> {
    let mut sized = true;
    let (mut tiny, mut large): (Option<Listed>, Option<Listed>) = (None, None);
    let mut small: Vec<Listed> = Vec::new();
    let mut each = |request: FileRequest| {
        let Some(size) = request.seen.size else {
            sized = false;
            return;
        };
        // An empty one only where there is no other.
        let rank = |size: u64| size.wrapping_sub(1);
        if tiny.as_ref().is_none_or(|than| rank(size) < rank(than.0)) {
            tiny = Some((size, request.path.clone()));
        }
        if large.as_ref().is_none_or(|than| size > than.0) {
            large = Some((size, request.path.clone()));
        }
        if size <= SMALL_MOST && small.len() < many as usize {
            small.push((size, request.path));
        }
    };
    trial.list(&place.path, &mut each)?;
    if !sized {
        return Err(SessionError::NoWay(
            "its programs tell no sizes of files (--make takes others)".to_string(),
        ));
    }
    let Some((size, path)) = tiny else {
        return Err(SessionError::Odd("there are no files to read".to_string()));
    };
    let one = |group: &str, size, path| FileBatch {
        group: group.to_string(),
        paths: vec![path],
        bytes: size,
        expected: None,
    };
    let mut batches = vec![one(START, size, path)];
    if small.len() > 1 {
        let bytes = small.iter().map(|(size, _)| size).sum();
        let group = format!("{} files of {} bytes together", small.len(), bytes);
        let paths = small.into_iter().map(|(_, path)| path).collect();
        batches.push(FileBatch { group, paths, bytes, expected: None });
    }
    if let Some((size, path)) = large.filter(|(size, _)| *size >= LARGE_LEAST) {
        batches.push(one(&format!("one file of {size} bytes"), size, path));
    }
    Ok(batches)
}

/// The digest of a file, or that of the digests of several.
fn together(digest: &Digest, digests: &[Sum]) -> Result<String, Failure> {
    if let [one] = digests {
        return Ok(one.to_string());
    }
    let all: Vec<u8> = digests.iter().flat_map(|one| one.as_bytes().iter().copied()).collect();
    Ok(digest.hash(&all)?.to_string())
}

impl SubjectNeeds<'_> {
    /// Measures what the connection takes without any hashing.
    fn connection(&self, host: &Host, session: &mut Session<'_>) -> Result<(), SessionError> {
        let about = |name: &str| About::new(CONNECTION, name).label(NOT_RANKED, TRANSFER);
        let mut echo = self.trial.echo()?;
        let mut subjects: Vec<Box<dyn Subject + '_>> = Vec::new();
        match host {
            Host::Local => session.skip(&about("connect and log in"), "this machine needs no ssh"),
            _ => subjects
                .push(self.subject(about("connect and log in"), || self.trial.connect().map(|()| None))),
        }
        subjects.push(self.subject(about("run an empty command"), || self.trial.command().map(|()| None)));
        let there_and_back = move || echo.there_and_back().map(|()| None);
        subjects.push(self.repeated(about("a line there and back"), there_and_back));
        session.measure(subjects);
        Ok(())
    }

    /// Measures all ways on a batch.
    fn batch(&self, batch: &FileBatch, batches: usize, session: &mut Session<'_>) {
        let about = |name: &str| {
            About::new(&batch.group, name).bytes(batch.bytes).label("digest", self.digest.name())
        };
        let mut usable = Vec::new();
        let mut expected = batch.expected.clone();
        for candidate in &self.candidates {
            if let Some(why) = candidate.unusable() {
                session.skip(&about(&candidate.name), why);
                continue;
            }
            if expected.is_none() {
                // Nobody here has these files: the first way tells, and all others have to agree.
                expected = self.hashed(candidate, batch).ok().map(|(digest, _)| digest);
                if expected.is_some() {
                    let note = format!(
                        "the digests that others are compared with are those of {}: the files are the host's own",
                        candidate.name
                    );
                    if !session.results.notes.contains(&note) {
                        session.note(note);
                    }
                }
            }
            usable.push(candidate);
        }
        let about = |name: &str| match &expected {
            Some(expected) => about(name).expect(expected),
            None => about(name),
        };
        let mut subjects: Vec<Box<dyn Subject + '_>> = usable
            .into_iter()
            .map(|candidate| self.subject(about(&candidate.name), || self.hashed(candidate, batch).map(Some)))
            .collect();
        let names = About::new(&batch.group, "names there and back").control();
        subjects.push(self.subject(names, || self.trial.carry(&batch.paths).map(|()| None)));
        let amount = session.plan.amount;
        if let MeasureAmount::Time(time) = amount {
            session.plan.amount = MeasureAmount::Time(time / batches as u32);
        }
        session.measure(subjects);
        session.plan.amount = amount;
    }

    /// The digest of a batch, and what has to be ended when the clock has stopped.
    fn hashed(
        &self,
        candidate: &WayCandidate,
        batch: &FileBatch,
    ) -> Result<(String, RemoteDigests), SessionError> {
        let hashed = self.trial.hash(candidate, &batch.paths)?;
        let digest = together(self.digest, &hashed.digests);
        Ok((digest.map_err(|failure| SessionError::Here(failure.message()))?, hashed))
    }

    fn subject<'s>(&'s self, about: About, work: impl FnMut() -> RunOutcome + 's) -> Box<dyn Subject + 's> {
        Box::new(Run { about, task: self, repeats: false, work })
    }

    fn repeated<'s>(&'s self, about: About, work: impl FnMut() -> RunOutcome + 's) -> Box<dyn Subject + 's> {
        Box::new(Run { about, task: self, repeats: true, work })
    }

    /// Says of each row what went over the connection in one run.
    fn note_traffic(&self, results: &mut BenchResults) {
        let traffic = self.traffic.borrow();
        for series in &mut results.series {
            if let Some(found) = traffic.get(&(series.group.clone(), series.name.clone())) {
                series.labels.insert("sent".to_string(), found.sent.to_string());
                series.labels.insert("received".to_string(), found.received.to_string());
            }
        }
    }
}

/// What came of a run; the digest, if it computes one, and what is dropped after its time.
type RunOutcome = Result<Option<(String, RemoteDigests)>, SessionError>;

/// Something that is done over the connection.
struct Run<'a, W> {
    about: About,
    task: &'a SubjectNeeds<'a>,
    repeats: bool,
    work: W,
}

impl<W: FnMut() -> RunOutcome> Subject for Run<'_, W> {
    fn about(&self) -> &About {
        &self.about
    }

    fn repeats(&self) -> bool {
        self.repeats
    }

    fn run(&mut self, repetitions: u32) -> Result<Measured, MeasureError> {
        let before = self.task.trial.traffic();
        let started = Instant::now();
        let mut done = None;
        for _ in 0..repetitions {
            done = (self.work)().map_err(|error| MeasureError::Program {
                program: self.about.name.clone(),
                why: error.message(),
            })?;
        }
        let wall = started.elapsed();
        let after = self.task.trial.traffic();
        let each = |after: u64, before: u64| (after - before) / u64::from(repetitions.max(1));
        let traffic =
            Traffic { sent: each(after.sent, before.sent), received: each(after.received, before.received) };
        let row = (self.about.group.clone(), self.about.name.clone());
        self.task.traffic.borrow_mut().insert(row, traffic);
        Ok(Measured { wall, digest: done.map(|(digest, _)| digest), ..Measured::default() })
    }
}

/// A row for each way: its start, how fast it is then, and what it sends and receives.
fn ways(results: &BenchResults, batches: &[FileBatch]) -> Option<Table> {
    let mut table = Table::new(
        "Ways",
        "way; start (ms); files (/s); files from (/s); files to (/s); then (GB/s); then from (GB/s); \
         then to (GB/s); sent a file (bytes); received a file (bytes)",
    )
    .details(&["files from", "files to", "then from", "then to"]);
    let many = batches.iter().find(|batch| batch.paths.len() > 1);
    let large = batches.iter().find(|batch| batch.group != START && batch.paths.len() == 1);
    let of = |batch: Option<&FileBatch>, name: &str| -> Option<&Series> {
        let group = batch?.group.as_str();
        results.series.iter().find(|one| one.group == group && one.name == name && one.time().is_some())
    };
    let empty =
        results.series.iter().find(|one| one.group == CONNECTION && one.name == "run an empty command");
    let command = empty.and_then(Series::time).map_or(0.0, |time| time.median);
    let mut found: Vec<(&Series, Interval)> = results
        .series
        .iter()
        .filter(|one| one.group == START && !one.control)
        .filter_map(|one| Some((one, one.time()?)))
        .collect();
    found.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    for (tiny, time) in found {
        let (small, long) = (of(many, &tiny.name), of(large, &tiny.name));
        let files = many.map_or(0, |batch| batch.paths.len() as u64);
        let rate = small.and_then(|small| rate_between(tiny, small, files.saturating_sub(1)));
        let bytes = long.and_then(|long| rate_between(tiny, long, long.bytes.saturating_sub(tiny.bytes)));
        let cells = |rate: Option<Interval>, scale: f64, digits| {
            let values = rate.map(|rate| [rate.median, rate.low, rate.high]);
            (0..3).map(move |at| values.map_or(Cell::Missing, |rate| Cell::Number(rate[at] * scale, digits)))
        };
        let label = |name: &str| {
            let of = |one: &Series| one.labels.get(name)?.parse::<f64>().ok();
            // What does not grow with the files is the script.
            match small.and_then(|small| Some((of(small)? - of(tiny)?) / (files.max(2) - 1) as f64)) {
                Some(count) => Cell::Number(count, 1),
                None => Cell::Missing,
            }
        };
        let mut row = vec![Cell::text(&tiny.name), Cell::Number(((time.median - command) * 1e3).max(0.0), 1)];
        row.extend(cells(rate, 1.0, 0));
        row.extend(cells(bytes, 1e-9, 2));
        row.extend([label("sent"), label("received")]);
        table.row(row);
    }
    (!table.rows.is_empty()).then_some(table)
}
