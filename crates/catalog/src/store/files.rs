//! Reads and changes the records of files.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use rusqlite::{Row, ToSql, params, params_from_iter};

use super::guard::{IS_INTACT, guard_with};
use super::record::{
    DAMAGED, GONE, MISSING, RECORDED, check_value, columns, finding, known, record, record_in, recorded,
    state,
};
use super::{
    Catalog, CatalogRecord, Moment, RecordChange, RecordFinding, RecordName, RecordSummary, Result, Stamp,
    State,
};
use verisum_files::Stat;

/// A place in an order of files: that of a row, or before the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The value that they are ordered by, before directory and name.
    pub value: i64,
    /// The number of the file's directory.
    pub directory: i64,
    /// The file's name in it.
    pub name: Vec<u8>,
}

impl Position {
    /// Before everything.
    pub const START: Position = Position { value: i64::MIN, directory: i64::MIN, name: Vec::new() };
}

/// A file that was read and is as recorded.
pub(crate) struct VerifiedFile {
    pub directory: i64,
    pub name: OsString,
    /// Its record from now on, which differs by the time of verification.
    pub record: CatalogRecord,
    /// The generation of its inode, where that is of use.
    pub generation: Option<u32>,
}

impl Catalog {
    /// Calls `each` with the name and a part of the record of every file in a directory, by name, until
    /// it returns `false`.
    pub fn known_in(&self, directory: i64, each: impl FnMut(&[u8], RecordSummary) -> bool) -> Result<()> {
        self.each_in(directory, "size, mtime, ctime, verified, state", known, each)
    }

    /// The same with whole records, of which a part may be damaged.
    pub fn records_in(&self, directory: i64, each: impl FnMut(&[u8], CatalogRecord) -> bool) -> Result<()> {
        let columns = format!("{RECORDED}, state, root, guard");
        self.each_in(directory, &columns, |row| record_in(row, directory), each)
    }

    fn each_in<T>(
        &self,
        directory: i64,
        columns: &str,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
        mut each: impl FnMut(&[u8], T) -> bool,
    ) -> Result<()> {
        let sql = format!("SELECT name, {columns} FROM file WHERE directory = ?1 ORDER BY name");
        let done = self.connection.prepare_cached(&sql).and_then(|mut statement| {
            let mut rows = statement.query([directory])?;
            while let Some(row) = rows.next()? {
                let found = read(row)?;
                if !each(row.get_ref(0)?.as_blob()?, found) {
                    break;
                }
            }
            Ok(())
        });
        done.map_err(self.failed("read"))
    }

    /// A part of the record of one file.
    pub fn known(&self, directory: i64, name: &OsStr) -> Result<Option<RecordSummary>> {
        let sql =
            "SELECT name, size, mtime, ctime, verified, state FROM file WHERE directory = ?1 AND name = ?2";
        self.row(sql, params![directory, name.as_bytes()], known)
    }

    /// The record of one file.
    pub fn record(&self, directory: i64, name: &OsStr) -> Result<Option<CatalogRecord>> {
        let sql = format!("SELECT {} FROM file WHERE directory = ?1 AND name = ?2", columns());
        self.row(&sql, params![directory, name.as_bytes()], |row| record(row, 0))
    }

    /// What was last seen of a file that is not as recorded, or could not be read and has no record.
    pub fn finding(&self, directory: i64, name: &OsStr) -> Result<Option<RecordFinding>> {
        let sql = "SELECT since, seen, size, mtime, ctime, inode, digest, detail FROM finding
                   WHERE directory = ?1 AND name = ?2
                   UNION ALL SELECT since, seen, NULL, NULL, NULL, NULL, NULL, detail FROM unread
                   WHERE directory = ?1 AND name = ?2 LIMIT 1";
        self.row(sql, params![directory, name.as_bytes()], finding)
    }

