//! `verisum completions`: what a shell needs to complete command lines.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Verisum;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::Output;
use crate::verisum::PROGRAM;

/// Prints the completions for a shell.
pub(crate) fn run(shell: Shell, output: &mut Output) -> Result<Exit, Failure> {
    // The generator panics when it cannot write: give it memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Verisum::command(), PROGRAM, &mut script);
    output.bytes(&script)?;
    Ok(Exit::Clean)
}
