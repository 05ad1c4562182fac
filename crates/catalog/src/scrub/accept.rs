//! `verisum accept`: records a file as it is now. Nothing else makes bad data a record.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use verisum_digest::Digest;

use super::digests::digest_failed;
use super::remote_tree::{Ask, Condition, PlaceTree, Request, Response, is_no_file};
use super::top_directory::{Top, is_gone};
use super::tree_guard::{require_tree, unmounted};
use super::{FileFault, RootFault, ScrubError};
use crate::store::{
    Catalog, CatalogRecord, GoneContents, Moment, Position, RecordChange, RecordName, Root, Seen, Stamp,
    State,
};
use verisum_files::reread::{self, Bypass};
use verisum_files::{Stat, Timestamp};

/// How many files in trouble are looked at at once.
const PAGE: usize = 1024;

/// The digest of a file whose record does not tell any more which it had.
const FALLBACK: &str = "sha256";

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
    pub error: Option<FileFault>,
}

/// What to accept.
#[derive(Clone, Copy, Debug)]
pub struct Accept<'a> {
    /// A file, or a directory for all files in trouble below it.
    pub path: &'a Path,
    /// Write nothing.
    pub dry: bool,
    /// Accept only that files are gone, and nothing that is bad or held.
    pub only_missing: bool,
    /// Other file systems below are entered; otherwise what is on them is left alone.
    pub cross_file_systems: bool,
    /// The time of now, for the records.
    pub now: Timestamp,
}

/// Reads files as they are now, by their paths and digests; `None` for each that is not there, or is something
/// else than a file.
type Read<'a> = &'a mut dyn FnMut(&[(PathBuf, Digest)]) -> Vec<Result<Option<Seen>, FileFault>>;

/// Accepts the files in trouble that a path names or that are below it: what is there now becomes the
/// record, and records of missing files are removed. What was bad there before and is no longer is forgotten.
/// With `dry` nothing is written. Returns how many there were of all these. Whoever calls holds the catalogue's lock.
pub fn accept(catalog: &Catalog, what: &Accept, report: &mut dyn FnMut(Accepted)) -> Result<u64, ScrubError> {
    let root = root_of(catalog, what.path)?;
    let top = Top::open(&root.path, !what.cross_file_systems)?;
    require_tree(catalog, &root, what.path)?;
    let read_one = |(path, digest): &(PathBuf, Digest)| {
        let found = read(&top, path, digest)?;
        // What is on a file system that is not mounted is not gone.
        let failed = |error: ScrubError| FileFault::Catalog(error.into());
        match found.is_none() && unmounted(catalog, &root, path).map_err(failed)?.is_some() {
            true => Err(FileFault::Root(RootFault::Unmounted)),
            false => Ok(found),
        }
    };
    let mut read = |files: &[(PathBuf, Digest)]| files.iter().map(read_one).collect();
    accept_with(catalog, what, (1, &mut read), report)
}

/// The same in the tree of any place that is the root of the path in the catalogue.
pub fn accept_tree(
    catalog: &Catalog,
    what: &Accept,
    tree: &mut PlaceTree,
    report: &mut dyn FnMut(Accepted),
) -> Result<u64, ScrubError> {
    if tree.place.is_here() {
        return accept(catalog, what, report);
    }
    let root = root_of(catalog, what.path)?.path;
    let mut read = |files: &[(PathBuf, Digest)]| {
        let mut found: HashMap<PathBuf, Result<Option<Seen>, FileFault>> = HashMap::new();
        for (_, digest) in files {
            let of_digest = |(path, other): &&(PathBuf, Digest)| {
                other.name() == digest.name() && !found.contains_key(path)
            };
            let same: Vec<&PathBuf> = files.iter().filter(of_digest).map(|(path, _)| path).collect();
            if !same.is_empty() {
                let read = read_remote(tree, digest, &same, &root);
                found.extend(same.into_iter().cloned().zip(read));
            }
        }
        let unread = || Err(FileFault::NoAnswer);
        files.iter().map(|(path, _)| found.remove(path).unwrap_or_else(unread)).collect()
    };
    accept_with(catalog, what, (PAGE, &mut read), report)
}

