//! Scrubs trees of this machine and of other places, against the catalogue of this machine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use verisum::catalog::scrub::{self, PlaceTree, ScrubOptions, ScrubSummary};
use verisum::catalog::store::{Catalog, Root};
use verisum::files::place::{LocalPlace, PlaceEvent};
use verisum::files::{Entry, Order, Verdict, VerdictClass, Walk, WalkOptions, lock};
use verisum::remote::{Address, Host, Hosts};

use super::metrics::Reason;
use super::report::{ScrubReporter, ScrubStyle};
use super::run::{ScrubArgs, exit};
use super::{health, parity};
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, ObjectReading, OnHost};
use crate::ui::progress::Total;
use crate::ui::repair_commands::{Remedies, Remedy};
use crate::ui::{self, Output, names, progress};

/// The trees of a run: those of this machine first, one after the other, then those of hosts, some hosts at once.
/// One that cannot be scrubbed does not keep the others from it, unless it is the catalogue that is damaged.
pub(super) struct Trees<'a, 'o> {
    arguments: &'a ScrubArgs,
    /// Who has it may write.
    turn: Mutex<()>,
    output: Mutex<&'o mut Output>,
    done: Mutex<Vec<ScrubbedTree>>,
    worst: Mutex<Exit>,
    /// The first damaged files of parity, for Nagios.
    damaged_parity: Mutex<Vec<String>>,
    broken: Mutex<Result<(), Failure>>,
    /// Why the catalogue is not to be used any more.
    damage: Mutex<Option<Failure>>,
}

/// A tree, and what was found in it.
type ScrubbedTree = (PathBuf, Result<ScrubSummary, Reason>);

impl<'a, 'o> Trees<'a, 'o> {
    pub(super) fn new(arguments: &'a ScrubArgs, output: &'o mut Output) -> Trees<'a, 'o> {
        Trees {
            arguments,
            turn: Mutex::new(()),
            output: Mutex::new(output),
            done: Mutex::default(),
            worst: Mutex::new(Exit::Clean),
            damaged_parity: Mutex::default(),
            broken: Mutex::new(Ok(())),
            damage: Mutex::default(),
        }
    }

    /// Scrubs directories of this machine. Fails if the catalogue is damaged.
    pub(super) fn here(
        &self,
        directories: &[PathBuf],
        catalog: &mut Catalog,
        options: &mut ScrubOptions,
    ) -> Result<(), Failure> {
        let wanted = self.arguments.reading.progress();
        let results = &self.arguments.results;
        let reporter = ScrubReporter::new(&self.output, results.style(), results.failing());
        let reporter = Mutex::new(reporter.with_commands(self.arguments.repair_commands()));
        let told = options.progress.clone();
        let total = total(directories, catalog, options);
        progress::of_files(wanted, total, &told, || {
            for directory in directories {
                if options.stop.is_due() || lock(&self.damage).is_some() {
                    break;
                }
                if let Ok(root) = Entry::followed(directory) {
                    options.order = self.arguments.order.of_walk(&root, Order::Directory);
                }
                let mut place = LocalPlace::default();
                let root = directory.as_os_str().as_bytes();
                let mut tree = PlaceTree { place: &mut place, root, notes: &|_| true };
                self.tree(directory, catalog, options, &mut tree, &reporter);
            }
        });
        self.printed(reporter);
        self.sound()
    }

    /// Scrubs trees on hosts. Nothing else may write to the catalogue meanwhile. Fails if it is damaged.
    pub(super) fn there(
        &self,
        places: &[OnHost],
        catalog: &Catalog,
        options: &ScrubOptions,
    ) -> Result<(), Failure> {
        let at_once = self.arguments.threads.number()?.is_some().then_some(options.threads);
        let reading = ObjectReading { limits: options.limits.clone(), at_once };
        let hosts = self.arguments.hosts.hosts_with_report(places.len(), reading)?;
        let before = lock(&self.done).len();
        let shared = Mutex::new(catalog.again()?);
        hosts::each(places, self.arguments.many.at_once(), &|on| self.host(on, &hosts, &shared, options));
        self.sound()?;
        let _ = lock(&shared).checkpoint();
        if let Some(costs) = self.arguments.hosts.costs() {
            match self.arguments.results.style() {
                ScrubStyle::Json => lock(&self.output).json("costs", &costs)?,
                ScrubStyle::Quiet | ScrubStyle::Nothing => (),
                _ => self.say(&costs.text()),
            }
        }
        lock(&self.done)[before..].sort_by(|one, other| one.0.cmp(&other.0));
        Ok(())
    }

    /// What was found in each tree, the worst of it, the first damaged files of parity, and whether all could be printed.
    pub(super) fn end(self) -> (Vec<ScrubbedTree>, Exit, Vec<String>, Result<(), Failure>) {
        let Trees { done, worst, damaged_parity, broken, .. } = self;
        (
            done.into_inner().unwrap_or_else(PoisonError::into_inner),
            worst.into_inner().unwrap_or_else(PoisonError::into_inner),
            damaged_parity.into_inner().unwrap_or_else(PoisonError::into_inner),
            broken.into_inner().unwrap_or_else(PoisonError::into_inner),
        )
    }

