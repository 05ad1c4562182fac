//! Checks the integrity of a catalogue.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rusqlite::Row;
use rusqlite::types::ValueRef;
use verisum_digest::{Digest, Output};

use super::guard::IS_INTACT;
use super::record::unsigned;
use super::{Catalog, Result, Root};

/// The most problems of one kind that are reported.
const MOST: usize = 20;

/// A catalogue of up to so many bytes is read whole before anything of it is told.
const SMALL: i64 = 256 << 20;

/// Something that no sound catalogue has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

/// What SQLite does not know of: a query that finds nothing in a sound catalogue, and what a row means.
const INVARIANTS: [(&str, &str); 12] = [
    (
        "directories without a parent",
        "SELECT 'directory ' || id FROM directory AS child WHERE parent >= id
         OR (parent > 0 AND NOT EXISTS (SELECT 1 FROM directory WHERE id = child.parent))
         OR (parent <= 0 AND NOT EXISTS (SELECT 1 FROM root WHERE id = -child.parent))",
    ),
    (
        "directories with an impossible name",
        "SELECT 'directory ' || id FROM directory WHERE parent > 0
         AND (name IN (x'', x'2e', x'2e2e') OR instr(name, x'2f') OR instr(name, x'00'))",
    ),
    (
        "files with an impossible name",
        "SELECT 'directory ' || directory || ', ' || quote(name) FROM file
         WHERE name IN (x'', x'2e', x'2e2e') OR instr(name, x'2f') OR instr(name, x'00')",
    ),
    (
        "roots without a top",
        "SELECT 'root ' || id FROM root
         WHERE NOT EXISTS (SELECT 1 FROM directory WHERE id = root.directory AND parent = -root.id)",
    ),
    (
        "files without a directory",
        "SELECT 'directory ' || directory FROM (SELECT DISTINCT directory FROM file)
         WHERE NOT EXISTS (SELECT 1 FROM directory WHERE id = directory)",
    ),
    (
        "files without a root",
        "SELECT 'root ' || root FROM (SELECT DISTINCT root FROM file)
         WHERE NOT EXISTS (SELECT 1 FROM root AS known WHERE known.id = root)",
    ),
    (
        "digests of an unknown algorithm",
        "SELECT 'algorithm ' || algorithm FROM (SELECT DISTINCT algorithm FROM file)
         WHERE NOT EXISTS (SELECT 1 FROM algorithm AS known WHERE known.id = algorithm)",
    ),
    (
        "sums that do not add up",
        "SELECT 'root ' || id FROM root WHERE files <> (SELECT count(*) FROM file WHERE root = root.id)
         OR bytes <> (SELECT coalesce(sum(size), 0) FROM file WHERE root = root.id)",
    ),
    (
        "files in trouble without a finding",
        "SELECT 'directory ' || directory || ', ' || quote(name) FROM file WHERE state <> 0
         AND NOT EXISTS (SELECT 1 FROM finding
             WHERE finding.directory = file.directory AND finding.name = file.name)",
    ),
    (
        "findings of files that are sound",
        "SELECT 'directory ' || directory || ', ' || quote(name) FROM finding
         WHERE NOT EXISTS (SELECT 1 FROM file
             WHERE file.directory = finding.directory AND file.name = finding.name AND state <> 0)",
    ),
    (
        "files that were bad, of an unknown directory, root or algorithm",
        "SELECT 'directory ' || directory || ', ' || quote(name) FROM former WHERE state <> 0
         AND (NOT EXISTS (SELECT 1 FROM directory AS known WHERE known.id = former.directory)
         OR NOT EXISTS (SELECT 1 FROM root AS known WHERE known.id = former.root)
         OR NOT EXISTS (SELECT 1 FROM algorithm AS known WHERE known.id = former.algorithm))",
    ),
    (
        "runs whose counts are damaged",
        "SELECT 'run ' || id FROM run WHERE CASE WHEN json_valid(counts) THEN json_type(counts) <> 'object'
         OR EXISTS (SELECT 1 FROM json_each(counts) AS entry WHERE entry.type <> 'integer' OR entry.value < 0)
         ELSE counts <> '' END",
    ),
];

impl Catalog {
    /// Looks for damage: of the database, then of what verisum keeps in it. Reads all of it.
    pub fn check(&self) -> Result<Vec<Problem>> {
        self.at_one_moment(|| self.check_all())
    }

