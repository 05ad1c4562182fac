//! From names in manifests to files.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::Base;
use super::group::is_missing;
use crate::store::manifest::Listed;
use crate::{Entry, Error, Operation};

/// Where a file is to be found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Standard input.
    Stdin,
    /// A path.
    File {
        /// Where it is.
        path: PathBuf,
        /// Where else it may be.
        otherwise: Option<PathBuf>,
        /// The directory that it must be in.
        inside: Option<PathBuf>,
    },
}

impl Place {
    /// Where a name leads. No base is for standard input.
    pub(super) fn new(base: &Option<Base>, listed: &Listed) -> Place {
        let Some(base) = base else { return Place::Stdin };
        let (directory, inside) = match base {
            Base::Here => (Path::new(""), None),
            Base::Directory(directory) => (directory.as_path(), None),
            Base::Inside(directory) => (directory.as_path(), Some(directory.clone())),
        };
        let otherwise = listed.otherwise.as_ref().map(|name| directory.join(path_of(name)));
        Place::File { path: directory.join(path_of(&listed.name)), otherwise, inside }
    }

    /// The file, links followed; none if it is standard input.
    pub(super) fn entry(&self) -> Option<Result<Entry, Error>> {
        self.found(&Entry::followed)
    }

    /// What is there itself, be it a link.
    pub(super) fn unfollowed(&self) -> Option<Result<Entry, Error>> {
        self.found(&Entry::named)
    }

    fn found(&self, find: &dyn Fn(&Path) -> Result<Entry, Error>) -> Option<Result<Entry, Error>> {
        let Place::File { path, otherwise, inside } = self else { return None };
        let named = |path: &Path| match inside {
            Some(directory) if !is_inside(path, directory) => Err(outside(path)),
            _ => find(path),
        };
        Some(match (named(path), otherwise) {
            (Err(error), Some(otherwise)) if is_missing(&error) => named(otherwise).map_err(|_| error),
            (result, _) => result,
        })
    }
}

/// A name as a path.
pub(super) fn path_of(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// Whether a path leads to something below a directory, its links followed.
fn is_inside(path: &Path, directory: &Path) -> bool {
    let Ok(rest) = path.strip_prefix(directory) else { return false };
    if rest.components().any(|component| !matches!(component, Component::Normal(_) | Component::CurDir)) {
        return false;
    }
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    match (path.canonicalize(), directory.canonicalize()) {
        (Ok(path), Ok(directory)) => path.starts_with(directory),
        // What is not there leads nowhere.
        _ => true,
    }
}

fn outside(path: &Path) -> Error {
    Error::io(path, Operation::Open, io::Error::other("the name leads out of its directory"))
}
