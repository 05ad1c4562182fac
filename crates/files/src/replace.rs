//! Atomic file replacement: a full disk or a kill leaves the old file.

mod passing;

pub use passing::{PASSING, is_passing, process_of, remove_passing};

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use tempfile::{NamedTempFile, TempPath};

use crate::error::explained;
use crate::walk::trusted;
use crate::{Stat, has_writer};
use passing::{complete_name, make_passing, passing_name, with_end};

/// How many links one after the other are followed, as Linux has it.
pub const MOST_LINKS: u32 = 40;

/// Random characters in the name of a file that nobody is to see yet.
pub const RANDOM: usize = 12;

/// What follows them.
pub const UNPLACED: &str = ".new";

/// Why a file could not take its place.
#[derive(Debug, thiserror::Error)]
#[error("{}: {operation}: {source}", path.display())]
pub struct ReplaceError {
    /// The file's name as it was given.
    pub path: PathBuf,
    /// What was being done: `create` or `write`.
    pub operation: &'static str,
    /// Why it failed.
    pub source: io::Error,
}

/// A file that is being written and will replace the one of its name, if there is one.
#[derive(Debug)]
pub struct Replacement {
    file: Unplaced,
    /// As it was given, for messages.
    name: PathBuf,
    /// Its name in its folder, links resolved, by way of the descriptor: whoever changes the way there
    /// meanwhile leads nothing elsewhere.
    target: PathBuf,
    /// Keeps the folder open.
    _folder: OwnedFd,
}

/// A file that nobody sees yet.
#[derive(Debug)]
enum Unplaced {
    /// Without a name: whatever ends this process, nothing is left behind.
    Nameless(File),
    /// Beside its place, where the file system or the one who writes must have a name.
    Named(NamedTempFile),
}

impl Replacement {
    /// Begins a file of this name. What is there is left alone until [`place`](Replacement::place); its
    /// permissions are kept, and where the name is a link of root's or our own, what it leads to is replaced.
    ///
    /// # Errors
    /// Also for what is no regular file, for a link that leads to none, and for one of another user, be it the
    /// name itself or on the way to it.
    pub fn new(name: &Path) -> Result<Replacement, ReplaceError> {
        Replacement::begin(name, |old| old, &Unplaced::new)
    }

    /// Begins a file that only its owner may read, and the group if it could before.
    pub fn private(name: &Path) -> Result<Replacement, ReplaceError> {
        Replacement::begin(name, |old| Some(Permitted::private(old)), &Unplaced::new)
    }

    /// As [`private`](Replacement::private); [`remove_passing`] removes it after a kill.
    pub fn private_passing(name: &Path) -> Result<Replacement, ReplaceError> {
        Replacement::begin(name, |old| Some(Permitted::private(old)), &Unplaced::passing)
    }

    /// Begins a file that has a random name at once, for writers that need a [`path`](Replacement::path).
    pub fn named(name: &Path, permitted: Permitted) -> Result<Replacement, ReplaceError> {
        Replacement::begin(name, |_| Some(permitted), &Unplaced::named)
    }

    /// As [`new`](Replacement::new); [`remove_passing`] removes it after a kill.
    pub fn passing(name: &Path) -> Result<Replacement, ReplaceError> {
        Replacement::begin(name, |old| old, &Unplaced::passing)
    }

    /// Another name for a file that is already complete, to take the place of the file of that name.
    ///
    /// # Errors
    /// Those of [`new`](Replacement::new).
    pub fn of_file(name: &Path, file: File) -> Result<Replacement, ReplaceError> {
        let (folder, target) = behind_links(name).map_err(|error| failure(name, "create", error))?;
        Ok(Replacement { file: Unplaced::Nameless(file), name: name.to_path_buf(), target, _folder: folder })
    }