/// What files are now; nothing where there is none, or something else.
fn read_remote(
    tree: &mut PlaceTree,
    digest: &Digest,
    paths: &[&PathBuf],
    root: &Path,
) -> Vec<Result<Option<Seen>, FileFault>> {
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_vec();
    let requests: Vec<Request> =
        paths.iter().map(|path| Request { name: name(path), condition: Condition::default() }).collect();
    let mut found: HashMap<Vec<u8>, Result<Option<Seen>, FileFault>> = HashMap::new();
    let ended = tree.ask(digest, Ask::Settled(requests.clone()), &mut |response| {
        match response {
            // What the user takes over may be other than what was uploaded.
            Response::File(Request { name, condition }, digest)
            | Response::Contradicted(Request { name, condition }, digest, _) => {
                let Condition { size, mtime, identity, .. } = condition;
                let inode = identity.map_or(0, |identity| identity.number);
                found.insert(name, Ok(Some(Seen { size, mtime, ctime: Stamp::UNKNOWN, inode, digest })));
            }
            Response::Changed(name) => {
                found.insert(name, Err(FileFault::Changed));
            }
            Response::Unread { name, error, .. } => {
                found.insert(name, if is_no_file(&error) { Ok(None) } else { Err(error) });
            }
            Response::Listed(..) | Response::Unlisted(_) => {}
        }
        true
    });
    match ended {
        Err(error) => vec![Err(error.into()); paths.len()],
        // What has no answer is gone.
        Ok(()) => requests.iter().map(|request| found.remove(&request.name).unwrap_or(Ok(None))).collect(),
    }
}

/// The same with files that are read so many at once.
fn accept_with(
    catalog: &Catalog,
    what: &Accept,
    (at_once, read): (usize, Read),
    report: &mut dyn FnMut(Accepted),
) -> Result<u64, ScrubError> {
    let path = what.path;
    let root = root_of(catalog, path)?;
    let algorithms = catalog.algorithms()?;
    let gone = catalog.gone_contents(root.id)?;
    let missing = catalog.missing_names(root.id)?;
    let accepting = Accepting { catalog, root: &root, algorithms, gone, missing, what };
    let mut found = 0;
    let mut after = Position::START;
    let mut is_any_damaged = false;
    loop {
        let page = catalog.in_trouble(root.id, &after, true, PAGE)?;
        let Some((last, _)) = page.last() else { break };
        after = last.clone();
        let mut waiting = Vec::new();
        for (Position { directory, name, .. }, record) in page {
            let place = root.path.join(catalog.path_in_root(directory)?).join(OsStr::from_bytes(&name));
            let is_meant = !what.only_missing || record.state == State::MISSING;
            if place.starts_with(path) && is_meant {
                found += 1;
                is_any_damaged |= record.state == State::DAMAGED;
                waiting.push(accepting.waiting(directory, OsStr::from_bytes(&name).into(), place, record)?);
            }
        }
        let mut waiting = waiting.into_iter();
        loop {
            let some: Vec<Waiting> = waiting.by_ref().take(at_once.max(1)).collect();
            if some.is_empty() {
                break;
            }
            let files: Vec<(PathBuf, Digest)> =
                some.iter().map(|one| (one.accepted.path.clone(), one.digest.clone())).collect();
            for (one, read) in some.into_iter().zip(read(&files)) {
                report(accepting.accept(one, read)?);
            }
        }
    }
    if !what.only_missing {
        found += catalog.absolve_below(&root, path, what.dry)?;
    }
    if is_any_damaged && !what.dry {
        // The length that the sums had of it may not be the one that went with its record.
        catalog.recount(root.id)?;
    }
    Ok(found)
}

/// The root that holds a path.
fn root_of(catalog: &Catalog, path: &Path) -> Result<Root, ScrubError> {
    if let Some(root) = catalog.root_of(path)? {
        return Ok(root);
    }
    let why = match catalog.roots()?.iter().any(|root| root.path.starts_with(path)) {
        true => RootFault::AboveTrees,
        false => RootFault::InNoTree,
    };
    Err(ScrubError::Root { path: path.to_path_buf(), why })
}

struct Accepting<'a> {
    catalog: &'a Catalog,
    root: &'a Root,
    algorithms: HashMap<i64, String>,
    /// Bad files that are gone. What is accepted may be one of them.
    gone: GoneContents,
    /// Names that are missing, by inodes. What is accepted may be the file of one: what is recorded of that name says
    /// nothing of it any more.
    missing: HashMap<u64, Vec<RecordName>>,
    what: &'a Accept<'a>,
}

