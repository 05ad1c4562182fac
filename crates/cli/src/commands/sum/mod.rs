//! `verisum sum`: prints the digests of files, also under the names of other programs.

mod in_places;
mod inputs;
pub(crate) mod links;
mod personality;
mod report;

use std::ffi::OsString;
use std::sync::Mutex;

use clap::{Args, ValueHint};
use verisum::digest::Digest;
use verisum::files::place::{FileRequest, Files, LocalPlace, Place};
use verisum::files::store::manifest::{ListFormat, Unwritable, Writer};
use verisum::files::{Plan, lock};

use crate::ui::PROGRAM;
use crate::ui::config::is_untyped;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::hosts::{HOSTS, HostArgs, ManyArgs, OnHost, PlaceReport, RecordedArgs, refuse};
use crate::ui::progress::Total;
use crate::ui::reading::{Order, ReadingArgs};
use crate::ui::{Output, progress};
use crate::ui::{digests, kernel, sizes, standard_input};

use inputs::{NameSource, open_stdin};
use report::SumLines;

pub(crate) use personality::{NAMES, called};

/// What `verisum sum` takes.
#[derive(Args, Debug)]
#[command(mut_arg("checksum_report", |report| report.hide(true)))]
// Its -t is that of sha256sum.
#[command(mut_arg("threads", |threads| threads.help(sizes::ThreadArgs::WITH_BUCKETS).short_alias(None::<char>)))]
pub(crate) struct SumArgs {
    /// The digest; give several, with commas or one by one, to compute them in one read. `verisum digests`
    /// lists them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,

    /// Hash all files below directories; on other machines and in buckets, verisum always does
    #[arg(short, long)]
    pub(crate) recursive: bool,

    /// Format of the list
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) format: ListFormat,

    /// The same as --format bsd
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub(crate) tag: bool,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// End lines with NUL, and escape nothing in names
    #[arg(short, long)]
    pub(crate) zero: bool,

    /// Print digests in Base64, as object stores show them
    #[arg(long)]
    pub(crate) base64: bool,

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

    /// Follow links in directories
    #[arg(short = 'L', long)]
    pub(crate) follow_links: bool,

    /// Print names that begin below the directory, not whole paths; the name of a file is its last part
    #[arg(long)]
    pub(crate) relative: bool,

    /// Order in which to read and list the files of a directory of this machine; without it, by name
    #[arg(long, value_enum)]
    pub(crate) order: Option<Order>,

    #[command(flatten)]
    pub(crate) threads: sizes::ThreadArgs,

    /// Files; -, or none, is standard input. HOST:PATH and ssh://HOST/PATH are files on other machines, s3://BUCKET/PREFIX in a bucket
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<OsString>,

    #[command(flatten, next_help_heading = HOSTS)]
    pub(crate) hosts: HostArgs,

    #[command(flatten)]
    pub(crate) recorded: RecordedArgs,

    #[command(flatten)]
    pub(crate) many: ManyArgs,

    /// Do not say which program computes the digests on each host
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Does what `verisum sum` was asked for.
pub(crate) fn run(arguments: SumArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (here, there) = arguments.many.split(&arguments.files)?;
    if arguments.files0_from.is_some() && !here.is_empty() {
        return Err(Failure::Usage("--files0-from: cannot be used with FILE".to_string()));
    }
    if arguments.files0_from.as_deref().is_some_and(|list| list == "-") {
        standard_input::take("--files0-from")?;
    }
    let policy = kernel::policy()?;
    let found: Vec<Digest> =
        arguments.algorithm.iter().map(|name| digests::find(name, &policy)).collect::<Result<_, _>>()?;
    let format = arguments.format();
    for (option, is_given) in [("--zero", arguments.zero), ("--base64", arguments.base64)] {
        if is_given && !format.traits().is_lines && !is_untyped(option) {
            return Err(Failure::Usage(format!("{option}: only the formats gnu and bsd have it")));
        }
    }
    if !there.is_empty() {
        arguments.refuse_for_hosts(&there)?;
        arguments.hosts.require_endpoints(there.iter().map(|on| &on.host))?;
    }
    arguments.recorded.refuse(&there)?;
    if arguments.relative && there.is_empty() && arguments.files0_from.is_some() {
        return Err(Failure::Usage(
            "--relative: --files0-from names no directory of this machine".to_string(),
        ));
    }
    let writer = Writer::new(format, &found).map_err(|error| {
        let is_sfv = matches!(error, Unwritable::Digest { format: ListFormat::Sfv, .. });
        Failure::Usage(format!("{error}{}", if is_sfv { " (only -a crc32 fits)" } else { "" }))
    })?;
    // Values of the configuration hold where they fit.
    let is_lines = format.traits().is_lines;
    let (zero, base64) = (arguments.zero && is_lines, arguments.base64 && is_lines);
    let writer = Mutex::new(writer.zero(zero).binary(arguments.binary).base64(base64));
    let report = PlaceReport::new(output).quiet(arguments.quiet);
    let below = arguments.relative.then(|| here.clone());
    let lines = SumLines { program: PROGRAM, imitates: false, writer, stdin: "-", below, report };
    let is_here_too = !here.is_empty();
    if there.is_empty() || is_here_too {
        here_by(&arguments, here, &found, &lines)?;
    } else {
        let mut header = Vec::new();
        lock(&lines.writer).header(&mut header);
        lines.report.result(&header);
    }
    if !there.is_empty() {
        arguments.sum_in_places((is_here_too, &there), &found, &lines)?;
    }
    lines.report.end()
}

