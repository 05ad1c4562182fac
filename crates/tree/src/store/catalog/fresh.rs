//! Files that a run recorded first. Some of them were moved: their content is that of a missing file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rusqlite::{OptionalExtension, params};

use super::record::MISSING;
use super::{Catalog, Change, Finding, Position, Record, Result, Seen, State};

/// A file by its directory's number and its name.
pub type Place = (i64, Vec<u8>);

impl Catalog {
    /// Remembers until the end of the run that a file was recorded first.
    pub fn add_fresh(&self, root: i64, directory: i64, name: &OsStr, record: &Record) -> Result<()> {
        let sql = "INSERT INTO fresh(root, directory, name, digest) VALUES (?1, ?2, ?3, ?4)";
        let values = params![root, directory, name.as_bytes(), record.digest.as_bytes()];
        let inserted =
            self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        inserted.map(drop).map_err(self.failed("write"))
    }

    /// Makes a fresh file the heir of a missing one of the same content, if there is one, and returns
    /// its place. The missing one's record is removed.
    pub fn inherit(&self, root: i64, missing: &Place, old: &Record) -> Result<Option<Place>> {
        let sql = "SELECT fresh.rowid, directory, name FROM fresh JOIN file USING(directory, name)
                   WHERE fresh.root = ?1 AND fresh.digest = ?2 AND file.size = ?3 AND file.algorithm = ?4
                   AND file.state = 0 ORDER BY file.inode = ?5 DESC LIMIT 1";
        let values = params![root, old.digest.as_bytes(), old.size as i64, old.algorithm, old.inode as i64];
        let found = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let heir = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, (row.get(1)?, row.get(2)?)));
            statement.query_row(values, heir).optional()
        });
        let Some((number, place)) = found.map_err(self.failed("read"))? else { return Ok(None) };
        let place: Place = place;
        self.apply(root, missing.0, OsStr::from_bytes(&missing.1), &Change::Forget(*old))?;
        let inherited = (|| {
            self.connection.prepare_cached("DELETE FROM fresh WHERE rowid = ?1")?.execute([number])?;
            let sql = "UPDATE file SET first_seen = ?3, changed = ?4, guard = verisum_guard(directory, name,
                       root, size, mtime, ctime, inode, algorithm, digest, ?3, ?4, verified, state)
                       WHERE directory = ?1 AND name = ?2";
            let values = params![place.0, place.1, old.first_seen, old.changed];
            self.connection.prepare_cached(sql)?.execute(values)
        })();
        inherited.map_err(self.failed("write"))?;
        Ok(Some(place))
    }

    /// Gives a fresh file the record of a missing one whose inode, length and time of modification it has,
    /// but not the content: the file was renamed, and nobody is known to have written to it. Returns its
    /// place and what was read of it. The record is then that of a file that is `state`.
    pub fn inherit_altered(
        &self,
        root: i64,
        missing: &Place,
        old: &Record,
        (state, now): (State, i64),
    ) -> Result<Option<(Place, Seen)>> {
        let sql = "SELECT number, directory, name, ctime, digest FROM fresh_inode
                   WHERE root = ?1 AND inode = ?2 AND size = ?3 AND mtime = ?4 AND algorithm = ?5
                   AND digest <> ?6 AND number IN (SELECT rowid FROM fresh) LIMIT 1";
        let values =
            params![root, old.inode as i64, old.size as i64, old.mtime, old.algorithm, old.digest.as_bytes()];
        let found = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let heir = |row: &rusqlite::Row<'_>| {
                let digest = super::record::output(row, 4)?;
                let seen =
                    Seen { size: old.size, mtime: old.mtime, ctime: row.get(3)?, inode: old.inode, digest };
                Ok((row.get::<_, i64>(0)?, (row.get(1)?, row.get(2)?), seen))
            };
            statement.query_row(values, heir).optional()
        });
        let Some((number, place, seen)) = found.map_err(self.failed("read"))? else { return Ok(None) };
        let place: Place = place;
        let name = OsStr::from_bytes(&place.1);
        self.apply(root, missing.0, OsStr::from_bytes(&missing.1), &Change::Forget(*old))?;
        self.apply(root, place.0, name, &Change::Confirm(Record { state, ..*old }))?;
        let finding = Finding { since: now, seen: now, read: Some(seen), detail: None };
        self.apply(root, place.0, name, &Change::Suspect(state, finding))?;
        let sql = "DELETE FROM fresh WHERE rowid = ?1";
        self.connection.execute(sql, [number]).map_err(self.failed("write"))?;
        Ok(Some((place, seen)))
    }

    /// Prepares for many calls of [`Catalog::inherit`].
    pub fn index_fresh(&self) -> Result<()> {
        let sql = "CREATE INDEX IF NOT EXISTS fresh_by_digest ON fresh(digest);
                   CREATE TEMP TABLE IF NOT EXISTS fresh_inode AS
                   SELECT fresh.rowid AS number, fresh.root, directory, name, inode, size, mtime, ctime,
                   algorithm, file.digest FROM fresh JOIN file USING(directory, name);
                   CREATE INDEX IF NOT EXISTS temp.fresh_by_inode ON fresh_inode(inode)";
        self.connection.execute_batch(sql).map_err(self.failed("write"))
    }

    /// Calls `each` with every fresh file, and forgets that they were.
    pub fn take_fresh(&self, root: i64, each: &mut dyn FnMut(Place, Record)) -> Result<()> {
        let taken = (|| {
            let sql = format!(
                "SELECT directory, name, {} FROM fresh JOIN file USING(directory, name)
                 WHERE fresh.root = ?1 ORDER BY directory, name",
                super::record::columns()
            );
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([root])?;
            while let Some(row) = rows.next()? {
                each((row.get(0)?, row.get(1)?), super::record::record(row, 2)?);
            }
            drop(rows);
            self.connection.execute("DELETE FROM fresh WHERE root = ?1", [root])?;
            self.connection
                .execute_batch("DROP INDEX IF EXISTS fresh_by_digest; DROP TABLE IF EXISTS fresh_inode")
        })();
        taken.map_err(self.failed("write"))
    }

    /// Up to `most` missing files of a root, beginning after `after`.
    pub fn missing(&self, root: i64, after: &Place, most: usize) -> Result<Vec<(Place, Record)>> {
        let after = Position { value: MISSING, directory: after.0, name: after.1.clone() };
        let mut rows = self.in_trouble(root, &after, true, most)?;
        rows.retain(|(_, record)| record.state == State::MISSING);
        Ok(rows.into_iter().map(|(place, record)| ((place.directory, place.name), record)).collect())
    }
}
