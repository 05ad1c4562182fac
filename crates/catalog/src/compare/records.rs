//! Takes digests from the catalogue for files that did not change since they were recorded.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use verisum_digest::{Digest, Output};
use verisum_files::Timestamp;
use verisum_files::compare::{ContentEvidence, FileStatus, Pair};
use verisum_files::place::FileState;

use super::judge::RecordedContent;
use crate::scrub::is_same_time;
use crate::store::{Catalog, CatalogError, CatalogRecord, Stamp, State, TreeRecords, absolute};

/// The records of a tree.
pub struct RecordedTree<'a> {
    records: TreeRecords<'a>,
    is_local: bool,
}

/// What a catalogue says of a file.
#[derive(Clone, Copy)]
enum Recorded {
    /// It is unchanged, and this is its digest.
    Digest(Output),
    /// It was bad, or has its size and its time, and is not the file that was recorded: neither tells then
    /// what it contains.
    Doubt,
    /// Nothing that would be of use.
    Nothing,
}

impl<'a> RecordedTree<'a> {
    /// Those of a tree, by its path on this machine or its address. None where the catalogue does not know it.
    ///
    /// # Errors
    /// The catalogue cannot be read, or the path has no absolute form.
    pub fn of(
        catalog: &'a Catalog,
        path: &Path,
        is_local: bool,
    ) -> Result<Option<RecordedTree<'a>>, CatalogError> {
        let tree = if is_local { absolute(path)? } else { path.to_path_buf() };
        Ok(TreeRecords::of(catalog, &tree)?.map(|records| RecordedTree { records, is_local }))
    }

    /// What is recorded of a file with this digest, by its name below the tree.
    fn recorded(&mut self, name: &[u8], seen: &FileState, digest: &Digest) -> Result<Recorded, CatalogError> {
        let Some(record) = self.record(name)? else { return Ok(Recorded::Nothing) };
        if record.state != State::Sound {
            return Ok(Recorded::Doubt);
        }
        if !is_as_listed(&record, seen) {
            return Ok(Recorded::Nothing);
        }
        if self.is_local && !is_as_it_was(&record, &self.records.path(path_of(name))) {
            return Ok(Recorded::Doubt);
        }
        Ok(
            match record.verified.known().is_some()
                && self.records.algorithm(&record).map(|name| &**name) == Some(digest.name())
            {
                true => Recorded::Digest(record.digest),
                false => Recorded::Nothing,
            },
        )
    }

    /// The content that a file should have by its record, and whether the file that is there was written to since.
    pub(super) fn expected(
        &mut self,
        name: &[u8],
        seen: Option<&FileState>,
    ) -> Result<Option<RecordedContent>, CatalogError> {
        let Some(record) = self.record(name)?.filter(|record| record.state != State::DAMAGED) else {
            return Ok(None);
        };
        let modified = seen.and_then(|seen| seen.modified);
        Ok(self.records.algorithm(&record).map(|algorithm| RecordedContent {
            algorithm: algorithm.to_string(),
            digest: record.digest,
            size: record.known_size(),
            is_changed: modified
                .zip(record.known_mtime())
                .map(|(modified, recorded)| !is_same_time(recorded, Stamp::from(modified.time))),
        }))
    }

    fn record(&mut self, name: &[u8]) -> Result<Option<CatalogRecord>, CatalogError> {
        self.records.record(path_of(name))
    }
}

fn path_of(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// Whether a listing says of a file what its record says.
fn is_as_listed(record: &CatalogRecord, seen: &FileState) -> bool {
    let modified =
        seen.modified.is_some_and(|modified| is_same_time(record.mtime, Stamp::from(modified.time)));
    seen.size == Some(record.size) && modified
}

/// Whether a file of this machine is the one that was recorded, and not touched since.
fn is_as_it_was(record: &CatalogRecord, path: &Path) -> bool {
    let time =
        |seconds, nanoseconds: i64| Stamp::from(Timestamp { seconds, nanoseconds: nanoseconds as u32 });
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_file()
            && found.len() == record.size
            && found.ino() == record.inode
            && time(found.mtime(), found.mtime_nsec()) == record.mtime
            && time(found.ctime(), found.ctime_nsec()) == record.ctime
    })
}

