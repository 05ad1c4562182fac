//! Lists of files for people: what is bad or missing, what was not verified for long, what is there twice.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Params, params, params_from_iter};

use super::record::{CORRUPT, DAMAGED, MISSING, columns, record};
use super::{Catalog, Error, Record, Result, Root, State, Trouble};

/// The files in trouble. What is to be compared with their digests is compared with their lengths first: most records
/// are out then, in half the time.
const IN_TROUBLE: &str = "FROM file INDEXED BY file_in_trouble WHERE state <> 0";

/// How many good copies of troubled files are looked for: more are nothing that somebody reads.
const COPIES: usize = 100_000;

/// A file of a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its whole path, or address.
    pub path: PathBuf,
    /// The number of its directory.
    pub directory: i64,
    /// The name of its digest's algorithm.
    pub algorithm: String,
    /// What is recorded of it.
    pub record: Record,
}

/// What rows need to become files: trees and algorithms by their numbers, and the last directory's path.
struct ListingNames {
    roots: HashMap<i64, PathBuf>,
    algorithms: HashMap<i64, String>,
    last: Option<(i64, PathBuf)>,
}

impl Catalog {
    /// Calls `each` for the files of a tree that are not as recorded: bad ones, missing ones, or both.
    ///
    /// # Errors
    /// Those of `each`, and what keeps the catalogue from being read.
    pub fn each_in_trouble<E: From<Error>>(
        &self,
        root: &Root,
        bad: bool,
        missing: bool,
        each: &mut dyn FnMut(Listed) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!(
            "SELECT root, directory, name, {} FROM file INDEXED BY file_in_trouble WHERE root = ?1 AND state <> 0
             AND ((?2 AND state <> {MISSING}) OR (?3 AND state = {MISSING})) ORDER BY state, directory, name",
            columns()
        );
        self.each_listed(&sql, params![root.id, bad, missing], each)
    }

    /// The same for the files of a tree that were last verified before a moment, stalest first. What is missing
    /// cannot be verified, and is not among them.
    pub fn each_stale<E: From<Error>>(
        &self,
        root: &Root,
        before: i64,
        each: &mut dyn FnMut(Listed) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!(
            "SELECT root, directory, name, {} FROM file WHERE root = ?1 AND verified < ?2
             AND state NOT IN ({MISSING}, {DAMAGED}) ORDER BY verified, directory, name",
            columns()
        );
        self.each_listed(&sql, params![root.id, before], each)
    }

    /// The same for all sound files of all trees whose content another one has too, the largest first. Files with
    /// the same content follow each other; empty ones are left out.
    pub fn each_duplicate<E: From<Error>>(
        &self,
        each: &mut dyn FnMut(Listed) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!(
            "SELECT root, directory, name, {} FROM file WHERE state = 0 AND size > 0
             ORDER BY size DESC, algorithm, digest, directory, name",
            columns()
        );
        let mut last: Option<Listed> = None;
        let mut is_told = false;
        self.each_listed(&sql, [], &mut |file| {
            let content = |file: &Listed| (file.record.size, file.record.algorithm, file.record.digest);
            let is_same = last.as_ref().is_some_and(|last| content(last) == content(&file));
            let before = last.replace(file.clone());
            if !is_same {
                is_told = false;
                return Ok(());
            }
            // The first of them waited for a second one.
            if let (Some(first), false) = (before, is_told) {
                each(first)?;
            }
            is_told = true;
            each(file)
        })
    }

    /// Where the content is that files in trouble had, by algorithm and digest: of each a sound file of any tree that
    /// has it, as the catalogue says; at most 100,000 of them.
    pub fn copies_of_troubled(&self) -> Result<HashMap<(i64, Vec<u8>), PathBuf>> {
        let mut copies = HashMap::new();
        self.each_copy_of_troubled(&mut |file| {
            let content = (file.record.algorithm, file.record.digest.as_bytes().to_vec());
            copies.entry(content).or_insert(file.path);
            Ok::<_, Error>(())
        })?;
        Ok(copies)
    }

    /// Files of a tree that are not as recorded, at most so many: bad data first, what is only missing last.
    pub fn worst(&self, root: &Root, most: usize) -> Result<Vec<Listed>> {
        let sql = format!(
            "SELECT root, directory, name, {} FROM file INDEXED BY file_in_trouble WHERE root = ?1 AND state <> 0
             ORDER BY state IN {CORRUPT} DESC, state = {MISSING}, state DESC, directory, name LIMIT ?2",
            columns()
        );
        let mut files = Vec::new();
        self.each_listed(&sql, params![root.id, most as i64], &mut |file| {
            files.push(file);
            Ok::<_, Error>(())
        })?;
        Ok(files)
    }

