//! The database of bitrot: a `.bitrot.db` of SQLite at the root of a tree.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use verisum_digest::Algorithm;

use super::chkbit::{IndexError, Recorded};
use super::listed::hexadecimal;
use crate::{Record, RecordedTime, Timestamp};

/// A database of bitrot, opened to be read.
pub struct Bitrot {
    connection: Connection,
}

impl Bitrot {
    /// Opens a database; it is never written to.
    pub fn open(path: &Path) -> Result<Bitrot, IndexError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(not_an_index)?;
        Ok(Bitrot { connection })
    }

    /// Gives what it says of each file to `give`, and returns how many of its rows make no sense.
    ///
    /// The names are below the directory of the database, with `./` before them, and in the form of
    /// Unicode that bitrot writes, NFKD: a file of another form has to be looked for under that one.
    pub fn each(&self, give: &mut dyn FnMut(Recorded)) -> Result<u64, IndexError> {
        let sha1 = Algorithm::find("sha1").expect("sha1 is in the table of digests");
        let mut rows =
            self.connection.prepare("SELECT path, mtime, hash FROM bitrot").map_err(not_an_index)?;
        let mut rows = rows.query([]).map_err(not_an_index)?;
        let mut skipped = 0;
        while let Some(row) = rows.next().map_err(not_an_index)? {
            let value = |column| row.get_ref(column).map_err(not_an_index);
            match recorded(sha1, value(0)?, value(1)?, value(2)?) {
                Some(recorded) => give(recorded),
                None => skipped += 1,
            }
        }
        Ok(skipped)
    }
}

fn recorded(
    sha1: &'static Algorithm,
    path: ValueRef,
    modified: ValueRef,
    hash: ValueRef,
) -> Option<Recorded> {
    let name = path.as_bytes().ok().filter(|name| !name.is_empty() && !name.contains(&0))?;
    let digest = hexadecimal(hash.as_bytes().ok()?)?;
    if digest.as_bytes().len() != sha1.digest_len() {
        return None;
    }
    let seconds = modified.as_i64().ok()?;
    // Whole seconds, cut off.
    let time = RecordedTime { time: Timestamp { seconds, nanoseconds: 0 }, tolerance: 1_000_000_000 };
    let record = Record { algorithm: sha1, digest, size: None, modified: Some(time), verified: None };
    Some(Recorded { name: name.to_vec(), record })
}

fn not_an_index(error: rusqlite::Error) -> IndexError {
    IndexError::NotAnIndex(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_nonsense_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".bitrot.db");
        let database = Connection::open(&path).unwrap();
        database
            .execute_batch(
                "CREATE TABLE bitrot (path TEXT PRIMARY KEY, mtime INTEGER, hash TEXT, timestamp TEXT);
                 INSERT INTO bitrot VALUES
                 ('./a', 5, 'a9993e364706816aba3e25717850c26c9cd0d89d', '2026-01-01 00:00:00'),
                 ('./b', 5, 'a9', ''), ('./c', NULL, 'a9993e364706816aba3e25717850c26c9cd0d89d', ''),
                 (NULL, 5, NULL, '');",
            )
            .unwrap();
        let mut found = Vec::new();
        let skipped = Bitrot::open(&path).unwrap().each(&mut |recorded| found.push(recorded)).unwrap();
        assert_eq!((found.len(), skipped), (1, 3));
        assert_eq!(found[0].name, b"./a");
        assert_eq!(found[0].record.modified.unwrap().time.seconds, 5);
    }

    #[test]
    fn what_is_no_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert!(Bitrot::open(&path).is_err());
        std::fs::write(&path, "no database").unwrap();
        let refused = Bitrot::open(&path).and_then(|bitrot| bitrot.each(&mut |_| {}));
        assert!(matches!(refused, Err(IndexError::NotAnIndex(_))));
    }
}
