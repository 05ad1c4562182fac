//! `verisum catalog rehash`: sets the digest that scrubs will give to all records.

use clap::Args;
use serde::Serialize;
use verisum::catalog::store::Catalog;

use crate::ui::catalog::CatalogArgs;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::json::Outcome;
use crate::ui::progress::ProgressArgs;
use crate::ui::values::counted;
use crate::ui::{Output, digests, kernel};

/// What `verisum catalog rehash` takes.
#[derive(Args, Debug)]
pub(crate) struct RehashArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    #[command(flatten)]
    pub(super) progress: ProgressArgs,

    /// The new digest of these records; new files get it too
    #[arg(long, value_name = "DIGEST", required_unless_present = "stop")]
    to: Option<String>,

    /// Change no more records
    #[arg(long, conflicts_with = "to")]
    stop: bool,

    /// Say how many records would change, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Print a line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &RehashArgs, output: &mut Output) -> Result<Exit, Failure> {
    let policy = kernel::policy()?;
    let to = arguments.to.as_deref().map(|to| digests::to_record("--to", to, &policy)).transpose()?;
    let to = to.as_ref().map(|digest| digest.name());
    let catalog = if arguments.dry_run {
        arguments.catalog.open_shared()?
    } else {
        let (_lock, catalog) = arguments.catalog.open_existing()?;
        catalog.set_rehash_target(to)?;
        catalog
    };
    let RehashArgs { json, dry_run, .. } = *arguments;
    let (text, left) = match to {
        Some(to) => (left(&catalog, None, to)?, Some(records_left(&catalog.files_by_algorithm(None)?, to))),
        None => ("records keep their digests".to_string(), None),
    };
    let outcome = if to.is_some() { "set" } else { "stopped" };
    output.summary(
        json,
        Some(&text),
        &Outcome::of(catalog.path(), outcome, RehashSummary { to, left, dry_run }),
    )?;
    Ok(Exit::Clean)
}

/// What is to become of the records.
#[derive(Serialize)]
struct RehashSummary<'a> {
    to: Option<&'a str>,
    /// How many records have another digest yet.
    left: Option<u64>,
    dry_run: bool,
}

fn records_left(counts: &[(String, u64)], to: &str) -> u64 {
    counts.iter().filter(|(name, _)| name != to).map(|(_, count)| count).sum()
}

/// How many records have another digest yet: of one tree, if a root is given.
pub(super) fn left(catalog: &Catalog, root: Option<i64>, to: &str) -> Result<String, Failure> {
    let counts = catalog.files_by_algorithm(root)?;
    let all = counted(counts.iter().map(|(_, count)| count).sum(), "record");
    let others: Vec<&str> = counts.iter().map(|(name, _)| name.as_str()).filter(|name| *name != to).collect();
    Ok(match records_left(&counts, to) {
        0 => format!("rehash to {to}: done, all {all} have it"),
        left => format!("rehash to {to}: {left} of {all} left ({})", others.join(", ")),
    })
}
