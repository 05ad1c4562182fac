//! `verisum catalog list`: which files are recorded, bad, missing, stale or there twice. Reads no files.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::json;
use verisum::catalog::store::{Catalog, Finding, Listed, Root, Seen, State, Trouble};
use verisum::files::Class;

use super::report::{differences, state};
use crate::ui::catalog::{CatalogArgs, here_or_remote, with_name};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::names::{self, Name};
use crate::ui::sizes::human;
use crate::ui::values::{self, written};
use crate::ui::{Output, shell};

/// What `verisum catalog list` takes.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    /// List files that are bad, could not be compared, or wait to be accepted
    #[arg(long)]
    bad: bool,

    /// List files that are missing
    #[arg(long)]
    missing: bool,

    /// List files that were last verified longer ago than this, stalest first: 90d
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["bad", "missing"])]
    stale: Option<String>,

    /// List files whose content another file has too, the largest first, with an empty line after each content
    #[arg(long, conflicts_with_all = ["bad", "missing", "stale", "tree"])]
    duplicates: bool,

    /// List files below this directory only
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    tree: Option<PathBuf>,

    /// Print a line of JSON for each file
    #[arg(long)]
    json: bool,
}

/// Prints a list.
pub(super) fn run(arguments: &ListArgs, output: &mut Output) -> Result<Exit, Failure> {
    let before = match &arguments.stale {
        Some(text) => Some(values::now() - values::duration("--stale", text)?.as_millis() as i64),
        None => None,
    };
    let catalog = arguments.catalog.open_shared()?;
    catalog.at_one_moment(|| {
        catalog.require_complete()?;
        let has_troubles = arguments.bad || arguments.missing;
        let copies = if has_troubles { catalog.copies_of_troubled()? } else { HashMap::new() };
        let mut list = List { catalog: &catalog, copies, arguments, worst: Exit::Clean, output };
        if arguments.duplicates {
            list.duplicates()?;
            return Ok(list.worst);
        }
        let (roots, below) = match &arguments.tree {
            Some(path) => {
                let (root, below) = found(&catalog, path)?;
                (vec![root], Some(below))
            }
            None => (catalog.roots()?, None),
        };
        for root in &roots {
            let mut each = |file: Listed| match &below {
                Some(below) if !file.path.starts_with(below) => Ok(()),
                _ => list.file(&file),
            };
            match before {
                Some(before) => catalog.each_stale(root, before, &mut each)?,
                None if has_troubles => {
                    catalog.each_in_trouble(root, arguments.bad, arguments.missing, &mut each)?;
                }
                None => all(&catalog, root, &mut each)?,
            }
        }
        Ok(list.worst)
    })
}

/// The tree that holds a path, and that path.
fn found(catalog: &Catalog, path: &Path) -> Result<(Root, PathBuf), Failure> {
    let below = here_or_remote(catalog, path)?;
    catalog.root_of(&below)?.map(|root| (root, below)).ok_or_else(|| {
        let path = names::quoted(path.as_os_str());
        Failure::Usage(format!(
            "--tree: {path}: not in the catalogue (`verisum catalog status` lists what is)"
        ))
    })
}

/// All files of a tree, by path.
fn all(
    catalog: &Catalog,
    root: &Root,
    each: &mut dyn FnMut(Listed) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let algorithms = catalog.algorithms()?;
    catalog.records_by_path(root, &mut |path, record| {
        let algorithm = algorithms.get(&record.algorithm).cloned().unwrap_or_default();
        each(Listed { path: root.path.join(path), directory: 0, algorithm, record: *record })
    })
}

/// A list that is being printed.
struct List<'a> {
    catalog: &'a Catalog,
    /// Where the recorded content of files in trouble is, too.
    copies: HashMap<(i64, Vec<u8>), PathBuf>,
    arguments: &'a ListArgs,
    worst: Exit,
    output: &'a mut Output,
}

