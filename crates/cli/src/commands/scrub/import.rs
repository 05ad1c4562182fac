//! `verisum catalog import`: records the files of lists, indexes, exports and lakes.

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde::Serialize;
use verisum::catalog::Bitrot;
use verisum::catalog::store::{Catalog, ImportCounts, is_address};
use verisum::files::check::{bag_of, manifests_of, open_to_record};
use verisum::files::store::manifest::{
    BlockHashes, Chkbit, ChkbitFile, IndexError, ListOptions, ReadError, is_chkbit,
};
use verisum::files::{Directory, Stop, Timestamp};

use super::dry_run::Tried;
use crate::ui::Decomposed;
use crate::ui::PROGRAM;
use crate::ui::catalog::{CatalogArgs, absolute, here_or_remote};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::json::Outcome;
use crate::ui::progress::{self, CountedReader, ProgressArgs};
use crate::ui::values::counted;
use crate::ui::{self, Output, block_hashes, digests, names};

/// How many listed files that are not there are named.
const NAMED: u64 = 10;

/// What `verisum catalog import` takes.
#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    catalog: CatalogArgs,

    #[command(flatten)]
    pub(super) progress: ProgressArgs,

    /// The directory where the names of a list begin; without it, the working directory, or the directory of
    /// an index
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    tree: Option<PathBuf>,

    /// The digest, if the list does not name it
    #[arg(short, long, value_name = "DIGEST")]
    algorithm: Option<String>,

    /// Say what would be recorded, and change nothing: tries the import with a copy of the catalogue
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Print a line of JSON
    #[arg(long)]
    json: bool,

    /// Exports, lists, bags, indexes and lakes; each is recorded as a whole or not at all. `-` is standard input
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

/// Records what is in lists, indexes, exports and lakes.
pub(super) fn run(arguments: &ImportArgs, output: &mut Output) -> Result<Exit, Failure> {
    if arguments.dry_run {
        let tried = Tried::new(&arguments.catalog)?;
        return import_all(arguments, tried.catalog(), &|| tried.is_ended(), output);
    }
    let path = arguments.catalog.path_to_write()?;
    let is_new = path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let (lock, catalog) = arguments.catalog.open()?;
    let imported = import_all(arguments, &catalog, &|| false, output);
    // Another run may have made it meanwhile.
    let is_unused = catalog.roots().is_ok_and(|roots| roots.is_empty());
    if is_new && !matches!(imported, Ok(Exit::Clean)) && is_unused {
        drop(catalog);
        let discarded = lock.discard(&path);
        // Why the import failed says more.
        let exit = imported?;
        discarded?;
        return Ok(exit);
    }
    imported
}

/// Imports lists until it is time to end.
fn import_all(
    arguments: &ImportArgs,
    catalog: &Catalog,
    is_ended: &dyn Fn() -> bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let algorithm = digests::optional_name(arguments.algorithm.as_deref())?.map(Cow::Owned);
    let now = Timestamp::now();
    let length = |file: &PathBuf| file.metadata().ok().filter(Metadata::is_file).map(|about| about.len());
    let lengths: Option<Vec<u64>> = arguments.files.iter().map(length).collect();
    progress::expect_steps(lengths.map_or(0, |lengths| lengths.iter().sum()));
    let (mut sum, mut worst) = (ImportCounts::default(), Exit::Clean);
    let manifests = |file: &PathBuf| -> Vec<PathBuf> {
        manifests_of(file)
            .map_or_else(|| vec![file.clone()], |all| all.into_iter().map(PathBuf::from).collect())
    };
    let files: Vec<PathBuf> = arguments.files.iter().flat_map(manifests).collect();
    for file in &files {
        if is_ended() {
            break;
        }
        let list = ImportedList { file, tree: arguments.tree.as_deref(), algorithm: &algorithm, now };
        match list.import(catalog) {
            Ok((imported, exit)) => {
                sum.added += imported.added;
                sum.known += imported.known;
                sum.differing += imported.differing;
                worst = worst.max(exit);
            }
            Err(failure) if files.len() > 1 => {
                ui::say(PROGRAM, &failure.message());
                worst = worst.max(failure.exit());
            }
            Err(failure) => return Err(failure),
        }
    }
    let recorded = if arguments.dry_run { "would be recorded" } else { "recorded" };
    let text = format!("{} {recorded}, {} known already", sum.added, sum.known);
    let ImportCounts { added, known, differing, .. } = sum;
    let summary = ImportSummary { added, known, differing, dry_run: arguments.dry_run };
    // Of a trial it is that which stays as it is.
    let outcome = Outcome::of(&arguments.catalog.path()?, "imported", summary);
    output.summary(arguments.json, Some(&text), &outcome)?;
    if sum.differing > 0 {
        let known = counted(sum.differing, "known file");
        let what = "listed with a different digest than the recorded one, which stays";
        ui::say(PROGRAM, &format!("{known} {what} (`verisum catalog forget` removes a tree's records)"));
    }
    Ok(worst)
}

/// What came of an import.
#[derive(Serialize)]
struct ImportSummary {
    added: u64,
    known: u64,
    differing: u64,
    dry_run: bool,
}

/// A list to import.
struct ImportedList<'a> {
    file: &'a Path,
    tree: Option<&'a Path>,
    algorithm: &'a Option<Cow<'static, str>>,
    now: Timestamp,
}

