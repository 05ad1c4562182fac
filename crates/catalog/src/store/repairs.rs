//! The history of repairs.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rusqlite::params;

use super::export_import::{CatalogImport, ImportError, ImportFault, ImportTarget, length};
use super::export_lines::{Line, Name, RangeLine, RepairLine};
use super::record::{output, unsigned};
use super::{Catalog, Moment, RecordName, Result, Root, State};
use verisum_digest::Output;
use verisum_files::store::manifest::JSON_VERSION;

/// How a file was given its recorded content again.
#[derive(Clone, Debug, PartialEq)]
pub struct Repair {
    /// When it was given it.
    pub repaired: Moment,
    /// What the file had been found to be.
    pub state: State,
    /// The path or address of the file whose content it took.
    pub source: PathBuf,
    /// How many bytes were written.
    pub bytes: u64,
    /// The number of the digests' algorithm.
    pub algorithm: i64,
    /// The digest that it had, if it was there and could be read.
    pub before: Option<Output>,
    /// The digest that it has since: the recorded one.
    pub digest: Output,
    /// Which bytes it has anew, in blocks of some kibibytes, if that is known.
    pub ranges: Option<Vec<Range<u64>>>,
}

/// How much of a tree was repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Files that were repaired, each counted once.
    pub count: u64,
    /// When the last one was repaired.
    pub last: Option<Moment>,
}

impl Catalog {
    /// Remembers the repair of a file.
    pub fn add_repair(&self, root: i64, place: &RecordName, repair: &Repair) -> Result<()> {
        let sql = "INSERT INTO repair(root, directory, name, repaired, state, source, bytes, algorithm, before, digest,
                   ranges) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let values = params![
            root,
            place.0,
            place.1,
            repair.repaired,
            repair.state.code(),
            repair.source.as_os_str().as_bytes(),
            repair.bytes as i64,
            repair.algorithm,
            repair.before.as_ref().map(Output::as_bytes),
            repair.digest.as_bytes(),
            repair.ranges.as_deref().map(written),
        ];
        self.write(sql, values)
    }

    /// Whether repairs of a tree are remembered, or bad data of files that are gone.
    pub fn remembers(&self, root: i64) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM repair WHERE root = ?1) OR EXISTS (SELECT 1 FROM former WHERE root = ?1)";
        self.connection.query_row(sql, [root], |row| row.get(0)).map_err(self.failed("read"))
    }

    /// How many files of a tree were repaired, and when the last one was.
    pub fn repairs(&self, root: i64) -> Result<Repairs> {
        let sql = "SELECT count(*), max(last) FROM
                   (SELECT max(repaired) AS last FROM repair WHERE root = ?1 GROUP BY directory, name)";
        let read = |row: &rusqlite::Row| Ok(Repairs { count: unsigned(row, 0)?, last: row.get(1)? });
        self.connection.query_row(sql, [root], read).map_err(self.failed("read"))
    }

    /// Calls `each` for the repairs of a tree with the file's path, the latest first.
    ///
    /// # Errors
    /// Those of `each`, and what keeps the catalogue from being read.
    pub fn each_repair<E: From<super::CatalogError>>(
        &self,
        root: &Root,
        each: &mut dyn FnMut(PathBuf, Repair) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = "SELECT directory, name, repaired, state, source, bytes, algorithm, before, digest, ranges
                   FROM repair WHERE root = ?1 ORDER BY repaired DESC, id DESC";
        let mut statement = self.connection.prepare(sql).map_err(self.failed("read"))?;
        let mut rows = statement.query([root.id]).map_err(self.failed("read"))?;
        while let Some(row) = rows.next().map_err(self.failed("read"))? {
            let read = || {
                let before = match row.get_ref(7)? {
                    rusqlite::types::ValueRef::Null => None,
                    _ => Some(output(row, 7)?),
                };
                let repair = Repair {
                    repaired: row.get(2)?,
                    state: State::of_code(row.get(3)?).unwrap_or(State::DAMAGED),
                    source: OsString::from_vec(row.get(4)?).into(),
                    bytes: unsigned(row, 5)?,
                    algorithm: row.get(6)?,
                    before,
                    digest: output(row, 8)?,
                    ranges: row.get::<_, Option<String>>(9)?.as_deref().and_then(ranges),
                };
                Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?, repair))
            };
            let (directory, name, repair) = read().map_err(self.failed("read"))?;
            let path = root.path.join(self.path_in_root(directory)?).join(OsStr::from_bytes(&name));
            each(path, repair)?;
        }
        Ok(())
    }
}