    /// `permitted` makes of who may use what is there those who may use the new file.
    fn begin(
        name: &Path,
        permitted: impl Fn(Option<Permitted>) -> Option<Permitted>,
        begin: &dyn Fn(&Path, u32) -> io::Result<Unplaced>,
    ) -> Result<Replacement, ReplaceError> {
        let failed = |error| failure(name, "create", error);
        let (folder, target) = behind_links(name).map_err(failed)?;
        let old = match std::fs::metadata(&target) {
            Ok(old) if !old.is_file() => return Err(failed(io::Error::other("not a regular file"))),
            Ok(old) => Some(Permitted::of(&old)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        // Whoever is permitted gets the rights once they are known to be the right ones.
        let permitted = permitted(old);
        let file = begin(&target, if permitted.is_some() { PRIVATE } else { USUAL }).map_err(failed)?;
        if let Some(permitted) = permitted {
            permitted.give(file.get()).map_err(failed)?;
        }
        Ok(Replacement { file, name: name.to_path_buf(), target, _folder: folder })
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        self.file.get()
    }

    /// The name that it has until it takes its place, if it has one.
    pub fn path(&self) -> &Path {
        match &self.file {
            Unplaced::Nameless(_) => Path::new(""),
            Unplaced::Named(file) => file.path(),
        }
    }

    /// Where it will be, by one name whatever the way there.
    pub fn target(&self) -> PathBuf {
        let folder = folder_of(&self.target);
        let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
        folder.join(self.target.file_name().unwrap_or_default())
    }

    /// Puts the file in its place, when it is safely on the disk.
    pub fn place(self) -> Result<(), ReplaceError> {
        let Replacement { file, name, target, _folder } = self;
        let failed = |error| failure(&name, "write", error);
        file.get().sync_all().map_err(failed)?;
        match file {
            Unplaced::Nameless(file) => place_nameless(&file, &target).map_err(failed)?,
            Unplaced::Named(file) => drop(file.persist(&target).map_err(|error| failed(error.error))?),
        }
        sync_folder(&target);
        Ok(())
    }

    /// Replaces the file that `expected` describes, or makes a new one, when it is safely on the disk. Moves the old
    /// file to `keep`, a free name, or removes it. Returns false and changes nothing if another file is there: where
    /// the file system can exchange two names, also if that came in the last moment.
    ///
    /// # Errors
    /// The file cannot be written or named, or the old one not be kept; then the old one is where it was.
    pub fn swap(self, expected: Option<&Stat>, keep: Option<&Path>) -> Result<bool, ReplaceError> {
        let Replacement { file, name, target, _folder } = self;
        let failed = |error| failure(&name, "write", error);
        file.get().sync_all().map_err(failed)?;
        let mut passing = Passing(match file {
            Unplaced::Nameless(file) => passing_name(&file, &target).map_err(failed)?,
            Unplaced::Named(file) => {
                let path = file.into_temp_path().keep().map_err(|error| failed(error.error))?;
                complete_name(path).map_err(failed)?
            }
        });
        let is_placed = match expected {
            Some(expected) => exchange(&mut passing, &target, expected, keep),
            None => appear(&passing, &target),
        };
        let is_placed = is_placed.map_err(failed)?;
        drop(passing);
        sync_folder(&target);
        Ok(is_placed)
    }
}

/// A name that a file has for a moment; what has it in the end is removed.
struct Passing(PathBuf);

impl Drop for Passing {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Renames a file to a free name. Returns false if the name is taken.
fn appear(passing: &Passing, target: &Path) -> io::Result<bool> {
    match rename_to_nothing((CWD, passing.0.as_os_str()), (CWD, target.as_os_str())) {
        Err(Errno::EXIST) => Ok(false),
        placed => Ok(placed.map(|()| true)?),
    }
}

/// Gives a file another name, each in an open directory, that nothing has yet.
///
/// # Errors
/// `EEXIST` where something has it; those of the system.
pub fn rename_to_nothing(
    (from, old): (BorrowedFd, &OsStr),
    (to, new): (BorrowedFd, &OsStr),
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // Not every file system can do that.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        placed => return placed,
    }
    match rustix::fs::linkat(from, old, to, new, AtFlags::empty()) {
        Ok(()) => return rustix::fs::unlinkat(from, old, AtFlags::empty()),
        // FAT has no links either, and FUSE passes on what each thinks of them.
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::MLINK) => {}
        Err(error) => return Err(error),
    }
    // Nobody else makes the name that is made here, and it is ours to replace then.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    drop(rustix::fs::openat(to, new, flags, Mode::from_raw_mode(PRIVATE))?);
    rustix::fs::renameat(from, old, to, new).inspect_err(|_| {
        let _ = rustix::fs::unlinkat(to, new, AtFlags::empty());
    })
}

/// Puts a file in the place of the one that is expected there. Returns whether that was there.
fn exchange(passing: &mut Passing, target: &Path, expected: &Stat, keep: Option<&Path>) -> io::Result<bool> {
    let is_there = |path: &Path| {
        let stat = rustix::fs::lstat(path).map(Stat::from);
        stat.is_ok_and(|stat| {
            // A rename moves the time of the inode's change.
            (stat.device, stat.inode, stat.size, stat.modified)
                == (expected.device, expected.inode, expected.size, expected.modified)
        })
    };
    if !is_there(target) {
        return Ok(false);
    }
    match rustix::fs::renameat_with(CWD, &passing.0, CWD, target, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(false),
        // The file system cannot: what comes in this moment is not seen.
        Err(Errno::INVAL | Errno::NOSYS) => {
            if let Some(keep) = keep {
                rename_to_keep(target, keep)?;
            }
            return std::fs::rename(&passing.0, target).map(|()| true);
        }
        Err(error) => return Err(error.into()),
    }
    // By this name nobody opens it: whoever is going to write to it has it open, and the times tell of others.
    let has_writer = || File::open(&passing.0).is_ok_and(|old| has_writer(&old));
    let is_it = is_there(&passing.0) && !has_writer() && is_there(&passing.0);
    let kept = match (is_it, keep) {
        (true, None) => return Ok(true),
        (true, Some(keep)) => rename_to_keep(&passing.0, keep).map(|()| true),
        (false, _) => Ok(false),
    };
    if !matches!(kept, Ok(true)) {
        passing.swap_back(target)?;
    }
    kept
}

/// Moves what was replaced to where it is kept. What somebody else has kept there meanwhile stays.
fn rename_to_keep(old: &Path, keep: &Path) -> io::Result<()> {
    Ok(rename_to_nothing((CWD, old.as_os_str()), (CWD, keep.as_os_str()))?)
}

impl Passing {
    /// Ends an exchange by its opposite. Where that cannot be, what was at `target` keeps this name: nobody else has it.
    fn swap_back(&mut self, target: &Path) -> io::Result<()> {
        swap_back(CWD, self.0.as_os_str(), target.as_os_str()).map_err(|errno| {
            // Nothing is removed then.
            let name = std::mem::take(&mut self.0).file_name().unwrap_or_default().to_os_string();
            io::Error::other(format!("{errno}: what was there is {} now", name.display()))
        })
    }
}

/// Exchanges two names of a directory again: what has `own` is not to be replaced, and gets back its name. Where the name
/// is free by now, nothing has `own` then.
///
/// # Errors
/// Those of the system. What has `own` is not to be removed.
pub fn swap_back(folder: impl AsFd, own: &OsStr, name: &OsStr) -> Result<(), Errno> {
    let folder = folder.as_fd();
    match rustix::fs::renameat_with(folder, own, folder, name, RenameFlags::EXCHANGE) {
        Err(Errno::NOENT) => rename_to_nothing((folder, own), (folder, name)),
        swapped => swapped,
    }
}

/// Not every file system lets a folder be synchronized; the file is complete in any case.
fn sync_folder(target: &Path) {
    let _ = File::open(folder_of(target)).and_then(|folder| folder.sync_all());
}

impl Unplaced {
    fn new(target: &Path, mode: u32) -> io::Result<Unplaced> {
        Unplaced::nameless(target, mode).unwrap_or_else(|| Unplaced::named(target, mode))
    }

