//! `verisum verify`: compares files with their checksums.

use clap::Args;
use verisum::files::Verdict;
use verisum::files::store::xattr::Family;
use verisum::files::tags::{self, Options, Outcome, VerifyOptions};

use super::options::{ApartArgs, TreeArgs};
use super::report::Reporter;
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::reading::RateArgs;
use crate::ui::{self, Output, progress};

/// What `verisum verify` takes.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The attribute format
    #[arg(long, value_enum, default_value_t)]
    family: Family,

    /// Write the time of verification into the tags of good files; this changes their ctime
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
        let none = format!("no file has a tag of the family {}", options.family);
        ui::say(PROGRAM, &format!("{none}{}", instead(&arguments, &options)?));
        return Ok(Exit::Unchecked);
    }
    Ok(exit)
}

/// What may be meant where no file has a tag of the family that was asked for.
fn instead(arguments: &VerifyArgs, options: &Options) -> Result<String, Failure> {
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
