//! Where the system permits no change, the error says why: an immutable file or directory, or one that may only grow.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, VERISUM, change_and_restore_time, command};
use verisum_testkit::{require_root, require_tool, skip};

/// A recorded tree of one bad file with parity, and a copy of it.
struct Trees {
    folder: tempfile::TempDir,
    chattr: PathBuf,
}

impl Trees {
    fn new() -> Option<Trees> {
        require_root()?;
        let trees = Trees { folder: tempfile::tempdir().unwrap(), chattr: require_tool("chattr")? };
        for tree in ["tree", "copy"] {
            fs::create_dir_all(trees.path(tree).join("in")).unwrap();
            fs::write(trees.path(tree).join("in/file"), vec![b'g'; 2000]).unwrap();
        }
        fs::create_dir(trees.path("other")).unwrap();
        fs::write(trees.path("other/file"), "other").unwrap();
        trees.run(&["scrub", "tree"]).clean();
        trees.run(&["parity", "create", "--redundancy", "100%", "--to", "parity", "tree"]).clean();
        change_and_restore_time(&trees.path("tree/in/file"), &[&b"b"[..], &[b'g'; 1999]].concat());
        trees.run(&["scrub", "tree"]);
        trees.set("+i", "tree/in/file").then_some(()).or_else(|| {
            skip("files of this file system cannot be made immutable");
            None
        })?;
        trees.set("-i", "tree/in/file");
        Some(trees)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        command.env("XDG_STATE_HOME", self.path("state")).current_dir(self.path(".")).args(words);
        Ended::of(command.output().unwrap())
    }

    fn set(&self, what: &str, name: impl AsRef<Path>) -> bool {
        let path = self.folder.path().join(name);
        Command::new(&self.chattr).arg(what).arg(path).output().unwrap().status.success()
    }
}

#[test]
fn what_may_not_be_changed_is_said() {
    let Some(trees) = Trees::new() else { return };
    let commands: [&[&str]; 4] = [
        &["repair", "--keep-bad", "bad", "--from", "copy", "tree"],
        &["repair", "--keep-bad", "bad", "--parity", "parity", "tree"],
        &["parity", "repair", "--to", "parity", "tree"],
        &["copy", "other", "tree/in"],
    ];
    for (what, undo, name, words) in [
        ("+i", "-i", "tree/in/file", "it is immutable"),
        ("+a", "-a", "tree/in/file", "it is append-only"),
        ("+i", "-i", "tree/in", "its directory is immutable"),
    ] {
        for command in commands {
            assert!(trees.set(what, name));
            let ended = trees.run(command);
            trees.set(undo, name);
            assert_ne!(ended.code, Some(0), "{command:?}");
            let told = format!("{}{}", ended.out(), ended.stderr);
            assert!(told.contains(words), "{what} {name} {command:?}: {told}");
            assert_eq!(fs::read(trees.path("tree/in/file")).unwrap()[0], b'b', "{command:?}");
        }
    }
}
