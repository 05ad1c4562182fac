//! The files of a listing that a run will read, in a temporary table, because there may be any number of
//! them.

use rusqlite::{Row, params};

use super::record::unsigned;
use super::{Catalog, Moment, Result, Stamp};
use verisum_files::place::FileIdentity;

/// A file that is to be read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DueFile {
    /// Which heap it is in.
    pub(crate) heap: Heap,
    /// What files of one heap are read by, in this order.
    pub(crate) place: DuePlace,
    /// Its name below the directory that was listed.
    pub(crate) name: Vec<u8>,
    /// Its length in bytes.
    pub(crate) size: u64,
    /// Its time of modification.
    pub(crate) mtime: Stamp,
    /// Whether the nanoseconds of that are known.
    pub(crate) is_exact: bool,
    /// Which file it is, where that is known.
    pub(crate) identity: Option<FileIdentity>,
}

/// Files that are read in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heap {
    /// How urgent they are: the lowest number first.
    pub(crate) turn: i64,
    /// The place of their digest.
    pub(crate) set: usize,
}

/// The place of a file in its heap: by its last verification, then as it was listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DuePlace {
    pub(crate) verified: Moment,
    pub(crate) number: i64,
}

impl DuePlace {
    /// Before all.
    pub(crate) const START: DuePlace = DuePlace { verified: Moment::MIN, number: i64::MIN };
}

impl Catalog {
    /// Makes an empty list of due files.
    pub(crate) fn begin_due(&self) -> Result<()> {
        let sql = "DROP TABLE IF EXISTS temp.due;
                   CREATE TEMP TABLE due(turn INTEGER NOT NULL, digest INTEGER NOT NULL, verified INTEGER NOT NULL,
                      number INTEGER NOT NULL, name BLOB NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
                      exact INTEGER NOT NULL, inode INTEGER, born INTEGER,
                      PRIMARY KEY(turn, digest, verified, number)) WITHOUT ROWID";
        self.connection.execute_batch(sql).map_err(self.failed("list"))
    }

    /// Adds files to the list.
    pub(crate) fn add_due(&self, files: &[DueFile]) -> Result<()> {
        let added = (|| {
            let transaction = self.connection.unchecked_transaction()?;
            let sql = "INSERT INTO temp.due VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
            let mut insert = transaction.prepare_cached(sql)?;
            for DueFile { heap, place, name, size, mtime, is_exact, identity } in files {
                let born = identity.and_then(|identity| identity.born).map(Stamp::from);
                let inode = identity.map(|identity| identity.number as i64);
                let (turn, set, size) = (heap.turn, heap.set as i64, *size as i64);
                let (verified, number) = (place.verified, place.number);
                insert.execute(params![
                    turn, set, verified, number, name, size, mtime, is_exact, inode, born
                ])?;
            }
            drop(insert);
            transaction.commit()
        })();
        added.map_err(self.failed("list"))
    }

    /// The heaps of the list, the most urgent first.
    pub(crate) fn due_heaps(&self) -> Result<Vec<Heap>> {
        let sql = "SELECT turn, digest FROM temp.due GROUP BY turn, digest ORDER BY turn, min(verified), min(number)";
        let rows = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let heap = |row: &Row| Ok(Heap { turn: row.get(0)?, set: row.get::<_, i64>(1)? as usize });
            statement.query_map([], heap)?.collect()
        });
        rows.map_err(self.failed("read"))
    }

    /// Up to `most` files of a heap, beginning after `after`.
    pub(crate) fn due(&self, heap: Heap, after: DuePlace, most: usize) -> Result<Vec<DueFile>> {
        let sql = "SELECT verified, number, name, size, mtime, exact, inode, born FROM temp.due
                   WHERE turn = ?1 AND digest = ?2 AND (verified, number) > (?3, ?4) ORDER BY verified, number LIMIT ?5";
        let rows = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let values = params![heap.turn, heap.set as i64, after.verified, after.number, most as i64];
            let rows = statement.query_map(values, |row| {
                let number: Option<i64> = row.get(6)?;
                let born = row.get::<_, Option<Stamp>>(7)?.map(Stamp::timestamp);
                Ok(DueFile {
                    heap,
                    place: DuePlace { verified: row.get(0)?, number: row.get(1)? },
                    name: row.get(2)?,
                    size: unsigned(row, 3)?,
                    mtime: row.get(4)?,
                    is_exact: row.get(5)?,
                    identity: number.map(|number| FileIdentity { number: number as u64, born }),
                })
            })?;
            rows.collect()
        });
        rows.map_err(self.failed("read"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use verisum_files::Timestamp;

    #[test]
    fn heaps_come_by_urgency_and_files_as_they_were_verified_and_listed() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
        catalog.begin_due().unwrap();
        let file = |(number, turn, set, verified): (i64, i64, usize, i64)| DueFile {
            heap: Heap { turn, set },
            place: DuePlace { verified: Moment::of_milliseconds(verified), number },
            name: format!("{number}").into_bytes(),
            size: u64::from(u32::MAX) + 1,
            mtime: Stamp::of_nanoseconds(-1),
            is_exact: true,
            identity: Some(FileIdentity {
                number: u64::MAX,
                born: Some(Timestamp { seconds: 1, nanoseconds: 2 }),
            }),
        };
        let rows = [(1, 2, 0, 30), (2, 2, 1, 10), (3, 2, 0, 20), (4, 0, 1, 0), (5, 1, 0, 0), (6, 2, 0, 30)];
        catalog.add_due(&rows.map(file)).unwrap();
        let heaps = catalog.due_heaps().unwrap();
        let order: Vec<_> = heaps.iter().map(|heap| (heap.turn, heap.set)).collect();
        assert_eq!(order, [(0, 1), (1, 0), (2, 1), (2, 0)]);
        let mut found = Vec::new();
        let mut after = DuePlace::START;
        while let Some(next) = catalog.due(heaps[3], after, 1).unwrap().pop() {
            after = next.place;
            found.push(next);
        }
        assert_eq!(found, [(3, 2, 0, 20), (1, 2, 0, 30), (6, 2, 0, 30)].map(file));
        // A run that begins anew has none.
        catalog.begin_due().unwrap();
        assert_eq!(catalog.due_heaps().unwrap(), []);
    }
}
