//! Copies onto what is in the way, onto file systems that take less, and into each other.

mod copying;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use copying::{copy_to, options};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use verisum_mend::copy::{CopyError, LEFTOVER, copy};
use verisum_testkit::{FsKind, Mount, require_root, require_tool};

#[test]
fn nothing_outside_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["from", "from/sub", "from/empty", "to", "outside"] {
        fs::create_dir(path(name)).unwrap();
    }
    for name in ["from/file", "from/sub/file", "from/pipe", "from/folder", "outside/file", "outside/sub"] {
        fs::write(path(name), name).unwrap();
    }
    symlink("elsewhere", path("from/link")).unwrap();
    // A link where a file goes is replaced; one where a directory goes is not gone through.
    symlink(path("outside/file"), path("to/file")).unwrap();
    symlink(path("outside/file"), path("to/link")).unwrap();
    symlink(path("outside"), path("to/sub")).unwrap();
    fs::create_dir(path("to/folder")).unwrap();
    fs::write(path("to/empty"), "a file").unwrap();
    mknodat(CWD, path("to/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let told = copy_to(&path("from"), &path("to"), &options());
    let mut problems = told.problems.clone();
    problems.sort();
    let expected = [
        "empty: create: a file",
        "folder: create: a directory",
        "pipe: create: a device",
        "sub: create: a sym",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.contains(expected), "{problem}");
    }
    assert_eq!(fs::read_to_string(path("to/file")).unwrap(), "from/file");
    assert!(!path("to/file").is_symlink());
    assert_eq!(fs::read_link(path("to/link")).unwrap(), Path::new("elsewhere"));
    assert_eq!(fs::read_to_string(path("outside/file")).unwrap(), "outside/file");
    assert_eq!(fs::read_dir(path("outside")).unwrap().count(), 2);
    assert_eq!(fs::read_dir(path("to")).unwrap().count(), 6, "nothing is left behind");
}

#[test]
fn trees_in_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("a/b/c")).unwrap();
    fs::write(path("a/file"), "x").unwrap();
    fs::write(path("file"), "x").unwrap();
    symlink("a", path("link")).unwrap();
    let error = |from: &str, to: &str| copy(&path(from), &path(to), &options(), None, &|_| {}).unwrap_err();
    for (from, to) in [("a", "a"), ("a", "a/b"), ("a", "a/b/new"), ("a", "link/b/new"), ("a/b", "a")] {
        let error = error(from, to);
        assert!(matches!(error, CopyError::Overlap { .. }), "{error}");
    }
    assert!(!path("a/b/new").exists());
    assert!(error("none", "to").to_string().contains("No such file"));
    assert!(error("a", "none/to").to_string().contains("No such file"));
    assert!(matches!(error("a", "file"), CopyError::InTheWay { .. }));
    assert!(error("file", "none/").to_string().contains("Not a directory"));
    // A file goes into a directory, or takes a name.
    for (to, made) in [("a/b", "a/b/file"), ("new", "new")] {
        assert_eq!(copy_to(&path("file"), &path(to), &options()).summary.copied, 1);
        assert_eq!(fs::read_to_string(path(made)).unwrap(), "x");
    }
    // A file onto itself, by any of its names.
    fs::hard_link(path("file"), path("same")).unwrap();
    let told = copy_to(&path("file"), &path("same"), &options());
    assert_eq!((told.summary.current, told.summary.failed), (1, 0));
}

#[test]
fn immutable_and_read_only_targets_stay() {
    let Some(mount) = Mount::new(FsKind::Ext4, 0) else { return };
    let Some(chattr) = require_tool("chattr") else { return };
    let from = tempfile::tempdir().unwrap();
    let to = mount.path().join("to");
    for name in ["free", "fixed"] {
        fs::write(from.path().join(name), "new").unwrap();
    }
    fs::create_dir(&to).unwrap();
    fs::write(to.join("fixed"), "the old one").unwrap();
    assert!(Command::new(&chattr).arg("+i").arg(to.join("fixed")).status().unwrap().success());
    let told = copy_to(from.path(), &to, &options());
    assert_eq!((told.summary.copied, told.summary.failed), (1, 1), "{:?}", told.problems);
    assert!(told.problems[0].contains("fixed: rename: it is immutable ("), "{:?}", told.problems);
    assert_eq!(fs::read_to_string(to.join("fixed")).unwrap(), "the old one");
    assert_eq!(fs::read_dir(&to).unwrap().count(), 2, "nothing is left behind");
    assert!(Command::new(&chattr).arg("-i").arg(to.join("fixed")).status().unwrap().success());
    let remount = |how: &str| {
        let done = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(mount.path()).status();
        assert!(done.unwrap().success());
    };
    remount("ro");
    let told = copy_to(from.path(), &to, &options());
    assert!(told.problems[0].contains("Read-only file system"), "{:?}", told.problems);
    assert!(told.summary.stopped);
    remount("rw");
}

#[test]
fn exfat_has_no_pipes_and_gets_no_files_instead() {
    let Some(mount) = Mount::new(FsKind::Exfat, 0) else { return };
    let from = tempfile::tempdir().unwrap();
    fs::write(from.path().join("file"), "content").unwrap();
    mknodat(CWD, from.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let to = mount.path().join("to");
    let told = copy_to(from.path(), &to, &options());
    assert_eq!((told.summary.copied, told.summary.failed), (1, 1), "{:?}", told.problems);
    assert!(told.problems[0].contains("has no pipes, sockets and devices"), "{:?}", told.problems);
    let names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"], "nothing is left behind");
}

#[test]
fn fat_keeps_what_it_can() {
    let (Some(format), Some(())) = (require_tool("mkfs.vfat"), require_root()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (image, mounted) = (folder.path().join("image"), folder.path().join("mounted"));
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    fs::create_dir(&mounted).unwrap();
    let run = |command: &mut Command| command.output().unwrap().status.success();
    assert!(run(Command::new(format).arg(&image)));
    if !run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mounted)) {
        // Also where nothing may be skipped: it is the kernel that has no module for it.
        return;
    }
    let from = folder.path().join("from");
    fs::create_dir_all(from.join("sub")).unwrap();
    for number in 0..50_u8 {
        fs::write(from.join("sub").join(number.to_string()), vec![number; usize::from(number) * 999])
            .unwrap();
    }
    fs::hard_link(from.join("sub/7"), from.join("seven")).unwrap();
    symlink("seven", from.join("link")).unwrap();
    let to = mounted.join("to");
    fs::create_dir(&to).unwrap();
    fs::write(to.join(format!("{LEFTOVER}1-1")), "left").unwrap();
    let told = copy_to(&from, &to, &options());
    let again = copy_to(&from, &to, &options());
    let names = fs::read_dir(&to).unwrap().count();
    let bytes = fs::read(to.join("seven")).unwrap();
    assert!(run(Command::new("umount").arg(&mounted)));
    // A link cannot be made there; a further name is a file of its own.
    assert_eq!((told.summary.copied, told.summary.failed), (51, 1), "{:?}", told.problems);
    assert_eq!((again.summary.copied, again.summary.failed), (0, 1), "{:?}", again.problems);
    assert_eq!((names, bytes.len()), (2, 7 * 999), "what was left is removed");
}