impl Catalog {
    /// Writes the repairs of a tree as lines of JSON, the earliest first.
    pub(super) fn export_repairs(
        &self,
        root: &Root,
        algorithms: &HashMap<i64, String>,
        to: &mut dyn Write,
    ) -> Result<()> {
        let mut repairs = Vec::new();
        self.each_repair(root, &mut |path, repair| {
            repairs.push((path, repair));
            Ok::<_, super::CatalogError>(())
        })?;
        for (path, repair) in repairs.into_iter().rev() {
            let algorithm = algorithms.get(&repair.algorithm);
            let range =
                |range: &Range<u64>| RangeLine { offset: range.start, length: range.end - range.start };
            let line = Line::Repair(RepairLine {
                version: JSON_VERSION,
                path: Name::new(path.strip_prefix(&root.path).unwrap_or(&path)),
                outcome: REPAIRED.to_string(),
                repaired: repair.repaired,
                was: repair.state.name().to_string(),
                from: Name::new(&repair.source),
                bytes: repair.bytes,
                algorithm: algorithm.ok_or_else(|| self.damaged("an unknown algorithm"))?.clone(),
                before: repair.before.map(|before| before.to_string()),
                digest: repair.digest.to_string(),
                ranges: repair.ranges.map(|ranges| ranges.iter().map(range).collect()),
            });
            self.write_line(to, &line)?;
        }
        Ok(())
    }

    /// Remembers the repair of a line, unless it is remembered.
    pub(super) fn import_repair(
        &self,
        target: &mut ImportTarget,
        line: RepairLine,
        importing: &mut CatalogImport,
    ) -> Result<(), ImportError> {
        let place = self.record_name(target, &line.path.bytes()?)?;
        let range = |line: RangeLine| Some(line.offset..line.offset.checked_add(line.length)?);
        let ranges = line.ranges.map(|lines| lines.into_iter().map(range).collect::<Option<Vec<_>>>());
        let repair = Repair {
            repaired: line.repaired,
            state: State::find(&line.was).ok_or(ImportFault::Outcome)?,
            // As somebody typed it, and only shown.
            source: OsString::from_vec(line.from.any()?).into(),
            bytes: length(line.bytes)?,
            algorithm: self.algorithm(&line.algorithm)?,
            before: line.before.map(|text| importing.digest(&line.algorithm, &text)).transpose()?,
            digest: importing.digest(&line.algorithm, &line.digest)?,
            ranges: ranges.map(|ranges| ranges.ok_or(ImportFault::Size)).transpose()?,
        };
        Ok(self.remember_repair(target.root.id, &place, &repair)?)
    }

    /// Begins to take in what may have repairs, as [`Catalog::begin`].
    pub(super) fn begin_import(&self) -> Result<()> {
        self.begin()?;
        let made = self.connection.execute_batch(BY_FILE).map_err(self.failed("write"));
        made.inspect_err(|_| self.roll_back())
    }

    /// Keeps what was taken in, or nothing of it.
    pub(super) fn commit_import(&self) -> Result<()> {
        let dropped =
            self.connection.execute_batch("DROP INDEX repair_by_file").map_err(self.failed("write"));
        dropped.and_then(|()| self.commit()).inspect_err(|_| self.roll_back())
    }

    /// Remembers a repair, unless it is remembered.
    pub(super) fn remember_repair(&self, root: i64, place: &RecordName, repair: &Repair) -> Result<()> {
        match self.has_repair(place, repair)? {
            true => Ok(()),
            false => self.add_repair(root, place, repair),
        }
    }

    fn has_repair(&self, place: &RecordName, repair: &Repair) -> Result<bool> {
        let values = params![
            place.0,
            place.1,
            repair.repaired,
            repair.source.as_os_str().as_bytes(),
            repair.bytes as i64,
            repair.ranges.as_deref().map(written),
        ];
        let count = self.connection.query_row(KNOWN, values, |row| row.get::<_, i64>(0));
        Ok(count.map_err(self.failed("read"))? > 0)
    }
}

/// Repairs are looked for by their file while others are taken in, and never else.
const BY_FILE: &str = "CREATE INDEX repair_by_file ON repair(directory, name, repaired)";

