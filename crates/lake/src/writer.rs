//! Writes rows to parts of a place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use verisum_catalog::store::Moment;

use crate::columns::{columns, values};
use crate::reader::{VERSION, VERSION_KEY};
use crate::{LakeError, LakeTree, ParquetFile, Result, Row};

/// Rows of a part at most. What a killed export has written of whole parts stays.
const MOST_ROWS: u64 = 4 << 20;

/// Writes rows of a place, which come in the order of their paths: a part for each algorithm, and another one
/// when it is full. What is not [finished](PartWriter::finish) leaves nothing behind but full parts.
pub struct PartWriter<'a> {
    place: &'a LakeTree,
    exported: Moment,
    digest_len: &'a dyn Fn(&str) -> Option<usize>,
    parts: BTreeMap<Arc<str>, Growing>,
}

/// A part that is being written.
struct Growing {
    path: PathBuf,
    file: ParquetFile,
    rows: u64,
    /// The path of the last row, also of the part before.
    last: Option<Vec<u8>>,
}

impl PartWriter<'_> {
    /// Writes to a place, at a moment. `digest_len` says how long the digests of an algorithm are, for those whose
    /// first row has none.
    pub fn new<'a>(
        place: &'a LakeTree,
        exported: Moment,
        digest_len: &'a dyn Fn(&str) -> Option<usize>,
    ) -> PartWriter<'a> {
        PartWriter { place, exported, digest_len, parts: BTreeMap::new() }
    }

    /// Writes a row.
    ///
    /// # Errors
    /// The disk is full or fails, the path is not after the one before of its algorithm, or the digest has
    /// another length.
    pub fn add(&mut self, row: &Row) -> Result<()> {
        match self.parts.get_mut(&row.algorithm) {
            Some(part) if part.rows < MOST_ROWS => part.add(row),
            _ => {
                let mut next = self.begin(row)?;
                if let Some(full) = self.parts.remove(&row.algorithm) {
                    next.last = full.last;
                    full.file.finish()?;
                }
                self.parts.entry(row.algorithm.clone()).or_insert(next).add(row)
            }
        }
    }

    /// Puts the parts in their places.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn finish(self) -> Result<()> {
        self.parts.into_values().try_for_each(|part| part.file.finish())
    }

    fn begin(&self, row: &Row) -> Result<Growing> {
        let len = row.digest.map(|digest| digest.as_bytes().len());
        // A part without any digest may have any length.
        let len = len.or_else(|| (self.digest_len)(&row.algorithm)).unwrap_or(1);
        let path = self.place.new_part(self.exported)?;
        let metadata = [(VERSION_KEY, VERSION)];
        let file = ParquetFile::part(&path, &columns(len), self.place.mode(), &metadata)?;
        Ok(Growing { path, file, rows: 0, last: None })
    }
}

impl Growing {
    fn add(&mut self, row: &Row) -> Result<()> {
        if self.last.as_ref().is_some_and(|last| *last >= row.path) {
            let why = "rows do not come in the order of their paths".to_string();
            return Err(LakeError::Row { path: self.path.clone(), why });
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(&row.path);
        self.file.write(&values(row))?;
        self.rows += 1;
        Ok(())
    }
}
