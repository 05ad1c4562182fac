//! The temporary folder where file systems are made. It is removed however this process ends.
//!
//! As root the folder is a tmpfs in mounts of our own: when the last process that sees them ends, by
//! SIGKILL too, the kernel takes the mounts, the loop devices and the memory back. What is left of a killed
//! run is an empty directory; of one without root a folder with files. Each run holds a lock on its own
//! and removes those that nobody holds.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::measure::MeasureError;
use crate::system;

/// How the names of the folders begin.
const PREFIX: &str = "verisum-bench-";

/// A folder of our own. Dropping it removes it.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
    in_memory: bool,
    /// None where the file system knows no locks: then nobody removes it but this process.
    _lock: Option<File>,
}

impl WorkFolder {
    /// A folder in `parent`.
    pub fn in_folder(parent: &Path) -> Result<WorkFolder, MeasureError> {
        // Absolute, so that no program takes a name for an option.
        let parent = fs::canonicalize(parent).map_err(|error| MeasureError::io(parent, "open", error))?;
        remove_abandoned(&parent);
        for _ in 0..16 {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let name = format!("{PREFIX}{}-{:x}", std::process::id(), since.as_nanos());
            let path = parent.join(name);
            let failed = |error| MeasureError::io(&path, "create", error);
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                created => created.map_err(failed)?,
            }
            match lock(&path) {
                Ok(lock) if lock.metadata().is_ok_and(|about| about.nlink() > 0) => {
                    return Ok(WorkFolder { path, in_memory: false, _lock: Some(lock) });
                }
                // Another run took it for abandoned before it was locked.
                Ok(_) => {}
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::NotFound].contains(&error.kind()) => {}
                Err(_) => return Ok(WorkFolder { path, in_memory: false, _lock: None }),
            }
        }
        let error = ErrorKind::AlreadyExists.into();
        Err(MeasureError::io(&parent, "create a folder", error))
    }

    /// A file system in memory of at most so many bytes, on a folder in `parent`. This thread has mounts
    /// of its own from now on.
    pub fn in_memory(parent: &Path, bytes: u64) -> Result<WorkFolder, MeasureError> {
        let free = available();
        if free.is_some_and(|free| free < bytes) {
            let mib = |bytes: u64| bytes >> 20;
            return Err(MeasureError::Unavailable(format!(
                "it needs {} MiB of memory, and {} MiB are free",
                mib(bytes),
                mib(free.unwrap_or(0))
            )));
        }
        system::own_mounts()
            .map_err(|error| MeasureError::Unavailable(format!("mounts of our own: {error}")))?;
        let mut place = WorkFolder::in_folder(parent)?;
        let options = format!("size={bytes},mode=700");
        let options = std::ffi::CString::new(options).unwrap_or_default();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("tmpfs", &place.path, "tmpfs", flags, Some(options.as_c_str()))
            .map_err(|error| MeasureError::io(&place.path, "mount", error.into()))?;
        place.in_memory = true;
        Ok(place)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, and says if that failed.
    pub fn remove(mut self) -> Result<(), MeasureError> {
        let path = std::mem::take(&mut self.path);
        if self.in_memory {
            let _ = rustix::mount::unmount(&path, UnmountFlags::DETACH);
        }
        fs::remove_dir_all(&path).map_err(|error| MeasureError::io(&path, "remove", error))
    }

    /// Whether it is in memory.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// Bytes that may still be written.
    pub fn free(&self) -> Result<u64, MeasureError> {
        let space = rustix::fs::statvfs(&self.path)
            .map_err(|error| MeasureError::io(&self.path, "ask for free space", error.into()))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        // What fails here has no reader; the kernel ends the mounts with this process.
        if self.in_memory {
            let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Bytes of memory that can be used without hurting others; `None` where the kernel does not say.
pub fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

fn lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder.into())
}

/// Removes what killed runs of this user left. What cannot be removed stays.
fn remove_abandoned(parent: &Path) {
    let Ok(found) = fs::read_dir(parent) else { return };
    let ours = rustix::process::geteuid().as_raw();
    for entry in found.flatten() {
        let is_named_so = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let path = entry.path();
        if !is_named_so || !fs::symlink_metadata(&path).is_ok_and(|about| about.uid() == ours) {
            continue;
        }
        if let Ok(_lock) = lock(&path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_and_go_and_abandoned_ones_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join(format!("{PREFIX}1-1"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("image"), "x").unwrap();
        let other = parent.path().join("verisum-other");
        fs::create_dir(&other).unwrap();
        let link = parent.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(&other, &link).unwrap();

        let first = WorkFolder::in_folder(parent.path()).unwrap();
        assert!(!left.exists(), "nobody holds it");
        let second = WorkFolder::in_folder(parent.path()).unwrap();
        fs::write(second.path().join("image"), "x").unwrap();
        assert!(first.path().exists(), "it is in use");
        assert!(second.free().unwrap() > 0);
        drop((first, second));
        assert!(other.exists() && link.exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
        assert!(WorkFolder::in_folder(Path::new("/no/such/folder")).is_err());
        assert!(available().is_some());
    }

    #[test]
    fn more_memory_than_there_is_is_refused() {
        let error = WorkFolder::in_memory(Path::new("/tmp"), 1 << 60).unwrap_err().to_string();
        assert!(error.starts_with("it needs 1099511627776 MiB of memory, and "), "{error}");
    }
}
