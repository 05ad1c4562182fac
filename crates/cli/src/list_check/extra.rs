//! Finds files that are there and that no list has.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use verisum::files::check::Event;
use verisum::files::{Excludes, Kind, Order, Walk, WalkOptions};

use super::lists::Lists;
use super::report::Report;
use crate::ui::failure::Failure;

/// Which names were listed, and where to look for others.
///
/// Of each name it keeps eight bytes: a hash with a secret key. That two of 100 million names have the
/// same, and that so an extra file is missed, has a chance below one in a hundred thousand million a file.
pub(super) struct Extra {
    /// Directories, and whether they are bags' payloads.
    directories: Vec<PathBuf>,
    bases: Vec<Option<PathBuf>>,
    here: PathBuf,
    listed: HashSet<u64>,
    state: RandomState,
    /// What is left out.
    excludes: Option<Arc<Excludes>>,
}

impl Extra {
    /// Looks below a directory that the user names, and in the payloads of bags.
    pub(super) fn new(
        directory: Option<&Path>,
        excludes: Option<Arc<Excludes>>,
        lists: &Lists,
    ) -> Result<Extra, Failure> {
        let mut directories = lists.payloads();
        directories.extend(directory.map(Path::to_path_buf));
        let here = match directories.is_empty() {
            true => PathBuf::new(),
            false => std::env::current_dir().map_err(|error| Failure::File {
                name: ".".into(),
                operation: "open",
                error,
            })?,
        };
        let mut extra = Extra {
            directories,
            bases: lists.bases(),
            here,
            listed: HashSet::new(),
            state: RandomState::new(),
            excludes,
        };
        // The lists themselves are listed nowhere.
        for name in lists.names() {
            extra.add(Path::new(&name));
        }
        Ok(extra)
    }

    /// Takes note of a name that is listed.
    pub(super) fn note(&mut self, event: &Event) {
        let Event::File { manifest, listed, .. } = event else { return };
        if self.directories.is_empty() {
            return;
        }
        let base = self.bases.get(*manifest).cloned().flatten().unwrap_or_default();
        for name in std::iter::once(&listed.name).chain(&listed.otherwise) {
            self.add(&base.join(OsStr::from_bytes(name)));
        }
    }

    /// Reports the files that no list has, those of each directory by name.
    pub(super) fn find(&self, report: &mut Report) -> Result<(), Failure> {
        let options =
            WalkOptions { excludes: self.excludes.clone(), order: Order::Name, ..WalkOptions::default() };
        for entry in Walk::new(self.directories.clone(), options) {
            match entry {
                Ok(entry) if entry.kind() == Kind::File => {
                    let path = entry.path();
                    if !self.listed.contains(&self.key(&path)) {
                        report.extra(&path)?;
                    }
                }
                Ok(_) => {}
                Err(error) => report.unseen(&error)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path) {
        let key = self.key(path);
        self.listed.insert(key);
    }

    /// What is kept of a path: the same for all ways to write it, links aside.
    fn key(&self, path: &Path) -> u64 {
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
        self.state.hash_one(whole.as_os_str().as_bytes())
    }
}
