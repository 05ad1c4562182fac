//! The records of a tree, looked up by the paths of its files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Catalog, CatalogRecord, Result, Root};

/// The records of a tree, which is a recorded one or lies in one.
pub struct TreeRecords<'c> {
    catalog: &'c Catalog,
    /// The numbers of digests, and their names.
    algorithms: HashMap<i64, Arc<str>>,
    tree: PathBuf,
    /// The recorded trees, the innermost first.
    roots: Vec<Root>,
    /// The directory that was asked for last, by its root's number and its path below that, and its number.
    last: Option<(i64, PathBuf, Option<i64>)>,
}

impl<'c> TreeRecords<'c> {
    /// Those of a tree by its absolute path or its address, with those of trees that lie below it. None where the
    /// catalogue knows neither.
    ///
    /// # Errors
    /// The catalogue cannot be read.
    pub fn of(catalog: &'c Catalog, tree: &Path) -> Result<Option<TreeRecords<'c>>> {
        let own = catalog.root_of(tree)?;
        let is_other = |root: &Root| own.as_ref().is_none_or(|own| own.id != root.id);
        let mut roots = catalog.roots()?;
        roots.retain(|root| root.path.starts_with(tree) && is_other(root));
        roots.sort_by_key(|root| std::cmp::Reverse(root.path.components().count()));
        roots.extend(own);
        if roots.is_empty() {
            return Ok(None);
        }
        let algorithms = catalog.algorithms()?.into_iter().map(|(id, name)| (id, name.into())).collect();
        Ok(Some(TreeRecords { catalog, algorithms, tree: tree.to_path_buf(), roots, last: None }))
    }

    /// The record of a file by its name below the tree, which is empty for the path of the tree itself.
    ///
    /// # Errors
    /// The catalogue cannot be read.
    pub fn record(&mut self, name: &Path) -> Result<Option<CatalogRecord>> {
        let path = self.path(name);
        for root in self.roots.iter().filter(|root| path.starts_with(&root.path)) {
            let below = root.below(&path);
            let (Some(folder), Some(file)) = (below.parent(), below.file_name()) else { continue };
            let directory = match &self.last {
                Some((id, last, directory)) if *id == root.id && last == folder => *directory,
                _ => {
                    let directory = self.catalog.directory(root, folder)?;
                    self.last = Some((root.id, folder.to_path_buf(), directory));
                    directory
                }
            };
            let record = directory.map(|directory| self.catalog.record(directory, file)).transpose()?;
            if let Some(record) = record.flatten() {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The whole path or address of a file.
    pub fn path(&self, name: &Path) -> PathBuf {
        // An empty name would put a slash behind a file's path.
        if name.as_os_str().is_empty() { self.tree.clone() } else { self.tree.join(name) }
    }

    /// The name of a record's digest, if the catalogue has one of its number.
    pub fn algorithm(&self, record: &CatalogRecord) -> Option<&Arc<str>> {
        self.algorithms.get(&record.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RecordChange;
    use crate::store::tests::{catalog, record};

    #[test]
    fn records_of_trees_below_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, root) = catalog(folder.path());
        let add = RecordChange::Add(record(3));
        catalog.apply(root.id, root.directory, "f".as_ref(), &add).unwrap();
        let above = root.path.parent().unwrap();
        let below = Path::new(root.path.file_name().unwrap()).join("f");
        let mut records = TreeRecords::of(&catalog, above).unwrap().unwrap();
        assert_eq!(records.record(&below).unwrap(), Some(record(3)));
        assert_eq!(records.record(Path::new("f")).unwrap(), None);
        assert!(TreeRecords::of(&catalog, &above.join("elsewhere")).unwrap().is_none());
        let mut records = TreeRecords::of(&catalog, &root.path).unwrap().unwrap();
        assert_eq!(records.record(Path::new("f")).unwrap(), Some(record(3)));
    }
}
