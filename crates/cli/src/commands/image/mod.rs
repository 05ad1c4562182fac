//! `verisum image`: disk images. One module for each of its verbs.

pub(crate) mod options;
mod sum;

use clap::Subcommand;

use crate::args::{exit_codes, with_environment};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::Output;

/// The verbs of `verisum image`.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Print the block hash of disk images
    #[command(
        long_about = "Print the block hash of disk images: raw files, block devices and pipes.\n\n\
            The value is that of what a guest sees: the same whether the image is sparse or full, a file, \
            a device or a pipe. It depends on the digest and the block size and on nothing else. Holes \
            are not read. It is not the digest of the file, which sha256sum prints.",
        after_help = exit_codes(),
        after_long_help = with_environment()
    )]
    Sum(sum::SumArgs),
}

/// Does what one of them says.
pub(crate) fn run(command: ImageCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        ImageCommand::Sum(arguments) => sum::run(arguments, output),
    }
}
