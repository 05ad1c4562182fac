//! `verisum man`: the manual pages, made from the definition of the command line. Packagers use it.

use std::path::Path;

use clap::CommandFactory;

use crate::args::Verisum;
use crate::exit::Exit;
use crate::failure::Failure;

/// Writes a page for `verisum` and one for each subcommand that is not hidden.
pub(crate) fn run(folder: &Path) -> Result<Exit, Failure> {
    clap_mangen::generate_to(Verisum::command(), folder).map_err(|error| Failure::File {
        name: folder.to_path_buf(),
        operation: "write",
        error,
    })?;
    Ok(Exit::Clean)
}
