//! `verisum catalog rehash`: records get another digest as scrubs read the files, and nothing bad gets one.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::scrubbing::{Tree, check, expect, export, refused, s, scrub};
use common::{Ended, verisum};
use serde_json::Value;
use verisum::Digest;

fn rehash(tree: &Tree, options: &[&str]) -> Ended {
    let mut arguments = vec![s("catalog"), s("rehash"), s("--catalog"), tree.catalog()];
    arguments.extend(options.iter().map(|option| s(option)));
    verisum(arguments)
}

/// The algorithm and the digest of each record, by the name.
fn records(tree: &Tree) -> BTreeMap<String, (String, String)> {
    let lines = export(&tree.catalog());
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |record: &Value, field: &str| record[field].as_str().unwrap_or_default().to_string();
    let records = records.filter(|record| record["type"] == "file");
    records
        .map(|record| {
            let path = text(&record, "path");
            let name = path.rsplit('/').next().unwrap().to_string();
            (name, (text(&record, "algorithm"), text(&record, "digest")))
        })
        .collect()
}

fn digest_of(name: &str, path: &Path) -> (String, String) {
    (name.to_string(), Digest::find(name).unwrap().hash(&fs::read(path).unwrap()).unwrap().to_string())
}

fn status(tree: &Tree) -> String {
    let ended = verisum([s("catalog"), s("status"), s("--catalog"), tree.catalog()]);
    ended.clean()
}

/// Gives all files times that are long ago, so that times tell.
fn age(tree: &Tree) {
    let then = SystemTime::now() - Duration::from_secs(100_000);
    for entry in fs::read_dir(tree.root()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
        }
    }
}

#[test]
fn no_record_gets_a_digest_that_verifies_nothing() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let recorded = records(&tree);
    for ended in [rehash(&tree, &["--to", "null"]), tree.scrub(&["-a", "null"])] {
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(
            ended.stderr.ends_with(": null: verifies nothing, so it cannot be recorded\n"),
            "{}",
            ended.stderr
        );
    }
    tree.scrub(&[]).clean();
    assert_eq!(records(&tree), recorded);
}

#[test]
fn good_files_get_the_new_digest_in_the_read_that_verifies_them() {
    let tree = Tree::new();
    age(&tree);
    tree.scrub(&[]).clean();
    assert_eq!(
        rehash(&tree, &["--dry-run", "--to", "blake3"]).clean(),
        "rehash to blake3: 11 of 11 records left (sha256)\n"
    );
    assert!(!status(&tree).contains("rehash"));
    rehash(&tree, &["--to", "BLAKE3"]).clean();
    assert!(status(&tree).contains("  rehash to blake3: 11 of 11 records left (sha256)\n"));
    // Bad data, a change, a loss, and a new file.
    let modified = fs::metadata(tree.path("f1")).unwrap().modified().unwrap();
    fs::write(tree.path("f1"), "contenT 1").unwrap();
    fs::File::options().append(true).open(tree.path("f1")).unwrap().set_modified(modified).unwrap();
    fs::write(tree.path("f2"), "changed").unwrap();
    fs::remove_file(tree.path("f3")).unwrap();
    fs::write(tree.path("new"), "new content").unwrap();
    let ended = tree.scrub(&["--json"]);
    assert_eq!(ended.code, Some(1));
    let lines = ended.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let summary = lines.into_iter().find(|line| line["type"] == "summary").unwrap();
    let bytes: u64 = fs::read_dir(tree.root())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap())
        .filter(|stat| stat.is_file())
        .map(|stat| stat.len())
        .sum();
    // Each was read once.
    assert_eq!(summary["read_bytes"].as_u64(), Some(bytes + "deep content".len() as u64));
    let found = records(&tree);
    for name in ["f0", "f2", "f4", "f9", "new"] {
        assert_eq!(found[name], digest_of("blake3", &tree.path(name)), "{name}");
    }
    assert_eq!(found["deep"], digest_of("blake3", &tree.path("below/deep")));
    for (name, content) in [("f1", "content 1"), ("f3", "content 3")] {
        let old = Digest::find("sha256").unwrap().hash(content.as_bytes()).unwrap();
        assert_eq!(found[name], ("sha256".to_string(), old.to_string()));
    }
    assert!(status(&tree).contains("  rehash to blake3: 2 of 12 records left (sha256)\n"));
    check(&tree.catalog());
    // What is bad stays so until its recorded content is back; then it gets the new digest too.
    expect(&tree.scrub(&["-q"]), 1, &[("suspicious", &tree.path("f1"))]);
    fs::write(tree.path("f1"), "content 1").unwrap();
    fs::File::options().append(true).open(tree.path("f1")).unwrap().set_modified(modified).unwrap();
    fs::write(tree.path("f3"), "content 3").unwrap();
    tree.scrub(&["-q"]);
    assert_eq!(records(&tree)["f1"], digest_of("blake3", &tree.path("f1")));
    assert!(status(&tree).contains("  rehash to blake3: done, all 12 records have it\n"));
    tree.scrub(&[]).clean();
    check(&tree.catalog());
}

