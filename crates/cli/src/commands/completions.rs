//! `verisum completions`: what a shell needs to complete command lines.

use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use verisum::digest::ALGORITHMS;

use crate::ui::Output;
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;

/// Prints the completions for a shell.
pub(crate) fn run(command: clap::Command, shell: Shell, output: &mut Output) -> Result<Exit, Failure> {
    // The generator panics when it cannot write: give it memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut with_digests(command), PROGRAM, &mut script);
    output.bytes(&script)?;
    Ok(Exit::Clean)
}

/// The command line, with the names of digests where one is taken. The parser takes other names too, and
/// its messages are shorter without the list.
fn with_digests(command: clap::Command) -> clap::Command {
    let names = PossibleValuesParser::new(ALGORITHMS.iter().map(|algorithm| algorithm.id));
    command.mut_subcommand("image", |image| {
        image.mut_subcommand("sum", |sum| sum.mut_arg("algorithm", |digest| digest.value_parser(names)))
    })
}