    /// Lists the files of a root that were last verified before `before` or after `future`, stalest first, for
    /// [`Catalog::stale`]. Those in trouble are among them, but not those whose record is known to be damaged.
    pub fn list_stale(&self, root: i64, before: Moment, future: Moment) -> Result<()> {
        let lists = format!(
            "DROP TABLE IF EXISTS temp.stale;
             CREATE TEMP TABLE stale(number INTEGER PRIMARY KEY, directory INTEGER NOT NULL, name BLOB NOT NULL,
                verified INTEGER NOT NULL);
             INSERT INTO temp.stale(directory, name, verified) SELECT directory, name, verified FROM file
                WHERE root = {root} AND (verified < {} OR verified > {}) AND state <> {DAMAGED}
                ORDER BY verified, directory, name;",
            before.milliseconds(),
            future.milliseconds()
        );
        self.connection.execute_batch(&lists).map_err(self.failed("list"))
    }

    /// Up to `most` files of those that were listed, beginning after `after`, and not verified since.
    pub fn stale(&self, after: &Position, most: usize) -> Result<Vec<(Position, CatalogRecord)>> {
        let sql = format!(
            "SELECT stale.number, file.directory, file.name, {} FROM temp.stale CROSS JOIN file
             ON file.directory = stale.directory AND file.name = stale.name AND file.verified = stale.verified
             WHERE stale.number > ?1 ORDER BY stale.number LIMIT ?2",
            columns()
        );
        self.page(&sql, params![after.value, most as i64])
    }

    /// Up to `most` files of a root that were sound.
    pub fn some_sound(&self, root: i64, most: usize) -> Result<Vec<(Position, CatalogRecord)>> {
        let sql = format!(
            "SELECT 0, directory, name, {} FROM file WHERE root = ?1 AND state = 0 LIMIT ?2",
            columns()
        );
        self.page(&sql, params![root, most as i64])
    }

    /// Up to `most` files of a root that are in trouble, beginning after `after`. Missing ones are among
    /// them only if `missing`.
    pub fn in_trouble(
        &self,
        root: i64,
        after: &Position,
        missing: bool,
        most: usize,
    ) -> Result<Vec<(Position, CatalogRecord)>> {
        let sql = format!(
            "SELECT state, directory, name, {} FROM file INDEXED BY file_in_trouble
             WHERE root = ?1 AND state <> 0 AND (state, directory, name) > (?2, ?3, ?4)
             AND (?6 OR state <> {MISSING})
             ORDER BY state, directory, name LIMIT ?5",
            columns()
        );
        self.page(&sql, params![root, after.value, after.directory, after.name, most as i64, missing])
    }

    fn page(&self, sql: &str, values: &[&dyn ToSql]) -> Result<Vec<(Position, CatalogRecord)>> {
        self.rows(sql, values, |row| {
            let position = Position { value: row.get(0)?, directory: row.get(1)?, name: row.get(2)? };
            Ok((position, record(row, 3)?))
        })
    }

    /// Files of a root that have no record, as no run could read them, and what they were found to be; those that
    /// were last come across before a moment.
    pub fn unread(&self, root: i64, before: Moment) -> Result<HashMap<RecordName, State>> {
        let sql = "SELECT directory, name, state FROM unread WHERE root = ?1 AND seen < ?2";
        self.rows(sql, (root, before), |row| Ok(((row.get(0)?, row.get(1)?), state(row, 2)?)))
    }

    /// Forgets one of them.
    pub fn forget_unread(&self, (directory, name): &RecordName) -> Result<()> {
        self.write("DELETE FROM unread WHERE directory = ?1 AND name = ?2", params![directory, name])
    }

