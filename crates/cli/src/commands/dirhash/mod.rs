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

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::Output;

/// The verbs of `verisum dirhash`.
#[derive(Debug, Subcommand)]
pub(crate) enum DirhashCommand {
    /// Print the hashes of names, as debugfs prints them
    Hash(hash::HashArgs),
    /// Fill directories with each hash and compare how full their blocks become
    Bakeoff(bakeoff::BakeoffArgs),
    /// Let names come and go, and watch directories grow
    Steady(steady::SteadyArgs),
    /// Compare hashes on names as people have them
    Names(names::NamesArgs),
    /// Measure what each hash costs against the length of the name
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
