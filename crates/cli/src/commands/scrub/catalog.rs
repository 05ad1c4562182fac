//! `verisum catalog`: export, import, check, backup, restore, relocate, forget, rehash, status and list.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use serde::Serialize;
use verisum::catalog::store::{self as store, Catalog, CatalogError, CatalogPass, Problem, Root, Unmovable};
use verisum::files::store::manifest::ListFormat;
use verisum::files::{Replacement, Stop};
use verisum::remote::{Address, Host};

use super::import::{self, ImportArgs};
use super::lake::ExportFormat;
use super::list::CatalogListArgs;
use super::rehash::RehashArgs;
use super::status::CatalogStatusArgs;
use crate::ui::PROGRAM;
use crate::ui::catalog::{CatalogArgs, absolute, address, here_or_remote, refuse_own, tree};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::json::Outcome;
use crate::ui::progress::{self, ProgressArgs};
use crate::ui::repair_commands::of_catalog;
use crate::ui::signals::Ending;
use crate::ui::values::{counted, damaged_records};
use crate::ui::{self, Output, names, shell};

/// How many names are listed that a format has no place for.
const NAMED: u64 = 10;

/// The verbs of `verisum catalog`.
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Write all records as lines of JSON or as a list of checksums, or the changed ones to a lake
    Export(ExportArgs),
    /// Record the files of an export, a lake or a list of checksums; existing records stay
    #[command(
        long_about = "Record the files of an export, a lake or a list of checksums. Existing records stay.\n\n\
            Takes the lists that `verisum check` takes, the indexes of chkbit and bitrot, and the \
            directories of lakes, and recognizes their format. Digests of lists are not verified yet: the next \
            scrub verifies them. Exports and lakes also say when each file was verified."
    )]
    Import(ImportArgs),
    /// Look for damage in the catalogue
    Check {
        #[command(flatten)]
        catalog: CatalogArgs,
        #[command(flatten)]
        progress: ProgressArgs,
        /// Print a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy the catalogue as it is, also while a scrub runs
    Backup {
        #[command(flatten)]
        catalog: CatalogArgs,
        #[command(flatten)]
        progress: ProgressArgs,
        /// Print a line of JSON
        #[arg(long)]
        json: bool,
        /// The copy; an existing file is replaced
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        to: PathBuf,
    },
    /// Replace the catalogue, which may be damaged or lost, by a backup
    Restore {
        #[command(flatten)]
        catalog: CatalogArgs,
        #[command(flatten)]
        progress: ProgressArgs,
        /// Print a line of JSON
        #[arg(long)]
        json: bool,
        /// The backup; it is checked first and stays as it is
        #[arg(value_hint = ValueHint::FilePath)]
        backup: PathBuf,
    },
    /// Move a directory's records to a new path
    Relocate(RelocateArgs),
    /// Remove the records of a tree; its files stay as they are
    Forget(ForgetArgs),
    /// Change the digest of the records of this machine's trees, as scrubs read the files
    #[command(
        long_about = "Change the digest of the records of this machine's trees, as scrubs read the files.\n\n\
            Reads no file. From then on, a scrub that reads a file computes both digests in one read, and \
            records the new one if the old one is as recorded. A file that is not good keeps its record. \
            `verisum catalog status` says how many records are left."
    )]
    Rehash(RehashArgs),
    /// List the directories in the catalogue, and how their last runs went
    #[command(
        long_about = "List the directories in the catalogue, and how their last runs went. No file is read.\n\n\
            With --max-age, --missing fail or --prometheus, the exit code is 1 if files are bad or held; 3 if \
            files are stale or could not be compared, or if the last run failed or was incomplete. With --nagios \
            it is 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."
    )]
    Status(CatalogStatusArgs),
    /// List files: all, or those that are bad, missing, stale or duplicates
    #[command(long_about = "List files of the catalogue: all, or those that are bad, missing, stale or \
            duplicates. Reads no file.\n\n\
            Each line has the verdict of the last scrub, since when it holds, when the file was last good, \
            and what it was at that time. The exit code is 1 if a listed file is bad, and 3 if one could \
            not be compared.")]
    List(CatalogListArgs),
}

