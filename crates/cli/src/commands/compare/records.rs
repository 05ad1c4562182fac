//! Digests from the catalogue, for files that are as they were when they were recorded.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use verisum::catalog::store::{Catalog, Record, Root, State, stamp};
use verisum::digest::{Digest, Output as Sum};
use verisum::files::Timestamp;

use super::judge::Content;
use crate::ui::catalog::absolute;
use crate::ui::failure::Failure;
use verisum::catalog::scrub::is_same_time;
use verisum::files::place::FileState;
use verisum::remote::{Address, Host};

/// The records of a tree.
pub(super) struct Records<'a> {
    catalog: &'a Catalog,
    /// The numbers of digests, and their names.
    algorithms: HashMap<i64, String>,
    root: Root,
    /// Where the tree is below the root.
    below: PathBuf,
    is_local: bool,
    /// The directory that was asked for last, below the root, and its number.
    last: Option<(PathBuf, Option<i64>)>,
}

/// What a catalogue says of a file.
#[derive(Clone, Copy)]
pub(super) enum Recorded {
    /// It is unchanged, and this is its digest.
    Digest(Sum),
    /// It was bad, or has its size and its time, and is not the file that was recorded: neither tells then
    /// what it contains.
    Doubt,
    /// Nothing that would be of use.
    Nothing,
}

impl<'a> Records<'a> {
    /// Those of a tree on this machine, or of one that `verisum scrub` knows.
    pub(super) fn of(catalog: &'a Catalog, place: &Address) -> Result<Option<Records<'a>>, Failure> {
        let is_local = place.host == Host::Local;
        let address = place.address();
        let path = Path::new(OsStr::from_bytes(&address));
        let path = if is_local { absolute(path)? } else { path.to_path_buf() };
        let Some(root) = catalog.root_of(&path)? else { return Ok(None) };
        let algorithms = catalog.algorithms()?;
        let below = path.strip_prefix(&root.path).unwrap_or(Path::new("")).to_path_buf();
        Ok(Some(Records { catalog, algorithms, root, below, is_local, last: None }))
    }

    /// What is recorded of a file with this digest, by its name below the tree.
    pub(super) fn recorded(
        &mut self,
        name: &[u8],
        seen: &FileState,
        digest: &Digest,
    ) -> Result<Recorded, Failure> {
        let Some((path, record)) = self.record(name)? else { return Ok(Recorded::Nothing) };
        if record.state != State::Sound {
            return Ok(Recorded::Doubt);
        }
        if !is_as_listed(&record, seen) {
            return Ok(Recorded::Nothing);
        }
        if self.is_local && !is_as_it_was(&record, &self.root.path.join(&path)) {
            return Ok(Recorded::Doubt);
        }
        Ok(match record.verified != 0 && self.algorithm(&record) == Some(digest.name()) {
            true => Recorded::Digest(record.digest),
            false => Recorded::Nothing,
        })
    }

    /// The content that a file should have by its record, and whether the file that is there was written to since.
    pub(super) fn expected(
        &mut self,
        name: &[u8],
        seen: Option<&FileState>,
    ) -> Result<Option<Content>, Failure> {
        let record = self.record(name)?.map(|(_, record)| record);
        let Some(record) = record.filter(|record| record.state != State::DAMAGED) else { return Ok(None) };
        let modified = seen.and_then(|seen| seen.modified);
        Ok(self.algorithm(&record).map(|algorithm| Content {
            algorithm: algorithm.to_string(),
            digest: record.digest,
            size: Some(record.size),
            is_changed: modified.map(|modified| !is_same_time(record.mtime, stamp(modified.time))),
        }))
    }

    fn algorithm(&self, record: &Record) -> Option<&str> {
        self.algorithms.get(&record.algorithm).map(String::as_str)
    }

    /// The record of a file by its name below the tree, and its path below the root.
    fn record(&mut self, name: &[u8]) -> Result<Option<(PathBuf, Record)>, Failure> {
        let path = match name.is_empty() {
            true => self.below.clone(),
            false => self.below.join(OsStr::from_bytes(name)),
        };
        let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let Some(directory) = self.directory(folder)? else { return Ok(None) };
        let record = self.catalog.record(directory, file)?;
        Ok(record.map(|record| (path, record)))
    }

    fn directory(&mut self, folder: &Path) -> Result<Option<i64>, Failure> {
        if let Some((last, number)) = &self.last
            && last == folder
        {
            return Ok(*number);
        }
        let number = self.catalog.directory(&self.root, folder)?;
        self.last = Some((folder.to_path_buf(), number));
        Ok(number)
    }
}

/// Whether a listing says of a file what its record says.
fn is_as_listed(record: &Record, seen: &FileState) -> bool {
    let modified = seen.modified.is_some_and(|modified| is_same_time(record.mtime, stamp(modified.time)));
    seen.size == Some(record.size) && modified
}

/// Whether a file of this machine is the one that was recorded, and not touched since.
fn is_as_it_was(record: &Record, path: &Path) -> bool {
    let time = |seconds, nanoseconds: i64| stamp(Timestamp { seconds, nanoseconds: nanoseconds as u32 });
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_file()
            && found.len() == record.size
            && found.ino() == record.inode
            && time(found.mtime(), found.mtime_nsec()) == record.mtime
            && time(found.ctime(), found.ctime_nsec()) == record.ctime
    })
}
