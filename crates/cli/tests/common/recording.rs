//! Trees with a catalogue beside them.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Ended, verisum};

/// How many files a tree has: one that is read at one file a second takes five minutes, which is longer than
/// any test looks at it.
pub const FILES: u32 = 300;

/// A tree of some files and the path of a catalogue beside it.
pub fn tree() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let (root, catalog) = (path.join("tree"), path.join("c.db"));
    fs::create_dir(&root).unwrap();
    for number in 0..FILES {
        fs::write(root.join(format!("f{number}")), format!("content {number}")).unwrap();
    }
    (folder, root, catalog)
}

pub fn run(words: &[&str], catalog: &Path, paths: &[&Path]) -> Ended {
    let words = words.iter().map(PathBuf::from);
    let paths = paths.iter().map(PathBuf::from);
    verisum(words.chain([PathBuf::from("--catalog"), catalog.into()]).chain(paths))
}
