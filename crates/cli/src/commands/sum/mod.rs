//! `verisum sum`, and the programs whose names it answers to: the digests of files.

mod hosts;
mod inputs;
pub(crate) mod links;
mod personality;
mod report;

use std::ffi::OsString;

use clap::{Args, ValueHint};
use verisum::digest::Digest;
use verisum::files::store::manifest::Writer;
use verisum::files::{Plan, Roots, WalkOptions};

use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{HOSTS, HostArgs, ManyArgs, refuse};
use crate::ui::list_format::Format;
use crate::ui::progress::Total;
use crate::ui::reading::{Order, ReadingArgs};
use crate::ui::{Output, progress};
use crate::ui::{digests, input, kernel, sizes};

use inputs::Inputs;
use report::Report;

pub(crate) use personality::{NAMES, called};

/// What `verisum sum` takes.
#[derive(Args, Debug)]
pub(crate) struct SumArgs {
    /// The digest; several, given again or after a comma, are computed in one read. `verisum digests` lists
    /// them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,

    /// Hash all files below directories
    #[arg(short, long)]
    pub(crate) recursive: bool,

    /// Format of the list
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    pub(crate) format: Format,

    /// The same as --format bsd
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub(crate) tag: bool,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// End lines with NUL, and escape nothing in names
    #[arg(short, long)]
    pub(crate) zero: bool,

    /// Print the * of binary mode before names
    #[arg(short, long, overrides_with = "text")]
    pub(crate) binary: bool,

    /// Print a space before names (the default)
    #[arg(short, long, overrides_with = "binary")]
    pub(crate) text: bool,

    /// Read the names of the files from this file, each ended by NUL; - is standard input
    #[arg(long, value_name = "F", value_hint = ValueHint::FilePath)]
    pub(crate) files0_from: Option<OsString>,

    #[command(flatten)]
    pub(crate) reading: ReadingArgs,

    /// Do not enter other file systems
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,

    /// Follow links that are found in directories
    #[arg(short = 'L', long)]
    pub(crate) follow_links: bool,

    /// Order in which the files of a directory are read and listed
    #[arg(long, value_enum, default_value = "name")]
    pub(crate) order: Order,

    /// Number of threads; without it, one for each core that this process may use
    #[arg(short = 'j', long, value_name = "N")]
    pub(crate) threads: Option<String>,

    /// Files; -, or none, is standard input. HOST:PATH and ssh://HOST/PATH are files on other machines
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<OsString>,

    #[command(flatten, next_help_heading = HOSTS)]
    pub(crate) hosts: HostArgs,

    #[command(flatten)]
    pub(crate) many: ManyArgs,

    /// Print names from the directory on, not whole paths
    #[arg(long)]
    pub(crate) relative: bool,

    /// Do not say which program computes the digests on each host
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Everything that is to be done.
struct Task {
    /// The name at the start of messages.
    program: &'static str,
    /// Be silent and exact where the coreutils are.
    imitates: bool,
    writer: Writer,
    plan: Plan,
    inputs: Inputs,
    /// The name of standard input in the list.
    stdin: &'static str,
    progress: progress::Wanted,
}

/// Does what `verisum sum` was asked for.
pub(crate) fn run(arguments: SumArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (here, there) = arguments.many.split(&arguments.files)?;
    if arguments.files0_from.is_some() && !here.is_empty() {
        return Err(Failure::Usage("--files0-from: cannot be used with FILE".to_string()));
    }
    if there.is_empty() {
        return of_this_machine(&arguments, here, output);
    }
    arguments.refuse_for_hosts()?;
    let first = match here.is_empty() {
        true => Exit::Clean,
        false => of_this_machine(&arguments, here, output)?,
    };
    Ok(first.max(hosts::run(&arguments, &there, output)?))
}

impl SumArgs {
    /// The format of the list.
    fn format(&self) -> Format {
        match (self.tag, self.json) {
            (true, _) => Format::Bsd,
            (_, true) => Format::Json,
            _ => self.format,
        }
    }

    /// Fails for options that files on other machines do not have.
    fn refuse_for_hosts(&self) -> Result<(), Failure> {
        refuse(&[
            ("--format", !matches!(self.format(), Format::Gnu | Format::Bsd | Format::Json)),
            ("--binary", self.binary),
            ("--one-file-system", self.one_file_system),
            ("--follow-links", self.follow_links),
            ("--order", self.order != Order::Name),
            ("--threads", self.threads.is_some()),
            ("--exclude", self.reading.is_excluding()),
            ("--limit", self.reading.is_limiting()),
        ])
    }
}

fn of_this_machine(arguments: &SumArgs, files: Vec<OsString>, output: &mut Output) -> Result<Exit, Failure> {
    let policy = kernel::policy()?;
    let found: Vec<Digest> =
        arguments.algorithm.iter().map(|name| digests::find(name, &policy)).collect::<Result<_, _>>()?;
    let format = arguments.format();
    if arguments.zero && !matches!(format, Format::Gnu | Format::Bsd) {
        return Err(Failure::Usage("--zero: only the formats gnu and bsd have it".to_string()));
    }
    let writer = Writer::new(format.into(), &found).map_err(|error| Failure::Usage(error.to_string()))?;
    let writer = writer.zero(arguments.zero).binary(arguments.binary);
    let threads = match &arguments.threads {
        Some(text) => sizes::threads(text)?,
        None => input::usable_cores(),
    };
    let mut plan = Plan::new(vec![found], threads);
    plan.hard_links_once = arguments.recursive;
    plan.limits = arguments.reading.limits()?;
    let inputs = inputs(arguments, files)?;
    let progress = arguments.reading.progress();
    hash(Task { program: PROGRAM, imitates: false, writer, plan, inputs, stdin: "-", progress }, output)
}

fn inputs(arguments: &SumArgs, files: Vec<OsString>) -> Result<Inputs, Failure> {
    let excludes = arguments.reading.excludes()?;
    let walk = arguments.recursive.then(|| WalkOptions {
        one_file_system: arguments.one_file_system,
        follow_links: arguments.follow_links,
        roots: Roots::Any,
        order: verisum::files::Order::Name,
        excludes,
    });
    let inputs = match &arguments.files0_from {
        Some(list) => Inputs::listed(list, walk)?,
        None if files.is_empty() && arguments.recursive => Inputs::new(vec![".".into()], walk),
        None => Inputs::new(files, walk),
    };
    Ok(inputs.ordered(arguments.order))
}

/// Hashes the inputs and prints the list.
fn hash(task: Task, output: &mut Output) -> Result<Exit, Failure> {
    let Task { program, imitates, writer, plan, inputs, stdin, progress } = task;
    let mut header = Vec::new();
    writer.header(&mut header);
    output.bytes(&header)?;
    let total = if imitates { Total::Unknown } else { inputs.total() };
    let report = Report::new(program, imitates, &writer, output);
    let work = || {
        let mut jobs = inputs.jobs(&plan, stdin, &report);
        verisum::files::hash(&plan, &mut jobs, &|hashed| report.hashed(hashed));
    };
    let is_brief = total.is_brief() && plan.limits.is_none() && progress == progress::Wanted::No;
    match imitates || is_brief {
        true => work(),
        false => progress::of_files(progress, total, &plan.progress, work),
    }
    report.end()
}
