//! `verisum scrub` where a recorded file's path leads elsewhere by now: over a link, or to what is mounted
//! there. What is recorded is never compared with what is elsewhere, and never replaced by it.

use crate::common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::scrubbing::{Tree, check, expect, export, refused, s, scrub};
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

const BOUND: &str = "mkdir \"$0/../bound\"\necho another > \"$0/../bound/deep\"\n\
    mount --bind \"$0/../bound\" \"$0/below\"";

const BOUND_FILE: &str =
    "mkdir \"$0/../bound\"\necho another > \"$0/../bound/f\"\nmount --bind \"$0/../bound/f\" \"$0/f1\"";

#[test]
fn what_is_mounted_from_the_same_file_system_is_not_compared_either() {
    for prepare in [BOUND, BOUND_FILE] {
        let tree = Tree::new();
        tree.scrub(&[]).clean();
        let before: Vec<String> = digests(&tree);
        for _ in 0..2 {
            let Some(ended) = with_mount(&tree, prepare, &["scrub", "-v"], &tree.root()) else { return };
            expect(&ended, 0, &[]);
            assert!(
                format!("{}{}", ended.out(), ended.stderr).contains("mount points not entered 1"),
                "{}",
                ended.out()
            );
            assert_eq!(digests(&tree), before);
            fs::remove_dir_all(tree.root().join("../bound")).unwrap();
        }
        let ended = with_mount(&tree, prepare, &["scrub", "-v", "--cross-file-systems"], &tree.root());
        let name = if prepare == BOUND { "below/deep" } else { "f1" };
        expect(&ended.unwrap(), 0, &[("modified", &tree.path(name))]);
        check(&tree.catalog());
    }
}

#[test]
fn what_is_mounted_over_a_part_that_is_scrubbed_alone_is_not_compared_with_it() {
    let tree = Tree::new();
    fs::create_dir(tree.path("empty")).unwrap();
    tree.scrub(&[]).clean();
    let before = export(&tree.catalog());
    let below = tree.path("below");
    for prepare in [OTHER, BOUND] {
        let Some(ended) = with_mount(&tree, prepare, &["scrub", "-v"], &below) else { return };
        refused(&ended, 3, "something is mounted there, or above, that is not what was recorded");
        let prepare = format!("{prepare}\nmkdir \"$0/below/inner\"");
        let _ = fs::remove_dir_all(tree.root().join("../bound"));
        let ended = with_mount(&tree, &prepare, &["scrub", "-v"], &below.join("inner")).unwrap();
        refused(&ended, 3, "something is mounted there, or above, that is not what was recorded");
        let _ = fs::remove_dir_all(tree.root().join("../bound"));
    }
    assert_eq!(export(&tree.catalog()), before);
    // The same directory mounted over itself is what was recorded.
    let itself = "mount --bind \"$0/below\" \"$0/below\"";
    expect(&with_mount(&tree, itself, &["scrub", "-v"], &below).unwrap(), 0, &[]);
    let ended = with_mount(&tree, OTHER, &["scrub", "-v", "--cross-file-systems"], &below).unwrap();
    expect(&ended, 0, &[("modified", &tree.path("below/deep"))]);
    check(&tree.catalog());
}

#[test]
fn what_was_recorded_of_a_file_system_is_not_missing_while_that_is_not_mounted() {
    let tree = Tree::new();
    fs::create_dir_all(tree.path("far/mount")).unwrap();
    let mount = "mount -t tmpfs none \"$0/far/mount\"\nmkdir \"$0/far/mount/in\"\n\
        echo content > \"$0/far/mount/in/file\"";
    let both = ["scrub", "-v", "--cross-file-systems"];
    let Some(ended) = with_mount(&tree, mount, &both, &tree.root()) else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let recorded = || {
        let text = export(&tree.catalog());
        text.lines().find(|line| line.contains("in/file")).unwrap().to_string()
    };
    let before = recorded();
    let (at, inner) = (tree.path("far/mount"), tree.path("far/mount/in"));
    for options in [&[][..], &["--cross-file-systems"]] {
        refused(&scrub(&tree.catalog(), &at, options), 3, "is it mounted?");
        fs::create_dir(&inner).unwrap();
        refused(&scrub(&tree.catalog(), &inner, options), 3, "is it mounted?");
        fs::remove_dir(&inner).unwrap();
        // What is beside it is scrubbed all the same.
        expect(&scrub(&tree.catalog(), &tree.path("below"), options), 0, &[]);
    }
    refused(&tree.accept(&at), 3, "is it mounted?");
    assert_eq!(recorded(), before);
    let mount = "mount -t tmpfs none \"$0/far/mount\"";
    let ended = with_mount(&tree, mount, &["scrub", "-v", "--cross-file-systems"], &at).unwrap();
    expect(&ended, 0, &[("missing", &inner.join("file"))]);
    // The whole tree does not make it gone for good either.
    let accepted = tree.accept(&tree.root());
    refused(&accepted, 3, "is it mounted?");
    assert!(recorded().contains("missing"));
    // Somebody says that it is no mount point any more.
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("file"), "content\n").unwrap();
    let ended = scrub(&tree.catalog(), &at, &["-v", "--replaced-root"]);
    expect(&ended, 0, &[("touched", &inner.join("file"))]);
    expect(&tree.scrub(&["-v"]), 0, &[]);
    check(&tree.catalog());
}

