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
fn with_digests(command: clap::Command) -> clap::Command {
    let takes_digest = |arg: &clap::Arg| {
        arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.starts_with("DIGEST")))
    };
    let names = || PossibleValuesParser::new(ALGORITHMS.iter().map(|algorithm| algorithm.id));
    let command = command.mut_args(|arg| if takes_digest(&arg) { arg.value_parser(names()) } else { arg });
    command.mut_subcommands(with_digests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(command: &clap::Command, offering: &mut usize, taking: &mut usize) {
        for arg in command.get_arguments() {
            let takes = arg.get_value_names().is_some_and(|names| names[0].starts_with("DIGEST"));
            *taking += usize::from(takes);
            *offering += usize::from(takes && arg.get_possible_values().len() == ALGORITHMS.len());
        }
        command.get_subcommands().for_each(|verb| count(verb, offering, taking));
    }

    #[test]
    fn every_option_that_takes_a_digest_offers_them() {
        use clap::CommandFactory;
        let whole = with_digests(crate::args::Verisum::<crate::args::Command>::command());
        let (mut offering, mut taking) = (0, 0);
        count(&whole, &mut offering, &mut taking);
        assert!(taking > 10 && offering == taking, "{offering} of {taking}");
    }
}
