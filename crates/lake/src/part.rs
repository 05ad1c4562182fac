//! Reads a part of a lake, also one that another program wrote.

use std::path::Path;
use std::sync::Arc;

use parquet::file::statistics::Statistics;
use verisum_catalog::store::{Moment, Stamp};
use verisum_digest::Output;

use crate::columns::{EXPORTED, columns, state_of};
use crate::reader::{TableReader, path_of};
use crate::{LakeError, Result, Row};

/// The end of the year 9999. No later time leaves room for one after it.
const LATEST: i64 = 253_402_300_799_999;
const IMPOSSIBLE: &str = "a row was written after the year 9999";

/// A part that is being read: its rows, in the order of their paths.
///
/// # Errors
/// Each row may come as [`LakeError::Part`], which names the file: for a row that makes no sense, for one that is not
/// after the one before, and for what is damaged. Nothing comes after an error.
pub struct Part {
    latest: Option<Moment>,
    table: TableReader,
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
        let table = TableReader::open(path, &columns(1))?;
        let latest = latest(path, &table)?;
        Ok(Part { latest, table, last: None, algorithm: None, has_failed: false })
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        self.table.path()
    }

    /// The latest time when a row of it was written, if it has rows and says so.
    pub fn latest(&self) -> Option<Moment> {
        self.latest
    }

    fn read(&mut self) -> Result<Option<Row>> {
        if !self.table.next_row()? {
            return Ok(None);
        }
        let row = row(&self.table, &mut self.algorithm);
        let row = row.map_err(|why| LakeError::part(self.path(), why))?;
        if self.last.as_ref().is_some_and(|last| *last >= row.path) {
            return Err(LakeError::part(self.path(), "its rows are not in the order of their paths"));
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(&row.path);
        Ok(Some(row))
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

/// The latest time when a row of a part was written, by the limits of its groups. Other writers may leave these out:
/// then all rows are asked.
fn latest(path: &Path, table: &TableReader) -> Result<Option<Moment>> {
    let limits = table.groups(EXPORTED).map(|group| match group.statistics() {
        Some(Statistics::Int64(limits)) => limits.max_opt().copied(),
        _ => None,
    });
    if let Some(limits) = limits.collect::<Option<Vec<i64>>>() {
        return match limits.into_iter().max() {
            Some(latest) if latest > LATEST => Err(LakeError::part(path, IMPOSSIBLE)),
            latest => Ok(latest.map(Moment::of_milliseconds)),
        };
    }
    let mut table = TableReader::open(path, &columns(1)[EXPORTED..=EXPORTED])?;
    let mut latest = None;
    while table.next_row()? {
        latest = latest.max(table.number(0));
    }
    Ok(latest.map(Moment::of_milliseconds))
}

/// The present row of a table. `algorithm` is that of the rows before.
fn row(table: &TableReader, algorithm: &mut Option<Arc<str>>) -> Result<Row, String> {
    // The numbers of the columns, in their order.
    let [
        path,
        path_bytes,
        size,
        mtime,
        ctime,
        inode,
        of_algorithm,
        of_digest,
        of_state,
        first_seen,
        changed,
        verified,
        exported,
        replaces,
    ]: [usize; 14] = std::array::from_fn(|number| number);
    let word = table.text(of_algorithm)?.ok_or("a row has no algorithm")?;
    let algorithm = algorithm.get_or_insert_with(|| word.into());
    if **algorithm != *word {
        return Err(format!("it has digests of {algorithm} and of {word}"));
    }
    let word = table.text(of_state)?.ok_or("a row has no state")?;
    let digest = table.bytes(of_digest);
    let digest = digest.map(|bytes| Output::from_bytes(bytes).ok_or("a digest of an impossible length"));
    let unsigned = |column| table.number(column).map(i64::cast_unsigned);
    let stamp = |column| table.number(column).map(Stamp::of_nanoseconds);
    let moment = |column| table.number(column).map(Moment::of_milliseconds);
    let state = state_of(word).ok_or_else(|| format!("an unknown state: {word}"))?;
    let size = unsigned(size);
    if size.is_none() && digest.is_some() {
        return Err("a row has no size".to_string());
    }
    let exported = table.number(exported).ok_or("a row has no time of its export")?;
    if exported > LATEST {
        return Err(IMPOSSIBLE.to_string());
    }
    Ok(Row {
        path: path_of(table.text(path)?, table.bytes(path_bytes))?,
        size,
        mtime: stamp(mtime),
        ctime: stamp(ctime),
        inode: unsigned(inode),
        algorithm: algorithm.clone(),
        digest: digest.transpose()?,
        state,
        first_seen: moment(first_seen),
        changed: moment(changed),
        verified: moment(verified),
        exported: Moment::of_milliseconds(exported),
        replaces: moment(replaces),
    })
}
