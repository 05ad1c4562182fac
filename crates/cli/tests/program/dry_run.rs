//! `--dry-run` of what changes tags and catalogues: it says what the real run then does, and changes nothing.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use common::tagging::{attribute, run, set_attribute, tree};
use common::{Ended, change_and_restore_time as rot, verisum};

/// What may be seen of a file without its time of access: its inode with all other times, and its attributes.
#[derive(Debug, PartialEq)]
struct Seen {
    inode: (u64, u32, u64, i64, i64, i64, i64),
    content: Vec<u8>,
    attributes: Vec<(String, Vec<u8>)>,
}

fn look(path: &Path, found: &mut BTreeMap<PathBuf, Seen>) {
    let meta = fs::symlink_metadata(path).unwrap();
    let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    let inode = (meta.ino(), meta.mode(), meta.len(), times.0, times.1, times.2, times.3);
    let content = if meta.is_file() { fs::read(path).unwrap() } else { Vec::new() };
    let mut names = vec![0; 4096];
    let length = rustix::fs::listxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let attributes = names
        .map(|name| String::from_utf8(name.to_vec()).unwrap())
        .map(|name| (name.clone(), attribute(path, &name).unwrap()))
        .collect();
    found.insert(path.to_path_buf(), Seen { inode, content, attributes });
    if meta.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| look(&entry.unwrap().path(), found));
    }
}

fn seen(path: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut found = BTreeMap::new();
    look(path, &mut found);
    found
}

/// Runs a verb dry, and asserts that it changed nothing; then runs it. Both say the same in JSON, but that
/// nothing was written. Returns the words of the outcomes.
#[track_caller]
fn twice(verb: &[&str], folder: &Path) -> Vec<String> {
    let before = seen(folder);
    let dry = run(&[verb, &["--dry-run", "--json", "--verbose"]].concat(), folder);
    let words = run(&[verb, &["--dry-run"]].concat(), folder);
    let quiet = run(&[verb, &["--dry-run", "--quiet"]].concat(), folder);
    assert_eq!(seen(folder), before, "{verb:?}");
    let real = run(&[verb, &["--json", "--verbose"]].concat(), folder);
    assert_eq!(dry.0, real.0, "{verb:?}");
    assert_eq!(quiet.0, real.0, "{verb:?}");
    let parse = |lines: &[String]| -> Vec<serde_json::Value> {
        let mut lines: Vec<_> =
            lines.iter().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()).collect();
        lines.retain(|line| line["type"] != "summary" && line["type"] != "alarm");
        lines
    };
    let (mut dry, real) = (parse(&dry.1), parse(&real.1));
    let mut written = 0;
    for line in &mut dry {
        written += usize::from(line.as_object_mut().unwrap().remove("written") == Some(false.into()));
        line.as_object_mut().unwrap().remove("verified");
    }
    assert_eq!(words.1.iter().filter(|line| line.contains(": would be ")).count(), written, "{words:?}");
    let real: Vec<_> = real
        .into_iter()
        .map(|mut line| {
            line.as_object_mut().unwrap().remove("verified");
            line
        })
        .collect();
    assert_eq!(dry, real, "{verb:?}");
    real.iter().map(|line| line["outcome"].as_str().unwrap().to_string()).collect()
}

#[test]
fn tags() {
    let folder = tree();
    assert_eq!(twice(&["tag"], folder.path()), ["tagged", "tagged", "tagged"]);
    rot(&folder.path().join("a"), "eno\n");
    fs::write(folder.path().join("sub/c"), "written").unwrap();
    // What seems unchanged is not read.
    assert_eq!(twice(&["tag"], folder.path()), ["current", "current", "updated"]);
    let moved = ["retag", "--from", "sha256", "--to", "plain:blake3"];
    assert_eq!(twice(&moved, folder.path()), ["rot", "retagged", "retagged"]);
    let back = ["retag", "--from", "plain:blake3", "--to", "xxh3-64"];
    assert_eq!(twice(&back, folder.path()), ["other-digest", "retagged", "retagged"]);
    for algorithm in ["sha256", "blake3"] {
        twice(&["untag", "-a", algorithm], folder.path());
    }
    assert_eq!(twice(&["untag"], folder.path()), ["untagged", "removed", "removed"]);
    assert_eq!(twice(&["untag"], folder.path()), ["untagged"; 3]);
    for family in ["shatag", "plain"] {
        assert_eq!(twice(&["tag", "--family", family], folder.path()), ["tagged"; 3]);
        assert_eq!(twice(&["untag", "--family", family], folder.path()), ["removed"; 3]);
    }
}

