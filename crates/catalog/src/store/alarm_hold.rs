//! Records that a run replaced, until the run is final or undone. Also changes that the alarm holds until
//! somebody accepts them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rusqlite::{OptionalExtension, params, params_from_iter};

use super::guard::{IS_INTACT, guard_with};
use super::record::{GONE, HELD, MISSING, RECORDED, columns, record, recorded, unsigned};
use super::{Catalog, CatalogRecord, Moment, RecordName, Result};

/// A file that is another than at the end of the last run that came to its end, or is gone since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Whether that is sure. It is not of a file that has its length, was written to and was not read.
    pub is_certain: bool,
    /// Whether it was written to, and there was no time to read it.
    pub is_unread: bool,
}

impl Catalog {
    /// How many files of a root are held.
    pub fn held(&self, root: i64) -> Result<u64> {
        let sql = "SELECT count(*) FROM file WHERE root = ?1 AND state = ?2 AND state <> 0";
        self.connection.query_row(sql, [root, HELD], |row| unsigned(row, 0)).map_err(self.failed("read"))
    }

    pub(super) fn keep_replaced(
        &self,
        root: i64,
        directory: i64,
        name: &OsStr,
        old: &CatalogRecord,
    ) -> rusqlite::Result<()> {
        // The first of a run is the good one.
        let sql = format!(
            "INSERT OR IGNORE INTO replaced(directory, name, root, {RECORDED})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
        );
        let values = params_from_iter(recorded(directory, name, root, old));
        self.connection.prepare_cached(&sql)?.execute(values).map(drop)
    }

    /// How many records of a root were replaced since the last run that ended.
    pub fn replaced(&self, root: i64) -> Result<u64> {
        let sql = "SELECT count(*) FROM replaced WHERE root = ?1";
        self.connection.query_row(sql, [root], |row| unsigned(row, 0)).map_err(self.failed("read"))
    }

