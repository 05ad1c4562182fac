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
    let found = arguments.tree.watch(&progress, || {
        verisum::parity::verify(tree, to.as_deref(), &options, &mut |finding| reporter.take(finding))
    })?;
    reporter.end(&VerifiedTotals::new(&found))
}