    /// Where the content is that some files had, by algorithm and digest: of each a sound file of any tree that has it,
    /// as the catalogue says. Takes one pass over the records, whatever the number of files; more than 1000 are not
    /// looked for.
    pub fn copies_of(&self, files: &[Listed]) -> Result<HashMap<(i64, Vec<u8>), PathBuf>> {
        let is_wanted = |state: State| state.is_repairable() || state == State::Trouble(Trouble::Held);
        let wanted = files.iter().filter(|file| is_wanted(file.record.state) && file.record.size > 0);
        let contents = wanted.map(|file| (file.record.algorithm, file.record.digest.as_bytes().to_vec()));
        self.copies_of_contents(&contents.collect::<Vec<_>>())
    }

    /// The same of contents that are not empty, each by the number of its algorithm and by its digest.
    pub fn copies_of_contents(
        &self,
        contents: &[(i64, Vec<u8>)],
    ) -> Result<HashMap<(i64, Vec<u8>), PathBuf>> {
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
        self.each_listed(&sql, params_from_iter(values), &mut |file| {
            let content = (file.record.algorithm, file.record.digest.as_bytes().to_vec());
            copies.entry(content).or_insert(file.path);
            Ok::<_, Error>(())
        })?;
        Ok(copies)
    }

    /// Calls `each` for sound files of any tree that have one of these contents, each by the name of its digest and by its
    /// value; not for files that are known to be empty. Takes one pass over the records for a thousand of them.
    ///
    /// # Errors
    /// Those of `each`, and what keeps the catalogue from being read.
    pub fn each_copy_of_contents<E: From<Error>>(
        &self,
        contents: &[(String, Vec<u8>)],
        each: &mut dyn FnMut(Listed) -> Result<(), E>,
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
            self.each_listed(&sql, params_from_iter(some.iter().flatten()), each)?;
        }
        Ok(())
    }

    /// How many files of a tree want their recorded content again, and how many of these the catalogue knows a copy of.
    pub fn mendable(&self, root: &Root) -> Result<(u64, u64)> {
        let (mut wanted, mut mendable) = (0, 0);
        let mut contents = Vec::new();
        self.each_in_trouble(root, true, true, &mut |file| {
            if file.record.state.is_repairable() {
                wanted += 1;
                contents.push((file.record.algorithm, file.record.digest.as_bytes().to_vec()));
            }
            Ok::<_, Error>(())
        })?;
        if wanted > 0 {
            let copies = self.copies_of_troubled()?;
            mendable = contents.iter().filter(|content| copies.contains_key(*content)).count() as u64;
        }
        Ok((wanted, mendable))
    }

    /// Calls `each` for sound files of any tree that have the content that a file in trouble had, as the catalogue
    /// says; for at most 100,000 of them.
    ///
    /// # Errors
    /// Those of `each`, and what keeps the catalogue from being read.
    pub fn each_copy_of_troubled<E: From<Error>>(
        &self,
        each: &mut dyn FnMut(Listed) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql = format!(
            "SELECT root, directory, name, {} FROM file WHERE state = 0 AND size > 0
             AND +size IN (SELECT size {IN_TROUBLE})
             AND (algorithm, digest) IN (SELECT algorithm, digest {IN_TROUBLE}) LIMIT {COPIES}",
            columns()
        );
        self.each_listed(&sql, [], each)
    }

    fn each_listed<E: From<Error>>(
        &self,
        sql: &str,
        values: impl Params,
        each: &mut dyn FnMut(Listed) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = || self.failed("read");
        let roots = self.roots()?.into_iter().map(|root| (root.id, root.path)).collect();
        let mut names = ListingNames { roots, algorithms: self.algorithms()?, last: None };
        let mut statement = self.connection.prepare(sql).map_err(failed())?;
        let mut rows = statement.query(values).map_err(failed())?;
        while let Some(row) = rows.next().map_err(failed())? {
            let read = || Ok((row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?, record(row, 3)?));
            let (root, directory, name, record) = read().map_err(failed())?;
            let path = names.directory(self, root, directory)?.join(OsStr::from_bytes(&name));
            let algorithm = names.algorithms.get(&record.algorithm).cloned().unwrap_or_default();
            each(Listed { path, directory, algorithm, record })?;
        }
        Ok(())
    }
}

impl ListingNames {
    /// The whole path of a directory. Rows of one directory mostly follow each other.
    fn directory(&mut self, catalog: &Catalog, root: i64, directory: i64) -> Result<&Path> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != directory) {
            let top = self.roots.get(&root).cloned().unwrap_or_default();
            self.last = Some((directory, top.join(catalog.path_in_root(directory)?)));
        }
        Ok(self.last.as_ref().map_or(Path::new(""), |(_, path)| path))
    }
}
