//! `verisum parity update`: renews the parity of changed files.

use clap::Args;
use verisum::parity::UpdateOptions;

use super::ParityTreeArgs;
use super::report::{ParityReporter, made_totals};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::values::counted;
use crate::ui::{self, Output, PROGRAM};

/// What `verisum parity update` takes.
#[derive(Args, Debug)]
pub(crate) struct ParityUpdateArgs {
    /// Accept damaged files that share a set with changed ones as they are now; their old content is lost
    #[arg(long)]
    accept_damage: bool,

    /// Renew the parity even if all files are gone, or more than half of them (and at least 100) changed or are gone
    #[arg(long)]
    accept_changes: bool,

    #[command(flatten)]
    tree: ParityTreeArgs,
}

pub(super) fn run(arguments: &ParityUpdateArgs, output: &mut Output) -> Result<Exit, Failure> {
    arguments.tree.require_directory("update")?;
    let mut options = UpdateOptions::default();
    options.accept_damage = arguments.accept_damage;
    options.accept_changes = arguments.accept_changes;
    options.threads = arguments.tree.threads.or_cores()?;
    let (folder, buckets) = arguments.tree.parity()?;
    let tree = &arguments.tree.tree;
    let mut reporter = ParityReporter::new(&arguments.tree, output);
    let ending = arguments.tree.ending(&mut options.stop)?;
    let made = arguments.tree.watch((&options.progress, &ending), || {
        verisum::parity::update(tree, folder, &options, &mut |finding| reporter.take(finding))
    })?;
    let exit = reporter.end(&made_totals(&made), buckets.costs())?;
    if made.sets_lost > 0 {
        let sets = counted(made.sets_lost, "lost set");
        let what = "nothing was compared: if a file is bad, its new parity is that of the bad content";
        ui::say(PROGRAM, &format!("the files of {sets} have new parity, and {what}"));
    }
    Ok(exit)
}