/// Settles pairs by the catalogue's records, and by times if those of one side are missing. Of files whose
/// other side has to be read, the record stands for reading. Of more than two trees all files are left to be read.
///
/// # Errors
/// The catalogue cannot be read.
pub fn settle_by_records<const N: usize>(
    records: &mut [Option<RecordedTree>; N],
    pairs: &mut [Pair<N>],
    digest: &Digest,
    settled: &mut Settled,
) -> Result<(), CatalogError> {
    for pair in pairs.iter_mut().filter(|pair| pair.status == FileStatus::Asked) {
        let [Some(a), Some(b)] = &mut pair.files[..] else { continue };
        let mut found = [Recorded::Nothing; 2];
        for (found, (records, file)) in found.iter_mut().zip(records.iter_mut().zip([&a, &b])) {
            if let Some(records) = records {
                *found = records.recorded(&pair.name, &file.seen, digest)?;
            }
        }
        let doubted = found.iter().any(|recorded| matches!(recorded, Recorded::Doubt));
        let found = found.map(|recorded| match recorded {
            Recorded::Digest(digest) => Some(digest),
            _ => None,
        });
        match (found, a.seen.modified, b.seen.modified) {
            ([Some(one), Some(other)], _, _) => {
                pair.status = if one == other { FileStatus::Same } else { FileStatus::Differs };
                pair.evidence = ContentEvidence::Read;
                settled.records += 1;
            }
            (_, Some(one), Some(other)) if !doubted && a.seen.size.is_some() && one.is_same(&other) => {
                pair.status = FileStatus::Same;
                settled.times += 1;
            }
            (found, _, _) => {
                for (file, found) in [a, b].into_iter().zip(found) {
                    file.read = found.map(|found| Box::new(Ok(found)));
                }
            }
        }
    }
    Ok(())
}

/// The numbers of the pairs that have to be read whatever else is known of them: the catalogue knows a file of theirs as
/// not what it should be.
///
/// # Errors
/// The catalogue cannot be read.
pub fn known_bad<const N: usize>(
    records: &mut [Option<RecordedTree>; N],
    pairs: &[Pair<N>],
) -> Result<BTreeSet<usize>, CatalogError> {
    let mut bad = BTreeSet::new();
    for (number, pair) in pairs.iter().enumerate().filter(|(_, pair)| pair.status == FileStatus::Asked) {
        for records in records.iter_mut().flatten() {
            if records.record(&pair.name)?.is_some_and(|record| record.state != State::Sound) {
                bad.insert(number);
            }
        }
    }
    Ok(bad)
}

/// How it was settled whether files that both sides have are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Their sizes differ.
    pub sizes: u64,
    /// The catalogue has both digests.
    pub records: u64,
    /// Their sizes and times are the same.
    pub times: u64,
    /// The catalogue has the digest of one.
    pub one_read: u64,
    /// A store recorded the digest of one.
    pub store: u64,
    /// Both were read.
    pub read: u64,
}

impl std::ops::AddAssign for Settled {
    fn add_assign(&mut self, more: Settled) {
        self.sizes += more.sizes;
        self.records += more.records;
        self.times += more.times;
        self.one_read += more.one_read;
        self.store += more.store;
        self.read += more.read;
    }
}

impl Settled {
    /// What listings settled.
    pub fn listed<const N: usize>(pairs: &[Pair<N>]) -> Settled {
        let sizes = pairs.iter().filter(|pair| pair.status == FileStatus::Differs).count() as u64;
        Settled { sizes, ..Settled::default() }
    }

    /// Counts what reading settled of the pairs that were to be read.
    pub fn by_reading<const N: usize>(&mut self, asked: &AskedPairs, pairs: &[Pair<N>]) {
        for (number, has_record) in &asked.0 {
            if matches!(pairs[*number].status, FileStatus::Same | FileStatus::Differs) {
                *(if *has_record { &mut self.one_read } else { &mut self.read }) += 1;
            }
        }
    }
}

/// The pairs that are to be read: their numbers, and whether the catalogue has the digest of one side.
#[derive(Debug)]
pub struct AskedPairs(Vec<(usize, bool)>);

impl AskedPairs {
    /// Those among all, before they are read.
    pub fn of<const N: usize>(pairs: &[Pair<N>]) -> AskedPairs {
        let asked = pairs.iter().enumerate().filter(|(_, pair)| pair.status == FileStatus::Asked);
        let has_record = |pair: &Pair<N>| pair.files.iter().flatten().any(|file| file.read.is_some());
        AskedPairs(asked.map(|(number, pair)| (number, has_record(pair))).collect())
    }
}
