//! Bad content, such as rot, that was found before and is no longer at its place. It may appear again, in this run or years later,
//! in a part of the tree that no run has read meanwhile. Each name and inode that was bad has a row, until somebody
//! accepts the file, or the content is known to be bad under another name.
//!
//! Records that other files took the names of are here too, as sound ones: their own files may be where the run
//! did not look, or where it had looked before they came there. They stay until a later run has read all that is new
//! or changed in the whole root, at most a year.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, params, params_from_iter};
use verisum_digest::Output;

use super::guard::IS_INTACT;
use super::record::{CORRUPT, GONE, MISSING, RECORDED, output, record, recorded, unsigned};
use super::{Catalog, CatalogRecord, Moment, RecordFinding, RecordName, Result, Root, Seen, Stamp};

/// How long sound records are remembered at most: there may never be a run over the whole root.
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

/// A file that was found to be bad and is no longer there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Previous {
    /// The name that it had.
    pub place: RecordName,
    /// What was recorded of it, and what it was called.
    pub record: CatalogRecord,
    /// When it was first found to be bad, and when last.
    pub found: (Moment, Moment),
    /// Its length in bytes, its time of modification and its inode when it was last read.
    pub size: u64,
    pub mtime: Stamp,
    pub inode: u64,
    /// What it had for a content, if that was read.
    pub digest: Option<Output>,
}

/// A bad file that is no longer at its place: the row's number, its name, its record, and what it was found to be.
type BadBefore = (i64, RecordName, CatalogRecord, RecordFinding);

/// The names of bad files that are gone, by algorithm and by the content that was found there.
pub(crate) type GoneContents = HashMap<(i64, Vec<u8>), Vec<RecordName>>;

