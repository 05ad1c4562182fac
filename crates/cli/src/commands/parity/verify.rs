//! `verisum parity verify`.

use clap::Args;
use verisum::parity::VerifyOptions;

use super::ParityTreeArgs;
use super::report::{ParityReporter, VerifiedTotals};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{Output, alarm, shell};

/// What `verisum parity verify` takes.
#[derive(Args, Debug)]
pub(crate) struct ParityVerifyArgs {
    #[command(flatten)]
    tree: ParityTreeArgs,
}

pub(super) fn run(arguments: &ParityVerifyArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options = VerifyOptions::default();
    options.threads = arguments.tree.threads(options.threads)?;
    let ParityTreeArgs { tree, to, json, .. } = &arguments.tree;
    let mut reporter = ParityReporter::new(*json, output);
    let progress = options.progress.clone();
    let ending = arguments.tree.ending(&mut options.stop)?;
    let is_par2 = arguments.tree.is_par2()?;
    let found = arguments.tree.watch((&progress, &ending), || {
        let report = &mut |finding| reporter.take(finding);
        match is_par2 {
            true => verisum::parity::verify_par2(tree, &options, report),
            false => verisum::parity::verify(tree, to.as_deref(), &options, report),
        }
    })?;
    let exit = reporter.end(&VerifiedTotals::new(&found))?;
    if !json && found.damaged + found.missing + found.parity_damaged > found.beyond_repair {
        output.flush()?;
        let word = |path: &std::path::Path| shell::word(path.as_os_str().as_encoded_bytes());
        let to = to.as_deref().map_or(String::new(), |to| format!("--to {} ", word(to)));
        alarm::advise_mending("mend it", &format!("verisum parity repair {to}{}", word(tree)));
    }
    Ok(exit)
}
