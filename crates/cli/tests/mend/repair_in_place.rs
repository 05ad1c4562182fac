//! `verisum repair --in-place`: only the bad blocks of a long file are written, with a journal against kills.

use crate::common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Ended, VERISUM, command, start, wait_until};
use rustix::fs::{FallocateFlags, fallocate};
use serde_json::Value;
use verisum::catalog::scrub::ScrubOptions;
use verisum::catalog::store::Catalog;
use verisum::files::Verdict;
use verisum::files::place::LocalPlace;
use verisum::mend::repair::{RepairFailure, RepairOptions, RepairOutcome, Source, repair};
use verisum_testkit::{FsKind, Mount, require_root, require_tool, skip};

/// Bytes of a block of the map.
const BLOCK: usize = 64 << 10;

/// Blocks of the file.
const BLOCKS: usize = 64;

/// Bytes of it: the last block is not whole.
const LENGTH: usize = BLOCKS * BLOCK - 1000;

/// A recorded tree with a long file that has a map of its blocks, and two copies of it.
struct Trees {
    folder: tempfile::TempDir,
}

fn good() -> Vec<u8> {
    let mut bytes = vec![0; LENGTH];
    fastrand::Rng::with_seed(19).fill(&mut bytes);
    bytes
}

impl Trees {
    fn new() -> Trees {
        Trees::of(None)
    }

