//! Two repairs at the same time that keep bad files under one name.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ended, VERISUM, change_and_restore_time, command};
use verisum_testkit::{FsKind, Mount};

/// How often the two meet.
const ROUNDS: usize = 10;
const GOOD: &str = "good content";

/// A folder with a catalogue of a tree and of a copy, and a bad file in the tree.
struct Trees(PathBuf);

impl Trees {
    fn new(folder: PathBuf) -> Trees {
        for tree in ["tree", "copy"] {
            fs::create_dir_all(folder.join(tree)).unwrap();
            fs::write(folder.join(tree).join("a"), GOOD).unwrap();
        }
        let trees = Trees(folder);
        Ended::of(trees.verisum(&["scrub", "tree", "copy"]).output().unwrap()).clean();
        trees
    }

    fn verisum(&self, words: &[&str]) -> Command {
        let mut command = command(VERISUM);
        command.args(words).current_dir(&self.0).env("XDG_STATE_HOME", self.0.join("state"));
        command
    }

    fn rot(&self, content: &str) {
        change_and_restore_time(&self.0.join("tree/a"), content);
        assert_eq!(self.verisum(&["scrub", "tree"]).output().unwrap().status.code(), Some(1));
    }

    fn now(&self) -> String {
        fs::read_to_string(self.0.join("tree/a")).unwrap()
    }
}

fn contents(folder: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn two_repairs_keep_files_of_one_name_and_lose_neither() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().canonicalize().unwrap();
    let trees = ["one", "two"].map(|name| Trees::new(here.join(name)));
    let elsewhere = Mount::new(FsKind::Tmpfs, 16 << 20);
    let other = elsewhere.as_ref().map(|mount| mount.path().join("bad"));
    for keep in [Some(here.join("bad")), other].into_iter().flatten() {
        let mut bad = BTreeSet::new();
        for round in 0..ROUNDS {
            let now = [0, 1].map(|tree| format!("bad  {tree} {round:04}"));
            for (trees, content) in trees.iter().zip(&now) {
                trees.rot(content);
            }
            let words = ["repair", "--from", "copy", "--keep-bad", keep.to_str().unwrap(), "tree"];
            let running = trees.each_ref().map(|trees| {
                trees.verisum(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            });
            for ((running, trees), content) in running.into_iter().zip(&trees).zip(now) {
                let ended = Ended::of(running.wait_with_output().unwrap());
                // Who finds the name taken in the last moment may leave the file alone.
                if ended.code != Some(0) {
                    assert_eq!(trees.now(), content, "{}{}", ended.out(), ended.stderr);
                    Ended::of(trees.verisum(&words).output().unwrap()).clean();
                }
                assert_eq!(trees.now(), GOOD);
                bad.insert(content);
            }
            assert_eq!(contents(&keep), bad);
        }
        assert_eq!(bad.len(), 2 * ROUNDS);
    }
}
