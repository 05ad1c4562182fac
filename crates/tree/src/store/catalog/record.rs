//! The records of files, and what was found of those that are not as recorded.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rusqlite::{OptionalExtension, Row, params};
use verisum_digest::Output;

use super::{Catalog, Result};
use crate::verdict::Class;
use crate::{Stat, Timestamp, Verdict};

/// Nanoseconds since 1970, as they are stored. Times beyond 1677 to 2262 wrap around: two times are the
/// same if their stamps are, unless they are centuries apart.
pub fn stamp(time: Timestamp) -> i64 {
    time.seconds.wrapping_mul(1_000_000_000).wrapping_add(i64::from(time.nanoseconds))
}

/// What a run last thought of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is as recorded.
    Sound,
    /// It is not, or could not be compared; a [`Finding`] says more.
    Trouble(Trouble),
}

/// Why a file is not as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Of a verdict that may not replace the record.
    Verdict(Verdict),
    /// Modified in a run in which so much changed that nothing was taken over.
    Held,
}

/// What each stored number means. Numbers are never used again.
const STATES: [(i64, State); 9] = [
    (0, State::Sound),
    (1, State::Trouble(Trouble::Verdict(Verdict::Busy))),
    (2, State::Trouble(Trouble::Verdict(Verdict::Unverifiable))),
    (3, State::Trouble(Trouble::Verdict(Verdict::IoError))),
    (4, State::Trouble(Trouble::Verdict(Verdict::Suspicious))),
    (5, State::Trouble(Trouble::Verdict(Verdict::Flaky))),
    (6, State::Trouble(Trouble::Verdict(Verdict::Rot))),
    (7, State::MISSING),
    (8, State::Trouble(Trouble::Held)),
];

/// The stored number of [`State::MISSING`].
pub(super) const MISSING: i64 = 7;

/// The stored number of [`Trouble::Held`].
pub(super) const HELD: i64 = 8;

impl State {
    /// The name is gone.
    pub const MISSING: State = State::Trouble(Trouble::Verdict(Verdict::Missing));

    /// Whether only a good file or somebody's word may end it: bad data, or a change that is held.
    pub fn is_unforgiven(self) -> bool {
        match self {
            State::Trouble(Trouble::Verdict(verdict)) => verdict.class() == Class::Corrupt,
            State::Trouble(Trouble::Held) => true,
            State::Sound => false,
        }
    }

    /// The word used in reports and exports.
    pub fn name(self) -> &'static str {
        match self {
            State::Sound => "ok",
            State::Trouble(Trouble::Verdict(verdict)) => verdict.name(),
            State::Trouble(Trouble::Held) => "held",
        }
    }

    /// The state of this name.
    pub fn find(name: &str) -> Option<State> {
        STATES.into_iter().map(|(_, state)| state).find(|state| state.name() == name)
    }

    pub(crate) fn code(self) -> i64 {
        let row = STATES.into_iter().find(|(_, state)| *state == self);
        row.map_or(2, |(code, _)| code)
    }

    pub(super) fn of_code(code: i64) -> Option<State> {
        STATES.into_iter().find(|(number, _)| *number == code).map(|(_, state)| state)
    }
}

/// What a file was when it was last found good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Length in bytes.
    pub size: u64,
    /// Time of modification, as [`stamp`] has it.
    pub mtime: i64,
    /// Time of the inode's last change, as [`stamp`] has it.
    pub ctime: i64,
    /// The inode's number.
    pub inode: u64,
    /// The digest's algorithm, by its number in this catalogue.
    pub algorithm: i64,
    /// The digest.
    pub digest: Output,
    /// When it was first recorded, in milliseconds since 1970.
    pub first_seen: i64,
    /// When its content was last found to be new, in milliseconds since 1970.
    pub changed: i64,
    /// When its content was last compared or recorded, in milliseconds since 1970; 0 for never.
    pub verified: i64,
    /// What the last run thought of it.
    pub state: State,
}

/// What a scan needs to know of a file: a part of its record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// As in [`Record`].
    pub size: u64,
    /// As in [`Record`].
    pub mtime: i64,
    /// As in [`Record`].
    pub ctime: i64,
    /// As in [`Record`].
    pub state: State,
}

