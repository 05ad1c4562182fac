//! Repair by a catalogue, from parity: what no copy has.

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use common::Ended;
use serde_json::Value;

/// A recorded tree with parity, in one directory or two.
struct Trees {
    folder: tempfile::TempDir,
}

const SMALL: [&str; 3] = ["a", "sub/b", "sub/c"];

impl Trees {
    /// One long file of several sets, and three short ones.
    fn new(parity: &[&str]) -> Trees {
        let trees = Trees { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(trees.path("tree/sub")).unwrap();
        for (number, name) in SMALL.iter().enumerate() {
            fs::write(trees.path("tree").join(name), bytes(number as u64, 30_000)).unwrap();
        }
        fs::write(trees.path("tree/long"), bytes(9, 5_000_000)).unwrap();
        // So many that what the tests damage is no mass of changes.
        fs::create_dir(trees.path("tree/well")).unwrap();
        for number in 0..50 {
            fs::write(trees.path("tree/well").join(format!("{number}")), format!("{number}")).unwrap();
        }
        trees.run(&["scrub", "tree"]).clean();
        let words = [&["parity", "create", "--redundancy", "20%", "--set-size", "1M"], parity, &["tree"]];
        trees.run(&words.concat()).clean();
        trees
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = common::command(common::VERISUM);
        command.args(words).current_dir(self.folder.path());
        command.env("XDG_STATE_HOME", self.path("state"));
        Ended::of(command.output().unwrap())
    }

    /// Writes other bytes, and leaves the time of modification alone.
    fn damage(&self, name: &str, at: u64, length: usize) {
        let path = self.path("tree").join(name);
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(&vec![0xEE; length], at).unwrap();
        file.set_modified(modified).unwrap();
    }

    fn is_whole(&self) {
        for (number, name) in SMALL.iter().enumerate() {
            assert!(
                fs::read(self.path("tree").join(name)).unwrap() == bytes(number as u64, 30_000),
                "{name}"
            );
        }
        assert!(fs::read(self.path("tree/long")).unwrap() == bytes(9, 5_000_000));
        self.run(&["scrub", "tree"]).clean();
    }
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

#[test]
fn what_no_copy_has_comes_from_parity() {
    let trees = Trees::new(&[]);
    // The parity is no part of the tree.
    let again = trees.run(&["scrub", "tree"]).clean();
    assert!(!again.contains("new"), "{again}");
    trees.damage("a", 77, 5);
    trees.damage("long", 900_000, 70_000);
    trees.damage("long", 4_999_000, 1_000);
    fs::remove_dir_all(trees.path("tree/sub")).unwrap();
    let found = trees.run(&["scrub", "tree"]);
    assert_eq!(found.code, Some(1));
    let advice = "4 files are bad or missing; parity may mend 4: `verisum repair ";
    assert!(found.stderr.contains(advice), "{}", found.stderr);
    let listed = trees.run(&["catalog", "list", "--bad", "--missing", "--json"]);
    let parity = trees.path("tree/.verisum-parity");
    for line in listed.out().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["parity"]["path"], parity.to_str().unwrap(), "{line}");
        assert!(line["mend"].as_str().unwrap().starts_with("verisum repair "), "{line}");
    }
    let words = trees.run(&["catalog", "list", "--bad"]);
    assert_eq!(words.out().matches("it has parity: verisum repair ").count(), 2, "{}", words.out());
    let status: Value =
        serde_json::from_str(trees.run(&["catalog", "status", "--json"]).clean().trim()).unwrap();
    assert_eq!((&status["repair"]["mendable"], &status["repair"]["with_parity"]), (&0.into(), &4.into()));
    let dry = trees.run(&["repair", "--dry-run", "tree"]).clean();
    assert_eq!(dry.matches("mendable").count(), 4, "{dry}");
    let repaired = trees.run(&["repair", "--keep-bad", "bad", "tree"]).clean();
    assert_eq!(repaired.matches("repaired  ").count(), 4, "{repaired}");
    trees.is_whole();
    let told = trees.run(&["catalog", "list", "--repaired"]).clean();
    assert_eq!(told.matches(&format!("from {}", parity.display())).count(), 4, "{told}");
}

#[test]
fn scrubs_repair_from_parity_that_lies_elsewhere() {
    let trees = Trees::new(&["--to", "parity"]);
    trees.damage("sub/b", 0, 1);
    let kept = ["--keep-bad", "bad"];
    let words = |parity: &[&'static str]| [&["scrub", "--repair"], &kept[..], parity, &["tree"]].concat();
    let without = trees.run(&words(&[]));
    assert!(without.out().contains("no-source"), "{}", without.out());
    let with = trees.run(&words(&["--parity", "parity"]));
    assert_eq!(with.code, Some(1), "what was found bad is to be known: {}", with.out());
    trees.is_whole();
    trees.damage("sub/b", 29_999, 1);
    trees.run(&["scrub", "tree"]);
    // A path below the top of the parity's tree is not what the parity is of.
    assert_eq!(trees.run(&["repair", "--parity", "parity", "tree/sub"]).code, Some(1));
    trees.run(&["repair", "--keep-bad", "bad", "--parity", "parity", "tree"]).clean();
    trees.is_whole();
}

#[test]
fn copies_come_first_and_a_path_below_finds_the_parity() {
    let trees = Trees::new(&[]);
    fs::create_dir(trees.path("copy")).unwrap();
    fs::write(trees.path("copy/b"), bytes(1, 30_000)).unwrap();
    for name in ["sub/b", "sub/c"] {
        trees.damage(name, 5, 5);
    }
    trees.run(&["scrub", "tree"]);
    let words = ["repair", "--json", "--keep-bad", "bad", "--from", "copy", "tree/sub"];
    let lines = trees.run(&words).clean();
    let from: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(from[0]["from"]["path"], trees.path("copy/b").to_str().unwrap());
    assert_eq!(from[1]["from"]["path"], trees.path("tree/.verisum-parity").to_str().unwrap());
    trees.is_whole();
}

#[test]
fn parity_that_gives_other_bytes_or_too_few_mends_nothing() {
    let trees = Trees::new(&[]);
    // Parity of what the catalogue did not record.
    fs::write(trees.path("tree/a"), "written to").unwrap();
    trees.run(&["parity", "update", "tree"]).clean();
    fs::remove_file(trees.path("tree/a")).unwrap();
    // More than a fifth of two sets.
    trees.damage("long", 1_500_000, 1_000_000);
    trees.run(&["scrub", "tree"]);
    let ended = trees.run(&["repair", "--keep-bad", "bad", "tree"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.out().contains("other content"), "{}", ended.out());
    assert!(ended.out().contains("more is lost than its parity gives"), "{}", ended.out());
    assert!(!trees.path("tree/a").exists());
    assert_eq!(ended.out().matches("no-source").count(), 2, "{}", ended.out());
}

#[test]
fn a_directory_that_only_has_the_name_is_scrubbed() {
    let trees = Trees::new(&["--to", "parity"]);
    fs::create_dir(trees.path("tree/.verisum-parity")).unwrap();
    fs::write(trees.path("tree/.verisum-parity/index"), "mine").unwrap();
    let found = trees.run(&["scrub", "--json", "tree"]).clean();
    assert!(found.contains(".verisum-parity/index"), "{found}");
}
