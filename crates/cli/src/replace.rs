//! Files that take their place at once or not at all: a full disk or a kill leaves what was there before.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// A file that is being written and will replace the one of its name, if there is one.
#[derive(Debug)]
pub(crate) struct Replacement {
    file: Unplaced,
    /// As it was given, for messages.
    name: PathBuf,
    /// Links resolved.
    target: PathBuf,
    folder: PathBuf,
}

/// A file that nobody sees yet.
#[derive(Debug)]
enum Unplaced {
    /// Without a name: whatever ends this process, nothing is left behind.
    Nameless(File),
    /// Beside its place, where the file system must have a name.
    Named(NamedTempFile),
}

impl Replacement {
    /// Begins a file of this name. What is there is left alone until [`place`](Replacement::place); its
    /// permissions are kept, and where the name is a link, what it leads to is replaced.
    pub(crate) fn new(name: &Path) -> Result<Replacement, Failure> {
        let failed = |error| failure(name, "create", error);
        let is_link = std::fs::symlink_metadata(name).is_ok_and(|found| found.is_symlink());
        let target = match is_link {
            true => std::fs::canonicalize(name).map_err(|error| match error.kind() {
                // Whoever may write links into a shared folder does not say what files others make.
                io::ErrorKind::NotFound => failed(io::Error::other("the link leads to no file")),
                _ => failed(error),
            })?,
            false => name.to_path_buf(),
        };
        let old = match std::fs::metadata(&target) {
            Ok(old) if !old.is_file() => return Err(failed(io::Error::other("not a regular file"))),
            Ok(old) => Some(old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if target.file_name().is_none() {
            return Err(failed(Errno::ISDIR.into()));
        }
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let file = Unplaced::new(&folder).map_err(failed)?;
        if let Some(old) = old {
            let permissions = Permissions::from_mode(old.mode() & 0o777);
            file.get().set_permissions(permissions).map_err(failed)?;
        }
        Ok(Replacement { file, name: name.to_path_buf(), target, folder })
    }

    /// The file to write to.
    pub(crate) fn file(&self) -> &File {
        self.file.get()
    }

    /// Where it will be, by one name whatever the way there.
    pub(crate) fn target(&self) -> PathBuf {
        let folder = std::fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        folder.join(self.target.file_name().unwrap_or_default())
    }

    /// Puts the file in its place, when it is safely on the disk.
    pub(crate) fn place(self) -> Result<(), Failure> {
        let Replacement { file, name, target, folder } = self;
        let failed = |error| failure(&name, "write", error);
        file.get().sync_all().map_err(failed)?;
        match file {
            Unplaced::Nameless(file) => place_nameless(&file, &folder, &target).map_err(failed)?,
            Unplaced::Named(file) => drop(file.persist(&target).map_err(|error| failed(error.error))?),
        }
        // Not every file system lets a folder be synchronized; the file is complete in any case.
        let _ = File::open(&folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Unplaced {
    fn new(folder: &Path) -> io::Result<Unplaced> {
        // A name is given through `/proc`.
        if Path::new("/proc/self/fd").exists() {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            match rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => return Ok(Unplaced::Nameless(file.into())),
                // The file system or the kernel has no files without a name.
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let named = tempfile::Builder::new()
            .prefix(".verisum-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)?;
        Ok(Unplaced::Named(named))
    }

    fn get(&self) -> &File {
        match self {
            Unplaced::Nameless(file) => file,
            Unplaced::Named(file) => file.as_file(),
        }
    }
}

/// Gives a file without a name a passing one, and then its own: only a rename replaces another file.
fn place_nameless(file: &File, folder: &Path, target: &Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut number = 0_u32;
    let passing = loop {
        let passing = folder.join(format!(".verisum-{}-{number}", std::process::id()));
        match rustix::fs::linkat(CWD, &own, CWD, &passing, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) => break passing,
            Err(Errno::EXIST) if number < 1000 => number += 1,
            Err(error) => return Err(error.into()),
        }
    };
    std::fs::rename(&passing, target).inspect_err(|_| {
        let _ = std::fs::remove_file(&passing);
    })
}

fn failure(name: &Path, operation: &'static str, error: io::Error) -> Failure {
    Failure::File { name: name.to_path_buf(), operation, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
    fn named_files_are_placed_too() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("file");
        let file = tempfile::Builder::new().tempfile_in(folder.path()).unwrap();
        let file = Unplaced::Named(file);
        let replacement =
            Replacement { file, name: name.clone(), target: name.clone(), folder: folder.path().into() };
        replacement.file().write_all(b"text").unwrap();
        replacement.place().unwrap();
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "text");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        for name in [Path::new("/dev/null"), folder.path(), &folder.path().join("no/file"), Path::new("..")] {
            assert!(Replacement::new(name).is_err(), "{}", name.display());
        }
    }
}
