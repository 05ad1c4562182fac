//! Repair by a catalogue, from parity: what no copy has.

use crate::common;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
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
    assert_eq!(words.out().matches("; mend it: verisum repair ").count(), 2, "{}", words.out());
    let status: Value =
        serde_json::from_str(trees.run(&["catalog", "status", "--json"]).clean().trim()).unwrap();
    assert_eq!((&status["repair"]["mendable"], &status["repair"]["with_parity"]), (&0.into(), &4.into()));
    let dry = trees.run(&["repair", "--dry-run", "--keep-bad", "bad", "tree"]).clean();
    assert_eq!(dry.matches("mendable").count(), 4, "{dry}");
    let repaired = trees.run(&["repair", "--keep-bad", "bad", "tree"]).clean();
    assert_eq!(repaired.matches("repaired  ").count(), 4, "{repaired}");
    trees.is_whole();
    let told = trees.run(&["catalog", "list", "--repaired"]).clean();
    assert_eq!(told.matches(&format!("from {}", parity.display())).count(), 4, "{told}");
}

#[test]
fn a_scrub_without_repair_names_parity_that_lies_elsewhere() {
    let trees = Trees::new(&["--to", "parity"]);
    trees.damage("sub/b", 0, 1);
    trees.damage("sub/c", 0, 1);
    let parity = trees.path("parity").display().to_string();
    let command = format!("repair --parity '{parity}' '{}'", trees.path("tree").display());
    for words in [&["scrub", "--parity", "parity"][..], &["scrub", "--nagios", "--parity", "parity"]] {
        let found = trees.run(&[words, &["tree"]].concat());
        let told = format!("{}{}", found.out(), found.stderr);
        assert!(told.contains(&format!("parity may mend it: {parity}")), "{told}");
        // Each of them, though one command repairs both.
        let commands = told.matches(&format!("mend it: verisum {command}")).count();
        assert_eq!(commands + told.matches("the command below mends it").count(), 2, "{told}");
    }
    let of_tree = trees.run(&["scrub", "--parity", "parity", "tree"]);
    let told = format!("parity may mend 2: `verisum {command} --keep-bad ");
    assert!(of_tree.stderr.contains(&told), "{}", of_tree.stderr);
    trees.run(&["repair", "--parity", "parity", "tree", "--keep-bad", "bad"]).clean();
    trees.is_whole();
    for option in ["--quiet", "--nagios"] {
        let nothing = trees.run(&["scrub", option, "--parity", "nothing", "tree"]);
        assert_ne!(nothing.code, Some(0), "{option}: {}", nothing.out());
    }
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
    assert!(ended.out().contains("different content"), "{}", ended.out());
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

#[test]
fn parity_of_a_directory_below_is_found() {
    let trees = Trees::new(&["--to", "parity"]);
    trees.run(&["parity", "create", "--redundancy", "60%", "tree/sub"]).clean();
    trees.run(&["scrub", "tree"]).clean();
    let list = trees.run(&["sum", "tree/sub/b", "tree/sub/c"]).clean();
    fs::write(trees.path("list"), list.replace("tree/", "")).unwrap();
    let parity = trees.path("tree/sub/.verisum-parity").display().to_string();
    trees.damage("sub/b", 0, 5);
    trees.damage("long", 0, 5);
    fs::remove_file(trees.path("tree/sub/c")).unwrap();
    let found = trees.run(&["scrub", "tree"]);
    assert!(found.stderr.contains("parity may mend 2"), "{}", found.stderr);
    let repaired = trees.run(&["repair", "--keep-bad", "bad", "tree"]);
    assert_eq!(repaired.out().matches(&format!("from {parity}")).count(), 2, "{}", repaired.out());
    // What it does not have, nobody asked it for.
    assert!(repaired.out().contains("no copy of it is known"), "{}", repaired.out());
    trees.run(&["repair", "--keep-bad", "bad", "--parity", "parity", "tree"]).clean();
    trees.is_whole();
    trees.damage("sub/c", 0, 5);
    let by_list = trees.run(&["repair", "--sums", "list", "--keep-bad", "bad", "tree"]).clean();
    assert!(by_list.contains(&format!("from {parity}")), "{by_list}");
    trees.is_whole();
}

#[test]
fn a_missing_file_gets_the_permissions_that_parity_has() {
    let trees = Trees::new(&["--to", "parity"]);
    let path = trees.path("tree/sub/b");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
    trees.run(&["parity", "create", "--redundancy", "30%", "tree"]).clean();
    fs::remove_file(&path).unwrap();
    trees.run(&["scrub", "tree"]);
    let repaired = trees.run(&["repair", "tree"]).clean();
    assert!(!repaired.contains("permissions"), "{repaired}");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o604);
    trees.is_whole();
}

