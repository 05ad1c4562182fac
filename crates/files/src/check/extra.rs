//! Finds files that no list has.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::Event;
use super::lists::{Lists, PayloadList};
use crate::{Excludes, FileError, Kind, Order, Walk, WalkOptions};

/// Which names were listed, and where to look for others.
///
/// Of each name it keeps eight bytes, in bags with several manifests twice as many: a hash with a secret key. That two of 100 million names have the
/// same, and that so an extra file is missed, has a chance below one in a hundred thousand million a file.
pub struct Extra {
    directories: Vec<PathBuf>,
    /// The lists that must have each file of a bag's payload.
    payload_lists: Vec<PayloadList>,
    bases: Vec<Option<PathBuf>>,
    here: PathBuf,
    listed: HashSet<u64>,
    /// Whether a list could not be read to its end: it may have any file.
    is_incomplete: bool,
    state: RandomState,
    /// What is left out.
    excludes: Option<Arc<Excludes>>,
    /// The folder of the last name, and where it leads.
    last_folder: RefCell<(PathBuf, PathBuf)>,
}

impl Extra {
    /// Looks below a directory, and in the payloads of the bags among the lists.
    ///
    /// # Errors
    /// The working directory is gone.
    pub fn new(
        directory: Option<&Path>,
        excludes: Option<Arc<Excludes>>,
        lists: &Lists,
    ) -> io::Result<Extra> {
        let mut directories = lists.payloads();
        directories.extend(directory.map(Path::to_path_buf));
        let here = match directories.is_empty() {
            true => PathBuf::new(),
            false => std::env::current_dir()?,
        };
        let mut extra = Extra {
            directories,
            payload_lists: lists.payload_lists(),
            bases: lists.bases(),
            here,
            listed: HashSet::new(),
            is_incomplete: false,
            state: RandomState::new(),
            excludes,
            last_folder: RefCell::default(),
        };
        // The lists themselves are listed nowhere.
        for name in lists.names() {
            extra.add(None, Path::new(&name));
        }
        Ok(extra)
    }

    /// Takes note of a name that is listed.
    pub fn note(&mut self, event: &Event) {
        self.is_incomplete |= matches!(event, Event::End { error: Some(_), .. });
        let Event::File { manifest, listed, .. } = event else { return };
        if self.directories.is_empty() {
            return;
        }
        let base = self.bases.get(*manifest).cloned().flatten().unwrap_or_default();
        let must_be_whole = self.payload_lists.iter().any(|list| list.manifest == *manifest);
        for name in std::iter::once(&listed.name).chain(&listed.otherwise) {
            let path = base.join(OsStr::from_bytes(name));
            self.add(None, &path);
            if must_be_whole {
                self.add(Some(*manifest), &path);
            }
        }
    }

    /// The files that no list has, or a manifest of their bag has not, which is told; those of each directory by name. And
    /// what could not be looked at. None where a list could not be read.
    pub fn find(&self) -> impl Iterator<Item = Result<(PathBuf, Option<usize>), FileError>> {
        let options =
            WalkOptions { excludes: self.excludes.clone(), order: Order::Name, ..WalkOptions::default() };
        let directories = if self.is_incomplete { Vec::new() } else { self.directories.clone() };
        let walk = Walk::new(directories, options);
        walk.filter_map(|entry| match entry {
            Ok(entry) if entry.kind() == Kind::File => {
                let path = entry.path();
                let lacks = |list: &&PayloadList| {
                    path.starts_with(&list.payload)
                        && !self.listed.contains(&self.key(Some(list.manifest), &path))
                };
                match self.listed.contains(&self.key(None, &path)) {
                    true => self.payload_lists.iter().find(lacks).map(|list| Ok((path, Some(list.manifest)))),
                    false => Some(Ok((path, None))),
                }
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn add(&mut self, manifest: Option<usize>, path: &Path) {
        let key = self.key(manifest, path);
        self.listed.insert(key);
    }

    /// What is kept of a path in one list, or in any: the same for all ways to write it, and for all links that lead to
    /// its folder.
    fn key(&self, manifest: Option<usize>, path: &Path) -> u64 {
        let mut whole = PathBuf::new();
        for component in self.here.join(path).components() {
            match component {
                Component::ParentDir => {
                    whole.pop();
                }
                Component::CurDir => {}
                other => whole.push(other),
            }
        }
        if let (Some(folder), Some(name)) = (whole.parent(), whole.file_name()) {
            let mut last = self.last_folder.borrow_mut();
            if last.0 != folder {
                // What is not there leads nowhere.
                let leads = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
                *last = (folder.to_path_buf(), leads);
            }
            whole = last.1.join(name);
        }
        self.state.hash_one((manifest, whole.as_os_str().as_bytes()))
    }
}
