//! `verisum remote scrub`: trees of other machines against the catalogue of this one.
//!
//! Every file is read, and compared with its record by digest, size and time of modification. What the scrub
//! of a local tree knows beyond that (inodes, a second read past the cache, moved files) is not to be had
//! from a host. As there, a good record is never replaced by bad data.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum_digest::{Digest, Output as Sum};
use verisum_tree::Verdict;
use verisum_tree::store::catalog::{
    Catalog, Change, Error, Finding, Identity, Position, Record, Root, Run, Seen as Stored, State, Trouble,
    stamp,
};

use super::hosts::{self, HostArgs, ManyArgs, OnHost};
use super::report::{Report, tally};
use crate::commands::scrub::{CatalogArgs, values};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::remote::{Answer, Event, Folder, Options, Place, Reason, Session};
use crate::render::Output;
use crate::render::names::{self, Name};

/// How many changes are kept at once.
const BATCH: usize = 1000;

/// How many directories' numbers are remembered.
const REMEMBERED: usize = 100_000;

/// What `verisum remote scrub` takes.
#[derive(Args, Debug)]
pub(crate) struct ScrubArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    /// The digest; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    /// Print a line of JSON for each file that is not as recorded, and one of totals for each place
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    hosts: HostArgs,

    #[command(flatten)]
    many: ManyArgs,

    /// HOST:DIR or ssh://HOST/DIR; with --hosts a path
    #[arg(value_name = "PLACE", required = true, value_hint = ValueHint::Other)]
    places: Vec<OsString>,
}

struct Task<'a> {
    arguments: &'a ScrubArgs,
    digest: Digest,
    algorithm: i64,
    catalog: Mutex<Catalog>,
    options: Options,
    folder: Option<&'a Folder>,
    report: Report<'a>,
}

/// How many files there are of each kind.
#[derive(Clone, Debug, Default, Serialize)]
struct Counts {
    ok: u64,
    new: u64,
    changed: u64,
    rot: u64,
    missing: u64,
    unverifiable: u64,
}

/// One place, while it is read.
struct Scrubbed<'a, 't> {
    task: &'a Task<'t>,
    place: &'a Place,
    root: Root,
    /// When it began, in milliseconds since 1970.
    started: i64,
    state: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    counts: Counts,
    bytes: u64,
    /// What is not written yet.
    changes: Vec<(i64, OsString, Change)>,
    /// The numbers of directories by their paths below the root.
    directories: HashMap<Vec<u8>, i64>,
    /// Files that were met, and whose records are as old as before.
    met: HashSet<(i64, Vec<u8>)>,
    /// Whether something could not be listed.
    incomplete: bool,
    failed: Option<Failure>,
}

/// Does what `verisum remote scrub` was asked for.
pub(super) fn run(arguments: ScrubArgs, output: &mut Output) -> Result<Exit, Failure> {
    let digest = hosts::digest(&arguments.algorithm)?;
    let places = arguments.many.places(&arguments.places)?;
    if places.iter().any(|on| on.host == crate::remote::Host::Local) {
        return Err(Failure::Usage(
            "local: trees of this machine are scrubbed by `verisum scrub`".to_string(),
        ));
    }
    let (_lock, catalog) = arguments.catalog.open()?;
    catalog.require_writable()?;
    catalog.require_sound()?;
    let algorithm = catalog.algorithm(digest.name())?;
    let folder = hosts::folder(places.iter().map(|on| &on.host))?;
    let options = arguments.hosts.options(places.len());
    let report = Report::new(output);
    let (catalog, folder) = (Mutex::new(catalog), folder.as_ref());
    let task = Task { arguments: &arguments, digest, algorithm, catalog, options, folder, report };
    hosts::each(&places, arguments.many.at_once()?, &|on| task.host(on));
    let _ = task.catalog().checkpoint();
    task.report.end()
}

