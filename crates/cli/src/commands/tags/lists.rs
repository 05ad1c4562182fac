//! Reads the files of other tools: manifests, `.chkbit`, `.chkbit-db`, `.bitrot.db`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use verisum::catalog::Bitrot;
use verisum::digest::Algorithm;
use verisum::files::store::manifest::{
    BlockHashes, Chkbit, ChkbitFile, Claim, IndexError, Line, ListOptions, Listed, Reader, is_chkbit,
    is_chkbit_of_directory,
};
use verisum::files::{
    Assumed, Directory, Entry, FileError, Guess, Kind, Misjudged, Operation, Record, RecordedTime,
    SamplePlace, Walk,
};

use crate::ui::Decomposed;
use crate::ui::PROGRAM;
use crate::ui::failure::Failure;
use crate::ui::{self, block_hashes, names};

/// A file and what is recorded of it, or what cannot be read or found.
pub(crate) type TaggedItem = Result<(Entry, Record), FileError>;

type Items = Box<dyn Iterator<Item = TaggedItem> + Send>;

/// What a database of SQLite begins with.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// How much of a list tells whether it is an index.
const HEAD: u64 = 1 << 10;

/// How many files of a list are looked at to find small ones.
const LOOKED_AT: usize = 1000;

/// Reads a list of any kind, whose names are below `base`. `algorithm` is the digest of bare numbers, where
/// somebody says which. An index that lies at the top of `walk` and is of one directory stands for those of its name in
/// all directories below. Whoever `verifies` compares each file with what is recorded, before that counts.
pub(crate) fn list(
    path: &Path,
    base: Arc<Directory>,
    algorithm: Option<&str>,
    walk: Walk,
    verifies: bool,
) -> Result<Items, Failure> {
    let failed = |error| Failure::File { name: path.into(), operation: "open", error };
    let mut file = File::open(path).map_err(failed)?;
    let tops = tops(&base.path());
    let name = path.file_name().unwrap_or_default();
    let mut head = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut head).map_err(failed)?;
    if head.starts_with(SQLITE) {
        let path = path.canonicalize().map_err(failed)?;
        return database(&path, base).map_err(Failure::Tree);
    }
    let is_index = name == ".chkbit" || is_chkbit(&head);
    let is_of_directory = is_chkbit_of_directory(&head);
    // It may be a pipe, or another file by now: it is opened once.
    let file = io::Cursor::new(head).chain(file);
    if is_index {
        if is_of_directory && is_in(path, &base.path()) {
            let name = name.to_os_string();
            return Ok(Box::new(indexes(walk, Arc::default(), move |other| other == name, verifies)));
        }
        return chkbit(path, file, base, verifies).map_err(Failure::Tree);
    }
    let algorithm = algorithm.map(|id| id.to_string().into());
    let mut options = ListOptions::default();
    options.algorithm = algorithm;
    options.name = name.as_bytes().to_vec();
    options.block_hashes = BlockHashes::Tagged;
    let mut reader = Reader::new(file, &options)
        .map_err(|error| Failure::Tree(unreadable(path, io::Error::other(error.to_string()))))?;
    let mut ended = false;
    let path = path.to_path_buf();
    let list = path.clone();
    let lines = std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let line = reader.line();
        ended = !matches!(line, Ok(Some(_)));
        let wrong = |why: String| unreadable(&path, io::Error::other(why));
        match line {
            Ok(None) => {
                if let Some(doubt) = reader.skipped().doubt() {
                    warn(&path, &doubt);
                }
                None
            }
            Ok(Some(Line::File(listed))) => Some(Ok(listed)),
            Ok(Some(Line::Bad(bad))) => Some(Err(wrong(format!("line {}: {bad}", reader.number())))),
            Err(error) => Some(Err(wrong(error.to_string()))),
        }
    });
    // Which line is right nobody knows before the last one was read.
    let lines: Vec<Result<Listed, FileError>> = lines.collect();
    if lines.iter().flatten().any(|line| line.block_hash.is_some()) {
        return Err(Failure::Tree(unreadable(&list, io::Error::other(Misjudged::Images))));
    }
    let mut contradicted = contradicted(&lines);
    let certain =
        lines.iter().flatten().filter(|line| !contradicted.contains_key(without_dots(name_of(line))));
    doubt(&list, &base, &tops, certain).map_err(Failure::Tree)?;
    Ok(Box::new(lines.into_iter().filter_map(move |line| match line {
        Ok(listed) => match contradicted.get_mut(without_dots(name_of(&listed))) {
            Some(true) => None,
            Some(is_told) => {
                *is_told = true;
                let why = io::Error::other("the list has different digests of it");
                Some(Err(unreadable(&base.path().join(name_of(&listed)), why)))
            }
            None => item(&base, &tops, listed),
        },
        Err(error) => Some(Err(error)),
    })))
}

