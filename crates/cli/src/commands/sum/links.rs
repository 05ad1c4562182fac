//! `verisum links`: links so that `verisum` replaces `md5sum` and the like.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::NAMES;
use crate::ui::PROGRAM;
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{self, Output};

/// What `verisum links` takes.
#[derive(Args, Debug)]
pub(crate) struct LinksArgs {
    /// The directory for the links; created if it does not exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

/// Makes a symbolic link for each name. What is there already is not touched.
pub(crate) fn run(arguments: &LinksArgs, output: &mut Output) -> Result<Exit, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::File {
        name: PROGRAM.into(),
        operation: "find",
        error,
    })?;
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory).map_err(|error| Failure::File {
        name: directory.clone(),
        operation: "make directory",
        error,
    })?;
    let mut worst = Exit::Clean;
    for personality in NAMES {
        let name = directory.join(personality.name);
        match std::os::unix::fs::symlink(&program, &name) {
            Ok(()) => output.line(&ui::names::quoted(name.as_os_str()))?,
            Err(error) => {
                let failure = Failure::File { name, operation: "link", error };
                ui::say(PROGRAM, &failure.message());
                worst = worst.max(failure.exit());
            }
        }
    }
    Ok(worst)
}
