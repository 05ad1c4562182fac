//! Finds bad data under other names. At the end of a run, it compares every new record with: bad content that
//! is no longer at its place, from this run or an earlier one; files that are bad at their place; records
//! that the run removed; and records whose content the run found in another file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rusqlite::{OptionalExtension, Row, params};

use super::guard::IS_INTACT;
use super::heirs::{Likeness, RecordName, TELLING};
use super::record::{CORRUPT, DAMAGED, HELD, MISSING, RECORDED, UNREAD, columns, record, seen, state};
use super::{Catalog, CatalogRecord, Moment, RecordChange, RecordFinding, Result, Seen, State, Trouble};
use verisum_files::Verdict;

/// A file that a run recorded, and what says that it is bad.
#[derive(Clone, Debug)]
pub struct KnownBad {
    /// The file.
    pub heir: RecordName,
    /// What it is, by the algorithm of the other record if that is the same.
    pub seen: Seen,
    /// The name that the other record is of, or was.
    pub known: RecordName,
    /// What is recorded of that: different content.
    pub record: CatalogRecord,
    /// When that was first found to be bad, and when last, if it was.
    pub found: Option<(Moment, Moment)>,
    /// Why the file is taken for that one.
    pub likeness: Likeness,
    /// Its row among the fresh ones; none if there was a record of its name.
    fresh: Option<i64>,
    /// What it was found to be where no record took note of it: it was bad, or could not be read. Its name may have
    /// the record of another file.
    pub told: Option<State>,
    /// Whether that was so before this run.
    pub was_told: bool,
}

/// What the two names have to do with it that a file was recorded under another one than it has.
#[derive(Clone, Debug, Default)]
pub struct Succession {
    /// Whether the record was replaced, or its name has another record, another file, or none.
    pub is_free: bool,
    /// The inode that the name of the record has, if that is another one; 0 if nothing is there.
    pub there: Option<u64>,
    /// What the name of the file was recorded of, if it was.
    pub own: Option<CatalogRecord>,
    /// The names under which that is, as it was recorded.
    pub own_found: Vec<RecordName>,
}

/// Where records come from that a file may belie, in the order of how much they say. Each has the columns
/// of [`record`], but for its intactness, then those of the finding: since, seen, length, time of
/// modification, inode, digest.
fn claims(with_sound: bool) -> String {
    let columns = format!("directory, name, {RECORDED}");
    let of_file = "file.directory, file.name, file.size, file.mtime, file.ctime, file.inode, file.algorithm,
        file.digest, file.first_seen, file.changed, file.verified, file.state";
    let without = "NULL, NULL, size, mtime, inode, digest";
    // Those that nothing was found against and that the walk has not come to.
    let sound = match with_sound {
        true => format!(
            "UNION ALL SELECT 5, {of_file}, {without} FROM file WHERE file.root = ?1
             AND file.state IN (0, {UNREAD}) AND {IS_INTACT} AND NOT EXISTS (SELECT 1 FROM temp.fresh_inode AS own
                WHERE own.directory = file.directory AND own.name = file.name)"
        ),
        false => String::new(),
    };
    format!(
        "SELECT CASE state WHEN 0 THEN 2 ELSE 0 END AS source, {columns}, state,
            CASE WHEN state <> 0 THEN since END AS since, CASE WHEN state <> 0 THEN seen END AS seen,
            seen_size, seen_mtime, seen_inode, seen_digest
         FROM former WHERE root = ?1
         UNION ALL
         SELECT 1, {of_file}, since, seen, coalesce(finding.size, file.size),
            coalesce(finding.mtime, file.mtime), coalesce(finding.inode, file.inode), finding.digest
         FROM file JOIN finding USING(directory, name)
         WHERE file.root = ?1 AND file.state <> 0 AND file.state IN {CORRUPT} AND {IS_INTACT}
         UNION ALL
         SELECT 3, {columns}, 0, {without} FROM replaced WHERE root = ?1
         UNION ALL
         SELECT 3, {columns}, 0, {without} FROM temp.misnamed WHERE root = ?1
         UNION ALL
         SELECT 4, {of_file}, {without} FROM file
         WHERE file.root = ?1 AND file.state = {MISSING} AND file.state <> 0 AND {IS_INTACT}
         {sound}"
    )
}

