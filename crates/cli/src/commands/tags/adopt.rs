//! `verisum adopt`.

use clap::Args;
use verisum_tree::tags::{self, AdoptOptions};

use super::options::{Family, TreeArgs};
use super::report::Reporter;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::Output;

/// What `verisum adopt` takes.
#[derive(Args, Debug)]
pub(crate) struct AdoptArgs {
    /// Read each file and adopt only what is right
    #[arg(long)]
    verify: bool,

    #[command(flatten)]
    tree: TreeArgs,
}

pub(crate) fn run(arguments: AdoptArgs, output: &mut Output) -> Result<Exit, Failure> {
    let options = arguments.tree.options(Family::Verisum)?;
    let adopting = AdoptOptions { verify: arguments.verify };
    let mut walk = arguments.tree.walk()?;
    let reporter = Reporter::new(&arguments.tree, &options.plan.stop, output);
    let counts = tags::adopt(&mut walk, &options, adopting, &|finding| reporter.finding(finding));
    reporter.end(&counts)
}
