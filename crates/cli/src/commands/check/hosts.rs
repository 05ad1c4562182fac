//! `verisum check` of files on hosts and in buckets: asks for their digests, and compares them with the lists.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::stdin;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use verisum::files::check::{Event, Lists};
use verisum::files::place::{ContentEvidence, FileAnswer, Files, Place, PlaceError, PlaceEvent, Sink};
use verisum::files::store::manifest::{Listed, ReadError, Skipped};
use verisum::files::{Misjudged, VerdictClass, lock};
use verisum::remote::{Address, Claims, Host, HostList, HostListError, Hosts, kept};

use super::CheckArgs;
use crate::list_check::{CheckReport, CheckedPlace, ListCheckOptions, open_stdin};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, Evidences, ObjectReading, OnHost, PlaceReport};

/// Where names of lists begin for whoever looks for such files on this machine: nothing is there.
const NOWHERE: &str = "/dev/null";

struct PlaceCheck<'a, 'o> {
    arguments: &'a CheckArgs,
    options: &'a ListCheckOptions,
    lists: Lists,
    /// The lists in messages.
    names: Vec<OsString>,
    /// The hosts that are asked.
    asked: Vec<Host>,
    hosts: Hosts,
    prefixed: bool,
    report: &'a PlaceReport<'o>,
    /// What the objects so far are known by.
    evidences: Evidences,
}

/// Whether a number is another value of the file on this machine that a line names: nobody looks.
const NOTHING_ELSE: &(dyn Fn(usize, &Listed) -> Option<Misjudged> + Sync) = &|_, _| None;

/// Checks the files in places that lists name.
pub(super) fn run(
    arguments: &CheckArgs,
    names: &[OsString],
    places: &[OnHost],
    options: &ListCheckOptions,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let opened = names.iter().map(|name| opened(name)).collect::<Result<Vec<_>, _>>()?;
    let path = |(name, kept): (&OsString, &Option<File>)| match kept {
        Some(file) => OsString::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        None => name.clone(),
    };
    let paths: Vec<OsString> = names.iter().zip(&opened).map(path).collect();
    let lists = Lists::new(&paths, options.reading(), Some(NOWHERE.into()), open_stdin);
    let typed = |path| paths.iter().position(|known| *known == path).map_or(path, |at| names[at].clone());
    let limits = arguments.reading.limits()?;
    let at_once = arguments.threads.number()?;
    let report = PlaceReport::new(output).quiet(options.quiet || options.status);
    let task = PlaceCheck {
        arguments,
        options,
        names: lists.names().into_iter().map(typed).collect(),
        lists,
        asked: places.iter().map(|on| on.host.clone()).collect(),
        hosts: arguments.hosts.hosts_reading(places.len(), ObjectReading { limits, at_once })?,
        prefixed: arguments.many.names_hosts(false, places),
        report: &report,
        evidences: Evidences::default(),
    };
    let first = places.first().and_then(|on| on.places.first());
    hosts::each(places, arguments.many.at_once(), &|on| task.host(on, first));
    let evidence = arguments.recorded.counts(&task.evidences);
    arguments.hosts.say_evidence(&report, (options.json, options.quiet || options.status), evidence);
    report.end()
}

/// What a list has that can be read only once, in a file that can be read several times.
fn opened(name: &OsStr) -> Result<Option<File>, Failure> {
    let path = if name == "-" { PathBuf::from("standard input") } else { PathBuf::from(name) };
    let keep = || match std::fs::metadata(name) {
        _ if name == "-" => kept(&mut stdin()).map(Some),
        Ok(about) if !about.is_file() && !about.is_dir() => kept(&mut File::open(name)?).map(Some),
        _ => Ok(None),
    };
    keep().map_err(|error| Failure::File { name: path, operation: "read", error })
}

impl<'o> PlaceCheck<'_, 'o> {
    /// Checks the trees of a host. That which was named first tells what is wrong with the lists.
    fn host(&self, on: &OnHost, first: Option<&Address>) {
        let mut place = None;
        for address in &on.places {
            let report = CheckReport::new(self.options, (self.names.clone(), 0), NOTHING_ELSE, self.report);
            let report = report.of_place(CheckedPlace {
                address,
                way: "",
                is_named: self.prefixed,
                tells_lists: first == Some(address),
                evidence: None,
            });
            let answered = AtomicU64::new(0);
            let tree = TreeCheck { check: self, address, report: Mutex::new(report), answered };
            tree.with(|report| report.named_digests(&self.lists.named_digests()));
            let ended = (0..self.names.len()).map(|list| tree.list(list, &mut place));
            let is_complete = ended.fold(true, |all, one| all & one);
            let report = tree.report.into_inner().unwrap_or_else(PoisonError::into_inner);
            self.report.printed_by(report.end(is_complete));
        }
    }
}

