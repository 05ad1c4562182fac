//! `verisum parity repair`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use verisum::parity::RepairOptions;

use super::TreeArgs;
use super::report::{RepairedTotals, Reporter};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;

/// What `verisum parity repair` takes.
#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    /// Print what could be mended, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Also bring back what files were that somebody wrote to since
    #[arg(long)]
    changed: bool,

    /// Keep a copy of each bad file in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    keep_bad: Option<PathBuf>,

    /// Read only the sets that have this file, by its path from DIR; may be repeated
    #[arg(long, value_name = "PATH")]
    only: Vec<PathBuf>,

    #[command(flatten)]
    tree: TreeArgs,
}

pub(super) fn run(arguments: RepairArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options = RepairOptions::default();
    options.threads = arguments.tree.threads(options.threads)?;
    options.dry_run = arguments.dry_run;
    options.changed = arguments.changed;
    options.keep_bad = arguments.keep_bad;
    options.only = arguments.only;
    let TreeArgs { tree, to, json, .. } = &arguments.tree;
    let mut reporter = Reporter::new(*json, output);
    let progress = options.progress.clone();
    let ending = arguments.tree.ending(&mut options.stop)?;
    let is_par2 = arguments.tree.is_par2()?;
    if is_par2 && options.changed {
        return Err(Failure::Usage("--changed is for DIR: PAR2 files record no times".to_string()));
    }
    let done = arguments.tree.watch((&progress, &ending), || {
        let report = &mut |finding| reporter.take(finding);
        match is_par2 {
            true => verisum::parity::repair_par2(tree, &options, report),
            false => verisum::parity::repair(tree, to.as_deref(), &options, report),
        }
    })?;
    reporter.end(&RepairedTotals::new(&done, options.dry_run))
}
