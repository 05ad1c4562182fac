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
    root: Root,
    /// Where the tree is below the root.
    below: PathBuf,
    /// The directory that was asked for last, below the root, and its number.
    last: Option<(PathBuf, Option<i64>)>,
}

impl<'c> TreeRecords<'c> {
    /// Those of a tree by its absolute path or its address. None where the catalogue does not know it.
    ///
    /// # Errors
    /// The catalogue cannot be read.
    pub fn of(catalog: &'c Catalog, tree: &Path) -> Result<Option<TreeRecords<'c>>> {
        let Some(root) = catalog.root_of(tree)? else { return Ok(None) };
        let below = root.below(tree).to_path_buf();
        let algorithms = catalog.algorithms()?.into_iter().map(|(id, name)| (id, name.into())).collect();
        Ok(Some(TreeRecords { catalog, algorithms, root, below, last: None }))
    }

    /// The record of a file by its name below the tree, which is empty for the path of the tree itself.
    ///
    /// # Errors
    /// The catalogue cannot be read.
    pub fn record(&mut self, name: &Path) -> Result<Option<CatalogRecord>> {
        let path = self.below_root(name);
        let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let directory = match &self.last {
            Some((last, directory)) if last == folder => *directory,
            _ => {
                let directory = self.catalog.directory(&self.root, folder)?;
                self.last = Some((folder.to_path_buf(), directory));
                directory
            }
        };
        directory.map_or(Ok(None), |directory| self.catalog.record(directory, file))
    }

    /// The whole path or address of a file.
    pub fn path(&self, name: &Path) -> PathBuf {
        self.root.path.join(self.below_root(name))
    }

    /// The name of a record's digest, if the catalogue has one of its number.
    pub fn algorithm(&self, record: &CatalogRecord) -> Option<&Arc<str>> {
        self.algorithms.get(&record.algorithm)
    }

    fn below_root(&self, name: &Path) -> PathBuf {
        // An empty name would put a slash behind a file's path.
        if name.as_os_str().is_empty() { self.below.clone() } else { self.below.join(name) }
    }
}
