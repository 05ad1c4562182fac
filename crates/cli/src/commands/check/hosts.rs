//! `verisum check` of files on other machines against a list.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::stdin;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use verisum::digest::{Digest, Output as Sum};
use verisum::files::place::{FileAnswer, Files, Place, PlaceEvent, Reason, Sink};
use verisum::files::store::manifest::{ListOptions as Reading, ReadError};
use verisum::remote::{Address, CheckedLine, Claims, HostList, HostListError, Hosts, kept};

use super::CheckArgs;
use crate::ui::exit::Exit;
use crate::ui::failure::{Failure, cause};
use crate::ui::hosts::{self, Evidences, ObjectReading, OnHost, PlaceRecord, PlaceReport, tally};
use crate::ui::json::ListState;
use crate::ui::{Output, names};

/// What was found on a place.
#[derive(Clone, Debug, Default, Serialize)]
struct PlaceCounts {
    verified: u64,
    failed: u64,
    missing: u64,
    unreadable: u64,
}

struct PlaceCheck<'a> {
    arguments: &'a CheckArgs,
    list: HostList,
    /// The list in messages.
    path: PathBuf,
    hosts: Hosts,
    prefixed: bool,
    report: PlaceReport<'a>,
    /// What the objects so far are known by.
    evidences: Evidences,
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
    let mut reading = Reading::default();
    reading.algorithm = algorithm.map(Cow::Owned);
    reading.zero = arguments.zero;
    reading.name = list.as_bytes().to_vec();
    let asked = places.iter().map(|on| on.host.clone()).collect();
    let path = if list == "-" { PathBuf::from("standard input") } else { PathBuf::from(list) };
    let list = HostList::open(opened(list, &path)?, reading, asked);
    let list = list.map_err(|error| unreadable(&path, &error))?;
    let limits = arguments.reading.limits()?;
    let at_once = arguments.threads.number()?;
    let hosts = arguments.hosts.hosts_reading(places.len(), ObjectReading { limits, at_once })?;
    let prefixed = arguments.many.names_hosts(places);
    let report = PlaceReport::new(output).quiet(arguments.results.quiet || arguments.results.status);
    let task = PlaceCheck { arguments, list, path, hosts, prefixed, report, evidences: Evidences::default() };
    task.of_list()?;
    hosts::each(places, arguments.many.at_once(), &|on| task.host(on));
    let is_quiet = arguments.results.quiet || arguments.results.status;
    let evidence = arguments.recorded.counts(&task.evidences);
    arguments.hosts.say_evidence(&task.report, (arguments.json, is_quiet), evidence);
    task.report.end()
}

/// A list in a file that can be read several times, which a pipe cannot be.
fn opened(name: &OsStr, path: &Path) -> Result<File, Failure> {
    let failed = |operation| {
        let name = path.to_path_buf();
        move |error| Failure::File { name, operation, error }
    };
    if name == "-" {
        return kept(&mut stdin()).map_err(failed("read"));
    }
    let mut file = File::open(name).map_err(failed("open"))?;
    match file.metadata().map_err(failed("look at"))?.is_file() {
        true => Ok(file),
        false => kept(&mut file).map_err(failed("read")),
    }
}

fn unreadable(path: &Path, error: &ReadError) -> Failure {
    let why = match error {
        ReadError::Io(error) => cause(error),
        other => other.to_string(),
    };
    Failure::Program { name: path.to_string_lossy().into_owned(), why }
}

