//! The SQLite schema, and migrations from older versions.
//!
//! A row of `file` is the record of one name: what it was when it was last found good. It is clustered
//! by directory and name, because a scan compares one directory after the other. There is no index by the
//! time of verification: a scrub would write to it for each file, and to sort once is faster.

use std::collections::BTreeSet;

use rusqlite::Connection;
use verisum_digest::Digest;

use super::guard;

/// Tells our files from other SQLite databases: `vrsm`.
pub(super) const APPLICATION: i32 = 0x7672_736d;

/// What makes each version out of the one before; a new catalogue takes all steps. A step that was
/// released is never edited.
pub(super) const STEPS: [&str; 14] = [
    VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7, VERSION_8, VERSION_9,
    VERSION_10, VERSION_11, VERSION_12, VERSION_13, VERSION_14,
];

/// The version that this program writes.
pub(super) const VERSION: i64 = STEPS.len() as i64;

/// Times of files are nanoseconds and all others milliseconds since 1970.
const VERSION_1: &str = "
    CREATE TABLE algorithm(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    -- A tree that is scrubbed. `directory` is its top; `files` and `bytes` are sums over its files.
    CREATE TABLE root(
        id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, directory INTEGER NOT NULL,
        device INTEGER NOT NULL, inode INTEGER NOT NULL,
        files INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0);
    -- `parent` is minus the root's id for the top, whose name is empty.
    CREATE TABLE directory(
        id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name BLOB NOT NULL, device INTEGER NOT NULL);
    CREATE UNIQUE INDEX directory_by_name ON directory(parent, name);
    CREATE TABLE file(
        directory INTEGER NOT NULL, name BLOB NOT NULL, root INTEGER NOT NULL, state INTEGER NOT NULL,
        verified INTEGER NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL,
        inode INTEGER NOT NULL, algorithm INTEGER NOT NULL, digest BLOB NOT NULL,
        first_seen INTEGER NOT NULL, changed INTEGER NOT NULL,
        PRIMARY KEY(directory, name)) WITHOUT ROWID;
    CREATE INDEX file_by_age ON file(root, verified);
    CREATE INDEX file_in_trouble ON file(root, state) WHERE state <> 0;
    -- What was last seen of a file that is not as recorded. NULL where it could not be read.
    CREATE TABLE finding(
        directory INTEGER NOT NULL, name BLOB NOT NULL, since INTEGER NOT NULL, seen INTEGER NOT NULL,
        size INTEGER, mtime INTEGER, ctime INTEGER, inode INTEGER, digest BLOB, detail TEXT,
        PRIMARY KEY(directory, name)) WITHOUT ROWID;
    CREATE TABLE run(
        id INTEGER PRIMARY KEY, root INTEGER NOT NULL, started INTEGER NOT NULL, cycle INTEGER NOT NULL,
        finished INTEGER, complete INTEGER NOT NULL DEFAULT 0, seconds REAL NOT NULL DEFAULT 0,
        read_files INTEGER NOT NULL DEFAULT 0, read_bytes INTEGER NOT NULL DEFAULT 0,
        counts TEXT NOT NULL DEFAULT '{}');
";

/// What a run has done, until it ends: the records that it replaced, which an alarm puts back, and the
/// files that it recorded first, which may have been moved.
const VERSION_2: &str = "
    CREATE TABLE replaced(
        directory INTEGER NOT NULL, name BLOB NOT NULL, root INTEGER NOT NULL,
        verified INTEGER NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL,
        inode INTEGER NOT NULL, algorithm INTEGER NOT NULL, digest BLOB NOT NULL,
        first_seen INTEGER NOT NULL, changed INTEGER NOT NULL,
        PRIMARY KEY(directory, name)) WITHOUT ROWID;
    CREATE TABLE fresh(root INTEGER NOT NULL, directory INTEGER NOT NULL, name BLOB NOT NULL,
        digest BLOB NOT NULL);
";

/// Whether somebody ended a run before its time.
const VERSION_3: &str = "ALTER TABLE run ADD COLUMN interrupted INTEGER NOT NULL DEFAULT 0;";

/// A check value of each record, why a run could not be ended, and new files whose storage failed: they
/// have no record that could say so.
const VERSION_4: &str = "
    ALTER TABLE run ADD COLUMN error TEXT;
    CREATE TABLE unread(
        directory INTEGER NOT NULL, name BLOB NOT NULL, root INTEGER NOT NULL, seen INTEGER NOT NULL,
        PRIMARY KEY(directory, name)) WITHOUT ROWID;
    ALTER TABLE file ADD COLUMN guard INTEGER;
    UPDATE file SET guard = verisum_guard(directory, name, root, size, mtime, ctime, inode, algorithm,
        digest, first_seen, changed, verified, state);
";

/// What a run has found to be bad and is no longer there, until it ends; what tells new files whose storage
/// failed from others; and when the top of a tree was made, which tells it from another with its numbers.
const VERSION_5: &str = "
    CREATE TABLE former(root INTEGER NOT NULL, directory INTEGER NOT NULL, name BLOB NOT NULL,
        state INTEGER NOT NULL, since INTEGER NOT NULL, seen INTEGER NOT NULL,
        size INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, inode INTEGER NOT NULL,
        algorithm INTEGER NOT NULL, digest BLOB NOT NULL, first_seen INTEGER NOT NULL,
        changed INTEGER NOT NULL, verified INTEGER NOT NULL,
        seen_size INTEGER NOT NULL, seen_mtime INTEGER NOT NULL, seen_inode INTEGER NOT NULL,
        seen_digest BLOB);
    ALTER TABLE unread ADD COLUMN inode INTEGER;
    ALTER TABLE unread ADD COLUMN size INTEGER;
    ALTER TABLE unread ADD COLUMN mtime INTEGER;
    CREATE INDEX unread_by_inode ON unread(inode);
    ALTER TABLE root ADD COLUMN born INTEGER;
";

/// What was found to be bad and is no longer there stays remembered after the run: one row for each name and
/// inode.
const VERSION_6: &str = "
    DELETE FROM former WHERE state <> 0 AND rowid NOT IN (
        SELECT max(rowid) FROM former WHERE state <> 0 GROUP BY directory, name, seen_inode);
    CREATE UNIQUE INDEX former_by_file ON former(directory, name, seen_inode) WHERE state <> 0;
";

/// Every scrub wrote to it for each file that it verified, and it was a quarter of the catalogue.
const VERSION_7: &str = "DROP INDEX file_by_age;";

/// Files that were given their recorded content again: what they had been found to be, from where the content
/// came, how many bytes that were, and the digests before, if the file could be read, and after.
const VERSION_8: &str = "
    CREATE TABLE repair(
        id INTEGER PRIMARY KEY, root INTEGER NOT NULL, directory INTEGER NOT NULL, name BLOB NOT NULL,
        repaired INTEGER NOT NULL, state INTEGER NOT NULL, source BLOB NOT NULL, bytes INTEGER NOT NULL,
        algorithm INTEGER NOT NULL, before BLOB, digest BLOB NOT NULL);
";

/// Whether records of other algorithms are to have this one, as scrubs read their files.
const VERSION_9: &str = "ALTER TABLE algorithm ADD COLUMN target INTEGER NOT NULL DEFAULT 0;";

/// Which bytes a repair changed: pairs of offset and length in JSON, or NULL where nobody knows.
const VERSION_10: &str = "ALTER TABLE repair ADD COLUMN ranges TEXT;";

/// Which generations the inodes had on file systems that do not keep when a file was made, and between which
/// reads: that tells a file from another that was given its inode later.
const VERSION_11: &str = "
    CREATE TABLE generation(
        root INTEGER NOT NULL, inode INTEGER NOT NULL, generation INTEGER NOT NULL,
        first INTEGER NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY(root, inode, generation)) WITHOUT ROWID;
";

/// By which options a tree of another place was last reached: words, each with a NUL behind it.
const VERSION_12: &str = "ALTER TABLE root ADD COLUMN options BLOB;";

/// What new files are that could not be read, since when, and why.
const VERSION_13: &str = "
    ALTER TABLE unread ADD COLUMN state INTEGER NOT NULL DEFAULT 3;
    ALTER TABLE unread ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE unread ADD COLUMN detail TEXT;
    UPDATE unread SET since = seen;
";

/// Which digest contents have by the new algorithm that had this one by the old, while records have either.
const VERSION_14: &str = "
    CREATE TABLE rehashed(
        old_algorithm INTEGER NOT NULL, old_digest BLOB NOT NULL,
        new_algorithm INTEGER NOT NULL, new_digest BLOB NOT NULL,
        PRIMARY KEY(old_algorithm, old_digest)) WITHOUT ROWID;
";

/// An index for the end of a run, which goes with it; a run that is killed there leaves it.
pub(super) const FRESH_BY_DIGEST: &str = "CREATE INDEX IF NOT EXISTS fresh_by_digest ON fresh(digest)";

/// What an older version lacks, as views before its tables, for those who may only read it. Each stands for
/// the step that makes the version after.
const STAND_INS: [(i64, &str); 9] = [
    (3, "CREATE TEMP VIEW run AS SELECT *, 0 AS interrupted, NULL AS error FROM main.run;"),
    (
        4,
        "CREATE TEMP VIEW IF NOT EXISTS run AS SELECT *, NULL AS error FROM main.run;
         CREATE TEMP VIEW file AS SELECT *, verisum_guard(directory, name, root, size, mtime, ctime,
            inode, algorithm, digest, first_seen, changed, verified, state) AS guard FROM main.file;
         CREATE TEMP VIEW unread AS SELECT 0 AS directory, x'' AS name, 0 AS root, 0 AS seen, 0 AS inode,
            0 AS size, 0 AS mtime, 0 AS state, 0 AS since, NULL AS detail WHERE 0;",
    ),
    (
        5,
        "CREATE TEMP VIEW root AS SELECT *, NULL AS born, NULL AS options FROM main.root;
         CREATE TEMP VIEW former AS SELECT 0 AS root, 0 AS directory, x'' AS name, 0 AS state, 0 AS since,
            0 AS seen, 0 AS size, 0 AS mtime, 0 AS ctime, 0 AS inode, 0 AS algorithm, x'' AS digest,
            0 AS first_seen, 0 AS changed, 0 AS verified, 0 AS seen_size, 0 AS seen_mtime, 0 AS seen_inode,
            NULL AS seen_digest, 0 AS rowid WHERE 0;
         CREATE TEMP VIEW IF NOT EXISTS unread AS SELECT *, NULL AS inode, NULL AS size, NULL AS mtime,
            3 AS state, seen AS since, NULL AS detail FROM main.unread;",
    ),
    (
        8,
        "CREATE TEMP VIEW repair AS SELECT 0 AS id, 0 AS root, 0 AS directory, x'' AS name, 0 AS repaired,
            0 AS state, x'' AS source, 0 AS bytes, 0 AS algorithm, NULL AS before, x'' AS digest, NULL AS ranges
            WHERE 0;",
    ),
    (9, "CREATE TEMP VIEW algorithm AS SELECT *, 0 AS target FROM main.algorithm;"),
    (10, "CREATE TEMP VIEW IF NOT EXISTS repair AS SELECT *, NULL AS ranges FROM main.repair;"),
    (12, "CREATE TEMP VIEW IF NOT EXISTS root AS SELECT *, NULL AS options FROM main.root;"),
    (
        13,
        "CREATE TEMP VIEW IF NOT EXISTS unread AS SELECT *, 3 AS state, seen AS since, NULL AS detail
            FROM main.unread;",
    ),
    (
        14,
        "CREATE TEMP VIEW rehashed AS SELECT 0 AS old_algorithm, x'' AS old_digest, 0 AS new_algorithm,
            x'' AS new_digest WHERE 0;",
    ),
];

/// The version of an open database; 0 for one without tables.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// A table, an index, or what else there may be in a database.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    kind: String,
    name: String,
    table: String,
    sql: String,
}

