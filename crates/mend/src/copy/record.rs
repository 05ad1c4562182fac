//! The records of files in the catalogue and in their tags.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use verisum_catalog::scrub::{has_same_change, is_same_time};
use verisum_catalog::store::{self, Catalog, Stamp, State, TreeRecords, absolute};
use verisum_digest::{Digest, Output};
use verisum_files::place::{FileRecord, FileState, scheme};
use verisum_files::store::xattr::Family;
use verisum_files::{Comparison, Evidence, SecondRead, Standing, Stat, Verdict};

use super::digests::Sums;
use super::{Mismatch, RecordPlace};

/// The records of a tree in a catalogue.
pub(super) struct Records<'c>(TreeRecords<'c>);

/// A record of the catalogue.
#[derive(Clone, Debug)]
pub(super) struct SourceRecord {
    algorithm: Arc<str>,
    record: store::CatalogRecord,
}

/// The digest that a file should have.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) algorithm: Arc<str>,
    pub(super) digest: Output,
    size: Option<u64>,
    /// What another digest means.
    verdict: Verdict,
    place: RecordPlace,
}

impl<'c> Records<'c> {
    /// Those of a path, if it is in a tree of the catalogue, or one is below it.
    pub(super) fn of(catalog: &'c Catalog, path: &Path) -> Result<Option<Records<'c>>, store::CatalogError> {
        Records::of_address(catalog, &absolute(path)?)
    }

    /// Those of an absolute path or an address.
    pub(super) fn of_address(
        catalog: &'c Catalog,
        path: &Path,
    ) -> Result<Option<Records<'c>>, store::CatalogError> {
        Ok(TreeRecords::of(catalog, path)?.map(Records))
    }

    /// What is recorded of a file by its path below the tree, which is empty for the path itself.
    pub(super) fn recorded(&mut self, name: &Path) -> Result<Option<SourceRecord>, store::CatalogError> {
        let record = self.0.record(name)?.filter(|record| record.state != State::DAMAGED);
        Ok(record.and_then(|record| {
            let algorithm = self.0.algorithm(&record)?.clone();
            Some(SourceRecord { algorithm, record })
        }))
    }
}

impl SourceRecord {
    /// What it says of a file that nobody seems to have written to since; none of one that was written to.
    pub(super) fn expected(&self, stat: &Stat) -> Option<Expected> {
        // Nothing writes a length and leaves the time.
        let same_ctime = self.record.ctime == Stamp::from(stat.changed) && self.record.size == stat.size;
        is_same_time(self.record.mtime, Stamp::from(stat.modified)).then(|| self.expect(Some(same_ctime)))
    }

    /// Whether it says that the file is bad.
    pub(super) fn is_bad(&self) -> bool {
        self.record.state.is_repairable()
    }

    /// The same of a file in another place, as far as its state is known.
    pub(super) fn expected_there(&self, address: &Path, seen: &FileState) -> Option<Expected> {
        let is_in_store = scheme(address.as_os_str().as_bytes()).is_some_and(|scheme| scheme != "ssh://");
        let same_change = has_same_change(&self.record, seen.size, seen.identity, is_in_store);
        let modified = Stamp::from(seen.modified?.time);
        is_same_time(self.record.mtime, modified).then(|| self.expect(same_change))
    }

    fn expect(&self, same_ctime: Option<bool>) -> Expected {
        let record = &self.record;
        let comparison = Comparison {
            same_digest: false,
            same_mtime: true,
            same_ctime,
            same_file: None,
            time_tells: true,
            second: SecondRead::Same,
        };
        Expected {
            algorithm: self.algorithm.clone(),
            digest: record.digest,
            size: Some(record.size),
            verdict: Evidence::Compared(comparison).verdict(),
            place: RecordPlace::Catalogue,
        }
    }
}

/// What a file's tags say of it, if nobody seems to have written to it since.
pub(super) fn of_tags(file: &File, stat: &Stat, expected: &mut Vec<Expected>) {
    let mut found = Vec::new();
    for family in Family::ALL {
        let _ = family.read(file, &mut found);
    }
    for record in found.into_iter().flatten() {
        if record.standing(stat) == Standing::Outdated {
            continue;
        }
        // Any digest but the recorded one.
        let other = Output::zeroed(record.digest.as_bytes().len().max(1));
        let mut comparison = record.compare(stat, &other, SecondRead::Same);
        comparison.same_digest = false;
        expected.push(Expected {
            algorithm: record.algorithm.id.into(),
            digest: record.digest,
            size: None,
            verdict: Evidence::Compared(comparison).verdict(),
            place: RecordPlace::Tag,
        });
    }
}

/// What the keeper of its place recorded of a file that was listed so: one digest, if another one proves that it is not
/// what was written there.
pub(super) fn of_place(record: &FileRecord, seen: &FileState) -> Option<Expected> {
    let times = seen.modified.zip(record.of.modified);
    let is_of_it = seen.size.is_some()
        && seen.size == record.of.size
        && times.is_none_or(|(listed, told)| listed.is_same(&told));
    let certain = record.digests.iter().find(|recorded| recorded.is_certain).filter(|_| is_of_it)?;
    let comparison = Comparison {
        same_digest: false,
        same_mtime: true,
        same_ctime: Some(true),
        same_file: None,
        time_tells: true,
        second: SecondRead::Same,
    };
    Some(Expected {
        // By the name that it is computed under.
        algorithm: Digest::find(&certain.algorithm).ok()?.name().into(),
        digest: certain.digest,
        size: seen.size,
        verdict: Evidence::Compared(comparison).verdict(),
        place: RecordPlace::Store,
    })
}

/// The first record that a file's digests contradict.
pub(super) fn mismatch(expected: &[Expected], sums: &Sums) -> Option<Mismatch> {
    expected.iter().find_map(|expected| {
        let found = sums.find(&expected.algorithm).filter(|found| **found != expected.digest)?;
        Some(Mismatch {
            verdict: expected.verdict,
            algorithm: expected.algorithm.to_string(),
            expected: expected.digest,
            expected_size: expected.size,
            found: *found,
            place: expected.place,
        })
    })
}