impl PlaceCheck<'_> {
    /// Says what is wrong with the list itself.
    fn of_list(&self) -> Result<(), Failure> {
        let name = names::quoted(self.path.as_os_str());
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
        if self.list.of_others > 0 && !self.arguments.results.quiet && !self.arguments.results.status {
            let lines = if self.list.of_others == 1 { "line is" } else { "lines are" };
            warn(format!("{name}: {} {lines} of hosts that are not asked", self.list.of_others));
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
        let counts = Mutex::new(vec![PlaceCounts::default(); on.places.len()]);
        let complete = match hosts::place(&self.hosts, &on.host) {
            Ok(mut place) => {
                let passes = self.list.passes(&on.host);
                let ended = passes.iter().map(|claims| self.pass(&mut *place, on, claims, &counts));
                ended.fold(true, |complete, ended| complete & ended)
            }
            Err(failure) => {
                self.report.fail(&on.host, &failure);
                false
            }
        };
        let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (place, counts) in on.places.iter().zip(counts) {
            self.total(place, &counts, complete);
        }
    }

    /// Checks the lines with such claims. False where not all of them were asked for.
    fn pass(
        &self,
        place: &mut dyn Place,
        on: &OnHost,
        claims: &Claims,
        counts: &Mutex<Vec<PlaceCounts>>,
    ) -> bool {
        let digests = claims.names().iter().map(|name| hosts::digest(name)).collect::<Result<Vec<_>, _>>();
        let digests = match digests {
            Ok(digests) => digests,
            Err(failure) => {
                self.report.fail(&on.host, &failure);
                return false;
            }
        };
        let Some(way) = hosts::way(place, &on.host, &digests, &self.report) else { return false };
        let notes = |event| self.report.event(&on.host, event);
        for (number, address) in on.places.iter().enumerate() {
            let judge = |line: CheckedLine| {
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                self.judge((address, way), &digests, &line, &mut counts[number])
            };
            let mut hash = |files: Files, sink: Sink| {
                // A list may have been made of what was bad already.
                let tell = |event: PlaceEvent| {
                    let goes_on = match &event {
                        PlaceEvent::Answer(FileAnswer { request, result: Ok(read) }) => {
                            self.report.contradicted(&on.host, address.shown(&request.path), read)
                        }
                        _ => true,
                    };
                    goes_on && sink(event)
                };
                self.arguments.recorded.hash(&mut *place, &digests, files, &tell)
            };
            match self.list.check_lines(&mut hash, address, claims, &notes, &judge) {
                Ok(()) => {}
                Err(HostListError::List(error)) => {
                    self.report.fail(&on.host, &unreadable(&self.path, &error));
                    return false;
                }
                Err(HostListError::Place(error)) => {
                    self.report.failed(&on.host, error.to_string());
                    return false;
                }
            }
        }
        true
    }

    fn judge(
        &self,
        (place, way): (&Address, &str),
        digests: &[Digest],
        file: &CheckedLine,
        counts: &mut PlaceCounts,
    ) -> bool {
        let (name, reason) = (&file.name[..], file.found.as_ref().err());
        let (outcome, shown, exit) = match reason {
            None if file.found.as_ref().is_ok_and(|found| *found == file.listed) => {
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
        let evidence = match &file.found {
            Ok(_) => self.arguments.recorded.known(file.evidence, &self.evidences),
            Err(_) => None,
        };
        if self.arguments.json {
            let state = |sums: &[Sum]| {
                let named = digests.iter().zip(sums);
                let digests = named.map(|(digest, sum)| (digest.name(), sum.to_string())).collect();
                ListState { size: None, digests }
            };
            let record = PlaceRecord::new(place, way, name, &file.seen);
            let record = Checked {
                record: PlaceRecord {
                    evidence,
                    outcome: Some(outcome),
                    error: reason.map(Reason::message),
                    ..record
                },
                listed: state(&file.listed),
                found: file.found.as_ref().ok().map(|found| state(found)),
            };
            return self.report.json("file", &record);
        }
        if let Some(reason) = reason {
            let name = names::quoted(OsStr::from_bytes(name));
            self.report.note_of_tree(place, &format!("{name}: {}", reason.message()));
        }
        if self.arguments.results.status || (outcome == "ok" && self.arguments.results.quiet) {
            return true;
        }
        let mut full = if self.prefixed { place.host.prefix(name) } else { Vec::new() };
        full.extend_from_slice(name);
        let mut line = Vec::new();
        names::result_name(&mut line, OsStr::from_bytes(&full));
        let known = evidence.map(|known| format!(" ({})", known.text())).unwrap_or_default();
        line.extend_from_slice(format!(": {shown}{known}\n").as_bytes());
        self.report.result(&line)
    }

    fn total(&self, place: &Address, counts: &PlaceCounts, complete: bool) {
        if self.arguments.json {
            #[derive(Serialize)]
            struct PlaceCheckSummary<'a> {
                host: String,
                #[serde(flatten)]
                counts: &'a PlaceCounts,
                complete: bool,
                #[serde(skip_serializing_if = "Option::is_none")]
                error: Option<String>,
            }
            let error = self.report.failure_of(&place.host);
            let summary = PlaceCheckSummary { host: place.host.name(), counts, complete, error };
            self.report.json("summary", &summary);
            return;
        }
        if counts.verified == 0 && self.arguments.results.ignore_missing && complete {
            self.report.note_of_tree(place, "no file was verified");
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
        self.report.note_of_tree(place, &line);
    }
}

/// A line of JSON of a file that was checked.
#[derive(Serialize)]
struct Checked<'a> {
    #[serde(flatten)]
    record: PlaceRecord<'a>,
    listed: ListState<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<ListState<'a>>,
}
