//! Finds the processes that hold the lock of a catalogue. Only processes that may write to it count.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};

use super::lock::{beside, give};
use verisum_files::replace::folder_of;

/// Puts a new lock, which is held, in the place of one that only such hold who may not write to the catalogue.
/// None where others hold it, where nobody tells who does, and where somebody else was faster.
pub(super) fn held_anew(lock: &Path, old: &File, catalog: &Path) -> io::Result<Option<File>> {
    if !is_held_by_strangers(old, catalog)? {
        return Ok(None);
    }
    let new = tempfile::Builder::new().prefix(&beside(lock, ".")).tempfile_in(folder_of(lock))?;
    new.as_file().try_lock()?;
    give(new.as_file(), catalog);
    let exchange = || renameat_with(CWD, new.path(), CWD, lock, RenameFlags::EXCHANGE);
    exchange()?;
    if !is_named(old, new.path()) {
        exchange()?;
        return Ok(None);
    }
    // The name of the old one goes.
    Ok(Some(new.into_parts().0))
}

/// Whether a path leads to an open file.
pub(super) fn is_named(file: &File, path: &Path) -> bool {
    let identity = |found: io::Result<std::fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    let named = identity(path.symlink_metadata());
    named.is_some() && named == identity(file.metadata())
}

fn is_held_by_strangers(lock: &File, catalog: &Path) -> io::Result<bool> {
    let found = lock.metadata()?;
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let holders: Vec<Option<Pid>> = locks.lines().filter_map(|line| holder(line, &file)).collect();
    let about = catalog.metadata().ok();
    let (owner, group, mode) = match &about {
        Some(about) => (about.uid(), about.gid(), about.mode()),
        None => (geteuid().as_raw(), u32::MAX, 0),
    };
    let may_write = |process: Pid| {
        if test_kill_process(process) == Err(Errno::SRCH) {
            // It left the lock to one that it started: one of ours, where no others can open the file.
            return found.mode() & 0o077 == 0;
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()));
        let Ok(status) = status else { return true };
        let ids = |name: &str| -> Vec<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().filter_map(|id| id.parse().ok()).collect()
        };
        let users = ids("Uid:");
        let is_in_group = ids("Gid:").contains(&group) || ids("Groups:").contains(&group);
        users.is_empty()
            || users.iter().any(|user| *user == 0 || *user == owner)
            || mode & 0o020 != 0 && is_in_group
            || mode & 0o002 != 0
    };
    Ok(!holders.is_empty() && holders.into_iter().all(|holder| holder.is_some_and(|one| !may_write(one))))
}

/// The process that holds a lock on a file, as `/proc/locks` has it; `Some(None)` if it is not told.
fn holder(line: &str, file: &str) -> Option<Option<Pid>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [_, "FLOCK", _, _, process, place, ..] if *place == file => {
            Some(process.parse().ok().filter(|number| *number > 0).and_then(Pid::from_raw))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_found() {
        let line = "12: FLOCK  ADVISORY  WRITE 708 00:1a:12345 0 EOF";
        assert_eq!(holder(line, "00:1a:12345"), Some(Pid::from_raw(708)));
        assert_eq!(holder(line, "00:1a:1234"), None);
        assert_eq!(holder(&line.replace("708", "-1"), "00:1a:12345"), Some(None));
        assert_eq!(holder("1: -> FLOCK  ADVISORY  WRITE 708 00:1a:12345 0 EOF", "00:1a:12345"), None);
    }
}
