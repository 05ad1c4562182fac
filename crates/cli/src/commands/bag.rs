//! `verisum bag`: makes BagIt bags.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueHint};
use serde::Serialize;
use verisum::files::bag::{BagError, BagOptions, create_bag};
use verisum::files::{Stop, Timestamp};

use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::json::Outcome;
use crate::ui::progress::{self, ProgressArgs, Total};
use crate::ui::signals::Ending;
use crate::ui::sizes::human;
use crate::ui::values::counted;
use crate::ui::{Output, digests, hosts, kernel, names};

/// The digests that bags usually have.
const USUAL: [&str; 8] = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3-256", "sha3-512"];

/// The verbs of `verisum bag`.
#[derive(Debug, Subcommand)]
pub(crate) enum BagCommand {
    /// Turn a directory into a BagIt bag
    #[command(long_about = "Turn a directory into a BagIt bag (RFC 8493), in place.\n\n\
            Moves everything in DIR to DIR/data. Beside it, writes manifests with the digest of each file, \
            and bag-info.txt with the date, the size and the lines of --info. Refuses links, devices and \
            names that are not UTF-8 before it moves anything. If it fails, it moves everything back; after \
            a kill, run it again. `verisum check DIR` verifies a bag.")]
    Create(BagCreateArgs),
}

/// What `verisum bag create` takes.
#[derive(Args, Debug)]
pub(crate) struct BagCreateArgs {
    /// Digests: one manifest each
    #[arg(short, long, value_name = "DIGEST", value_delimiter = ',', default_value = "sha512")]
    algorithm: Vec<String>,

    /// Write a line in bag-info.txt: 'Source-Organization: Example'
    #[arg(long, value_name = "LABEL: VALUE")]
    info: Vec<String>,

    #[command(flatten)]
    progress: ProgressArgs,

    /// Print a line of JSON
    #[arg(long)]
    json: bool,

    /// The directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

/// Runs one of the verbs.
pub(crate) fn run(command: &BagCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        BagCommand::Create(arguments) => create(arguments, output),
    }
}

fn create(arguments: &BagCreateArgs, output: &mut Output) -> Result<Exit, Failure> {
    hosts::refuse_urls([&arguments.directory])?;
    let policy = kernel::policy()?;
    let mut options = BagOptions::default();
    for name in &arguments.algorithm {
        let digest = digests::find(name, &policy)?;
        if !USUAL.contains(&digest.name()) {
            return Err(Failure::value("--algorithm", name, "is no digest that bags have"));
        }
        options.digests.push(digest);
    }
    options.info = arguments.info.iter().map(|line| info(line)).collect::<Result<_, _>>()?;
    let date = Timestamp::now().to_rfc3339();
    options.info.push(("Bagging-Date".to_string(), date.split('T').next().unwrap_or_default().to_string()));
    let agent = format!("verisum {}", env!("CARGO_PKG_VERSION"));
    options.info.push(("Bag-Software-Agent".to_string(), agent));
    let ending = Ending::new()?;
    options.stop = Arc::new(Stop::when(ending.asked().clone()));
    let progress = options.progress.clone();
    let directory = &arguments.directory;
    let made = progress::of_files(arguments.progress.show(), Total::Unknown, &progress, || {
        create_bag(directory, &options)
    });
    ending.obey();
    let made = made.map_err(|error| match error {
        BagError::Tree(error) => Failure::Tree(error),
        BagError::Io { path, operation, source } => Failure::file(path, operation, source),
        other => Failure::of_library(other),
    })?;
    let (files, bytes) = (counted(made.files, "file"), human(made.bytes));
    let digests = arguments.algorithm.join(", ");
    let text = format!("{}: bag of {files}, {bytes} ({digests})", names::quoted(directory.as_os_str()));
    let algorithms = options.digests.iter().map(|digest| digest.name()).collect();
    let bag = MadeBag { files: made.files, bytes: made.bytes, algorithms };
    output.summary(arguments.json, Some(&text), &Outcome::of(directory, "created", bag))?;
    Ok(Exit::Clean)
}

/// A bag that was made.
#[derive(Serialize)]
struct MadeBag<'a> {
    files: u64,
    bytes: u64,
    algorithms: Vec<&'a str>,
}

/// A label and a value.
fn info(line: &str) -> Result<(String, String), Failure> {
    let (label, value) = line.split_once(':').unwrap_or_default();
    let is_plain = |text: &str| !text.is_empty() && !text.contains(char::is_control);
    match (label.trim(), value.trim()) {
        (label, value) if is_plain(label) && is_plain(value) => Ok((label.to_string(), value.to_string())),
        _ => Err(Failure::value("--info", line, "must be a label, a colon and a value")),
    }
}
