//! `verisum parity repair`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use verisum::mend::repair::Taken;
use verisum::parity::{FileVerdict, Finding, RepairOptions, USUAL_PLACE};

use super::TreeArgs;
use super::report::{RepairedTotals, Reporter};
use crate::ui::Output;
use crate::ui::catalog::{CatalogArgs, absolute, require_own_way};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::repairs::Recorder;

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
    catalog: CatalogArgs,

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
    require_own_way(tree)?;
    let mut recorder = recorder(&arguments.catalog, tree, options.dry_run)?;
    // A PAR2 file is itself the source, and its files are beside it.
    let (top, parity) = match is_par2 {
        true => (absolute(tree)?.parent().unwrap_or(Path::new("/")).to_path_buf(), absolute(tree)?),
        false => (absolute(tree)?, absolute(&to.clone().unwrap_or_else(|| tree.join(USUAL_PLACE)))?),
    };
    let done = arguments.tree.watch((&progress, &ending), || {
        let report = &mut |finding| {
            if let Finding::File(file) = &finding
                && let FileVerdict::Repaired { bytes, ranges } = &file.verdict
            {
                let taken = Taken { from: parity.clone(), bytes: *bytes, ranges: Some(ranges.clone()) };
                recorder.take(top.join(&file.path), None, vec![taken]);
            }
            reporter.take(finding);
        };
        match is_par2 {
            true => verisum::parity::repair_par2(tree, &options, report),
            false => verisum::parity::repair(tree, to.as_deref(), &options, report),
        }
    })?;
    recorder.end()?;
    reporter.end(&RepairedTotals::new(&done, options.dry_run))
}

/// What records the repairs; nothing in a dry run.
fn recorder(catalog: &CatalogArgs, tree: &Path, dry: bool) -> Result<Recorder, Failure> {
    match dry {
        true => Ok(Recorder::none()),
        false => Recorder::new(catalog, &absolute(tree)?),
    }
}