#[test]
fn what_was_recorded_of_a_file_system_is_not_missing_without_its_mount_point() {
    let tree = Tree::new();
    fs::create_dir_all(tree.path("far/mount")).unwrap();
    // The mount point was recorded before anything was mounted there.
    tree.scrub(&[]).clean();
    let mount = "mount -t tmpfs none \"$0/far/mount\"\nmkdir \"$0/far/mount/in\"\n\
        echo content > \"$0/far/mount/in/file\"";
    let both = ["scrub", "-v", "--cross-file-systems"];
    let Some(ended) = with_mount(&tree, mount, &both, &tree.root()) else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let (at, file) = (tree.path("far/mount"), tree.path("far/mount/in/file"));
    let recorded = || {
        let text = export(&tree.catalog());
        text.lines().find(|line| line.contains("in/file")).unwrap().to_string()
    };
    let before = recorded();
    for gone in ["far/mount", "far"] {
        fs::remove_dir(tree.path(gone)).unwrap();
        for options in [&["-v"][..], &["-v", "--cross-file-systems"]] {
            let ended = tree.scrub(options);
            expect(&ended, 3, &[("unverifiable", &at)]);
            assert!(ended.out().contains("the file system that was recorded here is not mounted"));
            assert_eq!(recorded(), before);
        }
    }
    // Such a run has not seen everything, and the list of runs says so.
    let status = ["catalog", "status", "--json", "--catalog"].map(s).into_iter().chain([tree.catalog()]);
    let status: serde_json::Value = serde_json::from_str(&common::verisum(status).clean()).unwrap();
    let how = |run: usize| status["runs"][run]["outcome"].as_str().unwrap();
    assert_eq!((how(0), how(4)), ("incomplete", "complete"));
    // Left out on purpose, it is not looked for.
    expect(&tree.scrub(&["-v", "--exclude", "mount/"]), 0, &[]);
    // Somebody says that it is no mount point any more.
    fs::create_dir_all(&at).unwrap();
    expect(&scrub(&tree.catalog(), &at, &["-v", "--replaced-root"]), 0, &[("missing", &file)]);
    fs::remove_dir_all(tree.path("far")).unwrap();
    expect(&tree.scrub(&["-v"]), 0, &[]);
    check(&tree.catalog());
}

#[test]
fn what_is_mounted_where_nothing_is_recorded_is_a_tree_of_its_own() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    fs::create_dir(tree.path("extra")).unwrap();
    let mount = "mount -t tmpfs none \"$0/extra\"\necho content > \"$0/extra/file\"";
    for _ in 0..2 {
        let arguments = ["scrub", "-v", "--replaced-root"];
        let Some(ended) = with_mount(&tree, mount, &arguments, &tree.path("extra")) else { return };
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        // It belongs to nobody else, and is known to be away.
        refused(&tree.scrub(&["-v"]), 3, "extra: its file system or inode is not the recorded one");
    }
    let roots = export(&tree.catalog()).lines().filter(|line| line.contains("\"type\":\"root\"")).count();
    assert_eq!(roots, 2);
    check(&tree.catalog());
}

/// What is recorded of each file, without the times of its verification.
fn digests(tree: &Tree) -> Vec<String> {
    let digest = |line: &str| Some(line.split("\"digest\":").nth(1)?[..66].to_string());
    export(&tree.catalog()).lines().filter_map(digest).collect()
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

#[test]
fn what_is_not_there_is_told_with_what_to_do() {
    let tree = Tree::new();
    let nothing = s("none.db");
    for verb in [&["scrub", "--catalog"][..], &["catalog", "status", "--catalog"]] {
        let mut command = Command::new(VERISUM);
        let ended = Ended::of(command.args(verb).arg(tree.folder.path().join(&nothing)).output().unwrap());
        assert_eq!(ended.code, Some(3));
        let message = "none.db: open: there is no catalogue yet (`verisum scrub DIR` makes it";
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
    let out = tree.scrub(&["--one-file-system"]).clean();
    assert!(out.contains(": 11 files, "), "{out}");
    fs::remove_file(tree.path("f1")).unwrap();
    for _ in 0..2 {
        let out = tree.scrub(&["-x"]).clean();
        assert!(out.contains(": 11 files, 1 of them missing, "), "{out}");
    }
    fs::rename(tree.root(), tree.folder.path().join("elsewhere")).unwrap();
    let ended = common::verisum([Path::new("scrub"), Path::new("--catalog"), &tree.catalog()]);
    assert_eq!(ended.code, Some(3));
    for what in [": it is not there: is it mounted? (`verisum catalog relocate`", "`verisum catalog forget`"]
    {
        assert!(ended.stderr.contains(what), "{}", ended.stderr);
    }
}

/// An empty mount point was taken for the tree, and what belongs there is mounted again.
#[test]
fn a_tree_of_which_all_was_missing_is_known_again() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let (root, away) = (tree.root(), tree.folder.path().join("away"));
    fs::rename(&root, &away).unwrap();
    fs::create_dir(&root).unwrap();
    assert_eq!(tree.scrub(&[]).code, Some(3));
    assert_eq!(tree.scrub(&["--quiet", "--replaced-root"]).code, Some(0));
    // Another empty one is not it.
    fs::rename(&root, tree.folder.path().join("empty")).unwrap();
    fs::create_dir(&root).unwrap();
    assert_eq!(tree.scrub(&[]).code, Some(3));
    fs::remove_dir(&root).unwrap();
    fs::rename(&away, &root).unwrap();
    let back = tree.scrub(&[]);
    assert_eq!((back.code, back.stderr.as_str()), (Some(0), ""), "{}", back.out());
    assert!(!back.out().contains("missing"), "{}", back.out());
}