/// Writes other bytes to a file and sets its time back.
fn rot(path: &Path) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[0] ^= 1;
    fs::write(path, bytes).unwrap();
    fs::File::options().append(true).open(path).unwrap().set_modified(modified).unwrap();
}

/// The rows of a table of a report.
fn rows<'r>(report: &'r Value, title: &str) -> &'r Value {
    let tables = report["tables"].as_array().unwrap();
    &tables.iter().find(|table| table["title"] == title).unwrap()["rows"]
}

#[test]
fn copies_are_found_by_either_digest_meanwhile() {
    let tree = Tree::new();
    age(&tree);
    let copy = tree.folder.path().canonicalize().unwrap().join("copy");
    let copied = std::process::Command::new("cp").arg("-a").args([&tree.root(), &copy]).status().unwrap();
    assert!(copied.success());
    let scrub_copy = |options: &[&str]| scrub(&tree.catalog(), &copy, options);
    tree.scrub(&[]).clean();
    scrub_copy(&[]).clean();
    rehash(&tree, &["--to", "blake3"]).clean();
    tree.scrub(&[]).clean();
    let with = |words: &[&str]| {
        let (verb, options) = words.split_at(if words[0] == "catalog" { 2 } else { 1 });
        let mut arguments: Vec<_> = verb.iter().map(|word| s(word)).collect();
        arguments.extend([s("--catalog"), tree.catalog()]);
        arguments.extend(options.iter().map(|word| s(word)));
        verisum(arguments)
    };
    let duplicates = with(&["catalog", "list", "--duplicates"]).clean();
    let (first, second) = (tree.path("f1").display().to_string(), copy.join("f1").display().to_string());
    let ours = duplicates.split("\n\n").find(|group| group.contains(&*first)).unwrap();
    assert!(ours.contains(&*second), "{duplicates}");
    let report = serde_json::from_str::<Value>(&with(&["report", "--json"]).clean()).unwrap();
    assert_eq!(rows(&report, "Copies")[0]["how many"], 0, "{report}");
    // One has the new digest, its copy the old one; then the other way round.
    rot(&tree.path("f1"));
    let ended = tree.scrub(&[]);
    assert!(ended.code == Some(1) && ended.stderr.contains(&*second), "{}", ended.stderr);
    let report = serde_json::from_str::<Value>(with(&["report", "--json"]).out()).unwrap();
    assert_eq!(rows(&report, "Bad, missing and unchecked files")[0]["good copy"], *second, "{report}");
    assert_eq!(
        rows(&report, "Trees")[0]["copies known"]
            .as_u64()
            .max(rows(&report, "Trees")[1]["copies known"].as_u64()),
        Some(1)
    );
    let dry = with(&["repair", "--dry-run", "--json", &tree.root().display().to_string()]);
    assert!(dry.out().contains(&*second), "{}{}", dry.out(), dry.stderr);
    with(&["repair", &tree.root().display().to_string(), "--keep-bad", &format!("{second}.bad")]).clean();
    rot(&copy.join("f2"));
    let ended = scrub_copy(&[]);
    assert!(ended.stderr.contains(&tree.path("f2").display().to_string()), "{}", ended.stderr);
    check(&tree.catalog());
}

#[test]
fn it_can_be_stopped_and_sent_back() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    rehash(&tree, &["--to", "blake3"]).clean();
    assert_eq!(rehash(&tree, &["--stop"]).clean(), "records keep their digests\n");
    tree.scrub(&[]).clean();
    assert!(records(&tree).values().all(|(algorithm, _)| algorithm == "sha256"));
    for to in ["blake2b512", "sha256"] {
        rehash(&tree, &["--to", to]).clean();
        tree.scrub(&[]).clean();
        assert!(records(&tree).values().all(|(algorithm, _)| algorithm == to));
    }
    refused(&rehash(&tree, &["--to", "sha257"]), 2, "sha257");
    refused(&rehash(&tree, &[]), 2, "--to");
}
