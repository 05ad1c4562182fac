//! Which copies `verisum repair` reads to find the recorded content, and how it is interrupted meanwhile.

use crate::common;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use common::{Ended, VERISUM, change_and_restore_time, command, signal, start, wait_for_open, wait_until};
use rustix::process::Signal;

/// So long that no test could read it.
const ENDLESS: u64 = 1 << 43;

/// A recorded tree of one file, and a copy of it.
struct Trees {
    folder: tempfile::TempDir,
}

impl Trees {
    fn new(content: &[u8]) -> Trees {
        let trees = Trees { folder: tempfile::tempdir().unwrap() };
        for tree in ["tree", "copy"] {
            fs::create_dir(trees.path(tree)).unwrap();
            fs::write(trees.path(tree).join("file"), content).unwrap();
        }
        trees.run(&["scrub", "tree"]).clean();
        trees
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(VERISUM);
        command.env("XDG_STATE_HOME", self.path("state")).current_dir(self.path(".")).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    /// Makes the copy longer.
    fn lengthen(&self, length: u64) {
        File::options().write(true).open(self.path("copy/file")).unwrap().set_len(length).unwrap();
    }

    fn damage(&self, content: &[u8]) {
        change_and_restore_time(&self.path("tree/file"), content);
        assert_eq!(self.run(&["scrub", "tree"]).code, Some(1));
    }
}

#[test]
fn a_copy_of_another_length_is_not_read_but_its_blocks_are_used() {
    let content: Vec<u8> = (0..2_000_000_u32).map(|number| (number / 7) as u8).collect();
    let trees = Trees::new(&content);
    let mut bad = content.clone();
    bad[1_000_000] ^= 1;
    trees.damage(&bad);
    trees.lengthen(ENDLESS);
    let alone = trees.run(&["repair", "--keep-bad", "bad", "--from", "copy", "tree"]);
    assert_eq!(alone.code, Some(1));
    assert!(alone.out().contains("other content: it has another length"), "{}", alone.out());
    fs::write(trees.path("good"), &content).unwrap();
    trees.run(&["image", "map", "--exact", "--output", "tree/file.map", "good"]).clean();
    trees.run(&["repair", "--keep-bad", "bad", "--from", "copy", "tree"]).clean();
    assert!(fs::read(trees.path("tree/file")).unwrap() == content);
}

#[test]
fn a_signal_ends_it_in_the_middle_of_a_copy() {
    let trees = Trees::new(b"good");
    // A list tells no lengths.
    let sums = trees.run(&["sum", "-a", "sha256", "tree/file"]).clean();
    fs::write(trees.path("SUMS"), sums.replace("tree/", "")).unwrap();
    fs::remove_file(trees.path("tree/file")).unwrap();
    trees.lengthen(ENDLESS);
    let mut child = start(&mut trees.command(&["repair", "--sums", "SUMS", "--from", "copy", "tree"]));
    wait_for_open(&mut child, &trees.path("copy/file"));
    signal(&child, Signal::INT);
    wait_until("it ends", || child.try_wait().unwrap().is_some());
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.signal, Some(2), "{}", ended.stderr);
    assert!(ended.out().contains("(was missing; interrupted)"), "{}", ended.out());
    assert!(!trees.path("tree/file").exists());
}
