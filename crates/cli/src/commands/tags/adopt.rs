//! `verisum adopt`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use verisum_tree::tags::{self, AdoptOptions};

use super::lists;
use super::options::{Family, TreeArgs};
use super::report::Reporter;
use crate::commands::reading::RateArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::progress::Total;
use crate::render::{Output, progress};

/// What `verisum adopt` takes.
#[derive(Args, Debug)]
pub(crate) struct AdoptArgs {
    /// Read each file and adopt only what is right
    #[arg(long)]
    verify: bool,

    /// Adopt what this list records of files below DIR: a manifest of any format, .chkbit, .bitrot.db
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    from: Option<PathBuf>,

    /// Adopt what every .chkbit and .bitrot.db below DIR records
    #[arg(long, conflicts_with = "from")]
    indexes: bool,

    #[command(flatten)]
    rate: RateArgs,

    #[command(flatten)]
    tree: TreeArgs,
}

pub(crate) fn run(arguments: AdoptArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options = arguments.tree.options(Family::Verisum)?;
    options.plan.limits = arguments.rate.limits()?;
    let adopting = AdoptOptions { verify: arguments.verify };
    let mut walk = arguments.tree.walk()?;
    let mut listed = match &arguments.from {
        Some(list) => Some(lists::list(list, arguments.tree.only()?)?),
        None if arguments.indexes => Some(Box::new(lists::indexes(arguments.tree.walk()?)) as Box<_>),
        None => None,
    };
    let reporter = Reporter::new(&arguments.tree, &options, output);
    let report = |finding: &tags::Finding| reporter.finding(finding);
    // Without reading, and of a list, nobody knows how much there is.
    let total = match listed.is_none() && adopting.verify {
        true => arguments.tree.total()?,
        false => Total::Unknown,
    };
    let told = options.plan.progress.clone();
    let counts = progress::of_files(arguments.rate.progress(), total, &told, || match &mut listed {
        Some(listed) => tags::adopt_listed(listed, &options, adopting, &report),
        None => tags::adopt(&mut walk, &options, adopting, &report),
    });
    reporter.end(&counts)
}