    fn passing(target: &Path, mode: u32) -> io::Result<Unplaced> {
        Unplaced::nameless(target, mode).unwrap_or_else(|| {
            let mut options = File::options();
            options.read(true).write(true).create_new(true).mode(mode);
            make_passing(target, |passing| {
                let unplaced = with_end(passing, UNPLACED);
                if passing.symlink_metadata().is_ok() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                let file = options.open(&unplaced)?;
                Ok(Unplaced::Named(NamedTempFile::from_parts(file, TempPath::try_from_path(unplaced)?)))
            })
        })
    }

    /// None where there can be no file without a name.
    fn nameless(target: &Path, mode: u32) -> Option<io::Result<Unplaced>> {
        // A name is given through `/proc`.
        if Path::new("/proc/self/fd").exists() {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            match rustix::fs::open(folder_of(target), flags, Mode::from_raw_mode(mode)) {
                Ok(file) => return Some(Ok(Unplaced::Nameless(file.into()))),
                // The file system or the kernel has no files without a name.
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
                Err(error) => return Some(Err(error.into())),
            }
        }
        None
    }

    /// Makes it as `NAME.RANDOM.new`. Nobody else can have made it.
    fn named(target: &Path, mode: u32) -> io::Result<Unplaced> {
        let mut prefix = target.file_name().unwrap_or_default().to_os_string();
        prefix.push(".");
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(mode);
        // The builder's own errors name the descriptor, which tells nobody anything.
        let mut code = None;
        let named = tempfile::Builder::new()
            .prefix(&prefix)
            .rand_bytes(RANDOM)
            .suffix(UNPLACED)
            .make_in(folder_of(target), |path| {
                options.open(path).inspect_err(|error| code = error.raw_os_error())
            });
        named.map(Unplaced::Named).map_err(|error| code.map_or(error, io::Error::from_raw_os_error))
    }

