//! Taking a file as it is now, on somebody's word: the only way for bad data to become a record.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use verisum_digest::Digest;

use super::top::{Top, is_gone};
use super::writer::seen;
use super::{Error, digest_failed};
use crate::Stat;
use crate::reread::{self, Bypass};
use crate::store::catalog::{Catalog, Change, Position, Record, Root, Seen, State};

/// How many files in trouble are looked at at once.
const PAGE: usize = 1024;

/// The digest of a file whose record does not tell any more which it had.
const FALLBACK: &str = "sha256";

/// Why a file that is on another file system is not accepted.
const ELSEWHERE: &str = "open: another file system is mounted there (--cross-file-systems enters it)";

/// A file that was accepted, or would be.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Its path.
    pub path: PathBuf,
    /// What it was found to be.
    pub state: State,
    /// The name of the digest.
    pub algorithm: String,
    /// What was recorded.
    pub old: Seen,
    /// What is there now; `None` if the file is gone, and its record with it.
    pub new: Option<Seen>,
    /// Why it cannot be accepted.
    pub error: Option<String>,
}

/// Accepts the files in trouble that a path names or that are below it: what is there now becomes the
/// record, and records of missing files are removed. What is on another file system than its tree is left
/// alone unless `enters` says that these are entered. With `dry` nothing is written. Returns how many were
/// found. Whoever calls holds the catalogue's lock.
pub fn accept(
    catalog: &Catalog,
    path: &Path,
    (dry, enters): (bool, bool),
    now: i64,
    report: &mut dyn FnMut(Accepted),
) -> Result<u64, Error> {
    let Some(root) = catalog.root_of(path)? else {
        let why = match catalog.roots()?.iter().any(|root| root.path.starts_with(path)) {
            true => {
                "accept: it is above a tree of the catalogue: name the tree, or what is in it (`verisum catalog \
                 status` lists the trees)"
            }
            false => "accept: it is in no tree of the catalogue",
        };
        return Err(Error::Root { path: path.to_path_buf(), why });
    };
    let algorithms = catalog.algorithms()?;
    let top = Top::open(&root.path, !enters)?;
    let accepting = Accepting { catalog, root: &root, top, algorithms, dry, now };
    let mut found = 0;
    let mut after = Position::START;
    let mut is_any_damaged = false;
    loop {
        let page = catalog.in_trouble(root.id, &after, true, PAGE)?;
        let Some((last, _)) = page.last() else { break };
        after = last.clone();
        for (Position { directory, name, .. }, record) in page {
            let place = root.path.join(catalog.path_in_root(directory)?).join(OsStr::from_bytes(&name));
            if place.starts_with(path) {
                found += 1;
                is_any_damaged |= record.state == State::DAMAGED;
                report(accepting.accept(directory, OsStr::from_bytes(&name).into(), place, record)?);
            }
        }
    }
    if is_any_damaged && !dry {
        // The length that the sums had of it may not be the one that went with its record.
        catalog.recount(root.id)?;
    }
    Ok(found)
}

struct Accepting<'a> {
    catalog: &'a Catalog,
    root: &'a Root,
    top: Top,
    algorithms: HashMap<i64, String>,
    dry: bool,
    now: i64,
}

impl Accepting<'_> {
    fn accept(&self, directory: i64, name: OsString, path: PathBuf, old: Record) -> Result<Accepted, Error> {
        let recorded = self.algorithms.get(&old.algorithm);
        let is_unknown = recorded
            .is_some_and(|name| matches!(Digest::find(name), Err(verisum_digest::Error::Unknown { .. })));
        let old = if old.state == State::DAMAGED || is_unknown { self.mended(old)? } else { old };
        let algorithm = self.algorithms.get(&old.algorithm).cloned().unwrap_or_else(|| FALLBACK.to_string());
        let mut accepted =
            Accepted { path, state: old.state, algorithm, old: seen(&old), new: None, error: None };
        let digest = Digest::find(&accepted.algorithm).map_err(digest_failed(&accepted.algorithm))?;
        match read(&self.top, &accepted.path, &digest) {
            Ok(new) => accepted.new = new,
            Err(error) => {
                accepted.error = Some(error);
                return Ok(accepted);
            }
        }
        if !self.dry {
            let root = self.root.id;
            self.catalog.begin()?;
            let written = self.catalog.apply(root, directory, &name, &Change::Forget(old)).and_then(|()| {
                let Some(new) = &accepted.new else { return Ok(()) };
                let changed = if new.digest == old.digest { old.changed } else { self.now };
                let record = Record {
                    size: new.size,
                    mtime: new.mtime,
                    ctime: new.ctime,
                    inode: new.inode,
                    digest: new.digest,
                    changed,
                    verified: self.now,
                    state: State::Sound,
                    ..old
                };
                self.catalog.apply(root, directory, &name, &Change::Add(record))
            });
            match written {
                Ok(()) => self.catalog.commit()?,
                Err(error) => {
                    self.catalog.roll_back();
                    return Err(error.into());
                }
            }
        }
        Ok(accepted)
    }
}

impl Accepting<'_> {
    /// A damaged record with what is of use in a new one: its digest may be of no algorithm, and its times
    /// are of none.
    fn mended(&self, old: Record) -> Result<Record, Error> {
        let known = self.algorithms.get(&old.algorithm).and_then(|name| Digest::find(name).ok());
        let algorithm = match known.is_some_and(|digest| digest.len() == old.digest.as_bytes().len()) {
            true => old.algorithm,
            false => self.catalog.algorithm(FALLBACK)?,
        };
        Ok(Record { algorithm, first_seen: self.now, changed: self.now, ..old })
    }
}

/// What file is at a path now; `None` if nothing is, or something else, such as a link or a directory.
fn read(top: &Top, path: &Path, digest: &Digest) -> Result<Option<Seen>, String> {
    let found = top.find(path);
    if is_gone(&found) {
        return Ok(None);
    }
    let opened = found.and_then(|(entry, _)| entry.open());
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.errno() == Some(Errno::NOENT) => return Ok(None),
        Err(error) if error.errno() == Some(Errno::XDEV) => return Err(ELSEWHERE.to_string()),
        Err(error) => return Err(super::error_text(&error)),
    };
    if let Ok(stat) = Stat::of(&file) {
        crate::system::settle(&file, &stat);
    }
    match reread::whole(&file, digest, Bypass::No) {
        Ok(read) if read.before.is_same_state(&read.after) => Ok(Some(Seen::new(&read.after, read.digest))),
        Ok(_) => Err("read: it changed while it was read".to_string()),
        Err(failed) => Err(format!("read: {failed}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_any_more_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let digest = Digest::find("sha256").unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "content").unwrap();
        std::fs::create_dir(path("directory")).unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), kind, mode, 0).unwrap();
        std::fs::write(path("directory/file"), "content").unwrap();
        std::os::unix::fs::symlink("directory", path("linked")).unwrap();
        let top = Top::open(folder.path(), true).unwrap();
        for name in ["file", "directory/file"] {
            assert!(read(&top, &path(name), &digest).unwrap().is_some());
        }
        for name in ["directory", "link", "fifo", "nothing", "file/below", "linked/file"] {
            assert!(read(&top, &path(name), &digest).unwrap().is_none(), "{name}");
        }
    }
}