    fn check_all(&self) -> Result<Vec<Problem>> {
        let mut problems = self.structural(MOST)?;
        if problems.is_empty() {
            problems.extend(self.wrong_values().map_err(self.failed("read"))?);
            match self.check_rows() {
                Ok(found) => problems.extend(found),
                // It is one of those values that ends the search.
                Err(error) if error.is_damage() && !problems.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(problems.into_iter().map(Problem).collect())
    }

    /// What is wrong in rows whose values are each of their column's kind.
    fn check_rows(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for (what, sql) in INVARIANTS {
            let found = self.texts(&format!("{sql} LIMIT {MOST}"))?;
            problems.extend(found.into_iter().map(|row| format!("{what}: {row}")));
        }
        problems.extend(self.damaged_records()?);
        problems.extend(self.impossible_digests()?);
        Ok(problems)
    }

    /// What to say where a row could not be read because of a [wrong value](is_of_wrong_value).
    pub(super) fn told_of_wrong_value(&self) -> String {
        let found = self.wrong_values().unwrap_or_default().into_iter().next();
        found.unwrap_or_else(|| "a row is missing, or a number is too large".to_string())
    }

    /// The columns with values that none of their declared type are, or digests of no length: SQLite takes any value for
    /// any column. Reads all of it.
    fn wrong_values(&self) -> rusqlite::Result<Vec<String>> {
        let columns = "SELECT part.name, info.name, info.type, info.\"notnull\" FROM main.sqlite_schema AS part,
                       pragma_table_info(part.name, 'main') AS info WHERE part.type = 'table' AND info.type <> ''
                       ORDER BY part.name = 'file', part.name, cid";
        let mut tables: Vec<(String, Vec<Column>)> = Vec::new();
        let mut statement = self.connection.prepare(columns)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (table, column) =
                (row.get(0)?, Column { name: row.get(1)?, kind: row.get(2)?, is_filled: row.get(3)? });
            match tables.last_mut().filter(|(last, _)| *last == table) {
                Some((_, columns)) => columns.push(column),
                None => tables.push((table, vec![column])),
            }
        }
        let mut problems = Vec::new();
        for (table, columns) in tables {
            let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
            let mut wrong = vec![0_u64; columns.len()];
            let mut statement =
                self.connection.prepare(&format!("SELECT {} FROM main.{table}", names.join(", ")))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                for (at, column) in columns.iter().enumerate() {
                    wrong[at] += u64::from(!column.may_have(row.get_ref(at)?));
                }
            }
            let found = names.iter().zip(wrong).filter(|(_, count)| *count > 0);
            problems.extend(
                found.map(|(name, count)| format!("table {table}: damaged values in column {name}: {count}")),
            );
        }
        Ok(problems)
    }

    /// Fails if the database's own structure is damaged, or an index does not lead to all that is in its
    /// table: whoever trusted it would leave files out without a word. Reads all of it, but not the check
    /// values of records, which are looked at where a record is used.
    pub fn require_sound(&self) -> Result<()> {
        match self.structural(1)?.into_iter().next() {
            Some(problem) => Err(self.damaged(problem)),
            None => Ok(()),
        }
    }

    /// What is wrong with the database's own structure and its indexes: up to so many problems.
    fn structural(&self, most: usize) -> Result<Vec<String>> {
        let said = match self.texts(&format!("PRAGMA integrity_check({most})")) {
            // It found something before it could not go on.
            Err(error) if error.is_damage() => self.texts("PRAGMA integrity_check(1)")?,
            said => said?,
        };
        let lines = said.iter().flat_map(|said| said.lines());
        let problems = lines.filter(|line| !line.is_empty() && *line != "ok" && !line.starts_with("***"));
        Ok(problems.map(|problem| self.in_plain_words(problem)).collect())
    }

