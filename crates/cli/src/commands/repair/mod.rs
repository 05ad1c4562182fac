//! `verisum repair`: gives bad and missing files their recorded content again, from other copies.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use verisum::files::Stop;
use verisum::mend::repair::{self, Options};

use crate::ui::Output;
use crate::ui::catalog::{CatalogArgs, absolute, absolute_name};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{HOSTS, HostArgs};
use crate::ui::mending::{Telling, sources};
use crate::ui::signals::Ending;
use crate::ui::values;

/// What `verisum repair` takes.
#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    /// A copy of PATH: a directory or file, HOST:PATH or ssh://HOST/PATH. Can be given several times
    #[arg(long, value_name = "PLACE", value_hint = ValueHint::AnyPath)]
    from: Vec<OsString>,

    /// Show what could be repaired and from where, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Move bad files to this directory instead of removing them; it must be on the same file system
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    keep_bad: Option<PathBuf>,

    /// Leave missing files missing
    #[arg(long)]
    except_missing: bool,

    /// Also repair files on file systems that are mounted below a tree
    #[arg(long)]
    cross_file_systems: bool,

    /// Print only what could not be repaired
    #[arg(short, long)]
    quiet: bool,

    /// Print a line of JSON for each file, and one with the totals
    #[arg(long)]
    json: bool,

    #[command(flatten, next_help_heading = HOSTS)]
    hosts: HostArgs,

    /// A directory or file of this machine that the catalogue has
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    path: PathBuf,
}

/// Repairs files.
pub(crate) fn run(arguments: &RepairArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (_lock, catalog) = arguments.catalog.open_existing()?;
    let named = absolute_name(&arguments.path)?;
    let path = if catalog.root_of(&named)?.is_some() { named } else { absolute(&arguments.path)? };
    let mut sources = sources(&arguments.from, &arguments.hosts, &catalog, &path)?;
    let ending = Ending::new()?;
    let options = Options {
        dry: arguments.dry_run,
        keep_bad: arguments.keep_bad.as_deref().map(absolute).transpose()?,
        leaves_missing: arguments.except_missing,
        enters: arguments.cross_file_systems,
        stop: Arc::new(Stop::when(ending.asked().clone())),
        now: values::now(),
    };
    let mut telling = Telling::new(["file", "summary"], arguments.json, arguments.quiet, output);
    let summary = repair::repair(&catalog, &path, &mut sources, &options, &mut |file| telling.file(file))?;
    let worst = telling.end(&summary, arguments.dry_run)?;
    output.flush()?;
    ending.obey();
    Ok(worst)
}
