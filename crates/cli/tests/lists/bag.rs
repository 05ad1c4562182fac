//! `verisum bag create`: what it refuses, and runs that fail or are killed.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{VERISUM, command, start, verisum};
use rustix::process::{Pid, Signal, kill_process};
use verisum_testkit::{FsKind, Mount};

fn fill(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for name in ["one", "below/two", "data/bagit.txt", ".hidden"] {
        let (path, content) = (folder.join(name), name.repeat(9000).into_bytes());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &content).unwrap();
        files.insert(name.into(), content);
    }
    files
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(below).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                let content = fs::read(&path).unwrap_or_default();
                files.insert(path.strip_prefix(folder).unwrap().into(), content);
            }
        }
    }
    files
}

#[test]
fn what_a_bag_cannot_hold_is_refused_before_anything_is_moved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fill(path);
    let odd = path.join(std::ffi::OsStr::from_bytes(b"below/\xff"));
    let refused = |what: &str| {
        let before = files(path);
        let ended = verisum(["bag".as_ref(), "create".as_ref(), path.as_os_str()]);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
        assert!(ended.stderr.contains(what), "{}", ended.stderr);
        assert_eq!(files(path), before);
    };
    std::os::unix::fs::symlink("one", path.join("link")).unwrap();
    refused("link: a bag cannot hold a symbolic link");
    fs::remove_file(path.join("link")).unwrap();
    fs::write(&odd, "").unwrap();
    refused("a bag cannot hold a name that is no UTF-8");
    fs::remove_file(&odd).unwrap();
    let run = |arguments: &[&str]| {
        let mut line = vec!["bag", "create"];
        line.extend(arguments);
        line.push(path.to_str().unwrap());
        verisum(line)
    };
    for arguments in [&["-a", "blake3"][..], &["--info", "no colon"], &["--info", "A: b\nC: d"]] {
        assert_eq!(run(arguments).code, Some(2));
    }
    run(&[]).clean();
    refused("is a bag already");
    assert_eq!(run(&[]).code, Some(3));
}

#[test]
fn a_full_disk_leaves_the_directory_as_it_was() {
    if verisum_testkit::require_root().is_none() {
        return;
    }
    let Some(mount) = Mount::new(FsKind::Ext4, 16 << 20) else { return };
    let tree = mount.path().join("tree");
    for number in 0..2000 {
        let below = tree.join(format!("a rather long name of a folder {number}"));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("x".repeat(200)), "").unwrap();
    }
    // Nothing is left but the blocks that directories have already.
    fs::write(mount.path().join("filler"), vec![1; 64 << 20]).unwrap_err();
    let before = files(&tree);
    let ended = verisum(["bag".as_ref(), "create".as_ref(), tree.as_os_str()]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert_eq!(files(&tree), before);
    fs::remove_file(mount.path().join("filler")).unwrap();
    verisum(["bag".as_ref(), "create".as_ref(), tree.as_os_str()]).clean();
}

#[test]
fn a_run_that_was_killed_is_gone_on_with() {
    let rounds = 20;
    for round in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut wanted = fill(path);
        for number in 0..200 {
            let name = format!("more/{number}");
            fs::create_dir_all(path.join("more")).unwrap();
            fs::write(path.join(&name), &name).unwrap();
            wanted.insert(name.clone().into(), name.into_bytes());
        }
        let child = start(command(VERISUM).args(["bag", "create"]).arg(path));
        std::thread::sleep(Duration::from_micros(1000 + round * 1500));
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        child.wait_with_output().unwrap();
        if !path.join("bagit.txt").exists() {
            verisum(["bag".as_ref(), "create".as_ref(), path.as_os_str()]).clean();
        }
        assert_eq!(files(&path.join("data")), wanted);
        let ended = verisum(["check".as_ref(), "--quiet".as_ref(), path.as_os_str()]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        assert!(!path.join(".verisum-bag").exists() || path.join("bagit.txt").exists());
    }
}

/// It takes far longer to hash than a test may wait.
const LENGTH: u64 = 1 << 40;

#[test]
fn a_signal_ends_it_within_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    fs::create_dir(&bag).unwrap();
    fs::File::create(bag.join("long")).unwrap().set_len(LENGTH).unwrap();
    let mut child = start(command(VERISUM).args(["bag", "create"]).arg(&bag));
    while !bag.join(".verisum-bag/manifest-sha512.txt").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it hashed");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    let names: Vec<_> = fs::read_dir(&bag).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["long"]);
}
