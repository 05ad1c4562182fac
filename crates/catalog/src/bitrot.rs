//! The database of bitrot: a `.bitrot.db` of SQLite at the root of a tree.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use verisum_digest::{Algorithm, Output};

use crate::store::uri;
use verisum_files::store::manifest::{ChkbitFile, IndexError};
use verisum_files::{Record, RecordedTime, Timestamp};

/// How many rows are read at once.
const PAGE: usize = 4096;

/// Rows of a page. Anybody may have made the database: what is too long to be a name or a digest is not
/// loaded.
const ROWS: &str = "SELECT rowid, CASE WHEN octet_length(path) <= 4096 THEN path END,
    CASE typeof(mtime) WHEN 'integer' THEN mtime END, CASE WHEN octet_length(hash) <= 128 THEN hash END
    FROM bitrot WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";

/// Whether the table is one: neither a view nor a column may compute what is read, which need not end.
const IS_PLAIN: &str = "SELECT
    (SELECT type FROM pragma_table_list WHERE schema = 'main' AND name = 'bitrot') IS 'table' AND
    NOT EXISTS (SELECT 1 FROM pragma_table_xinfo('bitrot') WHERE hidden > 0)";

/// A database of bitrot, opened to be read.
pub struct Bitrot {
    connection: Connection,
}

/// Some rows of a database.
#[derive(Debug, Default)]
pub struct Page {
    /// What they record.
    pub files: Vec<ChkbitFile>,
    /// How many of them make no sense.
    pub skipped: u64,
    /// Where the next page begins; `None` at the end.
    pub next: Option<i64>,
}

impl Bitrot {
    /// Opens a database; it is never written to, nor is a journal beside it looked at. No link is followed.
    pub fn open(path: &Path) -> Result<Bitrot, IndexError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        let address = uri(&folder.join(path.file_name().unwrap_or_default()), "immutable=1");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(address, flags).map_err(not_an_index)?;
        let is_plain: bool = connection.query_row(IS_PLAIN, [], |row| row.get(0)).map_err(not_an_index)?;
        match is_plain {
            true => Ok(Bitrot { connection }),
            false => Err(IndexError::NotAnIndex("it has no table bitrot".to_string())),
        }
    }

    /// The rows from a place on, the first from `i64::MIN`.
    ///
    /// The names are below the directory of the database, with `./` before them, and in the form of
    /// Unicode that bitrot writes, NFKD: a file of another form has to be looked for under that one.
    pub fn page(&self, after: i64) -> Result<Page, IndexError> {
        let sha1 = Algorithm::find("sha1").expect("sha1 is in the table of digests");
        let mut rows = self.connection.prepare_cached(ROWS).map_err(not_an_index)?;
        let mut rows = rows.query((after, PAGE as i64)).map_err(not_an_index)?;
        let (mut page, mut count) = (Page::default(), 0);
        while let Some(row) = rows.next().map_err(not_an_index)? {
            let value = |column| row.get_ref(column).map_err(not_an_index);
            match recorded(sha1, value(1)?, value(2)?, value(3)?) {
                Some(recorded) => page.files.push(recorded),
                None => page.skipped += 1,
            }
            count += 1;
            page.next = Some(row.get(0).map_err(not_an_index)?);
        }
        if count < PAGE {
            page.next = None;
        }
        Ok(page)
    }

    /// Gives what it says of each file to `give`, and returns how many of its rows make no sense.
    pub fn each(&self, give: &mut dyn FnMut(ChkbitFile)) -> Result<u64, IndexError> {
        let (mut next, mut skipped) = (Some(i64::MIN), 0);
        while let Some(after) = next {
            let page = self.page(after)?;
            page.files.into_iter().for_each(&mut *give);
            (next, skipped) = (page.next, skipped + page.skipped);
        }
        Ok(skipped)
    }
}

fn recorded(
    sha1: &'static Algorithm,
    path: ValueRef,
    modified: ValueRef,
    hash: ValueRef,
) -> Option<ChkbitFile> {
    let name = path.as_bytes().ok().filter(|name| !name.is_empty() && !name.contains(&0))?;
    let digest = Output::from_hex(hash.as_bytes().ok()?)?;
    if digest.as_bytes().len() != sha1.digest_len() {
        return None;
    }
    let seconds = modified.as_i64().ok()?;
    // Whole seconds, cut off.
    let time = RecordedTime { time: Timestamp::of_seconds(seconds), tolerance: 1_000_000_000 };
    let record = Record { algorithm: sha1, digest, size: None, modified: Some(time), verified: None };
    Some(ChkbitFile { name: name.to_vec(), record })
}

fn not_an_index(error: rusqlite::Error) -> IndexError {
    IndexError::NotAnIndex(match error {
        // Without our own question, which says nothing to whoever has the file.
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        other => other.to_string(),
    })
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
    fn all_pages_are_read_and_nothing_is_computed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a?b%.db");
        let rows = |sql: &str| {
            let _ = std::fs::remove_file(&path);
            Connection::open(&path).unwrap().execute_batch(sql).unwrap();
            let mut files = 0;
            Bitrot::open(&path)
                .and_then(|bitrot| bitrot.each(&mut |_| files += 1))
                .map(|skipped| (files, skipped))
        };
        let many = "CREATE TABLE bitrot (path, mtime, hash, timestamp);
            INSERT INTO bitrot VALUES ('long', 1, zeroblob(100000000), ''), (zeroblob(5000), 1, '', '');
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
            INSERT INTO bitrot SELECT 'f' || i, 5, 'a9993e364706816aba3e25717850c26c9cd0d89d', '' FROM n";
        assert_eq!(rows(many).unwrap(), (9000, 2));
        for endless in [
            "CREATE VIEW bitrot AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
             SELECT i AS rowid, i AS path, 1 AS mtime, i AS hash FROM n",
            "CREATE TABLE bitrot (path, mtime, hash AS (hex(zeroblob(400000000))))",
            "CREATE TABLE other (path, mtime, hash)",
        ] {
            assert!(matches!(rows(endless), Err(IndexError::NotAnIndex(_))), "{endless}");
        }
        std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
        assert!(Bitrot::open(&folder.path().join("link")).is_err());
    }

    #[test]
    fn what_is_no_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert!(Bitrot::open(&path).is_err());
        std::fs::write(&path, "no database").unwrap();
        let refused = Bitrot::open(&path).and_then(|bitrot| bitrot.each(&mut |_| {}));
        assert!(matches!(refused, Err(IndexError::NotAnIndex(_))));
        std::fs::remove_file(&path).unwrap();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE bitrot(a)").unwrap();
        let refused = Bitrot::open(&path).and_then(|bitrot| bitrot.each(&mut |_| {}));
        assert_eq!(refused.unwrap_err().to_string(), "not an index: no such column: path");
    }
}
