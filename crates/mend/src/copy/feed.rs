//! Finds the files to copy, and makes their directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::Errno;
use verisum_catalog::store::Catalog;
use verisum_files::{Directory, Entry, FileError, Kind, Operation, Roots, Stat, Walk, WalkOptions};

use super::record::Records;
use super::shared::Shared;
use super::target::{TargetDirectory, TargetName};
use super::worker::Job;
use super::{CopyError, CopyOutcome};
use crate::metadata::Metadata;

/// How a directory is opened that is only gone through.
const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A walk of FROM, and where its entries go.
pub(super) struct WalkFeed<'a, 'c> {
    shared: &'a Shared<'a>,
    walk: Walk,
    /// The directories that the walk is in, each with its path in FROM.
    stack: Vec<(PathBuf, Arc<TargetDirectory<'a>>)>,
    /// The last entry, which keeps its directory open, and where the others of that go.
    last: Option<(Entry, Arc<TargetDirectory<'a>>)>,
    /// FROM, if it is a file.
    file: Option<(Entry, TargetName<'a>)>,
    /// TO's device and inode: where it is met in FROM, it is passed over.
    to: (u64, u64),
    /// The catalogue's records of FROM and of TO.
    records: [Option<Records<'c>>; 2],
}

impl<'a, 'c> WalkFeed<'a, 'c> {
    /// Opens both ends, and makes TO if FROM is a directory. Also returns TO, or the directory that it is in.
    pub(super) fn open(
        shared: &'a Shared<'a>,
        from: &Path,
        to: &Path,
        catalog: Option<&'c Catalog>,
    ) -> Result<(WalkFeed<'a, 'c>, Arc<Directory>), CopyError> {
        let options = shared.options;
        let mut walk_options = WalkOptions::default();
        walk_options.one_file_system = options.one_file_system;
        walk_options.roots = Roots::Trusted;
        walk_options.excludes = options.excludes.clone();
        let mut walk = Walk::new(vec![from.to_path_buf()], walk_options);
        let root = match walk.next() {
            Some(root) => root?,
            None => return Err(FileError::io(from, Operation::Open, Errno::NOENT).into()),
        };
        let is_file = root.kind() != Kind::Directory;
        let (top, was_there) = open_target(to, is_file, Mode::RWXU, &|directory, is_to| {
            require_apart(from, to, &root, directory, is_to)
        })?;
        let records = |path| -> Result<Option<Records<'c>>, CopyError> {
            Ok(catalog.map(|catalog| Records::of(catalog, path)).transpose()?.flatten())
        };
        let mut feed = WalkFeed {
            shared,
            walk,
            stack: Vec::new(),
            last: None,
            file: None,
            to: (0, 0),
            records: [records(from)?, if options.reads_records_of_to() { records(to)? } else { None }],
        };
        if is_file {
            // The file has TO's name, or its own in TO.
            let in_it = Directory::trusted(to).is_ok();
            let (folder, name) = match in_it {
                true => (to, root.name()),
                false => split(to)?,
            };
            if in_it && options.reads_records_of_to() {
                feed.records[1] = records(&to.join(name))?;
            }
            let directory = Arc::new(TargetDirectory::top(shared, &*top, folder, true)?);
            let target = directory.name(name)?;
            feed.file = Some((root, target));
        } else {
            let stat = Stat::of(&*top).map_err(|errno| CopyError::target(to, "stat", errno))?;
            feed.to = (stat.device, stat.inode);
            let mut directory = TargetDirectory::top(shared, &*top, to, was_there)?;
            directory.finish_as(root.path(), original(&root)?);
            feed.stack.push((root.path(), Arc::new(directory)));
        }
        Ok((feed, top))
    }

    /// Where an entry goes.
    fn directory_of(&mut self, entry: &Entry) -> Option<Arc<TargetDirectory<'a>>> {
        if let Some((last, directory)) = &self.last
            && std::ptr::eq(last.directory(), entry.directory())
        {
            return Some(directory.clone());
        }
        let path = entry.directory().path();
        // What is in none of the others is in FROM itself, however that was spelled.
        while self.stack.len() > 1 && self.stack.last().is_some_and(|(top, _)| *top != path) {
            self.stack.pop();
        }
        let directory = self.stack.last()?.1.clone();
        self.last = Some((entry.clone(), directory.clone()));
        Some(directory)
    }

    /// Makes a directory at TO, or opens the one that is there.
    fn enter(&mut self, entry: &Entry, above: &Arc<TargetDirectory<'a>>) -> Result<(), CopyError> {
        let stat = entry.stat()?;
        if (stat.device, stat.inode) == self.to {
            let how = "would be copied into itself, as a part of";
            return Err(CopyError::Overlap { from: entry.path(), to: above.path_of(entry.name()), how });
        }
        let metadata = original(entry)?;
        // Nobody else can enter it until it gets its own mode.
        let mut directory = above.enter(entry.name(), Mode::RWXU)?;
        directory.finish_as(entry.path(), metadata);
        self.stack.push((entry.path(), Arc::new(directory)));
        Ok(())
    }

    fn job(&mut self, entry: Entry, target: TargetName<'a>) -> Result<Job<'a>, CopyError> {
        let below = match self.to {
            // The records are those of the file itself.
            (0, 0) => PathBuf::new(),
            _ => target.below(),
        };
        let mut known = [None, None];
        if entry.kind() == Kind::File {
            for (known, records) in known.iter_mut().zip(&mut self.records) {
                if let Some(records) = records {
                    *known = records.recorded(&below)?;
                }
            }
        }
        Ok(Job { entry, target, known, is_alone: false })
    }

    /// The next entry to copy; directories are made on the way.
    pub(super) fn next(&mut self) -> Option<Result<Job<'a>, CopyError>> {
        if let Some((entry, target)) = self.file.take() {
            self.walk = Walk::new(Vec::new(), WalkOptions::default());
            return Some(self.job(entry, target));
        }
        while !self.shared.is_stopped() {
            let entry = match self.walk.next()? {
                Ok(entry) => entry,
                Err(error) => {
                    let path = error.path().to_path_buf();
                    self.shared.tell_plain(&path, Path::new(""), CopyOutcome::Failed(error.into()));
                    continue;
                }
            };
            let Some(above) = self.directory_of(&entry) else { continue };
            let taken = match entry.kind() {
                Kind::Directory => self.enter(&entry, &above).map(|()| None),
                _ => above.name(entry.name()).map(Some),
            };
            match taken {
                Ok(None) => {}
                Ok(Some(target)) => return Some(self.job(entry, target)),
                Err(error) => {
                    let below = above.below.join(entry.name());
                    self.shared.tell_plain(&entry.path(), &below, CopyOutcome::Failed(error));
                    self.walk.pass_over(&entry);
                }
            }
        }
        None
    }
}

/// What a directory of FROM gives to the one at TO.
fn original(entry: &Entry) -> Result<Metadata, CopyError> {
    let file = entry.open()?;
    let stat = fstat(&file).map_err(|errno| entry.failed(Operation::Stat, errno))?;
    let mut metadata = Metadata::new(&stat);
    metadata.read_attributes(&file, false);
    Ok(metadata)
}

/// Opens TO, or the directory that it is to be in, and makes it with this mode if FROM is a directory. Says whether it
/// was there. The check is asked before anything is made: of TO, or of the directory in which TO is made.
pub(super) fn open_target(
    to: &Path,
    is_file: bool,
    mode: Mode,
    check: &dyn Fn(&Directory, bool) -> Result<(), CopyError>,
) -> Result<(Arc<Directory>, bool), CopyError> {
    let failed = |operation| move |errno: Errno| CopyError::target(to, operation, errno);
    match Directory::trusted(to) {
        Ok(top) => {
            if !is_file {
                check(&top, true)?;
            }
            Ok((top, true))
        }
        Err(error) if error.errno() == Some(Errno::NOENT) => {
            let (folder, name) = split(to)?;
            let ends_with_slash = to.as_os_str().as_bytes().ends_with(b"/");
            if is_file && ends_with_slash {
                return Err(CopyError::target(to, "create", Errno::NOTDIR));
            }
            let above = Directory::trusted(folder).map_err(|error| created(to, &error))?;
            if is_file {
                return Ok((above, true));
            }
            check(&above, false)?;
            mkdirat(&*above, name, mode).map_err(failed("create"))?;
            let top = above.beneath(Path::new(name), None).map_err(|error| created(to, &error))?;
            Ok((top, false))
        }
        Err(error) if error.errno() == Some(Errno::NOTDIR) && is_file => {
            let (folder, _) = split(to)?;
            Ok((Directory::trusted(folder).map_err(|error| created(to, &error))?, true))
        }
        Err(error) if error.errno() == Some(Errno::NOTDIR) => {
            Err(CopyError::InTheWay { path: to.to_path_buf(), what: "a file" })
        }
        Err(error) => Err(created(to, &error)),
    }
}

/// Fails if TO is FROM, in FROM, or holds it. The directory is TO, or the one in which it will be made.
fn require_apart(
    from: &Path,
    to: &Path,
    root: &Entry,
    directory: &Directory,
    is_to: bool,
) -> Result<(), CopyError> {
    let failed = |operation| move |errno: Errno| CopyError::target(to, operation, errno);
    let overlap = |how| Err(CopyError::Overlap { from: from.to_path_buf(), to: to.to_path_buf(), how });
    let source = root.stat()?;
    let source = (source.device, source.inode);
    if !is_to {
        return match is_within(directory, source).map_err(failed("open"))? {
            true => overlap("is in"),
            false => Ok(()),
        };
    }
    let own = Stat::of(directory).map_err(failed("stat"))?;
    let own = (own.device, own.inode);
    if is_within(directory, source).map_err(failed("open"))? {
        return overlap(if own == source { "is the same as" } else { "is in" });
    }
    let original = openat(root.directory(), root.name(), STEP, Mode::empty());
    let original = original.map_err(|errno| root.failed(Operation::Open, errno))?;
    match is_within(&original, own).map_err(failed("open"))? {
        true => overlap("holds"),
        false => Ok(()),
    }
}

/// The error of TO's directory, by TO's name.
fn created(to: &Path, error: &FileError) -> CopyError {
    let source = match error {
        FileError::Io { source, .. } => match source.raw_os_error() {
            Some(code) => std::io::Error::from_raw_os_error(code),
            None => std::io::Error::other(source.to_string()),
        },
        other => std::io::Error::other(other.to_string()),
    };
    CopyError::target(to, "create", source)
}

/// The directory of TO, and its name there.
pub(super) fn split(to: &Path) -> Result<(&Path, &OsStr), CopyError> {
    match (to.parent(), to.file_name()) {
        (Some(folder), Some(name)) => Ok((folder, name)),
        _ => Err(CopyError::target(to, "create", Errno::INVAL)),
    }
}

/// Whether a directory is another one, or in it.
fn is_within(directory: impl AsFd, other: (u64, u64)) -> Result<bool, Errno> {
    let mut reached: OwnedFd = openat(directory, ".", STEP, Mode::empty())?;
    let mut last = None;
    loop {
        let stat = Stat::of(&reached)?;
        let identity = (stat.device, stat.inode);
        if identity == other {
            return Ok(true);
        }
        // The top is its own parent.
        if last == Some(identity) {
            return Ok(false);
        }
        last = Some(identity);
        reached = openat(&reached, "..", STEP, Mode::empty())?;
    }
}
