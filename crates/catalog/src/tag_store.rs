//! Tags kept in a catalogue, for files that take no extended attributes.
//!
//! They are the same records that a scrub keeps, so that a tree may be tagged and scrubbed with one
//! catalogue. What is in a file's attributes counts first.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::io::Errno;
use verisum_digest::Algorithm;

use crate::store::{self, Catalog, Identity, Lock, Moment, RecordChange, Root, State};
use verisum_files::tags::RecordStore;
use verisum_files::{Entry, Record, RecordedTime, Stat, Timestamp, lock};

/// A catalogue for records that files cannot hold.
pub struct TagStore {
    /// The directories whose files are worked on, absolute and without links.
    tops: Vec<PathBuf>,
    /// The files that the catalogue consists of, by device and inode: they change all the time.
    own: HashSet<(u64, u64)>,
    shared: Mutex<Shared>,
}

struct Shared {
    catalog: Catalog,
    /// Held by whoever writes.
    _lock: Option<Lock>,
    /// The names of the digests, by their numbers.
    algorithms: HashMap<i64, String>,
    /// Where the last file was: the next is mostly there too.
    folder: Option<TaggedFolder>,
    failed: Option<store::CatalogError>,
}

/// A directory as it was walked to, and where the catalogue has it.
struct TaggedFolder {
    walked: PathBuf,
    real: PathBuf,
    place: Option<(Root, i64)>,
}

impl TagStore {
    /// Uses an open catalogue. `tops` are the files and directories that will be worked on, absolute and
    /// without links: one of them becomes a root where the catalogue has none. Without its lock the
    /// catalogue is only read.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn new(
        catalog: Catalog,
        lock: Option<Lock>,
        tops: Vec<PathBuf>,
    ) -> Result<TagStore, store::CatalogError> {
        let algorithms = catalog.algorithms()?;
        let own = catalog.own_files().into_iter().filter_map(|path| std::fs::metadata(path).ok());
        let own = own.map(|file| (file.dev(), file.ino())).collect();
        let shared = Shared { catalog, _lock: lock, algorithms, folder: None, failed: None };
        Ok(TagStore { tops, own, shared: Mutex::new(shared) })
    }
}

impl RecordStore for TagStore {
    fn take_failure(&self) -> Option<Box<dyn std::error::Error + Send + Sync>> {
        lock(&self.shared).failed.take().map(Into::into)
    }

    fn is_own(&self, stat: &Stat) -> bool {
        self.own.contains(&(stat.device, stat.inode))
    }
    fn find(&self, entry: &Entry) -> Option<Record> {
        let mut shared = lock(&self.shared);
        let found = shared.find(&entry.path());
        shared.note(found).flatten()
    }
    fn keep(&self, entry: &Entry, stat: &Stat, record: &Record, errno: Errno) -> bool {
        let mut shared = lock(&self.shared);
        if shared._lock.is_none() || !is_for_the_catalogue(errno) {
            return false;
        }
        let kept = shared.keep(&entry.path(), stat, record, &self.tops);
        shared.note(kept).is_some_and(|kept| kept)
    }
    fn follow(&self, entry: &Entry, stat: &Stat, old: &Record, new: &Record) {
        let mut shared = lock(&self.shared);
        if shared._lock.is_some() {
            let kept = match shared.find(&entry.path()) {
                Ok(Some(found)) if (found.algorithm.id, found.digest) == (old.algorithm.id, old.digest) => {
                    shared.keep(&entry.path(), stat, new, &self.tops)
                }
                other => other.map(|_| false),
            };
            shared.note(kept);
        }
    }
}

impl std::fmt::Debug for TagStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TagStore").field("tops", &self.tops).finish_non_exhaustive()
    }
}

/// Whether the file or its file system does not take attributes, now or ever.
fn is_for_the_catalogue(errno: Errno) -> bool {
    let refusals = [
        Errno::ACCESS,
        Errno::PERM,
        Errno::ROFS,
        Errno::OPNOTSUPP,
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::TOOBIG,
    ];
    refusals.contains(&errno)
}

impl Shared {
    /// Remembers the first failure.
    fn note<T>(&mut self, done: Result<T, store::CatalogError>) -> Option<T> {
        done.map_err(|error| self.failed.get_or_insert(error)).ok()
    }