#[test]
fn only_files_of_the_parity_are_left_out_and_their_old_records_go() {
    let trees = Trees::new(&["--to", "parity"]);
    // As an earlier version recorded them.
    let folder = trees.path("tree/.verisum-parity");
    fs::create_dir(&folder).unwrap();
    for name in ["set-00000001.parity", "set-00000002.parity", "index.copy", "mine"] {
        fs::write(folder.join(name), name).unwrap();
    }
    let recorded = trees.run(&["scrub", "--json", "tree"]).clean();
    assert_eq!(recorded.matches("/.verisum-parity/").count(), 4, "{recorded}");
    fs::create_dir(trees.path("empty")).unwrap();
    trees.run(&["parity", "create", "--to", "none", "empty"]).clean();
    for name in ["index", "index.copy"] {
        fs::copy(trees.path("none").join(name), folder.join(name)).unwrap();
    }
    fs::remove_file(folder.join("set-00000001.parity")).unwrap();
    // As fast as an update may be: other bytes, the same length and the same time.
    trees.damage(".verisum-parity/set-00000002.parity", 0, 1);
    fs::write(folder.join("index.txt"), "mine too").unwrap();
    let found = trees.run(&["scrub", "--json", "tree"]).clean();
    assert_eq!(found.matches("/.verisum-parity/").count(), 1, "{found}");
    assert!(found.contains("/.verisum-parity/index.txt"), "{found}");
    let exported = trees.run(&["catalog", "export", "--format", "gnu"]);
    let names = exported.out().matches(".verisum-parity/").count();
    assert_eq!(names, 2, "{} {}", exported.out(), exported.stderr);
    let at_least = fs::metadata(folder.join("mine")).unwrap().modified().unwrap();
    fs::write(folder.join("mine"), "MINE").unwrap();
    fs::File::options().write(true).open(folder.join("mine")).unwrap().set_modified(at_least).unwrap();
    assert_eq!(trees.run(&["scrub", "tree"]).code, Some(1), "what rots there is told");
}

/// Copies of the long file that are bad in different places, and so is the file itself.
fn three_bad_ones(trees: &Trees) {
    for name in ["copy", "other"] {
        fs::create_dir(trees.path(name)).unwrap();
        fs::copy(trees.path("tree/long"), trees.path(name).join("long")).unwrap();
    }
    trees.damage("../copy/long", 500_000, 10);
    trees.damage("../other/long", 2_000_000, 1_500_000);
    // More than its parity gives.
    trees.damage("long", 300_000, 400_000);
    trees.damage("long", 2_300_000, 400_000);
    trees.run(&["scrub", "tree"]);
}

