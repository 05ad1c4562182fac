//! Trees that are scrubbed.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Ended, verisum};

/// A tree in a folder of its own, and its catalogue beside it.
pub struct Tree {
    pub folder: TempDir,
}

impl Tree {
    pub fn new() -> Tree {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("tree/below")).unwrap();
        let tree = Tree { folder };
        for number in 0..10 {
            fs::write(tree.path(&format!("f{number}")), format!("content {number}")).unwrap();
        }
        fs::write(tree.path("below/deep"), "deep content").unwrap();
        tree
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("tree")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn catalog(&self) -> PathBuf {
        self.folder.path().join("c.db")
    }

    pub fn scrub(&self, options: &[&str]) -> Ended {
        scrub(&self.catalog(), &self.root(), options)
    }

    pub fn accept(&self, path: &Path) -> Ended {
        verisum([s("accept"), s("--catalog"), self.catalog(), path.into()])
    }
}

pub fn s(text: &str) -> PathBuf {
    text.into()
}

pub fn scrub(catalog: &Path, root: &Path, options: &[&str]) -> Ended {
    let mut arguments = vec![s("scrub"), s("--catalog"), catalog.into()];
    arguments.extend(options.iter().map(PathBuf::from));
    arguments.push(root.into());
    verisum(arguments)
}

pub fn check(catalog: &Path) {
    let ended = verisum([s("catalog"), s("check"), s("--catalog"), catalog.into()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Asserts the exit code and that these lines are printed, each by its first two words.
#[track_caller]
pub fn expect(ended: &Ended, code: i32, lines: &[(&str, &Path)]) {
    let out = String::from_utf8_lossy(&ended.stdout);
    let mut found: Vec<(&str, &str)> = out
        .lines()
        .filter(|line| !line.starts_with(' ') && !line.contains(" files, ") && !line.contains(" file, "))
        .map(|line| line.split_once(char::is_whitespace).unwrap())
        .map(|(verdict, rest)| (verdict, rest.trim_start().split("  (").next().unwrap()))
        .collect();
    let mut wanted: Vec<(&str, &str)> =
        lines.iter().map(|(verdict, path)| (*verdict, path.to_str().unwrap())).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{out}{}", ended.stderr);
    assert_eq!(ended.code, Some(code), "{out}{}", ended.stderr);
}

/// Asserts that a run was refused with a code and these words.
#[track_caller]
pub fn refused(ended: &Ended, code: i32, words: &str) {
    assert!(ended.stderr.contains(words), "{}{}", ended.out(), ended.stderr);
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
}

/// The records of a catalogue.
pub fn export(catalog: &Path) -> String {
    verisum([s("catalog"), s("export"), s("--catalog"), catalog.into()]).clean()
}