/// Whether the file that was found under a name is in trouble, and not that of the name's record.
pub(super) fn is_misnamed() -> String {
    format!(
        "file.state <> 0 AND file.state NOT IN ({MISSING}, {HELD}, {DAMAGED})
         AND finding.inode <> file.inode AND finding.inode <> 0 AND file.inode <> 0 AND {IS_INTACT}"
    )
}

/// What comes before what a file was when it was last read.
pub const PAST: &str = "; ";

/// A file that took the place of another, with its time of modification.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Where it is.
    pub place: RecordName,
    /// What was recorded there before.
    pub old: CatalogRecord,
    /// What is recorded of it.
    pub new: CatalogRecord,
}

impl Catalog {
    /// Lists the files of a root that are in trouble and are not those of their records, by their inodes. Nothing took
    /// the place of those records; each may belong to a file under another name. Those in trouble before `since` are
    /// told from the others.
    pub fn list_misnamed(&self, root: i64, since: Moment) -> Result<()> {
        let sql = format!(
            "CREATE TEMP TABLE misnamed AS
             SELECT file.*, coalesce((SELECT state FROM temp.other
                    WHERE other.directory = file.directory AND other.name = file.name), file.state) AS found_state,
                finding.since < ?2 AS is_old, finding.inode AS found_inode, finding.size AS found_size,
                finding.mtime AS found_mtime, coalesce(finding.ctime, 0) AS found_ctime,
                coalesce(again.algorithm, file.algorithm) AS found_algorithm,
                coalesce(again.digest, finding.digest) AS found_digest
             FROM file JOIN finding USING(directory, name)
             LEFT JOIN temp.read_again AS again USING(directory, name)
             WHERE file.root = ?1 AND {}",
            is_misnamed()
        );
        self.write("DROP TABLE IF EXISTS temp.misnamed", [])?;
        self.prepare_read_again().map_err(self.failed("write"))?;
        self.write(&sql, (root, since))
    }

