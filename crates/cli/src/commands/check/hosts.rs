//! `verisum check` of files on other machines against a list.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, copy, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use verisum::digest::{Digest, Output as Sum};
use verisum::files::Kind;
use verisum::files::store::manifest::{Bad, Line, Options as Reading, ReadError, Reader, Skipped};

use super::CheckArgs;
use crate::ui::exit::Exit;
use crate::ui::failure::{Failure, cause};
use crate::ui::hosts::{self, OnHost, Record, Report, tally};
use crate::ui::{Output, names};
use verisum::files::place::{FileAnswer, FileRequest, Files, Place, PlaceEvent, Reason};
use verisum::remote::{Address, Host, Hosts};

/// A list that is read once for each of its digests and places.
struct List {
    file: Mutex<File>,
    path: PathBuf,
    reading: Reading,
    /// The ids of its digests.
    algorithms: Vec<String>,
    /// Files that are listed without a digest that is known here.
    without: u64,
    /// Lines that are not understood.
    bad: u64,
    skipped: Skipped,
    hosts: LineHosts,
}

/// Whose lines there are in a list.
struct LineHosts {
    /// The hosts that are asked.
    asked: Vec<Host>,
    /// Whether they stand before names.
    stand: bool,
    /// Lines of hosts that are not asked.
    others: u64,
}

/// What was found on a place.
#[derive(Clone, Debug, Default, Serialize)]
struct Counts {
    verified: u64,
    failed: u64,
    missing: u64,
    unreadable: u64,
}

struct Task<'a> {
    arguments: &'a CheckArgs,
    list: List,
    hosts: Hosts,
    prefixed: bool,
    report: Report<'a>,
}

/// Checks the files on hosts that a list names.
pub(super) fn run(
    arguments: &CheckArgs,
    list: &OsString,
    places: &[OnHost],
    output: &mut Output,
) -> Result<Exit, Failure> {
    let algorithm = match &arguments.algorithm {
        Some(name) => Some(hosts::digest(name)?.name().to_string()),
        None => None,
    };
    let reading = Reading {
        algorithm: algorithm.map(Cow::Owned),
        zero: arguments.zero,
        name: list.as_bytes().to_vec(),
        ..Reading::default()
    };
    let asked = places.iter().map(|on| on.host.clone()).collect();
    let list = List::open(list, reading, asked)?;
    let hosts = arguments.hosts.hosts(places.len())?;
    let prefixed = arguments.many.names_hosts(places);
    let report = Report::new(output).quiet(arguments.results.quiet || arguments.results.status);
    let task = Task { arguments, list, hosts, prefixed, report };
    task.of_list()?;
    hosts::each(places, arguments.many.at_once(), &|on| task.host(on));
    task.report.end()
}

impl List {
    /// Reads it once, to know which digests it has, and whose lines.
    fn open(name: &OsStr, reading: Reading, asked: Vec<Host>) -> Result<List, Failure> {
        let is_stdin = name == "-";
        let path = if is_stdin { PathBuf::from("standard input") } else { PathBuf::from(name) };
        let failed = |operation| {
            let name = path.clone();
            move |error| Failure::File { name, operation, error }
        };
        let keep = |source: &mut dyn Read| -> Result<File, Failure> {
            let mut kept = tempfile::tempfile().map_err(failed("keep"))?;
            copy(source, &mut kept).map_err(failed("read"))?;
            Ok(kept)
        };
        let file = if is_stdin {
            keep(&mut stdin())?
        } else {
            let mut file = File::open(name).map_err(failed("open"))?;
            // It is read several times, which a pipe cannot be.
            if file.metadata().map_err(failed("look at"))?.is_file() { file } else { keep(&mut file)? }
        };
        let hosts = LineHosts { asked, stand: false, others: 0 };
        let mut list = List {
            file: Mutex::new(file),
            path,
            reading,
            algorithms: Vec::new(),
            without: 0,
            bad: 0,
            skipped: Skipped::default(),
            hosts,
        };
        let (mut algorithms, mut without, mut bad) = (Vec::new(), 0, 0);
        let (mut stand, mut strange) = (false, 0);
        let skipped = list.each(&mut |line| match line {
            Line::File(listed) if listed.claims.is_empty() => {
                without += u64::from(listed.kind.is_none_or(|kind| kind == Kind::File));
            }
            Line::File(listed) => {
                match list.hosts.is_asked(&listed.name) {
                    true => stand = true,
                    false => strange += u64::from(is_of_a_host(&listed.name)),
                }
                for claim in &listed.claims {
                    if !algorithms.iter().any(|known| *known == claim.algorithm) {
                        algorithms.push(claim.algorithm.to_string());
                    }
                }
            }
            Line::Bad(Bad::UnknownDigest(_)) => without += 1,
            Line::Bad(_) => bad += 1,
        })?;
        (list.algorithms, list.without, list.bad, list.skipped) = (algorithms, without, bad, skipped);
        (list.hosts.stand, list.hosts.others) = (stand, if stand { strange } else { 0 });
        Ok(list)
    }

