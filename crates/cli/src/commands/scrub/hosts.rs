//! `verisum scrub` of trees on other machines, against the catalogue of this one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use verisum::catalog::scrub::{self, PlaceTree, Summary};
use verisum::catalog::store::{Catalog, Root};
use verisum::files::place::PlaceEvent;
use verisum::remote::{Address, Host, Hosts};

use super::metrics::Reason;
use super::report::{Reporter, Style};
use super::run::{ScrubArgs, exit};
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, OnHost};
use crate::ui::{self, Output, names};

struct Task<'a, 'o> {
    arguments: &'a ScrubArgs,
    scrub: &'a scrub::Options,
    hosts: Hosts,
    catalog: Mutex<Catalog>,
    /// Who has it may write.
    turn: Mutex<()>,
    output: Mutex<&'o mut Output>,
    done: Mutex<Vec<(PathBuf, Result<Summary, Reason>)>>,
    worst: Mutex<Exit>,
    broken: Mutex<Result<(), Failure>>,
}

/// What was found.
pub(super) struct Scrubbed {
    /// In each tree.
    pub(super) summaries: Vec<(PathBuf, Result<Summary, Reason>)>,
    /// The worst of it.
    pub(super) worst: Exit,
    /// Whether all of it could be printed.
    pub(super) printed: Result<(), Failure>,
}

/// Scrubs trees on hosts, some hosts at once. Nothing else may write to the catalogue meanwhile.
pub(super) fn scrub_places(
    arguments: &ScrubArgs,
    places: &[OnHost],
    catalog: &Catalog,
    options: &scrub::Options,
    output: &mut Output,
) -> Result<Scrubbed, Failure> {
    catalog.require_writable()?;
    catalog.require_sound()?;
    let task = Task {
        arguments,
        scrub: options,
        hosts: arguments.hosts.hosts(places.len())?,
        catalog: Mutex::new(catalog.again()?),
        turn: Mutex::new(()),
        output: Mutex::new(output),
        done: Mutex::default(),
        worst: Mutex::new(Exit::Clean),
        broken: Mutex::new(Ok(())),
    };
    hosts::each(places, arguments.many.at_once(), &|on| task.host(on));
    let _ = lock(&task.catalog).checkpoint();
    let Task { done, worst, broken, .. } = task;
    let mut summaries = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    summaries.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(Scrubbed {
        summaries,
        worst: worst.into_inner().unwrap_or_else(PoisonError::into_inner),
        printed: broken.into_inner().unwrap_or_else(PoisonError::into_inner),
    })
}

/// Fails for places that no catalogue can know again.
pub(super) fn check(places: &[OnHost]) -> Result<(), Failure> {
    for place in places.iter().flat_map(|on| &on.places) {
        if place.host == Host::Local {
            return Err(Failure::Usage("local: trees of this machine are named by their paths".to_string()));
        }
        if place.path.split(|byte| *byte == b'/').any(|part| part == b"..") {
            let value = path(place).to_string_lossy().into_owned();
            let must = "must be without `..`: the catalogue knows a tree by its path".to_string();
            return Err(Failure::Value { option: "PLACE", value, must });
        }
    }
    Ok(())
}

/// The places, each once, and the recorded trees below them, which have records of their own; with `all_recorded` all
/// recorded trees of hosts.
pub(super) fn with_recorded(typed: &[OnHost], roots: &[Root], all_recorded: bool) -> Vec<OnHost> {
    let recorded = || {
        let remote = roots.iter().filter(|root| root.is_remote());
        remote.filter_map(|root| Some((root, Address::of_address(root.path.as_os_str().as_bytes())?)))
    };
    let mut all: Vec<OnHost> = Vec::new();
    let mut add = |place: &Address| {
        let at = match all.iter().position(|on| on.host == place.host) {
            Some(at) => at,
            None => {
                all.push(OnHost { host: place.host.clone(), places: Vec::new() });
                all.len() - 1
            }
        };
        if !all[at].places.iter().any(|known| known.path == place.path) {
            all[at].places.push(place.clone());
        }
    };
    if all_recorded {
        recorded().for_each(|(_, place)| add(&place));
    }
    for place in typed.iter().flat_map(|on| &on.places) {
        add(place);
        let address = path(place);
        recorded().filter(|(root, _)| root.path.starts_with(&address)).for_each(|(_, place)| add(&place));
    }
    all
}

