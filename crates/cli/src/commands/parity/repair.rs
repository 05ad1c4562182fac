//! `verisum parity repair`: repairs files and parity.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use verisum::mend::repair::Taken;
use verisum::parity::{FileVerdict, Finding, ParityError, ParityLocation, ParityRepairOptions, USUAL_PLACE};

use super::ParityTreeArgs;
use super::report::{ParityReporter, repaired_totals};
use crate::ui::Output;
use crate::ui::catalog::{CatalogArgs, absolute, own_way};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::repair_recorder::RepairRecorder;

/// What `verisum parity repair` takes.
#[derive(Args, Debug)]
pub(crate) struct ParityRepairArgs {
    /// Print what could be repaired, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Also restore files that somebody wrote to since their parity was made
    #[arg(long)]
    changed: bool,

    /// Keep a copy of each bad file in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    keep_bad: Option<PathBuf>,

    /// Repair only this file, by its path from DIR, and read only its sets; may be repeated
    #[arg(long, value_name = "PATH")]
    only: Vec<PathBuf>,

    /// Read only these sets, which `verify` names: 3,7. Without --in-place, files that are bad in them are read whole
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    sets: Vec<u64>,

    /// Write the lost parts into the bad files, for files that are too large to copy
    #[arg(long)]
    in_place: bool,

    #[command(flatten)]
    catalog: CatalogArgs,

    #[command(flatten)]
    tree: ParityTreeArgs,
}

pub(super) fn run(arguments: ParityRepairArgs, output: &mut Output) -> Result<Exit, Failure> {
    arguments.tree.require_local(arguments.keep_bad.as_ref())?;
    let mut options = ParityRepairOptions::default();
    options.threads = arguments.tree.threads.or_cores()?;
    options.dry_run = arguments.dry_run;
    options.changed = arguments.changed;
    options.keep_bad = arguments.keep_bad;
    options.only = arguments.only;
    options.sets = arguments.sets;
    options.in_place = arguments.in_place;
    let (folder, buckets) = arguments.tree.parity()?;
    let ParityTreeArgs { tree, to, .. } = &arguments.tree;
    let ending = arguments.tree.ending(&mut options.stop)?;
    let is_par2 = arguments.tree.is_par2()?;
    // Parity that is damaged stays so in a PAR2 file.
    let foretells_parity = options.dry_run && !is_par2;
    let mut reporter = ParityReporter::new(&arguments.tree, output)
        .foretelling(options.dry_run, foretells_parity)
        .of_par2(is_par2);
    if is_par2 && options.changed {
        return Err(Failure::Usage("--changed is for DIR: PAR2 files record no times".to_string()));
    }
    let way = own_way(tree)?.leads;
    let mut recorder = RepairRecorder::new(&arguments.catalog, &way, &options.stop)?;
    // A PAR2 file is itself the source, and its files are beside it.
    let (top, parity) = match is_par2 {
        true => (way.parent().unwrap_or(Path::new("/")).to_path_buf(), way.clone()),
        false => {
            let named = match (&folder, to.as_deref()) {
                (ParityLocation::Place { name, .. }, _) => name.clone(),
                (_, Some(to)) => absolute(to)?,
                (_, None) => way.join(USUAL_PLACE),
            };
            (way.clone(), named)
        }
    };
    if is_par2 && (options.in_place || !options.sets.is_empty()) {
        return Err(Failure::Usage("--in-place and --sets are for DIR, not for a PAR2 file".to_string()));
    }
    let mut still_bad = 0;
    let mut done = arguments.tree.watch((&options.progress, &ending), || {
        let report = &mut |mut finding| {
            if let Finding::File(file) = &mut finding
                && let FileVerdict::Repaired { bytes, ranges, .. } | FileVerdict::Finished { bytes, ranges } =
                    &file.verdict
                && !options.dry_run
            {
                let taken = Taken { from: parity.clone(), bytes: *bytes, ranges: Some(ranges.clone()) };
                let path = top.join(&file.path);
                let is_part = matches!(file.verdict, FileVerdict::Repaired { unread_sets: 1.., .. });
                if recorder.take((path.clone(), is_part), None, vec![taken]) && is_part {
                    let what =
                        "repaired in the sets that --sets names, but still not as the catalogue recorded";
                    file.verdict = FileVerdict::NotRepaired(ParityError::Damaged { path, what });
                    still_bad += 1;
                }
            }
            if let Finding::File(file) = &mut finding
                && (options.dry_run && options.in_place && !options.sets.is_empty())
                && let FileVerdict::Damaged { bytes, can_be_repaired: true } = file.verdict
                && recorder.knows(&top.join(&file.path))
                && let Ok((folder, _)) = arguments.tree.parity()
                && bad_bytes(&way, folder, &options, &file.path) > bytes
            {
                let path = top.join(&file.path);
                let what = "--sets does not name all sets in which it is bad";
                file.verdict = FileVerdict::NotRepaired(ParityError::Damaged { path, what });
                still_bad += 1;
            }
            reporter.take(finding);
        };
        match is_par2 {
            true => verisum::parity::repair_par2(&way, &options, report),
            false => verisum::parity::repair(&way, folder, &options, report),
        }
    })?;
    done.repaired -= still_bad;
    done.not_repaired += still_bad;
    recorder.end()?;
    reporter.end(&repaired_totals(&done, options.dry_run), buckets.costs())
}

/// How many bytes of a file are bad in all its sets, named or not.
fn bad_bytes(tree: &Path, parity: ParityLocation, options: &ParityRepairOptions, file: &Path) -> u64 {
    let mut options = options.clone();
    (options.sets, options.only) = (Vec::new(), vec![file.to_path_buf()]);
    let mut bad = 0;
    let looked = verisum::parity::repair(tree, parity, &options, &mut |finding| {
        if let Finding::File(file) = finding
            && let FileVerdict::Damaged { bytes, .. } = file.verdict
        {
            bad += bytes;
        }
    });
    looked.map_or(0, |_| bad)
}
