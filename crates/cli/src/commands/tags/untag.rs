//! `verisum untag`: removes checksums from files.

use clap::Args;
use verisum::files::store::xattr::Family;
use verisum::files::tags;

use super::options::{DryArgs, TagTreeArgs, algorithm};
use super::report::TagReporter;
use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;

/// What `verisum untag` takes.
#[derive(Args, Debug)]
pub(crate) struct UntagArgs {
    /// Remove tags of this digest only
    #[arg(short, long, value_name = "DIGEST")]
    algorithm: Option<String>,

    /// The attribute format; tags of other formats stay
    #[arg(long, value_enum, default_value_t)]
    family: Family,

    #[command(flatten)]
    dry: DryArgs,

    #[command(flatten)]
    tree: TagTreeArgs,
}

pub(crate) fn run(arguments: UntagArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options = arguments.tree.options(arguments.family)?;
    options.dry = arguments.dry.dry_run;
    let wanted = arguments.algorithm.as_deref().map(|name| algorithm(name, options.family)).transpose()?;
    let mut walk = arguments.tree.walk()?;
    let reporter = TagReporter::new(&arguments.tree, &options, output);
    let counts = tags::untag(&mut walk, &options, wanted, &|finding| reporter.finding(finding));
    reporter.end(&counts)
}
