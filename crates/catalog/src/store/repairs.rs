//! The history of repairs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rusqlite::params;

use super::record::{output, unsigned};
use super::{Catalog, Place, Result, Root, State};
use verisum_digest::Output;

/// How a file was given its recorded content again.
#[derive(Clone, Debug, PartialEq)]
pub struct Repair {
    /// When, in milliseconds since 1970.
    pub repaired: i64,
    /// What the file had been found to be.
    pub state: State,
    /// The path or address of the file whose content it took.
    pub source: PathBuf,
    /// How many bytes were written.
    pub bytes: u64,
    /// The number of the digests' algorithm.
    pub algorithm: i64,
    /// The digest that it had, if it was there and could be read.
    pub before: Option<Output>,
    /// The digest that it has since: the recorded one.
    pub digest: Output,
}

impl Catalog {
    /// Remembers the repair of a file.
    pub fn add_repair(&self, root: i64, place: &Place, repair: &Repair) -> Result<()> {
        let sql = "INSERT INTO repair(root, directory, name, repaired, state, source, bytes, algorithm, before, digest)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let values = params![
            root,
            place.0,
            place.1,
            repair.repaired,
            repair.state.code(),
            repair.source.as_os_str().as_bytes(),
            repair.bytes as i64,
            repair.algorithm,
            repair.before.as_ref().map(Output::as_bytes),
            repair.digest.as_bytes(),
        ];
        self.connection.execute(sql, values).map(drop).map_err(self.failed("write"))
    }

    /// Calls `each` for the repairs of a tree with the file's path, the latest first.
    ///
    /// # Errors
    /// Those of `each`, and what keeps the catalogue from being read.
    pub fn each_repair<E: From<super::Error>>(
        &self,
        root: &Root,
        each: &mut dyn FnMut(PathBuf, Repair) -> Result<(), E>,
    ) -> Result<(), E> {
        let sql =
            "SELECT directory, name, repaired, state, source, bytes, algorithm, before, digest FROM repair
                   WHERE root = ?1 ORDER BY repaired DESC, id DESC";
        let mut statement = self.connection.prepare(sql).map_err(self.failed("read"))?;
        let mut rows = statement.query([root.id]).map_err(self.failed("read"))?;
        while let Some(row) = rows.next().map_err(self.failed("read"))? {
            let read = || {
                let before = match row.get_ref(7)? {
                    rusqlite::types::ValueRef::Null => None,
                    _ => Some(output(row, 7)?),
                };
                let repair = Repair {
                    repaired: row.get(2)?,
                    state: State::of_code(row.get(3)?).unwrap_or(State::DAMAGED),
                    source: OsString::from_vec(row.get(4)?).into(),
                    bytes: unsigned(row, 5)?,
                    algorithm: row.get(6)?,
                    before,
                    digest: output(row, 8)?,
                };
                Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?, repair))
            };
            let (directory, name, repair) = read().map_err(self.failed("read"))?;
            let path = root.path.join(self.path_in_root(directory)?).join(OsStr::from_bytes(&name));
            each(path, repair)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Error;
    use crate::store::tests::catalog;

    #[test]
    fn repairs_come_back_latest_first() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let repair = |repaired, before| Repair {
            repaired,
            state: State::MISSING,
            source: OsString::from_vec(b"/copy/\xff".to_vec()).into(),
            bytes: 7,
            algorithm: 1,
            before,
            digest: Output::zeroed(32),
        };
        let both = [repair(5, None), repair(6, Some(Output::zeroed(20)))];
        for repair in &both {
            catalog.add_repair(root.id, &(root.directory, "a\nb".into()), repair).unwrap();
        }
        let mut found = Vec::new();
        let path = root.path.join("a\nb");
        let each = &mut |of: PathBuf, repair| {
            assert_eq!(of, path);
            found.push(repair);
            Ok::<_, Error>(())
        };
        catalog.each_repair(&root, each).unwrap();
        found.reverse();
        assert_eq!(found, both);
        assert_eq!(catalog.check().unwrap(), []);
        catalog.forget_root(&root).unwrap();
        catalog.each_repair(&root, &mut |_, _| Err(Error::Gone { path: PathBuf::new() })).unwrap();
    }
}
