//! `verisum remote`: checksums of files on other machines, which need have nothing installed.

mod accept;
mod check;
mod compare;
mod far;
pub(crate) mod hosts;
mod records;
mod report;
mod scrub;
mod sum;

use clap::Subcommand;

pub(crate) use self::accept::accept;
pub(crate) use self::hosts::HostArgs;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::Output;

/// What `verisum remote` takes.
#[derive(Debug, Subcommand)]
pub(crate) enum RemoteCommand {
    /// Print the digests of files on other machines
    #[command(
        long_about = "Print the digests of files on other machines.\n\n\
            PLACE is HOST:PATH, ssh://[USER@]HOST[:PORT]/PATH, or local:PATH for this machine. Directories \
            are taken with all files below them, in the order in which the host lists them. With several \
            hosts, HOST: stands before each name. What computes the digests is told for each host.",
        after_help = crate::args::exit_codes(),
        after_long_help = crate::args::with_environment()
    )]
    Sum(sum::SumArgs),
    /// Check files on other machines against a list of checksums
    #[command(after_help = crate::args::exit_codes(), after_long_help = crate::args::with_environment())]
    Check(check::CheckArgs),
    /// Compare two trees, each on any machine
    #[command(
        long_about = "Compare two trees, each on any machine.\n\n\
            Files that differ, those that only A has (missing) and those that only B has (extra) are \
            listed by name. Files of different sizes are not read. With --quick, files are not read either \
            if the catalogue has their digests, or if they have the same size and time.",
        after_help = crate::args::exit_codes(),
        after_long_help = crate::args::with_environment()
    )]
    Compare(compare::CompareArgs),
    /// Compare trees of other machines with what the catalogue remembers
    #[command(
        long_about = "Compare trees of other machines with what the catalogue remembers.\n\n\
            All files are read, and judged as `verisum scrub` judges those of this machine: new ones are \
            recorded, and modified ones too; another content with the recorded time of modification is read \
            again and called bad, and its record stays until `verisum accept`. The catalogue is one of this \
            machine, and knows the trees by their addresses. Without PLACE, all that it knows.",
        after_help = crate::args::exit_codes(),
        after_long_help = crate::args::with_environment()
    )]
    Scrub(scrub::ScrubArgs),
}

/// Does what `verisum remote` was asked for.
pub(crate) fn run(command: RemoteCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        RemoteCommand::Sum(arguments) => sum::run(arguments, output),
        RemoteCommand::Check(arguments) => check::run(arguments, output),
        RemoteCommand::Compare(arguments) => compare::run(arguments, output),
        RemoteCommand::Scrub(arguments) => scrub::run(arguments, output),
    }
}