impl CatalogCommand {
    /// Whether to draw progress.
    pub(super) fn progress(&self) -> ProgressArgs {
        match self {
            CatalogCommand::Export(arguments) => arguments.progress,
            CatalogCommand::Import(arguments) => arguments.progress,
            CatalogCommand::Check { progress, .. }
            | CatalogCommand::Backup { progress, .. }
            | CatalogCommand::Restore { progress, .. } => *progress,
            CatalogCommand::Relocate(arguments) => arguments.progress,
            CatalogCommand::Forget(arguments) => arguments.progress,
            CatalogCommand::Rehash(arguments) => arguments.progress,
            CatalogCommand::Status(arguments) => arguments.progress,
            CatalogCommand::List(arguments) => arguments.progress,
        }
    }

    /// The passes that it makes over all records.
    pub(super) fn passes(&self) -> &'static [CatalogPass] {
        use CatalogPass::{Backup, ByPath, Check, Complete, Copies, Export, Forget, Survey};
        match self {
            CatalogCommand::Export(arguments) => match arguments.format {
                Some(ExportFormat::Parquet) => &[Complete, ByPath],
                _ => &[Complete, Export],
            },
            CatalogCommand::Check { .. } => &[Check],
            CatalogCommand::Backup { .. } => &[Backup],
            CatalogCommand::Restore { .. } => &[Check, Backup],
            CatalogCommand::Forget(_) => &[Forget],
            CatalogCommand::Status(_) => &[Survey, Copies],
            CatalogCommand::List(arguments) => arguments.passes(),
            // An import counts the bytes of its files.
            CatalogCommand::Import(_) | CatalogCommand::Relocate(_) | CatalogCommand::Rehash(_) => &[],
        }
    }
}

/// What `verisum catalog export` takes.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    #[command(flatten)]
    progress: ProgressArgs,

    /// Write a list in this format, for `verisum check` and other programs; with `parquet`, FILE is a
    /// directory, the lake: only the records that changed since the last export are added
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,

    /// List the files below this directory, with names relative to it
    #[arg(long, value_name = "DIR", requires = "format", value_hint = ValueHint::DirPath)]
    tree: Option<PathBuf>,

    /// With --format parquet: print a line of JSON with the totals
    #[arg(long)]
    json: bool,

    /// The same as FILE
    #[arg(short, long = "output", value_name = "FILE", conflicts_with = "file", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// The file to write, or the lake; without it, standard output
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
}

/// What `verisum catalog relocate` takes.
#[derive(Args, Debug)]
pub(crate) struct RelocateArgs {
    #[command(flatten)]
    catalog: CatalogArgs,
    #[command(flatten)]
    progress: ProgressArgs,
    /// Relocate even if TO does not exist, because its file system is not mounted
    #[arg(long)]
    unmounted: bool,
    /// Say how many records would be moved, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
    /// The old path
    from: PathBuf,
    /// The new path of the same tree
    #[arg(value_hint = ValueHint::DirPath)]
    to: PathBuf,
}

/// What `verisum catalog forget` takes.
#[derive(Args, Debug)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    catalog: CatalogArgs,
    #[command(flatten)]
    progress: ProgressArgs,
    /// Forget the tree even if some of its files are bad, missing or held
    #[arg(long)]
    yes: bool,
    /// Say what would be forgotten, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
    /// The tree, as `verisum catalog status` lists it; it need not exist
    #[arg(value_hint = ValueHint::DirPath)]
    tree: PathBuf,
}

