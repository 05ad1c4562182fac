//! Files at TO that stay hidden until they are complete.

use std::ffi::OsString;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fsync, linkat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use verisum_files::replace::process_of;

use super::shared::Shared;
use super::target::{TargetDirectory, TargetName};

/// How the names begin that files have while they take their places. Those of a copy that was killed are
/// removed by the next one, so they are such that nobody gives one to a file of his own.
pub const LEFTOVER: &str = ".verisum-copy-unfinished-";

/// Whether a file is what a killed copy left. Other names that begin so are somebody's own.
pub(super) fn is_leftover(name: &[u8]) -> bool {
    name.strip_prefix(LEFTOVER.as_bytes()).is_some_and(|rest| process_of(rest).is_some())
}

/// How many passing names are tried.
const MOST_TRIED: u32 = 1000;

/// A file that is being written. It is gone when it is dropped, unless it was placed.
pub(super) struct Temporary<'a> {
    pub(super) file: File,
    /// Its passing name, where the file system knows no files without one.
    name: Option<Passing<'a>>,
}

/// Something under a name that nobody looks for. It is removed when it is dropped, unless it took its place.
pub(super) struct Passing<'a> {
    directory: Arc<TargetDirectory<'a>>,
    /// None once it is another's.
    name: Option<OsString>,
}

impl<'a> Passing<'a> {
    /// Makes something under a name that nothing has.
    pub(super) fn make(
        shared: &Shared,
        directory: &Arc<TargetDirectory<'a>>,
        mut make: impl FnMut(&OsString) -> Result<(), Errno>,
    ) -> Result<Passing<'a>, Errno> {
        for _ in 0..MOST_TRIED {
            let number = shared.next_name.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!("{LEFTOVER}{}-{number}", std::process::id()));
            match make(&name) {
                Err(Errno::EXIST) => {}
                made => return made.map(|()| Passing { directory: directory.clone(), name: Some(name) }),
            }
        }
        Err(Errno::EXIST)
    }

    /// Brings it to the disk by way of its directory: what has no content of its own is nowhere else.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(&*self.directory, ".", flags, Mode::empty()).and_then(fsync) {
            // Not every file system lets a directory be synchronized.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            synced => synced,
        }
    }

    /// Gives it its name, in the place of what has that.
    pub(super) fn place(mut self, target: &TargetName<'a>) -> Result<(), Errno> {
        if let Some(name) = &self.name {
            renameat(&*self.directory, name, &*target.directory, &target.name)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(&*self.directory, name, AtFlags::empty());
        }
    }
}

impl<'a> Temporary<'a> {
    /// Begins a file in this directory.
    pub(super) fn new(
        shared: &Shared<'a>,
        directory: &Arc<TargetDirectory<'a>>,
        mode: u32,
    ) -> Result<Temporary<'a>, Errno> {
        if !shared.has_names_only.load(Ordering::Relaxed) {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            match openat(&**directory, ".", flags, Mode::from_raw_mode(mode & 0o777 | 0o600)) {
                Ok(file) => return Ok(Temporary { file: file.into(), name: None }),
                // The file system or the kernel has no files without a name.
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                    shared.has_names_only.store(true, Ordering::Relaxed);
                }
                Err(errno) => return Err(errno),
            }
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file = None;
        let name = Passing::make(shared, directory, |name| {
            file = Some(File::from(openat(&**directory, name, flags, Mode::RUSR | Mode::WUSR)?));
            Ok(())
        })?;
        let file = file.ok_or(Errno::NOENT)?;
        // Whoever removes what was left knows by it that this one is at work.
        let _ = flock(&file, FlockOperation::NonBlockingLockShared);
        Ok(Temporary { file, name: Some(name) })
    }

    /// Gives it its name, in the place of what has it, if that is there.
    pub(super) fn place(
        self,
        shared: &Shared<'a>,
        target: &TargetName<'a>,
        replaces: bool,
    ) -> Result<(), Errno> {
        let directory = &*target.directory;
        match self.name {
            Some(passing) => passing.place(target),
            None => {
                if !replaces {
                    match link(&self.file, directory, &target.name) {
                        Err(Errno::EXIST) => {}
                        placed => return placed,
                    }
                }
                let _ = flock(&self.file, FlockOperation::NonBlockingLockShared);
                Passing::make(shared, &target.directory, |name| link(&self.file, directory, name))?
                    .place(target)
            }
        }
    }
}

fn link(file: &File, directory: &TargetDirectory, name: &OsString) -> Result<(), Errno> {
    match linkat(file, "", directory, name, AtFlags::EMPTY_PATH) {
        // Older kernels let only root do that.
        Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {
            let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
            linkat(CWD, own, directory, name, AtFlags::SYMLINK_FOLLOW)
        }
        linked => linked,
    }
}