    /// What SQLite says of damage, after words that tell what it concerns.
    fn in_plain_words(&self, said: &str) -> String {
        let number = said.strip_prefix("Tree ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        let index = ["missing from index ", "entries in index ", "entry in index "]
            .iter()
            .find_map(|words| Some(said.split_once(words)?.1));
        let what = match (number, index) {
            (Some(1), _) => "its list of tables is damaged".to_string(),
            (Some(root), _) => match self.part_at(root) {
                Some(part) => format!("{part} is damaged"),
                None => "its structure is damaged".to_string(),
            },
            (_, Some(index)) => format!("index {index} and its table differ"),
            _ => "its structure is damaged".to_string(),
        };
        format!("{what} (SQLite: {said})")
    }

    /// The table or the index that begins with this page.
    fn part_at(&self, page: i64) -> Option<String> {
        let sql = "SELECT type || ' ' || name FROM main.sqlite_schema WHERE rootpage = ?1";
        self.connection.query_row(sql, [page], |row| row.get(0)).ok()
    }

    /// The same for those who only read. The structure of a large catalogue is not looked at, but of any there have to
    /// be as many files as were recorded, and as long ones.
    pub fn require_complete(&self) -> Result<()> {
        self.require_small_sound()?;
        let mut sums: HashMap<i64, (u64, u64)> = HashMap::new();
        let add = |row: &Row<'_>| {
            let sum = sums.entry(row.get(0)?).or_default();
            *sum = (sum.0 + 1, sum.1.wrapping_add(unsigned(row, 1)?));
            Ok(())
        };
        let _: Vec<()> = self.rows("SELECT root, size FROM file NOT INDEXED", [], add)?;
        self.require_sums(sums)
    }

    /// Fails if the database's own structure is damaged, if it is small.
    pub(super) fn require_small_sound(&self) -> Result<()> {
        if self.is_small()? { self.require_sound() } else { Ok(()) }
    }

    /// Fails unless the records of each root are as many, and as long in all, as is recorded of it.
    pub(super) fn require_sums(&self, mut found: HashMap<i64, (u64, u64)>) -> Result<()> {
        for root in self.roots()? {
            let (files, bytes) = found.remove(&root.id).unwrap_or_default();
            self.require_all(&root, files)?;
            if bytes != root.bytes {
                let (path, recorded) = (root.path.display(), root.bytes);
                let what = format!("{path}: its records add up to {bytes} bytes, not {recorded}");
                return Err(self.damaged(what));
            }
        }
        match found.is_empty() {
            true => Ok(()),
            false => Err(self.damaged("records belong to no tree")),
        }
    }

    /// Fails unless all records of a root are there, by their number: a file whose record is lost would be new.
    pub fn require_all_records(&self, root: i64) -> Result<()> {
        // Others may write.
        self.at_one_moment(|| {
            let sql = "SELECT count(*) FROM file NOT INDEXED WHERE root = ?1";
            let found: i64 =
                self.connection.query_row(sql, [root], |row| row.get(0)).map_err(self.failed("read"))?;
            self.roots()?
                .iter()
                .filter(|one| one.id == root)
                .try_for_each(|root| self.require_all(root, found as u64))
        })
    }

    /// Whether it is read whole before anything of it is told.
    pub(super) fn is_small(&self) -> Result<bool> {
        let pages: i64 = self.pragma("page_count")?;
        Ok(pages.saturating_mul(self.pragma("page_size")?) <= SMALL)
    }

    /// Fails unless as many records of a root were found as there are.
    pub(super) fn require_all(&self, root: &Root, found: u64) -> Result<()> {
        if found == root.files {
            return Ok(());
        }
        let (path, files) = (root.path.display(), root.files);
        Err(self.damaged(format!("{path}: {found} of {files} records are found")))
    }

    fn pragma(&self, name: &str) -> Result<i64> {
        self.connection.pragma_query_value(None, name, |row| row.get(0)).map_err(self.failed("read"))
    }

    /// The files whose records are not as they were written.
    fn damaged_records(&self) -> Result<Vec<String>> {
        let sql = format!("SELECT root, directory, name FROM file WHERE NOT ({IS_INTACT}) LIMIT {MOST}");
        let paths = self.paths(&sql)?.into_iter();
        Ok(paths.map(|path| format!("{}: its record is damaged", path.display())).collect())
    }

