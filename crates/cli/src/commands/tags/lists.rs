//! Reads the files of other tools: manifests, `.chkbit`, `.chkbit-db`, `.bitrot.db`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use verisum::catalog::Bitrot;
use verisum::files::check::{LongestDigest, UselessLine, listed_files, open_to_record};
use verisum::files::store::manifest::{
    BlockHashes, Chkbit, ChkbitFile, IndexError, ListOptions, Listed, ReadError, Skipped, is_chkbit,
    is_chkbit_of_directory,
};
use verisum::files::{
    Directory, Entry, FileError, Kind, LEADS_OUT, NamedDigest, Operation, Record, RecordedTime, Walk, lock,
};

use crate::ui::Decomposed;
use crate::ui::PROGRAM;
use crate::ui::failure::Failure;
use crate::ui::{self, block_hashes, names};

/// A file and what is recorded of it, or what cannot be read or found.
pub(crate) type TaggedItem = Result<(Entry, Record), FileError>;

type Items = Box<dyn Iterator<Item = TaggedItem> + Send>;

/// What a list has.
pub(crate) struct AdoptedList {
    pub(crate) items: Items,
    /// What its bare numbers were taken for, if no file tells.
    pub(crate) unproven: Option<NamedDigest>,
    pub(crate) skipped: Skipped,
}

impl AdoptedList {
    /// Of an index of another tool, which names its digests.
    pub(crate) fn of_index(items: impl Iterator<Item = TaggedItem> + Send + 'static) -> AdoptedList {
        AdoptedList { items: Box::new(items), unproven: None, skipped: Skipped::default() }
    }
}

/// What a database of SQLite begins with.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// How much of a list tells whether it is an index.
const HEAD: u64 = 1 << 10;

/// Reads a list of any kind, whose names are below `base`. `algorithm` is the digest of bare numbers, where
/// somebody says which. An index that lies at the top of `walk` and is of one directory stands for those of its name in
/// all directories below. Whoever `verifies` compares each file with what is recorded, before that counts.
pub(crate) fn list(
    path: &Path,
    base: Arc<Directory>,
    algorithm: Option<&str>,
    walk: Walk,
    verifies: bool,
) -> Result<AdoptedList, Failure> {
    let failed = |error| Failure::File { name: path.into(), operation: "open", error };
    let mut file = File::open(path).map_err(failed)?;
    let tops = tops(&base.path());
    let name = path.file_name().unwrap_or_default();
    let mut head = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut head).map_err(failed)?;
    if head.starts_with(SQLITE) {
        let path = path.canonicalize().map_err(failed)?;
        return database(&path, base).map(AdoptedList::of_index).map_err(Failure::Tree);
    }
    let is_index = name == ".chkbit" || is_chkbit(&head);
    let is_of_directory = is_chkbit_of_directory(&head);
    // It may be a pipe, or another file by now: it is opened once.
    let file = io::Cursor::new(head).chain(file);
    if is_index {
        if is_of_directory && is_in(path, &base.path()) {
            let name = name.to_os_string();
            let indexes = indexes(walk, Arc::default(), move |other| other == name, verifies);
            return Ok(AdoptedList::of_index(indexes));
        }
        return chkbit(path, file, base, verifies).map(AdoptedList::of_index).map_err(Failure::Tree);
    }
    let mut options = ListOptions::default();
    options.algorithm = algorithm.map(|id| id.to_string().into());
    options.block_hashes = BlockHashes::Tagged;
    let failed = |error| match error {
        ReadError::Io(error) => Failure::Tree(unreadable(path, error)),
        other => Failure::Tree(unreadable(path, io::Error::other(other.to_string()))),
    };
    let opened = open_to_record(file, path, Some(&base.path()), &options, block_hashes::is_of);
    let (mut reader, unproven) = opened.map_err(failed)?;
    let below = |listed: &Listed| {
        let name = listed.path(|name| Entry::beneath(&base, name).is_ok());
        let name = tops.iter().find_map(|top| name.strip_prefix(top).ok()).unwrap_or(&name);
        match name.components().any(|part| part == Component::ParentDir) {
            true => Err(format!("{}: {LEADS_OUT}", name.display())),
            false => Ok(name.to_path_buf()),
        }
    };
    let mut items: Vec<TaggedItem> = Vec::new();
    let wrong = |line: UselessLine| {
        let why = format!("line {}: {}", line.number, line.why);
        items.push(Err(unreadable(path, io::Error::other(why))));
    };
    // Which line is right nobody knows before the last one was read.
    let files = listed_files(&mut reader, &below, |digest| digest.algorithm().is_some(), &mut { wrong });
    let files = files.map_err(failed)?;
    let skipped = reader.skipped().clone();
    for said in skipped.doubt().into_iter().chain(skipped.without_digest()) {
        warn(path, &said);
    }
    let listed = files.into_iter().map(move |(name, file)| item(&base, &name, &file));
    Ok(AdoptedList { items: Box::new(items.into_iter().chain(listed)), unproven, skipped })
}

/// Whether a file lies in a directory, not below that.
fn is_in(path: &Path, directory: &Path) -> bool {
    let parent = path.canonicalize().ok().and_then(|whole| whole.parent().map(Path::to_path_buf));
    parent.is_some() && parent == directory.canonicalize().ok()
}

