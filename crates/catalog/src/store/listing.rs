//! Lists of files for people: bad, missing, stale and duplicate files.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Params, Row, params, params_from_iter};

use super::record::{CORRUPT, DAMAGED, GONE, MISSING, columns, output, record};
use super::{Catalog, CatalogError, CatalogRecord, Moment, Result, Root, State};

/// The files in trouble. What is to be compared with their digests is compared with their lengths first: most records
/// are out then, in half the time.
const IN_TROUBLE: &str = "FROM file INDEXED BY file_in_trouble WHERE state <> 0";

/// Files that no run could read and that have no record, of the root `?1`.
pub(super) const FROM_UNREAD: &str = "FROM unread WHERE root = ?1 AND NOT EXISTS (SELECT 1 FROM file
    WHERE file.directory = unread.directory AND file.name = unread.name)";

/// How many good copies of troubled files are looked for: more are nothing that somebody reads.
const COPIES: usize = 100_000;

/// A file of a list.
#[derive(Clone, Debug)]
pub struct ListedRecord {
    /// Its whole path, or address.
    pub path: PathBuf,
    /// The number of its directory.
    pub directory: i64,
    /// The name of its digest's algorithm; empty if it has no record.
    pub algorithm: String,
    /// What is recorded of it. Of a file that no run could read only the state is known.
    pub record: CatalogRecord,
}

impl ListedRecord {
    /// Whether anything is known of it by its record: nothing is if no run could read it, or if the record is damaged.
    pub fn is_recorded(&self) -> bool {
        !self.algorithm.is_empty() && self.record.state != State::DAMAGED
    }

    /// Whether a repair brings its recorded content back.
    pub fn wants_content(&self) -> bool {
        self.is_recorded() && self.record.state.wants_content()
    }
}

/// How many paths of directories are remembered. In the order of ages or sizes each file is of another one.
const DIRECTORIES: usize = 1 << 16;

/// What rows need to become files: trees and algorithms by their numbers, and the paths of directories that were met.
struct ListingNames {
    roots: HashMap<i64, PathBuf>,
    algorithms: HashMap<i64, String>,
    directories: HashMap<i64, PathBuf>,
}

/// A row, whose path is not put together yet.
struct ListedRow {
    root: i64,
    directory: i64,
    name: Vec<u8>,
    record: CatalogRecord,
}