    /// The paths of rows that have a root, a directory and a name.
    fn paths(&self, sql: &str) -> Result<Vec<PathBuf>> {
        let rows: Vec<(i64, i64, Vec<u8>)> =
            self.rows(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let roots = self.roots()?;
        let paths = rows.into_iter().map(|(root, directory, name)| {
            // What is known of where it is may be damaged too.
            let root = roots.iter().find(|known| known.id == root).map(|root| root.path.clone());
            let folder = self.path_in_root(directory).unwrap_or_default();
            root.unwrap_or_default().join(folder).join(OsStr::from_bytes(&name))
        });
        Ok(paths.collect())
    }

    /// The files whose records have digests that nobody knows, or of another length than they have.
    fn impossible_digests(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for (number, name) in self.algorithms()? {
            let (what, length) = match Digest::find(&name) {
                Ok(digest) => (format!("it is no digest of {name}"), digest.len() as i64),
                Err(verisum_digest::DigestError::Unknown { .. }) => {
                    (format!("{name} is an unknown digest"), -1)
                }
                // It may be known on the machine that recorded it.
                Err(_) => continue,
            };
            let sql = format!(
                "SELECT root, directory, name FROM file WHERE algorithm = {number}
                 AND length(digest) <> {length} LIMIT {MOST}"
            );
            let paths = self.paths(&sql)?.into_iter();
            problems
                .extend(paths.map(|path| format!("{}: its record cannot be used: {what}", path.display())));
        }
        Ok(problems)
    }

    /// Texts, also where a damaged value makes one that is not UTF-8.
    fn texts(&self, sql: &str) -> Result<Vec<String>> {
        self.rows(sql, [], |row| {
            let bytes = row.get_ref(0)?.as_bytes().unwrap_or_default();
            Ok(String::from_utf8_lossy(bytes).into_owned())
        })
    }
}

/// Whether an error means that a row has a value that no sound catalogue has, or is not there: SQLite's words for it
/// tell nobody what to do.
pub(super) fn is_of_wrong_value(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    match error {
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::Utf8Error(..)
        | Error::QueryReturnedNoRows
        | Error::StatementChangedRows(_) => true,
        Error::SqliteFailure(_, Some(words)) => words == "integer overflow",
        _ => false,
    }
}

/// A column as its table declares it.
struct Column {
    name: String,
    kind: String,
    /// Whether each row has a value.
    is_filled: bool,
}

impl Column {
    fn may_have(&self, value: ValueRef<'_>) -> bool {
        match value {
            ValueRef::Null => !self.is_filled,
            ValueRef::Integer(_) => self.kind == "INTEGER",
            ValueRef::Real(_) => self.kind == "REAL",
            ValueRef::Text(bytes) => self.kind == "TEXT" && std::str::from_utf8(bytes).is_ok(),
            ValueRef::Blob(bytes) => {
                let is_digest = self.name == "before" || self.name.ends_with("digest");
                self.kind == "BLOB" && (!is_digest || Output::from_bytes(bytes).is_some())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use verisum_digest::Output;

    use crate::store::{
        Catalog, CatalogRecord, Identity, Moment, Position, RecordChange, RecordFinding, Root, Stamp, State,
    };

    const FILES: usize = 1000;

    /// A catalogue of many files, all of them missing.
    fn filled(path: &Path) -> (Catalog, Root) {
        let catalog = Catalog::open(path).unwrap();
        catalog.algorithm("sha256").unwrap();
        let root = catalog.add_root(Path::new("/srv"), Identity { device: 1, inode: 2 }).unwrap();
        catalog.begin().unwrap();
        for number in 0..FILES {
            let record = CatalogRecord {
                size: 1,
                mtime: Stamp::of_nanoseconds(1),
                ctime: Stamp::of_nanoseconds(2),
                inode: 3,
                algorithm: 1,
                digest: Output::zeroed(32),
                first_seen: Moment::of_milliseconds(4),
                changed: Moment::of_milliseconds(5),
                verified: Moment::of_milliseconds(1_700_000_000_000),
                state: State::Sound,
            };
            let name = format!("f{number}");
            catalog.apply(root.id, root.directory, name.as_ref(), &RecordChange::Add(record)).unwrap();
            let finding = RecordFinding {
                since: Moment::of_milliseconds(6),
                seen: Moment::of_milliseconds(6),
                ..RecordFinding::default()
            };
            assert!(catalog.lose(root.directory, name.as_ref(), &finding).unwrap());
        }
        catalog.commit().unwrap();
        (catalog, root)
    }

    /// Where the pages of a table or an index are, and how long.
    fn pages(catalog: &Catalog, name: &str, kind: &str) -> Vec<(usize, usize)> {
        let sql = "SELECT pgoffset, pgsize FROM dbstat WHERE name = ?1 AND pagetype = ?2";
        let mut statement = catalog.connection.prepare(sql).unwrap();
        let rows = statement.query_map([name, kind], |row| {
            Ok((row.get::<_, i64>(0)? as usize, row.get::<_, i64>(1)? as usize))
        });
        let pages: Vec<_> = rows.unwrap().collect::<Result<_, _>>().unwrap();
        assert!(!pages.is_empty(), "{name}");
        pages
    }

    #[test]
    fn records_are_never_left_out_without_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let (catalog, root) = filled(&path);
        catalog.require_complete().unwrap();
        let mut damages = Vec::new();
        for name in ["file", "file_in_trouble"] {
            let leaves = pages(&catalog, name, "leaf");
            for pair in leaves.windows(2).step_by(3) {
                damages.push(("copied", pair[0], Some(pair[1].0)));
            }
            damages.extend(pages(&catalog, name, "internal").into_iter().map(|page| ("inner", page, None)));
        }
        let whole = {
            let mut lines = Vec::new();
            catalog.export(&mut lines).unwrap();
            lines
        };
        drop(catalog);
        let good = std::fs::read(&path).unwrap();
        let bad_path = folder.path().join("bad.db");
        for (what, (start, length), to) in damages {
            let mut bad = good.clone();
            match to {
                Some(to) => bad.copy_within(start..start + length, to),
                // One cell less.
                None => {
                    let cells = u16::from_be_bytes([bad[start + 3], bad[start + 4]]) - 1;
                    bad[start + 3..start + 5].copy_from_slice(&cells.to_be_bytes());
                }
            }
            std::fs::write(&bad_path, &bad).unwrap();
            let Ok(catalog) = Catalog::open_to_read(&bad_path) else { continue };
            let is_found = catalog.check().map_or_else(|error| error.is_damage(), |found| !found.is_empty());
            assert!(is_found, "{what} {start}");
            assert!(catalog.require_complete().is_err_and(|error| error.is_damage()), "{what} {start}");
            let mut lines = Vec::new();
            if catalog.export(&mut lines).is_ok() {
                assert!(lines == whole, "{what} {start}");
            }
            let found = catalog.in_trouble(root.id, &Position::START, true, 2 * FILES);
            let found = found.map_or(0, |found| found.len() as u64);
            assert_eq!(catalog.require_all(&root, found).is_ok(), found == root.files);
        }
    }

    /// Says what is wrong with a catalogue, however it can be found out, and whether anything is.
    fn told(path: &Path) -> Vec<String> {
        let catalog = match Catalog::open_to_read(path) {
            Ok(catalog) => catalog,
            Err(error) => return vec![error.to_string()],
        };
        let errors = [catalog.check().err(), catalog.require_complete().err(), catalog.roots().err()];
        let errors = errors.iter().flatten().map(ToString::to_string);
        let problems = catalog.check().unwrap_or_default().into_iter().map(|problem| problem.0);
        errors.chain(problems).collect()
    }

    #[test]
    fn damage_is_told_in_plain_words_and_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let (catalog, _) = crate::store::tests::catalog(folder.path());
        let page: i64 = catalog.pragma("page_size").unwrap();
        drop(catalog);
        let good = std::fs::read(&path).unwrap();
        let (page, bad_path) = (page as usize, folder.path().join("bad.db"));
        let flipped = |at: usize| {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            bad
        };
        let zeroed = |start: usize| {
            let mut bad = good.clone();
            bad[start..start + page].fill(0);
            bad
        };
        let cut = [1, 50, 100, page, good.len() / 2, good.len() - page].map(|length| good[..length].to_vec());
        let header = (0..100).chain(page..page + 12).map(flipped);
        let bad = header.chain((0..good.len()).step_by(page).map(zeroed)).chain(cut);
        let mut found = 0;
        for (number, bad) in bad.enumerate() {
            std::fs::write(&bad_path, &bad).unwrap();
            for text in told(&bad_path) {
                let is_error = text.starts_with(bad_path.to_str().unwrap());
                let names_remedy = text.contains("verisum catalog restore takes a backup");
                assert_eq!(is_error, names_remedy, "{number}: {text}");
                let plain = text.split("(SQLite: ").next().unwrap();
                for word in ["malformed", "file is not", "unsupported", "btree", "***", "Tree "] {
                    assert!(!plain.contains(word), "{number}: {text}");
                }
                found += 1;
            }
            for log in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{log}", bad_path.display()));
            }
        }
        assert!(found > 100, "{found}");
    }