    /// The tree is in this directory, if that is given.
    fn of(tree: Option<&Path>) -> Trees {
        let trees = Trees { folder: tempfile::tempdir().unwrap() };
        if let Some(tree) = tree {
            std::os::unix::fs::symlink(tree, trees.folder.path().join("tree")).unwrap();
        }
        for name in ["tree", "one", "two"] {
            fs::create_dir_all(trees.path(name)).unwrap();
            fs::write(trees.path(name).join("long"), good()).unwrap();
        }
        fs::hard_link(trees.path("tree/long"), trees.path("tree/name")).unwrap();
        trees.run(&["scrub", "tree"]).clean();
        trees.run(&["image", "map", "--exact", "--output", "tree/long.map", "tree/long"]).clean();
        trees.run(&["scrub", "tree"]).clean();
        trees
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn long(&self) -> PathBuf {
        self.path("tree/long")
    }

    fn journal(&self) -> PathBuf {
        self.path("c.db.in-place")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(VERISUM);
        let has_catalog = ["scrub", "repair", "catalog"].contains(&words[0]);
        command.args(words).args(has_catalog.then_some("--catalog=c.db")).current_dir(self.folder.path());
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    fn repair(&self, words: &[&str]) -> Ended {
        self.run(&[&["repair", "--in-place", "--keep-bad", "bad"], words, &["tree"]].concat())
    }

    /// Damages blocks of a file as a disk does: its time of modification stays.
    fn damage(&self, name: &str, blocks: &[usize]) {
        let path = self.path(name);
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let file = File::options().write(true).open(path).unwrap();
        for block in blocks {
            file.write_all_at(b"rotten", (block * BLOCK + 77) as u64).unwrap();
        }
        file.set_modified(modified).unwrap();
    }

    fn is_good(&self) -> bool {
        fs::read(self.long()).unwrap() == good()
    }

    /// What the catalogue records of the file.
    fn recorded(&self) -> Value {
        let exported = self.run(&["catalog", "export"]).clean();
        let lines = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut lines = lines.filter(|line| line["type"] == "file" && line["path"] == "long");
        lines.next().unwrap()["digest"].clone()
    }
}

#[test]
fn only_bad_blocks_are_written_and_the_file_stays_the_same_one() {
    let trees = Trees::new();
    // None of the copies is good as a whole.
    trees.damage("one/long", &[3]);
    trees.damage("two/long", &[40]);
    trees.damage("tree/long", &[3, 4, 40, BLOCKS - 1]);
    let before = fs::metadata(trees.long()).unwrap();
    let bad = fs::read(trees.long()).unwrap();
    assert_eq!(trees.run(&["scrub", "tree"]).code, Some(1));
    let from = ["--from", "one", "--from", "two"];
    let dry = trees.repair(&[&from[..], &["--dry-run"]].concat()).clean();
    assert!(dry.contains("mendable") && fs::read(trees.long()).unwrap() == bad, "{dry}");
    let alone = trees.repair(&["--from", "one"]);
    assert_eq!(alone.code, Some(1), "{}", alone.out());
    assert!(fs::read(trees.long()).unwrap() == bad && !trees.journal().exists());
    let repaired = trees.repair(&[&from[..], &["--json"]].concat()).clean();
    let line: Value = serde_json::from_str(repaired.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&line["outcome"], &line["bytes"]),
        (&"repaired".into(), &(4 * BLOCK - 1000).into()),
        "{line}"
    );
    assert!(trees.is_good());
    let after = fs::metadata(trees.long()).unwrap();
    let told = |of: &fs::Metadata| (of.ino(), of.mtime(), of.mtime_nsec(), of.mode(), of.nlink());
    assert_eq!(told(&after), told(&before));
    assert_eq!(fs::read(trees.path("bad/long")).unwrap(), bad);
    assert!(!trees.journal().exists());
    trees.run(&["scrub", "tree"]).clean();
    let listed = trees.run(&["catalog", "list", "--repaired", "--json"]).clean();
    let lines = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_long = lines.filter(|line| line["path"] == *trees.long().to_str().unwrap());
    let ranges = of_long.flat_map(|line| line["ranges"].as_array().unwrap().clone());
    let bytes: u64 = ranges.map(|range| range["length"].as_u64().unwrap()).sum();
    assert_eq!(bytes, (4 * BLOCK - 1000) as u64, "{listed}");
}

#[test]
fn parity_gives_blocks_in_place_too_and_without_digests_of_blocks_nothing_is_written() {
    let trees = Trees::new();
    fs::remove_file(trees.path("tree/long.map")).unwrap();
    trees.run(&["scrub", "tree"]);
    trees.damage("tree/long", &[7]);
    trees.run(&["scrub", "tree"]);
    let refused = trees.repair(&["--from", "one"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.out().contains("--in-place needs digests of its blocks"), "{}", refused.out());
    let inode = fs::metadata(trees.long()).unwrap().ino();
    // As it was made when the file was good.
    fs::copy(trees.path("one/long"), trees.path("two/name")).unwrap();
    for name in ["long", "name"] {
        let modified = fs::metadata(trees.long()).unwrap().modified().unwrap();
        let file = File::options().write(true).open(trees.path("two").join(name)).unwrap();
        file.set_modified(modified).unwrap();
    }
    trees.run(&["parity", "create", "--to", "parity", "two"]).clean();
    let repaired = trees.repair(&["--except-missing", "--parity", "parity"]);
    assert_eq!(repaired.code, Some(0), "{}{}", repaired.out(), repaired.stderr);
    assert!(trees.is_good() && fs::metadata(trees.long()).unwrap().ino() == inode);
}

/// How often a repair is killed; `TEST_KILLS` sets another number.
const KILLS: u32 = 20;

#[test]
fn killed_at_any_moment_the_next_scrub_ends_it_and_keeps_the_record() {
    let trees = Trees::new();
    let kills = std::env::var("TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let blocks: Vec<usize> = (0..BLOCKS).filter(|block| block % 3 == 1).collect();
    let (recorded, good) = (trees.recorded(), good());
    let mut random = fastrand::Rng::with_seed(6);
    for round in 0..kills {
        if trees.is_good() {
            trees.damage("tree/long", &blocks);
        }
        let bad = fs::read(trees.long()).unwrap();
        trees.run(&["scrub", "tree"]);
        let words = ["repair", "--in-place", "--keep-bad", "bad", "--from", "one", "tree"];
        let mut child = start(&mut trees.command(&words));
        std::thread::sleep(Duration::from_micros(random.u64(..150_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let is_journalled = trees.journal().exists();
        let found = fs::read(trees.long()).unwrap();
        for (number, block) in found.chunks(BLOCK).enumerate() {
            let place = number * BLOCK..number * BLOCK + block.len();
            let is_whole = block == &good[place.clone()] || block == &bad[place];
            assert!(is_whole || is_journalled, "round {round}: block {number}");
        }
        let scrubbed = trees.run(&["scrub", "tree"]);
        if is_journalled {
            assert!(scrubbed.stderr.contains("finished an interrupted repair"), "{}", scrubbed.stderr);
            assert!(trees.is_good() && !trees.journal().exists(), "round {round}");
        }
        assert!(trees.is_good() || fs::read(trees.long()).unwrap() == bad, "round {round}");
        assert_eq!(trees.recorded(), recorded, "round {round}");
        fs::remove_dir_all(trees.path("bad")).ok();
    }
    trees.repair(&["--from", "one"]).clean();
    assert!(trees.is_good());
    trees.run(&["scrub", "tree"]).clean();
}

/// A repair that was interrupted before its first write.
fn interrupted(chattr: &Path) -> Option<Trees> {
    interrupted_at(chattr, Trees::new())
}

fn interrupted_at(chattr: &Path, trees: Trees) -> Option<Trees> {
    trees.damage("tree/long", &[5, 6]);
    trees.run(&["scrub", "tree"]);
    let set =
        |what: &str| Command::new(chattr).arg(what).arg(trees.long()).output().unwrap().status.success();
    if !set("+i") {
        skip("files of this file system cannot be made immutable");
        return None;
    }
    let ended = trees.repair(&["--from", "one"]);
    set("-i");
    assert_eq!(ended.code, Some(1), "{}", ended.out());
    assert!(ended.out().contains("the next repair goes on"), "{}", ended.out());
    assert!(trees.journal().exists());
    Some(trees)
}

impl Trees {
    /// Another long file with a map, and a copy.
    fn add(&self, name: &str) {
        let bytes: Vec<u8> = good().into_iter().rev().collect();
        for tree in ["tree", "one"] {
            fs::write(self.path(tree).join(name), &bytes).unwrap();
        }
        let path = format!("tree/{name}");
        self.run(&["image", "map", "--exact", "--output", &format!("{path}.map"), &path]).clean();
        self.run(&["scrub", "tree"]).clean();
    }
}

#[test]
fn the_scrub_of_a_program_finishes_it_too() {
    let (Some(_), Some(chattr)) = (require_root(), require_tool("chattr")) else { return };
    let Some(trees) = interrupted(&chattr) else { return };
    let scrub =
        || verisum::scrub(&trees.path("c.db"), &trees.path("tree"), &ScrubOptions::default()).unwrap();
    // While it cannot, the file is not read.
    let held = File::options().append(true).open(trees.long()).unwrap();
    let mut results = scrub();
    let verdicts: Vec<_> = results.by_ref().map(|file| (file.verdict, file.error)).collect();
    assert!(verdicts.iter().all(|(verdict, _)| *verdict == Verdict::Unverifiable), "{verdicts:?}");
    assert!(!verdicts.is_empty() && trees.journal().exists() && !trees.is_good());
    drop(held);
    // Programs that other tests start have it open too, until they have begun.
    wait_until("the repair is finished", || {
        scrub().finish().unwrap();
        trees.is_good() && !trees.journal().exists()
    });
    // What is no journal is an error.
    fs::write(trees.journal(), "something else").unwrap();
    let refused = scrub().finish().unwrap_err().to_string();
    assert!(refused.contains("it is no journal of a repair in place"), "{refused}");
}

#[test]
fn where_the_disk_is_full_the_next_repair_goes_on() {
    let Some(mount) = Mount::new(FsKind::Tmpfs, 6 << 20) else { return };
    let trees = Trees::of(Some(&mount.path()));
    // A lost block that is a hole takes room again.
    let file = File::options().write(true).open(trees.long()).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, (7 * BLOCK) as u64, BLOCK as u64).unwrap();
    file.set_modified(modified).unwrap();
    drop(file);
    trees.damage("tree/long", &[5, 9]);
    assert_eq!(trees.run(&["scrub", "tree"]).code, Some(1));
    let filling = mount.path().join("filling");
    let mut fill = File::create(&filling).unwrap();
    while fill.write_all(&[1; 4096]).is_ok() {}
    drop(fill);

    let ended = trees.repair(&["--from", "one"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().contains("No space left on device"), "{}", ended.out());
    // What was good stays so.
    let (now, good) = (fs::read(trees.long()).unwrap(), good());
    let blocks = now.chunks(BLOCK).zip(good.chunks(BLOCK)).enumerate();
    let bad: Vec<usize> = blocks.filter(|(_, (now, good))| now != good).map(|(number, _)| number).collect();
    assert!(bad.contains(&7) && bad.iter().all(|block| [5, 7, 9].contains(block)), "{bad:?}");

    fs::remove_file(filling).unwrap();
    let ended = trees.repair(&["--from", "one"]);
    assert!(ended.code == Some(0) && trees.is_good(), "{}{}", ended.out(), ended.stderr);
    assert!(!trees.journal().exists());
    trees.run(&["scrub", "tree"]).clean();
}

#[test]
fn a_second_file_leaves_the_journal_of_the_first_alone() {
    let (Some(_), Some(chattr)) = (require_root(), require_tool("chattr")) else { return };
    let Some(trees) = interrupted(&chattr) else { return };
    let journal = fs::read(trees.journal()).unwrap();
    assert_eq!(trees.repair(&["--from", "one"]).code, Some(0));
    trees.add("more");
    trees.damage("tree/long", &[5, 6]);
    trees.damage("tree/more", &[9]);
    trees.run(&["scrub", "tree"]);
    let set = |what: &str| Command::new(&chattr).arg(what).arg(trees.long()).output().unwrap();
    set("+i");
    let ended = trees.repair(&["--from", "one"]);
    set("-i");
    assert_eq!(ended.code, Some(1), "{}", ended.out());
    let told = ["the next repair goes on by", "an earlier repair in place is to be finished first"];
    assert!(told.iter().all(|what| ended.out().contains(what)), "{}", ended.out());
    assert!(fs::read(trees.journal()).unwrap() == journal);
    assert_eq!(trees.repair(&["--from", "one"]).code, Some(0));
    assert!(
        trees.is_good()
            && fs::read(trees.path("tree/more")).unwrap() == fs::read(trees.path("one/more")).unwrap()
    );
    trees.run(&["scrub", "tree"]).clean();
}

#[test]
fn what_is_left_of_a_repair_that_was_stopped_is_not_without_a_source() {
    let trees = Trees::new();
    trees.add("more");
    for name in ["tree/long", "tree/more"] {
        trees.damage(name, &[5, 6]);
    }
    trees.run(&["scrub", "tree"]);
    let catalog = Catalog::open(&trees.path("c.db")).unwrap();
    let mut options = RepairOptions::default();
    (options.in_place, options.keep_bad) = (true, Some(trees.path("bad")));
    let stop = options.stop.clone();
    let mut sources = [Source::new(&trees.path("one"), Box::new(LocalPlace::default()))];
    let mut outcomes = Vec::new();
    let tree = trees.path("tree");
    let summary = repair(&catalog, &tree, &mut sources, &options, &mut |file| {
        stop.request();
        outcomes.push((file.path.file_name().unwrap().to_owned(), file.outcome.clone()));
    });
    let summary = summary.unwrap();
    assert!(summary.interrupted && summary.without_source == 0, "{outcomes:?}");
    let repaired = outcomes.iter().filter(|(_, outcome)| outcome.name() == "repaired").count();
    let interrupted = RepairOutcome::Failed(RepairFailure::Interrupted);
    let left: Vec<_> = outcomes.iter().filter(|(_, outcome)| *outcome == interrupted).collect();
    assert!(repaired > 0 && left.len() + repaired == outcomes.len() && !left.is_empty(), "{outcomes:?}");
}

#[test]
fn what_somebody_wrote_since_is_not_overwritten() {
    let (Some(_), Some(chattr)) = (require_root(), require_tool("chattr")) else { return };
    let Some(trees) = interrupted(&chattr) else { return };
    let recorded = trees.recorded();
    let writer = File::options().write(true).open(trees.long()).unwrap();
    let waits = trees.run(&["scrub", "tree"]);
    assert_eq!(waits.code, Some(1), "{}", waits.out());
    assert!(waits.stderr.contains("a program has it open to write to it"), "{}", waits.stderr);
    assert_eq!(trees.recorded(), recorded);
    // Into a block that was to be written, and into one that was not.
    for at in [5 * BLOCK + 1, 20 * BLOCK] {
        writer.write_all_at(b"theirs", at as u64).unwrap();
    }
    drop(writer);
    let scrubbed = trees.run(&["scrub", "tree"]);
    assert!(
        scrubbed.stderr.contains("an interrupted repair was given up: somebody wrote to it"),
        "{scrubbed:?}"
    );
    let now = fs::read(trees.long()).unwrap();
    assert!(&now[5 * BLOCK + 1..][..6] == b"theirs" && &now[20 * BLOCK..][..6] == b"theirs");
    assert!(&now[6 * BLOCK + 77..][..6] == b"rotten" && !trees.journal().exists());
}

#[test]
fn a_file_that_is_held_open_keeps_no_scrub_from_the_others() {
    let (Some(_), Some(chattr)) = (require_root(), require_tool("chattr")) else { return };
    let Some(trees) = interrupted(&chattr) else { return };
    let recorded = trees.recorded();
    let writer = File::options().write(true).open(trees.long()).unwrap();
    fs::write(trees.path("tree/other"), "good").unwrap();
    let scrubbed = trees.run(&["scrub", "tree", "--json"]);
    assert_eq!(scrubbed.code, Some(1), "{}{}", scrubbed.out(), scrubbed.stderr);
    let lines = scrubbed.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let of = |outcome: &str| -> Vec<&str> {
        let lines = lines.iter().filter(|line| line["outcome"] == outcome);
        lines.filter_map(|line| line["path"].as_str()?.rsplit('/').next()).collect()
    };
    assert_eq!(of("new"), ["other"], "{}", scrubbed.out());
    // By both of its names.
    let mut unverified = of("unverifiable");
    unverified.sort_unstable();
    assert_eq!(unverified, ["long", "name"], "{}", scrubbed.out());
    let command = scrubbed.stderr.split('`').nth(1).unwrap();
    assert!(command.starts_with("verisum repair --catalog "), "{}", scrubbed.stderr);
    // What else is rotten is found, and repaired, as if nothing were held.
    trees.damage("tree/other", &[0]);
    let found = trees.run(&["scrub", "tree"]);
    assert_eq!(found.code, Some(1), "{}{}", found.out(), found.stderr);
    assert!(found.out().contains("tree/other") && !found.out().contains("missing"), "{}", found.out());
    fs::write(trees.path("two/other"), "good").unwrap();
    let repaired = trees.run(&["repair", "--keep-bad", "bad", "--from", "two", "tree"]);
    assert_eq!(repaired.code, Some(1), "{}{}", repaired.out(), repaired.stderr);
    assert!(repaired.out().contains("its repair in place is not finished"), "{}", repaired.out());
    assert_eq!(fs::read(trees.path("tree/other")).unwrap(), b"good");
    assert!(trees.recorded() == recorded && trees.journal().exists() && !trees.is_good());
    // What was printed runs as it is, once nobody holds the file.
    drop(writer);
    let words = format!("{VERISUM} {}", command.strip_prefix("verisum ").unwrap());
    let ended = Command::new("sh").args(["-c", &words]).current_dir(trees.folder.path()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(trees.is_good() && !trees.journal().exists());
    trees.run(&["scrub", "tree"]).clean();
}

#[test]
fn a_new_file_takes_the_place_of_one_whose_storage_fails_meanwhile() {
    let (Some(_), Some(chattr)) = (require_root(), require_tool("chattr")) else { return };
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    let Some(trees) = interrupted_at(&chattr, Trees::of(Some(&mount.path()))) else { return };
    // A block that the journal does not have can never be read again.
    mount.edit_image(|image| {
        let bytes = fs::read(image).unwrap();
        let block = &good()[20 * BLOCK..][..64];
        let place = bytes.chunks(4096).position(|sector| sector.starts_with(block)).unwrap() * 4096;
        File::options().write(true).open(image).unwrap().write_all_at(b"rotten", place as u64).unwrap();
    });
    let scrubbed = trees.run(&["scrub", "tree"]);
    assert!(scrubbed.stderr.contains("Input/output error"), "{}", scrubbed.stderr);
    assert!(scrubbed.stderr.contains("puts a new file in its place"), "{}", scrubbed.stderr);
    let ended = trees.repair(&["--from", "one"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(trees.journal().exists());
    let ended = trees.run(&["repair", "--keep-bad", "bad", "--from", "one", "tree"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    assert!(trees.is_good() && !trees.journal().exists());
    trees.run(&["scrub", "tree"]).clean();
}

#[test]
fn a_journal_goes_on_without_the_copy_and_gives_up_another_file() {
    let (Some(_), Some(chattr)) = (require_root(), require_tool("chattr")) else { return };
    let Some(trees) = interrupted(&chattr) else { return };
    fs::remove_dir_all(trees.path("one")).unwrap();
    // A dry run knows that, and changes nothing.
    let told = trees.repair(&["--from", "two", "--dry-run"]);
    assert_eq!(told.code, Some(0), "{}{}", told.out(), told.stderr);
    assert!(
        told.out().contains("mendable") && !trees.is_good() && trees.journal().exists(),
        "{}",
        told.out()
    );
    let ended = trees.repair(&["--from", "two"]).code;
    assert_eq!(ended, Some(0));
    assert!(trees.is_good());
    let Some(trees) = interrupted(&chattr) else { return };
    fs::remove_file(trees.long()).unwrap();
    fs::write(trees.long(), vec![b'x'; LENGTH]).unwrap();
    let scrubbed = trees.run(&["scrub", "tree"]);
    assert!(scrubbed.stderr.contains("another file is in its place"), "{}", scrubbed.stderr);
    assert!(fs::read(trees.long()).unwrap() == vec![b'x'; LENGTH]);
    // What is no journal changes nothing.
    fs::write(trees.journal(), "something else").unwrap();
    for words in [&["scrub", "tree"][..], &["repair", "tree"], &["repair", "--dry-run", "tree"]] {
        let refused = trees.run(words);
        assert_eq!(refused.code, Some(3), "{words:?}");
        assert!(refused.stderr.contains("it is no journal of a repair in place"), "{}", refused.stderr);
    }
}

#[test]
fn a_map_counts_where_parity_is_of_other_content() {
    for in_place in [&["--in-place"][..], &[]] {
        let trees = Trees::new();
        // The parity is older than what is recorded: of the same length, and of another block.
        let modified = fs::metadata(trees.long()).unwrap().modified().unwrap();
        trees.damage("tree/long", &[20]);
        trees.run(&["parity", "create", "--to", "parity", "tree"]).clean();
        fs::write(trees.long(), good()).unwrap();
        File::options().write(true).open(trees.long()).unwrap().set_modified(modified).unwrap();
        trees.run(&["scrub", "tree"]);
        // No copy is good as a whole.
        trees.damage("one/long", &[3]);
        trees.damage("tree/long", &[7]);
        assert_eq!(trees.run(&["scrub", "tree"]).code, Some(1));
        let words = ["repair", "--keep-bad", "bad", "--from", "one", "--parity", "parity", "tree"];
        for dry in [&["--dry-run"][..], &[]] {
            let repaired = trees.run(&[&words[..], in_place, dry].concat());
            assert_eq!(repaired.code, Some(0), "{in_place:?} {dry:?}: {}{}", repaired.out(), repaired.stderr);
        }
        assert!(trees.is_good(), "{in_place:?}");
    }
}

#[test]
fn parity_of_other_content_is_no_lack_of_copies() {
    let trees = Trees::new();
    fs::remove_file(trees.path("tree/long.map")).unwrap();
    trees.damage("tree/long", &[7]);
    assert_eq!(trees.run(&["scrub", "tree"]).code, Some(1));
    trees.run(&["parity", "create", "tree"]).clean();
    for dry in [&["--dry-run"][..], &[]] {
        let refused = trees.repair(&[&["--from", "one"], dry].concat());
        assert_eq!(refused.code, Some(1), "{}", refused.out());
        let why = "those of its parity or block map are of different content";
        assert!(refused.out().contains(why), "{dry:?}: {}", refused.out());
        assert!(!refused.out().contains("no copy of it is known"), "{dry:?}: {}", refused.out());
    }
    assert!(!trees.is_good() && !trees.journal().exists());
}
