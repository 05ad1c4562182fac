//! Finds the new file of a run that takes over the record of a lost one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rusqlite::{Row, params};

use super::record::{GONE, MISSING, columns, seen};
use super::schema::FRESH_BY_DIGEST;
use super::{Catalog, CatalogRecord, Moment, Position, RecordChange, RecordFinding, Result, Seen, State};

/// A file by its directory's number and its name.
pub type RecordName = (i64, Vec<u8>);

/// Shorter contents are alike by chance, and say nothing of where a file came from.
pub(super) const TELLING: i64 = 8;

/// How a file that was found is like one that was lost, from what says most to what says least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// It has the recorded content, inode, length and time of modification.
    Itself,
    /// It has the recorded content.
    Content,
    /// It has the inode, the length and the time of modification that are recorded or were found last, and another
    /// content.
    File,
    /// It has the inode.
    InodeAlone,
    /// It has the content that was found to be bad.
    BadContent,
}

/// A file that may have the record of a lost one from now on.
#[derive(Clone, Debug)]
pub struct Heir {
    /// The file.
    pub place: RecordName,
    /// What was read of it.
    pub seen: Seen,
    /// Whether its digest is by the algorithm of the lost one's record.
    pub is_comparable: bool,
    /// Its row among the fresh ones; 0 if the record of its name was replaced.
    pub number: i64,
}

fn heir(row: &Row<'_>) -> rusqlite::Result<Heir> {
    Ok(Heir {
        number: row.get(0)?,
        place: (row.get(1)?, row.get(2)?),
        seen: seen(row, 3)?,
        is_comparable: row.get(8)?,
    })
}

impl Catalog {
    /// Remembers until the end of the run that a file was recorded first.
    pub fn add_fresh(&self, root: i64, directory: i64, name: &OsStr, record: &CatalogRecord) -> Result<()> {
        let sql = "INSERT INTO fresh(root, directory, name, digest) VALUES (?1, ?2, ?3, ?4)";
        let values = params![root, directory, name.as_bytes(), record.digest.as_bytes()];
        let inserted =
            self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        inserted.map(drop).map_err(self.failed("write"))
    }

    /// Whether [`Catalog::index_fresh`] lists any file.
    pub fn has_fresh(&self, root: i64) -> Result<bool> {
        let sql = "SELECT EXISTS(SELECT 1 FROM temp.fresh_inode WHERE root = ?1)";
        self.connection.query_row(sql, [root], |row| row.get(0)).map_err(self.failed("read"))
    }

