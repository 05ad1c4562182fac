//! Recognizes the directories of `verisum parity`. A scrub of the catalogue leaves them out: parity has digests of its own.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use verisum_files::Entry;

/// The name of a directory with parity, as the crate of parity has it.
const PARITY: &str = ".verisum-parity";

/// Whether a directory is what `verisum parity` made: it has the usual name, and an index of parity.
pub(super) fn is_parity(entry: &Entry) -> bool {
    const INDEX: &[u8] = b"verisum parity index";
    let begins = |name: &str| {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let path = Path::new(entry.name()).join(name);
        let file = rustix::fs::openat(entry.directory(), &path, flags, Mode::empty());
        let mut start = [0; INDEX.len()];
        file.is_ok_and(|file| File::from(file).read_exact(&mut start).is_ok()) && start == INDEX
    };
    entry.name() == PARITY && (begins("index") || begins("index.copy"))
}

/// Whether a recorded name in a directory is one of parity.
pub(super) fn is_of_parity_in(folder: &Path, name: &[u8]) -> bool {
    folder.file_name().is_some_and(|folder| folder == PARITY) && is_of_parity(name)
}

/// Whether a name in a directory of parity is one that parity gives: what else lies there is somebody's file.
pub(super) fn is_of_parity(name: &[u8]) -> bool {
    let name = name.strip_suffix(b".new").unwrap_or(name);
    let is_set = name.strip_prefix(b"set-").and_then(|name| name.strip_suffix(b".parity"));
    let is_set = is_set.is_some_and(|number| number.len() >= 8 && number.iter().all(u8::is_ascii_digit));
    is_set || [&b"index"[..], b"index.copy"].contains(&name) || name.starts_with(b"in-place-")
}
