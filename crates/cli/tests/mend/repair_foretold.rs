//! `verisum repair --dry-run` says what the repair then does, from where, and how many bytes it takes.

use crate::common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use common::sshd::sshd;
use common::{Ended, VERISUM, command};
use serde_json::Value;

const LONG: usize = 2_000_000;

/// A recorded tree with a long file that has two names, short ones, and room for copies.
struct Trees {
    folder: tempfile::TempDir,
}

impl Trees {
    fn new() -> Trees {
        let trees = Trees { folder: tempfile::tempdir().unwrap() };
        let mut long = vec![0; LONG];
        fastrand::Rng::with_seed(19).fill(&mut long);
        fs::create_dir_all(trees.path("tree/below")).unwrap();
        fs::write(trees.path("tree/short"), "as it should be").unwrap();
        fs::write(trees.path("tree/below/gone"), "gone and back").unwrap();
        fs::write(trees.path("tree/long"), long).unwrap();
        fs::hard_link(trees.path("tree/long"), trees.path("tree/name")).unwrap();
        trees.run(&["scrub", "tree"]).clean();
        let sums = trees.run(&["sum", "-r", "-a", "sha256", "tree/short", "tree/below", "tree/long"]).clean();
        fs::write(trees.path("SUMS"), sums.replace(" tree/", " ")).unwrap();
        for copy in ["copy", "other"] {
            fs::create_dir_all(trees.path(copy).join("below")).unwrap();
            for name in ["short", "below/gone", "long", "name"] {
                fs::copy(trees.path("tree").join(name), trees.path(copy).join(name)).unwrap();
            }
        }
        trees
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        command.env("XDG_STATE_HOME", self.path("state")).current_dir(self.path(".")).args(words);
        Ended::of(command.output().unwrap())
    }

    /// Writes other bytes to a file, and leaves its time.
    fn damage(&self, name: &str, at: u64) {
        let file = File::options().write(true).open(self.path(name)).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(b"rot", at).unwrap();
        file.set_modified(modified).unwrap();
    }

    /// Damages all files of the tree, and has a scrub find it.
    fn damage_all(&self) {
        self.damage("tree/short", 3);
        self.damage("tree/long", 100_000);
        self.damage("tree/long", 1_700_000);
        fs::remove_file(self.path("tree/below/gone")).unwrap();
        assert_eq!(self.run(&["scrub", "tree"]).code, Some(1));
    }

    fn map(&self) {
        for name in ["long", "name"] {
            let [map, of] = [format!("tree/{name}.map"), format!("copy/{name}")];
            self.run(&["image", "map", "--exact", "--output", &map, &of]).clean();
        }
    }

    /// Asserts that a repair takes what it says beforehand; returns how many bytes that are.
    #[track_caller]
    fn repairs_as_told(&self, words: &[&str]) -> u64 {
        let run = |more: &[&str]| {
            let ended = self.run(&[&["repair", "--json"], words, more, &["tree"]].concat());
            assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
            let lines = ended.out().lines();
            let mut lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
            let totals = lines.pop().unwrap();
            let taken = lines
                .iter()
                .map(|line| ["path", "from", "also_from", "bytes"].map(|name| line[name].clone()));
            let mut taken: Vec<_> = taken.collect();
            taken.sort_by_key(|[path, ..]| path.to_string());
            let sum = totals["bytes"].as_u64().unwrap();
            assert_eq!(taken.iter().map(|[.., bytes]| bytes.as_u64().unwrap()).sum::<u64>(), sum);
            (taken, sum)
        };
        let told = run(&["--dry-run", "--keep-bad", "bad"]);
        assert!(!told.0.is_empty());
        let done = run(&["--keep-bad", "bad"]);
        assert_eq!(told, done, "told and done");
        done.1
    }
}

const WHOLE: u64 = (LONG + 15 + 13) as u64;

#[test]
fn whole_copies_and_names_of_one_file() {
    let trees = Trees::new();
    trees.damage_all();
    assert_eq!(trees.repairs_as_told(&["--from", "copy"]), WHOLE);
    // By a list, which tells no lengths.
    trees.damage_all();
    assert_eq!(trees.repairs_as_told(&["--from", "copy", "--sums", "SUMS"]), WHOLE);
}

#[test]
fn a_renamed_copy() {
    let trees = Trees::new();
    trees.run(&["scrub", "copy"]).clean();
    for name in ["short", "below/gone", "long"] {
        fs::rename(trees.path("copy").join(name), trees.path("copy").join(format!("{name}.renamed")))
            .unwrap();
    }
    trees.run(&["scrub", "copy"]).clean();
    trees.damage_all();
    assert_eq!(trees.repairs_as_told(&["--from", "copy"]), WHOLE);
}

