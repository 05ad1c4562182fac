//! Files that a run recorded first. Some of them were moved: their content is that of a missing file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rusqlite::{OptionalExtension, params};

use super::record::MISSING;
use super::schema::FRESH_BY_DIGEST;
use super::{Catalog, Change, Finding, Position, Record, Result, Seen, State};

/// A file by its directory's number and its name.
pub type Place = (i64, Vec<u8>);

/// Shorter contents are alike by chance, and say nothing of where a file came from.
pub(super) const TELLING: i64 = 8;

impl Catalog {
    /// Remembers until the end of the run that a file was recorded first.
    pub fn add_fresh(&self, root: i64, directory: i64, name: &OsStr, record: &Record) -> Result<()> {
        let sql = "INSERT INTO fresh(root, directory, name, digest) VALUES (?1, ?2, ?3, ?4)";
        let values = params![root, directory, name.as_bytes(), record.digest.as_bytes()];
        let inserted =
            self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        inserted.map(drop).map_err(self.failed("write"))
    }

    /// Whether there are such files.
    pub fn has_fresh(&self, root: i64) -> Result<bool> {
        let sql = "SELECT EXISTS(SELECT 1 FROM fresh WHERE root = ?1)";
        self.connection.query_row(sql, [root], |row| row.get(0)).map_err(self.failed("read"))
    }

