//! `verisum scrub` where a recorded file's path leads elsewhere by now: over a link, or to what is mounted
//! there. What is recorded is never compared with what is elsewhere, and never replaced by it.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::scrubbing::{Tree, check, expect, export, refused, scrub};
use common::{Ended, VERISUM};
use verisum_testkit::{require_root, require_tool};

/// Runs verisum where something is mounted: `prepare` gets the root as `$0`.
fn with_mount(tree: &Tree, prepare: &str, arguments: &[&str], path: &Path) -> Option<Ended> {
    require_root()?;
    let unshare = require_tool("unshare")?;
    let mut command = Command::new(unshare);
    command.args(["--mount", "/bin/sh", "-e", "-c", &format!("{prepare}\nexec \"$@\"")]);
    command.arg(tree.root()).arg(VERISUM).arg(arguments[0]).arg("--catalog").arg(tree.catalog());
    Some(Ended::of(command.args(&arguments[1..]).arg(path).output().unwrap()))
}

const OTHER: &str = "mount -t tmpfs none \"$0/below\"\necho another > \"$0/below/deep\"\n\
    touch -d 2001-01-01 \"$0/below/deep\"";

const ONE_FILE: &str = "mkdir \"$0/../other\"\nmount -t tmpfs none \"$0/../other\"\n\
    echo another > \"$0/../other/f\"\ntouch -d 2001-01-01 \"$0/../other/f\"\n\
    mount --bind \"$0/../other/f\" \"$0/f1\"";

#[test]
fn what_is_mounted_over_a_recorded_file_is_not_compared_with_it() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let recorded = export(&tree.catalog());
    let digest = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.contains(name)).unwrap();
        line.split("\"digest\":").nth(1).unwrap()[..66].to_string()
    };
    for (prepare, name) in [(OTHER, "below/deep"), (ONE_FILE, "f1")] {
        let Some(ended) = with_mount(&tree, prepare, &["scrub", "-v"], &tree.root()) else { return };
        expect(&ended, 0, &[]);
        assert!(format!("{}{}", ended.out(), ended.stderr).contains("mount point"), "{}", ended.out());
        assert_eq!(digest(&export(&tree.catalog()), name), digest(&recorded, name));
        let _ = fs::remove_dir(tree.root().join("../other"));
    }
    // The same directory mounted over itself is no other file system.
    let itself = "mount --bind \"$0/below\" \"$0/below\"";
    let ended = with_mount(&tree, itself, &["scrub", "--json"], &tree.root()).unwrap();
    assert!(ended.out().contains("\"ok\":11"), "{}", ended.out());
    // Where it is entered, it is what it is.
    let ended = with_mount(&tree, OTHER, &["scrub", "-v", "--cross-file-systems"], &tree.root()).unwrap();
    expect(&ended, 0, &[("modified", &tree.path("below/deep"))]);
    check(&tree.catalog());
}

#[test]
fn what_is_mounted_over_a_bad_file_is_not_accepted() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    fs::remove_file(tree.path("below/deep")).unwrap();
    tree.scrub(&[]).clean();
    let accept = |options: &[&str]| {
        let options = [&["accept"], options].concat();
        with_mount(&tree, OTHER, &options, &tree.root())
    };
    let Some(ended) = accept(&[]) else { return };
    refused(&ended, 3, "another file system is mounted there (--cross-file-systems enters it)");
    assert!(export(&tree.catalog()).contains("missing"));
    let ended = accept(&["--cross-file-systems"]).unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!export(&tree.catalog()).contains("missing"));
    check(&tree.catalog());
}

#[test]
fn a_link_in_the_place_of_a_directory_is_never_followed() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let (deep, below) = (tree.path("below/deep"), tree.path("below"));
    let elsewhere = tree.folder.path().join("elsewhere");
    fs::rename(&below, &elsewhere).unwrap();
    symlink("../elsewhere", &below).unwrap();
    expect(&tree.scrub(&["-v"]), 0, &[("missing", &deep)]);
    fs::write(elsewhere.join("deep"), "another content").unwrap();
    expect(&tree.scrub(&["-v"]), 0, &[]);
    assert!(export(&tree.catalog()).contains("missing"));
    let ended = tree.accept(&below);
    assert!(ended.out().contains("gone now: forgotten"), "{}{}", ended.out(), ended.stderr);
    // Below a part that is scrubbed alone.
    fs::create_dir_all(tree.path("part/inner")).unwrap();
    fs::write(tree.path("part/inner/file"), "some content").unwrap();
    tree.scrub(&[]).clean();
    fs::rename(tree.path("part/inner"), tree.path("part/was")).unwrap();
    symlink("was", tree.path("part/inner")).unwrap();
    let ended = scrub(&tree.catalog(), &tree.path("part"), &["-v"]);
    expect(&ended, 0, &[("moved", &tree.path("part/was/file"))]);
    check(&tree.catalog());
}
