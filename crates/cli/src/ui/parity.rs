//! Parity beside files: whether it may repair a file, and parity as a source of repairs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum::catalog::store::Catalog;
use verisum::files::{Kind, Walk, WalkOptions};
use verisum::mend::repair::Source;
use verisum::parity::{ParityError, ParityFiles, ParityPlace, USUAL_PLACE};

use crate::ui::failure::Failure;
use crate::ui::{self, PROGRAM};

/// The nearest directory above a file, or itself, that has parity.
fn top_of(path: &Path) -> Option<&Path> {
    path.ancestors().find(|folder| folder.join(USUAL_PLACE).is_dir())
}

/// The directories below a path that have parity and are the nearest above one of these files.
pub(crate) fn tops_above(path: &Path, files: impl Iterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
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
pub(crate) fn tops_below(path: &Path) -> BTreeSet<PathBuf> {
    let walk = Walk::new(vec![path.to_path_buf()], WalkOptions::default()).flatten();
    let places = walk.filter(|entry| entry.kind() == Kind::Directory && entry.name() == USUAL_PLACE);
    let tops = places.filter_map(|entry| entry.path().parent().map(Path::to_path_buf));
    tops.filter(|top| top != path).collect()
}

/// The same of the files below a path that a catalogue has as bad or missing.
pub(crate) fn troubled(catalog: &Catalog, path: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut folders = BTreeSet::new();
    if let Some(root) = catalog.root_of(path)? {
        catalog.each_in_trouble(&root, true, true, &mut |file| {
            if file.path.starts_with(path) {
                folders.insert(file.path.with_file_name("-"));
            }
            Ok::<_, Failure>(())
        })?;
    }
    Ok(tops_above(path, folders.into_iter()))
}

/// The parity that may mend what is below a path, as sources: that of PATH in the directory `named`, or what lies
/// in PATH, above it, and in the directories `below`. What lies there and cannot be used is told.
pub(crate) fn sources(
    path: &Path,
    named: Option<&Path>,
    below: BTreeSet<PathBuf>,
) -> Result<Vec<Source<'static>>, Failure> {
    if named.is_some() {
        return Ok(source(path, path, named)?.into_iter().collect());
    }
    // The nearest first.
    let tops = below.iter().rev().map(PathBuf::as_path).chain(top_of(path));
    let mut found = Vec::new();
    for top in tops {
        found.extend(source(path, top, None)?);
    }
    Ok(found)
}

fn source(path: &Path, top: &Path, named: Option<&Path>) -> Result<Option<Source<'static>>, Failure> {
    let opened = match ParityPlace::open(top, named) {
        Ok(opened) => opened,
        Err(error) if named.is_some() => return Err(error.into()),
        Err(ParityError::None { .. }) => return Ok(None),
        Err(error) => {
            ui::say(PROGRAM, &format!("{}: repairing without it", Failure::from(error).message()));
            return Ok(None);
        }
    };
    let root = path.strip_prefix(top).unwrap_or(Path::new("")).as_os_str().as_bytes().to_vec();
    let address = named.map_or_else(|| top.join(USUAL_PLACE), Path::to_path_buf);
    let part = top.strip_prefix(path).unwrap_or(Path::new("")).to_path_buf();
    Ok(Some(Source { root, part, is_parity: true, ..Source::new(&address, Box::new(opened)) }))
}

/// The parity of a tree that somebody named, in another directory.
#[derive(Clone, Debug)]
pub(crate) struct NamedParity {
    pub(crate) tree: PathBuf,
    pub(crate) place: PathBuf,
}

/// What lies beside files, read as it is asked for, and what was named. Nothing stays open: whoever reads the output
/// slowly is in nobody's way.
#[derive(Default)]
pub(crate) struct Beside {
    named: Option<NamedParity>,
    read: HashMap<PathBuf, Option<ParityFiles>>,
}

impl Beside {
    pub(crate) fn with(named: Option<NamedParity>) -> Beside {
        Beside { named, ..Beside::default() }
    }

    /// The parity that a file has, if it has some. How much of it is lost only a repair finds out.
    pub(crate) fn of(&mut self, file: &Path) -> Option<PathBuf> {
        let named = self.named.clone().filter(|named| file.starts_with(&named.tree));
        let (top, place) = match &named {
            Some(NamedParity { tree, place }) => (&**tree, Some(&**place)),
            None => (top_of(file)?, None),
        };
        let read = self.read.entry(top.to_path_buf());
        let files = read.or_insert_with(|| ParityFiles::read(top, place).ok()).as_ref()?;
        let place = place.map_or_else(|| top.join(USUAL_PLACE), Path::to_path_buf);
        files.has(file.strip_prefix(top).ok()?).then_some(place)
    }
}

/// Fails if the parity that was named is none.
pub(crate) fn require(NamedParity { tree, place }: &NamedParity) -> Result<(), Failure> {
    Ok(ParityFiles::read(tree, Some(place)).map(drop)?)
}
