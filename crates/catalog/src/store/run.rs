//! The history of runs.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row, params};

use super::record::unsigned;
use super::{Catalog, Moment, Result};

/// How many runs of a root are remembered.
const REMEMBERED: i64 = 1000;

/// A run over one root.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Its number.
    pub id: i64,
    /// When it started.
    pub started: Moment,
    /// When the cycle of runs began that it continues: itself, unless the last one left files due.
    pub cycle: Moment,
    /// When it ended; none if it goes on, or was killed.
    pub finished: Option<Moment>,
    /// Whether nothing was left due, as far as could be seen: a tree with a directory that can never be listed
    /// would never be done.
    pub complete: bool,
    /// Whether somebody ended it before its time. What it had to tell at its end, the next one tells.
    pub interrupted: bool,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// How many seconds it took.
    pub seconds: f64,
    /// How many files it read.
    pub read_files: u64,
    /// How long the files were that it read, with their holes, which take time too.
    pub read_bytes: u64,
    /// How many files had each verdict, as JSON, and as [`UNLISTED`] how many directories and files could not be
    /// looked at.
    pub counts: String,
}

/// The name of what could not be looked at in [`Run::counts`].
pub const UNLISTED: &str = "unlisted";

impl Run {
    /// How many files had each verdict, by its name, and how many could not be looked at, as [`UNLISTED`]. Those that
    /// there are none of are left out.
    pub fn verdicts(&self) -> BTreeMap<String, u64> {
        let mut counts: BTreeMap<String, u64> = serde_json::from_str(&self.counts).unwrap_or_default();
        counts.retain(|_, count| *count > 0);
        counts
    }

    /// How it ended, in a word. One that was not ended `goes_on`, or was killed.
    pub fn how(&self, goes_on: bool) -> &'static str {
        match self.finished {
            None if goes_on => "in progress",
            None => "killed",
            Some(_) if self.error.is_some() => "failed",
            Some(_) if self.interrupted => "interrupted",
            Some(_) if self.complete && !self.verdicts().contains_key(UNLISTED) => "complete",
            Some(_) => "incomplete",
        }
    }

    /// How many files the last of these runs that ended counted under a name of [`Run::verdicts`]; the newest is the first.
    pub fn of_last(runs: &[Run], name: &str) -> u64 {
        let last = runs.iter().find(|run| run.finished.is_some());
        last.and_then(|run| run.verdicts().get(name).copied()).unwrap_or_default()
    }

    /// Whether it came to its end, and told what there was to tell then.
    pub fn is_whole(&self) -> bool {
        self.finished.is_some() && !self.interrupted && self.error.is_none()
    }
}

/// What is told as the error of a run whose counts cannot be read: none of them is zero.
const DAMAGED: &str = "the record of this run is damaged (verisum catalog check)";

/// A column's text. Runs have no check value: what is damaged of one keeps nothing else from being read.
fn text(row: &Row<'_>, column: usize) -> Option<String> {
    let bytes = row.get_ref(column).ok()?.as_bytes().ok()?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

impl Catalog {
    /// Whether any run of a root came to its end.
    pub fn was_complete(&self, root: i64) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM run WHERE root = ?1 AND complete)";
        let row = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row([root], |row| row.get(0)));
        row.map_err(self.failed("read"))
    }

    /// The last runs of a root, newest first.
    pub fn runs(&self, root: i64, most: usize) -> Result<Vec<Run>> {
        let sql = "SELECT id, started, cycle, finished, complete, seconds, read_files, read_bytes, counts, interrupted, error
                   FROM run WHERE root = ?1 ORDER BY id DESC LIMIT ?2";
        self.rows(sql, params![root, most as i64], |row| {
            let counts = text(row, 8);
            // A run that failed counted nothing.
            let is_sound = |counts: &str| {
                counts.is_empty() || serde_json::from_str::<BTreeMap<String, u64>>(counts).is_ok()
            };
            let is_damaged = !counts.as_deref().is_some_and(is_sound);
            Ok(Run {
                id: row.get(0)?,
                started: row.get(1)?,
                cycle: row.get(2)?,
                finished: row.get(3)?,
                complete: row.get(4)?,
                seconds: row.get(5)?,
                read_files: unsigned(row, 6)?,
                read_bytes: unsigned(row, 7)?,
                counts: counts.unwrap_or_default(),
                interrupted: row.get(9)?,
                error: text(row, 10).or_else(|| is_damaged.then(|| DAMAGED.to_string())),
            })
        })
    }

    /// How many bytes the runs of a root read that came to their ends; none if runs are forgotten.
    pub fn read_by_runs(&self, root: i64) -> Result<Option<u64>> {
        let sql = "SELECT coalesce(sum(read_bytes) FILTER (WHERE finished NOTNULL AND NOT interrupted AND error IS NULL), 0),
                   count(*) FROM run WHERE root = ?1";
        let row = self.connection.query_row(sql, [root], |row| Ok((unsigned(row, 0)?, row.get(1)?)));
        let (read, runs): (u64, i64) = row.map_err(self.failed("read"))?;
        Ok((runs < REMEMBERED).then_some(read))
    }

    /// Records that a run begins, and returns its number. Very old runs are forgotten.
    pub fn begin_run(&self, root: i64, started: Moment, cycle: Moment) -> Result<i64> {
        let begun = (|| {
            self.forget_waiting()?;
            let sql = "INSERT INTO run(root, started, cycle) VALUES (?1, ?2, ?3)";
            self.connection.execute(sql, (root, started, cycle))?;
            let id = self.connection.last_insert_rowid();
            let sql = "SELECT id FROM run WHERE root = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2";
            let oldest: Option<i64> =
                self.connection.query_row(sql, [root, REMEMBERED], |row| row.get(0)).optional()?;
            if let Some(oldest) = oldest {
                let sql = "DELETE FROM run WHERE root = ?1 AND id <= ?2";
                self.connection.execute(sql, [root, oldest])?;
            }
            Ok(id)
        })();
        begun.map_err(self.failed("write"))
    }

    /// Records how a run went.
    pub fn end_run(&self, run: &Run) -> Result<()> {
        let sql = "UPDATE run SET finished = ?2, complete = ?3, seconds = ?4, read_files = ?5,
                   read_bytes = ?6, counts = ?7, interrupted = ?8, error = ?9 WHERE id = ?1";
        let values = params![
            run.id,
            run.finished,
            run.complete,
            run.seconds,
            run.read_files as i64,
            run.read_bytes as i64,
            run.counts,
            run.interrupted,
            run.error
        ];
        self.write(sql, values)
    }

    /// Notes why nobody could be told what the last run of a root found: the next one tells of it too.
    pub fn note_untold(&self, root: i64, why: &str) -> Result<()> {
        let sql = "UPDATE run SET error = ?2 WHERE id = (SELECT max(id) FROM run WHERE root = ?1) AND error IS NULL";
        self.write(sql, params![root, why])
    }
}
