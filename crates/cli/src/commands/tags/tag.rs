//! `verisum tag`: attaches checksums to files.

use std::io::{IsTerminal, stderr};

use clap::Args;
use verisum::files::store::xattr::Family;
use verisum::files::tags::{self, TagOptions};

use super::options::{ApartArgs, DryArgs, TagTreeArgs, algorithm};
use super::report::TagReporter;
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::reading::RateArgs;
use crate::ui::{self, Output, progress};

/// Where this many files have no tag, the tree is taken for one that was never tagged.
const SAMPLE: usize = 1000;

/// What `verisum tag` takes.
#[derive(Args, Debug)]
pub(crate) struct TagArgs {
    /// The digest of new tags; a tagged file keeps the digest that it has
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    /// The attribute format
    #[arg(long, value_enum, default_value_t)]
    family: Family,

    /// Tag new files only; changed files keep their old tag
    #[arg(long)]
    new_only: bool,

    #[command(flatten)]
    rate: RateArgs,

    #[command(flatten)]
    apart: ApartArgs,

    #[command(flatten)]
    dry: DryArgs,

    #[command(flatten)]
    tree: TagTreeArgs,
}

pub(crate) fn run(arguments: TagArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options =
        arguments.tree.options_with(arguments.family, &arguments.apart, arguments.dry.writes())?;
    options.plan.limits = arguments.rate.limits()?;
    let algorithm = algorithm(&arguments.algorithm, options.family)?;
    let mut tagging = TagOptions::default();
    tagging.algorithm = algorithm;
    tagging.new_only = arguments.new_only;
    let mut walk = arguments.tree.walk()?;
    if !arguments.tree.quiet
        && !options.dry
        && tags::would_be_first(&mut arguments.tree.walk()?, &options, SAMPLE)
    {
        warn_of_backups();
    }
    let told = options.plan.progress.clone();
    let reporter = TagReporter::new(&arguments.tree, &options, output);
    let counts = progress::of_files(arguments.rate.progress(), arguments.tree.total()?, &told, || {
        tags::tag(&mut walk, &options, &tagging, &|finding| reporter.finding(finding))
    });
    reporter.end(&counts)
}

/// Says what a first tagging makes backup tools do.
fn warn_of_backups() {
    ui::say(
        PROGRAM,
        "note: a tag moves a file's ctime (not its mtime): backup tools that watch it, such as restic and \
         borg, will read every tagged file once more",
    );
    if stderr().is_terminal() {
        ui::say(
            PROGRAM,
            "note: to avoid that, have them compare without it in their next run: restic backup \
             --ignore-ctime, borg create --files-cache=mtime,size,inode",
        );
    }
}
