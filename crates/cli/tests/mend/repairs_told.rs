//! Repairs are remembered: when, from where, which blocks, and the digests before and since.

use crate::common;

use std::fs;
use std::os::unix::fs::{FileExt, lchown, symlink};
use std::path::{Path, PathBuf};

use common::scrubbing::{s, scrub};
use common::sshd::sshd;
use common::{Ended, verisum};
use serde_json::Value;
use verisum_testkit::require_root;

/// Two blocks of 4 KiB and a little more.
const LENGTH: usize = 9216;

/// A recorded tree with one file, and a copy of it.
struct Trees {
    folder: tempfile::TempDir,
}

impl Trees {
    fn new() -> Trees {
        let trees = Trees { folder: tempfile::tempdir().unwrap() };
        for tree in ["tree", "copy"] {
            fs::create_dir(trees.path(tree)).unwrap();
            fs::write(trees.path(tree).join("f"), content()).unwrap();
        }
        scrub(&trees.path("c.db"), &trees.path("tree"), &[]).clean();
        trees
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Rot in the second block of the file, as its time of modification tells.
    fn rot(&self) {
        let path = self.path("tree/f");
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(b"rotten", 5000).unwrap();
        file.set_modified(modified).unwrap();
    }

    /// Runs a command with the catalogue.
    fn run(&self, words: &[&str]) -> Ended {
        let catalog = self.path("c.db");
        let named = ["--catalog", catalog.to_str().unwrap()];
        let mut command = common::command(common::VERISUM);
        command.args(words).args(named).current_dir(self.folder.path());
        Ended::of(command.output().unwrap())
    }

    /// The only repair that is remembered.
    fn repair(&self) -> Value {
        let lines = self.run(&["catalog", "list", "--repaired", "--json"]).clean();
        assert_eq!(lines.lines().count(), 1, "{lines}");
        serde_json::from_str(&lines).unwrap()
    }

    /// That the file is good, and the catalogue knows it.
    fn is_well(&self) {
        assert_eq!(fs::read(self.path("tree/f")).unwrap(), content());
        self.run(&["catalog", "list", "--bad", "--missing"]).clean();
        let status = self.run(&["catalog", "status"]).clean();
        assert!(status.contains("  repaired: 1 file, the last one "), "{status}");
        let status: Value =
            serde_json::from_str(&self.run(&["catalog", "status", "--json"]).clean()).unwrap();
        assert_eq!(status["repaired"]["count"], 1);
        assert_eq!(status["repaired"]["last"], self.repair()["repaired"]);
        assert!(status["repaired"]["last"].is_string());
    }
}

fn content() -> Vec<u8> {
    (0..LENGTH).map(|at| (at % 251) as u8).collect()
}

fn digest(path: &Path) -> String {
    let sum = verisum([s("sum"), s("-a"), s("sha256"), path.into()]).clean();
    sum.split(' ').next().unwrap().to_string()
}

fn ranges(repair: &Value) -> Vec<(u64, u64)> {
    let range = |range: &Value| (range["offset"].as_u64().unwrap(), range["length"].as_u64().unwrap());
    repair["ranges"].as_array().unwrap().iter().map(range).collect()
}

#[test]
fn repairs_from_copies_are_told() {
    let trees = Trees::new();
    let good = digest(&trees.path("tree/f"));
    trees.rot();
    let bad = digest(&trees.path("tree/f"));
    assert_eq!(trees.run(&["scrub", "tree"]).code, Some(1));
    let dry = trees.run(&["repair", "--dry-run", "--from", "copy", "tree"]);
    assert_eq!((dry.code, trees.run(&["catalog", "list", "--repaired"]).clean()), (Some(1), String::new()));
    assert!(dry.out().contains("needs --keep-bad"), "{}", dry.out());
    let has_what_it_needs =
        trees.run(&["repair", "--dry-run", "--from", "copy", "--keep-bad", "bad", "tree"]).clean();
    assert!(!has_what_it_needs.contains("needs"), "{has_what_it_needs}");
    trees.run(&["repair", "--from", "copy", "--keep-bad", "bad", "tree"]).clean();
    trees.is_well();
    let repair = trees.repair();
    assert_eq!(
        (&repair["type"], &repair["outcome"], &repair["was"]),
        (&"repair".into(), &"repaired".into(), &"suspicious".into())
    );
    assert_eq!(repair["path"], trees.path("tree/f").to_str().unwrap());
    assert_eq!(repair["from"]["path"], trees.path("copy/f").to_str().unwrap());
    assert_eq!((&repair["before"], &repair["digest"]), (&bad.into(), &good.into()));
    assert_eq!((ranges(&repair), &repair["bytes"]), (vec![(4096, 4096)], &LENGTH.into()));
    let text = trees.run(&["catalog", "list", "--repaired"]).clean();
    assert!(text.starts_with("repaired") && text.contains("4 KiB of it new, in 1 place"), "{text}");
    let none = trees.run(&["catalog", "list", "--repaired", "--tree", "tree/g"]).clean();
    assert_eq!(none, "");
    let report = verisum([s("report"), s("--json"), trees.path("c.db")]);
    let report: Value = serde_json::from_str(report.out()).unwrap();
    let tables = report["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["title"] == "Repairs").unwrap();
    assert_eq!(table["rows"][0]["from"], trees.path("copy/f").to_str().unwrap());
}

/// What another catalogue knew is not forgotten because a host does not answer.
#[test]
fn history_stays_when_the_first_scrub_fails() {
    let Some(server) = sshd("") else { return };
    let trees = Trees::new();
    trees.rot();
    trees.run(&["scrub", "tree"]);
    trees.run(&["repair", "--from", "copy", "--keep-bad", "bad", "tree"]).clean();
    let exported = trees.run(&["catalog", "export"]).clean();
    let there = server.path("not-there");
    let address = format!("ssh://web1{}", there.display());
    let lines = exported.lines().filter(|line| !line.contains(r#""type":"file""#));
    let lines: Vec<String> =
        lines.map(|line| line.replace(trees.path("tree").to_str().unwrap(), &address)).collect();
    let (catalog, list) = (server.path("other.db"), server.path("lines.jsonl"));
    fs::write(&list, lines.join("\n") + "\n").unwrap();
    let run = |verb: &str, words: &[&str]| {
        if verb == "scrub" {
            return server.run(server.remote(verb).args(words).arg("--catalog").arg(&catalog));
        }
        let mut command = common::command(common::VERISUM);
        Ended::of(command.arg(verb).args(words).arg("--catalog").arg(&catalog).output().unwrap())
    };
    run("catalog", &["import", list.to_str().unwrap()]).clean();
    let repaired = run("catalog", &["list", "--repaired"]).clean();
    assert_eq!(repaired.lines().count(), 1, "{repaired}");
    let failed = run("scrub", &[&format!("web1:{}", there.display())]);
    assert_eq!(failed.code, Some(3), "{}", failed.stderr);
    assert_eq!(run("catalog", &["list", "--repaired"]).clean(), repaired);
}

#[test]
fn missing_files_are_new_as_a_whole() {
    let trees = Trees::new();
    fs::remove_file(trees.path("tree/f")).unwrap();
    trees.run(&["scrub", "tree"]);
    trees.run(&["repair", "--from", "copy", "tree"]).clean();
    trees.is_well();
    let repair = trees.repair();
    assert_eq!((ranges(&repair), &repair["before"]), (vec![(0, LENGTH as u64)], &Value::Null));
}

#[test]
fn repairs_by_lists_and_tags_are_told_where_a_catalogue_knows_the_tree() {
    for by in ["--sums", "--tags"] {
        let trees = Trees::new();
        let good = digest(&trees.path("tree/f"));
        fs::write(trees.path("SUMS"), format!("{good}  f\n")).unwrap();
        if verisum([s("tag"), s("--quiet"), trees.path("tree/f")]).code != Some(0) && by == "--tags" {
            continue;
        }
        trees.rot();
        trees.run(&["scrub", "tree"]);
        let which: &[&str] = if by == "--sums" { &["--sums", "SUMS"] } else { &["--tags"] };
        let words = [&["repair", "--from", "copy", "--keep-bad", "bad"], which, &["tree"]].concat();
        trees.run(&words).clean();
        trees.is_well();
        let repair = trees.repair();
        assert_eq!((&repair["was"], ranges(&repair)), (&"suspicious".into(), vec![(4096, 4096)]), "{by}");
    }
}

#[test]
fn repairs_from_parity_are_told() {
    let trees = Trees::new();
    verisum([
        s("parity"),
        s("create"),
        s("--redundancy"),
        s("50%"),
        s("--to"),
        trees.path("parity"),
        trees.path("tree"),
    ])
    .clean();
    trees.rot();
    trees.run(&["scrub", "tree"]);
    let bad = digest(&trees.path("tree/f"));
    trees.run(&["parity", "repair", "--to", "parity", "tree"]).clean();
    trees.is_well();
    let repair = trees.repair();
    assert_eq!((&repair["was"], &repair["before"]), (&"suspicious".into(), &bad.into()));
    assert_eq!(repair["from"]["path"], trees.path("parity").to_str().unwrap());
    let [(start, length)] = ranges(&repair)[..] else { panic!("{repair}") };
    assert!(start <= 5000 && start + length >= 5006 && length < LENGTH as u64, "{repair}");
}

#[test]
fn a_verdict_stays_where_parity_gives_another_content() {
    let trees = Trees::new();
    fs::write(trees.path("tree/f"), "written to").unwrap();
    verisum([s("parity"), s("create"), s("--redundancy"), s("50%"), trees.path("tree")]).clean();
    fs::remove_file(trees.path("tree/f")).unwrap();
    trees.run(&["scrub", "tree/f"]);
    scrub(&trees.path("c.db"), &trees.path("tree"), &["--exclude", ".verisum-parity"]);
    let ended = trees.run(&["parity", "repair", "tree"]);
    assert!(
        ended.stderr.contains("it is not what the catalogue recorded, whose verdict stays"),
        "{}",
        ended.stderr
    );
    assert_eq!(fs::read(trees.path("tree/f")).unwrap(), b"written to");
    let listed = trees.run(&["catalog", "list", "--missing", "--json"]);
    assert!(listed.out().contains(r#""outcome":"missing""#), "{}", listed.out());
    assert_eq!(trees.repair()["was"], "missing");
}

#[test]
fn repairs_of_images_are_told() {
    let trees = Trees::new();
    verisum([
        s("image"),
        s("map"),
        s("--block-size"),
        s("4k"),
        s("-o"),
        trees.path("map"),
        trees.path("tree/f"),
    ])
    .clean();
    trees.rot();
    trees.run(&["scrub", "tree"]);
    let ended = trees.run(&["image", "repair", "--map", "map", "--from", "copy/f", "tree/f"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    trees.is_well();
    let repair = trees.repair();
    assert_eq!((ranges(&repair), &repair["bytes"]), (vec![(4096, 4096)], &4096.into()));
    assert_eq!(repair["from"]["path"], trees.path("copy/f").to_str().unwrap());
}

#[test]
fn nothing_is_repaired_behind_the_link_of_another_user() {
    if require_root().is_none() {
        return;
    }
    let trees = Trees::new();
    let parity = verisum([s("parity"), s("create"), s("--redundancy"), s("50%"), trees.path("tree")]);
    parity.clean();
    trees.rot();
    scrub(&trees.path("c.db"), &trees.path("tree"), &["--exclude", ".verisum-parity"]);
    let rotten = fs::read(trees.path("tree/f")).unwrap();
    symlink("tree", trees.path("theirs")).unwrap();
    symlink(".", trees.path("way")).unwrap();
    for link in ["theirs", "way"] {
        lchown(trees.path(link), Some(65534), Some(65534)).unwrap();
    }
    let good = digest(&trees.path("copy/f"));
    fs::write(trees.path("SUMS"), format!("{good}  f\n")).unwrap();
    for path in ["theirs", "theirs/", "way/tree", "way/tree/f"] {
        for words in [
            vec!["repair", "--from", "copy", path],
            vec!["repair", "--from", "copy", "--sums", "SUMS", "--keep-bad", "bad", path],
            vec!["parity", "repair", path],
        ] {
            let ended = trees.run(&words);
            assert_eq!(ended.code, Some(3), "{words:?}: {}{}", ended.out(), ended.stderr);
            assert!(ended.stderr.contains("a link of another user leads there"), "{}", ended.stderr);
            assert_eq!(fs::read(trees.path("tree/f")).unwrap(), rotten);
        }
    }
    for link in ["theirs", "way"] {
        lchown(trees.path(link), Some(0), Some(0)).unwrap();
    }
    // What is bad would get a name where they chose.
    for directory in ["bad", "ours"] {
        fs::create_dir_all(trees.path(directory)).unwrap();
    }
    for (link, to) in [("linked.bad", "ours"), ("bad/linked", "../ours")] {
        symlink(to, trees.path(link)).unwrap();
        lchown(trees.path(link), Some(65534), Some(65534)).unwrap();
    }
    for (keep, tree) in [("linked.bad", "tree"), ("linked.bad/below", "tree/f"), ("bad/linked", "tree")] {
        let ended = trees.run(&["repair", "--from", "copy", "--keep-bad", keep, tree]);
        assert_eq!(ended.code, Some(3), "{keep}: {}{}", ended.out(), ended.stderr);
        assert!(ended.stderr.contains("a link of another user leads there"), "{}", ended.stderr);
        assert_eq!(fs::read_dir(trees.path("ours")).unwrap().count(), 0, "{keep}");
    }
    trees.run(&["repair", "--from", "copy", "--keep-bad", "bad", "way/tree/f"]).clean();
    assert_eq!(fs::read(trees.path("tree/f")).unwrap(), content());
}
