//! Compares the listing of a remote tree with its records.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::scrub::jobs::Outcome;
use crate::scrub::writer::Message;
use crate::scrub::{FileFault, Scope, ScrubOptions};
use crate::store::{Catalog, CatalogError, CatalogRecord, Stamp, State};
use verisum_files::Excludes;

/// How many directories' numbers are remembered.
const REMEMBERED: usize = 100_000;

/// What was met, in eight bytes a file.
pub(super) struct Listing<'a> {
    scope: &'a Scope,
    excludes: Option<&'a Excludes>,
    /// Roots of their own below.
    others: Vec<PathBuf>,
    directories: HashMap<Vec<u8>, i64>,
    next_directory: i64,
    state: RandomState,
    /// Whether anything was listed.
    has_met_any: bool,
    met: Vec<u64>,
    /// What could not be read and may be a directory.
    pub unlisted: Vec<Vec<u8>>,
    /// Something could not be listed, and nobody knows what.
    pub is_blind: bool,
    /// Why the first of those could not be listed, before anything was; it is not reported yet.
    pub first_error: Option<FileFault>,
    pub outcome: Outcome,
}

impl<'a> Listing<'a> {
    pub(super) fn new(scope: &'a Scope, options: &'a ScrubOptions, others: Vec<PathBuf>) -> Listing<'a> {
        Listing {
            scope,
            excludes: options.excludes.as_deref(),
            others,
            directories: HashMap::new(),
            next_directory: 0,
            state: RandomState::new(),
            has_met_any: false,
            met: Vec::new(),
            unlisted: Vec::new(),
            is_blind: false,
            first_error: None,
            outcome: Outcome::default(),
        }
    }

    /// Prepares for a batch; until it is written nobody else may make directories.
    pub(super) fn begin(&mut self, catalog: &Catalog) -> Result<(), CatalogError> {
        if self.directories.len() >= REMEMBERED {
            self.directories.clear();
        }
        self.next_directory = catalog.last_directory()? + 1;
        Ok(())
    }

    /// Whether there was no file at all.
    pub(super) fn has_met_nothing(&self) -> bool {
        !self.has_met_any
    }

    /// Takes note that something was listed.
    pub(super) fn meet_any(&mut self) {
        self.has_met_any = true;
    }

    /// Whether anything may be left out.
    pub(super) fn leaves_out_any(&self) -> bool {
        self.excludes.is_some() || !self.others.is_empty()
    }

    /// Whether a file is left out, or belongs to another root.
    pub(super) fn leaves_out(&self, name: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(name));
        self.excludes.is_some_and(|excludes| excludes.leaves_out_file(path))
            || !self.others.is_empty()
                && self.others.iter().any(|other| self.scope.path.join(path).starts_with(other))
    }

    /// The paths below which nothing was met, or nobody knows what.
    pub(super) fn passed_over(&self) -> HashSet<PathBuf> {
        let unlisted = self.unlisted.iter().map(|name| self.scope.path.join(OsStr::from_bytes(name)));
        let everything = self.is_blind.then(|| self.scope.path.clone());
        unlisted.chain(self.others.iter().cloned()).chain(everything).collect()
    }

    /// The number of a file's directory, and what is recorded of it; none if its directory is not recorded.
    pub(super) fn known(
        &self,
        catalog: &Catalog,
        name: &[u8],
    ) -> Result<Option<(i64, Option<CatalogRecord>)>, CatalogError> {
        let (folder, file) = split(name);
        let mut directory = match self.directories.get(folder) {
            Some(known) => *known,
            None => self.scope.directory,
        };
        if !self.directories.contains_key(folder) {
            for name in parts(folder) {
                match catalog.directory_in(directory, OsStr::from_bytes(name))? {
                    Some(known) => directory = known,
                    None => return Ok(None),
                }
            }
        }
        Ok(Some((directory, catalog.record(directory, OsStr::from_bytes(file))?)))
    }

    /// Takes note of a file that is there, and that is recorded or will be.
    pub(super) fn meet(&mut self, directory: i64, name: &[u8], is_known: bool) {
        self.met.push(self.state.hash_one((directory, split(name).1)));
        self.outcome.known += u64::from(is_known);
    }

    /// The number of a file's directory, which is made if need be, and what is recorded.
    pub(super) fn locate(
        &mut self,
        catalog: &Catalog,
        name: &[u8],
        messages: &mut Vec<Message>,
    ) -> Result<(i64, Option<CatalogRecord>), CatalogError> {
        let (folder, file) = split(name);
        let directory = self.directory(catalog, folder, messages)?;
        let record = catalog.record(directory, OsStr::from_bytes(file))?;
        Ok((directory, record))
    }

    fn directory(
        &mut self,
        catalog: &Catalog,
        folder: &[u8],
        messages: &mut Vec<Message>,
    ) -> Result<i64, CatalogError> {
        if let Some(known) = self.directories.get(folder) {
            return Ok(*known);
        }
        let (above, name) = split(folder);
        let directory = match folder {
            b"" => self.scope.directory,
            _ => {
                let parent = self.directory(catalog, above, messages)?;
                let name = OsStr::from_bytes(name);
                match catalog.directory_in(parent, name)? {
                    Some(known) => known,
                    None => {
                        let id = self.next_directory;
                        self.next_directory += 1;
                        messages.push(Message::Directory { id, parent, name: name.into(), device: 0 });
                        id
                    }
                }
            }
        };
        self.directories.insert(folder.to_vec(), directory);
        Ok(directory)
    }

    /// Calls `each` with the recorded files that were not met, as far as they would have been: what was written after
    /// `until` is in no listing of that time.
    pub(super) fn missing(
        &mut self,
        catalog: &Catalog,
        directory: i64,
        until: Option<Stamp>,
        each: &mut dyn FnMut((i64, OsString), State),
    ) -> Result<(), CatalogError> {
        if self.is_blind {
            return Ok(());
        }
        self.met.sort_unstable();
        let is_out = |path: &[u8], is_directory| {
            let path = Path::new(OsStr::from_bytes(path));
            let may_be_there = |unlisted: &Vec<u8>| path.starts_with(OsStr::from_bytes(unlisted));
            self.unlisted.iter().any(may_be_there)
                || self.excludes.is_some_and(|excludes| excludes.leaves_out(path, is_directory))
        };
        let mut folders = vec![(directory, Vec::new())];
        while let Some((id, folder)) = folders.pop() {
            let below = |name: &[u8]| match folder.is_empty() {
                true => name.to_vec(),
                false => [&folder[..], b"/", name].concat(),
            };
            catalog.known_in(id, |name, known| {
                let is_met = self.met.binary_search(&self.state.hash_one((id, name))).is_ok();
                let is_newer = until.is_some_and(|until| known.mtime > until);
                if !is_met && !is_newer && !is_out(&below(name), false) {
                    each((id, OsString::from_vec(name.to_vec())), known.state);
                }
                true
            })?;
            let inside = catalog.directories_in(id)?.into_iter().map(|one| (one.id, below(&one.name)));
            folders.extend(inside.filter(|(_, path)| !is_out(path, true)));
        }
        Ok(())
    }
}

/// The directory and the last name of a path.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}