impl Task<'_, '_> {
    fn host(&self, on: &OnHost) {
        let host = on.host.name();
        let is_quiet = matches!(self.arguments.results.style(), Style::Quiet | Style::Nothing);
        let say = |message: &str| {
            if !is_quiet {
                self.say(&format!("{host}: {message}"));
            }
        };
        let notes = |event: PlaceEvent| {
            if let PlaceEvent::Note(text) | PlaceEvent::Way(text) = event {
                say(&text);
            }
            true
        };
        let mut opened = hosts::place(&self.hosts, &on.host);
        for place in &on.places {
            let scrubbed = match &mut opened {
                Ok(opened) => {
                    self.place(PlaceTree { place: opened, root: &place.path, notes: &notes }, place)
                }
                Err(failure) => Err(Failure::Program { name: on.host.name(), why: failure.message() }),
            };
            if let Err(failure) = scrubbed {
                self.worse(failure.exit());
                self.say(&failure.message());
                lock(&self.done).push((path(place), Err(Reason::of(&failure))));
            }
        }
    }

    fn place(&self, mut tree: PlaceTree, place: &Address) -> Result<(), Failure> {
        let address = path(place);
        let mut catalog = {
            let catalog = lock(&self.catalog);
            if let Some(other) = almost(&catalog.roots()?, &address) {
                let (address, other) = (names::quoted(address.as_os_str()), names::quoted(other.as_os_str()));
                let why = "users and ports are part of addresses: this is another tree";
                self.say(&format!("{address}: {other} is recorded, and {why}"));
            }
            catalog.again()?
        };
        let results = &self.arguments.results;
        let reporter = Reporter::new(&self.output, results.style(), results.failing(), false);
        let reporter = Mutex::new(reporter.of_host(&place.host.name()));
        let mut report = |report| lock(&reporter).file(&report);
        let ended =
            scrub::scrub_tree(&mut catalog, &address, (self.scrub, &self.turn), &mut tree, &mut report);
        let mut reporter = reporter.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ended = match ended {
            Ok(summary) => {
                self.worse(exit(&summary, results.failing()));
                reporter.summary(&summary);
                lock(&self.done).push((address, Ok(summary)));
                Ok(())
            }
            Err(error) => {
                let failure = Failure::from(error);
                reporter.failed(&address, &failure.message());
                Err(failure)
            }
        };
        if let Err(failure) = reporter.end() {
            *lock(&self.broken) = Err(failure);
        }
        ended
    }

    fn worse(&self, exit: Exit) {
        let mut worst = lock(&self.worst);
        *worst = (*worst).max(exit);
    }

    /// Says something after all results that were before it.
    fn say(&self, message: &str) {
        if let Err(failure) = lock(&self.output).flush() {
            *lock(&self.broken) = Err(failure);
        }
        ui::say(PROGRAM, message);
    }
}

/// The address of a place.
pub(super) fn path(place: &Address) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&place.address()))
}

/// A recorded tree that a new one differs from by nothing but the user or the port.
fn almost(roots: &[Root], address: &Path) -> Option<PathBuf> {
    let bare = |address: &Path| {
        let place = Address::of_address(address.as_os_str().as_bytes())?;
        let Host::Ssh { destination, .. } = place.host else { return None };
        let host = destination.rsplit_once('@').map_or(&destination[..], |(_, host)| host).to_string();
        Some((host, place.path))
    };
    if roots.iter().any(|root| address.starts_with(&root.path)) {
        return None;
    }
    let same = roots.iter().filter(|root| root.is_remote()).find(|root| bare(&root.path) == bare(address));
    same.map(|root| root.path.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