/// What was last seen of a file that is not as recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// When it was first found so, in milliseconds since 1970.
    pub since: i64,
    /// When it was last found so, in milliseconds since 1970.
    pub seen: i64,
    /// What was read, if anything.
    pub read: Option<Seen>,
    /// An error's text.
    pub detail: Option<String>,
}

/// A file as it was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Length in bytes.
    pub size: u64,
    /// Time of modification, as [`stamp`] has it.
    pub mtime: i64,
    /// Time of the inode's last change, as [`stamp`] has it.
    pub ctime: i64,
    /// The inode's number.
    pub inode: u64,
    /// The digest, by the record's algorithm.
    pub digest: Output,
}

impl Seen {
    /// A file in this state with this digest.
    pub fn new(stat: &Stat, digest: Output) -> Seen {
        Seen {
            size: stat.size,
            mtime: stamp(stat.modified),
            ctime: stamp(stat.changed),
            inode: stat.inode,
            digest,
        }
    }
}

/// A change to one file's record.
#[derive(Clone, Debug)]
pub enum Change {
    /// It is recorded for the first time.
    Add(Record),
    /// Its record is as before but for times, inode and state.
    Confirm(Record),
    /// Another content takes the place of the recorded one, which can be put back until the run ends.
    Replace {
        /// What it was.
        old: Record,
        /// What it is.
        new: Record,
    },
    /// It is not as recorded, and the record stays.
    Suspect(State, Finding),
    /// Its record is removed.
    Forget(Record),
}

const RECORD: &str = "size, mtime, ctime, inode, algorithm, digest, first_seen, changed, verified, state";

impl Catalog {
    /// The number of an algorithm, given one if it has none.
    pub fn algorithm(&self, name: &str) -> Result<i64> {
        let sql = "INSERT INTO algorithm(name) VALUES (?1) ON CONFLICT DO NOTHING";
        self.connection.execute(sql, [name]).map_err(self.failed("write"))?;
        let sql = "SELECT id FROM algorithm WHERE name = ?1";
        self.connection.query_row(sql, [name], |row| row.get(0)).map_err(self.failed("read"))
    }

    /// All algorithms that have a number.
    pub fn algorithms(&self) -> Result<HashMap<i64, String>> {
        let sql = "SELECT id, name FROM algorithm";
        let rows = self.connection.prepare_cached(sql).and_then(|mut statement| {
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        });
        rows.map_err(self.failed("read"))
    }