#[test]
fn blocks_of_several_copies_and_of_parity_are_put_together() {
    let trees = Trees::new(&[]);
    three_bad_ones(&trees);
    let path = trees.path("tree/long");
    let before = fs::read(&path).unwrap();
    let copies = ["--from", "copy", "--from", "other"];
    let alone = trees.run(&["repair", "--keep-bad", "bad", "--from", "other", "tree"]);
    assert_eq!(alone.code, Some(1));
    assert!(fs::read(&path).unwrap() == before, "{}", alone.out());
    let words = |words: &[&'static str]| [words, &copies, &["--json", "tree"]].concat();
    let dry = trees.run(&words(&["repair", "--dry-run", "--keep-bad", "bad"])).clean();
    assert!(dry.contains("\"mendable\":1"), "{dry}");
    assert!(fs::read(&path).unwrap() == before);
    let repaired = trees.run(&words(&["repair", "--keep-bad", "bad"])).clean();
    let line: Value = serde_json::from_str(repaired.lines().next().unwrap()).unwrap();
    assert_eq!(line["from"]["path"], trees.path("copy/long").to_str().unwrap(), "{line}");
    assert_eq!(line["also_from"][0]["path"], trees.path("other/long").to_str().unwrap(), "{line}");
    // What was bad, in blocks of at most 16 KiB, and no more.
    let bytes = line["bytes"].as_u64().unwrap();
    assert!((800_000..800_000 + 4 * 16384).contains(&bytes), "{bytes}");
    trees.is_whole();
    let told = trees.run(&["catalog", "list", "--repaired"]).clean();
    assert!(told.contains("copy/long") && told.contains("other/long"), "{told}");
}

#[test]
fn parity_gives_what_copies_lack_of_a_set_that_lost_more() {
    for how in [&["--dry-run"][..], &[], &["--in-place"]] {
        let trees = Trees::new(&[]);
        let copy = trees.path("copy");
        fs::create_dir_all(copy.join("sub")).unwrap();
        fs::copy(trees.path("tree/long"), copy.join("long")).unwrap();
        // A file that shares a set with others, of which only copies have enough.
        for name in SMALL {
            fs::copy(trees.path("tree").join(name), copy.join(name)).unwrap();
        }
        trees.damage("../copy/long", 1_000_000, 1000);
        trees.damage("../copy/sub/b", 20_000, 10);
        trees.damage("long", 0, 3_000_000);
        SMALL.iter().for_each(|name| trees.damage(name, 0, 30_000));
        trees.run(&["scrub", "tree"]);
        let words = [&["repair", "--keep-bad", "bad", "--json"], how, &["--from", "copy", "tree"]].concat();
        let out = trees.run(&words).clean();
        let totals: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        match how {
            ["--dry-run"] => assert_eq!(totals["mendable"], 4, "{out}"),
            _ => {
                assert_eq!(totals["repaired"], 4, "{out}");
                trees.is_whole();
            }
        }
    }
}

#[test]
fn who_gave_nothing_says_nothing_of_owners_and_modes() {
    let trees = Trees::new(&["--to", "parity"]);
    trees.run(&["image", "map", "--exact", "--output", "tree/long.map", "tree/long"]).clean();
    for (name, at, length, mode) in
        [("one", 0, 5_000_000, 0o666), ("two", 500_000, 10, 0o640), ("three", 2_000_000, 10, 0o604)]
    {
        fs::create_dir(trees.path(name)).unwrap();
        let copy = trees.path(name).join("long");
        fs::copy(trees.path("tree/long"), &copy).unwrap();
        fs::set_permissions(copy, fs::Permissions::from_mode(mode)).unwrap();
        trees.damage(&format!("../{name}/long"), at, length);
    }
    fs::remove_file(trees.path("tree/long")).unwrap();
    trees.run(&["scrub", "tree"]);
    let words = ["repair", "--from", "one", "--from", "two", "--from", "three", "tree"];
    let repaired = trees.run(&words).clean();
    assert!(repaired.contains("/two/long and /"), "{repaired}");
    assert_eq!(fs::metadata(trees.path("tree/long")).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn a_map_beside_the_file_tells_its_blocks() {
    let trees = Trees::new(&["--to", "parity"]);
    trees.run(&["image", "map", "--exact", "--output", "tree/long.map", "tree/long"]).clean();
    three_bad_ones(&trees);
    let words = ["repair", "--keep-bad", "bad", "--from", "copy", "--from", "other", "tree"];
    // One of something else misleads nobody.
    fs::rename(trees.path("tree/long.map"), trees.path("kept.map")).unwrap();
    fs::write(trees.path("else"), bytes(7, 5_000_000)).unwrap();
    trees.run(&["image", "map", "--exact", "--output", "tree/long.map", "else"]).clean();
    let misled = trees.run(&words);
    assert_eq!(misled.code, Some(1), "{}", misled.out());
    assert!(misled.out().contains("no-source"), "{}", misled.out());
    fs::rename(trees.path("kept.map"), trees.path("tree/long.map")).unwrap();
    let repaired = trees.run(&words).clean();
    assert!(repaired.contains("/copy/long and /"), "{repaired}");
    assert!(fs::read(trees.path("tree/long")).unwrap() == bytes(9, 5_000_000));
}