    /// Files that this run found and that are like a lost one, of which this is recorded and was found last. Of those
    /// with one content there is but one. `in_place` also takes those whose names had records.
    pub fn heirs(
        &self,
        root: i64,
        (lost, last): (&CatalogRecord, &Seen),
        likeness: Likeness,
        in_place: bool,
    ) -> Result<Vec<Heir>> {
        let found =
            "SELECT coalesce(number, 0), directory, name, heir.size, heir.mtime, heir.ctime, heir.inode, heir.digest,
                heir.algorithm = lost.algorithm
             FROM lost CROSS JOIN temp.fresh_inode AS heir";
        let is_free = match in_place {
            true => "heir.root = lost.root AND (number IS NULL OR number IN (SELECT rowid FROM fresh))",
            false => "heir.root = lost.root AND number IN (SELECT rowid FROM fresh)",
        };
        let has_its_content = "heir.digest = lost.digest AND heir.algorithm = lost.algorithm";
        let is_it = "heir.size = lost.size AND heir.mtime = lost.mtime";
        let heirs = match likeness {
            Likeness::Itself => format!(
                "{found} ON {has_its_content} AND heir.inode = lost.inode AND {is_it} WHERE {is_free} LIMIT 1"
            ),
            // Those that have found theirs are not among them.
            Likeness::Content => "SELECT fresh.rowid, directory, name, file.size, file.mtime, file.ctime,
                    file.inode, file.digest, 1
                 FROM lost CROSS JOIN fresh ON fresh.root = lost.root AND fresh.digest = lost.digest
                 JOIN file USING(directory, name)
                 WHERE file.size = lost.size AND file.algorithm = lost.algorithm AND file.state = 0 LIMIT 1"
                .to_string(),
            Likeness::File | Likeness::InodeAlone => format!(
                "{found} ON heir.inode = lost.last_inode AND heir.inode <> 0 AND NOT ({has_its_content})
                    AND (heir.size = lost.last_size AND heir.mtime = lost.last_mtime OR {is_it})
                 WHERE {is_free}"
            ),
            Likeness::BadContent => format!(
                "{found} ON heir.digest = lost.last_digest AND heir.algorithm = lost.algorithm
                    AND heir.size = lost.last_size AND heir.size >= {TELLING}
                 WHERE {is_free} LIMIT 1"
            ),
        };
        let sql = format!(
            "WITH lost(root, algorithm, digest, size, inode, mtime, last_digest, last_size, last_inode, last_mtime)
                AS (VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10))
             {heirs}"
        );
        let values = params![
            root,
            lost.algorithm,
            lost.digest.as_bytes(),
            lost.size as i64,
            lost.inode as i64,
            lost.mtime,
            last.digest.as_bytes(),
            last.size as i64,
            last.inode as i64,
            last.mtime,
        ];
        self.rows(&sql, values, heir)
    }

    /// The very file of a lost record, if it took the name of another, whose record was replaced by its own.
    pub fn heir_in_place(&self, root: i64, lost: &CatalogRecord) -> Result<Option<Heir>> {
        // No fresh file has the number 0.
        let sql = "SELECT 0, directory, name, file.size, file.mtime, file.ctime, file.inode, file.digest, 1
             FROM temp.fresh_inode AS heir JOIN replaced USING(directory, name) JOIN file USING(directory, name)
             WHERE heir.number IS NULL AND heir.inode = ?2 AND replaced.root = ?1 AND file.state = 0
             AND file.inode = ?2 AND ?2 <> 0 AND file.size = ?3 AND file.mtime = ?4
             AND file.algorithm = ?5 AND file.digest = ?6 LIMIT 1";
        let values = params![
            root,
            lost.inode as i64,
            lost.size as i64,
            lost.mtime,
            lost.algorithm,
            lost.digest.as_bytes(),
        ];
        self.rows(sql, values, heir).map(|mut heirs: Vec<Heir>| heirs.pop())
    }

    /// Gives the history of a lost file to one that has its content, and forgets the lost one.
    pub fn give_history(
        &self,
        root: i64,
        lost: &RecordName,
        old: &CatalogRecord,
        heir: &Heir,
        likeness: Likeness,
    ) -> Result<()> {
        let name = OsStr::from_bytes(&lost.1);
        if likeness == Likeness::Content && old.inode != 0 {
            self.keep_left(root, lost.0, name, old)?;
        }
        self.apply(root, lost.0, name, &RecordChange::Forget(*old))?;
        let given = (|| {
            self.connection.prepare_cached("DELETE FROM fresh WHERE rowid = ?1")?.execute([heir.number])?;
            let sql = "UPDATE file SET first_seen = ?3, changed = ?4, guard = verisum_guard(directory, name,
                       root, size, mtime, ctime, inode, algorithm, digest, ?3, ?4, verified, state)
                       WHERE directory = ?1 AND name = ?2";
            let values = params![heir.place.0, heir.place.1, old.first_seen, old.changed];
            self.connection.prepare_cached(sql)?.execute(values)
        })();
        given.map(drop).map_err(self.failed("write"))
    }

    /// Up to `most` recorded files, after a place, whose inode, length and time of modification a fresh file
    /// has, and that are neither missing nor new themselves. They may have been renamed. With `in_place` a file whose
    /// record was replaced has them: they may have been renamed over that.
    pub fn may_be_renamed(
        &self,
        root: i64,
        in_place: bool,
        after: &RecordName,
        most: usize,
    ) -> Result<Vec<(RecordName, CatalogRecord)>> {
        let is_heir = if in_place { "IS NULL" } else { "IN (SELECT rowid FROM fresh)" };
        let sql = format!(
            "SELECT file.directory, file.name, {} FROM file
             WHERE file.state <> {MISSING} AND file.root = ?1
             AND file.directory >= ?2 AND (file.directory, file.name) > (?2, ?3)
             AND EXISTS (SELECT 1 FROM temp.fresh_inode AS heir WHERE heir.inode = file.inode AND heir.inode <> 0
                AND heir.size = file.size AND heir.mtime = file.mtime AND heir.root = ?1
                AND heir.number {is_heir})
             AND NOT EXISTS (SELECT 1 FROM temp.fresh_inode AS own
                WHERE own.directory = file.directory AND own.name = file.name)
             ORDER BY file.directory, file.name LIMIT ?4",
            columns()
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
    pub fn hand_over(
        &self,
        root: i64,
        gone: Option<(i64, &RecordName)>,
        (number, heir): (Option<i64>, &RecordName),
        record: &CatalogRecord,
        finding: RecordFinding,
    ) -> Result<()> {
        let name = OsStr::from_bytes(&heir.1);
        // The lost name may be gone since an earlier run; its heir is here.
        let finding = RecordFinding { detail: finding.detail.filter(|detail| detail != GONE), ..finding };
        // The heir's own length is in the sums of the root; that of the record takes its place.
        if let Some((owner, gone)) = gone {
            self.apply(owner, gone.0, OsStr::from_bytes(&gone.1), &RecordChange::Forget(*record))?;
        }
        if let Some(fresh) = self.record(heir.0, name)? {
            self.apply(root, heir.0, name, &RecordChange::Forget(fresh))?;
        }
        self.apply(root, heir.0, name, &RecordChange::Add(CatalogRecord { state: State::Sound, ..*record }))?;
        if record.state != State::Sound {
            self.apply(root, heir.0, name, &RecordChange::Suspect(record.state, finding))?;
        }
        let forgotten = (|| {
            let sql = "DELETE FROM unread WHERE directory = ?1 AND name = ?2";
            self.connection.prepare_cached(sql)?.execute(params![heir.0, heir.1])?;
            self.connection.prepare_cached("DELETE FROM fresh WHERE rowid = ?1")?.execute([number])
        })();
        forgotten.map(drop).map_err(self.failed("write"))
    }

    /// Takes care that a file whose record was replaced, and that is known for what it is, is not looked at again.
    pub fn settle_heir(&self, (directory, name): &RecordName) -> Result<()> {
        let sql = "DELETE FROM temp.fresh_inode WHERE number IS NULL AND directory = ?1 AND name = ?2";
        self.write(sql, params![directory, name])
    }

    /// Remembers until the end of the run that a file that was bad is gone.
    pub fn add_gone(&self, directory: i64, name: &OsStr) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO temp.gone(directory, name) VALUES (?1, ?2)";
        let values = params![directory, name.as_bytes()];
        let added = self.prepare_gone().and_then(|()| self.connection.prepare_cached(sql)?.execute(values));
        added.map(drop).map_err(self.failed("write"))
    }

    /// Up to `most` of them in a root, beginning after `after`, with what is recorded of them.
    pub fn gone(
        &self,
        root: i64,
        after: &RecordName,
        most: usize,
    ) -> Result<Vec<(RecordName, CatalogRecord)>> {
        let sql = format!(
            "SELECT directory, name, {} FROM temp.gone JOIN file USING(directory, name)
             WHERE (directory, name) > (?1, ?2) AND file.root = ?4 ORDER BY directory, name LIMIT ?3",
            columns()
        );
        let rows = self.prepare_gone().and_then(|()| {
            let mut statement = self.connection.prepare_cached(&sql)?;
            let rows =
                statement.query_map(params![after.0, after.1, most as i64, root], super::record::listed)?;
            rows.map(|row| row.map(|(directory, name, record)| ((directory, name), record))).collect()
        });
        rows.map_err(self.failed("read"))
    }

    pub(super) fn prepare_gone(&self) -> rusqlite::Result<()> {
        let sql = "CREATE TEMP TABLE IF NOT EXISTS gone(directory INTEGER NOT NULL, name BLOB NOT NULL,
                   PRIMARY KEY(directory, name)) WITHOUT ROWID";
        self.connection.execute_batch(sql)
    }

    /// Prepares for many calls of [`Catalog::heirs`] and for what comes after them: besides the fresh files
    /// those whose records were replaced are listed, without a number. None is bad or gone itself: those that an
    /// interrupted run recorded may be by now.
    pub fn index_fresh(&self) -> Result<()> {
        self.index_recorded(0)
    }

    /// The same of those that are in a state by now.
    fn index_recorded(&self, state: i64) -> Result<()> {
        // Mostly they are few: to go through all files instead would take long.
        let sql = format!(
            "CREATE TEMP TABLE IF NOT EXISTS fresh_inode AS
             SELECT fresh.rowid AS number, fresh.root, directory, name, inode, size, mtime, ctime,
             algorithm, file.digest FROM fresh CROSS JOIN file USING(directory, name)
             WHERE file.state = {state}
             UNION ALL
             SELECT NULL, file.root, directory, name, file.inode, file.size, file.mtime, file.ctime,
             file.algorithm, file.digest FROM replaced CROSS JOIN file USING(directory, name)
             WHERE file.state = {state};
             CREATE INDEX IF NOT EXISTS temp.fresh_by_place ON fresh_inode(directory, name);
             CREATE INDEX IF NOT EXISTS temp.fresh_by_inode ON fresh_inode(inode);
             CREATE INDEX IF NOT EXISTS temp.fresh_by_content ON fresh_inode(digest)"
        );
        let made = [FRESH_BY_DIGEST, &sql].into_iter().try_for_each(|sql| self.connection.execute_batch(sql));
        made.map_err(self.failed("write"))
    }

    /// Takes back what an interrupted run recorded of names that are gone by now, if another record says that it was
    /// bad: by its own record it would be good under a third name. The name has its old record again, or none.
    pub fn take_back_gone(&self, root: i64, since: Moment, now: Moment) -> Result<()> {
        let sql = "SELECT EXISTS (SELECT 1 FROM file INDEXED BY file_in_trouble
                WHERE root = ?1 AND state = ?2 AND state <> 0)
             AND (EXISTS (SELECT 1 FROM fresh WHERE root = ?1)
                OR EXISTS (SELECT 1 FROM replaced WHERE root = ?1))";
        if !self.row(sql, [root, MISSING], |row| row.get::<_, bool>(0))?.unwrap_or_default() {
            return Ok(());
        }
        self.index_recorded(MISSING)?;
        self.list_misnamed(root, since)?;
        if self.row("SELECT EXISTS (SELECT 1 FROM temp.fresh_inode)", [], |row| row.get(0))? == Some(true) {
            self.find_known_bad(root, true, now)?;
            let mut after = 0;
            loop {
                let page = self.known_bad(after, 1024)?;
                let Some((last, _)) = page.last() else { break };
                after = *last;
                for (_, bad) in page.iter().filter(|(_, bad)| bad.told.is_none()) {
                    self.take_back(root, &bad.heir, now)?;
                }
            }
            self.drop_known_bad()?;
        }
        self.connection
            .execute_batch("DROP TABLE temp.fresh_inode; DROP TABLE temp.misnamed")
            .map_err(self.failed("write"))
    }

    /// Takes back what was recorded of a name that is gone; once it is done, nothing is left to take back.
    fn take_back(&self, root: i64, place: &RecordName, now: Moment) -> Result<()> {
        let name = OsStr::from_bytes(&place.1);
        if let Some(old) = self.take_replaced(place)? {
            let finding = RecordFinding { since: now, seen: now, ..RecordFinding::default() };
            let missing = CatalogRecord { state: State::MISSING, ..old };
            return self.hand_over(root, None, (None, place), &missing, finding);
        }
        let deleted = self.connection.prepare_cached("DELETE FROM fresh WHERE directory = ?1 AND name = ?2");
        let deleted = deleted.and_then(|mut statement| statement.execute(params![place.0, place.1]));
        match (deleted.map_err(self.failed("write"))?, self.record(place.0, name)?) {
            (1, Some(record)) => self.apply(root, place.0, name, &RecordChange::Forget(record)),
            _ => Ok(()),
        }
    }

    /// Whether there is any of the files that [`Catalog::index_fresh`] and [`Catalog::list_misnamed`] list, or one in a
    /// root that could not be read and has no record.
    pub fn has_heirs(&self, root: i64) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM temp.fresh_inode) OR EXISTS (SELECT 1 FROM temp.misnamed)
                   OR EXISTS (SELECT 1 FROM unread WHERE root = ?1)";
        self.connection.query_row(sql, [root], |row| row.get(0)).map_err(self.failed("read"))
    }

    /// Calls `each` with every fresh file that is there, and forgets that they were.
    pub fn take_fresh(&self, root: i64, each: &mut dyn FnMut(RecordName, CatalogRecord)) -> Result<()> {
        let taken = (|| {
            let sql = format!(
                "SELECT directory, name, {} FROM fresh JOIN file USING(directory, name)
                 WHERE fresh.root = ?1 AND file.state <> {MISSING} ORDER BY directory, name",
                columns()
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
                 DROP TABLE IF EXISTS temp.misnamed;
                 DROP TABLE IF EXISTS temp.gone; DROP TABLE IF EXISTS temp.good_content",
            )
        })();
        taken.map_err(self.failed("write"))
    }

    /// Up to `most` missing files of a root, beginning after `after`.
    pub fn missing(
        &self,
        root: i64,
        after: &RecordName,
        most: usize,
    ) -> Result<Vec<(RecordName, CatalogRecord)>> {
        let after = Position { value: MISSING, directory: after.0, name: after.1.clone() };
        let mut rows = self.in_trouble(root, &after, true, most)?;
        rows.retain(|(_, record)| record.state == State::MISSING);
        Ok(rows.into_iter().map(|(place, record)| ((place.directory, place.name), record)).collect())
    }
}
