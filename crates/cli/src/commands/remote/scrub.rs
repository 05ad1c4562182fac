//! `verisum remote scrub`: trees of other machines against the catalogue of this one.
//!
//! What a file is, what becomes of its record and what is printed of it is the business of `verisum scrub`;
//! here is who is asked.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clap::{Args, ValueHint};
use verisum_tree::scrub::{self, Summary};
use verisum_tree::store::catalog::{Catalog, Root};

use super::far::{Far, Sessions};
use super::hosts::{self, HostArgs, ManyArgs, OnHost};
use crate::commands::reading::ExcludeArgs;
use crate::commands::scrub::metrics::Reason;
use crate::commands::scrub::report::{Reporter, Style};
use crate::commands::scrub::run::{exit, usual};
use crate::commands::scrub::{CatalogArgs, ResultArgs, values};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::kernel;
use crate::remote::{Folder, Host, Options, Place};
use crate::render::{self, Output, names};
use crate::verisum::PROGRAM;

/// What `verisum remote scrub` takes.
#[derive(Args, Debug)]
pub(crate) struct ScrubArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    /// The digest of new files; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    #[command(flatten)]
    excluded: ExcludeArgs,

    #[command(flatten)]
    results: ResultArgs,

    #[command(flatten)]
    hosts: HostArgs,

    #[command(flatten)]
    many: ManyArgs,

    /// HOST:DIR or ssh://HOST/DIR; with --hosts a path; without any, all trees of hosts in the catalogue
    #[arg(value_name = "PLACE", value_hint = ValueHint::Other)]
    places: Vec<OsString>,
}

struct Task<'a, 'o> {
    arguments: &'a ScrubArgs,
    scrub: scrub::Options,
    options: Options,
    folder: Option<&'a Folder>,
    catalog: Mutex<Catalog>,
    /// Who has it may write.
    turn: Mutex<()>,
    output: Mutex<&'o mut Output>,
    done: Mutex<Vec<(PathBuf, Result<Summary, Reason>)>>,
    worst: Mutex<Exit>,
    broken: Mutex<Result<(), Failure>>,
}

/// Does what `verisum remote scrub` was asked for.
pub(super) fn run(arguments: ScrubArgs, output: &mut Output) -> Result<Exit, Failure> {
    let ended = scrub_all(&arguments, output);
    let roots = || {
        let places = arguments.many.places(&arguments.places)?;
        Ok(places.iter().flat_map(|on| &on.places).map(path).collect())
    };
    arguments.results.ended(ended, &arguments.catalog, &roots, output)
}

fn scrub_all(arguments: &ScrubArgs, output: &mut Output) -> Result<Exit, Failure> {
    let digest = hosts::digest(&arguments.algorithm)?;
    let typed = arguments.many.places(&arguments.places)?;
    check(&typed)?;
    let (_lock, catalog) = match typed.is_empty() {
        true => arguments.catalog.open_existing()?,
        false => arguments.catalog.open()?,
    };
    arguments.results.refuse_own(&catalog)?;
    catalog.require_writable()?;
    catalog.require_sound()?;
    let places = with_recorded(typed, &catalog.roots()?);
    let (policy, now) = (kernel::policy()?, values::now());
    let scrub = usual(digest, &arguments.results, arguments.excluded.excludes()?, (policy, now))?;
    let folder = hosts::folder(places.iter().map(|on| &on.host))?;
    let task = Task {
        arguments,
        scrub,
        options: arguments.hosts.options(places.len())?,
        folder: folder.as_ref(),
        catalog: Mutex::new(catalog),
        turn: Mutex::new(()),
        output: Mutex::new(&mut *output),
        done: Mutex::default(),
        worst: Mutex::new(Exit::Clean),
        broken: Mutex::new(Ok(())),
    };
    hosts::each(&places, arguments.many.at_once(), &|on| task.host(on));
    let _ = lock(&task.catalog).checkpoint();
    let Task { scrub, done, worst, broken, .. } = task;
    broken.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    let (mut done, worst) = (
        done.into_inner().unwrap_or_else(PoisonError::into_inner),
        worst.into_inner().unwrap_or_else(PoisonError::into_inner),
    );
    done.sort_by(|one, other| one.0.cmp(&other.0));
    arguments.results.tell(&done, worst, &scrub, output)
}

/// Fails for places that no catalogue can know again.
fn check(places: &[OnHost]) -> Result<(), Failure> {
    for place in places.iter().flat_map(|on| &on.places) {
        if place.host == Host::Local {
            let why = "local: trees of this machine are scrubbed by `verisum scrub`";
            return Err(Failure::Usage(why.to_string()));
        }
        if place.path.split(|byte| *byte == b'/').any(|part| part == b"..") {
            let value = path(place).to_string_lossy().into_owned();
            let must = "must be without `..`: the catalogue knows a tree by its path".to_string();
            return Err(Failure::Value { option: "PLACE", value, must });
        }
    }
    Ok(())
}

/// The places, each once, and the recorded trees below them, which have records of their own; without any
/// place all recorded trees of hosts.
fn with_recorded(typed: Vec<OnHost>, roots: &[Root]) -> Vec<OnHost> {
    let recorded = || {
        let afar = roots.iter().filter(|root| root.is_afar());
        afar.filter_map(|root| Some((root, Place::of_address(root.path.as_os_str().as_bytes())?)))
    };
    let mut all: Vec<OnHost> = Vec::new();
    let mut add = |place: &Place| {
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
    if typed.is_empty() {
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
        let mut sessions = Sessions::new(&on.host, &self.options, self.folder, &say);
        for place in &on.places {
            if let Err(failure) = self.place(&mut sessions, place) {
                self.worse(failure.exit());
                self.say(&failure.message());
                lock(&self.done).push((path(place), Err(Reason::of(&failure))));
            }
        }
    }

    fn place(&self, sessions: &mut Sessions, place: &Place) -> Result<(), Failure> {
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
        let reporter = Reporter::new(&self.output, results.style(), results.archive, false);
        let reporter = Mutex::new(reporter.of_host(&place.host.name()));
        let mut far = Far { sessions, place, digest: &self.scrub.digest };
        let ended =
            scrub::scrub_afar(&mut catalog, &address, (&self.scrub, &self.turn), &mut far, &mut |report| {
                lock(&reporter).file(&report)
            });
        let mut reporter = reporter.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ended = match ended {
            Ok(summary) => {
                self.worse(exit(&summary, results.archive));
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
        render::say(PROGRAM, message);
    }
}

/// The address of a place.
fn path(place: &Place) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&place.address()))
}

/// A recorded tree that a new one differs from by nothing but the user or the port.
fn almost(roots: &[Root], address: &Path) -> Option<PathBuf> {
    let bare = |address: &Path| {
        let place = Place::of_address(address.as_os_str().as_bytes())?;
        let Host::Ssh { destination, .. } = place.host else { return None };
        let host = destination.rsplit_once('@').map_or(&destination[..], |(_, host)| host).to_string();
        Some((host, place.path))
    };
    if roots.iter().any(|root| address.starts_with(&root.path)) {
        return None;
    }
    let same = roots.iter().filter(|root| root.is_afar()).find(|root| bare(&root.path) == bare(address));
    same.map(|root| root.path.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