/// A file that is to be read and accepted.
struct Waiting {
    directory: i64,
    name: OsString,
    old: CatalogRecord,
    digest: Digest,
    accepted: Accepted,
}

impl Accepting<'_> {
    fn waiting(
        &self,
        directory: i64,
        name: OsString,
        path: PathBuf,
        old: CatalogRecord,
    ) -> Result<Waiting, ScrubError> {
        let recorded = self.algorithms.get(&old.algorithm);
        let is_unknown = recorded.is_some_and(|name| {
            matches!(Digest::find(name), Err(verisum_digest::DigestError::Unknown { .. }))
        });
        let old = if old.state == State::DAMAGED || is_unknown { self.mended(old)? } else { old };
        let algorithm = self.algorithms.get(&old.algorithm).cloned().unwrap_or_else(|| FALLBACK.to_string());
        let digest = Digest::find(&algorithm).map_err(digest_failed(&algorithm))?;
        let accepted =
            Accepted { path, state: old.state, algorithm, old: Seen::of(&old), new: None, error: None };
        Ok(Waiting { directory, name, old, digest, accepted })
    }

    fn accept(&self, one: Waiting, read: Result<Option<Seen>, FileFault>) -> Result<Accepted, ScrubError> {
        let Waiting { directory, name, old, mut accepted, .. } = one;
        match read {
            Ok(Some(_)) if self.what.only_missing => {
                accepted.error = Some(FileFault::IsBack);
                return Ok(accepted);
            }
            Ok(new) => accepted.new = new,
            Err(error) => {
                accepted.error = Some(error);
                return Ok(accepted);
            }
        }
        let now = Moment::from(self.what.now);
        if !self.what.dry {
            let root = self.root.id;
            self.catalog.in_transaction(|| {
                self.catalog.apply(root, directory, &name, &RecordChange::Forget(old))?;
                let Some(new) = &accepted.new else { return Ok(()) };
                let changed = if new.digest == old.digest { old.changed } else { now };
                let record = CatalogRecord {
                    size: new.size,
                    mtime: new.mtime,
                    ctime: new.ctime,
                    inode: new.inode,
                    digest: new.digest,
                    changed,
                    verified: now,
                    state: State::Sound,
                    ..old
                };
                self.catalog.apply(root, directory, &name, &RecordChange::Add(record))?;
                self.catalog.note_generation_at(self.root, &accepted.path, &record)?;
                let content = (record.algorithm, record.digest.as_bytes().to_vec());
                let missing = self.missing.get(&record.inode);
                for other in self.gone.get(&content).into_iter().chain(missing).flatten() {
                    self.catalog.forget_gone(other)?;
                }
                self.catalog.absolve(root, &record)
            })?;
        }
        Ok(accepted)
    }

    /// A damaged record with what is of use in a new one: its digest may be of no algorithm, and its times
    /// are of none.
    fn mended(&self, old: CatalogRecord) -> Result<CatalogRecord, ScrubError> {
        let known = self.algorithms.get(&old.algorithm).and_then(|name| Digest::find(name).ok());
        let algorithm = match known.is_some_and(|digest| digest.len() == old.digest.as_bytes().len()) {
            true => old.algorithm,
            false => self.catalog.algorithm(FALLBACK)?,
        };
        let now = Moment::from(self.what.now);
        Ok(CatalogRecord { algorithm, first_seen: now, changed: now, ..old })
    }
}

/// What file is at a path now; `None` if nothing is, or something else, such as a link or a directory.
fn read(top: &Top, path: &Path, digest: &Digest) -> Result<Option<Seen>, FileFault> {
    let found = top.find(path);
    if is_gone(&found) {
        return Ok(None);
    }
    let opened = found.and_then(|(entry, _)| entry.open());
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.errno() == Some(Errno::NOENT) => return Ok(None),
        Err(error) if error.errno() == Some(Errno::XDEV) => return Err(FileFault::Elsewhere),
        Err(error) => return Err(error.into()),
    };
    if let Ok(stat) = Stat::of(&file) {
        verisum_files::settle(&file, &stat);
    }
    match reread::whole(&file, digest, Bypass::No) {
        Ok(read) if read.before.is_same_state(&read.after) => Ok(Some(Seen::new(&read.after, read.digest))),
        Ok(_) => Err(FileFault::Changed),
        Err(failed) => Err(FileFault::Read(failed.into())),
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
