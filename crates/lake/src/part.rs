//! Reads a part of a lake, also one that another program wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use verisum_catalog::store::{Moment, Stamp};

use arrow_array::{
    Array, ArrayAccessor, BinaryArray, FixedSizeBinaryArray, RecordBatch, StringArray,
    TimestampMillisecondArray, TimestampNanosecondArray, UInt64Array,
};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;
use verisum_digest::Output;

use crate::columns::{schema, state_of};
use crate::reader::{Batches, array, path_of};
use crate::{LakeError, Result, Row};

/// A part that is being read: its rows, in the order of their paths.
///
/// # Errors
/// Each row may come as [`LakeError::Part`], which names the file: for a row that makes no sense, for one that is not
/// after the one before, and for what is damaged. Nothing comes after an error.
pub struct Part {
    path: PathBuf,
    latest: Option<Moment>,
    batches: Batches,
    batch: Option<Batch>,
    last: Option<Vec<u8>>,
    algorithm: Option<Arc<str>>,
    has_failed: bool,
}

impl Part {
    /// Opens a part, and checks that its columns are those of one.
    ///
    /// # Errors
    /// It cannot be read, is not whole, or is something else.
    pub fn open(path: &Path) -> Result<Part> {
        let (batches, metadata) = Batches::open(path, &schema(1))?;
        let latest = latest(&metadata);
        Ok(Part {
            path: path.to_path_buf(),
            latest,
            batches,
            batch: None,
            last: None,
            algorithm: None,
            has_failed: false,
        })
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The latest time when a row of it was written, if it has rows and says so.
    pub fn latest(&self) -> Option<Moment> {
        self.latest
    }

    fn read(&mut self) -> Result<Option<Row>> {
        loop {
            if let Some(batch) = &mut self.batch
                && batch.next < batch.rows
            {
                let row = batch.row(&mut self.algorithm).map_err(|why| LakeError::part(&self.path, why))?;
                batch.next += 1;
                if self.last.as_ref().is_some_and(|last| *last >= row.path) {
                    return Err(LakeError::part(&self.path, "its rows are not in the order of their paths"));
                }
                let last = self.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(&row.path);
                return Ok(Some(row));
            }
            let Some(batch) = self.batches.read(&self.path)? else { return Ok(None) };
            self.batch = Some(Batch::new(&batch).map_err(|why| LakeError::part(&self.path, why))?);
        }
    }
}

impl Iterator for Part {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if self.has_failed {
            return None;
        }
        let row = self.read();
        self.has_failed = row.is_err();
        row.transpose()
    }
}

/// The latest `exported`, from the limits of each group.
fn latest(metadata: &ParquetMetaData) -> Option<Moment> {
    let columns = metadata.file_metadata().schema_descr().columns();
    let at = columns.iter().position(|column| column.name() == "exported")?;
    let limits = metadata.row_groups().iter().filter_map(|group| match group.column(at).statistics() {
        Some(Statistics::Int64(limits)) => limits.max_opt().copied(),
        _ => None,
    });
    limits.max().map(Moment::of_milliseconds)
}

/// Some rows, column by column.
struct Batch {
    rows: usize,
    next: usize,
    path: StringArray,
    path_bytes: BinaryArray,
    size: UInt64Array,
    mtime: TimestampNanosecondArray,
    ctime: TimestampNanosecondArray,
    inode: UInt64Array,
    algorithm: StringArray,
    digest: FixedSizeBinaryArray,
    state: StringArray,
    first_seen: TimestampMillisecondArray,
    changed: TimestampMillisecondArray,
    verified: TimestampMillisecondArray,
    exported: TimestampMillisecondArray,
    replaces: TimestampMillisecondArray,
}

impl Batch {
    fn new(batch: &RecordBatch) -> Result<Batch, String> {
        Ok(Batch {
            rows: batch.num_rows(),
            next: 0,
            path: array(batch, "path")?,
            path_bytes: array(batch, "path_bytes")?,
            size: array(batch, "size")?,
            mtime: array(batch, "mtime")?,
            ctime: array(batch, "ctime")?,
            inode: array(batch, "inode")?,
            algorithm: array(batch, "algorithm")?,
            digest: array(batch, "digest")?,
            state: array(batch, "state")?,
            first_seen: array(batch, "first_seen")?,
            changed: array(batch, "changed")?,
            verified: array(batch, "verified")?,
            exported: array(batch, "exported")?,
            replaces: array(batch, "replaces")?,
        })
    }

    fn value<'a, A>(&self, column: &'a A) -> Option<<&'a A as ArrayAccessor>::Item>
    where
        &'a A: ArrayAccessor,
    {
        column.is_valid(self.next).then(|| column.value(self.next))
    }

    fn path(&self) -> Result<Vec<u8>, String> {
        path_of(self.value(&self.path), self.value(&self.path_bytes))
    }

    /// `algorithm` is that of the rows before.
    fn row(&self, algorithm: &mut Option<Arc<str>>) -> Result<Row, String> {
        let word = self.value(&self.algorithm).ok_or("a row has no algorithm")?;
        let algorithm = algorithm.get_or_insert_with(|| word.into());
        if **algorithm != *word {
            return Err(format!("it has digests of {algorithm} and of {word}"));
        }
        let word = self.value(&self.state).ok_or("a row has no state")?;
        let digest = self.value(&self.digest);
        let digest = digest.map(|bytes| Output::from_bytes(bytes).ok_or("a digest of an impossible length"));
        let moment = |column| self.value(column).map(Moment::of_milliseconds);
        Ok(Row {
            path: self.path()?,
            size: self.value(&self.size),
            mtime: self.value(&self.mtime).map(Stamp::of_nanoseconds),
            ctime: self.value(&self.ctime).map(Stamp::of_nanoseconds),
            inode: self.value(&self.inode),
            algorithm: algorithm.clone(),
            digest: digest.transpose()?,
            state: state_of(word).ok_or_else(|| format!("an unknown state: {word}"))?,
            first_seen: moment(&self.first_seen),
            changed: moment(&self.changed),
            verified: moment(&self.verified),
            exported: moment(&self.exported).ok_or("a row has no time of its export")?,
            replaces: moment(&self.replaces),
        })
    }
}
