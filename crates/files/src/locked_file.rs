//! A file that is locked (flock), and unlocked when it is dropped.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::process;

/// A locked file. Its lock ends when this is dropped, also if a process that was forked meanwhile has the file open.
#[derive(Debug)]
pub struct LockedFile {
    file: File,
    process: u32,
}

impl LockedFile {
    /// A file that this process has locked, or is about to lock.
    pub fn new(file: File) -> LockedFile {
        LockedFile { file, process: process::id() }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl AsFd for LockedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing unlocks a file once nobody has it open. Another thread that starts a program may just have forked; and
        // a process that was forked must not end the lock of the one that it comes from.
        if self.process == process::id() {
            let _ = self.file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_lock_ends_although_a_program_has_the_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let locked = LockedFile::new(File::create(&path).unwrap());
        locked.file().try_lock().unwrap();
        let mut other = Command::new("cat");
        other.stdin(Stdio::piped()).stdout(locked.file().try_clone().unwrap());
        let mut other = other.spawn().unwrap();
        let again = File::open(&path).unwrap();
        assert!(again.try_lock().is_err());
        drop(locked);
        again.try_lock().unwrap();
        other.stdin.take().unwrap().write_all(b"still open").unwrap();
        other.wait().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"still open");
    }
}
