//! `verisum accept`: records files as they are now.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::json;
use verisum::catalog::scrub::{self, Accept, Accepted, PlaceTree};
use verisum::catalog::store::{Catalog, is_address};
use verisum::files::Timestamp;
use verisum::files::place::PlaceEvent;
use verisum::remote::Address;

use super::report::{differences, state};
use crate::ui::PROGRAM;
use crate::ui::catalog::{CatalogArgs, absolute, absolute_name, address, with_name};
use crate::ui::exit::Exit;
use crate::ui::fact_line::FactLine;
use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HOSTS, HostArgs};
use crate::ui::names;
use crate::ui::progress::{self, ProgressArgs};
use crate::ui::{self, Output};

/// What `verisum accept` takes.
#[derive(Args, Debug)]
#[command(mut_arg("checksum_report", |report| report.hide(true)))]
pub(crate) struct AcceptArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    #[command(flatten)]
    pub(super) progress: ProgressArgs,

    /// Show what would be accepted, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Accept only that files are gone, and nothing that is bad or held
    #[arg(long)]
    only_missing: bool,

    /// Also accept files on file systems that are mounted below a tree
    #[arg(long)]
    cross_file_systems: bool,

    /// Print only what could not be accepted
    #[arg(short, long)]
    quiet: bool,

    /// Print a line of JSON for each file
    #[arg(long)]
    json: bool,

    /// Files, or directories with all bad, missing and held files below them. Name files on other machines by
    /// their addresses
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,
}

/// Accepts files.
pub(crate) fn run(arguments: &AcceptArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (_lock, catalog) = arguments.catalog.open_existing()?;
    let mut worst = Exit::Clean;
    for path in &arguments.paths {
        let path = match address(&catalog, path, false)? {
            Some(address) => address,
            None => {
                let named = absolute_name(path)?;
                if catalog.root_of(&named)?.is_some() { named } else { absolute(path)? }
            }
        };
        // How many are below a directory of a tree nobody knows before.
        if let Some(root) = catalog.root(&path)? {
            progress::expect_files(catalog.waiting(root.id)?);
        }
        let mut printed = Ok(());
        let mut refused = false;
        let mut report = |accepted: Accepted| {
            progress::steps_done(1);
            refused |= accepted.error.is_some();
            if printed.is_ok() {
                printed = print(&accepted, arguments, output);
            }
        };
        let what = Accept {
            path: &path,
            dry: arguments.dry_run,
            only_missing: arguments.only_missing,
            cross_file_systems: arguments.cross_file_systems,
            now: Timestamp::now(),
        };
        let found = match is_address(&path) {
            true => remote(&catalog, &what, arguments, &mut report),
            false => scrub::accept(&catalog, &what, &mut report).map_err(Failure::from),
        };
        printed?;
        let says = |message: &str| {
            ui::say(PROGRAM, &format!("{}: accept: {message}", names::quoted(path.as_os_str())));
        };
        match found {
            Ok(0) => {
                says("no file here has a problem");
                worst = worst.max(Exit::Unchecked);
            }
            Ok(_) if refused => worst = worst.max(Exit::Unchecked),
            Ok(_) => {}
            Err(failure) => {
                ui::say(PROGRAM, &failure.message());
                worst = worst.max(failure.exit());
            }
        }
    }
    Ok(worst)
}

/// Accepts files of another machine, by their address or that of a directory.
fn remote(
    catalog: &Catalog,
    what: &Accept,
    arguments: &AcceptArgs,
    report: &mut dyn FnMut(Accepted),
) -> Result<u64, Failure> {
    let root = catalog.root_of(what.path)?.map_or_else(|| what.path.to_path_buf(), |root| root.path);
    let Some(address) = Address::from_recorded(root.as_os_str().as_bytes()) else {
        return Err(Failure::Usage(format!("{}: no address of a host", root.display())));
    };
    let notes = |event: PlaceEvent| {
        match event {
            PlaceEvent::Way(_) if arguments.quiet => {}
            PlaceEvent::Note(text) | PlaceEvent::Way(text) => {
                ui::say(PROGRAM, &format!("{}: {text}", address.host.name()));
            }
            _ => {}
        }
        true
    };
    let mut place = hosts::place(&arguments.hosts.hosts(1)?, &address.host)?;
    let mut tree = PlaceTree { place: &mut *place, root: &address.path, notes: &notes };
    Ok(scrub::accept_tree(catalog, what, &mut tree, report)?)
}

fn print(accepted: &Accepted, arguments: &AcceptArgs, output: &mut Output) -> Result<(), Failure> {
    if let Some(error) = &accepted.error {
        let path = names::quoted(accepted.path.as_os_str());
        ui::say(PROGRAM, &format!("{path}: {}", names::plain(&error.to_string())));
        return Ok(());
    }
    if arguments.json {
        let line = json!({
            "was": accepted.state.name(),
            "algorithm": accepted.algorithm,
            "recorded": state(&accepted.old, &accepted.algorithm),
            "now": accepted.new.as_ref().map(|seen| state(seen, &accepted.algorithm)),
            "written": !arguments.dry_run,
        });
        return output.json("file", &with_name(line, &accepted.path));
    }
    if arguments.quiet {
        return Ok(());
    }
    let done = if arguments.dry_run { "would accept" } else { "accepted" };
    let path = names::quoted(accepted.path.as_os_str());
    let mut facts = vec![format!("was {}", accepted.state.name())];
    match &accepted.new {
        Some(new) => facts.extend(differences(&accepted.old, new, &accepted.algorithm)),
        None => facts
            .push(format!("{} {} recorded, gone now: forgotten", accepted.algorithm, accepted.old.digest)),
    }
    output.told(&FactLine { what: format!("{done}  {path}"), facts }, 0..done.len(), Exit::Clean)
}