impl SumArgs {
    /// The format of the list.
    fn format(&self) -> ListFormat {
        match (self.tag, self.json) {
            (true, _) => ListFormat::Bsd,
            (_, true) => ListFormat::Json,
            _ => self.format,
        }
    }

    /// Fails for options that files on other machines do not have.
    fn refuse_for_hosts(&self, there: &[OnHost]) -> Result<(), Failure> {
        let all_buckets = there.iter().all(OnHost::is_bucket);
        if self.algorithm.len() != 1 && !all_buckets {
            let why =
                "--algorithm: takes one digest for files on hosts, whose programs compute one in a read";
            return Err(Failure::Usage(why.to_string()));
        }
        if self.files0_from.is_some() && there.iter().map(|on| on.places.len()).sum::<usize>() != 1 {
            return Err(Failure::Usage("--files0-from: takes one directory of a host".to_string()));
        }
        refuse(&[
            ("--format", !self.format().traits().any_place),
            ("--binary", self.binary),
            ("--one-file-system", self.one_file_system),
            ("--follow-links", self.follow_links),
            ("--order", self.order.is_some()),
            ("--threads", self.threads.number()?.is_some() && !all_buckets),
        ])?;
        let is_limiting = self.reading.is_limiting() && !all_buckets;
        match self.files0_from.is_some() && (self.reading.is_excluding() || is_limiting) {
            true => Err(Failure::Usage("--files0-from: without --exclude and --limit on hosts".to_string())),
            false => Ok(()),
        }
    }
}

fn here_by(
    arguments: &SumArgs,
    files: Vec<OsString>,
    digests: &[Digest],
    lines: &SumLines,
) -> Result<(), Failure> {
    let mut place = LocalPlace::new(Plan::new(Vec::new(), arguments.threads.or_cores()?));
    place.plan.hard_links_once = arguments.recursive;
    place.plan.limits = arguments.reading.limits()?;
    place.walk.one_file_system = arguments.one_file_system;
    place.walk.follow_links = arguments.follow_links;
    place.walk.excludes = arguments.reading.excludes()?;
    let order = arguments.order.unwrap_or(Order::Name);
    place.by_extent = order == Order::Auto;
    place.walk.order = order.of_names();
    let inputs = match &arguments.files0_from {
        Some(list) => NameSource::listed(list)?,
        None if files.is_empty() && arguments.recursive => NameSource::new(vec![".".into()]),
        None => NameSource::new(files),
    };
    let progress = arguments.reading.progress();
    hash(place, inputs, digests, (arguments.recursive, progress), lines)
}

/// Hashes files of this machine and prints their lines.
fn hash(
    mut place: LocalPlace,
    mut inputs: NameSource,
    digests: &[Digest],
    (recursive, progress): (bool, progress::ShowProgress),
    lines: &SumLines,
) -> Result<(), Failure> {
    let mut header = Vec::new();
    lock(&lines.writer).header(&mut header);
    lines.report.result(&header);
    place.streams = Some(open_stdin);
    let walk = recursive.then_some(&place.walk);
    let total = if lines.imitates { Total::Unknown } else { inputs.total(walk) };
    let is_brief =
        total.is_brief() && place.plan.limits.is_none() && progress != progress::ShowProgress::Always;
    let told = place.plan.progress.clone();
    let mut names = inputs.by_ref();
    let mut work = || {
        let sink = |event| lines.here(event);
        match recursive {
            true => place.hash(digests, Files::Trees(&mut names), &sink),
            false => {
                let mut requests = names.map(|path| FileRequest { path, ..FileRequest::default() });
                place.hash(digests, Files::Named(&mut requests), &sink)
            }
        }
    };
    let hashed = match lines.imitates || is_brief {
        true => work(),
        false => progress::of_files(progress, total, &told, work),
    };
    if let Err(failure) = hashed.map_err(Failure::from).and_then(|()| inputs.end()) {
        lines.failed(&failure);
    }
    Ok(())
}