    /// Looks for files that a run recorded, whose records it replaced, or that since `started` it could not read, and
    /// that by inode, length and time of modification are others than those that have records to the contrary, or
    /// have the content that was found to be bad where it is no longer. With `with_sound` also records that nothing
    /// was found against count, for a walk that was not everywhere. What was bad under a name may come back under it
    /// once that was well again, and so may a file that an earlier run saw another in the place of. The record of its
    /// own inode says most of a file, and of one that could not be read the latest. What is found is read by
    /// [`Catalog::known_bad`].
    pub fn find_known_bad(&self, root: i64, with_sound: bool, started: Moment) -> Result<()> {
        let claims = claims(with_sound);
        let heir = "heir.number, heir.directory AS heir_directory, heir.name AS heir_name,
            heir.size AS heir_size, heir.mtime AS heir_mtime, heir.ctime AS heir_ctime,
            heir.inode AS heir_inode, heir.digest AS heir_digest, heir.algorithm AS heir_algorithm";
        let is_heir = "heir.root = ?1 AND (heir.number IS NULL OR heir.number IN (SELECT rowid FROM fresh))
            AND NOT (heir.algorithm = claim.algorithm AND heir.digest = claim.digest)
            AND NOT (claim.source NOT IN (0, 2, 3)
                AND heir.directory = claim.directory AND heir.name = claim.name)";
        let told = "NULL, heir.directory, heir.name, found_size, found_mtime, found_ctime, found_inode, found_digest,
            heir.algorithm, found_state, is_old";
        let sql = format!(
            "CREATE TEMP TABLE bad AS
             WITH claim AS ({claims}), told AS (
                SELECT directory, name, root, found_algorithm AS algorithm, found_state, is_old, found_size,
                    found_mtime, found_ctime, found_inode, found_digest FROM temp.misnamed
                UNION ALL
                SELECT directory, name, root, NULL, state, 0, size, mtime, 0, inode, NULL FROM unread
                WHERE seen >= ?2)
             SELECT * FROM (SELECT {heir}, NULL AS told, 0 AS was_told, claim.*, CASE
                WHEN heir.size = claim.seen_size AND heir.mtime = claim.seen_mtime THEN 0
                WHEN heir.size = claim.size AND heir.mtime = claim.mtime THEN 0
                ELSE 1 END AS likeness
             FROM claim CROSS JOIN temp.fresh_inode AS heir
                ON heir.inode = claim.seen_inode AND heir.inode <> 0
             WHERE {is_heir} AND (likeness = 0 OR source = 1)
             AND (source <= 1 OR heir.algorithm = claim.algorithm)
             UNION ALL
             SELECT {told}, claim.*, 0
             FROM claim JOIN told AS heir ON heir.found_inode = claim.seen_inode AND heir.root = ?1
             WHERE (heir.found_size = claim.seen_size AND heir.found_mtime = claim.seen_mtime
                OR heir.found_size = claim.size AND heir.found_mtime = claim.mtime)
             AND (source <= 1 OR coalesce(heir.algorithm, claim.algorithm) = claim.algorithm)
             AND NOT (source <> 2 AND heir.directory = claim.directory AND heir.name = claim.name)
             AND NOT (source = 1 AND (claim.directory, claim.name) IN (SELECT directory, name FROM temp.misnamed))
             UNION ALL
             SELECT {heir}, NULL, 0, claim.*, 2
             FROM (SELECT 0 AS source, directory, name, {RECORDED}, state, since, seen, seen_size,
                    seen_mtime, seen_inode, seen_digest FROM former
                WHERE root = ?1 AND seen_size >= {TELLING} AND seen_digest IS NOT NULL
                GROUP BY algorithm, seen_digest) AS claim
             CROSS JOIN temp.fresh_inode AS heir ON heir.digest = claim.seen_digest
             WHERE {is_heir} AND heir.algorithm = claim.algorithm AND heir.size = claim.seen_size)
             ORDER BY heir_directory, heir_name, likeness, heir_inode <> inode,
                CASE WHEN told IN ({UNREAD}) THEN -max(coalesce(seen, 0), verified) END, source"
        );
        self.drop_known_bad()?;
        self.write(&sql, (root, started))
    }

    /// Up to `most` of those found, after so many: all that speaks against one file follows each other, the
    /// most certain first.
    pub fn known_bad(&self, after: i64, most: usize) -> Result<Vec<(i64, KnownBad)>> {
        let sql =
            "SELECT rowid, number, heir_directory, heir_name, heir_size, heir_mtime, heir_ctime, heir_inode,
                coalesce(CASE WHEN heir_algorithm = algorithm THEN heir_digest END, seen_digest, digest),
                directory, name, since, seen, likeness,
                size, mtime, ctime, inode, algorithm, digest, first_seen, changed, verified, state, 1, told, was_told
             FROM temp.bad WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
        self.rows(sql, params![after, most as i64], |row| Ok((row.get(0)?, known_bad(row)?)))
    }