    fn get(&self) -> &File {
        match self {
            Unplaced::Nameless(file) => file,
            Unplaced::Named(file) => file.as_file(),
        }
    }
}

/// The mode of what is nobody else's business.
pub const PRIVATE: u32 = 0o600;

/// The mode of any new file, without what the umask takes.
const USUAL: u32 = 0o666;

/// Who may use a file: its mode, and the group that this is about.
#[derive(Clone, Copy, Debug)]
pub struct Permitted {
    mode: u32,
    group: Option<u32>,
}

impl Permitted {
    /// Only the owner.
    pub const PRIVATE: Permitted = Permitted { mode: PRIVATE, group: None };

    /// Who may use a file that is there.
    pub fn of(file: &std::fs::Metadata) -> Permitted {
        Permitted { mode: file.mode() & 0o777, group: Some(file.gid()) }
    }

    /// The same without the rights of others: see [`without_others`].
    pub fn without_others(self) -> Permitted {
        Permitted { mode: without_others(self.mode), ..self }
    }

    /// Those of what is there, if anything is, but others.
    fn private(old: Option<Permitted>) -> Permitted {
        old.map_or(Permitted::PRIVATE, Permitted::without_others)
    }

    /// Gives a file to these. Where it cannot have their group, its own gets no more rights than all others.
    fn give(self, file: &File) -> io::Result<()> {
        let has_group = match self.group {
            Some(group) => file.metadata()?.gid() == group || fchown(file, None, Some(group)).is_ok(),
            None => true,
        };
        let mode = if has_group { self.mode } else { self.mode & !0o070 | (self.mode & 0o007) << 3 };
        file.set_permissions(Permissions::from_mode(mode))
    }
}

/// A mode without the rights of others. What all may read was left so by nobody's choice, and then the group
/// has no right either; what only the group may read was given to it.
pub fn without_others(mode: u32) -> u32 {
    if mode & 0o007 == 0 { mode & 0o777 } else { PRIVATE }
}

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Fails if a link of another user is on the way to a name, or is that name.
pub fn require_trusted(name: &Path) -> io::Result<()> {
    behind_links(name).map(drop)
}

/// Opens a file through links of root's and our own only, also if somebody exchanges its folder for a link meanwhile.
/// The flags of `options` are set here: nothing waits for a pipe.
///
/// # Errors
/// A link of another user leads there, and what opening says.
pub fn open_trusted(name: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let (_folder, target) = behind_links(name)?;
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()).open(target)
}