    /// Forgets of [`Catalog::unread`] what is recorded by now, and what was not come across since.
    pub fn settle_unread(&self, root: i64, since: Moment) -> Result<()> {
        let sql = "DELETE FROM unread WHERE root = ?1 AND (seen < ?2 OR EXISTS (SELECT 1 FROM file
                   WHERE file.directory = unread.directory AND file.name = unread.name))";
        self.write(sql, (root, since))
    }

    /// Makes a change. The sums of the root follow.
    pub fn apply(&self, root: i64, directory: i64, name: &OsStr, change: &RecordChange) -> Result<()> {
        let done = match change {
            RecordChange::Add(new) => self.insert(root, directory, name, new),
            RecordChange::Confirm(new) => self.update(directory, name, new),
            RecordChange::Replace { old, new } => self
                .keep_replaced(root, directory, name, old)
                .and_then(|()| self.update(directory, name, new))
                .and_then(|()| self.add_to_sums(root, 0, new.size as i64 - old.size as i64)),
            RecordChange::Suspect(state, finding) => self.suspect(directory, name, *state, finding).map(drop),
            RecordChange::Unread(state, finding, stat) => {
                self.note_unread(root, (directory, name), *state, finding, stat.as_ref())
            }
            RecordChange::Forget(old) => self.delete(root, directory, name, old),
        };
        done.map_err(self.failed("write"))
    }

    fn insert(&self, root: i64, directory: i64, name: &OsStr, new: &CatalogRecord) -> rusqlite::Result<()> {
        let sql = "INSERT INTO file(directory, name, root, size, mtime, ctime, inode, algorithm, digest,
                   first_seen, changed, verified, state, guard)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
                   verisum_guard(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13))";
        let values = recorded(directory, name, root, new).into_iter().chain([new.state.code().into()]);
        self.connection.prepare_cached(sql)?.execute(params_from_iter(values))?;
        self.add_to_sums(root, 1, new.size as i64)
    }

    /// Takes note that files were verified, and were sound before. The other columns stay as they are: what damages
    /// one meanwhile does not fit the check value. The state need not: a run that did not come across the file may
    /// call it missing before another reads it.
    pub(crate) fn verify<'a>(&self, root: i64, files: impl Iterator<Item = &'a VerifiedFile>) -> Result<()> {
        // A range of one name: where there may be several rows, SQLite writes each where it found it. A single one it
        // looks for once more, which takes a fifth of the time.
        let sql = "UPDATE file SET verified = ?3, guard = ?4
                   WHERE directory = ?1 AND name BETWEEN ?2 AND ?2 AND state = ?5";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.failed("write"))?;
        for VerifiedFile { directory, name, record, generation } in files {
            let guard = check_value(*directory, name, root, record);
            let values = params![directory, name.as_bytes(), record.verified, guard, record.state.code()];
            let done = match statement.execute(values) {
                Ok(0) => self.update(*directory, name, record),
                done => done.map(drop),
            };
            done.map_err(self.failed("write"))?;
            if let Some(generation) = generation {
                self.note_generation(root, (record.inode, record.verified), *generation)?;
            }
        }
        Ok(())
    }

    fn update(&self, directory: i64, name: &OsStr, new: &CatalogRecord) -> rusqlite::Result<()> {
        let sql = "UPDATE file SET size = ?3, mtime = ?4, ctime = ?5, inode = ?6, algorithm = ?7,
                   digest = ?8, first_seen = ?9, changed = ?10, verified = ?11, state = ?12,
                   guard = verisum_guard(directory, name, root, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                   WHERE directory = ?1 AND name = ?2";
        self.connection.prepare_cached(sql)?.execute(params![
            directory,
            name.as_bytes(),
            new.size as i64,
            new.mtime,
            new.ctime,
            new.inode as i64,
            new.algorithm,
            new.digest.as_bytes(),
            new.first_seen,
            new.changed,
            new.verified,
            new.state.code(),
        ])?;
        self.one_row()?;
        self.drop_finding(directory, name)
    }

    /// Gives a record another state, and a finding that says why. A record that turns out to be damaged is
    /// marked as that instead; returns whether it is sound.
    fn suspect(
        &self,
        directory: i64,
        name: &OsStr,
        state: State,
        seen: &RecordFinding,
    ) -> rusqlite::Result<bool> {
        let sql = format!(
            "UPDATE file SET state = ?3, guard = {} WHERE directory = ?1 AND name = ?2 AND {IS_INTACT}",
            guard_with("?3")
        );
        let mut is_sound = false;
        if state != State::DAMAGED {
            let values = params![directory, name.as_bytes(), state.code()];
            is_sound = self.connection.prepare_cached(&sql)?.execute(values)? == 1;
        }
        if !is_sound {
            // Its check value stays as wrong as it is.
            let sql = "UPDATE file SET state = ?3 WHERE directory = ?1 AND name = ?2";
            self.connection.prepare_cached(sql)?.execute(params![directory, name.as_bytes(), DAMAGED])?;
            self.one_row()?;
        }
        // Since when stays what it was, and so does what was read last.
        let sql =
            "INSERT INTO finding(directory, name, since, seen, size, mtime, ctime, inode, digest, detail)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                   ON CONFLICT DO UPDATE SET seen = ?4, size = coalesce(?5, size),
                   mtime = coalesce(?6, mtime), ctime = coalesce(?7, ctime), inode = coalesce(?8, inode),
                   digest = coalesce(?9, digest), detail = ?10";
        let read = seen.read.as_ref();
        self.connection.prepare_cached(sql)?.execute(params![
            directory,
            name.as_bytes(),
            seen.since,
            seen.seen,
            read.map(|read| read.size as i64),
            read.map(|read| read.mtime),
            read.map(|read| read.ctime),
            read.map(|read| read.inode as i64),
            read.map(|read| read.digest.as_bytes()),
            seen.detail,
        ])?;
        Ok(is_sound)
    }

    /// Takes note, until the run ends, that a file could not be read that is another one than its name is recorded of,
    /// and what it is.
    pub fn note_other(&self, directory: i64, name: &OsStr, state: State) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO temp.other(directory, name, state) VALUES (?1, ?2, ?3)";
        self.write(sql, params![directory, name.as_bytes(), state.code()])
    }

    /// Takes note of which file it was that could not be read, where nothing was read of it before.
    pub fn note_inode(&self, directory: i64, name: &OsStr, stat: &Stat) -> Result<()> {
        let sql = "UPDATE finding SET size = ?3, mtime = ?4, ctime = ?5, inode = ?6, digest = NULL
                   WHERE directory = ?1 AND name = ?2 AND (digest IS NULL OR inode <> ?6)";
        let (modified, changed) = (Stamp::from(stat.modified), Stamp::from(stat.changed));
        let values =
            params![directory, name.as_bytes(), stat.size as i64, modified, changed, stat.inode as i64];
        let noted = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        noted.map(drop).map_err(self.failed("write"))
    }

    fn note_unread(
        &self,
        root: i64,
        (directory, name): (i64, &OsStr),
        state: State,
        finding: &RecordFinding,
        stat: Option<&Stat>,
    ) -> rusqlite::Result<()> {
        let sql = "INSERT INTO unread(directory, name, root, seen, inode, size, mtime, state, since, detail)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                   ON CONFLICT DO UPDATE SET seen = ?4, inode = ?5, size = ?6, mtime = ?7, state = ?8,
                   detail = ?10";
        let (inode, size) = (stat.map(|stat| stat.inode as i64), stat.map(|stat| stat.size as i64));
        let mtime = stat.map(|stat| Stamp::from(stat.modified));
        let RecordFinding { seen, since, detail, .. } = finding;
        let (name, state) = (name.as_bytes(), state.code());
        let values = params![directory, name, root, seen, inode, size, mtime, state, since, detail];
        self.connection.prepare_cached(sql)?.execute(values).map(drop)
    }

    /// Takes note that a file is gone. Other troubles that it was in are of no more interest. Returns
    /// whether its record is sound; if not, it is marked as damaged instead.
    pub fn lose(&self, directory: i64, name: &OsStr, finding: &RecordFinding) -> Result<bool> {
        let done = self.drop_finding(directory, name);
        done.and_then(|()| self.suspect(directory, name, State::MISSING, finding))
            .map_err(self.failed("write"))
    }

    /// Takes note that a file that stays in its trouble is gone.
    pub fn note_gone(&self, directory: i64, name: &OsStr) -> Result<()> {
        let sql = "UPDATE finding SET detail = ?3 WHERE directory = ?1 AND name = ?2";
        self.write(sql, params![directory, name.as_bytes(), GONE])
    }

    fn delete(&self, root: i64, directory: i64, name: &OsStr, old: &CatalogRecord) -> rusqlite::Result<()> {
        let sql = "DELETE FROM file WHERE directory = ?1 AND name = ?2";
        self.connection.prepare_cached(sql)?.execute(params![directory, name.as_bytes()])?;
        self.drop_finding(directory, name)?;
        self.add_to_sums(root, -1, -(old.size as i64))
    }

    fn drop_finding(&self, directory: i64, name: &OsStr) -> rusqlite::Result<()> {
        let sql = "DELETE FROM finding WHERE directory = ?1 AND name = ?2";
        self.connection.prepare_cached(sql)?.execute(params![directory, name.as_bytes()]).map(drop)
    }

    /// Fails unless the last statement changed one row: what is not recorded cannot change.
    fn one_row(&self) -> rusqlite::Result<()> {
        match self.connection.changes() {
            1 => Ok(()),
            other => Err(rusqlite::Error::StatementChangedRows(other as usize)),
        }
    }

    /// Adds to the sum of a root's lengths, where the record of a file had another one than the file.
    pub fn add_length(&self, root: i64, more: i64) -> Result<()> {
        self.add_to_sums(root, 0, more).map_err(self.failed("write"))
    }

    fn add_to_sums(&self, root: i64, files: i64, bytes: i64) -> rusqlite::Result<()> {
        if (files, bytes) == (0, 0) {
            return Ok(());
        }
        let sql = "UPDATE root SET files = files + ?2, bytes = bytes + ?3 WHERE id = ?1";
        self.connection.prepare_cached(sql)?.execute([root, files, bytes]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{catalog, record};

    #[test]
    fn records_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        for name in [&b"plain"[..], b"new\nline", b"\xff\xfe", b"-", b"'"] {
            let name = OsStr::from_bytes(name);
            catalog.apply(root.id, root.directory, name, &RecordChange::Add(record(3))).unwrap();
            assert_eq!(catalog.record(root.directory, name).unwrap(), Some(record(3)));
        }
        let change = RecordChange::Forget(record(3));
        catalog.apply(root.id, root.directory, "plain".as_ref(), &change).unwrap();
        assert_eq!(catalog.record(root.directory, "plain".as_ref()).unwrap(), None);
        assert_eq!(catalog.root(&root.path).unwrap().unwrap().files, 4);
        assert_eq!(catalog.check().unwrap(), []);
    }

    #[test]
    fn what_was_called_missing_before_it_was_verified_stays_intact() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let (name, directory) = (OsStr::new("file"), root.directory);
        catalog.apply(root.id, directory, name, &RecordChange::Add(record(3))).unwrap();
        assert!(catalog.lose(directory, name, &RecordFinding::default()).unwrap());
        // The reader had the record from before.
        let file = VerifiedFile { directory, name: name.into(), record: record(4), generation: None };
        catalog.verify(root.id, [&file].into_iter()).unwrap();
        assert_eq!(catalog.record(directory, name).unwrap(), Some(record(4)));
        assert_eq!(catalog.finding(directory, name).unwrap(), None);
        assert_eq!(catalog.check().unwrap(), []);
    }

    #[test]
    fn the_stalest_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        for number in 0..100_i64 {
            let change = RecordChange::Add(CatalogRecord { size: 1, ..record(number * 37 % 100) });
            catalog.apply(root.id, root.directory, number.to_string().as_ref(), &change).unwrap();
        }
        catalog.list_stale(root.id, Moment::of_milliseconds(90), Moment::of_milliseconds(95)).unwrap();
        let mut after = Position::START;
        let mut seen = Vec::new();
        loop {
            let page = catalog.stale(&after, 7).unwrap();
            let Some((place, _)) = page.last() else { break };
            after = place.clone();
            seen.extend(page.iter().map(|(_, record)| record.verified.milliseconds()));
        }
        assert_eq!(seen, (0..90).chain(96..100).collect::<Vec<_>>());
        // What was verified since is not among them.
        let (first, old) = catalog.stale(&Position::START, 1).unwrap().remove(0);
        let record = CatalogRecord { verified: Moment::of_milliseconds(200), ..old };
        let name = OsStr::from_bytes(&first.name).into();
        let file = VerifiedFile { directory: first.directory, name, record, generation: None };
        catalog.verify(root.id, [&file].into_iter()).unwrap();
        assert_ne!(catalog.stale(&Position::START, 1).unwrap()[0].0, first);
        assert_eq!(catalog.check().unwrap(), []);
    }

    #[test]
    fn what_is_in_trouble_is_found_without_a_sort() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, _) = catalog(folder.path());
        let sql =
            "EXPLAIN QUERY PLAN SELECT * FROM file INDEXED BY file_in_trouble WHERE root = 1 AND state <> 0
             AND (state, directory, name) > (1, 2, x'33') ORDER BY state, directory, name LIMIT 5";
        let mut statement = catalog.connection.prepare(sql).unwrap();
        let plan: Vec<String> =
            statement.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(plan.iter().all(|step| step.contains("SEARCH")), "{plan:?}");
    }

    #[test]
    fn damaged_records_are_known_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let columns = ["size", "mtime", "ctime", "inode", "algorithm", "first_seen", "changed", "state"];
        for name in columns.iter().chain(&["digest", "sound", "null"]) {
            let name = name.as_ref();
            catalog.apply(root.id, root.directory, name, &RecordChange::Add(record(3))).unwrap();
        }
        let damage = |set: &str| catalog.connection.execute(set, []).unwrap();
        for column in columns {
            damage(&format!("UPDATE file SET {column} = {column} + 4 WHERE name = CAST('{column}' AS BLOB)"));
        }
        damage("UPDATE file SET digest = x'01' WHERE name = CAST('digest' AS BLOB)");
        damage("UPDATE file SET guard = NULL WHERE name = CAST('null' AS BLOB)");
        for column in columns.iter().chain(&["digest", "null"]) {
            let found = catalog.record(root.directory, column.as_ref()).unwrap().unwrap();
            assert_eq!(found.state, State::DAMAGED, "{column}");
        }
        assert_eq!(catalog.record(root.directory, "sound".as_ref()).unwrap(), Some(record(3)));
        // A scrub reads whole directories.
        let mut in_directory = Vec::new();
        let each = |name: &[u8], found: CatalogRecord| {
            in_directory.push((OsStr::from_bytes(name).to_os_string(), found));
            true
        };
        catalog.records_in(root.directory, each).unwrap();
        assert_eq!(in_directory.len(), 11);
        for (name, found) in in_directory {
            assert_eq!(catalog.record(root.directory, &name).unwrap(), Some(found), "{name:?}");
        }
        let problems = catalog.check().unwrap();
        let damaged: Vec<_> = problems.iter().filter(|problem| problem.0.contains("is damaged")).collect();
        assert_eq!(damaged.len(), 10, "{problems:?}");
        assert!(damaged.iter().any(|problem| problem.0 == "/srv/mtime: its record is damaged"));
        // What is told of such a file keeps the record as it is.
        let finding = RecordFinding {
            since: Moment::of_milliseconds(1),
            seen: Moment::of_milliseconds(1),
            ..RecordFinding::default()
        };
        assert!(!catalog.lose(root.directory, "mtime".as_ref(), &finding).unwrap());
        assert!(catalog.lose(root.directory, "sound".as_ref(), &finding).unwrap());
        let page = catalog.in_trouble(root.id, &Position::START, true, 100).unwrap();
        let states: Vec<State> = page.iter().map(|(_, record)| record.state).collect();
        assert!(states.contains(&State::MISSING) && states.contains(&State::DAMAGED), "{states:?}");
        assert_eq!(
            page.iter().find(|row| row.0.name == b"mtime").unwrap().1.mtime,
            Stamp::of_nanoseconds(i64::MIN + 4)
        );
        damage("UPDATE file SET root = 'x' WHERE name = CAST('sound' AS BLOB)");
        let mut states = Vec::new();
        let each = |name: &[u8], found: CatalogRecord| {
            states.extend((name == b"sound").then_some(found.state));
            true
        };
        catalog.records_in(root.directory, each).unwrap();
        assert_eq!(states, [State::DAMAGED]);
    }
}