impl Catalog {
    /// Remembers what was found of a file that is bad: it is about to be forgotten, unless the file is still as
    /// `now` says.
    pub fn keep_previous(&self, root: i64, directory: i64, name: &OsStr, now: Option<&Seen>) -> Result<()> {
        let sql = format!(
            "INSERT OR REPLACE INTO former(root, directory, name, state, since, seen, size, mtime, ctime, inode,
                algorithm, digest, first_seen, changed, verified,
                seen_size, seen_mtime, seen_inode, seen_digest)
             SELECT ?1, directory, name, state, since, seen, file.size, file.mtime, file.ctime, file.inode,
                algorithm, file.digest, first_seen, changed, verified, coalesce(finding.size, file.size),
                coalesce(finding.mtime, file.mtime), coalesce(finding.inode, file.inode), finding.digest
             FROM file JOIN finding USING(directory, name)
             WHERE directory = ?2 AND name = ?3 AND state IN {CORRUPT} AND {IS_INTACT}
             AND NOT (?4 IS NOT NULL AND finding.size IS ?4 AND finding.mtime IS ?5 AND finding.inode IS ?6
                AND finding.digest IS ?7)"
        );
        let values = params![
            root,
            directory,
            name.as_bytes(),
            now.map(|seen| seen.size as i64),
            now.map(|seen| seen.mtime),
            now.map(|seen| seen.inode as i64),
            now.map(|seen| seen.digest.as_bytes().to_vec()),
        ];
        let kept = self.connection.prepare_cached(&sql).and_then(|mut statement| statement.execute(values));
        kept.map(drop).map_err(self.failed("write"))
    }

    /// Remembers which file of `root` a record was of that nothing was found against: its content is now in another
    /// one, and nobody has looked at the former since.
    pub fn keep_left(&self, root: i64, directory: i64, name: &OsStr, old: &CatalogRecord) -> Result<()> {
        let sql = format!(
            "INSERT INTO former(directory, name, root, {RECORDED}, state, since, seen, seen_size, seen_mtime,
                seen_inode)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0, 0, 0, ?4, ?5, ?7)"
        );
        let kept = self.connection.prepare_cached(&sql).and_then(|mut statement| {
            statement.execute(params_from_iter(recorded(directory, name, root, old)))
        });
        kept.map(drop).map_err(self.failed("write"))
    }

    /// Whether any file of a root is known to be bad, or was and may be again.
    pub fn has_known_bad(&self, root: i64) -> Result<bool> {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM file WHERE root = ?1 AND state <> 0 AND state IN {CORRUPT})
                OR EXISTS (SELECT 1 FROM former WHERE root = ?1 AND state <> 0)"
        );
        let found = self
            .connection
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.query_row([root], |row| row.get(0)));
        found.map_err(self.failed("read"))
    }

    /// The same of the other roots.
    pub fn has_bad_elsewhere(&self, root: i64) -> Result<bool> {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM file INDEXED BY file_in_trouble
                    WHERE root <> ?1 AND state <> 0 AND state IN {CORRUPT})
                OR EXISTS (SELECT 1 FROM former WHERE root <> ?1 AND state <> 0)"
        );
        self.connection.query_row(&sql, [root], |row| row.get(0)).map_err(self.failed("read"))
    }

    /// Whether a good file had a content before some time, and has it still: then it says nothing of the others
    /// that have it. Only contents that were found to be bad can be asked for.
    pub fn was_good_before(
        &self,
        root: i64,
        (algorithm, digest): (i64, &Output),
        since: Moment,
    ) -> Result<bool> {
        let sql = format!(
            "CREATE TEMP TABLE IF NOT EXISTS good_content AS
             SELECT algorithm, digest, min(changed) AS changed FROM file
             WHERE root = ?1 AND state = 0
             AND digest IN (SELECT digest FROM finding UNION SELECT seen_digest FROM former)
             AND {IS_INTACT} AND NOT EXISTS (SELECT 1 FROM temp.fresh_inode AS own
                WHERE own.directory = file.directory AND own.name = file.name)
             GROUP BY algorithm, digest"
        );
        let found = self.connection.execute(&sql, [root]).and_then(|_| {
            let sql = "SELECT EXISTS (SELECT 1 FROM temp.good_content
                       WHERE algorithm = ?1 AND digest = ?2 AND changed < ?3)";
            self.connection.query_row(sql, params![algorithm, digest.as_bytes(), since], |row| row.get(0))
        });
        found.map_err(self.failed("read"))
    }

    /// Whether a file was recorded as it is now before some time, under a name that has the file of another since.
    pub fn was_recorded_before(&self, root: i64, algorithm: i64, file: &Seen, time: Moment) -> Result<bool> {
        let sql =
            "SELECT EXISTS (SELECT 1 FROM former WHERE root = ?1 AND state = 0 AND inode = ?2 AND size = ?3
                   AND mtime = ?4 AND algorithm = ?5 AND digest = ?6 AND changed < ?7)";
        let Seen { size, mtime, inode, digest, .. } = file;
        let values = params![root, *inode as i64, *size as i64, mtime, algorithm, digest.as_bytes(), time];
        let found = self.connection.query_row(sql, values, |row| row.get(0));
        found.map_err(self.failed("read"))
    }

    /// Remembers which files the records were of that a run replaced by those of others: they may be where it did not
    /// look, or had looked before.
    pub fn remember_replaced(&self, root: i64, now: Moment) -> Result<()> {
        let sql = "INSERT INTO former(root, directory, name, state, since, seen, size, mtime, ctime, inode,
                algorithm, digest, first_seen, changed, verified, seen_size, seen_mtime, seen_inode)
             SELECT ?1, directory, name, 0, ?2, 0, old.size, old.mtime, old.ctime, old.inode, old.algorithm,
                old.digest, old.first_seen, old.changed, old.verified, old.size, old.mtime, old.inode
             FROM replaced AS old JOIN file USING(directory, name)
             WHERE old.root = ?1 AND file.inode <> old.inode AND old.inode <> 0";
        self.write(sql, (root, now))
    }

    /// Forgets at the end of a run that began `now` what is of no more use: what was not found to be bad and was
    /// remembered by runs before, if this one has read all of the root that is new or changed, and what is known to be
    /// bad under the name that it has now.
    pub fn settle_previous(&self, root: i64, has_read_all: bool, now: Moment) -> Result<()> {
        let sql = "UPDATE former SET since = ?2 WHERE root = ?1 AND state = 0 AND since = 0";
        self.connection.execute(sql, (root, now)).map_err(self.failed("write"))?;
        let sql = format!(
            "DELETE FROM former WHERE root = ?1 AND (state = 0 AND (?2 AND since < ?4 OR since < ?3)
             OR (seen_inode, coalesce(seen_digest, x'')) IN (
                SELECT coalesce(finding.inode, file.inode), coalesce(finding.digest, x'')
                FROM file JOIN finding USING(directory, name)
                WHERE file.root = ?1 AND file.state <> 0 AND file.state IN {CORRUPT} AND {IS_INTACT}))"
        );
        let values = params![root, has_read_all, now - YEAR, now];
        self.write(&sql, values)
    }

    /// Forgets that a file was bad which somebody has accepted: the very file, and its content.
    pub fn absolve(&self, root: i64, accepted: &CatalogRecord) -> Result<()> {
        let sql = "DELETE FROM former WHERE root = ?1
                   AND (algorithm = ?2 AND seen_digest = ?3 OR seen_inode = ?4 AND ?4 <> 0)";
        let values = params![root, accepted.algorithm, accepted.digest.as_bytes(), accepted.inode as i64];
        self.write(sql, values)
    }

    /// The bad files of a root that are gone, as they were found last.
    pub(crate) fn gone_contents(&self, root: i64) -> Result<GoneContents> {
        let sql = format!(
            "SELECT algorithm, finding.digest, directory, name FROM file JOIN finding USING(directory, name)
             WHERE file.root = ?1 AND file.state <> 0 AND file.state IN {CORRUPT} AND {IS_INTACT}
             AND finding.detail = ?2 AND finding.digest IS NOT NULL"
        );
        let content = |row: &Row<'_>| -> rusqlite::Result<((i64, Vec<u8>), RecordName)> {
            Ok(((row.get(0)?, row.get(1)?), (row.get(2)?, row.get(3)?)))
        };
        let mut found: GoneContents = HashMap::new();
        let all: Vec<_> = self.rows(&sql, (root, GONE), content)?;
        for (content, name) in all {
            found.entry(content).or_default().push(name);
        }
        Ok(found)
    }

    /// The missing names of a root, by the inodes of their files.
    pub(crate) fn missing_names(&self, root: i64) -> Result<HashMap<u64, Vec<RecordName>>> {
        let sql = format!(
            "SELECT inode, directory, name FROM file
             WHERE root = ?1 AND state <> 0 AND state = {MISSING} AND inode <> 0"
        );
        let name = |row: &Row<'_>| Ok((row.get::<_, i64>(0)? as u64, (row.get(1)?, row.get(2)?)));
        let all: Vec<(u64, RecordName)> = self.rows(&sql, [root], name)?;
        let mut found: HashMap<u64, Vec<RecordName>> = HashMap::new();
        for (inode, name) in all {
            found.entry(inode).or_default().push(name);
        }
        Ok(found)
    }

    /// Forgets which file it was that is gone from a name, and what it had for a content: that was accepted elsewhere.
    pub(crate) fn forget_gone(&self, (directory, name): &RecordName) -> Result<()> {
        let sql = "UPDATE finding SET size = NULL, mtime = NULL, ctime = NULL, inode = NULL, digest = NULL
                   WHERE directory = ?1 AND name = ?2";
        self.write(sql, params![directory, name])?;
        let sql = format!(
            "UPDATE file SET inode = 0, guard = verisum_guard(directory, name, root, size, mtime, ctime, 0,
                algorithm, digest, first_seen, changed, verified, state)
             WHERE directory = ?1 AND name = ?2 AND state <> 0 AND {IS_INTACT}"
        );
        self.write(&sql, params![directory, name])
    }

    /// Forgets what was bad under a path, or only counts it.
    pub fn absolve_below(&self, root: &Root, path: &Path, is_only_counted: bool) -> Result<u64> {
        let mut found = 0;
        for (number, former) in self.all_previous(root.id)? {
            let place = root.path.join(self.path_in_root(former.place.0)?);
            if !place.join(OsStr::from_bytes(&former.place.1)).starts_with(path) {
                continue;
            }
            found += 1;
            if !is_only_counted {
                self.forget_previous(number)?;
            }
        }
        Ok(found)
    }

    /// The bad files of a root that are no longer at their places, each with its row's number: its name, its record, and
    /// what it was found to be.
    pub(crate) fn bad_before(&self, root: i64) -> Result<Vec<BadBefore>> {
        let with_finding = |(number, former): (i64, Previous)| {
            let Previous { place, record, found: (since, seen), size, mtime, inode, digest } = former;
            let read = digest.map(|digest| Seen { size, mtime, ctime: record.ctime, inode, digest });
            (number, place, record, RecordFinding { since, seen, read, detail: None })
        };
        Ok(self.all_previous(root)?.into_iter().map(with_finding).collect())
    }

    /// Forgets one of them: it is known under another name.
    pub(crate) fn forget_previous(&self, number: i64) -> Result<()> {
        self.write("DELETE FROM former WHERE rowid = ?1", [number])
    }

    /// All that is remembered to be bad in a root, each with its row's number.
    pub(super) fn all_previous(&self, root: i64) -> Result<Vec<(i64, Previous)>> {
        let sql = format!(
            "SELECT rowid, directory, name, since, seen, seen_size, seen_mtime, seen_inode, seen_digest,
                {RECORDED}, state, 1
             FROM former WHERE root = ?1 AND state <> 0 ORDER BY directory, name, seen_inode"
        );
        self.rows(&sql, [root], previous)
    }

    /// Remembers one that another catalogue remembers.
    pub(super) fn add_previous(&self, root: i64, former: &Previous) -> Result<()> {
        let sql = format!(
            "INSERT OR IGNORE INTO former(directory, name, root, {RECORDED}, state, since, seen, seen_size,
                seen_mtime, seen_inode, seen_digest)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
        );
        let values = [
            former.record.state.code().into(),
            former.found.0.milliseconds().into(),
            former.found.1.milliseconds().into(),
            (former.size as i64).into(),
            former.mtime.nanoseconds().into(),
            (former.inode as i64).into(),
            former.digest.map(|digest| digest.as_bytes().to_vec()).into(),
        ]
        .map(ToSqlOutput::Owned);
        let name = OsStr::from_bytes(&former.place.1);
        let values = recorded(former.place.0, name, root, &former.record).into_iter().chain(values);
        self.write(&sql, params_from_iter(values))
    }
}

