//! `verisum bench`: measures digests, programs and disks on this machine.

mod compare;
mod digests;
mod files;
mod filesystem;
mod first_look;
mod image;
pub(crate) mod recommend;
mod remote;
mod remote_host;
mod scale;
mod session;
pub(crate) mod starter;

use clap::{Args, Subcommand};
use verisum_bench::measure::{MeasureAmount, MeasurePlan};

use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::export::ReportOptions;
use crate::ui::failure::Failure;
use crate::ui::values;

pub(crate) use session::Session;

/// What `verisum bench` takes.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,

    #[command(flatten)]
    options: BenchOptions,
}

/// The verbs of `verisum bench`.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Compare programs that compute digests, and implementations in this process
    Digests(digests::BenchDigestsArgs),
    /// Measure what the checksums of btrfs cost
    #[command(
        long_about = "Measure the cost of the checksums of btrfs: writing, fsync, reading from the disk and \
            scrubbing with each of them, and without.\n\n\
            Only root can mount. The file systems are in memory, in private mounts that the kernel removes \
            however this ends. Without root it measures the tools (mkfs.btrfs --rootdir, btrfs check \
            --check-data-csum) and a model: sectors of 4 KiB hashed in memory."
    )]
    Filesystem(Box<filesystem::FilesystemArgs>),
    /// Compare ways to compute the digest of a small and of a large file
    Files(Box<files::FilesArgs>),
    /// Compare programs on disk images, and measure the block hash library alone
    Image(image::ImageArgs),
    /// Record, export and look for rot in a made-up tree of any number of files, of which nothing is read
    #[command(
        long_about = "Record and export a made-up tree of any number of files, and look for rot in it. A \
            formula gives names, sizes and digests; verisum does all the work except reading files. A \
            catalogue and a lake stay in DIR, for queries; a million files take 350 MB."
    )]
    Scale(scale::ScaleArgs),
    /// Compare two files of results: what changed, and whether both rank subjects alike
    #[command(
        long_about = "Compare two files of results: what changed, and whether both rank subjects alike. The \
            exit code is 1 if both rank a pair significantly and in opposite order, although machine, \
            programs and experiment are the same."
    )]
    Compare(compare::BenchCompareArgs),
}

/// Runs one of them.
pub(crate) fn run(arguments: BenchArgs, output: &mut Output) -> Result<Exit, Failure> {
    match arguments.command {
        Some(BenchCommand::Digests(arguments)) => digests::run(&arguments, output),
        Some(BenchCommand::Filesystem(arguments)) => filesystem::run(&arguments, output),
        Some(BenchCommand::Files(arguments)) => files::run(&arguments, output),
        Some(BenchCommand::Image(arguments)) => image::run(&arguments, output),
        Some(BenchCommand::Scale(arguments)) => scale::run(&arguments, output),
        Some(BenchCommand::Compare(arguments)) => compare::run(&arguments, output),
        None => first_look::run(&arguments.options, output),
    }
}

/// How long a run may take without --run-timeout.
pub(crate) const RUN_TIMEOUT: &str = "10m";

/// Options that every measurement has.
#[derive(Args, Debug)]
pub(crate) struct BenchOptions {
    /// Number of rounds
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: Option<u32>,

    /// Run as many rounds as fit into this time: 60s, 5m
    #[arg(long, value_name = "DURATION", conflicts_with = "runs")]
    pub(crate) time: Option<String>,

    /// Number of rounds before those that count
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) warmup: u32,

    /// Show no progress
    #[arg(long)]
    pub(crate) no_progress: bool,

    /// Drop the files from the page cache before each run, and check that they are gone
    #[arg(long)]
    pub(crate) cold: bool,

    /// Seed of the random order of the runs; the same number gives the same order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Time limit of one run. A program that takes longer is killed; work in this process goes on to its end,
    /// and is not repeated. Both are reported as FAILED
    #[arg(long, value_name = "DURATION", default_value = RUN_TIMEOUT)]
    pub(crate) run_timeout: String,

    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

impl BenchOptions {
    /// The plan that was asked for, or else so much.
    pub(crate) fn plan(&self, otherwise: MeasureAmount) -> Result<MeasurePlan, Failure> {
        let amount = match (self.runs, &self.time) {
            (Some(runs), _) => MeasureAmount::Rounds(runs),
            (None, Some(text)) => MeasureAmount::Time(values::duration("--time", text)?),
            (None, None) => otherwise,
        };
        let (warmup, seed, cold) = (self.warmup, self.seed, self.cold);
        let limit = Some(values::duration("--run-timeout", &self.run_timeout)?);
        Ok(MeasurePlan { amount, warmup, seed, cold, limit, ..MeasurePlan::default() })
    }
}