    #[test]
    fn a_bit_in_the_name_of_a_directory_or_the_path_of_a_tree_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = crate::store::tests::catalog(folder.path());
        catalog.add_directory(77, root.directory, "directory-name".as_ref(), 1).unwrap();
        let other = Path::new("/path-of-a-tree");
        catalog.add_root(other, Identity { device: 1, inode: 3 }).unwrap();
        drop(catalog);
        let good = std::fs::read(folder.path().join("c.db")).unwrap();
        let bad_path = folder.path().join("bad.db");
        for name in ["directory-name", "/path-of-a-tree"] {
            let places = good.windows(name.len()).enumerate().filter(|(_, part)| *part == name.as_bytes());
            let places: Vec<usize> = places.map(|(at, _)| at).collect();
            // The table, and its index.
            assert_eq!(places.len(), 2, "{name}");
            for at in places.iter().flat_map(|at| [*at, at + name.len() - 1]) {
                let mut bad = good.clone();
                bad[at] ^= 1;
                std::fs::write(&bad_path, &bad).unwrap();
                let catalog = Catalog::open_to_read(&bad_path).unwrap();
                assert!(catalog.require_sound().is_err_and(|error| error.is_damage()), "{name}: byte {at}");
                let problems = catalog.check().unwrap();
                assert!(problems[0].0.contains(" and its table differ (SQLite: "), "{name}: {problems:?}");
            }
        }
    }

