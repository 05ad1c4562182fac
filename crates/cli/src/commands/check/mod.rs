//! `verisum check`: files against lists of checksums, with the options and messages of the coreutils.

mod extra;
mod lists;
mod report;

use std::borrow::Cow;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use verisum_digest::Digest;
use verisum_tree::check::{Event, check};
use verisum_tree::store::manifest::{self, Dialect};
use verisum_tree::{Excludes, Limits, Plan};

use crate::commands::reading::ReadingArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{Output, progress};
use crate::verisum::PROGRAM;
use crate::{digests, input, kernel, sizes};

use lists::Lists;
use report::Report;

/// What `verisum check` takes.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The digest of bare numbers, where the list does not tell; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST")]
    pub(crate) algorithm: Option<String>,

    /// Do not fail or report status for missing files
    #[arg(long)]
    pub(crate) ignore_missing: bool,

    /// Do not print OK for each file that is verified
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Do not print anything about files; the exit code shows success
    #[arg(long)]
    pub(crate) status: bool,

    /// Fail also for lines that are improperly formatted
    #[arg(long)]
    pub(crate) strict: bool,

    /// Warn about each line that is improperly formatted
    #[arg(short, long)]
    pub(crate) warn: bool,

    /// Lines end with NUL, and nothing in names is escaped
    #[arg(short, long)]
    pub(crate) zero: bool,

    /// Where the names in the lists begin; without it, at the working directory
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) base: Option<PathBuf>,

    /// Also report the files below this directory that no list has. -C does not move it: it is a path
    /// from the working directory, as on any command line
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) strict_tree: Option<PathBuf>,

    /// Print a line of JSON for each file, and one of totals
    #[arg(long, conflicts_with_all = ["quiet", "status"])]
    pub(crate) json: bool,

    #[command(flatten)]
    reading: ReadingArgs,

    /// Threads; without it, as many as this process may use cores
    #[arg(short = 'j', short_alias = 't', long, value_name = "N")]
    pub(crate) threads: Option<String>,

    /// Lists of checksums, or directories of BagIt bags
    #[arg(value_name = "LIST", value_hint = ValueHint::AnyPath)]
    pub(crate) lists: Vec<OsString>,
}

/// How to check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The program's name in messages.
    pub(crate) program: Cow<'static, str>,
    /// Whose lists are taken.
    pub(crate) dialect: Dialect,
    /// The id of the digest of bare numbers.
    pub(crate) algorithm: Option<String>,
    /// As [`CheckArgs::ignore_missing`], and so on.
    pub(crate) ignore_missing: bool,
    pub(crate) quiet: bool,
    pub(crate) status: bool,
    pub(crate) strict: bool,
    pub(crate) warn: bool,
    pub(crate) zero: bool,
    pub(crate) json: bool,
    pub(crate) base: Option<PathBuf>,
    pub(crate) strict_tree: Option<PathBuf>,
    pub(crate) threads: Option<usize>,
    /// What --strict-tree leaves out.
    pub(crate) excludes: Option<Arc<Excludes>>,
    pub(crate) limits: Option<Arc<Limits>>,
    /// Whether to draw progress.
    pub(crate) progress: bool,
}

/// Does what `verisum check` was asked for.
pub(crate) fn run(arguments: CheckArgs, output: &mut Output) -> Result<Exit, Failure> {
    let policy = kernel::policy()?;
    let algorithm = match &arguments.algorithm {
        Some(name) => Some(digests::find(name, &policy)?.name().to_string()),
        None => None,
    };
    let options = Options {
        program: PROGRAM.into(),
        dialect: Dialect::Any,
        algorithm,
        ignore_missing: arguments.ignore_missing,
        quiet: arguments.quiet,
        status: arguments.status,
        strict: arguments.strict,
        warn: arguments.warn,
        zero: arguments.zero,
        json: arguments.json,
        base: arguments.base,
        strict_tree: arguments.strict_tree,
        threads: arguments.threads.as_deref().map(sizes::threads).transpose()?,
        excludes: arguments.reading.excludes()?,
        limits: arguments.reading.limits()?,
        progress: arguments.reading.progress() != progress::Wanted::No,
    };
    lists_of(&arguments.lists, &options, output)
}

/// Checks these lists: what `verisum check` does, and `md5sum -c` and its likes.
pub(crate) fn lists_of(lists: &[OsString], options: &Options, output: &mut Output) -> Result<Exit, Failure> {
    let policy = kernel::policy()?;
    let reading = manifest::Options {
        algorithm: options.algorithm.clone().map(Cow::Owned),
        dialect: options.dialect,
        zero: options.zero,
        name: Vec::new(),
    };
    let mut lists = Lists::new(lists, reading, options.base.clone());
    let mut extra = extra::Extra::new(options.strict_tree.as_deref(), options.excludes.clone(), &lists)?;
    let threads = options.threads.unwrap_or_else(input::usable_cores);
    let mut report = Report::new(options, lists.names(), output);
    let mut failure = None;
    let find = |name: &str| Digest::find_with(name, &policy);
    let mut tell = |event: Event| {
        extra.note(&event);
        match report.event(event) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let plan = Plan { limits: options.limits.clone(), ..Plan::new(Vec::new(), threads) };
    let wanted = if options.progress { progress::Wanted::Yes } else { progress::Wanted::No };
    progress::of_files(wanted, progress::Total::Unknown, &plan.progress, || {
        check(&plan, &find, &mut lists, &mut tell);
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    extra.find(&mut report)?;
    report.end()
}
