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

/// The command line, with the names of digests wherever one is taken. The parser takes other names too, and
/// its messages are shorter without the list.
pub(crate) fn with_digests(command: clap::Command) -> clap::Command {
    let takes_digest = |arg: &clap::Arg| {
        arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.starts_with("DIGEST")))
    };
    let names = || PossibleValuesParser::new(ALGORITHMS.iter().map(|algorithm| algorithm.id));
    let command = command.mut_args(|arg| if takes_digest(&arg) { arg.value_parser(names()) } else { arg });
    command.mut_subcommands(with_digests)
}