    /// Its lines from the start on.
    fn reader(&self) -> Result<Reader<File>, Failure> {
        let failed = |error| Failure::File { name: self.path.clone(), operation: "read", error };
        let held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Each reader needs a position of its own.
        let mut file = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&*held)))
            .or_else(|_| held.try_clone())
            .map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        Reader::new(file, &self.reading).map_err(|error| self.unreadable(&error))
    }

    /// Returns what was skipped.
    fn each(&self, each: &mut dyn FnMut(Line)) -> Result<Skipped, Failure> {
        let mut reader = self.reader()?;
        while let Some(line) = reader.line().map_err(|error| self.unreadable(&error))? {
            each(line);
        }
        Ok(reader.skipped())
    }

    fn unreadable(&self, error: &ReadError) -> Failure {
        let why = match error {
            ReadError::Io(error) => cause(error),
            other => other.to_string(),
        };
        Failure::Program { name: self.path.to_string_lossy().into_owned(), why }
    }

    /// The files of a place that have a digest of this kind.
    fn files<'a>(&'a self, algorithm: &'a str, place: &'a Address) -> Result<Claimed<'a>, Failure> {
        Ok(Claimed { reader: self.reader()?, algorithm, place, hosts: &self.hosts, failed: None })
    }
}

/// What a list has for a place.
struct Claimed<'a> {
    reader: Reader<File>,
    algorithm: &'a str,
    place: &'a Address,
    hosts: &'a LineHosts,
    /// Why the rest of it cannot be read: it could be read before.
    failed: Option<ReadError>,
}

impl Iterator for Claimed<'_> {
    type Item = FileRequest;

    fn next(&mut self) -> Option<FileRequest> {
        while self.failed.is_none() {
            let listed = match self.reader.line() {
                Ok(Some(Line::File(listed))) => listed,
                Ok(Some(_)) => continue,
                Ok(None) => return None,
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            };
            if let Some(claim) = listed.claims.into_iter().find(|claim| claim.algorithm == self.algorithm) {
                let Some(name) = self.hosts.own(&listed.name, &self.place.host) else { continue };
                let tag = Written::of(name) as u64;
                let path = self.place.join(name);
                return Some(FileRequest {
                    path,
                    expected: Some(claim.digest),
                    tag,
                    ..FileRequest::default()
                });
            }
        }
        None
    }
}

impl LineHosts {
    fn is_asked(&self, name: &[u8]) -> bool {
        self.asked.iter().any(|host| host.strip(name).is_some())
    }

    /// The name that a list has for a file of this host. `None` for a file of another one, which then stands
    /// before the name. Where no line has a host that is asked, none is taken to have one: names may have
    /// colons.
    fn own<'n>(&self, name: &'n [u8], host: &Host) -> Option<&'n [u8]> {
        match host.strip(name) {
            Some(rest) => Some(rest),
            None if self.stand && (self.is_asked(name) || is_of_a_host(name)) => None,
            None => Some(name),
        }
    }
}

