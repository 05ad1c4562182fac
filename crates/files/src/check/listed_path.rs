//! Finds the files that manifests name.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Base;
use super::group::is_missing;
use crate::store::manifest::Listed;
use crate::{Directory, Entry, FileError, Kind, Operation};

/// Where a file is to be found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ListedPath {
    /// Standard input.
    Stdin,
    /// A name. As bytes, for `f/` is another file than `f` to the system, and none to a path.
    File {
        name: Vec<u8>,
        /// Another name that it may have.
        otherwise: Option<Vec<u8>>,
        /// Where the names begin.
        directory: PathBuf,
        /// Whether they must not leave the directory.
        inside: bool,
    },
}

impl ListedPath {
    /// Where a name leads. No base is for standard input.
    pub(super) fn new(base: &Option<Base>, listed: &Listed) -> ListedPath {
        let (directory, inside) = match base {
            None => return ListedPath::Stdin,
            Some(Base::Here) => (PathBuf::new(), false),
            Some(Base::Directory(directory)) => (directory.clone(), false),
            Some(Base::Inside(directory)) => (directory.clone(), true),
        };
        let (name, otherwise) = (listed.name.clone(), listed.otherwise.clone());
        ListedPath::File { name, otherwise, directory, inside }
    }

    /// Where its name begins.
    pub(super) fn directory(&self) -> &Path {
        match self {
            ListedPath::Stdin => Path::new(""),
            ListedPath::File { directory, .. } => directory,
        }
    }

    /// Whether it must not leave the directory where the names begin.
    pub(super) fn is_inside(&self) -> bool {
        matches!(self, ListedPath::File { inside: true, .. })
    }

    /// The file, links followed unless they may leave the directory; none if it is standard input.
    pub(super) fn entry(&self) -> Option<Result<Entry, FileError>> {
        self.found(&|directory, name, inside| match inside {
            false => Entry::followed(&directory.join(name)),
            true => beneath(directory, name).and_then(|entry| match entry.kind() {
                Kind::Link => Err(FileError::io(&entry.path(), Operation::Open, io::Error::other(IS_LINK))),
                _ => Ok(entry),
            }),
        })
    }

    /// What is there itself, be it a link.
    pub(super) fn unfollowed(&self) -> Option<Result<Entry, FileError>> {
        self.found(&|directory, name, inside| match inside {
            false => Entry::named(&directory.join(name)),
            true => beneath(directory, name),
        })
    }

    fn found(
        &self,
        find: &dyn Fn(&Path, &Path, bool) -> Result<Entry, FileError>,
    ) -> Option<Result<Entry, FileError>> {
        let ListedPath::File { name, otherwise, directory, inside } = self else { return None };
        Some(match (find(directory, path_of(name), *inside), otherwise) {
            (Err(error), Some(otherwise)) if is_missing(&error) => {
                find(directory, path_of(otherwise), *inside).map_err(|_| error)
            }
            (result, _) => result,
        })
    }
}

/// Why a link in a directory that no name may leave is not followed.
const IS_LINK: &str = "the name is a link, which may lead out of its directory";

fn beneath(directory: &Path, name: &Path) -> Result<Entry, FileError> {
    Entry::beneath(&Directory::named(directory)?, name)
}

/// A name as a path.
pub(super) fn path_of(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}