/// What a name leads to through links of root's and our own, by way of its folder, which is open. Whoever
/// may write links into a shared folder does not say what files others make or replace.
fn behind_links(name: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let (mut folder, mut target) = reach(name)?;
    for followed in 0..MOST_LINKS {
        let to_nothing = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other("the link leads to no file"),
            _ => error,
        };
        match std::fs::symlink_metadata(&target) {
            Ok(found) if found.is_symlink() => {
                if !is_trusted(found.uid()) {
                    return Err(io::Error::other("it is a link of another user"));
                }
                let next = folder_of(&target).join(std::fs::read_link(&target)?);
                (folder, target) = reach(&next).map_err(to_nothing)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && followed > 0 => {
                return Err(to_nothing(error));
            }
            // Whatever is wrong with it is found when it is used.
            _ => return Ok((folder, target)),
        }
    }
    Err(Errno::LOOP.into())
}

/// Opens the folder of a name, and says the name by way of it.
fn reach(name: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let (way, last) = trusted::split(name);
    let last = last.ok_or(Errno::ISDIR)?;
    let way = if way == Path::new("") { Path::new(".") } else { way };
    let folder = trusted::folder(way)?;
    let open = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    // Without `/proc` the way was good a moment ago, which is all that can be had.
    let target = if open.exists() { open } else { way.to_path_buf() }.join(last);
    Ok((folder, target))
}

/// Whether a link of this user is followed where others must not lead us: root's and our own are.
pub fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// Gives a file without a name its own. Only a rename replaces another file: then it has a passing one first.
fn place_nameless(file: &File, target: &Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    match rustix::fs::linkat(CWD, &own, CWD, target, AtFlags::SYMLINK_FOLLOW) {
        Err(Errno::EXIST) => {}
        placed => return Ok(placed?),
    }
    let passing = passing_name(file, target)?;
    std::fs::rename(&passing, target).inspect_err(|_| {
        let _ = std::fs::remove_file(&passing);
    })
}