/// Runs one of the verbs.
pub(crate) fn run(command: &CatalogCommand, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        CatalogCommand::Export(arguments) => export(arguments, output),
        CatalogCommand::Import(arguments) => import::run(arguments, output),
        CatalogCommand::Check { catalog, json, .. } => check(catalog, *json, output),
        CatalogCommand::Backup { catalog, to, json, .. } => {
            until_a_signal(|stop| Ok(catalog.open_shared()?.back_up(to, stop)?))?;
            output.summary(*json, None, &Outcome::of(to, "copied", ()))?;
            Ok(Exit::Clean)
        }
        CatalogCommand::Restore { catalog, backup, json, .. } => {
            let backup = absolute(backup)?;
            let path = catalog.path_to_write()?;
            let restored = until_a_signal(|stop| {
                Ok(Catalog::open_to_read(&backup).and_then(|from| {
                    progress::count_steps_of(&from);
                    store::restore(&from, &path, stop)
                }))
            });
            let problems = damage(restored?, &backup)?;
            let outcome = if problems.is_empty() { "restored" } else { "damaged" };
            output.summary(*json, None, &Outcome::of(&path, outcome, Problems { problems: &problems }))?;
            Ok(if problems.is_empty() { Exit::Clean } else { Exit::Mismatch })
        }
        CatalogCommand::Relocate(arguments) => relocate(arguments, output),
        CatalogCommand::Forget(arguments) => forget(arguments, output),
        CatalogCommand::Rehash(arguments) => super::rehash::run(arguments, output),
        CatalogCommand::Status(arguments) => super::status::run(arguments, output),
        CatalogCommand::List(arguments) => super::list::run(arguments, output),
    }
}

/// Does what a signal ends only when nothing of it is left behind.
fn until_a_signal<T>(work: impl FnOnce(&Stop) -> Result<T, Failure>) -> Result<T, Failure> {
    let ending = Ending::new()?;
    let done = work(&Stop::when(ending.asked().clone()));
    ending.obey();
    done
}

fn export(arguments: &ExportArgs, output: &mut Output) -> Result<Exit, Failure> {
    let catalog = arguments.catalog.open_shared()?;
    if matches!(arguments.format, Some(ExportFormat::Parquet)) {
        if arguments.tree.is_some() {
            return Err(Failure::Usage("--format parquet: takes all trees, and no --tree".to_string()));
        }
        let lake = arguments.file.as_ref().or(arguments.output.as_ref());
        return super::lake::export(&catalog, lake, arguments.json, output);
    }
    if arguments.json {
        let why =
            "only for --format parquet (without --format an export is JSON, and --format json is a list)";
        return Err(Failure::Usage(format!("--json: {why}")));
    }
    catalog.at_one_moment(|| export_from(&catalog, arguments, output))
}

fn export_from(catalog: &Catalog, arguments: &ExportArgs, output: &mut Output) -> Result<Exit, Failure> {
    catalog.require_complete()?;
    match arguments.file.as_ref().or(arguments.output.as_ref()) {
        Some(path) => {
            let failed = |error| Failure::File { name: path.clone(), operation: "write", error };
            refuse_own(catalog.path(), path)?;
            let replacement = Replacement::private(path)?;
            let mut to = BufWriter::new(replacement.file());
            let exit = write(catalog, arguments, &mut to)?;
            to.flush().map_err(failed)?;
            drop(to);
            replacement.place()?;
            Ok(exit)
        }
        None => {
            let mut to = StandardOutput { output, failure: None };
            let exported = write(catalog, arguments, &mut to);
            match to.failure {
                Some(failure) => Err(failure),
                None => exported,
            }
        }
    }
}

fn write(catalog: &Catalog, arguments: &ExportArgs, to: &mut dyn Write) -> Result<Exit, Failure> {
    let Some(ExportFormat::List(format)) = arguments.format else {
        let damaged = catalog.export(to)?;
        if damaged == 0 {
            return Ok(Exit::Clean);
        }
        let path = names::quoted(catalog.path().as_os_str());
        ui::say(PROGRAM, &format!("{path}: export: {}", damaged_records(damaged)));
        return Ok(Exit::Unchecked);
    };
    let below = match &arguments.tree {
        Some(path) => Some(here_or_remote(catalog, path)?),
        None if format == ListFormat::S3 => bucket(&catalog.roots()?)?,
        None => None,
    };
    if let Some(below) = &below
        && !catalog.roots()?.iter().any(|root| root.path.starts_with(below) || below.starts_with(&root.path))
    {
        let error = io::Error::other("it is in no tree of the catalogue");
        return Err(Failure::File { name: below.clone(), operation: "export", error });
    }
    let mut named = 0;
    let mut left_out = |error: CatalogError| {
        named += 1;
        if named <= NAMED {
            ui::say(PROGRAM, &Failure::Catalog(error).message());
        }
    };
    let exported = catalog.list(format, below.as_deref(), to, &mut left_out)?;
    let path = names::quoted(catalog.path().as_os_str());
    for (count, thing) in [(exported.damaged, "damaged record"), (exported.unlistable, "unlistable name")] {
        if count > 0 {
            ui::say(PROGRAM, &format!("{path}: export: {} left out", counted(count, thing)));
        }
    }
    match exported.damaged + exported.unlistable {
        0 => Ok(Exit::Clean),
        _ => Ok(Exit::Unchecked),
    }
}