impl ImportedList<'_> {
    fn import(&self, catalog: &Catalog) -> Result<(ImportCounts, Exit), Failure> {
        let ImportedList { file, tree, algorithm, now } = *self;
        let name = names::quoted(file.as_os_str());
        if file.is_dir() {
            let imported = verisum::lake::import(catalog, file, now, &Stop::default())?;
            if imported.added + imported.known > 0 {
                return Ok((imported, Exit::Clean));
            }
            ui::say(PROGRAM, &format!("{name}: import: no bag, and no lake with records"));
            return Ok((imported, Exit::Mismatch));
        }
        let failed = |operation| move |error| Failure::File { name: file.to_path_buf(), operation, error };
        let mut from: Box<dyn BufRead> = match file.as_os_str() == "-" {
            true => Box::new(BufReader::new(io::stdin())),
            false => Box::new(BufReader::new(CountedReader(File::open(file).map_err(failed("open"))?))),
        };
        let bag = bag_of(file).filter(|bag| bag != Path::new(""));
        let base = here_or_remote(catalog, tree.or(bag.as_deref()).unwrap_or(Path::new(".")))?;
        let head = from.fill_buf().map_err(failed("read"))?;
        if is_export(head) {
            // An export of a catalogue may have a tree without files.
            return Ok((catalog.import(&mut from, file, now)?, Exit::Clean));
        }
        let (mut absent, mut named) = (0, Vec::new());
        let mut not_there = |path: &Path| {
            absent += 1;
            if absent <= NAMED {
                named.push(path.to_path_buf());
            }
        };
        let mut options = ListOptions::default();
        options.algorithm = algorithm.clone();
        options.block_hashes = BlockHashes::Tagged;
        let here = Some(base.as_path()).filter(|base| !is_address(base));
        let (imported, unproven) = match open_to_record(from, file, here, &options, block_hashes::is_of) {
            Ok((reader, unproven)) => {
                (catalog.import_list(reader, file, (&base, now), &mut not_there)?, unproven)
            }
            Err(ReadError::Misjudged(error)) => return Err(failed("import")(io::Error::other(error))),
            Err(error @ (ReadError::Chkbit | ReadError::Database)) if file.as_os_str() != "-" => {
                // It is read once more, and not from beginning to end.
                progress::expect_steps(0);
                let base = match (tree, file.parent()) {
                    (None, Some(folder)) if folder != Path::new("") => absolute(folder)?,
                    _ => base,
                };
                let files = recorded(file, matches!(error, ReadError::Database), &base)?;
                (catalog.import_recorded(files, file, (&base, now), &mut not_there)?, None)
            }
            Err(error) => return Err(failed("read")(io::Error::other(error))),
        };
        for path in &named {
            let path = names::quoted(path.as_os_str());
            ui::say(PROGRAM, &format!("{path}: import: there is no such file"));
        }
        if absent > 0 {
            let files = counted(absent, "listed file");
            ui::say(PROGRAM, &format!("{name}: import: {files} not there"));
        }
        let skipped = &imported.skipped;
        let unproven = unproven.map(|unproven| unproven.to_string());
        let warnings = skipped.doubt().into_iter().chain(skipped.without_digest());
        for said in warnings.map(|what| format!("WARNING: {what}")).chain(unproven) {
            ui::say(PROGRAM, &format!("{name}: {}", names::plain(&said)));
        }
        if absent + skipped.unknown_digests > 0 {
            return Ok((imported, Exit::Unchecked));
        }
        if imported.listed == 0 {
            ui::say(PROGRAM, &format!("{name}: no file is listed with a digest"));
            return Ok((imported, Exit::Mismatch));
        }
        Ok((imported, Exit::Clean))
    }
}

/// Whether this is the beginning of an export, whose first line is a tree; its fields may be in any order.
fn is_export(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_root = |line: serde_json::Value| line["type"] == "root";
    head.starts_with(b"{\"type\":") && !is_chkbit(head) || serde_json::from_slice(line).is_ok_and(is_root)
}

/// What an index of chkbit or bitrot has. Names of bitrot's are those of the files that they stand for.
fn recorded(file: &Path, is_database: bool, base: &Path) -> Result<Vec<ChkbitFile>, Failure> {
    let failed = |error: IndexError| Failure::File {
        name: file.to_path_buf(),
        operation: "read",
        error: io::Error::other(error),
    };
    let mut files = Vec::new();
    let skipped = match is_database {
        true => {
            let file = file.canonicalize().map_err(|error| failed(error.into()))?;
            Bitrot::open(&file).and_then(|index| index.each(&mut |one| files.push(one))).map_err(failed)?
        }
        false => {
            let index = File::open(file).map_err(IndexError::from).and_then(Chkbit::read).map_err(failed)?;
            let is_sound = index.is_sound;
            files = index.files;
            if !is_sound {
                let why = "it does not have the checksum that it claims";
                return Err(failed(IndexError::NotAnIndex(why.to_string())));
            }
            index.skipped
        }
    };
    if is_database {
        let base = Directory::named(base)?;
        let mut decomposed = Decomposed::default();
        for one in &mut files {
            if let Some(name) = decomposed.name(&base, &one.name) {
                one.name = name;
            }
        }
    }
    if skipped > 0 {
        let path = names::quoted(file.as_os_str());
        let entries = if skipped == 1 { "1 entry".to_string() } else { format!("{skipped} entries") };
        ui::say(PROGRAM, &format!("{path}: WARNING: {entries} with unknown digests, or invalid"));
    }
    Ok(files)
}
