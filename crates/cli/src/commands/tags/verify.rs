//! `verisum verify`: compares files with their checksums.

use std::time::Instant;

use clap::Args;
use verisum::files::Verdict;
use verisum::files::store::xattr::Family;
use verisum::files::tags::{self, TagOutcome, TaggingOptions, VerifyOptions};

use super::options::{ApartArgs, TagTreeArgs, Writes};
use super::report::TagReporter;
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::reading::RateArgs;
use crate::ui::{self, Output, progress, values};

/// What `verisum verify` takes.
#[derive(Args, Debug)]
pub(crate) struct TagsVerifyArgs {
    /// The attribute format
    #[arg(long, value_enum, default_value_t)]
    family: Family,

    /// Write the time of verification into the tags of good files; this changes their ctime
    #[arg(long)]
    stamp: bool,

    /// Read only files whose last verification is older than this: 90d (`--stamp` records the time)
    #[arg(long, value_name = "DURATION")]
    max_age: Option<String>,

    /// Time budget: begin no file after this time; files that were begun are read to their end
    #[arg(long = "for", value_name = "DURATION")]
    budget: Option<String>,

    /// Read a random share of the files that are due: 5%
    #[arg(long, value_name = "SHARE")]
    sample: Option<String>,

    #[command(flatten)]
    rate: RateArgs,

    #[command(flatten)]
    apart: ApartArgs,

    #[command(flatten)]
    tree: TagTreeArgs,
}

pub(crate) fn run(arguments: TagsVerifyArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut options = arguments.tree.options_with(
        arguments.family,
        &arguments.apart,
        if arguments.stamp { Writes::Yes } else { Writes::No },
    )?;
    options.plan.limits = arguments.rate.limits()?;
    let max_age = values::optional_duration("--max-age", &arguments.max_age)?;
    let sample = arguments.sample.as_deref().map(|text| values::share("--sample", text)).transpose()?;
    let mut verifying = VerifyOptions::default();
    verifying.stamp = arguments.stamp;
    verifying.max_age = max_age;
    verifying.sample = sample.unwrap_or(1.0);
    let budget = values::optional_duration("--for", &arguments.budget)?;
    verifying.begin_until = budget.and_then(|budget| Instant::now().checked_add(budget));
    let mut walk = arguments.tree.walk()?;
    let told = options.plan.progress.clone();
    let reporter =
        TagReporter::new(&arguments.tree, &options, output).with_catalog(arguments.apart.catalog.clone());
    let counts = progress::of_files(arguments.rate.progress(), arguments.tree.total()?, &told, || {
        tags::verify(&mut walk, &options, verifying, &|finding| reporter.finding(finding))
    });
    let exit = reporter.end(&counts)?;
    if verifying.is_over() {
        let next = match arguments.stamp {
            true => "the next run verifies any files that are left",
            false => "without --stamp, the next run begins with the same files",
        };
        ui::say(PROGRAM, &format!("the time budget is used up; {next}"));
    }
    // Nothing compared is no good news.
    if exit == Exit::Clean
        && counts.files() > 0
        && counts.files() == counts.of(TagOutcome::Judged(Verdict::New))
    {
        let none = format!("no file has a tag of the family {}", options.family);
        ui::say(PROGRAM, &format!("{none}{}", instead(&arguments, &options)?));
        return Ok(Exit::Unchecked);
    }
    Ok(exit)
}

/// What may be meant where no file has a tag of the family that was asked for.
fn instead(arguments: &TagsVerifyArgs, options: &TaggingOptions) -> Result<String, Failure> {
    let (status, _) = tags::status(&mut arguments.tree.walk()?, options, &|_| {});
    let Some((tool, count)) = status.adoptable.iter().max_by_key(|(_, count)| **count) else {
        return Ok(match options.apart {
            None => " (`verisum tag DIR` writes them; --catalog FILE has those of files that take none)",
            Some(_) => " (`verisum tag DIR` writes them)",
        }
        .to_string());
    };
    let files = if *count == 1 { "1 has one".to_string() } else { format!("{count} have some") };
    let family = [Family::Verisum, Family::Shatag, Family::Plain]
        .into_iter()
        .find(|family| family.to_string() == *tool)
        .map(|family| format!(", --family {family} compares with them"));
    let family = family.unwrap_or_default();
    Ok(format!(", and {files} of {tool} (`verisum adopt DIR` takes them over{family})"))
}
