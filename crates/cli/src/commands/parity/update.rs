//! `verisum parity update`.

use clap::Args;
use verisum::parity::UpdateOptions;

use super::ParityTreeArgs;
use super::report::{ParityReporter, made_totals};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;

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
    let mut options = UpdateOptions::default();
    options.accept_damage = arguments.accept_damage;
    options.accept_changes = arguments.accept_changes;
    options.threads = arguments.tree.threads(options.threads)?;
    let ParityTreeArgs { tree, to, json, .. } = &arguments.tree;
    let mut reporter = ParityReporter::new(*json, output);
    let progress = options.progress.clone();
    let ending = arguments.tree.ending(&mut options.stop)?;
    let made = arguments.tree.watch((&progress, &ending), || {
        verisum::parity::update(tree, to.as_deref(), &options, &mut |finding| reporter.take(finding))
    })?;
    reporter.end(&made_totals(&made))
}
