//! `verisum catalog rehash`: sets the digest that scrubs will give to all records.

use clap::Args;
use verisum::catalog::store::Catalog;

use crate::ui::catalog::CatalogArgs;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
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
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &RehashArgs, output: &mut Output) -> Result<Exit, Failure> {
    let to = match &arguments.to {
        Some(name) => Some(digests::find(name, &kernel::policy()?)?),
        None => None,
    };
    let to = to.as_ref().map(|digest| digest.name());
    let catalog = if arguments.dry_run {
        arguments.catalog.open_shared()?
    } else {
        let (_lock, catalog) = arguments.catalog.open_existing()?;
        catalog.set_rehash_target(to)?;
        catalog
    };
    match to {
        Some(to) => output.line(&left(&catalog, None, to)?)?,
        None => output.line("records keep their digests")?,
    }
    Ok(Exit::Clean)
}

/// How many records have another digest yet: of one tree, if a root is given.
pub(super) fn left(catalog: &Catalog, root: Option<i64>, to: &str) -> Result<String, Failure> {
    let counts = catalog.files_by_algorithm(root)?;
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let others: Vec<_> = counts.iter().filter(|(name, _)| name != to).collect();
    let left: u64 = others.iter().map(|(_, count)| count).sum();
    let names: Vec<&str> = others.iter().map(|(name, _)| name.as_str()).collect();
    Ok(match left {
        0 => format!("rehash to {to}: done, all {} have it", counted(all, "record")),
        _ => format!("rehash to {to}: {left} of {} left ({})", counted(all, "record"), names.join(", ")),
    })
}
