//! Which copies `verisum repair` reads to find the recorded content, and how it is interrupted meanwhile.

use crate::common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, VERISUM, change_and_restore_time, command, signal, start, wait_for_open, wait_until};
use rustix::process::Signal;
use serde_json::Value;

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
    assert!(alone.out().contains("different content: it has another length"), "{}", alone.out());
    fs::write(trees.path("good"), &content).unwrap();
    trees.run(&["image", "map", "--exact", "--output", "tree/file.map", "good"]).clean();
    trees.run(&["repair", "--keep-bad", "bad", "--from", "copy", "tree"]).clean();
    assert!(fs::read(trees.path("tree/file")).unwrap() == content);
}

/// Of the one file: from where it was or could be repaired, and which copies are bad too.
fn source_and_bad_copies(ended: Ended) -> (String, Vec<String>) {
    let out = ended.clean();
    let file: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    let name = |copy: &Value| {
        let path = Path::new(copy["path"].as_str().unwrap()).parent().unwrap();
        path.file_name().unwrap().to_str().unwrap().to_string()
    };
    (name(&file["from"]), file["bad_copies"].as_array().unwrap().iter().map(name).collect())
}

#[test]
fn copies_that_are_bad_too_are_named() {
    let content: Vec<u8> = (0..2_000_000_u32).map(|number| (number / 7) as u8).collect();
    let trees = Trees::new(&content);
    let damaged = |at: &[usize]| {
        let mut bad = content.clone();
        at.iter().for_each(|at| bad[*at] ^= 1);
        bad
    };
    for name in ["rotten", "short"] {
        fs::create_dir(trees.path(name)).unwrap();
    }
    fs::write(trees.path("rotten/file"), damaged(&[1_000_000])).unwrap();
    fs::write(trees.path("short/file"), &content[..1000]).unwrap();
    let all =
        ["repair", "--keep-bad", "bad", "--from", "short", "--from", "rotten", "--from", "copy", "tree"];
    for more in [&["--json", "--dry-run"][..], &["--json"]] {
        trees.damage(&damaged(&[1_000_000]));
        let found = source_and_bad_copies(trees.run(&[&all[..], more].concat()));
        assert_eq!(found, ("copy".to_string(), vec!["rotten".to_string(), "short".to_string()]), "{more:?}");
    }
    trees.damage(&damaged(&[1_000_000]));
    let told = trees.run(&all).clean();
    let named = ["rotten", "short"].map(|copy| trees.path(copy).join("file").display().to_string());
    assert!(told.contains(&format!("; not as recorded either: {})", named.join(" and "))), "{told}");
    // Blocks of a copy that has others that are bad; in place, each copy is asked alone first.
    fs::write(trees.path("good"), &content).unwrap();
    trees.run(&["image", "map", "--exact", "--output", "tree/file.map", "good"]).clean();
    let blocks = ["repair", "--json", "--keep-bad", "bad", "--from", "rotten", "--from", "copy", "tree"];
    for more in [&["--dry-run"][..], &[], &["--in-place", "--dry-run"], &["--in-place"]] {
        fs::write(trees.path("copy/file"), damaged(&[1_900_000])).unwrap();
        trees.damage(&damaged(&[1_000_000, 1_900_000]));
        let (_, bad) = source_and_bad_copies(trees.run(&[&blocks[..], more].concat()));
        assert_eq!(bad, ["copy", "rotten"], "{more:?}");
    }
}

#[test]
fn copies_that_a_list_alone_knows_are_not_all_named() {
    let trees = Trees::new(b"content");
    let digest = "1".repeat(64);
    let list: String = (0..20).map(|name| format!("{digest}  {name}\n")).collect();
    fs::write(trees.path("list"), list).unwrap();
    let ended = trees.run(&["repair", "--sums", "list", "--from", "copy", "tree"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let lines: Vec<_> = ended.out().lines().filter(|line| line.starts_with("no-source")).collect();
    assert_eq!(lines.len(), 20, "{}", ended.out());
    for line in lines {
        assert_eq!(line.matches(": No such file or directory").count(), 2, "{line}");
    }
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