fn is_of_a_host(name: &[u8]) -> bool {
    Address::parse(OsStr::from_bytes(name), false).is_ok()
}

/// How a name was written in a list, to show it so again.
#[derive(Clone, Copy)]
enum Written {
    Below = 0,
    FromRoot = 1,
    WithDot = 2,
}

impl Written {
    fn of(name: &[u8]) -> Written {
        match name {
            [b'/', ..] => Written::FromRoot,
            [b'.', b'/', ..] => Written::WithDot,
            _ => Written::Below,
        }
    }

    /// The name by the path that was made of it.
    fn name(tag: u64, place: &Address, path: &[u8]) -> Vec<u8> {
        const FROM_ROOT: u64 = Written::FromRoot as u64;
        const WITH_DOT: u64 = Written::WithDot as u64;
        match tag {
            FROM_ROOT => path.to_vec(),
            WITH_DOT => [b"./", place.below(path)].concat(),
            _ => place.below(path).to_vec(),
        }
    }
}

impl Task<'_> {
    /// Says what is wrong with the list itself.
    fn of_list(&self) -> Result<(), Failure> {
        let name = names::quoted(self.list.path.as_os_str());
        let warn = |message: String| crate::ui::say(crate::ui::PROGRAM, &message);
        if self.list.bad > 0 {
            let lines = if self.list.bad == 1 { "line is" } else { "lines are" };
            warn(format!("{name}: WARNING: {} {lines} improperly formatted", self.list.bad));
            if self.arguments.results.strict {
                self.report.worse(Exit::Mismatch);
            }
        }
        if let Some(doubt) = self.list.skipped.doubt() {
            warn(format!("{name}: WARNING: {doubt}"));
        }
        if self.list.hosts.others > 0 && !self.arguments.results.quiet && !self.arguments.results.status {
            let lines = if self.list.hosts.others == 1 { "line is" } else { "lines are" };
            warn(format!("{name}: {} {lines} of hosts that are not asked", self.list.hosts.others));
        }
        if self.list.without > 0 {
            warn(format!("{name}: WARNING: {} listed without a digest that is known", self.list.without));
            self.report.worse(Exit::Unchecked);
        }
        if self.list.algorithms.is_empty() && self.list.without == 0 {
            warn(format!("{name}: no properly formatted checksum lines found"));
            self.report.worse(Exit::Mismatch);
        }
        Ok(())
    }

    fn host(&self, on: &OnHost) {
        let counts = Mutex::new(vec![Counts::default(); on.places.len()]);
        let mut complete = true;
        for algorithm in &self.list.algorithms {
            let digest = match hosts::digest(algorithm) {
                Ok(digest) => digest,
                Err(failure) => {
                    self.report.fail(&on.host, &failure);
                    complete = false;
                    continue;
                }
            };
            complete &= self.algorithm(on, &digest, &counts);
        }
        let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (place, counts) in on.places.iter().zip(counts) {
            self.total(place, &counts, complete);
        }
    }

    fn algorithm(&self, on: &OnHost, digest: &Digest, counts: &Mutex<Vec<Counts>>) -> bool {
        let digests = std::slice::from_ref(digest);
        let opened = hosts::open(&self.hosts, &on.host, digests, &self.report);
        let Some((mut opened, way)) = opened else { return false };
        let mut complete = true;
        for (number, place) in on.places.iter().enumerate() {
            let sink = |event: PlaceEvent| match event {
                PlaceEvent::Answer(answer) => {
                    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                    self.judge(place, way, digest, &answer, &mut counts[number])
                }
                event => self.report.event(&place.host, event),
            };
            let ended = match self.list.files(digest.name(), place) {
                Ok(mut files) => {
                    let ended = opened.hash(digests, Files::Named(&mut files), &sink);
                    if let Some(error) = &files.failed {
                        self.report.fail(&place.host, &self.list.unreadable(error));
                        complete = false;
                    }
                    ended
                }
                Err(failure) => {
                    self.report.fail(&place.host, &failure);
                    return false;
                }
            };
            if let Err(error) = ended {
                self.report.failed(&place.host, error.to_string());
                complete = false;
                break;
            }
        }
        complete
    }

    fn judge(
        &self,
        place: &Address,
        way: &str,
        digest: &Digest,
        answer: &FileAnswer,
        counts: &mut Counts,
    ) -> bool {
        let name = &Written::name(answer.request.tag, place, &answer.request.path)[..];
        let (found, reason) = match &answer.result {
            Ok(read) => (read.digest(), None),
            Err(error) => (None, Some(error.reason())),
        };
        let (outcome, shown, exit) = match &reason {
            None if found == answer.request.expected && found.is_some() => {
                counts.verified += 1;
                ("ok", "OK", Exit::Clean)
            }
            None => {
                counts.failed += 1;
                ("failed", "FAILED", Exit::Mismatch)
            }
            Some(Reason::Missing) if self.arguments.results.ignore_missing => return true,
            Some(Reason::Missing) => {
                counts.missing += 1;
                ("missing", "FAILED open or read", Exit::Unchecked)
            }
            Some(_) => {
                counts.unreadable += 1;
                ("unreadable", "FAILED open or read", Exit::Unchecked)
            }
        };
        self.report.worse(exit);
        if self.arguments.json {
            let value = |sum: &Option<Sum>| sum.map(|sum| sum.to_string());
            let record = Record::new(place, way, name, &answer.request.seen);
            let record = Checked {
                record: Record {
                    outcome: Some(outcome),
                    error: reason.as_ref().map(Reason::message),
                    ..record
                },
                algorithm: digest.name(),
                listed: value(&answer.request.expected),
                found: value(&found),
            };
            return self.report.json(&record);
        }
        if let Some(reason) = &reason {
            let name = names::quoted(OsStr::from_bytes(name));
            self.report.note(&place.host, &format!("{name}: {}", reason.message()));
        }
        if self.arguments.results.status || (outcome == "ok" && self.arguments.results.quiet) {
            return true;
        }
        let mut full = if self.prefixed { place.host.prefix(name) } else { Vec::new() };
        full.extend_from_slice(name);
        let mut line = Vec::new();
        names::result_name(&mut line, OsStr::from_bytes(&full));
        line.extend_from_slice(format!(": {shown}\n").as_bytes());
        self.report.result(&line)
    }

    fn total(&self, place: &Address, counts: &Counts, complete: bool) {
        if self.arguments.json {
            #[derive(Serialize)]
            struct Summary<'a> {
                host: String,
                summary: &'a Counts,
                complete: bool,
                #[serde(skip_serializing_if = "Option::is_none")]
                error: Option<String>,
            }
            let error = self.report.failure_of(&place.host);
            let summary = Summary { host: place.host.name(), summary: counts, complete, error };
            self.report.json(&summary);
            return;
        }
        if counts.verified == 0 && self.arguments.results.ignore_missing && complete {
            self.report.note(&place.host, "no file was verified");
            self.report.worse(Exit::Mismatch);
        }
        let wrong = counts.failed + counts.missing + counts.unreadable;
        if self.arguments.results.status || (self.arguments.results.quiet && wrong == 0) {
            return;
        }
        let others =
            [(counts.failed, "failed"), (counts.missing, "missing"), (counts.unreadable, "unreadable")];
        let mut line = tally(counts.verified, "verified", &others);
        if !complete {
            line.push_str(", and not all were asked for");
        }
        self.report.note(&place.host, &line);
    }
}

/// A line of JSON of a file that was checked.
#[derive(Serialize)]
struct Checked<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    algorithm: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    listed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
}