/// The bucket that all trees are in, below which names are keys; none if no tree is in one.
fn bucket(roots: &[Root]) -> Result<Option<PathBuf>, Failure> {
    let host = |root: &Root| Address::parse(root.path.as_os_str(), true).map(|address| address.host).ok();
    let mut hosts: Vec<Option<Host>> = roots.iter().map(host).collect();
    hosts.dedup();
    match &hosts[..] {
        [Some(Host::Bucket(url))] => Ok(Some(url.into())),
        hosts if hosts.iter().any(|host| matches!(host, Some(Host::Bucket(_)))) => {
            let why = "the trees are not all in one bucket: name one by --tree";
            Err(Failure::Usage(format!("--format s3: {why}")))
        }
        _ => Ok(None),
    }
}

/// Standard output as something to write to; keeps why that failed.
struct StandardOutput<'a> {
    output: &'a mut Output,
    failure: Option<Failure>,
}

impl Write for StandardOutput<'_> {
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

/// What is wrong with a catalogue.
#[derive(Serialize)]
struct Problems<'a> {
    problems: &'a [String],
}

fn check(catalog: &CatalogArgs, json: bool, output: &mut Output) -> Result<Exit, Failure> {
    let path = catalog.path()?;
    let mut roots = Vec::new();
    let checked = Catalog::open_to_read(&path).and_then(|catalog| {
        progress::count_steps_of(&catalog);
        let problems = catalog.check()?;
        if problems.is_empty() {
            roots = catalog.roots()?;
        }
        Ok(problems)
    });
    let problems = damage(checked, &path)?;
    let sound = format!(
        "{}: sound: {} (the history of runs and repairs, and what was found of bad and missing files, have no \
         check values)",
        names::quoted(path.as_os_str()),
        super::totals(&roots)
    );
    let (outcome, text, exit) = match problems.is_empty() {
        true => ("sound", Some(&*sound), Exit::Clean),
        false => ("damaged", None, Exit::Mismatch),
    };
    output.summary(json, text, &Outcome::of(&path, outcome, Problems { problems: &problems }))?;
    Ok(exit)
}

/// What is wrong with a catalogue, which is said, also where it cannot even be opened.
fn damage(checked: Result<Vec<Problem>, CatalogError>, catalog: &Path) -> Result<Vec<String>, Failure> {
    match checked {
        Ok(problems) => {
            let path = names::quoted(catalog.as_os_str());
            let problems: Vec<_> = problems.iter().map(|problem| names::plain(&problem.0)).collect();
            problems.iter().for_each(|problem| ui::say(PROGRAM, &format!("{path}: check: {problem}")));
            Ok(problems)
        }
        Err(error) if error.is_damage() => {
            let problem = names::plain(&error.to_string());
            ui::say(PROGRAM, &problem);
            Ok(vec![problem])
        }
        Err(error) => Err(error.into()),
    }
}

