//! Trees whose names are hard to carry, and lists of their digests.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::{Ended, verisum};

/// Names that shells, and lines of lists, would stumble over.
pub const ODD: [&[u8]; 12] = [
    b"plain",
    b"with space",
    b"-dash",
    b"quote'\"",
    b"$(touch made)",
    b"`touch made`",
    b"new\nline",
    b"back\\slash",
    b"tab\tand\rreturn",
    b"\xff\xfe",
    b"*?[a]",
    b"end 0",
];

/// A tree with odd names and some hundred plain ones.
pub fn tree() -> TempDir {
    let folder = tempfile::Builder::new().prefix("verisum-files-").tempdir().unwrap();
    fill(folder.path());
    folder
}

/// Makes such a tree in an empty directory.
pub fn fill(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let below = folder.join("a b").join("$c'");
    fs::create_dir_all(&below).unwrap();
    for name in ODD {
        fs::write(below.join(OsStr::from_bytes(name)), name).unwrap();
    }
    for number in 0..200 {
        fs::write(folder.join(format!("file-{number}")), vec![7; number * 37]).unwrap();
    }
    fs::write(folder.join("empty"), "").unwrap();
    symlink("empty", folder.join("link")).unwrap();
}

/// What the list must be: paths and digests.
pub fn expected(folder: &Path) -> BTreeMap<String, String> {
    let listed = verisum([OsStr::new("sum"), OsStr::new("-rz"), folder.as_os_str()]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    parsed(&listed.stdout)
}

/// The names, escaped, and digests of a list with NULs.
pub fn parsed(list: &[u8]) -> BTreeMap<String, String> {
    let lines = list.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    let mut files = BTreeMap::new();
    for line in lines {
        let space = line.iter().position(|byte| *byte == b' ').unwrap();
        let digest = String::from_utf8(line[..space].to_vec()).unwrap();
        let name = line[space + 2..].escape_ascii().to_string();
        assert!(files.insert(name.clone(), digest).is_none(), "{name} twice");
    }
    files
}

/// Asserts the exit code and the files; a whole list would be too long to read.
#[track_caller]
pub fn assert_lists(ended: &Ended, code: i32, expected: &BTreeMap<String, String>, what: &str) {
    let found = parsed(&ended.stdout);
    let differs = |name: &&String| found.get(*name) != expected.get(*name);
    let first: Vec<&String> = expected.keys().chain(found.keys()).filter(differs).take(5).collect();
    assert!(first.is_empty(), "{what}: {first:?}: {}", ended.stderr);
    assert_eq!(ended.code, Some(code), "{what}: {}", ended.stderr);
}

/// A path on a host.
pub fn place(host: &str, folder: &Path) -> OsString {
    let mut place = OsString::from(host);
    place.push(folder);
    place
}
