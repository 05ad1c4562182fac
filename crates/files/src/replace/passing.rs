//! Names of unfinished files, and the removal of those that killed runs left.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;

use super::{UNPLACED, folder_of, rename_to_nothing};

/// What the name of a file begins with while it takes the place of another; only a kill leaves one. The number of the
/// process follows, and that of the file in it; [`UNPLACED`] ends it as long as the file is being written.
pub const PASSING: &str = ".verisum-repair-";

/// The process that gave a file such a name, by what follows the beginning: its number, and that of the file in it. Other
/// names that begin so are somebody's own.
pub fn process_of(rest: &[u8]) -> Option<i32> {
    let (process, number) = std::str::from_utf8(rest).ok()?.split_once('-')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    number.parse::<u32>().ok().filter(|_| is_number(process) && is_number(number))?;
    process.parse().ok()
}

/// Digits of the number in the name that `parity repair` gives a file beside its place.
const SEAL: usize = 16;

/// Whether a name is one that a repair gives a file for a moment: what has it is no file of a tree. Other names that
/// begin so are somebody's own.
pub fn is_passing(name: &[u8]) -> bool {
    let Some(own) = name.strip_prefix(PASSING.as_bytes()) else { return false };
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_seal = own.len() == SEAL && own.iter().all(is_digit);
    is_seal || process_of(own.strip_suffix(UNPLACED.as_bytes()).unwrap_or(own)).is_some()
}

/// Removes what processes that were killed while they replaced files of this folder left of them: what they were writing,
/// and of what was to change places with a file that which is such a file, by what the system says of it and its path.
pub fn remove_passing(folder: &Path, is_such: &dyn Fn(&Metadata, &Path) -> bool) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let own = name.to_str().and_then(|name| name.strip_prefix(PASSING)).unwrap_or_default();
        let unplaced = own.strip_suffix(UNPLACED);
        let process = process_of(unplaced.unwrap_or(own).as_bytes()).and_then(rustix::process::Pid::from_raw);
        let is_left =
            process.is_some_and(|process| rustix::process::test_kill_process(process) == Err(Errno::SRCH));
        let path = entry.path();
        let is_such = |about: &Metadata| unplaced.is_some() || is_such(about, &path);
        if is_left && entry.metadata().is_ok_and(|about| about.is_file() && is_such(&about)) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Gives a file without a name one beside its target, for a moment.
pub(super) fn passing_name(file: &File, target: &Path) -> io::Result<PathBuf> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    make_passing(target, |passing| {
        rustix::fs::linkat(CWD, &own, CWD, passing, AtFlags::SYMLINK_FOLLOW)?;
        Ok(passing.to_path_buf())
    })
}

/// Makes something beside a target by a passing name that nothing has.
pub(super) fn make_passing<T>(target: &Path, mut make: impl FnMut(&Path) -> io::Result<T>) -> io::Result<T> {
    let mut number = 0_u32;
    loop {
        let passing = folder_of(target).join(format!("{PASSING}{}-{number}", std::process::id()));
        match make(&passing) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
            made => return made,
        }
    }
}

/// Gives a complete file the passing name that it was written beside. Others stay as they are.
pub(super) fn complete_name(path: PathBuf) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    match name.starts_with(PASSING.as_bytes()) && name.ends_with(UNPLACED.as_bytes()) {
        true => {
            let complete = path.with_extension("");
            rename_to_nothing((CWD, path.as_os_str()), (CWD, complete.as_os_str()))?;
            Ok(complete)
        }
        false => Ok(path),
    }
}

/// A path that ends otherwise.
pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_os_string();
    path.push(end);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_of_repairs_are_theirs() {
        for own in ["1-0", "4711-3.new", "0123456789abcdef"] {
            assert!(is_passing(format!("{PASSING}{own}").as_bytes()), "{own}");
        }
        for other in ["", "notes", "1", "1-", "-1", "1-0.old", "0123456789ABCDEF", "0123456789abcdef0"] {
            assert!(!is_passing(format!("{PASSING}{other}").as_bytes()), "{other}");
        }
        assert!(!is_passing(b"notes"));
    }
}
