//! Opens a path that a user named, through no link of another user.
//!
//! Whoever owns a folder may put a link in its place between the moment when somebody named a file in it and
//! the moment when that is opened. What root then writes to is a file of the owner's choice.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstat, fstatfs, openat, openat2, readlinkat,
};
use rustix::io::Errno;

use super::entry::STEP;
use crate::replace::{MOST_LINKS, is_trusted};
use crate::{FileError, Operation, Stat};

/// Why a folder is not opened.
#[derive(Debug, thiserror::Error)]
#[error("a link of another user leads there")]
pub(crate) struct LinkOfAnother;

/// Opens a folder. The links on the way, and the folder's own name, may be root's and our own.
pub(crate) fn folder(path: &Path) -> io::Result<OwnedFd> {
    // One call, where there is no link at all.
    match openat2(CWD, path, STEP, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::LOOP | Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG) => step_by_step(path),
        opened => Ok(opened?),
    }
}

fn step_by_step(path: &Path) -> io::Result<OwnedFd> {
    let reached = walk(path)?;
    // It is a folder.
    Ok(openat(&reached, ".", STEP, Mode::empty())?)
}

/// Something that a user named, reached through links of root's and our own only, and held: whatever takes its name,
/// this is what was named.
#[derive(Debug)]
pub struct Reached {
    descriptor: OwnedFd,
    named: PathBuf,
}

impl Reached {
    /// Reaches what a path leads to.
    ///
    /// # Errors
    /// Nothing is there, or a link of another user leads there.
    pub fn new(path: &Path) -> Result<Reached, FileError> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let reached = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Err(Errno::LOOP | Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG) => walk(path),
            opened => opened.map_err(io::Error::from),
        };
        let descriptor = reached.map_err(|error| FileError::io(path, Operation::Open, error))?;
        Ok(Reached { descriptor, named: path.to_path_buf() })
    }

    /// What is said of it.
    ///
    /// # Errors
    /// Its file system does not say.
    pub fn stat(&self) -> Result<Stat, FileError> {
        Stat::of(&self.descriptor).map_err(|errno| FileError::io(&self.named, Operation::Stat, errno))
    }

    /// Whether it is a block device, which is found out without opening it.
    ///
    /// # Errors
    /// Its file system does not say.
    pub fn is_block_device(&self) -> Result<bool, FileError> {
        let stat =
            fstat(&self.descriptor).map_err(|errno| FileError::io(&self.named, Operation::Stat, errno))?;
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
    }

    /// Opens it.
    ///
    /// # Errors
    /// The system forbids that.
    pub fn open(&self, flags: OFlags) -> Result<File, FileError> {
        let file = openat(CWD, self.held(), flags | OFlags::CLOEXEC, Mode::empty());
        file.map(File::from).map_err(|errno| FileError::io(&self.named, Operation::Open, errno))
    }

    /// Its path from the root of the file system, without links.
    ///
    /// # Errors
    /// `/proc` does not tell.
    pub fn path(&self) -> Result<PathBuf, FileError> {
        let text = readlinkat(CWD, self.held(), Vec::new());
        let text = text.map_err(|errno| FileError::io(&self.named, Operation::Open, errno))?;
        let path = PathBuf::from(OsString::from_vec(text.into_bytes()));
        match path.is_absolute() {
            true => Ok(path),
            false => Err(FileError::io(&self.named, Operation::Open, io::Error::other("it has no path"))),
        }
    }

    fn held(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()).into()
    }
}

