//! Files that a run read by another digest than the record that is theirs has.

use rusqlite::params;
use verisum_digest::Output;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::record::{DAMAGED, columns, listed};
use super::{Catalog, CatalogRecord, RecordChange, RecordName, Result};

/// A file that a run recorded.
#[derive(Clone, Debug)]
pub struct OtherDigest {
    /// The file.
    pub place: RecordName,
    /// What the run recorded of it.
    pub record: CatalogRecord,
    /// The algorithm of the record that is its own.
    pub algorithm: i64,
}

impl Catalog {
    /// Lists the files that a run recorded first, or whose records it replaced, and that by inode, length and time of
    /// modification have a record of another name, with another digest. [`Catalog::other_digests`] reads the list.
    /// Of several such records the one that the run found there says most.
    pub fn list_other_digests(&self, root: i64) -> Result<()> {
        let identity = "directory, name, size, mtime, inode, algorithm";
        let sql = format!(
            "CREATE TEMP TABLE own_digest AS
             SELECT claim.algorithm, found.directory, found.name
             FROM (SELECT 0 AS source, {identity} FROM replaced WHERE root = ?1
                UNION ALL
                SELECT 1, {identity} FROM file WHERE root = ?1 AND state <> {DAMAGED}
                    AND (directory, name) NOT IN (SELECT directory, name FROM temp.found)
                UNION ALL
                SELECT 2, {identity} FROM former WHERE root = ?1) AS claim
             CROSS JOIN temp.found AS found ON found.inode = claim.inode AND found.size = claim.size
                AND found.mtime = claim.mtime
             ORDER BY found.directory, found.name, claim.source"
        );
        let found = "CREATE TEMP TABLE found AS
             SELECT directory, name, file.inode, file.size, file.mtime
             FROM (SELECT directory, name FROM fresh WHERE root = ?1
                UNION SELECT directory, name FROM replaced WHERE root = ?1)
             JOIN file USING(directory, name) WHERE file.state = 0 AND file.inode <> 0";
        self.drop_other_digests()?;
        self.write(found, [root])?;
        self.write("CREATE INDEX temp.found_by_inode ON found(inode)", [])?;
        self.write("CREATE INDEX temp.found_by_place ON found(directory, name)", [])?;
        self.write(&sql, [root])
    }

    /// Up to `most` of them, after so many.
    pub fn other_digests(&self, after: i64, most: usize) -> Result<Vec<(i64, OtherDigest)>> {
        let sql = format!(
            "SELECT file.directory, file.name, {}, own.algorithm, own.number
             FROM (SELECT min(rowid) AS number, directory, name, algorithm FROM temp.own_digest
                GROUP BY directory, name) AS own
             JOIN file USING(directory, name)
             WHERE own.number > ?1 AND own.algorithm <> file.algorithm ORDER BY own.number LIMIT ?2",
            columns()
        );
        self.rows(&sql, params![after, most as i64], |row| {
            let (directory, name, record) = listed(row)?;
            Ok((row.get(14)?, OtherDigest { place: (directory, name), record, algorithm: row.get(13)? }))
        })
    }

    /// Forgets the list.
    pub fn drop_other_digests(&self) -> Result<()> {
        ["own_digest", "found"]
            .iter()
            .try_for_each(|table| self.write(&format!("DROP TABLE IF EXISTS temp.{table}"), []))
    }

    /// Records the digest that such a file has by the algorithm of its own record.
    pub fn set_other_digest(&self, root: i64, file: &OtherDigest, digest: Output) -> Result<()> {
        let (directory, name) = (file.place.0, OsStr::from_bytes(&file.place.1));
        let record = CatalogRecord { algorithm: file.algorithm, digest, ..file.record };
        self.apply(root, directory, name, &RecordChange::Confirm(record))?;
        let sql = "UPDATE fresh SET digest = ?3 WHERE directory = ?1 AND name = ?2";
        self.write(sql, params![directory, file.place.1, digest.as_bytes()])
    }
}