fn failure(name: &Path, operation: &'static str, source: io::Error) -> ReplaceError {
    ReplaceError { path: name.to_path_buf(), operation, source: explained(name, source) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use verisum_testkit::{FsKind, Mount};

    fn write(name: &Path, text: &str) -> Replacement {
        let replacement = Replacement::new(name).unwrap();
        replacement.file().write_all(text.as_bytes()).unwrap();
        replacement
    }

    #[test]
    fn a_file_is_replaced_at_once_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("file");
        write(&name, "one").place().unwrap();
        std::fs::set_permissions(&name, Permissions::from_mode(0o640)).unwrap();
        drop(write(&name, "given up"));
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "one");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("file", &link).unwrap();
        write(&link, "two").place().unwrap();
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "two");
        assert!(link.is_symlink());
        assert_eq!(name.metadata().unwrap().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn a_file_takes_the_place_of_what_is_expected_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        let stat = |name: &str| Stat::of(File::open(path(name)).unwrap()).unwrap();
        assert!(write(&path("a"), "one").swap(None, None).unwrap());
        assert!(!write(&path("a"), "no").swap(None, None).unwrap(), "something is there");
        let first = stat("a");
        assert!(write(&path("a"), "two").swap(Some(&first), Some(&path("old"))).unwrap());
        assert_eq!((read("a"), read("old")), ("two".into(), "one".into()));
        assert!(!write(&path("a"), "no").swap(Some(&first), None).unwrap(), "another is there");
        assert!(!write(&path("b"), "no").swap(Some(&first), None).unwrap(), "nothing is there");
        let error = write(&path("a"), "no").swap(Some(&stat("a")), Some(&path("none/old"))).unwrap_err();
        assert!(error.to_string().ends_with("No such file or directory (os error 2)"), "{error}");
        assert_eq!(read("a"), "two");
        let again = Replacement::of_file(&path("b"), File::open(path("a")).unwrap()).unwrap();
        assert!(again.swap(None, None).unwrap());
        assert_eq!(stat("b").inode, stat("a").inode);
        let named = Replacement::named(&path("b"), Permitted::PRIVATE).unwrap();
        assert!(named.swap(Some(&stat("b")), None).unwrap());
        assert_eq!(read("b"), "");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left behind");
    }

    #[test]
    fn what_is_appended_while_the_names_are_exchanged_stays() {
        // In memory, where there is one: each round waits for the disk.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let path = folder.path().join("file");
        for round in 0..2000 {
            std::fs::write(&path, "old").unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
            let (new, stat) = (write(&path, "new"), Stat::of(File::open(&path).unwrap()).unwrap());
            let start = std::sync::Barrier::new(2);
            let is_placed = std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    (0..fastrand::u32(..2000)).for_each(|_| std::hint::spin_loop());
                    let mut file = File::options().append(true).open(&path).unwrap();
                    (0..fastrand::u32(..1000)).for_each(|_| std::hint::spin_loop());
                    file.write_all(b"!").unwrap();
                });
                start.wait();
                new.swap(Some(&stat), None).unwrap()
            });
            let now = std::fs::read_to_string(&path).unwrap();
            assert!(["new!", "old!"].contains(&&*now), "round {round}: {now}, {is_placed}");
        }
    }

    #[test]
    fn what_is_kept_takes_the_place_of_nothing() {
        let plain = tempfile::tempdir().unwrap();
        // Sticks cannot exchange two names.
        let sticks = [FsKind::Vfat, FsKind::Exfat].into_iter().filter_map(|kind| Mount::new(kind, 0));
        let sticks: Vec<Mount> = sticks.collect();
        for folder in sticks.iter().map(Mount::path).chain([plain.path().to_path_buf()]) {
            let path = |name: &str| folder.join(name);
            std::fs::write(path("file"), "bad").unwrap();
            std::fs::write(path("kept"), "what another repair keeps").unwrap();
            let stat = Stat::of(File::open(path("file")).unwrap()).unwrap();
            let error = write(&path("file"), "new").swap(Some(&stat), Some(&path("kept"))).unwrap_err();
            assert_eq!(error.source.raw_os_error(), Some(Errno::EXIST.raw_os_error()), "{error}");
            assert_eq!(std::fs::read_to_string(path("kept")).unwrap(), "what another repair keeps");
            assert_eq!(std::fs::read_to_string(path("file")).unwrap(), "bad");
            has_only(2, &folder);
        }
    }

    /// Waits until there are so many names in a folder. FUSE removes a file that was open when it was removed a moment
    /// after it is closed.
    fn has_only(names: usize, folder: &Path) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while std::fs::read_dir(folder).unwrap().count() != names {
            assert!(std::time::Instant::now() < end, "something is left behind");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    #[test]
    fn where_every_file_has_a_name_what_a_kill_leaves_of_a_repair_is_told_by_that() {
        for stick in [FsKind::Vfat, FsKind::Exfat].into_iter().filter_map(|kind| Mount::new(kind, 0)) {
            let folder = stick.path();
            let path = |name: &str| folder.join(name);
            std::fs::write(path("file"), "bad").unwrap();
            let passing = Replacement::passing(&path("file")).unwrap();
            passing.file().write_all(b"good").unwrap();
            let name = passing.path().file_name().unwrap().to_str().unwrap().to_string();
            assert_eq!(name, format!("{PASSING}{}-0{UNPLACED}", std::process::id()));
            let stat = Stat::of(File::open(path("file")).unwrap()).unwrap();
            assert!(passing.swap(Some(&stat), None).unwrap());
            assert_eq!(std::fs::read_to_string(path("file")).unwrap(), "good");
            drop(Replacement::passing(&path("file")).unwrap());
            has_only(1, &folder);
            let left = path(&format!("{PASSING}{}-0{UNPLACED}", i32::MAX));
            std::fs::write(&left, "half").unwrap();
            remove_passing(&folder, &|_, _| false);
            assert!(!left.exists());
        }
    }

    #[test]
    fn named_files_are_placed_too() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("file");
        let replacement = Replacement::named(&name, Permitted { mode: 0o640, group: None }).unwrap();
        assert!(replacement.path().exists() && !name.exists());
        replacement.file().write_all(b"text").unwrap();
        replacement.place().unwrap();
        drop(Replacement::named(&name, Permitted::PRIVATE).unwrap());
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "text");
        assert_eq!(name.metadata().unwrap().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_closed_to_others_until_it_is_given_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("file");
        let begin = |target: &Path, mode| {
            for make in [Unplaced::new, Unplaced::named] {
                let mode_of = |file: &File| file.metadata().unwrap().mode() & 0o777;
                assert_eq!(mode_of(make(target, mode)?.get()), PRIVATE);
            }
            Unplaced::named(target, mode)
        };
        let permitted = Permitted { mode: 0o644, group: None };
        Replacement::begin(&name, |_| Some(permitted), &begin).unwrap().place().unwrap();
        assert_eq!(name.metadata().unwrap().mode() & 0o777, 0o644);
    }

    #[test]
    fn private_files_are_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("file");
        for (old, new) in [(None, 0o600), (Some(0o644), 0o600), (Some(0o640), 0o640)] {
            if let Some(old) = old {
                std::fs::set_permissions(&name, Permissions::from_mode(old)).unwrap();
            }
            Replacement::private(&name).unwrap().place().unwrap();
            assert_eq!(name.metadata().unwrap().mode() & 0o777, new, "{old:?}");
        }
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let link = |name: &str, to: &str| {
            std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
            folder.path().join(name)
        };
        let links = [link("dangling", "nothing"), link("loop", "loop"), link("null", "/dev/null")];
        let others = ["/dev/null".into(), folder.path().into(), folder.path().join("no/file"), "..".into()];
        for name in links.into_iter().chain(others) {
            assert!(Replacement::new(&name).is_err(), "{}", name.display());
        }
    }

    #[test]
    fn what_is_not_to_be_replaced_is_not_removed_either() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // A name that is taken, one that is free, and none that can be given.
        std::fs::write(path("taken"), "new").unwrap();
        for (name, is_back) in [("taken", true), ("free", true), (&*"n".repeat(300), false)] {
            std::fs::write(path("passing"), "other").unwrap();
            let mut passing = Passing(path("passing"));
            assert_eq!(passing.swap_back(&path(name)).is_ok(), is_back, "{name}");
            drop(passing);
            let other = if is_back { path(name) } else { path("passing") };
            assert_eq!(std::fs::read_to_string(other).unwrap(), "other", "{name}");
            assert_eq!(path("passing").exists(), !is_back, "{name}");
        }
    }

    #[test]
    fn links_of_others_are_not_followed() {
        if verisum_testkit::require_root().is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "old").unwrap();
        std::os::unix::fs::symlink("file", path("theirs")).unwrap();
        std::os::unix::fs::symlink("theirs", path("ours")).unwrap();
        std::os::unix::fs::lchown(path("theirs"), Some(65534), Some(65534)).unwrap();
        for name in ["theirs", "ours"] {
            let error = Replacement::new(&path(name)).unwrap_err();
            assert!(error.to_string().ends_with("it is a link of another user"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(path("file")).unwrap(), "old");
    }
    #[test]
    fn the_way_leads_through_no_link_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["in", "theirs", "elsewhere"] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::write(path(name).join("file"), "old").unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        std::os::unix::fs::symlink("in", path("ours")).unwrap();
        write(&path("ours/file"), "new").place().unwrap();
        assert_eq!(read("in/file"), "new");
        // Whoever changes the way meanwhile leads nothing elsewhere.
        let named = Replacement::named(&path("theirs/file"), Permitted::PRIVATE).unwrap();
        named.file().write_all(b"named").unwrap();
        for replacement in [write(&path("theirs/file"), "nameless"), named] {
            std::fs::rename(path("theirs"), path("away")).unwrap();
            std::os::unix::fs::symlink("elsewhere", path("theirs")).unwrap();
            replacement.place().unwrap();
            std::fs::remove_file(path("theirs")).unwrap();
            std::fs::rename(path("away"), path("theirs")).unwrap();
        }
        assert_eq!((read("theirs/file"), read("elsewhere/file")), ("named".into(), "old".into()));
        assert_eq!(std::fs::read_dir(path("elsewhere")).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(path("theirs")).unwrap().count(), 1);
        if verisum_testkit::require_root().is_none() {
            return;
        }
        std::os::unix::fs::lchown(path("ours"), Some(65534), Some(65534)).unwrap();
        std::os::unix::fs::symlink(path("ours/file"), path("through")).unwrap();
        for name in ["ours/file", "ours/none", "through"] {
            let error = Replacement::new(&path(name)).unwrap_err();
            assert!(error.to_string().ends_with("a link of another user leads there"), "{error}");
        }
    }
}
