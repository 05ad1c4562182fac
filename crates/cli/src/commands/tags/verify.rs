//! `verisum verify`.

use clap::Args;
use verisum_tree::Verdict;
use verisum_tree::tags::{self, Outcome, VerifyOptions};

use super::options::{ApartArgs, Family, TreeArgs};
use super::report::Reporter;
use crate::commands::reading::RateArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, Output, progress};
use crate::verisum::PROGRAM;

/// What `verisum verify` takes.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The form of the tags
    #[arg(long, value_enum, default_value_t)]
    family: Family,

    /// Write the time of verification into the tags of good files; it moves their ctime
    #[arg(long)]
    stamp: bool,

    #[command(flatten)]
    rate: RateArgs,

    #[command(flatten)]
    apart: ApartArgs,

    #[command(flatten)]
    tree: TreeArgs,
}

pub(crate) fn run(arguments: VerifyArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options = arguments.tree.options_with(arguments.family, &arguments.apart, arguments.stamp)?;
    options.plan.limits = arguments.rate.limits()?;
    let verifying = VerifyOptions { stamp: arguments.stamp };
    let mut walk = arguments.tree.walk()?;
    let told = options.plan.progress.clone();
    let reporter = Reporter::new(&arguments.tree, &options, output);
    let counts = progress::of_files(arguments.rate.progress(), arguments.tree.total()?, &told, || {
        tags::verify(&mut walk, &options, verifying, &|finding| reporter.finding(finding))
    });
    let exit = reporter.end(&counts)?;
    // Nothing compared is no good news.
    if exit == Exit::Clean && counts.files() > 0 && counts.files() == counts.of(Outcome::Judged(Verdict::New))
    {
        render::say(PROGRAM, &format!("no file has a tag of the family {}", options.family));
        return Ok(Exit::Unchecked);
    }
    Ok(exit)
}