#[test]
fn blocks_of_several_copies() {
    let trees = Trees::new();
    trees.map();
    trees.damage_all();
    for name in ["long", "name"] {
        trees.damage(&format!("copy/{name}"), 100_000);
        trees.damage(&format!("other/{name}"), 1_700_000);
    }
    let both = ["--from", "copy", "--from", "other"];
    assert_eq!(trees.repairs_as_told(&both), 15 + 13 + 2 * 65_536);
    // Into the file itself.
    trees.damage_all();
    let in_place = [&both[..], &["--in-place"]].concat();
    assert_eq!(trees.repairs_as_told(&in_place), 15 + 13 + 2 * 65_536);
    // Too long a file lacks nothing.
    let long = File::options().append(true).open(trees.path("tree/long")).unwrap();
    let modified = long.metadata().unwrap().modified().unwrap();
    std::io::Write::write_all(&mut &long, b"more").unwrap();
    long.set_modified(modified).unwrap();
    drop(long);
    assert_eq!(trees.run(&["scrub", "tree"]).code, Some(1));
    assert_eq!(trees.repairs_as_told(&both), 0);
}

#[test]
fn parity() {
    let trees = Trees::new();
    trees.run(&["parity", "create", "--redundancy", "20%", "tree"]).clean();
    trees.damage_all();
    let bytes = trees.repairs_as_told(&[]);
    assert!(bytes < 200_000, "{bytes}");
}

#[test]
fn parity_that_lacks_what_other_parity_repairs() {
    let trees = Trees::new();
    fs::write(trees.path("tree/below/big"), vec![7; 400_000]).unwrap();
    fs::remove_file(trees.path("tree/name")).unwrap();
    assert_eq!(trees.run(&["scrub", "tree"]).code, Some(0));
    trees.run(&["accept", "tree/name"]).clean();
    trees.run(&["parity", "create", "--redundancy", "100%", "tree/below"]).clean();
    trees.run(&["parity", "create", "--redundancy", "5%", "tree"]).clean();
    fs::remove_file(trees.path("tree/below/big")).unwrap();
    trees.damage_all();
    let words = ["parity", "repair", "--dry-run", "--only", "long", "tree"];
    assert_eq!(trees.run(&words).code, Some(1), "its parity alone does not suffice");
    trees.repairs_as_told(&[]);
}

#[test]
fn parity_that_lacks_what_a_copy_repairs() {
    let trees = Trees::new();
    let mut bytes = vec![0; 400_000];
    fastrand::Rng::with_seed(20).fill(&mut bytes);
    fs::write(trees.path("tree/below/big"), &bytes).unwrap();
    fs::write(trees.path("copy/below/big"), &bytes).unwrap();
    fs::write(trees.path("tree/lone"), &bytes[..100_000]).unwrap();
    assert_eq!(trees.run(&["scrub", "tree"]).code, Some(0));
    trees.run(&["parity", "create", "--redundancy", "5%", "tree"]).clean();
    fs::remove_file(trees.path("tree/below/big")).unwrap();
    trees.damage("tree/lone", 50_000);
    trees.damage_all();
    assert!(trees.repairs_as_told(&["--from", "copy"]) < WHOLE + 400_000 + 50_000);
}

#[test]
fn a_block_map_that_is_repaired_first() {
    let trees = Trees::new();
    trees.map();
    for name in ["long.map", "name.map"] {
        fs::copy(trees.path("tree").join(name), trees.path("copy").join(name)).unwrap();
    }
    trees.run(&["scrub", "tree"]).clean();
    trees.damage_all();
    for name in ["long", "name"] {
        trees.damage(&format!("tree/{name}.map"), 3);
        trees.damage(&format!("copy/{name}"), 100_000);
        trees.damage(&format!("other/{name}"), 1_700_000);
    }
    assert_eq!(trees.run(&["scrub", "tree"]).code, Some(1));
    trees.repairs_as_told(&["--from", "copy", "--from", "other"]);
}

#[test]
fn a_host() {
    let Some(server) = sshd("") else { return };
    let trees = Trees::new();
    fs::rename(trees.path("copy"), server.path("copy")).unwrap();
    let (config, from) = (server.path("config"), format!("web1:{}", server.path("copy").display()));
    let words = ["--ssh-config", config.to_str().unwrap(), "--from", &from];
    trees.damage_all();
    assert_eq!(trees.repairs_as_told(&words), WHOLE);
    trees.damage_all();
    assert_eq!(trees.repairs_as_told(&[&words[..], &["--sums", "SUMS"]].concat()), WHOLE);
    fs::rename(server.path("copy"), trees.path("copy")).unwrap();
    trees.map();
    fs::rename(trees.path("copy"), server.path("copy")).unwrap();
    // The list has one of the two names, which are two files since.
    trees.damage_all();
    assert_eq!(trees.repairs_as_told(&words), 15 + 13 + 2 * 2 * 65_536);
}
