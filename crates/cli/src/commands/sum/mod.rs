//! `verisum sum`, and the programs whose names it answers to: the digests of files.

mod inputs;
mod personality;
mod report;

use std::ffi::OsString;

use clap::{Args, ValueEnum, ValueHint};
use verisum_digest::Digest;
use verisum_tree::store::manifest::{self, Writer};
use verisum_tree::{Plan, WalkOptions};

use crate::commands::reading::{Order, ReadingArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::progress::Total;
use crate::render::{Output, progress};
use crate::verisum::PROGRAM;
use crate::{digests, input, kernel, sizes};

use inputs::Inputs;
use report::Report;

pub(crate) use personality::{NAMES, called};

/// What `verisum sum` takes.
#[derive(Args, Debug)]
pub(crate) struct SumArgs {
    /// A digest, again or after a comma for more in the same read; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,

    /// Take directories too, and all files below them
    #[arg(short, long)]
    pub(crate) recursive: bool,

    /// How to write the list
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    pub(crate) format: Format,

    /// The same as --format bsd
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub(crate) tag: bool,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// End each line with NUL, and escape nothing in names
    #[arg(short, long)]
    pub(crate) zero: bool,

    /// Put the * of binary mode before names
    #[arg(short, long, overrides_with = "text")]
    pub(crate) binary: bool,

    /// Put a space before names, as without this
    #[arg(short, long, overrides_with = "binary")]
    pub(crate) text: bool,

    /// Take the names of the files from this file, each ended by NUL; - is standard input
    #[arg(long, value_name = "F", value_hint = ValueHint::FilePath, conflicts_with = "files")]
    pub(crate) files0_from: Option<OsString>,

    #[command(flatten)]
    pub(crate) reading: ReadingArgs,

    /// Do not enter other file systems
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,

    /// Follow the links that are found in directories
    #[arg(short = 'L', long)]
    pub(crate) follow_links: bool,

    /// In which order the files of a directory are read and listed
    #[arg(long, value_enum, default_value = "name")]
    pub(crate) order: Order,

    /// Threads; without it, as many as this process may use cores
    #[arg(short = 'j', long, value_name = "N")]
    pub(crate) threads: Option<String>,

    /// Files; - , or none at all, is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<OsString>,
}

/// The formats of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// `HEX  NAME`, as the coreutils print it
    #[default]
    Gnu,
    /// `SHA256 (NAME) = HEX`
    Bsd,
    /// `NAME CRC`: crc32
    Sfv,
    /// Sizes and digests in columns: md5, sha1, sha256 and whirlpool
    Hashdeep,
    /// A specification of a tree for mtree: md5, sha1, sha256, sha384, sha512 and ripemd160
    Mtree,
    /// The manifest of a bag
    Bagit,
    /// A line of JSON for each file
    Json,
}

impl From<Format> for manifest::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Gnu => manifest::Format::Gnu,
            Format::Bsd => manifest::Format::Bsd,
            Format::Sfv => manifest::Format::Sfv,
            Format::Hashdeep => manifest::Format::Hashdeep,
            Format::Mtree => manifest::Format::Mtree,
            Format::Bagit => manifest::Format::Bagit,
            Format::Json => manifest::Format::Json,
        }
    }
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
    let policy = kernel::policy()?;
    let found: Vec<Digest> =
        arguments.algorithm.iter().map(|name| digests::find(name, &policy)).collect::<Result<_, _>>()?;
    let format = match (arguments.tag, arguments.json) {
        (true, _) => Format::Bsd,
        (_, true) => Format::Json,
        _ => arguments.format,
    };
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
    let inputs = inputs(&arguments)?;
    let progress = arguments.reading.progress();
    hash(Task { program: PROGRAM, imitates: false, writer, plan, inputs, stdin: "-", progress }, output)
}

fn inputs(arguments: &SumArgs) -> Result<Inputs, Failure> {
    let excludes = arguments.reading.excludes()?;
    let walk = arguments.recursive.then(|| WalkOptions {
        one_file_system: arguments.one_file_system,
        refuse_special_roots: false,
        follow_links: arguments.follow_links,
        order: verisum_tree::Order::Name,
        excludes,
    });
    let inputs = match &arguments.files0_from {
        Some(list) => Inputs::listed(list, walk)?,
        None if arguments.files.is_empty() && arguments.recursive => Inputs::new(vec![".".into()], walk),
        None => Inputs::new(arguments.files.clone(), walk),
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
        verisum_tree::hash(&plan, &mut jobs, &|hashed| report.hashed(hashed));
    };
    let is_brief = total.is_brief() && plan.limits.is_none() && progress == progress::Wanted::No;
    match imitates || is_brief {
        true => work(),
        false => progress::of_files(progress, total, &plan.progress, work),
    }
    report.end()
}
