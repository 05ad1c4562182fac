//! Reads the records of a tree in the order of their paths.

use std::ffi::OsStr;
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use rusqlite::params;

use super::record::{columns, record};
use super::{Catalog, CatalogError, CatalogRecord, KnownDirectory, Result, Root};

/// How many records of a directory are in memory.
const PAGE: usize = 1000;

/// A directory whose files and directories are being gone through.
struct Open {
    id: i64,
    path: PathBuf,
    files: DirectoryPage,
    /// The directories in it that are yet to come, as paths that end with a slash.
    directories: Peekable<IntoIter<(Vec<u8>, i64)>>,
}

/// Names and records.
type Rows = Peekable<IntoIter<(Vec<u8>, CatalogRecord)>>;

/// The next files of a directory.
struct DirectoryPage {
    rows: Rows,
    last: Option<Vec<u8>>,
}

impl Catalog {
    /// Calls `each` for every file of a root with its path below the root's top, in the order of the bytes of the
    /// paths, and with its record, which may be damaged. Only a directory's subdirectories and a page of its files
    /// are in memory, and those of the directories above it.
    ///
    /// # Errors
    /// Those of `each`, and a damaged catalogue: no record is left out without a word.
    pub fn records_by_path<E: From<CatalogError>>(
        &self,
        root: &Root,
        each: &mut dyn FnMut(&Path, &CatalogRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut count = 0;
        let mut open = vec![self.open_directory(root.directory, PathBuf::new())?];
        while let Some(directory) = open.last_mut() {
            self.turn_page(directory)?;
            let file = directory.files.rows.peek();
            // A name and a slash stand where the paths below stand.
            let is_file_next = match (file, directory.directories.peek()) {
                (Some((file, _)), Some((below, _))) => file < below,
                (file, _) => file.is_some(),
            };
            if is_file_next {
                if let Some((name, record)) = directory.files.rows.next() {
                    each(&directory.path.join(OsStr::from_bytes(&name)), &record)?;
                    directory.files.last = Some(name);
                    count += 1;
                }
            } else if let Some((name, id)) = directory.directories.next() {
                let name = OsStr::from_bytes(&name[..name.len() - 1]);
                let path = directory.path.join(name);
                open.push(self.open_directory(id, path)?);
            } else {
                open.pop();
            }
        }
        Ok(self.require_all(root, count)?)
    }

    fn open_directory(&self, id: i64, path: PathBuf) -> Result<Open> {
        let mut directories: Vec<(Vec<u8>, i64)> = self
            .directories_in(id)?
            .into_iter()
            .map(|KnownDirectory { mut name, id, .. }| {
                name.push(b'/');
                (name, id)
            })
            .collect();
        directories.sort_unstable();
        let files = DirectoryPage { rows: self.page_of(id, None)?, last: None };
        Ok(Open { id, path, files, directories: directories.into_iter().peekable() })
    }

    /// Reads the next files of a directory when those in memory are through.
    fn turn_page(&self, directory: &mut Open) -> Result<()> {
        if directory.files.rows.peek().is_none()
            && let Some(last) = directory.files.last.take()
        {
            directory.files.rows = self.page_of(directory.id, Some(&last))?;
        }
        Ok(())
    }

    fn page_of(&self, directory: i64, after: Option<&[u8]>) -> Result<Rows> {
        let sql = format!(
            "SELECT name, {} FROM file WHERE directory = ?1 AND (?2 IS NULL OR name > ?2)
             ORDER BY name LIMIT {PAGE}",
            columns()
        );
        let rows: rusqlite::Result<Vec<(Vec<u8>, CatalogRecord)>> =
            self.connection.prepare_cached(&sql).and_then(|mut statement| {
                statement
                    .query_map(params![directory, after], |row| Ok((row.get(0)?, record(row, 1)?)))?
                    .collect()
            });
        Ok(rows.map_err(self.failed("read"))?.into_iter().peekable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RecordChange;
    use crate::store::tests::{catalog, record};

    #[test]
    fn the_order_is_that_of_the_bytes_of_paths() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        catalog.begin().unwrap();
        let mut expected: Vec<Vec<u8>> =
            [&b"a"[..], b"a/b/c", b"a-b", b"a.txt", b"a/z", b"a/b!", b"a0/x", b"\xff/y", b"z"]
                .map(<[u8]>::to_vec)
                .to_vec();
        expected.extend((0..2 * PAGE + 1).map(|n| format!("many/{n}").into_bytes()));
        for path in &expected {
            let path = Path::new(OsStr::from_bytes(path));
            let directory = catalog.make_directories(&root, path.parent().unwrap()).unwrap();
            let name = path.file_name().unwrap();
            catalog.apply(root.id, directory, name, &RecordChange::Add(record(1))).unwrap();
        }
        catalog.commit().unwrap();
        expected.sort();
        let root = catalog.root(&root.path).unwrap().unwrap();
        let mut found = Vec::new();
        catalog
            .records_by_path(&root, &mut |path, _| {
                found.push(path.as_os_str().as_bytes().to_vec());
                Ok::<(), CatalogError>(())
            })
            .unwrap();
        assert!(found == expected);
        // A record that the sums do not know of is damage.
        let root = Root { files: root.files + 1, ..root };
        let ended = catalog.records_by_path(&root, &mut |_, _| Ok::<(), CatalogError>(()));
        assert!(ended.unwrap_err().is_damage());
    }
}
