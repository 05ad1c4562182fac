//! Repairs what a catalogue knows to be bad, for the commands, and finishes repairs in place that were interrupted.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum::catalog::store::{Catalog, State};
use verisum::files::Stop;
use verisum::mend::repair::{self, Finished, RepairSummary, Repaired, Source};
use verisum::remote::Address;

use crate::ui::failure::Failure;
use crate::ui::hosts::{self, HostArgs};
use crate::ui::repair_commands::RepairCommands;
use crate::ui::repair_report::RepairReport;
use crate::ui::sizes::human;
use crate::ui::{self, PROGRAM, names, progress};

/// Repairs the files of a path, in whichever place its tree is.
pub(crate) fn repair_wherever(
    catalog: &Catalog,
    path: &Path,
    (sources, hosts): (&mut [Source], &HostArgs),
    options: &repair::RepairOptions,
    telling: &mut RepairReport,
) -> Result<RepairSummary, Failure> {
    let report = &mut |file: &Repaired| telling.file(file);
    let root = catalog.root_of(path)?;
    // How many are below a directory nobody knows before.
    if let Some(root) = root.as_ref().filter(|root| root.path == path) {
        let troubles = catalog.recorded_troubles(root.id)?;
        let wanted = troubles.iter().filter(|(state, _)| !options.except_missing || *state != State::MISSING);
        progress::expect_files(wanted.map(|(_, count)| count).sum());
    }
    let address = root.and_then(|root| Address::from_recorded(root.path.as_os_str().as_bytes()));
    let Some(address) = address else {
        return Ok(repair::repair(catalog, path, sources, options, report)?);
    };
    let is_distant = |source: &&Source| source.is_counterpart && !source.place.is_here();
    let reached = hosts.hosts(1 + sources.iter().filter(is_distant).count())?;
    let mut place = hosts::place(&reached, &address.host)?;
    Ok(repair::repair_there(catalog, path, (&mut *place, &address.path), sources, options, report)?)
}

/// Finishes a repair in place that was interrupted, before anything looks at the file. Where it cannot be finished now
/// returns the file, which nothing is to look at meanwhile, and why.
pub(crate) fn finish_in_place(
    catalog: &Catalog,
    commands: &RepairCommands,
    stop: &Stop,
) -> Result<Option<(PathBuf, String)>, Failure> {
    let say =
        |path: &Path, what: &str| ui::say(PROGRAM, &format!("{}: {what}", names::quoted(path.as_os_str())));
    match repair::finish_in_place(catalog, stop)? {
        Some(Finished::Repaired { path, bytes }) => {
            say(&path, &format!("finished an interrupted repair of {}", human(bytes)));
        }
        Some(Finished::Left { path, why }) => {
            say(&path, &format!("an interrupted repair was given up: {why}"));
        }
        Some(Finished::Waits { path, journal, why, is_in_use }) => {
            let command = commands.repair(&path);
            let given_up = names::quoted(journal.as_os_str());
            let what =
                if is_in_use { "finishes it then" } else { "finishes it, or puts a new file in its place" };
            say(&path, &format!("{why} (`{command}` {what}; to give it up, remove {given_up})"));
            return Ok(Some((path, why.to_string())));
        }
        _ => {}
    }
    Ok(None)
}