    /// Makes a fresh file the heir of a missing one of the same content, if there is one, and returns
    /// its place. The missing one's record is removed. The heir is the very file if that is among them, by
    /// its inode, length and time of modification; with `itself` no other will do.
    pub fn inherit(&self, root: i64, missing: &Place, old: &Record, itself: bool) -> Result<Option<Place>> {
        const ITSELF: &str = "SELECT number, directory, name FROM fresh_inode
            WHERE root = ?1 AND digest = ?2 AND size = ?3 AND algorithm = ?4 AND inode = ?5 AND mtime = ?6
            AND number IN (SELECT rowid FROM fresh) LIMIT 1";
        const COPY: &str = "SELECT fresh.rowid, directory, name FROM fresh JOIN file USING(directory, name)
            WHERE fresh.root = ?1 AND fresh.digest = ?2 AND file.size = ?3 AND file.algorithm = ?4
            AND file.state = 0 AND ?5 IS NOT NULL AND ?6 IS NOT NULL LIMIT 1";
        let (digest, inode) = (old.digest.as_bytes(), old.inode as i64);
        let find = |sql| {
            let values = params![root, digest, old.size as i64, old.algorithm, inode, old.mtime];
            self.connection.prepare_cached(sql).and_then(|mut statement| {
                let heir = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, (row.get(1)?, row.get(2)?)));
                statement.query_row(values, heir).optional()
            })
        };
        let mut is_copy = false;
        let found = find(ITSELF).and_then(|found| match found {
            None if !itself => {
                is_copy = true;
                find(COPY)
            }
            found => Ok(found),
        });
        let Some((number, place)) = found.map_err(self.failed("read"))? else { return Ok(None) };
        let place: Place = place;
        if is_copy && old.inode != 0 {
            self.keep_left(root, missing.0, OsStr::from_bytes(&missing.1), old)?;
        }
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
    /// place and what was read of it. The record is then that of a file that is `state`. Inodes are used
    /// again: `may_be` says whether a fresh file may be the one that was recorded.
    pub fn inherit_altered(
        &self,
        root: i64,
        missing: &Place,
        old: &Record,
        (state, now): (State, i64),
        may_be: &dyn Fn(&Place) -> bool,
    ) -> Result<Option<(Place, Seen)>> {
        let sql = "SELECT number, directory, name, ctime, digest FROM fresh_inode
                   WHERE root = ?1 AND inode = ?2 AND inode <> 0 AND size = ?3 AND mtime = ?4 AND algorithm = ?5
                   AND digest <> ?6 AND number IN (SELECT rowid FROM fresh)";
        let values =
            params![root, old.inode as i64, old.size as i64, old.mtime, old.algorithm, old.digest.as_bytes()];
        let found = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let heir = |row: &rusqlite::Row<'_>| {
                let digest = super::record::output(row, 4)?;
                let seen =
                    Seen { size: old.size, mtime: old.mtime, ctime: row.get(3)?, inode: old.inode, digest };
                Ok::<_, rusqlite::Error>((row.get::<_, i64>(0)?, (row.get(1)?, row.get(2)?), seen))
            };
            let mut rows = statement.query(values)?;
            while let Some(row) = rows.next()? {
                let heir = heir(row)?;
                if may_be(&heir.1) {
                    return Ok(Some(heir));
                }
            }
            Ok(None)
        });
        let Some((number, place, seen)) = found.map_err(self.failed("read"))? else { return Ok(None) };
        let finding = Finding { since: now, seen: now, read: Some(seen), detail: None };
        let gone = Some((root, missing));
        self.hand_over(root, gone, (Some(number), &place), &Record { state, ..*old }, finding)?;
        Ok(Some((place, seen)))
    }

    /// Gives a fresh file the record of one that was bad and is gone, if it is that file under another name:
    /// it has the inode, the length and the time of modification of what was seen last, or of the record, or
    /// it has the content that was seen, unless that is but a few bytes. Returns its place and what was read
    /// of it. It is as bad as it was. `may_be` says whether a file may be the one, of that inode or, with
    /// `true`, of that content. The roots are that of the file that is gone and that of its heir.
    ///
    /// Devices are not compared: they may have other numbers since, and nothing is to be forgiven for that.
    pub fn inherit_bad(
        &self,
        (owner, root): (i64, i64),
        gone: &Place,
        old: &Record,
        finding: &Finding,
        may_be: &dyn Fn(&Place, bool) -> bool,
    ) -> Result<Option<(Place, Seen)>> {
        let last = finding.read.unwrap_or(Seen {
            size: old.size,
            mtime: old.mtime,
            ctime: old.ctime,
            inode: old.inode,
            digest: old.digest,
        });
        let sql = "SELECT number, directory, name, size, mtime, ctime, inode, digest, algorithm = ?2,
                   by_content FROM (
                       SELECT *, 0 AS by_content FROM fresh_inode WHERE root = ?1 AND inode = ?3
                       AND inode <> 0 AND (size = ?4 AND mtime = ?5 OR size = ?6 AND mtime = ?7)
                       UNION ALL
                       SELECT *, 1 FROM fresh_inode WHERE root = ?1 AND algorithm = ?2 AND digest = ?8
                       AND size = ?4 AND size >= ?9)
                   WHERE number IN (SELECT rowid FROM fresh)";
        let values = params![
            root,
            old.algorithm,
            last.inode as i64,
            last.size as i64,
            last.mtime,
            old.size as i64,
            old.mtime,
            last.digest.as_bytes(),
            TELLING,
        ];
        let found = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let heir = |row: &rusqlite::Row<'_>| {
                let seen = Seen {
                    size: super::record::unsigned(row, 3)?,
                    mtime: row.get(4)?,
                    ctime: row.get(5)?,
                    inode: super::record::unsigned(row, 6)?,
                    // That of another algorithm cannot be compared: it is taken for what was seen.
                    digest: if row.get(8)? { super::record::output(row, 7)? } else { last.digest },
                };
                Ok::<_, rusqlite::Error>((row.get::<_, i64>(0)?, (row.get(1)?, row.get(2)?), seen))
            };
            let mut rows = statement.query(values)?;
            while let Some(row) = rows.next()? {
                let heir = heir(row)?;
                if may_be(&heir.1, row.get(9)?) {
                    return Ok(Some(heir));
                }
            }
            Ok(None)
        });
        let Some((number, place, seen)) = found.map_err(self.failed("read"))? else { return Ok(None) };
        // The new name has moved the inode's time; that alone is no sign that somebody set a time back.
        let has_set_back = last.ctime != old.ctime || seen.mtime != old.mtime;
        let ctime = if has_set_back { old.ctime } else { seen.ctime };
        let finding = Finding { read: Some(seen), ..finding.clone() };
        let gone = Some((owner, gone));
        self.hand_over(root, gone, (Some(number), &place), &Record { ctime, ..*old }, finding)?;
        Ok(Some((place, seen)))
    }

    /// Up to `most` recorded files, after a place, whose inode, length and time of modification a fresh file
    /// has, and that are neither missing nor new themselves. They may have been renamed.
    pub fn may_be_renamed(&self, root: i64, after: &Place, most: usize) -> Result<Vec<(Place, Record)>> {
        let sql = format!(
            "SELECT file.directory, file.name, {} FROM file
             WHERE file.state <> {MISSING} AND file.root = ?1
             AND file.directory >= ?2 AND (file.directory, file.name) > (?2, ?3)
             AND EXISTS (SELECT 1 FROM temp.fresh_inode AS heir WHERE heir.inode = file.inode AND heir.inode <> 0
                AND heir.size = file.size AND heir.mtime = file.mtime AND heir.root = ?1
                AND heir.number IN (SELECT rowid FROM fresh))
             AND NOT EXISTS (SELECT 1 FROM temp.fresh_inode AS own
                WHERE own.directory = file.directory AND own.name = file.name)
             ORDER BY file.directory, file.name LIMIT ?4",
            super::record::columns()
        );
        let rows = self.connection.prepare_cached(&sql).and_then(|mut statement| {
            let values = params![root, after.0, after.1, most as i64];
            let rows = statement.query_map(values, super::record::listed)?;
            rows.map(|row| row.map(|(directory, name, record)| ((directory, name), record))).collect()
        });
        rows.map_err(self.failed("read"))
    }

    /// Takes the record from a file that is gone, of this root or another, or that has another name still,
    /// and gives it to its heir.
    pub(super) fn hand_over(
        &self,
        root: i64,
        gone: Option<(i64, &Place)>,
        (number, heir): (Option<i64>, &Place),
        record: &Record,
        finding: Finding,
    ) -> Result<()> {
        let name = OsStr::from_bytes(&heir.1);
        // The heir's own length is in the sums of the root; that of the record takes its place.
        if let Some((owner, gone)) = gone {
            self.apply(owner, gone.0, OsStr::from_bytes(&gone.1), &Change::Forget(*record))?;
        }
        if let Some(fresh) = self.record(heir.0, name)? {
            self.apply(root, heir.0, name, &Change::Forget(fresh))?;
        }
        self.apply(root, heir.0, name, &Change::Add(Record { state: State::Sound, ..*record }))?;
        self.apply(root, heir.0, name, &Change::Suspect(record.state, finding))?;
        let sql = "DELETE FROM fresh WHERE rowid = ?1";
        self.connection.execute(sql, [number]).map(drop).map_err(self.failed("write"))
    }

    /// Remembers until the end of the run that a file that was bad is gone.
    pub fn add_gone(&self, directory: i64, name: &OsStr) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO temp.gone(directory, name) VALUES (?1, ?2)";
        let values = params![directory, name.as_bytes()];
        let added = self.prepare_gone().and_then(|()| self.connection.prepare_cached(sql)?.execute(values));
        added.map(drop).map_err(self.failed("write"))
    }

    /// Up to `most` of them in a root, beginning after `after`, with what is recorded of them.
    pub fn gone(&self, root: i64, after: &Place, most: usize) -> Result<Vec<(Place, Record)>> {
        let sql = format!(
            "SELECT directory, name, {} FROM temp.gone JOIN file USING(directory, name)
             WHERE (directory, name) > (?1, ?2) AND file.root = ?4 ORDER BY directory, name LIMIT ?3",
            super::record::columns()
        );
        let rows = self.prepare_gone().and_then(|()| {
            let mut statement = self.connection.prepare_cached(&sql)?;
            let rows =
                statement.query_map(params![after.0, after.1, most as i64, root], super::record::listed)?;
            rows.map(|row| row.map(|(directory, name, record)| ((directory, name), record))).collect()
        });
        rows.map_err(self.failed("read"))
    }

    fn prepare_gone(&self) -> rusqlite::Result<()> {
        let sql = "CREATE TEMP TABLE IF NOT EXISTS gone(directory INTEGER NOT NULL, name BLOB NOT NULL,
                   PRIMARY KEY(directory, name)) WITHOUT ROWID";
        self.connection.execute_batch(sql)
    }

    /// Prepares for many calls of [`Catalog::inherit`] and for what comes after them: besides the fresh files
    /// those whose records were replaced are listed, without a number.
    pub fn index_fresh(&self) -> Result<()> {
        let sql = "CREATE TEMP TABLE IF NOT EXISTS fresh_inode AS
                   SELECT fresh.rowid AS number, fresh.root, directory, name, inode, size, mtime, ctime,
                   algorithm, file.digest FROM fresh JOIN file USING(directory, name)
                   UNION ALL
                   SELECT NULL, file.root, directory, name, file.inode, file.size, file.mtime, file.ctime,
                   file.algorithm, file.digest FROM replaced JOIN file USING(directory, name)
                   WHERE file.state = 0;
                   CREATE INDEX IF NOT EXISTS temp.fresh_by_place ON fresh_inode(directory, name);
                   CREATE INDEX IF NOT EXISTS temp.fresh_by_inode ON fresh_inode(inode);
                   CREATE INDEX IF NOT EXISTS temp.fresh_by_content ON fresh_inode(digest)";
        let made = [FRESH_BY_DIGEST, sql].into_iter().try_for_each(|sql| self.connection.execute_batch(sql));
        made.map_err(self.failed("write"))
    }

    /// Whether there is any of the files that [`Catalog::index_fresh`] lists.
    pub fn has_heirs(&self) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM temp.fresh_inode)";
        self.connection.query_row(sql, [], |row| row.get(0)).map_err(self.failed("read"))
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
            self.connection.execute_batch(
                "DROP INDEX IF EXISTS fresh_by_digest; DROP TABLE IF EXISTS fresh_inode;
                 DROP TABLE IF EXISTS temp.gone; DROP TABLE IF EXISTS temp.good_content",
            )
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