    fn host(&self, on: &OnHost, hosts: &Hosts, catalog: &Mutex<Catalog>, options: &ScrubOptions) {
        let mut options = options.clone();
        if on.is_bucket() {
            // It keeps to the limits itself.
            options.limits = None;
        }
        let notes = |event: PlaceEvent| {
            match (event, self.arguments.results.style()) {
                (_, ScrubStyle::Nothing) | (PlaceEvent::Way(_), ScrubStyle::Quiet) => {}
                (PlaceEvent::Note(text) | PlaceEvent::Way(text), _) => {
                    self.say(&format!("{}: {}", on.host.name(), names::plain(&text)));
                }
                _ => {}
            }
            true
        };
        let mut opened = hosts::place(hosts, &on.host);
        for address in &on.places {
            if lock(&self.damage).is_some() {
                break;
            }
            let path = path(address);
            let ready = opened.as_mut().map_err(|failure| {
                let why = hosts::without_name(&on.host, failure);
                Failure::Program { name: on.host.name(), why }
            });
            let ready = ready.and_then(|opened| Ok((opened, self.own(catalog, &path)?)));
            let (opened, mut catalog) = match ready {
                Ok(ready) => ready,
                Err(failure) => {
                    self.failed(&path, &failure);
                    continue;
                }
            };
            let results = &self.arguments.results;
            let reporter = ScrubReporter::new(&self.output, results.style(), results.failing());
            let reporter = reporter.with_commands(self.arguments.repair_commands());
            let reporter = Mutex::new(reporter.of_host(&on.host.name()));
            let mut tree = PlaceTree { place: &mut **opened, root: &address.path, notes: &notes };
            self.tree(&path, &mut catalog, &options, &mut tree, &reporter);
            self.printed(reporter);
        }
    }

    /// A connection of its own for a tree, which is named if it is almost one that is recorded.
    fn own(&self, catalog: &Mutex<Catalog>, address: &Path) -> Result<Catalog, Failure> {
        let catalog = lock(catalog);
        if let Some(other) = almost(&catalog.roots()?, address) {
            let (address, other) = (names::quoted(address.as_os_str()), names::quoted(other.as_os_str()));
            let why = "users and ports are part of addresses: this is another tree";
            self.say(&format!("{address}: {other} is recorded, and {why}"));
        }
        Ok(catalog.again()?)
    }

    fn tree(
        &self,
        path: &Path,
        catalog: &mut Catalog,
        options: &ScrubOptions,
        tree: &mut PlaceTree,
        reporter: &Mutex<ScrubReporter>,
    ) {
        // What cannot be printed any more is an error at the end; the run is of use without it.
        let mut report = |report| lock(reporter).file(&report);
        match scrub::scrub_tree(catalog, path, (options, &self.turn), tree, &mut report) {
            Ok(mut summary) => {
                self.keep_reach(path, catalog);
                if !summary.interrupted {
                    self.parity(catalog, options, &mut summary, reporter);
                }
                self.worse(exit(&summary, self.arguments.results.failing()));
                // Other trees may have copies, which are known when all are read; a program reads on meanwhile.
                let is_now = self.arguments.results.style() == ScrubStyle::Json;
                let commands = self.arguments.repair_commands();
                let mut remedies = Remedies::new(catalog, &commands).without(options.excludes.as_deref());
                let remedy =
                    if is_now { remedy(self.arguments, catalog, &summary, &mut remedies) } else { None };
                lock(reporter).summary(&summary, remedy.as_ref());
                lock(&self.done).push((path.to_path_buf(), Ok(summary)));
            }
            Err(error) => {
                let failure = Failure::from(error);
                lock(reporter).failed(path, &failure.message());
                match failure.is_damaged_catalog() {
                    true => *lock(&self.damage) = Some(failure),
                    false => self.failed(path, &failure),
                }
            }
        }
    }

    /// Verifies the parity of a tree.
    fn parity(
        &self,
        catalog: &Catalog,
        options: &ScrubOptions,
        summary: &mut ScrubSummary,
        reporter: &Mutex<ScrubReporter>,
    ) {
        let mut damaged = 0;
        let named = self.arguments.named_parity();
        parity::verify(catalog, options, summary, named.as_ref(), &mut |found| match found {
            Ok(found) => {
                damaged += 1;
                lock(reporter).parity(&found);
                let mut lines = lock(&self.damaged_parity);
                if lines.len() < health::NAMED {
                    lines.push(found.line_without_pipes());
                }
            }
            Err(failure) => {
                self.worse(failure.exit());
                self.say(&failure.message());
            }
        });
        summary.damaged_parity = damaged;
    }