fn previous(row: &Row<'_>) -> rusqlite::Result<(i64, Previous)> {
    let has_content = row.get_ref(8)? != ValueRef::Null;
    let former = Previous {
        place: (row.get(1)?, row.get(2)?),
        found: (row.get(3)?, row.get(4)?),
        size: unsigned(row, 5)?,
        mtime: row.get(6)?,
        inode: unsigned(row, 7)?,
        digest: has_content.then(|| output(row, 8)).transpose()?,
        record: record(row, 9)?,
    };
    Ok((row.get(0)?, former))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{catalog, record};
    use crate::store::{RecordChange, State, Trouble};

    #[test]
    fn what_was_bad_is_exported_and_imported() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let name = OsStr::from_bytes(b"\xff");
        let bad = State::Trouble(Trouble::Verdict(verisum_files::Verdict::Rot));
        let read = Seen {
            size: 9,
            mtime: Stamp::of_nanoseconds(8),
            ctime: Stamp::of_nanoseconds(7),
            inode: u64::MAX,
            digest: Output::zeroed(32),
        };
        let [first, last, end] = [1, 2, 3].map(Moment::of_milliseconds);
        let finding = RecordFinding { since: first, seen: last, read: Some(read), detail: None };
        catalog.apply(root.id, root.directory, name, &RecordChange::Add(record(3))).unwrap();
        catalog.apply(root.id, root.directory, name, &RecordChange::Suspect(bad, finding)).unwrap();
        catalog.keep_previous(root.id, root.directory, name, None).unwrap();
        // As long as it is there it is not remembered twice.
        catalog.settle_previous(root.id, true, end).unwrap();
        assert_eq!(catalog.all_previous(root.id).unwrap(), []);
        catalog.keep_previous(root.id, root.directory, name, None).unwrap();
        catalog.apply(root.id, root.directory, name, &RecordChange::Confirm(record(3))).unwrap();
        catalog.settle_previous(root.id, true, end).unwrap();
        let formers = catalog.all_previous(root.id).unwrap();
        assert_eq!((formers.len(), formers[0].1.found, formers[0].1.record.state), (1, (first, last), bad));
        assert_eq!(catalog.check().unwrap(), []);

        let mut lines = Vec::new();
        catalog.export(&mut lines).unwrap();
        let other = Catalog::open(&folder.path().join("other.db")).unwrap();
        for _ in 0..2 {
            other
                .import(&mut &lines[..], Path::new("x.jsonl"), verisum_files::Timestamp::of_milliseconds(1))
                .unwrap();
        }
        let mut again = Vec::new();
        other.export(&mut again).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), String::from_utf8(lines.clone()).unwrap());
        let good = String::from_utf8(lines).unwrap().replace("\"outcome\":\"rot\"", "\"outcome\":\"ok\"");
        assert!(
            other
                .import(
                    &mut good.as_bytes(),
                    Path::new("x.jsonl"),
                    verisum_files::Timestamp::of_milliseconds(1)
                )
                .is_err()
        );

        assert_eq!(catalog.absolve_below(&root, Path::new("/srv/a"), false).unwrap(), 0);
        assert_eq!(catalog.absolve_below(&root, Path::new("/srv"), true).unwrap(), 1);
        assert_eq!(catalog.absolve_below(&root, Path::new("/srv"), false).unwrap(), 1);
        assert_eq!(catalog.all_previous(root.id).unwrap(), []);
    }
}