    /// Calls `each` once with every file of a root that changed, and is not held already: its record was
    /// replaced, it is missing since `since` or later, or it waits to be read. A file that only changed places with
    /// others is none of them.
    pub fn each_changed(
        &self,
        root: i64,
        since: Moment,
        each: &mut dyn FnMut(RecordName, Changed),
    ) -> Result<()> {
        let read = (|| {
            let sql = format!(
                "SELECT directory, name, max(is_certain), max(is_unread) FROM (
                    SELECT directory, name, 1 AS is_certain, 0 AS is_unread FROM replaced WHERE root = ?1
                        AND (inode, algorithm, digest) NOT IN (SELECT file.inode, file.algorithm, file.digest
                        FROM replaced JOIN file USING(directory, name) WHERE replaced.root = ?1)
                    UNION ALL SELECT directory, name, is_resized, 1 FROM temp.waiting WHERE root = ?1
                    UNION ALL SELECT directory, name, 1, 0 FROM file WHERE {}) AS changed
                 WHERE NOT EXISTS (SELECT 1 FROM file WHERE file.directory = changed.directory
                    AND file.name = changed.name AND file.state = {HELD})
                 GROUP BY directory, name ORDER BY directory, name",
                missing_since()
            );
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query((root, since))?;
            while let Some(row) = rows.next()? {
                let changed = Changed { is_certain: row.get(2)?, is_unread: row.get(3)? };
                each((row.get(0)?, row.get(1)?), changed);
            }
            Ok(())
        })();
        read.map_err(self.failed("read"))
    }

    /// The record that was replaced, which is then no longer to be put back.
    pub(super) fn take_replaced(&self, (directory, name): &RecordName) -> Result<Option<CatalogRecord>> {
        let taken = (|| {
            let sql = format!("SELECT {RECORDED}, 0, 1 FROM replaced WHERE directory = ?1 AND name = ?2");
            let found = self
                .connection
                .prepare_cached(&sql)?
                .query_row(params![directory, name], |row| record(row, 0));
            let sql = "DELETE FROM replaced WHERE directory = ?1 AND name = ?2";
            self.connection.prepare_cached(sql)?.execute(params![directory, name])?;
            found.optional()
        })();
        taken.map_err(self.failed("write"))
    }

    /// Calls `each` with every file whose record was replaced, what was recorded of it, and what is now.
    pub fn each_replaced(
        &self,
        root: i64,
        each: &mut dyn FnMut(RecordName, CatalogRecord, CatalogRecord),
    ) -> Result<()> {
        let read = (|| {
            let sql = format!(
                "SELECT directory, name, old.size, old.mtime, old.ctime, old.inode, old.algorithm, old.digest,
                 old.first_seen, old.changed, old.verified, 0, 1, {} FROM replaced AS old
                 JOIN file USING(directory, name) WHERE old.root = ?1 AND file.state = 0
                 ORDER BY directory, name",
                columns()
            );
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([root])?;
            while let Some(row) = rows.next()? {
                each((row.get(0)?, row.get(1)?), record(row, 2)?, record(row, 13)?);
            }
            Ok(())
        })();
        read.map_err(self.failed("read"))
    }

    /// Makes the replacements final.
    pub fn keep_replacements(&self, root: i64) -> Result<()> {
        let sql = "DELETE FROM replaced WHERE root = ?1";
        self.write(sql, [root])
    }

    /// Puts the replaced records back. What took their place becomes the finding of a file that is held.
    pub fn hold_replacements(&self, root: i64, now: Moment) -> Result<()> {
        let guard = "verisum_guard(file.directory, file.name, file.root, old.size, old.mtime, old.ctime,
            old.inode, old.algorithm, old.digest, old.first_seen, old.changed, old.verified, ?2)";
        let held = [
            "UPDATE root SET bytes = bytes + coalesce((
                SELECT sum(replaced.size - file.size) FROM replaced JOIN file USING(directory, name)
                WHERE replaced.root = ?1), 0) WHERE id = ?1"
                .to_string(),
            "INSERT OR REPLACE INTO finding(directory, name, since, seen, size, mtime, ctime, inode, digest)
                SELECT directory, name, ?2, ?2, file.size, file.mtime, file.ctime, file.inode, file.digest
                FROM replaced JOIN file USING(directory, name) WHERE replaced.root = ?1"
                .to_string(),
            format!(
                "UPDATE file SET size = old.size, mtime = old.mtime, ctime = old.ctime, inode = old.inode,
                algorithm = old.algorithm, digest = old.digest, first_seen = old.first_seen,
                changed = old.changed, verified = old.verified, state = ?2, guard = {guard}
                FROM replaced AS old
                WHERE old.root = ?1 AND file.directory = old.directory AND file.name = old.name"
            ),
        ];
        for (number, sql) in held.into_iter().enumerate() {
            let values: &[&dyn rusqlite::ToSql] = match number {
                0 => &[&root],
                1 => &[&root, &now],
                _ => &[&root, &HELD],
            };
            self.connection.execute(&sql, values).map_err(self.failed("write"))?;
        }
        self.keep_replacements(root)
    }

    /// Takes note, until the run ends, of a file of a root that was written to, perhaps to another length, and
    /// that there is no time to read.
    pub fn add_waiting(&self, root: i64, directory: i64, name: &OsStr, is_resized: bool) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO temp.waiting(directory, name, root, is_resized)
                   VALUES (?1, ?2, ?3, ?4)";
        let values = params![directory, name.as_bytes(), root, is_resized];
        let added = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        added.map(drop).map_err(self.failed("write"))
    }

    /// Holds them, and calls `each` with them and what is recorded of them. The next run reads them first.
    pub fn hold_waiting(
        &self,
        root: i64,
        now: Moment,
        each: &mut dyn FnMut(RecordName, CatalogRecord),
    ) -> Result<()> {
        let held = (|| {
            let sql = format!(
                "INSERT OR REPLACE INTO finding(directory, name, since, seen)
                 SELECT file.directory, file.name, ?2, ?2 FROM temp.waiting JOIN file USING(directory, name)
                 WHERE waiting.root = ?1 AND file.state = 0 AND {IS_INTACT}"
            );
            self.connection.execute(&sql, (root, now))?;
            let sql = format!(
                "UPDATE file SET state = ?2, guard = {} FROM temp.waiting AS waiting
                 WHERE waiting.root = ?1 AND file.directory = waiting.directory AND file.name = waiting.name
                 AND file.state = 0 AND {IS_INTACT}",
                guard_with("?2")
            );
            self.connection.execute(&sql, [root, HELD])?;
            let sql = format!(
                "SELECT directory, name, {} FROM temp.waiting JOIN file USING(directory, name)
                 WHERE waiting.root = ?1 AND file.state = ?2 ORDER BY directory, name",
                columns()
            );
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([root, HELD])?;
            while let Some(row) = rows.next()? {
                each((row.get(0)?, row.get(1)?), record(row, 2)?);
            }
            Ok(())
        })();
        held.map_err(self.failed("write"))
    }

    /// Makes the list of files that wait, and that of [`Catalog::note_other`], and empties them. Forgets what a run
    /// left of its own that was interrupted.
    pub(super) fn forget_waiting(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch(
            "CREATE TEMP TABLE IF NOT EXISTS waiting(directory INTEGER NOT NULL, name BLOB NOT NULL,
             root INTEGER NOT NULL, is_resized INTEGER NOT NULL, PRIMARY KEY(directory, name)) WITHOUT ROWID;
             DELETE FROM temp.waiting;
             CREATE TEMP TABLE IF NOT EXISTS other(directory INTEGER NOT NULL, name BLOB NOT NULL,
             state INTEGER NOT NULL, PRIMARY KEY(directory, name)) WITHOUT ROWID;
             DELETE FROM temp.other;
             DROP TABLE IF EXISTS temp.gone; DROP TABLE IF EXISTS temp.good_content;
             DROP TABLE IF EXISTS temp.read_again",
        )
    }

    /// Holds the files of a root that are missing since `since` or later.
    pub fn hold_missing(&self, root: i64, since: Moment) -> Result<()> {
        let noted = format!(
            "UPDATE finding SET detail = ?3 WHERE (directory, name) IN
                (SELECT directory, name FROM file WHERE {})",
            missing_since()
        );
        self.write(&noted, params![root, since, GONE])?;
        let sql =
            format!("UPDATE file SET state = ?3, guard = {} WHERE {}", guard_with("?3"), missing_since());
        self.write(&sql, (root, since, HELD))
    }
}

/// What holds for the files of the root `?1` that are missing since `?2` or later.
fn missing_since() -> String {
    format!(
        "file.root = ?1 AND file.state = {MISSING} AND file.state <> 0 AND {IS_INTACT}
         AND EXISTS (SELECT 1 FROM finding WHERE finding.directory = file.directory
            AND finding.name = file.name AND finding.since >= ?2)"
    )
}
