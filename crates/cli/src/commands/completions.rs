//! `verisum completions`: what a shell needs to complete command lines.

use clap::CommandFactory;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use verisum_digest::ALGORITHMS;

use crate::args::{Command, Verisum};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::Output;
use crate::verisum::PROGRAM;

/// Prints the completions for a shell.
pub(crate) fn run(shell: Shell, output: &mut Output) -> Result<Exit, Failure> {
    // The generator panics when it cannot write: give it memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), PROGRAM, &mut script);
    output.bytes(&script)?;
    Ok(Exit::Clean)
}

/// The command line, with the names of digests where one is taken. The parser takes other names too, and
/// its messages are shorter without the list.
fn command() -> clap::Command {
    let names = PossibleValuesParser::new(ALGORITHMS.iter().map(|algorithm| algorithm.id));
    Verisum::<Command>::command().mut_subcommand("image", |image| {
        image.mut_subcommand("sum", |sum| sum.mut_arg("algorithm", |digest| digest.value_parser(names)))
    })
}