    fn find(&mut self, path: &Path) -> Result<Option<Record>, store::CatalogError> {
        let Some(name) = self.enter(path)? else { return Ok(None) };
        let Some((_, directory)) = self.folder.as_ref().and_then(|folder| folder.place.as_ref()) else {
            return Ok(None);
        };
        let found = self.catalog.record(*directory, name)?;
        Ok(found.and_then(|found| {
            let algorithm = Algorithm::find(self.algorithms.get(&found.algorithm)?)?;
            (found.digest.as_bytes().len() == algorithm.digest_len()).then(|| Record {
                algorithm,
                digest: found.digest,
                size: Some(found.size),
                modified: Some(RecordedTime::exact(found.mtime.timestamp())),
                verified: found
                    .verified
                    .known()
                    .map(|moment| Timestamp::of_seconds(moment.timestamp().seconds)),
            })
        }))
    }

    fn keep(
        &mut self,
        path: &Path,
        stat: &Stat,
        record: &Record,
        tops: &[PathBuf],
    ) -> Result<bool, store::CatalogError> {
        let (Some(size), Some(modified)) = (record.size, record.modified) else { return Ok(false) };
        let Some(name) = self.enter(path)? else { return Ok(false) };
        self.catalog.begin()?;
        let kept = (|| {
            let Some((root, directory)) = self.place(tops)? else { return Ok(false) };
            let old = self.catalog.record(directory, name)?;
            let algorithm = self.catalog.algorithm(record.algorithm.id)?;
            self.algorithms.insert(algorithm, record.algorithm.id.to_string());
            let verified = record.verified.map_or(Moment::NEVER, Moment::from);
            let same = old.filter(|old| (old.size, old.digest) == (size, record.digest));
            let new = store::CatalogRecord {
                size,
                mtime: modified.time.into(),
                ctime: stat.changed.into(),
                inode: stat.inode,
                algorithm,
                digest: record.digest,
                first_seen: old.map_or(verified, |old| old.first_seen),
                changed: same.map_or(verified, |same| same.changed),
                verified,
                state: State::Sound,
            };
            if let Some(old) = old {
                self.catalog.apply(root, directory, name, &RecordChange::Forget(old))?;
            }
            self.catalog.apply(root, directory, name, &RecordChange::Add(new))?;
            Ok(true)
        })();
        match kept {
            Ok(_) => self.catalog.commit()?,
            Err(_) => {
                self.catalog.roll_back();
                self.folder = None;
            }
        }
        kept
    }

    /// Finds the directory of a file, and returns the file's name; `None` where there is no way to it.
    fn enter<'p>(&mut self, path: &'p Path) -> Result<Option<&'p OsStr>, store::CatalogError> {
        let (Some(walked), Some(name), None) = (path.parent(), path.file_name(), &self.failed) else {
            return Ok(None);
        };
        if self.folder.as_ref().is_none_or(|folder| folder.walked != walked) {
            let here = if walked.as_os_str().is_empty() { Path::new(".") } else { walked };
            let Ok(real) = here.canonicalize() else { return Ok(None) };
            let place = match self.catalog.root_of(&real)? {
                Some(root) => {
                    let below = real.strip_prefix(&root.path).expect("it holds the path");
                    self.catalog.directory(&root, below)?.map(|directory| (root, directory))
                }
                None => None,
            };
            self.folder = Some(TaggedFolder { walked: walked.to_path_buf(), real, place });
        }
        Ok(Some(name))
    }

    /// The root and the number of the directory that was entered, recorded if they were not.
    fn place(&mut self, tops: &[PathBuf]) -> Result<Option<(i64, i64)>, store::CatalogError> {
        let Some(folder) = &mut self.folder else { return Ok(None) };
        if let Some((root, directory)) = &folder.place {
            return Ok(Some((root.id, *directory)));
        }
        let root = match self.catalog.root_of(&folder.real)? {
            Some(root) => root,
            None => {
                // A file that was named has no top above it but its own directory.
                let top = tops.iter().filter(|top| folder.real.starts_with(top));
                let top = top.min_by_key(|top| top.as_os_str().len()).unwrap_or(&folder.real);
                let Some(identity) = identity(top) else { return Ok(None) };
                self.catalog.add_root(top, identity)?
            }
        };
        let mut directory = root.directory;
        let mut path = root.path.clone();
        for name in folder.real.strip_prefix(&root.path).expect("it holds the path").components() {
            path.push(name);
            directory = match self.catalog.directory_in(directory, name.as_os_str())? {
                Some(known) => known,
                None => {
                    let Some(identity) = identity(&path) else { return Ok(None) };
                    let id = self.catalog.last_directory()? + 1;
                    self.catalog.add_directory(id, directory, name.as_os_str(), identity.device)?;
                    id
                }
            };
        }
        let id = root.id;
        folder.place = Some((root, directory));
        Ok(Some((id, directory)))
    }
}

/// What the directory at a path is.
fn identity(path: &Path) -> Option<Identity> {
    let directory = std::fs::metadata(path).ok()?;
    Some(Identity { device: directory.dev(), inode: directory.ino() })
}
