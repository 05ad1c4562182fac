//! What other tools keep in files: manifests, `.chkbit`, `.bitrot.db`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum_digest::Algorithm;
use verisum_tree::store::manifest::{Bitrot, Chkbit, Line, Listed, Options, Reader, Recorded};
use verisum_tree::{Record, RecordedTime, Walk};

use crate::failure::Failure;
use crate::render::{self, names};
use crate::verisum::PROGRAM;

/// What is recorded of a path.
pub(crate) type Item = (PathBuf, Record);

/// What a database of SQLite begins with.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Reads a list of any kind, whose names are below `base`.
pub(crate) fn list(path: &Path, base: &Path) -> Result<Box<dyn Iterator<Item = Item> + Send>, Failure> {
    let failed = |error| Failure::File { name: path.into(), operation: "open", error };
    let mut file = File::open(path).map_err(failed)?;
    let base = base.to_path_buf();
    let name = path.file_name().unwrap_or_default();
    let mut head = [0; 16];
    let is_database = file.read(&mut head).map_err(failed)? == head.len() && head == SQLITE;
    if name == ".chkbit" || is_database {
        return Ok(Box::new(index(path, is_database, &base)?.into_iter()));
    }
    let file = File::open(path).map_err(failed)?;
    let options = Options { name: name.as_bytes().to_vec(), ..Options::default() };
    let mut reader = Reader::new(file, &options).map_err(|error| unreadable(path, &error.to_string()))?;
    let mut ended = false;
    let path = path.to_path_buf();
    let lines = std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let line = reader.line().unwrap_or_else(|error| {
            render::say(PROGRAM, &unreadable(&path, &error.to_string()).message());
            None
        });
        ended = line.is_none();
        line
    });
    Ok(Box::new(lines.filter_map(move |line| match line {
        Line::File(listed) => item(&base, listed),
        Line::Bad(_) => None,
    })))
}

/// All indexes of chkbit and bitrot in a tree. What cannot be read is reported and passed over.
pub(crate) fn indexes(walk: Walk) -> impl Iterator<Item = Item> + Send {
    walk.filter_map(Result::ok).flat_map(|entry| {
        let is_database = entry.name() == ".bitrot.db";
        if !is_database && entry.name() != ".chkbit" {
            return Vec::new();
        }
        let path = entry.path();
        index(&path, is_database, path.parent().unwrap_or(Path::new(""))).unwrap_or_else(|failure| {
            render::say(PROGRAM, &failure.message());
            Vec::new()
        })
    })
}

fn index(path: &Path, is_database: bool, base: &Path) -> Result<Vec<Item>, Failure> {
    let failed = |error: &dyn std::fmt::Display| unreadable(path, &error.to_string());
    let mut items = Vec::new();
    let mut give = |recorded: Recorded| {
        items.push((base.join(below(&recorded.name)), recorded.record));
    };
    let skipped = if is_database {
        let database = Bitrot::open(path).map_err(|error| failed(&error))?;
        database.each(&mut give).map_err(|error| failed(&error))?
    } else {
        let file = File::open(path);
        let file = file.map_err(|error| Failure::File { name: path.into(), operation: "open", error })?;
        let index = Chkbit::read(file).map_err(|error| failed(&error))?;
        if !index.is_sound {
            let name = names::quoted(path.as_os_str());
            render::say(
                PROGRAM,
                &format!("{name}: warning: the index does not have the checksum that it claims"),
            );
        }
        index.files.into_iter().for_each(&mut give);
        index.skipped
    };
    if skipped > 0 {
        let name = names::quoted(path.as_os_str());
        render::say(
            PROGRAM,
            &format!("{name}: warning: {skipped} entries are of unknown digests or make no sense"),
        );
    }
    Ok(items)
}

/// The strongest digest that a line of a manifest has for a file.
fn item(base: &Path, listed: Listed) -> Option<Item> {
    let known = listed.claims.iter().filter_map(|claim| {
        let algorithm = Algorithm::find(&claim.algorithm)?;
        (algorithm.bits > 0 && claim.digest.as_bytes().len() == algorithm.digest_len())
            .then_some((algorithm, claim.digest))
    });
    let (algorithm, digest) = known.max_by_key(|(algorithm, _)| algorithm.bits)?;
    // Formats that have a time have it to the second at least.
    let modified = listed
        .modified
        .map(|time| RecordedTime { time, tolerance: if time.nanoseconds == 0 { 1_000_000_000 } else { 0 } });
    let record = Record { algorithm, digest, size: listed.size, modified, verified: None };
    Some((base.join(below(&listed.name)), record))
}

/// A name without the `./` that some tools put before it.
fn below(name: &[u8]) -> &Path {
    let mut name = name;
    while let Some(rest) = name.strip_prefix(b"./") {
        name = rest;
    }
    Path::new(OsStr::from_bytes(name))
}

fn unreadable(path: &Path, why: &str) -> Failure {
    Failure::Program { name: path.to_string_lossy().into_owned(), why: format!("read: {why}") }
}