    /// Keeps how a tree of another place was reached. Who writes to the catalogue at once with others waits for his turn.
    fn keep_reach(&self, path: &Path, catalog: &Catalog) {
        let turn = lock(&self.turn);
        let kept = catalog.root_of(path).and_then(|root| match root.filter(Root::is_remote) {
            Some(root) => catalog.set_options(&root, &self.arguments.hosts.reach().words()),
            None => Ok(()),
        });
        drop(turn);
        if let Err(error) = kept {
            self.say(&Failure::from(error).message());
        }
    }

    fn failed(&self, path: &Path, failure: &Failure) {
        self.worse(failure.exit());
        self.say(&failure.message());
        lock(&self.done).push((path.to_path_buf(), Err(Reason::of(failure))));
    }

    /// Fails if the catalogue turned out to be damaged: what it says of any tree may be wrong.
    fn sound(&self) -> Result<(), Failure> {
        lock(&self.output).found(*lock(&self.worst));
        lock(&self.damage).take().map_or(Ok(()), Err)
    }

    fn printed(&self, reporter: Mutex<ScrubReporter>) {
        if let Err(failure) = reporter.into_inner().unwrap_or_else(PoisonError::into_inner).end() {
            *lock(&self.broken) = Err(failure);
        }
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

/// What mends a tree, where something in it is bad or missing. An alarm comes first: so much may
/// have changed on purpose. None where the run repairs by itself.
pub(super) fn remedy(
    arguments: &ScrubArgs,
    catalog: &Catalog,
    summary: &ScrubSummary,
    remedies: &mut Remedies,
) -> Option<Remedy> {
    // What is missing for long was named when it went, and may be meant to be gone.
    let is_bad =
        Verdict::ALL.iter().any(|one| one.class() >= VerdictClass::Unchecked && summary.count(*one) > 0);
    if arguments.repair || summary.alarm.is_some() || !is_bad && summary.count(Verdict::Missing) == 0 {
        return None;
    }
    let root = catalog.root_of(&summary.root).ok()??;
    let remedy = remedies.of(&root).ok()?;
    remedy.filter(|remedy| is_bad || remedy.is_known())
}

/// How much there is to read, beside what the catalogue tells of: what is in trees that no run came to the end of.
fn total(directories: &[PathBuf], catalog: &Catalog, options: &ScrubOptions) -> Total {
    let is_in_part = options.budget.is_some() || options.sample < 1.0 || options.shuffle;
    let Ok(roots) = catalog.roots() else { return Total::Unknown };
    let is_read = |path: &Path| match catalog.root_of(path) {
        Ok(Some(root)) if root.path == path => catalog.was_complete(root.id).unwrap_or(true),
        Ok(Some(_)) => true,
        Ok(None) | Err(_) => false,
    };
    let unread: Vec<PathBuf> = directories.iter().filter(|path| !is_read(path)).cloned().collect();
    // What is recorded as a tree of its own is told of where it is scrubbed.
    let has_others =
        |path: &PathBuf| roots.iter().any(|root| root.path != *path && root.path.starts_with(path));
    if is_in_part || unread.is_empty() || unread.iter().any(has_others) {
        return Total::Unknown;
    }
    let mut walk = WalkOptions::default();
    walk.one_file_system = options.one_file_system;
    walk.excludes = options.excludes.clone();
    Total::walked(Walk::new(unread, walk))
}

/// Fails for places that no catalogue can know again.
pub(super) fn check(places: &[OnHost]) -> Result<(), Failure> {
    for place in places.iter().flat_map(|on| &on.places) {
        if let Err(why) = place.recorded() {
            return Err(match place.host {
                Host::Local => Failure::Usage(format!("local: {why}")),
                _ => Failure::value("PLACE", path(place).to_string_lossy(), why.to_string()),
            });
        }
    }
    Ok(())
}

/// The places, each once, and the recorded trees below them, which have records of their own; with `all_recorded` all
/// recorded trees of hosts.
pub(super) fn with_recorded(typed: &[OnHost], roots: &[Root], all_recorded: bool) -> Vec<OnHost> {
    let recorded = || {
        let remote = roots.iter().filter(|root| root.is_remote());
        remote.filter_map(|root| Some((root, Address::from_recorded(root.path.as_os_str().as_bytes())?)))
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

/// The address of a place.
pub(super) fn path(place: &Address) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&place.address()))
}

/// A recorded tree that a new one differs from by nothing but the user or the port.
fn almost(roots: &[Root], address: &Path) -> Option<PathBuf> {
    let bare = |address: &Path| {
        let place = Address::from_recorded(address.as_os_str().as_bytes())?;
        let Host::Ssh { destination, .. } = place.host else { return None };
        let host = destination.rsplit_once('@').map_or(&destination[..], |(_, host)| host).to_string();
        Some((host, place.path))
    };
    if roots.iter().any(|root| address.starts_with(&root.path)) {
        return None;
    }
    // Buckets have neither.
    let wanted = bare(address)?;
    let same =
        roots.iter().filter(|root| root.is_remote()).find(|root| bare(&root.path).as_ref() == Some(&wanted));
    same.map(|root| root.path.clone())
}
