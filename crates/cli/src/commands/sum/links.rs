//! `verisum links`: links so that `verisum` replaces `md5sum` and the like.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use rustix::fs::{OFlags, readlinkat, symlinkat};
use rustix::io::Errno;
use verisum::files::{FileError, Reached, trusted_path};

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

/// Makes a symbolic link for each name. What is there already is not touched, and is no failure if it is that link.
pub(crate) fn run(arguments: &LinksArgs, output: &mut Output) -> Result<Exit, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::File {
        name: "/proc/self/exe".into(),
        operation: "find",
        error,
    })?;
    let directory = &arguments.directory;
    let folder = made(directory).map_err(|error| Failure::file(directory, "make directory", error))?;
    let mut worst = Exit::Clean;
    for personality in NAMES {
        let name = directory.join(personality.name);
        match symlinkat(&program, &folder, personality.name) {
            Ok(()) => output.line(&ui::names::quoted(name.as_os_str()))?,
            Err(Errno::EXIST) if is_link_to(&folder, personality.name, &program) => {}
            Err(error) => {
                let failure = Failure::file(name, "link", error.into());
                ui::say(PROGRAM, &failure.message());
                worst = worst.max(failure.exit());
            }
        }
    }
    Ok(worst)
}

fn is_link_to(folder: &File, name: &str, program: &Path) -> bool {
    readlinkat(folder, name, Vec::new()).is_ok_and(|found| found.as_bytes() == program.as_os_str().as_bytes())
}

/// Opens the directory, which is made where it is missing. Nobody else leads root to another one by a link.
fn made(directory: &Path) -> io::Result<File> {
    let path = trusted_path(directory).map_err(FileError::into_io)?;
    std::fs::create_dir_all(&path)?;
    Reached::new(&path).and_then(|reached| reached.open(OFlags::DIRECTORY)).map_err(FileError::into_io)
}
