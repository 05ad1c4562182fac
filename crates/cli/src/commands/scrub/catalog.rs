//! `verisum catalog`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::place::{CatalogArgs, absolute, refuse_own};
use super::values;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, Output, names};
use crate::replace::Replacement;
use crate::verisum::PROGRAM;

/// The verbs of `verisum catalog`.
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Write all records as lines of JSON
    Export {
        #[command(flatten)]
        catalog: CatalogArgs,
        /// The file to write; without it, standard output
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Record what an export holds; files that have a record keep it
    Import {
        #[command(flatten)]
        catalog: CatalogArgs,
        /// The export; `-` is standard input
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Look for damage in the catalogue
    Check {
        #[command(flatten)]
        catalog: CatalogArgs,
    },
    /// Copy the catalogue as it is, also while a scrub runs
    Backup {
        #[command(flatten)]
        catalog: CatalogArgs,
        /// The copy, which replaces what has its name
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        to: PathBuf,
    },
    /// Say that a directory's records are those of another path from now on
    Relocate(RelocateArgs),
    /// List the directories in the catalogue, and how their last runs went
    Status {
        #[command(flatten)]
        catalog: CatalogArgs,
        /// Print a line of JSON for each directory
        #[arg(long)]
        json: bool,
    },
}

/// What `verisum catalog relocate` takes.
#[derive(Args, Debug)]
pub(crate) struct RelocateArgs {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// The path that was scrubbed until now
    from: PathBuf,
    /// The path that the same tree has now
    #[arg(value_hint = ValueHint::DirPath)]
    to: PathBuf,
}

/// Runs one of the verbs.
pub(crate) fn run(command: &CatalogCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        CatalogCommand::Export { catalog, output: file } => export(catalog, file.as_ref(), output),
        CatalogCommand::Import { catalog, file } => import(catalog, file, output),
        CatalogCommand::Check { catalog } => check(catalog, output),
        CatalogCommand::Backup { catalog, to } => {
            let catalog = catalog.open_shared()?;
            refuse_own(catalog.path(), to)?;
            catalog.back_up(&absolute(to)?)?;
            Ok(Exit::Clean)
        }
        CatalogCommand::Relocate(arguments) => relocate(arguments),
        CatalogCommand::Status { catalog, json } => super::status::status(catalog, *json, output),
    }
}

fn export(catalog: &CatalogArgs, file: Option<&PathBuf>, output: &mut Output) -> Result<Exit, Failure> {
    let catalog = catalog.open_shared()?;
    match file {
        Some(path) => {
            let failed = |error| Failure::File { name: path.clone(), operation: "write", error };
            refuse_own(catalog.path(), path)?;
            let replacement = Replacement::new(path)?;
            let mut to = BufWriter::new(replacement.file());
            catalog.export(&mut to)?;
            to.flush().map_err(failed)?;
            drop(to);
            replacement.place()?;
        }
        None => {
            let mut to = Lines { output, failure: None };
            let exported = catalog.export(&mut to);
            if let Some(failure) = to.failure {
                return Err(failure);
            }
            exported?;
        }
    }
    Ok(Exit::Clean)
}

/// Standard output as something to write to; keeps why that failed.
struct Lines<'a> {
    output: &'a mut Output,
    failure: Option<Failure>,
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.bytes(bytes).map(|()| bytes.len()).map_err(|failure| {
            self.failure = Some(failure);
            io::ErrorKind::BrokenPipe.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn import(catalog: &CatalogArgs, file: &PathBuf, output: &mut Output) -> Result<Exit, Failure> {
    let mut from: Box<dyn BufRead> = match file.as_os_str() == "-" {
        true => Box::new(BufReader::new(io::stdin())),
        false => {
            let failed = |error| Failure::File { name: file.clone(), operation: "open", error };
            Box::new(BufReader::new(File::open(file).map_err(failed)?))
        }
    };
    let (_lock, catalog) = catalog.open()?;
    let imported = catalog.import(&mut from, values::now())?;
    output.line(&format!("{} recorded, {} known already", imported.added, imported.known))?;
    Ok(Exit::Clean)
}

fn check(catalog: &CatalogArgs, output: &mut Output) -> Result<Exit, Failure> {
    let path = catalog.path()?;
    let problems = match catalog.open_shared().and_then(|catalog| Ok(catalog.check()?)) {
        Ok(problems) => problems,
        Err(Failure::Catalog(error)) if error.is_damage() => {
            render::say(PROGRAM, &names::plain(&error.to_string()));
            return Ok(Exit::Mismatch);
        }
        Err(failure) => return Err(failure),
    };
    let path = names::quoted(path.as_os_str());
    for problem in &problems {
        render::say(PROGRAM, &format!("{path}: check: {}", names::plain(&problem.0)));
    }
    if problems.is_empty() {
        output.line(&format!("{path}: sound"))?;
        return Ok(Exit::Clean);
    }
    Ok(Exit::Mismatch)
}

fn relocate(arguments: &RelocateArgs) -> Result<Exit, Failure> {
    let (_lock, catalog) = arguments.catalog.open_existing()?;
    let (from, to) = (absolute(&arguments.from)?, absolute(&arguments.to)?);
    let failed = |name: &PathBuf, why: &str| Failure::File {
        name: name.clone(),
        operation: "relocate",
        error: io::Error::other(why),
    };
    let root = catalog.root(&from)?.ok_or_else(|| failed(&from, "it is no tree of the catalogue"))?;
    if catalog.root(&to)?.is_some() {
        return Err(failed(&to, "it is a tree of the catalogue already"));
    }
    catalog.relocate(root.id, &to)?;
    Ok(Exit::Clean)
}
