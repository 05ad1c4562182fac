//! Digests from the catalogue, for files that are as they were when they were recorded.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use verisum::catalog::store::{Catalog, Record, Root, State, stamp};
use verisum::digest::{Digest, Output as Sum};
use verisum::files::Timestamp;

use crate::ui::catalog::absolute;
use crate::ui::failure::Failure;
use verisum::catalog::scrub::is_same_time;
use verisum::files::place::FileState;
use verisum::remote::{Address, Host};

/// The records of a tree.
pub(super) struct Records<'a> {
    catalog: &'a Catalog,
    /// The number of the digest.
    algorithm: i64,
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
    /// Those of a tree on this machine, or of one that `verisum scrub` knows; none if there are none
    /// with this digest.
    pub(super) fn of(
        catalog: &'a Catalog,
        place: &Address,
        digest: &Digest,
    ) -> Result<Option<Records<'a>>, Failure> {
        let is_local = place.host == Host::Local;
        let address = place.address();
        let path = Path::new(OsStr::from_bytes(&address));
        let path = if is_local { absolute(path)? } else { path.to_path_buf() };
        let algorithm = catalog.algorithms()?.into_iter().find(|(_, name)| name == digest.name());
        let (Some((algorithm, _)), Some(root)) = (algorithm, catalog.root_of(&path)?) else {
            return Ok(None);
        };
        let below = path.strip_prefix(&root.path).unwrap_or(Path::new("")).to_path_buf();
        Ok(Some(Records { catalog, algorithm, root, below, is_local, last: None }))
    }

    /// What is recorded of a file by its name below the tree.
    pub(super) fn recorded(&mut self, name: &[u8], seen: &FileState) -> Result<Recorded, Failure> {
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
        Ok(match record.verified != 0 && record.algorithm == self.algorithm {
            true => Recorded::Digest(record.digest),
            false => Recorded::Nothing,
        })
    }

    /// The length and the digest that a file should have by its record, whatever it is now.
    pub(super) fn expected(&mut self, name: &[u8]) -> Result<Option<(u64, Sum)>, Failure> {
        let record = self.record(name)?.map(|(_, record)| record);
        let is_of_use =
            |record: &Record| record.state != State::DAMAGED && record.algorithm == self.algorithm;
        Ok(record.filter(is_of_use).map(|record| (record.size, record.digest)))
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
