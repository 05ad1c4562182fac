//! `verisum repair`: which files it repairs, which it leaves alone, and how the run ends for it.

use crate::common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use common::sshd::sshd;
use common::{Ended, VERISUM, change_and_restore_time, command, flip};
use verisum_testkit::{FsKind, Mount};

/// A directory with a tree, a copy of it, and a catalogue that knows the tree.
struct Trees {
    folder: tempfile::TempDir,
}

impl Trees {
    fn new(files: &[(&str, &str)]) -> Trees {
        let trees = Trees { folder: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            for tree in ["tree", "copy"] {
                let path = trees.path(tree).join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        trees.run("scrub tree").clean();
        trees
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Runs verisum with these words, in the directory.
    fn run(&self, words: &str) -> Ended {
        let mut command = command(VERISUM);
        command.args(words.split(' ')).current_dir(self.path(".")).env("XDG_STATE_HOME", self.path("state"));
        Ended::of(command.output().unwrap())
    }

    /// Asserts how a run ends, and what becomes of files by their names below a directory.
    #[track_caller]
    fn becomes(&self, words: &str, code: i32, folder: &Path, lines: &[(&str, &str)]) -> String {
        let ended = self.run(words);
        let out = ended.out();
        let line = |line: &str| {
            let (word, rest) = line.split_once("  ").filter(|(word, _)| !word.is_empty())?;
            let path = Path::new(rest.trim_start().split("  (").next()?);
            let name = path.strip_prefix(folder).unwrap_or(path);
            Some((name.display().to_string(), word.to_string()))
        };
        let found: BTreeMap<String, String> = out.lines().filter_map(line).collect();
        let wanted = lines.iter().map(|(word, name)| (name.to_string(), word.to_string())).collect();
        assert_eq!(found, wanted, "{out}{}", ended.stderr);
        assert_eq!(ended.code, Some(code), "{out}{}", ended.stderr);
        out.to_string()
    }
}

#[test]
fn a_file_that_cannot_be_read_is_repaired_whatever_its_length_is() {
    let marker = b"verisum: these bytes are going to rot";
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    let trees = Trees::new(&[("other", "text")]);
    let tree = mount.path().canonicalize().unwrap();
    let mut good = vec![7; 100_000];
    good[..marker.len()].copy_from_slice(marker);
    for name in ["same-time", "other-time"] {
        fs::write(tree.join(name), &good).unwrap();
        fs::write(trees.path("copy").join(name), &good).unwrap();
    }
    let named = tree.display();
    trees.run(&format!("scrub {named}")).clean();
    for name in ["same-time", "other-time"] {
        let mut file = File::options().append(true).open(tree.join(name)).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        file.write_all(b"x").unwrap();
        if name == "same-time" {
            file.set_modified(time).unwrap();
        }
    }
    mount.edit_image(|image| {
        flip(image, marker);
        flip(image, marker);
    });
    let bad = [("io-error", "same-time"), ("io-error", "other-time")];
    trees.becomes(&format!("scrub {named}"), 3, &tree, &bad);
    let found = [("repaired", "same-time"), ("refused", "other-time")];
    let out = trees.becomes(&format!("repair --from copy {named}"), 3, &tree, &found);
    assert!(out.contains("it cannot be read, and somebody may have written it: --keep-bad DIR"), "{out}");
    // What somebody wrote since is kept, as far as it can be read.
    let keep = format!("repair --from copy --keep-bad kept {named}");
    trees.becomes(&keep, 0, &tree, &[("repaired", "other-time")]);
    assert_eq!(fs::read(trees.path("kept/other-time")).unwrap().len(), good.len() + 1);
    for name in ["same-time", "other-time"] {
        assert_eq!(fs::read(tree.join(name)).unwrap(), good);
    }
}

#[test]
fn a_path_of_which_nothing_is_known_is_no_repair() {
    let trees = Trees::new(&[("a", "one"), ("b/c", "two")]);
    fs::remove_dir_all(trees.path("tree/b")).unwrap();
    for name in ["none", "b"] {
        let ended = trees.run(&format!("repair --from copy tree/{name}"));
        assert_eq!(ended.code, Some(3), "{}", ended.out());
        assert!(ended.stderr.contains("it is not there"), "{}", ended.stderr);
    }
    trees.run("scrub tree");
    trees.becomes("repair --dry-run tree/b", 3, &trees.path("tree"), &[("no-source", "b/c")]);
    trees.becomes("repair --except-missing tree/b", 0, &trees.path("tree"), &[]);
}

#[test]
fn a_single_file_comes_from_the_copy_of_its_tree_on_a_host() {
    let Some(server) = sshd("") else { return };
    let trees = Trees::new(&[("a", "one"), ("b/c", "two")]);
    fs::rename(trees.path("copy"), server.path("copy")).unwrap();
    let (config, place) = (server.path("config"), server.path("copy"));
    let repair = format!("repair --ssh-config {} --from web1:{}", config.display(), place.display());
    for from in ["", "/b/c"] {
        fs::remove_file(trees.path("tree/b/c")).unwrap();
        trees.run("scrub tree");
        trees.becomes(&format!("{repair}{from} tree/b/c"), 0, &trees.path("tree"), &[("repaired", "b/c")]);
        assert_eq!(fs::read_to_string(trees.path("tree/b/c")).unwrap(), "two");
    }
}

#[test]
fn names_of_one_file_stay_names_of_one_file() {
    let trees = Trees::new(&[("a", "one"), ("b", "one")]);
    let [a, b] = ["a", "b"].map(|name| trees.path("tree").join(name));
    fs::remove_file(&b).unwrap();
    fs::hard_link(&a, &b).unwrap();
    trees.run("scrub tree");
    let rot = |path: &Path| change_and_restore_time(path, "0ne");
    let damages: [&[&dyn Fn()]; 4] = [
        &[&|| fs::remove_file(&b).unwrap()],
        &[&|| fs::remove_file(&a).unwrap(), &|| fs::remove_file(&b).unwrap()],
        &[&|| rot(&a)],
        &[&|| rot(&a), &|| fs::remove_file(&b).unwrap()],
    ];
    for (number, damage) in damages.iter().enumerate() {
        damage.iter().for_each(|damage| damage());
        trees.run("scrub tree");
        let ended = trees.run("repair --from copy --keep-bad kept tree");
        assert_eq!(ended.code, Some(0), "{number}: {}{}", ended.out(), ended.stderr);
        assert_eq!(fs::read_to_string(&b).unwrap(), "one");
        let [one, other] = [&a, &b].map(|path| path.metadata().unwrap().ino());
        assert_eq!(one, other, "{number}: {}", ended.out());
        trees.becomes("scrub tree", 0, &trees.path("tree"), &[]);
    }
    trees.run("catalog check").clean();
    // A copy that was made later is a file of its own.
    fs::remove_file(&b).unwrap();
    fs::copy(&a, &b).unwrap();
    trees.run("scrub tree").clean();
    fs::remove_file(&b).unwrap();
    trees.run("scrub tree");
    trees.becomes("repair --from copy tree", 0, &trees.path("tree"), &[("repaired", "b")]);
    assert_ne!(a.metadata().unwrap().ino(), b.metadata().unwrap().ino());
}

#[test]
fn what_one_repair_makes_possible_the_same_run_does() {
    let trees = Trees::new(&[("c", "text")]);
    let [a, b] = [20_000, 200_000].map(|length| {
        let mut bytes = vec![0; length];
        fastrand::Rng::with_seed(length as u64).fill(&mut bytes);
        bytes
    });
    let damage = |name: &str, places: &[usize]| {
        let mut bytes = b.clone();
        places.iter().for_each(|at| bytes[*at] ^= 1);
        change_and_restore_time(&trees.path(name), &bytes);
    };
    fs::write(trees.path("tree/a"), &a).unwrap();
    fs::write(trees.path("tree/b"), &b).unwrap();
    fs::write(trees.path("copy/b"), &b).unwrap();
    trees.run("parity create --redundancy 12% tree").clean();
    trees.run("scrub tree").clean();
    // Parity gives one of them, and not the parts of the other as well; a copy has these.
    fs::remove_file(trees.path("tree/a")).unwrap();
    damage("tree/b", &[10, 20, 40, 60, 80, 100, 120, 140, 160, 180].map(|at| at * 1_000));
    damage("copy/b", &[30_000]);
    trees.run("scrub tree");
    let tree = trees.path("tree");
    let words = "repair --from copy --keep-bad kept";
    trees.becomes(&format!("{words} --dry-run tree"), 0, &tree, &[("mendable", "a"), ("mendable", "b")]);
    trees.becomes(&format!("{words} tree"), 0, &tree, &[("repaired", "a"), ("repaired", "b")]);
    assert!(fs::read(trees.path("tree/a")).unwrap() == a && fs::read(trees.path("tree/b")).unwrap() == b);
}

#[test]
fn what_one_parity_repairs_helps_another() {
    let trees = Trees::new(&[("c", "text")]);
    let [a, b] = [1_000_000, 3_000_000].map(|length| {
        let mut bytes = vec![0; length];
        fastrand::Rng::with_seed(length as u64).fill(&mut bytes);
        bytes
    });
    let damage = |name: &str, content: &[u8], places: &[usize], length: usize| {
        let mut bytes = content.to_vec();
        places.iter().for_each(|at| bytes[*at..at + length].fill(0));
        change_and_restore_time(&trees.path(name), &bytes);
    };
    fs::create_dir(trees.path("tree/sub")).unwrap();
    fs::create_dir(trees.path("copy/sub")).unwrap();
    fs::write(trees.path("tree/sub/a"), &a).unwrap();
    fs::write(trees.path("tree/sub/b"), &b).unwrap();
    fs::write(trees.path("copy/sub/b"), &b).unwrap();
    trees.run("parity create --redundancy 4% --set-size 1M tree").clean();
    trees.run("parity create --redundancy 2.5% tree/sub").clean();
    trees.run("scrub tree").clean();
    // The parity above gives what the copy lacks of one file; only then the parity below has enough for the other.
    let places = [900_000, 1_900_000, 2_900_000];
    damage("tree/sub/a", &a, &[100_000], 70_000);
    damage("tree/sub/b", &b, &places, 60_000);
    damage("copy/sub/b", &b, &places, 10_000);
    trees.run("scrub tree");
    let tree = trees.path("tree/sub");
    let words = "repair --from copy --keep-bad kept";
    trees.becomes(&format!("{words} --dry-run tree"), 1, &tree, &[("no-source", "a"), ("mendable", "b")]);
    trees.becomes(&format!("{words} tree"), 0, &tree, &[("repaired", "a"), ("repaired", "b")]);
    assert!(fs::read(tree.join("a")).unwrap() == a && fs::read(tree.join("b")).unwrap() == b);
}

#[test]
fn a_catalogue_that_cannot_be_used_ends_a_dry_run_as_the_repair() {
    let trees = Trees::new(&[("a", "one"), ("b", "two")]);
    let sums = trees.run("sum -r -a sha256 --relative tree").clean();
    fs::write(trees.path("SUMS"), sums).unwrap();
    fs::remove_file(trees.path("tree/a")).unwrap();
    fs::write(trees.path("damaged.db"), "this is no catalogue").unwrap();
    for words in ["repair --sums SUMS --from copy", "repair --trust copy", "repair --tags --from copy"] {
        let [told, done] =
            ["--dry-run ", ""].map(|dry| trees.run(&format!("{words} --catalog damaged.db {dry}tree")));
        assert_eq!((told.code, &told.stderr), (Some(3), &done.stderr), "{words}");
        assert_eq!((done.code, done.out(), told.out()), (Some(3), "", ""), "{words}");
        assert!(done.stderr.contains("damaged.db") && done.stderr.lines().count() == 1, "{}", done.stderr);
        assert!(!trees.path("tree/a").exists(), "{words}");
    }
}

#[test]
fn what_is_in_the_place_of_a_directory_is_said_in_words() {
    let trees = Trees::new(&[("file/a", "one"), ("link/b", "two")]);
    fs::write(trees.path("SUMS"), trees.run("sum -r -a sha256 --relative tree").clean()).unwrap();
    for name in ["file", "link"] {
        fs::remove_dir_all(trees.path("tree").join(name)).unwrap();
    }
    fs::write(trees.path("tree/file"), "in the way").unwrap();
    std::os::unix::fs::symlink("nowhere", trees.path("tree/link")).unwrap();
    trees.run("scrub tree");
    let tree = trees.path("tree");
    for words in ["repair --from copy", "repair --sums SUMS --from copy"] {
        for dry in ["", "--dry-run "] {
            let lines = [("failed", "file/a"), ("failed", "link/b")];
            let told = trees.becomes(&format!("{words} {dry}tree"), 3, &tree, &lines);
            let why = "is in the place of its directory";
            assert_eq!((told.matches(why).count(), told.contains("os error")), (2, false), "{told}");
        }
    }
    // A list tells no lengths.
    let json = trees.run("repair --json --sums SUMS --from copy tree");
    assert_eq!(json.out().matches("\"size\":null").count(), 2, "{}", json.out());
}

#[test]
fn empty_content_needs_no_copy() {
    let trees = Trees::new(&[("empty", ""), ("grown", ""), ("full", "one")]);
    let [empty, grown, full] = ["empty", "grown", "full"].map(|name| trees.path("tree").join(name));
    let before = empty.metadata().unwrap().modified().unwrap();
    fs::remove_file(&empty).unwrap();
    fs::remove_file(&full).unwrap();
    change_and_restore_time(&grown, "rot");
    trees.run("scrub tree");
    for (word, options) in [("mendable", "--dry-run "), ("repaired", "")] {
        let words = format!("repair --keep-bad kept {options}tree");
        trees.becomes(
            &words,
            3,
            &trees.path("tree"),
            &[(word, "empty"), ("no-source", "full"), (word, "grown")],
        );
    }
    assert_eq!((fs::read(&empty).unwrap(), fs::read(&grown).unwrap()), (Vec::new(), Vec::new()));
    assert_eq!(empty.metadata().unwrap().modified().unwrap(), before);
    trees.becomes("scrub tree", 0, &trees.path("tree"), &[]);
    trees.run("catalog check").clean();
}

#[test]
fn zeros_are_not_taken_for_nothing() {
    let trees = Trees::new(&[("other", "text")]);
    let zeros = trees.path("zeros");
    fs::create_dir(&zeros).unwrap();
    fs::write(zeros.join("file"), [0; 4096]).unwrap();
    // Of zeros, however many, and of nothing this is 0.
    trees.run("scrub --catalog z.db -a crc64-jones zeros").clean();
    fs::remove_file(zeros.join("file")).unwrap();
    trees.run("scrub --catalog z.db zeros");
    trees.becomes("repair --catalog z.db zeros", 3, &zeros, &[("no-source", "file")]);
    assert!(!zeros.join("file").exists());
}

#[test]
fn files_whose_inode_is_not_known_stay_files_of_their_own() {
    let trees = Trees::new(&[("other", "text")]);
    let tree = trees.path("tree");
    // The digest of nothing, of two files that were never there.
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let other = trees.run("sum -a sha256 tree/other").out().split(' ').next().unwrap().to_string();
    fs::write(trees.path("list"), format!("{other}  other\n{empty}  one\n{empty}  two\n")).unwrap();
    trees.run("catalog import --catalog list.db --tree tree list");
    trees.run("scrub --catalog list.db tree");
    trees.run("repair --catalog list.db tree");
    let [one, two] = ["one", "two"].map(|name| tree.join(name).metadata().unwrap());
    assert_eq!((one.len(), two.len()), (0, 0));
    assert_ne!(one.ino(), two.ino());
}

#[test]
fn what_a_list_told_no_length_of_comes_back() {
    let trees = Trees::new(&[("there", "good"), ("gone", "as it was"), ("empty", "")]);
    let sums = trees.run("sum -r -a sha256 tree").clean();
    fs::write(trees.path("SUMS"), sums).unwrap();
    for name in ["gone", "empty"] {
        fs::remove_file(trees.path("tree").join(name)).unwrap();
    }
    let told = trees.run("catalog import --catalog list.db SUMS");
    assert!(told.out().starts_with("3 recorded"), "{}{}", told.out(), told.stderr);
    trees.run("scrub --catalog list.db tree");
    let repaired = trees.run("repair --catalog list.db --json --from copy tree").clean();
    assert!(repaired.contains("\"size\":9") && repaired.contains("\"repaired\":2"), "{repaired}");
    for name in ["gone", "empty"] {
        let [now, copy] = ["tree", "copy"].map(|tree| trees.path(tree).join(name));
        assert_eq!(fs::read(&now).unwrap(), fs::read(&copy).unwrap());
        let [now, copy] = [now, copy].map(|path| fs::metadata(path).unwrap().modified().unwrap());
        assert_eq!(now, copy, "{name}");
    }
    trees.run("scrub --catalog list.db tree").clean();
}

#[test]
fn what_may_have_been_written_and_is_gone_needs_not_be_kept() {
    let trees = Trees::new(&[("gone", "text"), ("there", "text")]);
    for name in ["gone", "there"] {
        change_and_restore_time(&trees.path("tree").join(name), b"TEXT");
    }
    assert_eq!(trees.run("scrub tree").code, Some(1));
    fs::remove_file(trees.path("tree/gone")).unwrap();
    let folder = trees.path("tree");
    let repair = "repair --from copy tree";
    trees.becomes(&format!("{repair} -n"), 1, &folder, &[("mendable", "gone"), ("mendable", "there")]);
    trees.becomes(repair, 1, &folder, &[("repaired", "gone"), ("refused", "there")]);
    assert_eq!(fs::read(trees.path("tree/gone")).unwrap(), b"text");
}