    /// Files that this run took for modified although their time of modification is the recorded one, because they
    /// are others than those that were recorded, and that the time says are copies: what is recorded of them,
    /// and what they are.
    ///
    /// A time says nothing if it is a whole second, or if it was given to files of other contents too: their
    /// inodes changed later. Files that were made at once have the time of one tick of the clock, and their
    /// inodes too. What is recorded under another name is no copy, but was renamed.
    pub fn copied_with_their_time(&self, root: i64) -> Result<Vec<Copied>> {
        let candidates = "SELECT directory, name, old.mtime, file.inode, file.digest
             FROM replaced AS old JOIN file USING(directory, name)
             WHERE old.root = ?1 AND file.root = ?1 AND file.state = 0 AND file.mtime = old.mtime
             AND file.algorithm = old.algorithm AND file.digest <> old.digest AND old.mtime % 1000000000 <> 0";
        let recorded = "SELECT inode, mtime, ctime, digest FROM replaced WHERE root = ?1
             UNION ALL
             SELECT inode, mtime, ctime, digest FROM former WHERE root = ?1 AND state = 0
             UNION ALL
             SELECT inode, mtime, ctime, digest FROM file WHERE root = ?1 AND NOT EXISTS (
                SELECT 1 FROM temp.fresh_inode AS own
                WHERE own.directory = file.directory AND own.name = file.name)";
        let told = format!(
            "WITH recorded AS MATERIALIZED (
                SELECT * FROM ({recorded}) WHERE mtime IN (SELECT mtime FROM temp.candidate)
                    OR inode IN (SELECT inode FROM temp.candidate))
             SELECT directory, name FROM temp.candidate
             WHERE mtime NOT IN (SELECT mtime FROM recorded WHERE abs(ctime - mtime) > 1000000000
                    GROUP BY mtime HAVING count(DISTINCT digest) > 1)
             AND (inode, digest) NOT IN (SELECT inode, digest FROM recorded)"
        );
        let found = (|| {
            self.connection.execute_batch("DROP TABLE IF EXISTS temp.candidate")?;
            let made = format!("CREATE TEMP TABLE candidate AS {candidates}");
            self.connection.execute(&made, [root])?;
            let sql = "SELECT EXISTS (SELECT 1 FROM temp.candidate)";
            if !self.connection.query_row(sql, [], |row| row.get::<_, bool>(0))? {
                return Ok(Vec::new());
            }
            let sql = format!(
                "SELECT directory, name, old.size, old.mtime, old.ctime, old.inode, old.algorithm, old.digest,
                    old.first_seen, old.changed, old.verified, 0, 1, {}
                 FROM ({told}) JOIN replaced AS old USING(directory, name) JOIN file USING(directory, name)
                 ORDER BY directory, name",
                columns()
            );
            let mut statement = self.connection.prepare(&sql)?;
            let rows = statement.query_map([root], |row| {
                let place = (row.get(0)?, row.get(1)?);
                Ok(Copied { place, old: record(row, 2)?, new: record(row, 13)? })
            })?;
            rows.collect()
        })();
        found.map_err(self.failed("read"))
    }

    /// Puts the record of such a file back, which is in this state from now on.
    pub fn put_back(
        &self,
        root: i64,
        place: &RecordName,
        (state, now): (State, Moment),
        read: Seen,
    ) -> Result<()> {
        let Some(old) = self.take_replaced(place)? else { return Ok(()) };
        let finding = RecordFinding { since: now, seen: now, read: Some(read), detail: None };
        self.hand_over(root, None, (None, place), &CatalogRecord { state, ..old }, finding)
    }

    /// Forgets what was found.
    pub fn drop_known_bad(&self) -> Result<()> {
        let dropped = self.connection.execute_batch("DROP TABLE IF EXISTS temp.bad");
        dropped.map_err(self.failed("write"))
    }

    /// What the names of a file and of its record have to do with it; and the names under which the file is that the
    /// name of this one was recorded of, as it was recorded: found by this run, or in the place of another by one before.
    pub fn succession(&self, bad: &KnownBad) -> Result<Succession> {
        let KnownBad { heir, known, record, .. } = bad;
        let found = (|| {
            self.prepare_gone()?;
            let sql =
                "SELECT EXISTS (SELECT 1 FROM replaced WHERE directory = ?1 AND name = ?2 AND digest = ?3)
                    OR EXISTS (SELECT 1 FROM former
                        WHERE directory = ?1 AND name = ?2 AND digest = ?3 AND state = 0)
                    OR NOT EXISTS (SELECT 1 FROM file WHERE directory = ?1 AND name = ?2 AND digest = ?3),
                    (SELECT found_inode FROM temp.misnamed WHERE directory = ?1 AND name = ?2 AND digest = ?3
                     UNION ALL SELECT 0 FROM file WHERE directory = ?1 AND name = ?2 AND digest = ?3
                        AND (state = ?4 OR EXISTS (SELECT 1 FROM temp.gone WHERE directory = ?1 AND name = ?2)))";
            let values = params![known.0, known.1, record.digest.as_bytes(), MISSING];
            let (is_replaced, there): (bool, Option<i64>) = self
                .connection
                .prepare_cached(sql)?
                .query_row(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
            let own = "own AS (
                    SELECT inode, digest, algorithm FROM replaced WHERE directory = ?1 AND name = ?2
                    UNION
                    SELECT inode, digest, algorithm FROM temp.misnamed WHERE directory = ?1 AND name = ?2)";
            let sql = format!(
                "SELECT {RECORDED}, 0, 1 FROM replaced WHERE directory = ?1 AND name = ?2
                 UNION ALL SELECT {RECORDED}, state, 1 FROM temp.misnamed WHERE directory = ?1 AND name = ?2"
            );
            let own_record = self
                .connection
                .prepare_cached(&sql)?
                .query_row(params![heir.0, heir.1], |row| super::record::record(row, 0))
                .optional()?;
            let sql = format!(
                "WITH {own}
                 SELECT found.directory, found.name FROM own
                 JOIN temp.fresh_inode AS found ON found.inode = own.inode AND found.inode <> 0
                    AND found.digest = own.digest AND found.algorithm = own.algorithm
                 UNION
                 SELECT found.directory, found.name FROM own
                 JOIN file AS found ON found.inode = own.inode AND found.inode <> 0
                    AND found.digest = own.digest AND found.algorithm = own.algorithm
                 WHERE found.state = 0
                 AND (found.directory, found.name) IN (SELECT directory, name FROM former WHERE state = 0)"
            );
            let mut statement = self.connection.prepare_cached(&sql)?;
            let own_found =
                statement.query_map(params![heir.0, heir.1], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(Succession {
                is_free: is_replaced || there.is_some(),
                there: there.map(|inode| inode as u64),
                own: own_record,
                own_found: own_found.collect::<rusqlite::Result<_>>()?,
            })
        })();
        found.map_err(self.failed("read"))
    }

    /// Whether the record of a bad file is not lost if it does not follow the file: its content is under its name, where
    /// another inode may be (`there`), or was found under another by this run; or its name is known to be bad.
    pub fn is_back(&self, bad: &KnownBad, there: Option<u64>) -> Result<bool> {
        let KnownBad { known, record, .. } = bad;
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM temp.fresh_inode WHERE digest = ?3 AND algorithm = ?4)
                OR EXISTS (SELECT 1 FROM file LEFT JOIN temp.misnamed AS other USING(directory, name)
                    WHERE directory = ?1 AND name = ?2 AND file.digest = ?3 AND file.algorithm = ?4
                    AND (file.state = 0 AND file.inode IS coalesce(?5, file.inode)
                        OR file.state IN {CORRUPT} AND is_old IS NULL OR is_old))"
        );
        let there = there.map(|inode| inode as i64);
        let values = params![known.0, known.1, record.digest.as_bytes(), record.algorithm, there];
        let found = self
            .connection
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.query_row(values, |row| row.get(0)));
        found.map_err(self.failed("read"))
    }

    /// Takes note that a file is bad, and `state` since this run, which began `now`. If it was recorded first, or the
    /// record that it belies follows it, it gets that; else it gets back its own that was replaced. If its own was kept,
    /// it is sound if it is as the record says that follows it. Returns the record. `there` is the inode that the name
    /// has now that a record leaves which follows, as in [`Succession`], and whether that is the file of the name that it
    /// is followed to.
    pub fn mark_bad(
        &self,
        root: i64,
        bad: &KnownBad,
        (follows, there): (bool, Option<(u64, bool)>),
        (state, now): (State, Moment),
    ) -> Result<CatalogRecord> {
        let KnownBad { heir, seen, known, record, found, fresh, told, .. } = bad;
        let name = OsStr::from_bytes(&heir.1);
        let mut finding = RecordFinding { since: now, seen: now, read: Some(*seen), detail: None };
        let own = match (fresh, told) {
            (Some(_), _) => None,
            (None, None) => self.take_replaced(heir)?,
            (None, Some(_)) => {
                finding = self.finding(heir.0, name)?.unwrap_or(finding);
                self.record(heir.0, name)?
            }
        };
        finding.since = found.map_or(finding.since, |(since, _)| since);
        let again = self.read_again(heir, record.algorithm)?.filter(|_| follows && told.is_some());
        if let (Some(read), Some(digest)) = (&mut finding.read, again) {
            read.digest = digest;
        }
        if let Some(detail) = &mut finding.detail
            && let (true, Some(end)) = (follows, detail.find(PAST))
        {
            // What its name was when it was last read says nothing of it.
            detail.truncate(end);
        }
        let suspicious = State::Trouble(Trouble::Verdict(Verdict::Suspicious));
        let read = finding.read.filter(|read| {
            let is_comparable = again.is_some() || own.is_some_and(|own| own.algorithm == record.algorithm);
            // One read that is not confirmed, or an older one, makes nothing good.
            let is_certain = *told == Some(suspicious) && finding.detail.is_none();
            is_certain && follows && is_comparable && read.digest == record.digest
        });
        let record = match (read, own.filter(|_| !follows)) {
            (Some(Seen { mtime, ctime, inode, .. }), _) => {
                let state = State::Sound;
                CatalogRecord { mtime, ctime, inode, verified: finding.seen, state, ..*record }
            }
            (None, own) => CatalogRecord { state, ..own.unwrap_or(*record) },
        };
        if follows {
            self.leave(root, known, &record, there, own, now)?;
            if let Some(own) = own.filter(|own| own.inode != 0 && !own.state.is_corrupt()) {
                // Its file may be where this run did not look.
                self.keep_left(root, heir.0, name, &own)?;
            }
        }
        self.hand_over(root, None, (*fresh, heir), &record, finding)?;
        Ok(record)
    }

    /// Gives a name whose record follows its file the record of the file that is there, if that is the one of the name
    /// that it follows it to. What else is there is new, unless this run has looked at it.
    fn leave(
        &self,
        root: i64,
        place: &RecordName,
        record: &CatalogRecord,
        there: Option<(u64, bool)>,
        own: Option<CatalogRecord>,
        now: Moment,
    ) -> Result<()> {
        let name = OsStr::from_bytes(&place.1);
        let left = self.record(place.0, name)?.filter(|left| left.digest == record.digest);
        // A copy may have been put in the place of the file.
        let is_other = |there: &(u64, bool)| left.is_some_and(|left| left.inode != there.0);
        let (Some(left), Some((there, is_own))) = (left, there.filter(is_other)) else { return Ok(()) };
        let was_looked_at = self.finding(place.0, name)?.is_some_and(|finding| finding.seen >= now);
        match own.filter(|_| is_own) {
            Some(own) => {
                let own = CatalogRecord { state: State::Sound, ..own };
                self.hand_over(root, None, (None, place), &own, RecordFinding::default())
            }
            None if there == 0 || !was_looked_at => {
                self.apply(root, place.0, name, &RecordChange::Forget(left))
            }
            None => Ok(()),
        }
    }
}

fn known_bad(row: &Row<'_>) -> rusqlite::Result<KnownBad> {
    let (since, last): (Option<Moment>, Option<Moment>) = (row.get(11)?, row.get(12)?);
    Ok(KnownBad {
        fresh: row.get(1)?,
        heir: (row.get(2)?, row.get(3)?),
        seen: seen(row, 4)?,
        known: (row.get(9)?, row.get(10)?),
        found: since.zip(last),
        likeness: match row.get(13)? {
            0 => Likeness::File,
            1 => Likeness::InodeAlone,
            _ => Likeness::BadContent,
        },
        record: record(row, 14)?,
        told: row.get::<_, Option<i64>>(25)?.map(|_| state(row, 25)).transpose()?,
        was_told: row.get(26)?,
    })
}
