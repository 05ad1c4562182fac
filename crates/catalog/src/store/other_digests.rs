//! Finds renamed files that a run read by another digest than that of their own records.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rusqlite::params;
use verisum_digest::Output;

use super::known_bad::is_misnamed;
use super::record::{DAMAGED, columns, listed, output, seen};
use super::{Catalog, CatalogRecord, RecordChange, RecordName, Result, Seen};

/// A file that a run read.
#[derive(Clone, Debug)]
pub(crate) struct OtherDigest {
    /// The file.
    pub(crate) place: RecordName,
    /// What is recorded of its name.
    pub(crate) record: CatalogRecord,
    /// What it is, with the digest of that record.
    pub(crate) seen: Seen,
    /// Whether it is what was recorded, and not what was found against the record.
    pub(crate) is_recorded: bool,
    /// The algorithm of the record that is its own.
    pub(crate) algorithm: i64,
}

impl Catalog {
    /// Lists the files that a run recorded first, or whose records it replaced, or that are bad by the record of their
    /// name, and that by inode, length and time of modification have a record of another name, with another digest.
    /// [`Catalog::other_digests`] reads the list. Of several such records the one that the run found there says most.
    /// Returns whether any file may be in it.
    pub(crate) fn list_other_digests(&self, root: i64) -> Result<bool> {
        let found = format!(
            "CREATE TEMP TABLE found AS
             SELECT directory, name, file.size, file.mtime, file.ctime, file.inode, 1 AS is_recorded
             FROM (SELECT directory, name FROM fresh WHERE root = ?1
                UNION SELECT directory, name FROM replaced WHERE root = ?1)
             JOIN file USING(directory, name) WHERE file.state = 0 AND file.inode <> 0
             UNION ALL
             SELECT directory, name, finding.size, finding.mtime, finding.ctime, finding.inode, 0
             FROM file JOIN finding USING(directory, name)
             WHERE file.root = ?1 AND {} AND finding.digest IS NOT NULL",
            is_misnamed()
        );
        let identity = "directory, name, size, mtime, inode, algorithm";
        let own = format!(
            "CREATE TEMP TABLE own_digest AS
             SELECT claim.algorithm, found.*
             FROM (SELECT 0 AS source, {identity} FROM replaced WHERE root = ?1
                UNION ALL
                SELECT 1, {identity} FROM file WHERE root = ?1 AND state <> {DAMAGED}
                    AND (directory, name) NOT IN (SELECT directory, name FROM temp.found WHERE is_recorded)
                UNION ALL
                SELECT 2, {identity} FROM former WHERE root = ?1) AS claim
             CROSS JOIN temp.found AS found ON found.inode = claim.inode AND found.size = claim.size
                AND found.mtime = claim.mtime
             ORDER BY found.directory, found.name, claim.source"
        );
        for table in ["found", "own_digest", "read_again"] {
            self.write(&format!("DROP TABLE IF EXISTS temp.{table}"), [])?;
        }
        self.write(&found, [root])?;
        if self.row("SELECT 1 FROM temp.found LIMIT 1", [], |_| Ok(()))?.is_none() {
            return Ok(false);
        }
        self.write("CREATE INDEX temp.found_by_inode ON found(inode)", [])?;
        self.write("CREATE INDEX temp.found_by_place ON found(directory, name)", [])?;
        self.write(&own, [root])?;
        self.prepare_read_again().map_err(self.failed("write"))?;
        Ok(true)
    }

    /// Up to `most` of them, after so many.
    pub(crate) fn other_digests(&self, after: i64, most: usize) -> Result<Vec<(i64, OtherDigest)>> {
        let sql = format!(
            "SELECT file.directory, file.name, {}, own.algorithm, own.number, own.is_recorded,
                own.size, own.mtime, own.ctime, own.inode, file.digest
             FROM (SELECT min(rowid) AS number, * FROM temp.own_digest GROUP BY directory, name) AS own
             JOIN file USING(directory, name)
             WHERE own.number > ?1 AND own.algorithm <> file.algorithm ORDER BY own.number LIMIT ?2",
            columns()
        );
        self.rows(&sql, params![after, most as i64], |row| {
            let (directory, name, record) = listed(row)?;
            let (algorithm, is_recorded, seen) = (row.get(13)?, row.get(15)?, seen(row, 16)?);
            let place = (directory, name);
            Ok((row.get(14)?, OtherDigest { place, record, seen, is_recorded, algorithm }))
        })
    }

    /// What [`Catalog::set_other_digest`] remembers of files that are bad by the records of their names.
    pub(super) fn prepare_read_again(&self) -> rusqlite::Result<()> {
        let sql = "CREATE TEMP TABLE IF NOT EXISTS read_again(directory INTEGER NOT NULL, name BLOB NOT NULL,
                   algorithm INTEGER NOT NULL, digest BLOB NOT NULL,
                   PRIMARY KEY(directory, name)) WITHOUT ROWID";
        self.connection.execute_batch(sql)
    }

    /// The digest by an algorithm of a file that is bad by the record of its name, if the run read it again for that.
    pub(super) fn read_again(
        &self,
        (directory, name): &RecordName,
        algorithm: i64,
    ) -> Result<Option<Output>> {
        let sql = "SELECT digest FROM temp.read_again WHERE directory = ?1 AND name = ?2 AND algorithm = ?3";
        self.row(sql, params![directory, name, algorithm], |row| output(row, 0))
    }

    /// Keeps the digest that such a file has by the algorithm of its own record: as its record, or until the end of the
    /// run if its name has the record of another.
    pub(crate) fn set_other_digest(&self, root: i64, file: &OtherDigest, digest: Output) -> Result<()> {
        let (directory, name) = &file.place;
        if !file.is_recorded {
            let sql = "INSERT OR REPLACE INTO temp.read_again VALUES (?1, ?2, ?3, ?4)";
            return self.write(sql, params![directory, name, file.algorithm, digest.as_bytes()]);
        }
        let record = CatalogRecord { algorithm: file.algorithm, digest, ..file.record };
        self.apply(root, *directory, OsStr::from_bytes(name), &RecordChange::Confirm(record))?;
        let sql = "UPDATE fresh SET digest = ?3 WHERE directory = ?1 AND name = ?2";
        self.write(sql, params![directory, name, digest.as_bytes()])
    }
}