    /// The directories in a directory: names and numbers.
    pub fn directories_in(&self, parent: i64) -> Result<Vec<(Vec<u8>, i64, u64)>> {
        let sql = "SELECT name, id, device FROM directory WHERE parent = ?1";
        let rows = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let rows =
                statement.query_map([parent], |row| Ok((row.get(0)?, row.get(1)?, unsigned(row, 2)?)))?;
            rows.collect()
        });
        rows.map_err(self.failed("read"))
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

    /// Calls `each` with the name and a part of the record of every file in a directory, by name, until
    /// it returns `false`.
    pub fn known_in(&self, directory: i64, mut each: impl FnMut(&[u8], Known) -> bool) -> Result<()> {
        let sql = "SELECT name, size, mtime, ctime, state FROM file WHERE directory = ?1 ORDER BY name";
        let done = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let mut rows = statement.query([directory])?;
            while let Some(row) = rows.next()? {
                let known = known(row)?;
                if !each(row.get_ref(0)?.as_blob()?, known) {
                    break;
                }
            }
            Ok(())
        });
        done.map_err(self.failed("read"))
    }

    /// A part of the record of one file.
    pub fn known(&self, directory: i64, name: &OsStr) -> Result<Option<Known>> {
        let sql = "SELECT name, size, mtime, ctime, state FROM file WHERE directory = ?1 AND name = ?2";
        let row = self.connection.prepare_cached(sql).and_then(|mut statement| {
            statement.query_row(params![directory, name.as_bytes()], known).optional()
        });
        row.map_err(self.failed("read"))
    }

    /// The record of one file.
    pub fn record(&self, directory: i64, name: &OsStr) -> Result<Option<Record>> {
        let sql = format!("SELECT {RECORD} FROM file WHERE directory = ?1 AND name = ?2");
        let row = self.connection.prepare_cached(&sql).and_then(|mut statement| {
            statement.query_row(params![directory, name.as_bytes()], |row| record(row, 0)).optional()
        });
        row.map_err(self.failed("read"))
    }

    /// What was last seen of a file that is not as recorded.
    pub fn finding(&self, directory: i64, name: &OsStr) -> Result<Option<Finding>> {
        let sql = "SELECT since, seen, size, mtime, ctime, inode, digest, detail FROM finding
                   WHERE directory = ?1 AND name = ?2";
        let row = self.connection.prepare_cached(sql).and_then(|mut statement| {
            statement.query_row(params![directory, name.as_bytes()], finding).optional()
        });
        row.map_err(self.failed("read"))
    }

    /// Up to `most` files of a root that were last verified before `before`, stalest first, beginning
    /// after `after`. Files in trouble are not among them.
    pub fn stalest(
        &self,
        root: i64,
        after: &(i64, i64, Vec<u8>),
        before: i64,
        most: usize,
    ) -> Result<Vec<(i64, Vec<u8>, Record)>> {
        let sql = format!(
            "SELECT directory, name, {RECORD} FROM file INDEXED BY file_by_age
             WHERE root = ?1 AND (verified, directory, name) > (?2, ?3, ?4) AND verified < ?5
             ORDER BY verified, directory, name LIMIT ?6"
        );
        let rows = self.connection.prepare_cached(&sql).and_then(|mut statement| {
            let values = params![root, after.0, after.1, after.2, before, most as i64];
            let rows = statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, record(row, 2)?)))?;
            rows.collect()
        });
        rows.map_err(self.failed("read"))
    }

    /// Up to `most` files of a root that are in trouble, beginning after `after`. Missing ones are among
    /// them only if `missing`.
    pub fn in_trouble(
        &self,
        root: i64,
        after: &(i64, i64, Vec<u8>),
        missing: bool,
        most: usize,
    ) -> Result<Vec<(i64, Vec<u8>, Record)>> {
        let sql = format!(
            "SELECT directory, name, {RECORD} FROM file INDEXED BY file_in_trouble
             WHERE root = ?1 AND state <> 0 AND (state, directory, name) > (?2, ?3, ?4)
             AND (?5 OR state <> {MISSING})
             ORDER BY state, directory, name LIMIT ?6"
        );
        let rows = self.connection.prepare_cached(&sql).and_then(|mut statement| {
            let values = params![root, after.0, after.1, after.2, missing, most as i64];
            let rows = statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, record(row, 2)?)))?;
            rows.collect()
        });
        rows.map_err(self.failed("read"))
    }

    /// Makes a change. The sums of the root follow.
    pub fn apply(&self, root: i64, directory: i64, name: &OsStr, change: &Change) -> Result<()> {
        let done = match change {
            Change::Add(new) => self.insert(root, directory, name, new),
            Change::Confirm(new) => self.update(directory, name, new),
            Change::Replace { old, new } => self
                .keep_replaced(root, directory, name, old)
                .and_then(|()| self.update(directory, name, new))
                .and_then(|()| self.add_to_sums(root, 0, new.size as i64 - old.size as i64)),
            Change::Suspect(state, finding) => self.suspect(directory, name, *state, finding),
            Change::Forget(old) => self.delete(root, directory, name, old),
        };
        done.map_err(self.failed("write"))
    }

    fn insert(&self, root: i64, directory: i64, name: &OsStr, new: &Record) -> rusqlite::Result<()> {
        let sql = format!(
            "INSERT INTO file(directory, name, root, {RECORD})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
        );
        self.connection.prepare_cached(&sql)?.execute(params![
            directory,
            name.as_bytes(),
            root,
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
        self.add_to_sums(root, 1, new.size as i64)
    }

    fn update(&self, directory: i64, name: &OsStr, new: &Record) -> rusqlite::Result<()> {
        let sql = "UPDATE file SET size = ?3, mtime = ?4, ctime = ?5, inode = ?6, algorithm = ?7,
                   digest = ?8, first_seen = ?9, changed = ?10, verified = ?11, state = ?12
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

    fn suspect(&self, directory: i64, name: &OsStr, state: State, seen: &Finding) -> rusqlite::Result<()> {
        let sql = "UPDATE file SET state = ?3 WHERE directory = ?1 AND name = ?2";
        let values = params![directory, name.as_bytes(), state.code()];
        self.connection.prepare_cached(sql)?.execute(values)?;
        self.one_row()?;
        // Since when stays what it was.
        let sql =
            "INSERT INTO finding(directory, name, since, seen, size, mtime, ctime, inode, digest, detail)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                   ON CONFLICT DO UPDATE SET seen = ?4, size = ?5, mtime = ?6, ctime = ?7, inode = ?8,
                   digest = ?9, detail = ?10";
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
        Ok(())
    }

    /// Takes note that a file is gone. Other troubles that it was in are of no more interest.
    pub fn lose(&self, directory: i64, name: &OsStr, finding: &Finding) -> Result<()> {
        let done = self.drop_finding(directory, name);
        done.and_then(|()| self.suspect(directory, name, State::MISSING, finding))
            .map_err(self.failed("write"))
    }

    /// How many files of a root are held.
    pub fn held(&self, root: i64) -> Result<u64> {
        let sql = "SELECT count(*) FROM file WHERE root = ?1 AND state = ?2 AND state <> 0";
        self.connection.query_row(sql, [root, HELD], |row| unsigned(row, 0)).map_err(self.failed("read"))
    }

    fn delete(&self, root: i64, directory: i64, name: &OsStr, old: &Record) -> rusqlite::Result<()> {
        let sql = "DELETE FROM file WHERE directory = ?1 AND name = ?2";
        self.connection.prepare_cached(sql)?.execute(params![directory, name.as_bytes()])?;
        self.drop_finding(directory, name)?;
        self.add_to_sums(root, -1, -(old.size as i64))
    }

    fn drop_finding(&self, directory: i64, name: &OsStr) -> rusqlite::Result<()> {
        let sql = "DELETE FROM finding WHERE directory = ?1 AND name = ?2";
        self.connection.prepare_cached(sql)?.execute(params![directory, name.as_bytes()]).map(drop)
    }

    fn keep_replaced(&self, root: i64, directory: i64, name: &OsStr, old: &Record) -> rusqlite::Result<()> {
        // The first of a run is the good one.
        let sql =
            "INSERT OR IGNORE INTO replaced(directory, name, root, size, mtime, ctime, inode, algorithm,
                   digest, first_seen, changed, verified)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        self.connection.prepare_cached(sql)?.execute(params![
            directory,
            name.as_bytes(),
            root,
            old.size as i64,
            old.mtime,
            old.ctime,
            old.inode as i64,
            old.algorithm,
            old.digest.as_bytes(),
            old.first_seen,
            old.changed,
            old.verified,
        ])?;
        Ok(())
    }

    /// How many records of a root were replaced since the last run that ended.
    pub fn replaced(&self, root: i64) -> Result<u64> {
        let sql = "SELECT count(*) FROM replaced WHERE root = ?1";
        self.connection.query_row(sql, [root], |row| unsigned(row, 0)).map_err(self.failed("read"))
    }

    /// Makes the replacements final.
    pub fn keep_replacements(&self, root: i64) -> Result<()> {
        let sql = "DELETE FROM replaced WHERE root = ?1";
        self.connection.execute(sql, [root]).map(drop).map_err(self.failed("write"))
    }

    /// Puts the replaced records back. What took their place becomes the finding of a file that is held.
    pub fn hold_replacements(&self, root: i64, now: i64) -> Result<()> {
        let held = [
            "UPDATE root SET bytes = bytes + coalesce((
                SELECT sum(replaced.size - file.size) FROM replaced JOIN file USING(directory, name)
                WHERE replaced.root = ?1), 0) WHERE id = ?1",
            "INSERT OR REPLACE INTO finding(directory, name, since, seen, size, mtime, ctime, inode, digest)
                SELECT directory, name, ?2, ?2, file.size, file.mtime, file.ctime, file.inode, file.digest
                FROM replaced JOIN file USING(directory, name) WHERE replaced.root = ?1",
            "UPDATE file SET size = old.size, mtime = old.mtime, ctime = old.ctime, inode = old.inode,
                algorithm = old.algorithm, digest = old.digest, first_seen = old.first_seen,
                changed = old.changed, verified = old.verified, state = ?2
                FROM replaced AS old
                WHERE old.root = ?1 AND file.directory = old.directory AND file.name = old.name",
        ];
        for (number, sql) in held.into_iter().enumerate() {
            let values: &[&dyn rusqlite::ToSql] = match number {
                0 => &[&root],
                1 => &[&root, &now],
                _ => &[&root, &HELD],
            };
            self.connection.execute(sql, values).map_err(self.failed("write"))?;
        }
        self.keep_replacements(root)
    }

    /// Holds the files of a root that are missing since `since` or later.
    pub fn hold_missing(&self, root: i64, since: i64) -> Result<()> {
        let sql = "UPDATE file SET state = ?3 WHERE root = ?1 AND state = ?4 AND state <> 0 AND EXISTS (
                   SELECT 1 FROM finding WHERE finding.directory = file.directory AND finding.name = file.name
                   AND finding.since >= ?2)";
        let held = self.connection.execute(sql, [root, since, HELD, MISSING]);
        held.map(drop).map_err(self.failed("write"))
    }

    /// Fails unless the last statement changed one row: what is not recorded cannot change.
    fn one_row(&self) -> rusqlite::Result<()> {
        match self.connection.changes() {
            1 => Ok(()),
            other => Err(rusqlite::Error::StatementChangedRows(other as usize)),
        }
    }

    fn add_to_sums(&self, root: i64, files: i64, bytes: i64) -> rusqlite::Result<()> {
        if (files, bytes) == (0, 0) {
            return Ok(());
        }
        let sql = "UPDATE root SET files = files + ?2, bytes = bytes + ?3 WHERE id = ?1";
        self.connection.prepare_cached(sql)?.execute([root, files, bytes]).map(drop)
    }
}