/// Finds a repair: several sources may have had a part in one.
const KNOWN: &str = "SELECT count(*) FROM repair WHERE directory = ?1 AND name = ?2 AND repaired = ?3
    AND source = ?4 AND bytes = ?5 AND ranges IS ?6";

/// The outcome of each line of a repair.
const REPAIRED: &str = "repaired";

/// Ranges as pairs of offset and length.
fn written(ranges: &[Range<u64>]) -> String {
    let pairs: Vec<[u64; 2]> = ranges.iter().map(|range| [range.start, range.end - range.start]).collect();
    serde_json::to_string(&pairs).unwrap_or_default()
}

/// The ranges again; none if they are not what [`written`] writes.
fn ranges(text: &str) -> Option<Vec<Range<u64>>> {
    let pairs: Vec<[u64; 2]> = serde_json::from_str(text).ok()?;
    pairs.into_iter().map(|[start, length]| Some(start..start.checked_add(length)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::CatalogError;
    use crate::store::tests::catalog;
    use verisum_files::Timestamp;

    #[test]
    fn repairs_come_back_latest_first() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let repair = |repaired, before| Repair {
            repaired: Moment::of_milliseconds(repaired),
            state: State::MISSING,
            source: OsString::from_vec(b"/copy/\xff".to_vec()).into(),
            bytes: 7,
            algorithm: 1,
            before,
            digest: Output::zeroed(32),
            ranges: before.map(|_| vec![0..4096, 8192..8193]),
        };
        // Another had a part in the second: an address as somebody typed it, which is no path of any place.
        let other =
            Repair { source: "nbd://host//x/..".into(), bytes: 9, ..repair(6, Some(Output::zeroed(32))) };
        let all = [repair(5, None), repair(6, Some(Output::zeroed(32))), other];
        for repair in &all {
            catalog.add_repair(root.id, &(root.directory, "a\nb".into()), repair).unwrap();
        }
        let mut found = Vec::new();
        let path = root.path.join("a\nb");
        let each = &mut |of: PathBuf, repair| {
            assert_eq!(of, path);
            found.push(repair);
            Ok::<_, CatalogError>(())
        };
        catalog.each_repair(&root, each).unwrap();
        assert_eq!(
            catalog.repairs(root.id).unwrap(),
            Repairs { count: 1, last: Some(Moment::of_milliseconds(6)) }
        );
        found.reverse();
        assert_eq!(found, all);
        assert_eq!(catalog.check().unwrap(), []);
        // An export keeps them, and an import has each once.
        let mut lines = Vec::new();
        catalog.export(&mut lines).unwrap();
        let (other, copy) = (folder.path().join("other"), || std::path::Path::new("lines"));
        std::fs::create_dir(&other).unwrap();
        let imported = Catalog::open(&other.join("c.db")).unwrap();
        for _ in 0..2 {
            imported.import(&mut lines.as_slice(), copy(), Timestamp::of_milliseconds(9)).unwrap();
            let root = imported.root(&root.path).unwrap().unwrap();
            let mut again = Vec::new();
            let each = &mut |of: PathBuf, repair: Repair| {
                assert_eq!(of, path);
                again.push(Repair { algorithm: 1, ..repair });
                Ok::<_, CatalogError>(())
            };
            imported.each_repair(&root, each).unwrap();
            again.reverse();
            assert_eq!(again, all);
        }
        // Those that are known are not searched one by one, and what finds them goes.
        let count = |sql: &str| imported.connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let indexes = "SELECT count(*) FROM sqlite_schema WHERE name = 'repair_by_file'";
        assert_eq!(count(indexes), 0);
        imported.begin_import().unwrap();
        let plan = imported.connection.query_row(
            &format!("EXPLAIN QUERY PLAN {KNOWN}"),
            params![1, "f", 5, "/copy", 7, None::<String>],
            |row| row.get::<_, String>(3),
        );
        assert!(plan.as_ref().unwrap().contains("USING INDEX repair_by_file"), "{plan:?}");
        imported.roll_back();
        assert_eq!(count(indexes), 0);
        catalog.forget_root(&root).unwrap();
        catalog.each_repair(&root, &mut |_, _| Err(CatalogError::Gone { path: PathBuf::new() })).unwrap();
    }
}