/// All indexes of chkbit and bitrot in a tree, which are counted. `verifies` as in [`list`].
pub(crate) fn indexes(
    walk: Walk,
    found: Arc<AtomicU64>,
    is_index: impl Fn(&OsStr) -> bool + Send,
    verifies: bool,
) -> impl Iterator<Item = TaggedItem> + Send {
    walk.flat_map(move |entry| {
        let items = entry.and_then(|entry| {
            let is_index = is_index(entry.path().file_name().unwrap_or_default());
            found.fetch_add(u64::from(is_index), Ordering::Relaxed);
            if is_index { index(&entry, verifies) } else { Ok(Box::new(std::iter::empty()) as Items) }
        });
        items.unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
    })
}

/// Whether a file has the usual name of an index.
pub(crate) fn is_index(name: &OsStr) -> bool {
    [".chkbit", ".chkbit-db", ".bitrot.db"].iter().any(|index| name == *index)
}

/// What an index says of other files. Whoever may write into a tree may have made it.
fn index(entry: &Entry, verifies: bool) -> Result<Items, FileError> {
    let path = entry.path();
    let is_database = path.file_name().is_some_and(|name| name == ".bitrot.db");
    if entry.kind() == Kind::Directory {
        return Err(FileError::NotAFile { path });
    }
    let file = entry.open_regular()?;
    let base = entry.folder()?;
    if is_database { database(&path, base) } else { chkbit(&path, file, base, verifies) }
}

fn chkbit(path: &Path, file: impl Read, base: Arc<Directory>, verifies: bool) -> Result<Items, FileError> {
    let index = Chkbit::read(file).map_err(|error| not_an_index(path, error))?;
    // Where each file is read, a digest that rotted is found out.
    if !index.is_sound && !verifies {
        let why = "the index does not have the checksum that it claims (--verify reads the files, and adopts what fits)";
        return Err(unreadable(path, io::Error::other(why)));
    }
    warn_of_skipped(path, index.skipped);
    Ok(Box::new(index.files.into_iter().map(move |recorded| found(&base, recorded))))
}

fn database(path: &Path, base: Arc<Directory>) -> Result<Items, FileError> {
    let database = Bitrot::open(path).map_err(|error| not_an_index(path, error))?;
    let path = path.to_path_buf();
    let decomposed = Arc::new(Mutex::new(Decomposed::default()));
    let (mut next, mut skipped) = (Some(i64::MIN), 0);
    let pages = std::iter::from_fn(move || {
        let page = database.page(next.take()?).map_err(|error| not_an_index(&path, error));
        if let Ok(page) = &page {
            (next, skipped) = (page.next, skipped + page.skipped);
        }
        if next.is_none() {
            warn_of_skipped(&path, skipped);
        }
        Some(page)
    });
    Ok(Box::new(pages.flat_map(move |page| {
        let (base, decomposed) = (base.clone(), decomposed.clone());
        let items: Items = match page {
            Ok(page) => Box::new(page.files.into_iter().map(move |mut recorded| {
                let mut decomposed = lock(&decomposed);
                if let Some(name) = decomposed.name(&base, &recorded.name) {
                    recorded.name = name;
                }
                found(&base, recorded)
            })),
            Err(error) => Box::new(std::iter::once(Err(error))),
        };
        items
    })))
}

fn found(base: &Arc<Directory>, recorded: ChkbitFile) -> TaggedItem {
    let name = Path::new(OsStr::from_bytes(&recorded.name));
    Ok((Entry::beneath(base, without_dots(name))?, recorded.record))
}

/// What a list says of a file.
fn item(base: &Arc<Directory>, name: &Path, file: &LongestDigest) -> TaggedItem {
    if file.contradicted.is_some() {
        let why = io::Error::other("the list has different digests of it");
        return Err(unreadable(&base.path().join(name), why));
    }
    if name.is_absolute() {
        let why = io::Error::other("the name is absolute, and outside DIR");
        return Err(FileError::io(name, Operation::Open, why));
    }
    let Some(algorithm) = file.digest.algorithm() else {
        return Err(unreadable(
            &base.path().join(name),
            io::Error::other("tags have no place for its digest"),
        ));
    };
    // Formats that have a time have it to the second at least.
    let modified = file
        .modified
        .map(|time| RecordedTime { time, tolerance: if time.nanoseconds == 0 { 1_000_000_000 } else { 0 } });
    let record = Record { algorithm, digest: file.value, size: file.size, modified, verified: None };
    Ok((Entry::beneath(base, name)?, record))
}

/// The absolute paths of a directory: the one that was given, and the one without links.
fn tops(directory: &Path) -> Vec<PathBuf> {
    [std::path::absolute(directory), directory.canonicalize()].into_iter().flatten().collect()
}

/// A name without the `./` that some tools put before it.
fn without_dots(name: &Path) -> &Path {
    name.strip_prefix(".").unwrap_or(name)
}

fn warn_of_skipped(path: &Path, skipped: u64) {
    if skipped > 0 {
        warn(path, &format!("{skipped} entries are of unknown digests or make no sense"));
    }
}

fn warn(path: &Path, what: &str) {
    ui::say(PROGRAM, &format!("{}: WARNING: {what}", names::quoted(path.as_os_str())));
}

fn not_an_index(path: &Path, error: IndexError) -> FileError {
    match error {
        IndexError::Io(error) => unreadable(path, error),
        error => unreadable(path, io::Error::other(error.to_string())),
    }
}

fn unreadable(path: &Path, error: io::Error) -> FileError {
    FileError::io(path, Operation::Read, error)
}