impl Catalog {
    /// Calls `each` for the files of a tree that are not as recorded: bad ones, missing ones, or both. A bad or held file
    /// that is gone is among the missing ones, too. Files that no run could read are among the bad ones.
    ///
    /// # Errors
    /// Those of `each`, and what keeps the catalogue from being read.
    pub fn each_in_trouble<E: From<CatalogError>>(
        &self,
        root: &Root,
        bad: bool,
        missing: bool,
        each: &mut dyn FnMut(ListedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let recorded = format!(
            "(?2 AND state <> {MISSING}) OR (?3 AND (state = {MISSING} OR EXISTS (SELECT 1 FROM finding
                WHERE finding.directory = file.directory AND finding.name = file.name AND detail = ?4)))"
        );
        let sql = format!("{} ORDER BY state, directory, name", troubled_rows(&recorded, "?2"));
        self.each_listed(&sql, params![root.id, bad, missing, GONE], each)
    }

    /// Calls `each` for the files of all trees whose records are not as they were written. Takes a pass over all
    /// records.
    ///
    /// # Errors
    /// Those of `each`, and what keeps the catalogue from being read.
    pub fn each_damaged<E: From<CatalogError>>(
        &self,
        each: &mut dyn FnMut(ListedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let columns = columns();
        let sql =
            format!("SELECT root, directory, name, {columns} FROM file WHERE directory = ?1 AND name = ?2");
        for (directory, name) in self.damaged_names()? {
            self.each_listed(&sql, params![directory, name], each)?;
        }
        Ok(())
    }

    /// The same for the files of a tree that were last verified before a moment, or after `until`, as if never; stalest
    /// first. What is missing cannot be verified, and is not among them.
    pub fn each_stale<E: From<CatalogError>>(
        &self,
        root: &Root,
        before: Moment,
        until: Moment,
        each: &mut dyn FnMut(ListedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!(
            "SELECT root, directory, name, {} FROM file WHERE root = ?1 AND (verified < ?2 OR verified > ?3)
             AND state NOT IN ({MISSING}, {DAMAGED}) ORDER BY verified > ?3 DESC, verified, directory, name",
            columns()
        );
        self.each_listed(&sql, params![root.id, before, until], each)
    }

    /// The same for all sound files of all trees whose content another one has too, the largest first. Files with
    /// the same content follow each other, each with the digest that all of them have; empty ones are left out.
    pub fn each_duplicate<E: From<CatalogError>>(
        &self,
        each: &mut dyn FnMut(ListedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!(
            "SELECT root, directory, name, {}, coalesce(new_algorithm, algorithm),
                coalesce(new_digest, digest)
             FROM file LEFT JOIN rehashed ON old_algorithm = algorithm AND old_digest = digest
             WHERE state = 0 AND size > 0 ORDER BY size DESC, 15, 16, directory, name",
            columns()
        );
        let content = |row: &ListedRow| (row.record.size, row.record.algorithm, row.record.digest);
        let mut names = self.listing_names()?;
        let mut last: Option<ListedRow> = None;
        let mut is_told = false;
        // Most files have a content of their own: nobody asks for their paths.
        self.each_row(&sql, [], row_of_content, &mut |row| {
            if row.record.state != State::Sound {
                return Ok(());
            }
            let is_same = last.as_ref().is_some_and(|last| content(last) == content(&row));
            if is_same {
                if let Some(first) = last.as_ref().filter(|_| !is_told) {
                    each(names.listed(self, first)?)?;
                }
                each(names.listed(self, &row)?)?;
            }
            is_told = is_same;
            last = Some(row);
            Ok(())
        })
    }

    /// Where the content is that files in trouble had, by algorithm and digest: of each a sound file of any tree that
    /// has it, as the catalogue says; at most 100,000 of them.
    pub fn copies_of_troubled(&self) -> Result<HashMap<(i64, Vec<u8>), PathBuf>> {
        let mut copies = HashMap::new();
        self.each_copy_of_troubled(&mut |file| {
            if file.record.state == State::Sound {
                let content = (file.record.algorithm, file.record.digest.as_bytes().to_vec());
                copies.entry(content).or_insert(file.path);
            }
            Ok::<_, CatalogError>(())
        })?;
        Ok(copies)
    }

    /// Files of a tree that are not as recorded, or could not be read, at most so many: bad data first, what is only
    /// missing last.
    pub fn worst(&self, root: &Root, most: usize) -> Result<Vec<ListedRecord>> {
        let sql = format!(
            "{} ORDER BY state IN {CORRUPT} DESC, state = {MISSING}, state DESC, directory, name LIMIT ?2",
            troubled_rows("1", "1")
        );
        let mut files = Vec::new();
        self.each_listed(&sql, params![root.id, most as i64], &mut |file| {
            files.push(file);
            Ok::<_, CatalogError>(())
        })?;
        Ok(files)
    }

    /// Where the content is that some files had, by algorithm and digest: of each a sound file of any tree that has it,
    /// as the catalogue says. Takes one pass over the records, whatever the number of files; more than 1000 are not
    /// looked for.
    pub fn copies_of(&self, files: &[ListedRecord]) -> Result<HashMap<(i64, Vec<u8>), PathBuf>> {
        let wanted = files.iter().filter(|file| file.wants_content() && file.record.size > 0);
        let contents = wanted.map(|file| (file.record.algorithm, file.record.digest.as_bytes().to_vec()));
        self.copies_of_contents(&contents.collect::<Vec<_>>())
    }

    /// The same of contents that are not empty, each by the number of its algorithm and by its digest.
    fn copies_of_contents(&self, contents: &[(i64, Vec<u8>)]) -> Result<HashMap<(i64, Vec<u8>), PathBuf>> {
        let mut copies = HashMap::new();
        let mut values: Vec<Value> = Vec::new();
        for (algorithm, digest) in contents.iter().take(1000) {
            values.push((*algorithm).into());
            values.push(digest.clone().into());
        }
        if values.is_empty() {
            return Ok(copies);
        }
        let places = vec!["(?, ?)"; values.len() / 2].join(", ");
        let sql = format!(
            "SELECT root, directory, name, {} FROM file WHERE state = 0 AND size > 0
             AND (algorithm, digest) IN (VALUES {places})",
            columns()
        );
        let mut each = |file: ListedRecord| {
            if file.record.state == State::Sound {
                let content = (file.record.algorithm, file.record.digest.as_bytes().to_vec());
                copies.entry(content).or_insert(file.path);
            }
            Ok::<_, CatalogError>(())
        };
        self.each_listed(&sql, params_from_iter(&values), &mut each)?;
        self.each_rehashed(&format!("VALUES {places}"), params_from_iter(&values), &mut each)?;
        Ok(copies)
    }

    /// Calls `each` for sound files of any tree that have one of these contents, each by the name of its digest and by its
    /// value; not for files that are known to be empty. Takes one pass over the records for a thousand of them.
    ///
    /// # Errors
    /// Those of `each`, and what keeps the catalogue from being read.
    pub fn each_copy_of_contents<E: From<CatalogError>>(
        &self,
        contents: &[(String, Vec<u8>)],
        each: &mut dyn FnMut(ListedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let numbers: HashMap<String, i64> =
            self.algorithms()?.into_iter().map(|(number, name)| (name, number)).collect();
        let known: Vec<[Value; 2]> = contents
            .iter()
            .filter_map(|(name, digest)| Some([(*numbers.get(name)?).into(), digest.clone().into()]))
            .collect();
        for some in known.chunks(1000) {
            let places = vec!["(?, ?)"; some.len()].join(", ");
            let sql = format!(
                "SELECT root, directory, name, {} FROM file WHERE state = 0 AND (size > 0 OR verified = 0)
                 AND (algorithm, digest) IN (VALUES {places})",
                columns()
            );
            let values = || params_from_iter(some.iter().flatten());
            self.each_listed(&sql, values(), each)?;
            self.each_rehashed(&format!("VALUES {places}"), values(), each)?;
        }
        Ok(())
    }

    /// Calls `each` for sound files of any tree that have the content that a file in trouble had, as the catalogue
    /// says; for at most 100,000 of them.
    ///
    /// # Errors
    /// Those of `each`, and what keeps the catalogue from being read.
    pub fn each_copy_of_troubled<E: From<CatalogError>>(
        &self,
        each: &mut dyn FnMut(ListedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!(
            "SELECT root, directory, name, {} FROM file WHERE state = 0 AND size > 0
             AND +size IN (SELECT size {IN_TROUBLE})
             AND (algorithm, digest) IN (SELECT algorithm, digest {IN_TROUBLE}) LIMIT {COPIES}",
            columns()
        );
        self.each_listed(&sql, [], each)?;
        self.each_rehashed(&format!("SELECT algorithm, digest {IN_TROUBLE} AND size > 0"), [], each)
    }

    /// Calls `each` for sound files whose records have one of these contents by another algorithm, as a rehash found
    /// out: each as if its record had the digest that is looked for.
    fn each_rehashed<E: From<CatalogError>>(
        &self,
        contents: &str,
        values: impl Params,
        each: &mut dyn FnMut(ListedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_rehashing()? {
            return Ok(());
        }
        let sql = format!(
            "WITH wanted(wanted_algorithm, wanted_digest) AS ({contents}),
             other(wanted_algorithm, wanted_digest, other_algorithm, other_digest) AS MATERIALIZED (
                SELECT wanted.*, new_algorithm, new_digest FROM wanted
                    JOIN rehashed ON old_algorithm = wanted_algorithm AND old_digest = wanted_digest
                UNION SELECT wanted.*, old_algorithm, old_digest FROM rehashed
                    JOIN wanted ON new_algorithm = wanted_algorithm AND new_digest = wanted_digest)
             SELECT root, directory, name, {}, wanted_algorithm, wanted_digest FROM file
                JOIN other ON algorithm = other_algorithm AND digest = other_digest
                WHERE state = 0 AND size > 0 LIMIT {COPIES}",
            columns()
        );
        let mut names = self.listing_names()?;
        self.each_row(&sql, values, row_of_content, &mut |row| each(names.listed(self, &row)?))
    }

    fn each_listed<E: From<CatalogError>>(
        &self,
        sql: &str,
        values: impl Params,
        each: &mut dyn FnMut(ListedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut names = self.listing_names()?;
        self.each_row(sql, values, listed_row, &mut |row| each(names.listed(self, &row)?))
    }

    fn listing_names(&self) -> Result<ListingNames> {
        let roots = self.roots()?.into_iter().map(|root| (root.id, root.path)).collect();
        Ok(ListingNames { roots, algorithms: self.algorithms()?, directories: HashMap::new() })
    }

    fn each_row<E: From<CatalogError>>(
        &self,
        sql: &str,
        values: impl Params,
        read: fn(&Row<'_>) -> rusqlite::Result<ListedRow>,
        each: &mut dyn FnMut(ListedRow) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = || self.failed("read");
        let mut statement = self.connection.prepare(sql).map_err(failed())?;
        let mut rows = statement.query(values).map_err(failed())?;
        while let Some(row) = rows.next().map_err(failed())? {
            each(read(row).map_err(failed())?)?;
        }
        Ok(())
    }
}

fn listed_row(row: &Row<'_>) -> rusqlite::Result<ListedRow> {
    let (root, directory, name) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(ListedRow { root, directory, name, record: record(row, 3)? })
}

/// The same with the content by the algorithm that stands behind the record.
fn row_of_content(row: &Row<'_>) -> rusqlite::Result<ListedRow> {
    let mut listed = listed_row(row)?;
    (listed.record.algorithm, listed.record.digest) = (row.get(14)?, output(row, 15)?);
    Ok(listed)
}

/// The rows of files of the root `?1` that are not as recorded, and of those that no run could read, for which these
/// conditions hold.
fn troubled_rows(recorded: &str, unread: &str) -> String {
    format!(
        "SELECT * FROM (
            SELECT root, directory, name, {} FROM file INDEXED BY file_in_trouble
            WHERE root = ?1 AND state <> 0 AND ({recorded})
            UNION ALL
            SELECT root, directory, name, coalesce(size, 0), coalesce(mtime, 0), 0, coalesce(inode, 0), 0, x'00',
                since, since, 0, state, 1 {FROM_UNREAD} AND {unread})",
        columns()
    )
}

impl ListingNames {
    fn listed(&mut self, catalog: &Catalog, row: &ListedRow) -> Result<ListedRecord> {
        let path = self.directory(catalog, row)?.join(OsStr::from_bytes(&row.name));
        let algorithm = self.algorithms.get(&row.record.algorithm).cloned().unwrap_or_default();
        Ok(ListedRecord { path, directory: row.directory, algorithm, record: row.record })
    }

    /// The whole path of a row's directory.
    fn directory(&mut self, catalog: &Catalog, row: &ListedRow) -> Result<&Path> {
        if self.directories.len() >= DIRECTORIES {
            self.directories.clear();
        }
        Ok(match self.directories.entry(row.directory) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let top = self.roots.get(&row.root).cloned().unwrap_or_default();
                new.insert(top.join(catalog.path_in_root(row.directory)?))
            }
        })
    }
}