fn relocate(arguments: &RelocateArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (_lock, catalog) = match arguments.dry_run {
        true => (None, arguments.catalog.open_shared()?),
        false => arguments.catalog.open_existing().map(|(lock, catalog)| (Some(lock), catalog))?,
    };
    let from = &arguments.from;
    let failed = |name: &PathBuf, why: &str| Failure::File {
        name: name.clone(),
        operation: "relocate",
        error: io::Error::other(why),
    };
    let root = tree(&catalog, from)?.ok_or_else(|| failed(from, "it is no tree of the catalogue"))?;
    let to = match address(&catalog, &arguments.to, root.is_remote())? {
        Some(address) => address,
        None => absolute(&arguments.to)?,
    };
    let is_borne = |why: &Unmovable| arguments.unmounted && *why == Unmovable::NoDirectory;
    if let Some(why) = catalog.why_unmovable(&root, &to)?.filter(|why| !is_borne(why)) {
        let hint = match why {
            Unmovable::Taken => " (`verisum catalog forget` removes one)",
            Unmovable::OtherMachine => "",
            Unmovable::NoDirectory => " (--unmounted takes its place as it will be)",
        };
        return Err(failed(&to, &format!("{why}{hint}")));
    }
    let dry_run = arguments.dry_run;
    if !dry_run {
        catalog.relocate(root.id, &to)?;
    }
    let records = counted(root.files, "record");
    let option = arguments.catalog.catalog.as_deref().map(of_catalog).unwrap_or_default();
    let scrub = format!("verisum scrub{option} {}", shell::word(to.as_os_str().as_encoded_bytes()));
    let place = names::quoted(to.as_os_str());
    let text = match dry_run {
        true => format!("{records} would be moved to {place}"),
        false => format!("{records} moved to {place} (`{scrub}` compares its files with them)"),
    };
    let moved = MovedRecords { records: root.files, dry_run };
    output.summary(arguments.json, Some(&text), &Outcome::of(&to, "moved", moved))?;
    Ok(Exit::Clean)
}

/// The records of a tree that has another path now.
#[derive(Serialize)]
struct MovedRecords {
    records: u64,
    dry_run: bool,
}

/// The records of a tree that are gone.
#[derive(Serialize)]
struct ForgottenRecords {
    records: u64,
    /// How many of them are of files that are bad, missing or waiting.
    waiting: u64,
    dry_run: bool,
}

fn forget(arguments: &ForgetArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (_lock, catalog) = match arguments.dry_run {
        true => (None, arguments.catalog.open_shared()?),
        false => arguments.catalog.open_existing().map(|(lock, catalog)| (Some(lock), catalog))?,
    };
    let name = &arguments.tree;
    let failed =
        |why: String| Failure::File { name: name.clone(), operation: "forget", error: io::Error::other(why) };
    let root = tree(&catalog, name)?.ok_or_else(|| failed("it is no tree of the catalogue".to_string()))?;
    let waiting = catalog.waiting(root.id)?;
    let place = names::quoted(root.path.as_os_str());
    if arguments.dry_run {
        let records = counted(root.files, "record");
        let lost = match waiting {
            0 => String::new(),
            _ => format!(", {waiting} of them of files that are bad, missing or waiting: that needs --yes"),
        };
        let text = format!("{records} of {place} would be forgotten{lost}");
        let told = ForgottenRecords { records: root.files, waiting, dry_run: true };
        output.summary(arguments.json, Some(&text), &Outcome::of(&root.path, "forgotten", told))?;
        return Ok(Exit::Clean);
    }
    if waiting > 0 && !arguments.yes {
        let are = if waiting == 1 { "is" } else { "are" };
        let files = counted(waiting, "file");
        let option = arguments.catalog.catalog.as_deref().map(of_catalog).unwrap_or_default();
        let tree = shell::word(root.path.as_os_str().as_encoded_bytes());
        let list = format!("verisum catalog list --bad --missing{option} --tree {tree}");
        return Err(failed(format!(
            "{files} of it {are} bad, missing or waiting (`{list}` lists them, --yes forgets their records too)"
        )));
    }
    let forgotten = catalog.forget_root(&root)?;
    let text = format!("{} of {place} forgotten; its files stay as they are", counted(forgotten, "record"));
    let told = ForgottenRecords { records: forgotten, waiting, dry_run: false };
    output.summary(arguments.json, Some(&text), &Outcome::of(&root.path, "forgotten", told))?;
    Ok(Exit::Clean)
}
