//! `verisum dirhash`: which hash should name the entries of a directory's index?

mod attack;
mod attack_real;
mod bakeoff;
mod bakeoff_real;
mod cost;
mod hash;
mod inspect;
mod live;
mod names;
mod options;
mod quality;
mod steady;
mod volume;

use clap::Subcommand;

use crate::ui::Output;
use crate::ui::exit::Exit;
use crate::ui::export::ExportOptions;
use crate::ui::failure::Failure;

/// The verbs of `verisum dirhash`.
#[derive(Debug, Subcommand)]
pub(crate) enum DirhashCommand {
    /// Print the hashes of names, as debugfs prints them
    Hash(hash::HashArgs),
    /// Fill directories with each hash and compare how full their blocks become
    Bakeoff(bakeoff::BakeoffArgs),
    /// Create and delete names at random, and watch directories grow
    Steady(steady::SteadyArgs),
    /// Compare hashes on real-world names
    Names(names::NamesArgs),
    /// Measure the time of each hash, by the length of the name
    Cost(cost::CostArgs),
    /// Test how well hashes spread names
    Quality(quality::QualityArgs),
    /// Build names that all have one hash, and show what they do to a directory
    Attack(attack::AttackArgs),
    /// Show the hashes and the fill of a directory on a mounted ext4
    Live(live::LiveArgs),
    /// Check every directory of an ext4 image or device: hashes, order, fill
    Inspect(inspect::InspectArgs),
}

/// Runs one of them.
pub(crate) fn run(command: DirhashCommand, output: &mut Output) -> Result<Exit, Failure> {
    command.files().require()?;
    match command {
        DirhashCommand::Hash(arguments) => hash::run(&arguments, output),
        DirhashCommand::Bakeoff(arguments) => bakeoff::run(&arguments, output),
        DirhashCommand::Steady(arguments) => steady::run(&arguments, output),
        DirhashCommand::Names(arguments) => names::run(&arguments, output),
        DirhashCommand::Cost(arguments) => cost::run(&arguments, output),
        DirhashCommand::Quality(arguments) => quality::run(&arguments, output),
        DirhashCommand::Attack(arguments) => attack::run(&arguments, output),
        DirhashCommand::Live(arguments) => live::run(&arguments, output),
        DirhashCommand::Inspect(arguments) => inspect::run(&arguments, output),
    }
}

impl DirhashCommand {
    /// The files that it writes.
    fn files(&self) -> &ExportOptions {
        let report = match self {
            DirhashCommand::Hash(arguments) => return &arguments.files,
            DirhashCommand::Bakeoff(arguments) => &arguments.report,
            DirhashCommand::Steady(arguments) => &arguments.report,
            DirhashCommand::Names(arguments) => &arguments.report,
            DirhashCommand::Cost(arguments) => &arguments.report,
            DirhashCommand::Quality(arguments) => &arguments.report,
            DirhashCommand::Attack(arguments) => &arguments.report,
            DirhashCommand::Live(arguments) => &arguments.report,
            DirhashCommand::Inspect(arguments) => &arguments.report,
        };
        &report.files
    }
}
