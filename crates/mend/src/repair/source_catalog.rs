//! Finds content in a source by a catalogue, under any name.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum_catalog::store::{Catalog, CatalogError};

use super::Source;
use super::damaged::Damaged;

/// How many files of one content are looked at.
const COPIES: usize = 8;

/// The catalogue of a source, and what it knows of contents that are looked for.
pub struct SourceCatalog {
    catalog: Catalog,
    /// The path or address of the source, as the catalogue has it.
    top: PathBuf,
    /// Paths below the source, by the name of a digest and its value.
    found: HashMap<(String, Vec<u8>), Vec<PathBuf>>,
}

impl SourceCatalog {
    /// That of a source by its address, or by its path in its place: a catalogue that was made there. None if the
    /// catalogue does not know it.
    ///
    /// # Errors
    /// The catalogue cannot be read.
    pub fn of(catalog: Catalog, source: &Source) -> Result<Option<SourceCatalog>, CatalogError> {
        for top in [&*source.address, Path::new(OsStr::from_bytes(&source.root))] {
            if catalog.root_of(top)?.is_some() {
                let top = top.to_path_buf();
                return Ok(Some(SourceCatalog { catalog, top, found: HashMap::new() }));
            }
        }
        Ok(None)
    }

    /// Finds out where the contents of files are.
    pub(super) fn look_for(&mut self, damaged: &[Damaged]) -> Result<(), CatalogError> {
        self.found.clear();
        let contents: Vec<(String, Vec<u8>)> = damaged.iter().map(content).collect();
        let SourceCatalog { catalog, top, found } = self;
        catalog.each_copy_of_contents(&contents, &mut |file| {
            if let Ok(below) = file.path.strip_prefix(&*top) {
                let known: &mut Vec<PathBuf> =
                    found.entry((file.algorithm, file.record.digest.as_bytes().to_vec())).or_default();
                if known.len() < COPIES {
                    known.push(below.to_path_buf());
                }
            }
            Ok::<_, CatalogError>(())
        })
    }

    /// Where the content of a file is that was looked for, by paths below the source.
    pub(super) fn copies(&self, damaged: &Damaged) -> &[PathBuf] {
        self.found.get(&content(damaged)).map_or(&[], Vec::as_slice)
    }
}

fn content(damaged: &Damaged) -> (String, Vec<u8>) {
    (damaged.digest.name().to_string(), damaged.recorded.as_bytes().to_vec())
}
