//! `verisum retag`: replaces checksums of one digest by those of another.

use clap::{Args, ValueEnum};
use verisum::files::Verdict;
use verisum::files::store::xattr::Family;
use verisum::files::tags::{self, TagOutcome, TagSlot};

use super::options::{ApartArgs, DryArgs, TagTreeArgs, algorithm};
use super::report::TagReporter;
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::reading::RateArgs;
use crate::ui::{self, Output, progress};

/// What `verisum retag` takes.
#[derive(Args, Debug)]
pub(crate) struct RetagArgs {
    /// The digest to replace: md5, or with its format plain:md5
    #[arg(long, value_name = "[FAMILY:]DIGEST")]
    from: String,

    /// The new digest: sha256, or with its format verisum:sha256
    #[arg(long, value_name = "[FAMILY:]DIGEST")]
    to: String,

    #[command(flatten)]
    rate: RateArgs,

    #[command(flatten)]
    apart: ApartArgs,

    #[command(flatten)]
    dry: DryArgs,

    #[command(flatten)]
    tree: TagTreeArgs,
}

pub(crate) fn run(arguments: RetagArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (from, to) = (slot(&arguments.from)?, slot(&arguments.to)?);
    if from.family == to.family && from.algorithm.id == to.algorithm.id {
        return Err(Failure::Usage("--from and --to are the same".to_string()));
    }
    let mut options =
        arguments.tree.options_with(Family::default(), &arguments.apart, arguments.dry.writes())?;
    options.plan.limits = arguments.rate.limits()?;
    let mut walk = arguments.tree.walk()?;
    let told = options.plan.progress.clone();
    let reporter = TagReporter::new(&arguments.tree, &options, output);
    let counts = progress::of_files(arguments.rate.progress(), arguments.tree.total()?, &told, || {
        tags::retag(&mut walk, &options, from, to, &|finding| reporter.finding(finding))
    })?;
    let exit = reporter.end(&counts)?;
    let [untagged, other, current] =
        [TagOutcome::Judged(Verdict::New), TagOutcome::OtherDigest, TagOutcome::Current]
            .map(|outcome| counts.of(outcome));
    // Where an earlier run did it all, there is nothing to do; else --from is not what the tree has.
    if exit == Exit::Clean && current == 0 && counts.files() > 0 && counts.files() == untagged + other {
        ui::say(PROGRAM, &format!("no file has a tag of {}", from.algorithm.id));
        return Ok(Exit::Unchecked);
    }
    Ok(exit)
}

/// Reads `[FAMILY:]DIGEST`.
fn slot(text: &str) -> Result<TagSlot, Failure> {
    let prefix =
        text.split_once(':').and_then(|(prefix, name)| Some((Family::from_str(prefix, false).ok()?, name)));
    let (family, name) = prefix.unwrap_or((Family::default(), text));
    Ok(TagSlot { family, algorithm: algorithm(name, family)? })
}