impl List<'_> {
    fn file(&mut self, file: &Listed) -> Result<(), Failure> {
        self.worst = self.worst.max(exit(file.record.state));
        let name = file.path.file_name().unwrap_or_default();
        let finding = match file.record.state {
            State::Sound => None,
            _ if file.directory == 0 => None,
            _ => self.catalog.finding(file.directory, name)?,
        };
        match self.arguments.json {
            true => self.json(file, finding.as_ref()),
            false => {
                let copy = self.copy(file);
                let remedy = file.record.state.is_repairable() && file.directory != 0;
                let remedy = remedy.then(|| match copy {
                    Some(_) => format!("mend it: {}", self.command(&file.path)),
                    None => format!("no copy is known: {} --from PLACE", self.command(&file.path)),
                });
                self.output.line(&line(file, finding.as_ref(), copy, remedy))
            }
        }
    }

    /// The command that repairs a file.
    fn command(&self, path: &Path) -> String {
        repair_command(&self.arguments.catalog, path)
    }

    fn copy(&self, file: &Listed) -> Option<&Path> {
        let record = &file.record;
        let is_wanted = record.state != State::Sound && record.state != State::DAMAGED;
        self.copies
            .get(&(record.algorithm, record.digest.as_bytes().to_vec()))
            .filter(|_| is_wanted)
            .map(PathBuf::as_path)
    }

    fn duplicates(&mut self) -> Result<(), Failure> {
        let catalog = self.catalog;
        let mut last = None;
        catalog.each_duplicate(&mut |file| {
            let content = (file.record.size, file.record.digest);
            if !self.arguments.json && last.replace(content).is_some_and(|last| last != content) {
                self.output.line("")?;
            }
            match self.arguments.json {
                true => self.json(&file, None),
                false => self.output.line(&names::quoted(file.path.as_os_str())),
            }
        })
    }

    fn json(&mut self, file: &Listed, finding: Option<&Finding>) -> Result<(), Failure> {
        let mut line = json!({
            "type": "file",
            "outcome": file.record.state.name(),
            "algorithm": file.algorithm,
            "recorded": state(&Seen::of(&file.record)),
            "verified_ms": (file.record.verified != 0).then_some(file.record.verified),
        });
        if let Some(finding) = finding {
            line["since_ms"] = finding.since.into();
            line["found"] = finding.read.as_ref().map(state).into();
            line["error"] = finding.detail.clone().into();
            line["copy"] = json!(self.copy(file).map(Name::new));
            line["mend"] = self.copy(file).map(|_| self.command(&file.path)).into();
        }
        self.output.json(&with_name(line, &file.path))
    }
}

/// A file, its state, and what is known of both.
fn line(file: &Listed, finding: Option<&Finding>, copy: Option<&Path>, remedy: Option<String>) -> String {
    let record = &file.record;
    let mut facts = Vec::new();
    facts.extend(finding.map(|finding| format!("since {}", written(finding.since))));
    let verified = if record.verified == 0 { "never".to_string() } else { written(record.verified) };
    let good = if record.state == State::Sound { "verified" } else { "last good" };
    facts.push(format!("{good} {verified}"));
    facts.push(human(record.size));
    let read = finding.and_then(|finding| finding.read.as_ref());
    match read {
        Some(read) => facts.extend(differences(&Seen::of(record), read, &file.algorithm)),
        None => facts.push(format!("{} {}", file.algorithm, record.digest)),
    }
    facts.extend(finding.and_then(|finding| finding.detail.as_ref()).map(|detail| names::plain(detail)));
    facts.extend(copy.map(|copy| format!("a good copy is {}", names::quoted(copy.as_os_str()))));
    facts.extend(remedy);
    format!("{:<12}  {}  ({})", record.state.name(), names::quoted(file.path.as_os_str()), facts.join("; "))
}

/// What repairs a file or a tree.
pub(super) fn repair_command(catalog: &CatalogArgs, path: &Path) -> String {
    let mut command = "verisum repair".to_string();
    if let Some(catalog) = &catalog.catalog {
        command += &format!(" --catalog {}", shell::word(catalog.as_os_str().as_bytes()));
    }
    format!("{command} {}", shell::word(path.as_os_str().as_bytes()))
}

/// What a list with a file in this state ends with.
pub(super) fn exit(state: State) -> Exit {
    match state {
        State::Sound | State::MISSING => Exit::Clean,
        State::Trouble(Trouble::Held) => Exit::Unchecked,
        State::Trouble(Trouble::Verdict(verdict)) => match verdict.class() {
            Class::Corrupt => Exit::Mismatch,
            Class::Unchecked => Exit::Unchecked,
            Class::Clean | Class::Change => Exit::Clean,
        },
    }
}
