//! Compares the files of one directory with their records: new, changed, missing.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::store::{Catalog, CatalogError, CatalogRecord, KnownDirectory, RecordName, RecordSummary, State};

type Result<T> = std::result::Result<T, CatalogError>;

/// More files than these in one directory are not held in memory, but looked up one by one; of each name
/// that was seen only eight bytes are held.
const MOST: usize = 100_000;

/// A directory that the walk is in.
pub(super) struct Level {
    /// Its number.
    pub id: i64,
    /// The path that was walked to it.
    pub path: PathBuf,
    /// The device it is on.
    pub device: u64,
    /// The device that is recorded of it, which may have another number since. What is recorded in it on another
    /// one was mounted there.
    pub recorded_device: u64,
    /// Whether all of its entries were seen.
    pub is_complete: bool,
    /// Whether it is what `verisum parity` made.
    pub is_parity: bool,
    children: HashMap<Vec<u8>, Child>,
    files: Files,
}

/// A recorded directory in a directory.
struct Child {
    id: i64,
    device: u64,
    is_seen: bool,
}

enum Files {
    /// `records` has those of all rows, or none.
    Held {
        names: Vec<u8>,
        rows: Vec<Row>,
        records: Vec<CatalogRecord>,
    },
    Asked {
        state: RandomState,
        seen: Vec<u64>,
    },
}

struct Row {
    end: usize,
    known: RecordSummary,
    is_seen: bool,
}

impl Level {
    /// Reads what is recorded of a directory, whole records if `with_records`. The devices are that which it is
    /// on and that which is recorded.
    pub(super) fn new(
        catalog: &Catalog,
        id: i64,
        path: PathBuf,
        (device, recorded_device): (u64, u64),
        with_records: bool,
    ) -> Result<Level> {
        let children = catalog.directories_in(id)?.into_iter();
        let children = children
            .map(|KnownDirectory { name, id, device }| (name, Child { id, device, is_seen: false }))
            .collect();
        let (mut names, mut rows, mut records) = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |name: &[u8], known: RecordSummary| {
            names.extend_from_slice(name);
            rows.push(Row { end: names.len(), known, is_seen: false });
            rows.len() <= MOST
        };
        match with_records {
            true => catalog.records_in(id, |name, record| {
                let known = RecordSummary::from(&record);
                records.push(record);
                add(name, known)
            })?,
            false => catalog.known_in(id, add)?,
        }
        let files = match rows.len() > MOST {
            true => Files::Asked { state: RandomState::new(), seen: Vec::new() },
            false => Files::Held { names, rows, records },
        };
        Ok(Level { id, path, device, recorded_device, is_complete: true, is_parity: false, children, files })
    }

    /// Takes note of a file; what is recorded of it, and its whole record if that was read.
    pub(super) fn file(
        &mut self,
        catalog: &Catalog,
        name: &OsStr,
    ) -> Result<Option<(RecordSummary, Option<CatalogRecord>)>> {
        match &mut self.files {
            Files::Held { names, rows, records } => {
                let found = find(names, rows, name.as_bytes());
                Ok(found.map(|at| {
                    rows[at].is_seen = true;
                    (rows[at].known, records.get(at).copied())
                }))
            }
            Files::Asked { state, seen } => {
                seen.push(state.hash_one(name.as_bytes()));
                Ok(catalog.known(self.id, name)?.map(|known| (known, None)))
            }
        }
    }

    /// Takes note of a directory; the number and the device that are recorded of it.
    pub(super) fn child(&mut self, name: &OsStr) -> Option<(i64, u64)> {
        let child = self.children.get_mut(name.as_bytes())?;
        child.is_seen = true;
        Some((child.id, child.device))
    }

    /// Calls `each` with the recorded files that were not seen.
    pub(super) fn unseen_files(
        &mut self,
        catalog: &Catalog,
        each: &mut dyn FnMut(RecordName, State),
    ) -> Result<()> {
        match &mut self.files {
            Files::Held { names, rows, .. } => {
                let mut start = 0;
                for row in rows {
                    if !row.is_seen {
                        each((self.id, names[start..row.end].to_vec()), row.known.state);
                    }
                    start = row.end;
                }
                Ok(())
            }
            Files::Asked { state, seen } => {
                seen.sort_unstable();
                catalog.known_in(self.id, |name, known| {
                    if seen.binary_search(&state.hash_one(name)).is_err() {
                        each((self.id, name.to_vec()), known.state);
                    }
                    true
                })
            }
        }
    }

    /// The recorded directories that were not seen: their names, numbers and recorded devices.
    pub(super) fn unseen_children(&self) -> impl Iterator<Item = (&OsStr, i64, u64)> + '_ {
        let unseen = self.children.iter().filter(|(_, child)| !child.is_seen);
        unseen.map(|(name, child)| (OsStr::from_bytes(name), child.id, child.device))
    }
}

/// The row of a name: rows are sorted by name.
fn find(names: &[u8], rows: &[Row], name: &[u8]) -> Option<usize> {
    let (mut low, mut high) = (0, rows.len());
    while low < high {
        let middle = (low + high) / 2;
        let start = if middle == 0 { 0 } else { rows[middle - 1].end };
        match names[start..rows[middle].end].cmp(name) {
            std::cmp::Ordering::Equal => return Some(middle),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}
