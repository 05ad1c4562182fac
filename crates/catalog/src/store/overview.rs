//! The queries of an overview: all records, and all content in order.

use rusqlite::{Row, params};

use super::record::{columns, record, unsigned};
use super::{Catalog, CatalogError, CatalogRecord, ListedRecord, Result};

/// What a file holds. In the order of their fields contents of all catalogues can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileContent {
    /// The name of the digest's algorithm.
    pub(crate) algorithm: String,
    pub(crate) digest: Vec<u8>,
    pub(crate) size: u64,
}

/// Which file has a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SoundFile {
    pub(crate) root: i64,
    /// 0 where the place has none.
    pub(crate) inode: u64,
    pub(crate) directory: i64,
}

impl Catalog {
    /// Calls `each` for all records, those of one directory after the other: the tree, the directory, the record.
    pub(crate) fn each_record<E: From<CatalogError>>(
        &self,
        each: &mut dyn FnMut(i64, i64, &CatalogRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = || self.failed("read");
        let sql = format!("SELECT root, directory, {} FROM file ORDER BY directory", columns());
        let mut statement = self.connection.prepare(&sql).map_err(failed())?;
        let mut rows = statement.query([]).map_err(failed())?;
        while let Some(row) = rows.next().map_err(failed())? {
            let read = || Ok((row.get(0)?, row.get(1)?, record(row, 2)?));
            let (root, directory, record) = read().map_err(failed())?;
            each(root, directory, &record)?;
        }
        Ok(())
    }

    /// Calls `each` for all directories by their numbers: its own, and its parent's.
    pub(crate) fn each_directory(&self, each: &mut dyn FnMut(i64, i64)) -> Result<()> {
        let read = || {
            let mut statement = self.connection.prepare("SELECT id, parent FROM directory ORDER BY id")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                each(row.get(0)?, row.get(1)?);
            }
            Ok(())
        };
        let mut read = read;
        read().map_err(self.failed("read"))
    }

    /// Calls `each` for all sound files that are not empty, of all catalogues: the catalogue's number, the content, and
    /// which file. Files of one content follow each other, by catalogue, tree and inode.
    pub(crate) fn each_content(
        catalogs: &[Catalog],
        each: &mut dyn FnMut(usize, FileContent, SoundFile),
    ) -> Result<()> {
        // The order of the tables is kept: each record meets its algorithm, or that which a rehash gives to others.
        let sql = "SELECT a.name, coalesce(r.new_digest, f.digest), f.size, f.root, f.inode, f.directory FROM file f
                   LEFT JOIN rehashed r ON r.old_algorithm = f.algorithm AND r.old_digest = f.digest
                   CROSS JOIN algorithm a ON a.id = coalesce(r.new_algorithm, f.algorithm)
                   WHERE f.state = 0 AND f.size > 0 ORDER BY 1, 2, 3, 4, 5, 6";
        let failed = |number: usize| catalogs[number].failed("read");
        let mut statements = Vec::new();
        for (number, catalog) in catalogs.iter().enumerate() {
            statements.push(catalog.connection.prepare(sql).map_err(failed(number))?);
        }
        let mut sorted = Vec::new();
        for (number, statement) in statements.iter_mut().enumerate() {
            sorted.push(statement.query([]).map_err(failed(number))?);
        }
        let mut heads = Vec::new();
        for (number, rows) in sorted.iter_mut().enumerate() {
            let head = rows.next().and_then(|row| row.map(sound_file).transpose());
            heads.push(head.map_err(failed(number))?);
        }
        loop {
            let first = (0..heads.len()).filter(|number| heads[*number].is_some());
            let Some(number) = first.min_by(|a, b| key(&heads[*a]).cmp(&key(&heads[*b]))) else {
                return Ok(());
            };
            let next = sorted[number].next().and_then(|row| row.map(sound_file).transpose());
            let next = next.map_err(failed(number))?;
            if let Some((content, file)) = std::mem::replace(&mut heads[number], next) {
                each(number, content, file);
            }
        }
    }

    /// What a record says of a content, as [`Catalog::each_content`] has it: the algorithm's name, and the digest.
    pub(crate) fn content_of(&self, file: &ListedRecord) -> Result<(String, Vec<u8>)> {
        let sql = "SELECT name, new_digest FROM rehashed JOIN algorithm ON id = new_algorithm
                   WHERE old_algorithm = ?1 AND old_digest = ?2";
        let digest = file.record.digest.as_bytes();
        let other =
            self.row(sql, params![file.record.algorithm, digest], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(other.unwrap_or_else(|| (file.algorithm.clone(), digest.to_vec())))
    }

    /// The name of a sound file in a directory that has a digest.
    pub(crate) fn name_of_content(&self, directory: i64, digest: &[u8]) -> Result<Option<Vec<u8>>> {
        let sql =
            "SELECT name FROM file LEFT JOIN rehashed ON old_algorithm = algorithm AND old_digest = digest
                   WHERE directory = ?1 AND coalesce(new_digest, digest) = ?2 AND state = 0 LIMIT 1";
        self.row(sql, params![directory, digest], |row| row.get(0))
    }
}

fn key(head: &Option<(FileContent, SoundFile)>) -> Option<&FileContent> {
    head.as_ref().map(|(content, _)| content)
}

fn sound_file(row: &Row<'_>) -> rusqlite::Result<(FileContent, SoundFile)> {
    let content = FileContent { algorithm: row.get(0)?, digest: row.get(1)?, size: unsigned(row, 2)? };
    Ok((content, SoundFile { root: row.get(3)?, inode: unsigned(row, 4)?, directory: row.get(5)? }))
}