/// All parts of an open database.
pub(super) fn parts(connection: &Connection) -> rusqlite::Result<BTreeSet<Part>> {
    let mut statement = connection.prepare("SELECT type, name, tbl_name, sql FROM main.sqlite_schema")?;
    let rows = statement.query_map([], |row| {
        let text = |column: usize| -> rusqlite::Result<String> {
            let bytes = row.get_ref(column)?.as_bytes().unwrap_or_default();
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        Ok(Part { kind: text(0)?, name: text(1)?, table: text(2)?, sql: text(3)? })
    })?;
    rows.collect()
}

/// How the parts of a catalogue differ from those that its version has, if they do. A trigger or an index of
/// somebody else could change or hide records.
pub(super) fn difference(found: &BTreeSet<Part>, version: i64) -> rusqlite::Result<Option<String>> {
    if version == VERSION && fingerprint(found).is_some_and(|found| found == FINGERPRINT) {
        return Ok(None);
    }
    let known = known(version)?;
    // What `ANALYZE` leaves changes nothing.
    let is_harmless = |part: &Part| part.kind == "table" && part.name.starts_with("sqlite_stat");
    if let Some(Part { kind, name, .. }) = found.difference(&known).find(|part| !is_harmless(part)) {
        return Ok(Some(format!(
            "its list of tables does not fit its version: {kind} {name:?} was not made by verisum"
        )));
    }
    let lost = known.difference(found).find(|part| part.name != "fresh_by_digest");
    Ok(lost.map(|Part { kind, name, .. }| {
        format!("its list of tables does not fit its version: {kind} {name:?} is missing")
    }))
}

/// That of a new catalogue. To make its tables at each opening, as an older one needs, takes longer than all else that
/// a short command does.
const FINGERPRINT: &str = "f2fb7cc3c95932666641ace382651ed950c666e418b861ff1c9644cceba30fb8";

/// A digest of parts, that no others have.
fn fingerprint(parts: &BTreeSet<Part>) -> Option<String> {
    let mut text = String::new();
    for Part { kind, name, table, sql } in parts {
        for word in [kind, name, table, sql] {
            text.push_str(&format!("{}:{word}", word.len()));
        }
    }
    let digest = Digest::find("blake3").and_then(|digest| digest.hash(text.as_bytes()));
    digest.ok().map(|digest| digest.to_string())
}

/// The parts that a version may have.
fn known(version: i64) -> rusqlite::Result<BTreeSet<Part>> {
    let connection = Connection::open_in_memory()?;
    guard::register(&connection)?;
    for step in STEPS.iter().take(usize::try_from(version).unwrap_or(0)) {
        connection.execute_batch(step)?;
    }
    if version > 1 {
        connection.execute_batch(FRESH_BY_DIGEST)?;
    }
    parts(&connection)
}

/// Lets an older version be read as if it had been brought up to date.
pub(super) fn stand_in(connection: &Connection, from: i64) -> rusqlite::Result<()> {
    // In memory only where views need it: what is sorted goes to files where it is much.
    if from >= VERSION {
        return Ok(());
    }
    connection.pragma_update(None, "temp_store", "memory")?;
    for (version, views) in STAND_INS {
        if version > from {
            connection.execute_batch(views)?;
        }
    }
    Ok(())
}

/// Takes the steps that are missing, each in a transaction of its own.
pub(super) fn migrate(connection: &mut Connection, from: i64) -> rusqlite::Result<()> {
    for (version, step) in (1..).zip(STEPS) {
        if version > from {
            let transaction = connection.transaction()?;
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", version)?;
            transaction.commit()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::store::tests::record;
    use crate::store::{Catalog, CatalogRecord, Likeness, Moment, Seen, State, Trouble};
    use verisum_files::Verdict;

    /// A catalogue of an older version with a file, a run and a root.
    fn older(path: &Path, version: usize) {
        let connection = Connection::open(path).unwrap();
        guard::register(&connection).unwrap();
        for step in &STEPS[..version] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "application_id", APPLICATION).unwrap();
        connection.pragma_update(None, "user_version", version as i64).unwrap();
        connection
            .execute_batch(
                "INSERT INTO algorithm(id, name) VALUES (1, 'sha256');
                 INSERT INTO root(id, path, directory, device, inode, files, bytes)
                    VALUES (1, x'2f737276', 1, 1, 2, 1, 7);
                 INSERT INTO directory VALUES (1, -1, x'', 1);
                 INSERT INTO file(directory, name, root, state, verified, size, mtime, ctime, inode,
                    algorithm, digest, first_seen, changed)
                    VALUES (1, x'61', 1, 0, 3, 7, 8, 9, 10, 1, zeroblob(32), 11, 12);
                 INSERT INTO run(root, started, cycle) VALUES (1, 2, 3)",
            )
            .unwrap();
        if version >= 5 {
            // A run that was killed has found twice that the same file was bad, and then well.
            let sql =
                "INSERT INTO former VALUES (1, 1, x'62', 6, ?1, 5, 7, 8, 9, 10, 1, zeroblob(32), 11, 12, 3,
                       7, 8, 10, x'ff')";
            // Later versions keep one of them.
            for found in if version == 5 { 4..6 } else { 5..6 } {
                connection.execute(sql, [found]).unwrap();
            }
        }
        if version >= 4 {
            let unread = "INSERT INTO unread(directory, name, root, seen) VALUES (1, x'63', 1, 4)";
            connection.execute_batch(unread).unwrap();
            if version >= 13 {
                connection.execute_batch("UPDATE unread SET since = seen").unwrap();
            }
            let sql = format!("UPDATE file SET guard = {}", guard::guard_with("file.state"));
            connection.execute_batch(&sql).unwrap();
        }
    }

    #[test]
    fn a_new_catalogue_is_known_by_its_fingerprint() {
        let mut parts = known(VERSION).unwrap();
        assert!(fingerprint(&parts).unwrap() != FINGERPRINT, "an index of the end of a run is one more");
        parts.retain(|part| part.name != "fresh_by_digest");
        assert_eq!(fingerprint(&parts).unwrap(), FINGERPRINT);
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
        assert_eq!(super::parts(&catalog.connection).unwrap(), parts);
    }

    #[test]
    fn older_versions_are_brought_up_to_date() {
        let folder = tempfile::tempdir().unwrap();
        for version in 1..STEPS.len() {
            let path = folder.path().join(format!("{version}.db"));
            older(&path, version);
            // To be read they need not be.
            let reading = Catalog::open_to_read(&path).unwrap();
            let writing = Catalog::open(&path);
            let written = writing.as_ref().unwrap();
            assert_eq!(super::version(&written.connection).unwrap(), VERSION);
            for catalog in [&reading, written] {
                let runs = catalog.runs(1, 10).unwrap();
                assert_eq!(
                    (runs[0].started.milliseconds(), runs[0].interrupted, &runs[0].error),
                    (2, false, &None)
                );
                let record = catalog.record(1, "a".as_ref()).unwrap().unwrap();
                assert_eq!((record.size, record.changed.milliseconds(), record.state), (7, 12, State::Sound));
                assert_eq!(catalog.check().unwrap(), []);
                catalog.export(&mut Vec::new()).unwrap();
                let unread = State::Trouble(Trouble::Verdict(Verdict::IoError));
                let troubles = if version >= 4 { vec![(unread, 1)] } else { vec![] };
                assert_eq!(catalog.troubles(1).unwrap(), troubles);
                let since =
                    catalog.finding(1, "c".as_ref()).unwrap().map(|finding| finding.since.milliseconds());
                assert_eq!(since, (version >= 4).then_some(4));
            }
            let root = reading.root(Path::new("/srv")).unwrap().unwrap();
            assert_eq!((root.born, root.options), (None, vec![]));
            assert_eq!(written.replaced(1).unwrap(), 0);
            let CatalogRecord { size, mtime, ctime, inode, digest, .. } = record(1);
            let (lost, last) = (record(1), Seen { size, mtime, ctime, inode, digest });
            written.index_fresh().unwrap();
            assert!(written.heirs(1, (&lost, &last), Likeness::File, false).unwrap().is_empty());
            written.settle_previous(1, true, Moment::of_milliseconds(3)).unwrap();
            let formers = written.all_previous(1).unwrap();
            let fifth = Moment::of_milliseconds(5);
            let found: Vec<_> = formers.iter().map(|(_, former)| (former.found, former.inode)).collect();
            assert_eq!(found, if version >= 5 { vec![((fifth, fifth), 10)] } else { vec![] });
        }
    }
}