    #[test]
    fn an_index_that_leaves_files_out_is_never_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.db");
        let (catalog, root) = filled(&path);
        catalog.require_sound().unwrap();
        let pages = pages(&catalog, "file_in_trouble", "leaf");
        drop(catalog);
        let good = std::fs::read(&path).unwrap();
        let bad_path = folder.path().join("bad.db");
        let mut refused = 0;
        for (number, (start, length)) in pages.into_iter().enumerate() {
            for at in (start + number % 61..start + length).step_by(61) {
                let mut bad = good.clone();
                bad[at] ^= 1 << (at % 8);
                std::fs::write(&bad_path, &bad).unwrap();
                let Ok(catalog) = Catalog::open(&bad_path) else { continue };
                if catalog.require_sound().is_err_and(|error| error.is_damage()) {
                    refused += 1;
                    continue;
                }
                let due = catalog.in_trouble(root.id, &Position::START, true, 2 * FILES).unwrap();
                assert_eq!(due.len(), FILES, "byte {at}");
            }
        }
        assert!(refused > 50, "{refused}");
    }

    #[test]
    fn a_value_of_another_kind_is_found_in_every_column_of_every_table() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, _) = crate::store::tests::catalog(folder.path());
        let columns: Vec<(String, String, String)> = catalog
            .rows(
                "SELECT part.name, info.name, info.type FROM main.sqlite_schema AS part,
                 pragma_table_info(part.name, 'main') AS info WHERE part.type = 'table'",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .unwrap();
        assert!(columns.len() > 80, "{}", columns.len());
        for (table, column, kind) in &columns {
            let good = |kind: &str| match kind {
                "INTEGER" => "7",
                "REAL" => "0.5",
                "TEXT" => "'text'",
                _ => "x'61'",
            };
            let bad = match &**kind {
                // The number of a row is never anything else.
                "INTEGER" if column == "id" => continue,
                "INTEGER" | "REAL" => "'text'",
                "TEXT" => "CAST(x'ff' AS TEXT)",
                _ => "'text'",
            };
            let own: Vec<_> = columns.iter().filter(|(of, ..)| of == table).collect();
            let names: Vec<&str> = own.iter().map(|(_, name, _)| &**name).collect();
            let values: Vec<&str> =
                own.iter().map(|(_, name, kind)| if name == column { bad } else { good(kind) }).collect();
            catalog.begin().unwrap();
            let sql = format!("INSERT INTO {table}({}) VALUES ({})", names.join(", "), values.join(", "));
            catalog.connection.execute(&sql, []).unwrap();
            let told = catalog.told_of_wrong_value();
            let expected = format!("table {table}: damaged values in column {column}: 1");
            assert_eq!(told, expected);
            let problems = catalog.check_all().unwrap();
            assert!(problems.iter().any(|problem| problem.0 == expected), "{problems:?}");
            catalog.roll_back();
        }
        assert!(catalog.check().unwrap().is_empty());
    }
}