/// The check of one tree, of which threads of its place tell.
struct TreeCheck<'a, 'o> {
    check: &'a PlaceCheck<'a, 'o>,
    address: &'a Address,
    report: Mutex<CheckReport<'a, 'o>>,
    /// Answers for the list at hand.
    answered: AtomicU64,
}

/// A place that was opened; none where it failed for all that could be asked for.
type OpenedPlace = Option<Box<dyn Place>>;

impl<'a, 'o> TreeCheck<'a, 'o> {
    /// False where nothing can be printed any more.
    fn with(&self, tell: impl FnOnce(&mut CheckReport<'a, 'o>) -> Result<(), Failure>) -> bool {
        let told = tell(&mut lock(&self.report));
        self.check.report.printed_by(told)
    }

    fn event(&self, event: Event) -> bool {
        self.with(|report| report.event(event))
    }

    /// Checks a list. False where not all of its lines were asked for.
    fn list(&self, manifest: usize, place: &mut Option<OpenedPlace>) -> bool {
        let check = self.check;
        self.answered.store(0, Ordering::Relaxed);
        let mut tell = |event| {
            self.event(event);
        };
        let list = match HostList::open((&check.lists, manifest), &check.asked, self.address, &mut tell) {
            Ok(list) => list,
            Err(error) => {
                self.event(Event::End { manifest, error: Some(error), skipped: Skipped::default() });
                return false;
            }
        };
        let passes = list.passes();
        self.with(|report| report.list_read(manifest, (!passes.is_empty(), list.of_others)));
        let (mut is_whole, mut error) = (true, None);
        for claims in &passes {
            match self.pass(&list, claims, place) {
                Ok(is_done) => is_whole &= is_done,
                Err(why) => {
                    (is_whole, error) = (false, Some(why));
                    break;
                }
            }
        }
        match is_whole || error.is_some() {
            true => self.event(Event::End { manifest, error, skipped: list.skipped }),
            false => self.with(|report| {
                report.list_given_up(list.own.saturating_sub(self.answered.load(Ordering::Relaxed)));
                Ok(())
            }),
        };
        is_whole
    }

    /// Checks the lines with such claims. False where not all of them were asked for.
    fn pass(
        &self,
        list: &HostList,
        claims: &Claims,
        opened: &mut Option<OpenedPlace>,
    ) -> Result<bool, ReadError> {
        let PlaceCheck { arguments, report, hosts, evidences, .. } = self.check;
        let host = &self.address.host;
        let place = match opened {
            Some(None) => return Ok(false),
            Some(Some(place)) => Ok(place),
            None => hosts::place(hosts, host).map(|place| opened.insert(None).insert(place)),
        };
        let digests = claims.names().iter().map(|name| hosts::digest(name)).collect::<Result<Vec<_>, _>>();
        let (place, digests) = match place.and_then(|place| Ok((place, digests?))) {
            Ok(ready) => ready,
            Err(failure) => {
                report.fail(host, &failure);
                return Ok(false);
            }
        };
        let Some(way) = hosts::way(&mut **place, host, &digests, report) else { return Ok(false) };
        let mut hash = |files: Files, sink: Sink| {
            // A list may have been made of what was bad already.
            let tell = |event: PlaceEvent| {
                let goes_on = match &event {
                    PlaceEvent::Answer(FileAnswer { request, result: Ok(read) }) => {
                        report.contradicted(host, self.address.shown(&request.path), read)
                    }
                    _ => true,
                };
                goes_on && sink(event)
            };
            arguments.recorded.hash(&mut **place, &digests, files, &tell)
        };
        let each = |event: Event, evidence: ContentEvidence| {
            self.answered.fetch_add(1, Ordering::Relaxed);
            let is_known =
                matches!(&event, Event::File { outcome, .. } if outcome.class() != VerdictClass::Unchecked);
            let known = if is_known { arguments.recorded.known(evidence, evidences) } else { None };
            self.with(|report| {
                report.answered_by(way, known);
                report.event(event)
            })
        };
        match list.check_lines(&mut hash, claims, &|event| report.event(host, event), &each) {
            Ok(()) => Ok(true),
            Err(HostListError::List(error)) => Err(error),
            Err(HostListError::Place(error)) => {
                report.failed(host, error.to_string());
                if matches!(error, PlaceError::Absent(_)) {
                    *opened = Some(None);
                }
                Ok(false)
            }
        }
    }
}