fn known(row: &Row<'_>) -> rusqlite::Result<Known> {
    Ok(Known { size: unsigned(row, 1)?, mtime: row.get(2)?, ctime: row.get(3)?, state: state(row, 4)? })
}

/// A record from ten columns that begin at `at`.
pub(super) fn record(row: &Row<'_>, at: usize) -> rusqlite::Result<Record> {
    Ok(Record {
        size: unsigned(row, at)?,
        mtime: row.get(at + 1)?,
        ctime: row.get(at + 2)?,
        inode: unsigned(row, at + 3)?,
        algorithm: row.get(at + 4)?,
        digest: output(row, at + 5)?,
        first_seen: row.get(at + 6)?,
        changed: row.get(at + 7)?,
        verified: row.get(at + 8)?,
        state: state(row, at + 9)?,
    })
}

fn finding(row: &Row<'_>) -> rusqlite::Result<Finding> {
    let has_content = row.get_ref(6)? != rusqlite::types::ValueRef::Null;
    let read = has_content.then(|| {
        Ok::<_, rusqlite::Error>(Seen {
            size: unsigned(row, 2)?,
            mtime: row.get(3)?,
            ctime: row.get(4)?,
            inode: unsigned(row, 5)?,
            digest: output(row, 6)?,
        })
    });
    Ok(Finding { since: row.get(0)?, seen: row.get(1)?, read: read.transpose()?, detail: row.get(7)? })
}

fn state(row: &Row<'_>, at: usize) -> rusqlite::Result<State> {
    let code = row.get(at)?;
    State::of_code(code).ok_or(rusqlite::Error::IntegralValueOutOfRange(at, code))
}

/// SQLite has signed integers only; the bits are what matters.
pub(super) fn unsigned(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(|value| value as u64)
}

pub(super) fn output(row: &Row<'_>, at: usize) -> rusqlite::Result<Output> {
    let bytes = row.get_ref(at)?.as_blob()?;
    digest_of(bytes).ok_or(rusqlite::Error::IntegralValueOutOfRange(at, bytes.len() as i64))
}

/// A digest of these bytes, unless they are more than any has.
pub(super) fn digest_of(bytes: &[u8]) -> Option<Output> {
    if bytes.is_empty() || bytes.len() > verisum_digest::MAX_DIGEST_LEN {
        return None;
    }
    let mut digest = Output::zeroed(bytes.len());
    digest.as_mut_bytes().copy_from_slice(bytes);
    Some(digest)
}
