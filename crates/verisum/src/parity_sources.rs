//! Parity as a source of repairs: finds what may mend the files below a path.

use std::collections::{BTreeSet, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum_catalog::store::{Catalog, CatalogError};
use verisum_files::{Kind, Walk, WalkOptions};
use verisum_mend::repair::Source;
use verisum_parity::{ParityError, ParityPlace, USUAL_PLACE};

/// The longest path that the system takes, in bytes.
const PATH_MAX: usize = 4096;

/// The nearest directory above a file, or itself, that has parity.
pub fn top_of(path: &Path) -> Option<&Path> {
    // A list may have any names: each directory of a longer one would be asked for in vain.
    let mut folders = path.ancestors().skip_while(|folder| folder.as_os_str().len() >= PATH_MAX);
    folders.find(|folder| folder.join(USUAL_PLACE).is_dir())
}

/// The directories below a path that have parity and are the nearest above one of these files.
pub fn tops_above(path: &Path, files: impl Iterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let mut tops = BTreeSet::new();
    let mut seen = HashSet::new();
    for file in files {
        for folder in
            file.ancestors().skip(1).take_while(|folder| folder.starts_with(path) && *folder != path)
        {
            if !seen.insert(folder.to_path_buf()) {
                break;
            }
            if folder.join(USUAL_PLACE).is_dir() {
                tops.insert(folder.to_path_buf());
            }
        }
    }
    tops
}

/// All directories below a path that have parity.
pub fn tops_below(path: &Path) -> BTreeSet<PathBuf> {
    let walk = Walk::new(vec![path.to_path_buf()], WalkOptions::default()).flatten();
    let places = walk.filter(|entry| entry.kind() == Kind::Directory && entry.name() == USUAL_PLACE);
    let tops = places.filter_map(|entry| entry.path().parent().map(Path::to_path_buf));
    tops.filter(|top| top != path).collect()
}

/// The same of the files below a path that a catalogue has as bad or missing.
///
/// # Errors
/// The catalogue cannot be read.
pub fn troubled(catalog: &Catalog, path: &Path) -> Result<BTreeSet<PathBuf>, CatalogError> {
    let mut folders = BTreeSet::new();
    if let Some(root) = catalog.root_of(path)? {
        catalog.each_in_trouble(&root, true, true, &mut |file| {
            if file.path.starts_with(path) {
                folders.insert(file.path.with_file_name("-"));
            }
            Ok::<_, CatalogError>(())
        })?;
    }
    Ok(tops_above(path, folders.into_iter()))
}

/// The parity that may mend what is below a path, as sources: that of PATH in the directory `named`, or what lies
/// in PATH, above it, and in the directories `below`. What lies there and cannot be used is left out, and told to
/// `unusable`.
///
/// # Errors
/// The parity that is named cannot be used.
pub fn sources(
    path: &Path,
    named: Option<&Path>,
    below: BTreeSet<PathBuf>,
    unusable: &mut dyn FnMut(ParityError),
) -> Result<Vec<Source<'static>>, ParityError> {
    if named.is_some() {
        return Ok(vec![source(path, path, named)?]);
    }
    // The nearest first.
    let tops = below.iter().rev().map(PathBuf::as_path).chain(top_of(path));
    let mut found = Vec::new();
    for top in tops {
        match source(path, top, None) {
            Ok(source) => found.push(source),
            Err(ParityError::None { .. }) => {}
            Err(error) => unusable(error),
        }
    }
    Ok(found)
}

fn source(path: &Path, top: &Path, named: Option<&Path>) -> Result<Source<'static>, ParityError> {
    let opened = ParityPlace::open(top, named)?;
    let root = path.strip_prefix(top).unwrap_or(Path::new("")).as_os_str().as_bytes().to_vec();
    let address = named.map_or_else(|| top.join(USUAL_PLACE), Path::to_path_buf);
    let part = top.strip_prefix(path).unwrap_or(Path::new("")).to_path_buf();
    Ok(Source { root, part, is_parity: true, ..Source::new(&address, Box::new(opened)) })
}
