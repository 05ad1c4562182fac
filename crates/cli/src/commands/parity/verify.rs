//! `verisum parity verify`: compares files and parity with the recorded digests.

use clap::Args;
use verisum::parity::ParityVerifyOptions;

use super::ParityTreeArgs;
use super::report::{ParityReporter, verified_totals};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{self, Output, bad_file, shell};

/// What `verisum parity verify` takes.
#[derive(Args, Debug)]
pub(crate) struct ParityVerifyArgs {
    #[command(flatten)]
    tree: ParityTreeArgs,
}

pub(super) fn run(arguments: &ParityVerifyArgs, output: &mut Output) -> Result<Exit, Failure> {
    arguments.tree.require_local(None)?;
    let mut options = ParityVerifyOptions::default();
    options.threads = arguments.tree.threads.or_cores()?;
    let (folder, buckets) = arguments.tree.parity()?;
    let ParityTreeArgs { tree, to, json, stores, .. } = &arguments.tree;
    let ending = arguments.tree.ending(&mut options.stop)?;
    let is_par2 = arguments.tree.is_par2()?;
    let mut reporter = ParityReporter::new(&arguments.tree, output).of_par2(is_par2);
    let found = arguments.tree.watch((&options.progress, &ending), || {
        let report = &mut |finding| reporter.take(finding);
        match is_par2 {
            true => verisum::parity::verify_par2(tree, &options, report),
            false => verisum::parity::verify(tree, folder, &options, report),
        }
    })?;
    let parity_damaged = if is_par2 { 0 } else { found.parity_damaged };
    let can_be_repaired =
        found.damaged + found.missing + parity_damaged > found.beyond_repair + found.parity_lost;
    let exit = reporter.end(&verified_totals(&found, can_be_repaired), buckets.costs())?;
    if *json {
        return Ok(exit);
    }
    output.flush()?;
    let word = |path: &std::path::Path| shell::word(path.as_os_str().as_encoded_bytes());
    let to = to.as_deref().map_or(String::new(), |to| format!("--to {}{} ", word(to), stores.typed()));
    let advise = |what, verb| {
        bad_file::advise_mending(what, &format!("verisum parity {verb} {to}{}", word(tree)));
    };
    if can_be_repaired {
        // A new file is made of files all of whose sets are there.
        let is_partly_lost = found.parity_lost > 0 && found.damaged > 0;
        advise("mend it", if is_partly_lost { "repair --in-place" } else { "repair" });
    }
    if found.beyond_repair > 0 {
        ui::advise("of what is lost, copy some files back from elsewhere: parity may then repair the others");
    }
    // What is lost of the parity only new parity makes good; of files that are damaged there would be none.
    match (found.parity_lost > 0, can_be_repaired) {
        (true, true) => advise("then make the lost parity anew", "update"),
        (true, false) => advise("make the lost parity anew", "update"),
        (false, _) => {}
    }
    Ok(exit)
}
