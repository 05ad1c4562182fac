//! `verisum parity verify`.

use clap::Args;
use verisum::parity::VerifyOptions;

use super::TreeArgs;
use super::report::{Reporter, VerifiedTotals};
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;

/// What `verisum parity verify` takes.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    tree: TreeArgs,
}

pub(super) fn run(arguments: &VerifyArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options = VerifyOptions::default();
    options.threads = arguments.tree.threads(options.threads)?;
    let TreeArgs { tree, to, json, .. } = &arguments.tree;
    let mut reporter = Reporter::new(*json, output);
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
    reporter.end(&VerifiedTotals::new(&found))
}
