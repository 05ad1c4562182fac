//! The generations of inodes: they tell a file from a later one with the same inode, on file systems that do not keep
//! when a file was made.

use std::fs::File;
use std::path::Path;

use rusqlite::params;

use super::{Catalog, CatalogRecord, Moment, Result, Root};
use verisum_files::{Entry, Stat, born, generation};

impl Catalog {
    /// Remembers which generation an inode had when its file was read.
    pub fn note_generation(&self, root: i64, (inode, read): (u64, Moment), generation: u32) -> Result<()> {
        let sql = "INSERT INTO generation VALUES (?1, ?2, ?3, ?4, ?4)
                   ON CONFLICT DO UPDATE SET last = max(last, ?4)";
        let values = params![root, inode as i64, generation, read];
        let noted = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        noted.map(drop).map_err(self.failed("write"))
    }

    /// The same of the file at a path, if that is still the one of the record. What cannot be known is not noted.
    pub fn note_generation_at(&self, root: &Root, path: &Path, record: &CatalogRecord) -> Result<()> {
        if root.is_remote() {
            return Ok(());
        }
        let file = Entry::named(path).and_then(|entry| entry.open_regular()).ok();
        let is_it = |file: &File| {
            let inode = Stat::of(file).ok().map(|stat| stat.inode);
            inode == Some(record.inode) && born(file).is_none()
        };
        match file.filter(is_it).and_then(|file| generation(&file)) {
            Some(generation) => self.note_generation(root.id, (record.inode, record.verified), generation),
            None => Ok(()),
        }
    }

    /// Whether an inode has the generation that it had when its file was read; `None` where nobody knows which one that
    /// was. No generation comes back, so it had the same between two reads.
    pub fn has_generation(
        &self,
        root: i64,
        (inode, read): (u64, Moment),
        generation: u32,
    ) -> Result<Option<bool>> {
        // Several file systems below one root may have the same inodes.
        let sql = "SELECT max(generation = ?4) FROM generation
                   WHERE root = ?1 AND inode = ?2 AND ?3 BETWEEN first AND last";
        let values = params![root, inode as i64, read, generation];
        let found = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row(values, |row| row.get::<_, Option<bool>>(0)));
        found.map_err(self.failed("read"))
    }

    /// Whether any are known of a root.
    pub fn has_generations(&self, root: i64) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM generation WHERE root = ?1)";
        self.connection.query_row(sql, [root], |row| row.get(0)).map_err(self.failed("read"))
    }

    /// Forgets those that were last seen before any file was verified of which there is a record.
    pub fn settle_generations(&self, root: i64) -> Result<()> {
        let sql = "DELETE FROM generation WHERE root = ?1 AND last < (SELECT min(verified) FROM (
                   SELECT verified FROM file WHERE root = ?1
                   UNION ALL SELECT verified FROM former WHERE root = ?1))";
        self.write(sql, [root])
    }
}

#[cfg(test)]
mod tests {
    use crate::store::tests::record;
    use crate::store::{Catalog, CatalogRecord, Moment, RecordChange, State};

    #[test]
    fn a_generation_is_known_between_two_reads() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
        let CatalogRecord { inode, .. } = record(1);
        let at = |read| (inode, Moment::of_milliseconds(read));
        assert!(!catalog.has_generations(1).unwrap());
        for (read, generation) in [(100, 7), (200, 7), (300, 8)] {
            catalog.note_generation(1, at(read), generation).unwrap();
        }
        assert!(catalog.has_generations(1).unwrap());
        let table = [
            (99, 7, None),
            (100, 7, Some(true)),
            (150, 7, Some(true)),
            (200, 8, Some(false)),
            // Something else recorded it, which takes no note of generations.
            (250, 7, None),
            (300, 7, Some(false)),
            (301, 8, None),
        ];
        for (read, generation, is_it) in table {
            let found = catalog.has_generation(1, at(read), generation).unwrap();
            assert_eq!(found, is_it, "{read} {generation}");
        }
        assert_eq!(catalog.has_generation(2, at(100), 8).unwrap(), None, "another root");
        // Another file system has the inode too.
        catalog.note_generation(1, at(150), 9).unwrap();
        assert_eq!(catalog.has_generation(1, at(150), 7).unwrap(), Some(true));
        assert_eq!(catalog.has_generation(1, at(150), 9).unwrap(), Some(true));
        // What is missing has a record still.
        let state = State::MISSING;
        catalog
            .apply(
                1,
                1,
                "lost".as_ref(),
                &RecordChange::Add(CatalogRecord {
                    state,
                    verified: Moment::of_milliseconds(180),
                    ..record(1)
                }),
            )
            .unwrap();
        catalog.apply(1, 1, "there".as_ref(), &RecordChange::Add(record(300))).unwrap();
        catalog.settle_generations(1).unwrap();
        assert_eq!(catalog.has_generation(1, at(180), 7).unwrap(), Some(true));
        assert_eq!(catalog.has_generation(1, at(150), 9).unwrap(), Some(false), "that was last seen before");
    }
}