#[test]
fn a_damaged_tag() {
    let folder = tree();
    set_attribute(&folder.path().join("a"), "user.verisum", b"nonsense");
    assert_eq!(twice(&["untag", "-a", "sha256"], folder.path()), ["untagged"; 3]);
    assert_eq!(twice(&["untag"], folder.path()), ["removed", "untagged", "untagged"]);
}

#[test]
fn adoption() {
    let folder = tree();
    // printf 'one\n' | md5sum
    set_attribute(&folder.path().join("a"), "user.checksum.md5", b"5bbf5a52328e7439ae6e719dfe712200");
    set_attribute(&folder.path().join("b"), "user.checksum.md5", &[b'0'; 32]);
    assert_eq!(twice(&["adopt", "--verify"], folder.path()), ["adopted", "suspicious", "untagged"]);
    assert_eq!(twice(&["adopt"], folder.path()), ["current", "adopted", "untagged"]);
}

/// The files that a catalogue consists of, but for what SQLite makes for readers.
fn bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

#[test]
fn catalogues() {
    let (folder, place, temporary) = (tree(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let catalog = place.path().join("c.db");
    let list = place.path().join("list");
    let tree = folder.path().to_str().unwrap();
    fs::write(&list, verisum(["sum", "-r", "-a", "sha256", tree]).clean()).unwrap();
    let run = |verb: &[&str], rest: &[&str]| {
        let mut command = common::command(common::VERISUM);
        command.args(["catalog"]).args(verb).arg("--catalog").arg(&catalog).args(rest);
        Ended::of(command.env("TMPDIR", temporary.path()).output().unwrap())
    };
    let import = ["--tree", "/", list.to_str().unwrap()];
    let before = bytes(place.path());
    assert_eq!(run(&["import", "--dry-run"], &import).clean(), "3 would be recorded, 0 known already\n");
    assert_eq!(bytes(place.path()), before, "no catalogue is made");
    assert_eq!(run(&["import"], &import).clean(), "3 recorded, 0 known already\n");
    let before = bytes(place.path());
    assert_eq!(run(&["import", "--dry-run"], &import).clean(), "0 would be recorded, 3 known already\n");
    assert_eq!(bytes(place.path()), before);
    let roots = run(&["status", "--json"], &[]).clean();
    let root: serde_json::Value = serde_json::from_str(roots.lines().next().unwrap()).unwrap();
    let root = root["path"].as_str().unwrap();
    let (there, nowhere) = (tempfile::tempdir().unwrap(), place.path().join("nowhere"));
    let there = there.path().to_str().unwrap();
    let would = format!("3 records would be moved to {there}\n");
    assert_eq!(run(&["relocate", "-n"], &[root, there]).clean(), would);
    run(&["relocate", "-n"], &[root, nowhere.to_str().unwrap()]).failed(
        3,
        &format!(
            "verisum: {}: relocate: no directory is there (--unmounted takes its place as it will be)",
            nowhere.display()
        ),
    );
    assert_eq!(bytes(place.path()), before);
    let would = format!("3 records of {root} would be forgotten\n");
    assert_eq!(run(&["forget", "-n"], &[root]).clean(), would);
    assert_eq!(bytes(place.path()), before);
    run(&["forget", "--dry-run"], &["/nowhere"])
        .failed(3, "verisum: /nowhere: forget: it is no tree of the catalogue");
    let forgotten = format!("3 records of {root} forgotten; its files stay as they are\n");
    assert_eq!(run(&["forget"], &[root]).clean(), forgotten);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "the copy is gone");
}

#[test]
fn a_catalogue_for_tags_is_not_made() {
    let (folder, place) = (tree(), tempfile::tempdir().unwrap());
    let catalog = place.path().join("c.db");
    let before = seen(folder.path());
    let ended = run(&["tag", "--dry-run", "--catalog", catalog.to_str().unwrap()], folder.path());
    assert_eq!(ended.1, ["a: would be tagged", "b: would be tagged", "sub/c: would be tagged"]);
    assert_eq!((seen(folder.path()), fs::read_dir(place.path()).unwrap().count()), (before, 0));
}