/// Where a path leads, from the root of the file system and without links, through links of root's and our own only.
/// What is missing has a name in a folder that may be there.
///
/// # Errors
/// A link of another user leads there, or something on the way cannot be opened.
pub fn trusted_path(path: &Path) -> Result<PathBuf, FileError> {
    match Reached::new(path) {
        Err(FileError::Io { ref source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        reached => return reached?.path(),
    }
    let path = std::path::absolute(path).map_err(|error| FileError::io(path, Operation::Open, error))?;
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok(trusted_path(folder)?.join(name)),
        _ => Ok(path.components().filter(|part| *part != Component::CurDir).collect()),
    }
}

/// Where the folder of a path leads, with its name, which may be that of a link.
///
/// # Errors
/// As [`trusted_path`].
pub fn trusted_name(path: &Path) -> Result<PathBuf, FileError> {
    match split(path) {
        (way, Some(name)) => {
            let way = if way == Path::new("") { Path::new(".") } else { way };
            Ok(trusted_path(way)?.join(name))
        }
        (path, None) => trusted_path(path),
    }
}

fn walk(path: &Path) -> io::Result<OwnedFd> {
    let mut reached = openat(CWD, ".", STEP, Mode::empty())?;
    let mut left = Vec::new();
    push(&mut left, path);
    let mut links = 0;
    while let Some(step) = left.pop() {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = openat(&reached, &step, flags, Mode::empty())?;
        let found = fstat(&next)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            reached = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        if !is_trusted(found.st_uid) {
            return Err(io::Error::other(LinkOfAnother));
        }
        if fstatfs(&next)?.f_type == PROC_SUPER_MAGIC {
            // Its text is no path.
            reached = openat(&reached, &step, STEP, Mode::empty())?;
        } else {
            let text = readlinkat(&next, "", Vec::new())?;
            push(&mut left, Path::new(&OsString::from_vec(text.into_bytes())));
        }
    }
    Ok(reached)
}

/// Puts the names of a path on those that are left, the first one last.
fn push(left: &mut Vec<OsString>, path: &Path) {
    let names = path.components().filter(|name| *name != Component::CurDir);
    left.extend(names.map(|name| name.as_os_str().to_os_string()).rev());
}

/// The way to a name and the name. The way keeps its last slash, so that whoever joins the two gets what was
/// given; where it is all of the path, the name is none.
pub(crate) fn split(path: &Path) -> (&Path, Option<&Path>) {
    let bytes = path.as_os_str().as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (way, name) = bytes.split_at(at);
    let as_path = |bytes| Path::new(std::ffi::OsStr::from_bytes(bytes));
    match name {
        b"" | b"." | b".." => (path, None),
        _ => (as_path(way), Some(as_path(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;
    use std::os::unix::fs::{lchown, symlink};

    #[test]
    fn paths_are_split_as_they_are_joined() {
        let all = |path: &'static str| {
            let (way, name) = split(Path::new(path));
            (way.to_str().unwrap(), name.map(|name| name.to_str().unwrap()))
        };
        assert_eq!(all("a"), ("", Some("a")));
        assert_eq!(all("/a"), ("/", Some("a")));
        assert_eq!(all("./x//a"), ("./x//", Some("a")));
        for path in ["a/", "/", ".", "a/..", "..", "a/."] {
            assert_eq!(all(path), (path, None));
        }
    }

    #[test]
    fn only_links_of_roots_and_our_own_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = |name: &str| root.join(name);
        std::fs::create_dir_all(path("in/deep")).unwrap();
        std::fs::write(path("in/deep/f"), "text").unwrap();
        symlink("in", path("ours")).unwrap();
        symlink(path("ours/deep"), path("through")).unwrap();
        symlink("loop", path("loop")).unwrap();
        let file = Stat::of(File::open(path("in/deep/f")).unwrap()).unwrap().inode;
        for way in ["in/deep/f", "ours/deep/f", "through/f", "through/../deep/./f", "in//deep/f"] {
            let entry = Entry::trusted(&path(way)).unwrap();
            assert_eq!((entry.inode(), entry.path()), (file, path(way)), "{way}");
        }
        let inode = |name: &str| Entry::trusted(&path(name)).map(|entry| entry.inode());
        assert_eq!(inode("through/").unwrap(), inode("in/deep").unwrap());
        assert_ne!(inode("through").unwrap(), inode("in/deep").unwrap());
        for way in ["loop/f", "none/f", "in/deep/f/x", "in/deep/f/"] {
            let error = Entry::trusted(&path(way)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}: ", path(way).display())), "{error}");
        }
        let own = File::open(path("in")).unwrap();
        let own = format!("/proc/self/fd/{}/deep/f", own.as_raw_fd());
        assert_eq!(Entry::trusted(Path::new(&own)).unwrap().inode(), file);
        for (way, leads) in [("ours/deep/f", "in/deep/f"), ("through", "in/deep"), ("none/x", "none/x")] {
            assert_eq!(trusted_path(&path(way)).unwrap(), path(leads), "{way}");
        }
        // What was reached stays what it is.
        let reached = Reached::new(&path("ours/deep/f")).unwrap();
        std::fs::rename(path("in/deep/f"), path("in/deep/g")).unwrap();
        std::fs::write(path("in/deep/f"), "another").unwrap();
        assert_eq!((reached.stat().unwrap().inode, reached.path().unwrap()), (file, path("in/deep/g")));
        let opened = io::read_to_string(reached.open(OFlags::RDONLY).unwrap()).unwrap();
        assert_eq!(opened, "text");
        std::fs::rename(path("in/deep/g"), path("in/deep/f")).unwrap();
        if verisum_testkit::require_root().is_none() {
            return;
        }
        lchown(path("ours"), Some(65534), Some(65534)).unwrap();
        for way in ["ours", "ours/deep/f", "through", "ours/none"] {
            let error = trusted_path(&path(way)).unwrap_err();
            let end = format!(": open: {LinkOfAnother}");
            assert!(error.to_string().ends_with(&end), "{way}: {error}");
        }
        assert_eq!(trusted_name(&path("ours")).unwrap(), path("ours"));
        assert!(trusted_name(&path("ours/deep")).is_err());
        for way in ["ours/deep/f", "through/f", "through/", "ours/"] {
            let error = Entry::trusted(&path(way)).unwrap_err();
            let expected = format!("{}: open: {LinkOfAnother}", path(way).display());
            assert_eq!(error.to_string(), expected, "{way}");
        }
        assert!(inode("in/deep/f").is_ok() && inode("ours").is_ok());
    }
}