impl Task<'_> {
    fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn host(&self, on: &OnHost) {
        let opened = hosts::open(&on.host, &self.digest, &self.options, self.folder, &self.report);
        let Some(mut session) = opened else { return };
        for place in &on.places {
            if let Err(failure) = self.place(&mut session, place) {
                self.report.fail(&place.host, &failure);
            }
        }
    }

    fn place(&self, session: &mut Session, place: &Place) -> Result<(), Failure> {
        if !session.tells_times() {
            let why =
                "its programs tell no sizes and times of files: nothing tells rot from a change".to_string();
            return Err(Failure::Program { name: "scrub".to_string(), why });
        }
        let started = values::now();
        let clock = Instant::now();
        let address = place.address();
        let path = Path::new(OsStr::from_bytes(&address));
        let (root, mut run) = {
            let catalog = self.catalog();
            let root = match catalog.root(path)? {
                Some(root) => root,
                None => catalog.add_root(path, Identity { device: 0, inode: 0 })?,
            };
            let id = catalog.begin_run(root.id, started, started)?;
            (root, Run { id, started, cycle: started, ..Run::default() })
        };
        let scrubbed = Scrubbed { task: self, place, root, started, state: Mutex::default() };
        let sink = |event: Event| scrubbed.tell(event);
        let ended = session.tree(&place.path, true, &sink);
        let complete = ended.is_ok();
        if let Err(trouble) = ended {
            hosts::fail(&place.host, &trouble, &self.report);
            run.error = Some(trouble.message());
        }
        let done = scrubbed.finish(complete);
        let state = scrubbed.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        run.finished = Some(values::now());
        run.complete = complete && done.is_ok() && !state.incomplete;
        run.seconds = clock.elapsed().as_secs_f64();
        run.read_files = state.counts.ok + state.counts.new + state.counts.changed + state.counts.rot;
        run.read_bytes = state.bytes;
        run.counts = serde_json::to_string(&state.counts).unwrap_or_default();
        self.catalog().end_run(&run)?;
        done?;
        self.total(place, &state.counts, run.complete);
        Ok(())
    }

    fn total(&self, place: &Place, counts: &Counts, complete: bool) {
        if self.arguments.json {
            #[derive(Serialize)]
            struct Summary<'a> {
                host: String,
                root: String,
                summary: &'a Counts,
                complete: bool,
            }
            let root = String::from_utf8_lossy(&place.address()).into_owned();
            let summary = Summary { host: place.host.name(), root, summary: counts, complete };
            self.report.json(&summary);
            return;
        }
        let others = [
            (counts.new, "new"),
            (counts.changed, "changed"),
            (counts.rot, "rotten"),
            (counts.missing, "missing"),
            (counts.unverifiable, "unverifiable"),
        ];
        self.report.note(&place.host, &tally(counts.ok, "as recorded", &others));
    }
}

impl Scrubbed<'_, '_> {
    fn state(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event) -> bool {
        let report = &self.task.report;
        match event {
            Event::Note(note) => report.note(&self.place.host, &note),
            Event::Unlisted(line) => {
                self.state().incomplete = true;
                report.worse(Exit::Unchecked);
                report.note(&self.place.host, &names::plain(&line))
            }
            Event::Answer(answer) => {
                let mut state = self.state();
                match self.judge(&mut state, &answer) {
                    Ok(goes_on) => goes_on,
                    Err(failure) => {
                        state.failed = Some(failure);
                        false
                    }
                }
            }
        }
    }

