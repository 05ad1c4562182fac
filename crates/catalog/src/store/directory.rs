//! The directories that files are recorded in, and the digests that records have.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rusqlite::{OptionalExtension, params};
use verisum_digest::Algorithm;

use super::record::unsigned;
use super::{Catalog, CatalogError, CatalogRecord, Result};

/// A directory that the catalogue knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownDirectory {
    /// Its last name.
    pub name: Vec<u8>,
    /// Its number.
    pub id: i64,
    /// The device that it was on.
    pub device: u64,
}

impl Catalog {
    /// The number of an algorithm, given one if it has none. A digest of no length is refused: all files have it.
    pub fn algorithm(&self, name: &str) -> Result<i64> {
        if Algorithm::find(name).is_some_and(|algorithm| algorithm.digest_len() == 0) {
            let why = io::Error::new(io::ErrorKind::InvalidInput, format!("{name} verifies nothing"));
            return Err(CatalogError::io(self.path(), "write", why));
        }
        let find = "SELECT id FROM algorithm WHERE name = ?1";
        if let Some(number) = self.row(find, [name], |row| row.get(0))? {
            return Ok(number);
        }
        let sql = "INSERT INTO algorithm(name) VALUES (?1)";
        self.connection.execute(sql, [name]).map_err(self.failed("write"))?;
        Ok(self.connection.last_insert_rowid())
    }

    /// All algorithms that have a number.
    pub fn algorithms(&self) -> Result<HashMap<i64, String>> {
        let sql = "SELECT id, name FROM algorithm";
        self.rows(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// The algorithm that all records are to have by and by, if somebody wants that.
    pub fn rehash_target(&self) -> Result<Option<String>> {
        let sql = "SELECT name FROM algorithm WHERE target <> 0";
        self.connection.query_row(sql, [], |row| row.get(0)).optional().map_err(self.failed("read"))
    }

    /// Says which algorithm all records are to have: a scrub of a tree of this machine gives it to each file that it
    /// reads and finds good. None: they keep theirs.
    pub fn set_rehash_target(&self, name: Option<&str>) -> Result<()> {
        let number = name.map(|name| self.algorithm(name)).transpose()?;
        let sql = "UPDATE algorithm SET target = id IS ?1 WHERE target <> (id IS ?1)";
        self.write(sql, [number])
    }

    /// Remembers that a content has both digests: while records have either, copies are found by both. It is no part of
    /// any record, so that a change of a file, or a loss of it, changes nothing of it.
    pub(crate) fn note_rehashed(&self, old: &CatalogRecord, new: &CatalogRecord) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO rehashed VALUES (?1, ?2, ?3, ?4)";
        self.write(sql, params![old.algorithm, old.digest.as_bytes(), new.algorithm, new.digest.as_bytes()])
    }

    /// Whether anything of that kind is remembered.
    pub(super) fn is_rehashing(&self) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM rehashed)";
        self.connection.query_row(sql, [], |row| row.get(0)).map_err(self.failed("read"))
    }

    /// Forgets the digests by algorithms that no record has.
    pub(crate) fn settle_rehashed(&self) -> Result<()> {
        let sql = "DELETE FROM rehashed WHERE old_algorithm NOT IN (SELECT algorithm FROM file)";
        if self.is_rehashing()? { self.write(sql, []) } else { Ok(()) }
    }

    /// How many records have each algorithm; of one tree, if a root is given.
    pub fn files_by_algorithm(&self, root: Option<i64>) -> Result<Vec<(String, u64)>> {
        let sql = "SELECT algorithm.name, count(*) FROM file JOIN algorithm ON algorithm.id = file.algorithm
                   WHERE ?1 IS NULL OR root = ?1 GROUP BY file.algorithm ORDER BY count(*) DESC, algorithm.name";
        self.rows(sql, [root], |row| Ok((row.get(0)?, unsigned(row, 1)?)))
    }

    /// The directories in a directory.
    pub fn directories_in(&self, parent: i64) -> Result<Vec<KnownDirectory>> {
        let sql = "SELECT name, id, device FROM directory WHERE parent = ?1";
        self.rows(sql, [parent], |row| {
            Ok(KnownDirectory { name: row.get(0)?, id: row.get(1)?, device: unsigned(row, 2)? })
        })
    }

    /// The highest number of a directory, 0 if there is none.
    pub fn last_directory(&self) -> Result<i64> {
        let sql = "SELECT coalesce(max(id), 0) FROM directory";
        self.connection.query_row(sql, [], |row| row.get(0)).map_err(self.failed("read"))
    }

    /// Records a directory.
    pub fn add_directory(&self, id: i64, parent: i64, name: &OsStr, device: u64) -> Result<()> {
        let sql = "INSERT INTO directory(id, parent, name, device) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT(parent, name) DO NOTHING";
        let inserted = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params![id, parent, name.as_bytes(), device as i64]));
        inserted.map(drop).map_err(self.failed("write"))
    }

    /// The path of a directory below its root.
    pub fn path_in_root(&self, directory: i64) -> Result<PathBuf> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut id = directory;
        loop {
            let sql = "SELECT parent, name FROM directory WHERE id = ?1";
            let row: Option<(i64, Vec<u8>)> = self
                .connection
                .prepare_cached(sql)
                .and_then(|mut statement| {
                    statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
                })
                .map_err(self.failed("read"))?;
            let Some((parent, name)) = row else {
                return Err(self.damaged(format!("directory {id} is not recorded")));
            };
            if parent < 0 {
                break;
            }
            if parent >= id {
                return Err(self.damaged(format!("directory {id} is inside {parent}, which is newer")));
            }
            names.push(name);
            id = parent;
        }
        Ok(names.iter().rev().map(|name| OsStr::from_bytes(name)).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::store::tests::{catalog, record};
    use crate::store::{CatalogRecord, RecordChange};

    #[test]
    fn what_verifies_nothing_is_not_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, _) = catalog(folder.path());
        let refused = catalog.algorithm("NULL").unwrap_err().to_string();
        assert!(refused.ends_with(": write: NULL verifies nothing"), "{refused}");
        assert!(!catalog.algorithms().unwrap().values().any(|name| name.eq_ignore_ascii_case("null")));
    }

    #[test]
    fn old_digests_are_known_while_a_record_has_one() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let other = catalog.algorithm("blake3").unwrap();
        let (old, new) = (record(3), CatalogRecord { algorithm: other, ..record(3) });
        for name in ["a", "b"] {
            let add = RecordChange::Add(old);
            catalog.apply(root.id, root.directory, name.as_ref(), &add).unwrap();
        }
        for (name, is_known) in [("a", true), ("b", false)] {
            catalog.note_rehashed(&old, &new).unwrap();
            catalog.apply(root.id, root.directory, name.as_ref(), &RecordChange::Confirm(new)).unwrap();
            catalog.settle_rehashed().unwrap();
            assert_eq!(catalog.is_rehashing().unwrap(), is_known, "{name}");
        }
        assert_eq!(catalog.check().unwrap(), []);
    }
}