/// Fails if the digests of a list are not what their length says, or block hashes, as far as some small files tell.
fn doubt<'a>(
    list: &Path,
    base: &Arc<Directory>,
    tops: &[PathBuf],
    lines: impl Iterator<Item = &'a Listed>,
) -> Result<(), FileError> {
    let mut assumed = Assumed::new(block_hashes::is_of);
    let mut is_any_there = false;
    for listed in lines.take(LOOKED_AT) {
        let Some((_, claim)) = strongest(listed) else { continue };
        let place = below(tops, name_of(listed)).and_then(|below| {
            let stat = Entry::beneath(base, below).and_then(|entry| entry.stat()).ok()?;
            (stat.kind == Kind::File).then_some(SamplePlace { directory: base, name: below, size: stat.size })
        });
        is_any_there |= place.is_some();
        assumed.note(&claim.algorithm, claim.assumed, claim.digest, place);
    }
    for guess in assumed.judge() {
        match guess {
            Guess::Right => {}
            Guess::Unproven { .. } if !is_any_there => {}
            Guess::Unproven { digits, id } => {
                let list = names::quoted(list.as_os_str());
                let what = format!("{digits} digits were taken for {id} (-a names a different digest)");
                ui::say(PROGRAM, &format!("{list}: {what}"));
            }
            Guess::Wrong(misjudged) => return Err(unreadable(list, io::Error::other(misjudged))),
        }
    }
    Ok(())
}

/// The files of which a list has different digests of one kind; `false` with each.
fn contradicted(lines: &[Result<Listed, FileError>]) -> HashMap<PathBuf, bool> {
    let mut digests = HashMap::new();
    let mut contradicted = HashMap::new();
    for listed in lines.iter().flatten() {
        let name = without_dots(name_of(listed));
        for claim in &listed.claims {
            if *digests.entry((name, &claim.algorithm)).or_insert(claim.digest) != claim.digest {
                contradicted.insert(name.to_path_buf(), false);
            }
        }
    }
    contradicted
}

fn name_of(listed: &Listed) -> &Path {
    Path::new(OsStr::from_bytes(&listed.name))
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
                let mut decomposed = decomposed.lock().unwrap_or_else(PoisonError::into_inner);
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

/// The strongest digest that a line of a manifest has for a file.
fn item(base: &Arc<Directory>, tops: &[PathBuf], listed: Listed) -> Option<TaggedItem> {
    let (algorithm, Claim { digest, .. }) = strongest(&listed)?;
    let digest = *digest;
    // Formats that have a time have it to the second at least.
    let modified = listed
        .modified
        .map(|time| RecordedTime { time, tolerance: if time.nanoseconds == 0 { 1_000_000_000 } else { 0 } });
    let record = Record { algorithm, digest, size: listed.size, modified, verified: None };
    let name = Path::new(OsStr::from_bytes(&listed.name));
    if !name.is_absolute() {
        return Some(found(base, ChkbitFile { name: listed.name, record }));
    }
    let entry = match below(tops, name) {
        Some(below) => Entry::beneath(base, below),
        None => Err(FileError::io(
            name,
            Operation::Open,
            io::Error::other("the name is absolute, and outside DIR"),
        )),
    };
    Some(entry.map(|entry| (entry, record)))
}

/// The claim of a line with the longest digest that is known.
fn strongest(listed: &Listed) -> Option<(&'static Algorithm, &Claim)> {
    let known = listed.claims.iter().filter_map(|claim| {
        let algorithm = Algorithm::find(&claim.algorithm)?;
        let is_whole = algorithm.bits > 0 && claim.digest.as_bytes().len() == algorithm.digest_len();
        is_whole.then_some((algorithm, claim))
    });
    known.max_by_key(|(algorithm, _)| algorithm.bits)
}

/// A listed name from the directory of these paths on; none if it is elsewhere.
fn below<'a>(tops: &[PathBuf], name: &'a Path) -> Option<&'a Path> {
    match name.is_absolute() {
        true => tops.iter().find_map(|top| name.strip_prefix(top).ok()),
        false => Some(without_dots(name)),
    }
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
    ui::say(PROGRAM, &format!("{}: warning: {what}", names::quoted(path.as_os_str())));
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