    fn judge(&self, state: &mut Progress, answer: &Answer) -> Result<bool, Failure> {
        let name = self.place.below(&answer.asked.path);
        let (folder, file) = match name.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&name[..slash], &name[slash + 1..]),
            None => (&b""[..], name),
        };
        let file = OsStr::from_bytes(file);
        let now = values::now();
        let (digest, changed) = match &answer.result {
            Ok(found) => (found.digest, found.changed),
            // It is gone; the record says so at the end.
            Err(Reason::Missing) => return Ok(true),
            Err(reason) => return self.unread(state, (folder, file), name, reason, now),
        };
        let Some(digest) = digest.filter(|_| !changed) else {
            let reason = Reason::Failed("the file changed while it was read".to_string());
            return self.unread(state, (folder, file), name, &reason, now);
        };
        let directory = self.directory(state, folder)?;
        let size = answer.asked.seen.size.unwrap_or(0);
        let mtime = answer.asked.seen.modified.map_or(0, |modified| stamp(modified.time));
        let fresh = Record {
            size,
            mtime,
            ctime: 0,
            inode: 0,
            algorithm: self.task.algorithm,
            digest,
            first_seen: now,
            changed: now,
            verified: now,
            state: State::Sound,
        };
        state.bytes += size;
        let record = self.task.catalog().record(directory, file)?;
        let (outcome, change) = match &record {
            None => {
                state.counts.new += 1;
                ("new", Change::Add(fresh))
            }
            Some(old) if old.state == State::DAMAGED || old.algorithm != self.task.algorithm => {
                state.counts.unverifiable += 1;
                state.met.insert((directory, file.as_bytes().to_vec()));
                let why = match old.state == State::DAMAGED {
                    true => "its record is damaged",
                    false => "it is recorded with another digest",
                };
                return Ok(self.result(
                    "unverifiable",
                    name,
                    Some((old.digest, digest)),
                    Some(why.to_string()),
                ));
            }
            Some(old) if old.digest == digest => {
                state.counts.ok += 1;
                let (first_seen, changed) = (old.first_seen, old.changed);
                ("ok", Change::Confirm(Record { first_seen, changed, ..fresh }))
            }
            Some(old) if old.size == size && is_same_time(old.mtime, mtime) => {
                state.counts.rot += 1;
                state.met.insert((directory, file.as_bytes().to_vec()));
                let finding = self.task.catalog().finding(directory, file)?;
                let since = finding.map_or(now, |finding| finding.since);
                let read = Some(Stored { size, mtime, ctime: 0, inode: 0, digest });
                let finding = Finding { since, seen: now, read, detail: None };
                ("rot", Change::Suspect(State::Trouble(Trouble::Verdict(Verdict::Rot)), finding))
            }
            Some(old) => {
                state.counts.changed += 1;
                let new = Record { first_seen: old.first_seen, ..fresh };
                ("changed", Change::Replace { old: *old, new })
            }
        };
        state.changes.push((directory, file.to_os_string(), change));
        if state.changes.len() >= BATCH {
            self.write(state)?;
        }
        Ok(match outcome {
            "ok" | "new" => true,
            _ => self.result(outcome, name, record.map(|old| (old.digest, digest)), None),
        })
    }

    /// Takes note of a file that cannot be read.
    fn unread(
        &self,
        state: &mut Progress,
        (folder, file): (&[u8], &OsStr),
        name: &[u8],
        reason: &Reason,
        now: i64,
    ) -> Result<bool, Failure> {
        state.counts.unverifiable += 1;
        // A directory that cannot be listed comes here too, and has no record.
        state.incomplete = true;
        let directory = self.directory(state, folder)?;
        if let Some(old) = self.task.catalog().record(directory, file)? {
            state.met.insert((directory, file.as_bytes().to_vec()));
            if !old.state.is_unforgiven() {
                let finding = Finding { since: now, seen: now, read: None, detail: Some(reason.message()) };
                let verdict = State::Trouble(Trouble::Verdict(Verdict::Unverifiable));
                state.changes.push((directory, file.to_os_string(), Change::Suspect(verdict, finding)));
            }
        }
        Ok(self.result("unverifiable", name, None, Some(reason.message())))
    }

    /// The number of a directory below the root.
    fn directory(&self, state: &mut Progress, below: &[u8]) -> Result<i64, Error> {
        if let Some(known) = state.directories.get(below) {
            return Ok(*known);
        }
        if state.directories.len() >= REMEMBERED {
            state.directories.clear();
        }
        let catalog = self.task.catalog();
        let mut directory = self.root.directory;
        for name in below.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let name = OsStr::from_bytes(name);
            directory = match catalog.directory_in(directory, name)? {
                Some(known) => known,
                None => {
                    let id = catalog.last_directory()? + 1;
                    catalog.add_directory(id, directory, name, 0)?;
                    id
                }
            };
        }
        state.directories.insert(below.to_vec(), directory);
        Ok(directory)
    }

    /// Writes what was found so far.
    fn write(&self, state: &mut Progress) -> Result<(), Error> {
        let catalog = self.task.catalog();
        catalog.begin()?;
        for (directory, name, change) in &state.changes {
            if let Err(error) = catalog.apply(self.root.id, *directory, name, change) {
                catalog.roll_back();
                return Err(error);
            }
        }
        state.changes.clear();
        catalog.commit()
    }

    /// Writes the rest, and finds what is missing if everything was met.
    fn finish(&self, complete: bool) -> Result<(), Failure> {
        let mut state = self.state();
        if let Some(failure) = state.failed.take() {
            return Err(failure);
        }
        self.write(&mut state)?;
        if complete && !state.incomplete {
            self.missing(&mut state)?;
            self.write(&mut state)?;
        }
        self.task.catalog().keep_replacements(self.root.id)?;
        Ok(())
    }

    fn missing(&self, state: &mut Progress) -> Result<(), Failure> {
        let mut after = Position::START;
        loop {
            let stale = self.task.catalog().stalest(self.root.id, &after, self.started, BATCH)?;
            let Some((last, _)) = stale.last() else { return Ok(()) };
            after = last.clone();
            for (Position { directory, name, .. }, record) in stale {
                if state.met.contains(&(directory, name.clone())) {
                    continue;
                }
                state.counts.missing += 1;
                let folder = self.task.catalog().path_in_root(directory)?;
                let path = folder.join(OsStr::from_bytes(&name));
                let now = values::now();
                if record.state != State::MISSING && !record.state.is_unforgiven() {
                    let finding = Finding { since: now, seen: now, read: None, detail: None };
                    self.task.catalog().lose(directory, OsStr::from_bytes(&name), &finding)?;
                }
                self.result("missing", path.as_os_str().as_bytes(), None, None);
            }
        }
    }

    /// Prints what is not as recorded.
    fn result(&self, outcome: &str, name: &[u8], digests: Option<(Sum, Sum)>, error: Option<String>) -> bool {
        let report = &self.task.report;
        report.worse(match outcome {
            "rot" | "missing" => Exit::Mismatch,
            "unverifiable" => Exit::Unchecked,
            _ => Exit::Clean,
        });
        if self.task.arguments.json {
            return report.json(&Line {
                host: self.place.host.name(),
                name: Name::of_bytes(name),
                outcome,
                recorded: digests.map(|(recorded, _)| recorded.to_string()),
                found: digests.map(|(_, found)| found.to_string()),
                error,
            });
        }
        let path = self.place.join(name);
        let mut full = self.place.host.prefix(self.place.shown(&path));
        full.extend_from_slice(self.place.shown(&path));
        let mut line = Vec::new();
        names::result_name(&mut line, OsStr::from_bytes(&full));
        line.extend_from_slice(format!(": {outcome}").as_bytes());
        if let Some(error) = error {
            line.extend_from_slice(format!(" ({error})").as_bytes());
        }
        line.push(b'\n');
        report.result(&line)
    }
}

/// Whether two times of modification are the same, as far as both are known: some ways tell whole seconds.
pub(super) fn is_same_time(one: i64, other: i64) -> bool {
    const SECOND: i64 = 1_000_000_000;
    let is_whole = |time: i64| time.rem_euclid(SECOND) == 0;
    one == other || ((is_whole(one) || is_whole(other)) && one.div_euclid(SECOND) == other.div_euclid(SECOND))
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    host: String,
    #[serde(flatten)]
    name: Name,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}
