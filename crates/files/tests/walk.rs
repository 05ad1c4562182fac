//! The walk finds what `find` finds, however deep, long or odd the names, and cannot be led astray.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags};
use verisum_files::{Entry, Excludes, FileError, Kind, Order, Walk, WalkOptions};
use verisum_testkit::{FsKind, Mount, require_tool};

const ORDERS: [Order; 4] = [Order::Directory, Order::Name, Order::Inode, Order::Extent];

/// Names that trouble those who print, split or decode them.
const ODD_NAMES: [&[u8]; 12] = [
    b"plain",
    b"two words",
    b" ",
    b"a\nb",
    b"-rf",
    b"--help",
    b"quote'\"`",
    b"back\\slash",
    b"\xff\xfe",
    b"...",
    b"tab\t\r",
    b"*?[",
];

#[test]
fn every_name_is_found_in_every_order() {
    let folder = odd_tree();
    let Some(expected) = find(folder.path()) else { return };
    for order in ORDERS {
        let paths = clean(folder.path(), {
            let mut options = WalkOptions::default();
            options.order = order;
            options
        });
        assert_eq!(paths.len(), expected.len());
        assert_eq!(paths.iter().cloned().collect::<BTreeSet<_>>(), expected);
        // A directory comes before what is in it.
        for (place, path) in paths.iter().enumerate() {
            assert!(paths[place..].iter().all(|later| !path.starts_with(later) || path == later));
        }
    }
}

#[test]
fn order_by_name_is_that_of_sorted_paths() {
    let folder = odd_tree();
    let options = by_name();
    let files: Vec<OsString> = Walk::new(vec![folder.path().into()], options)
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.kind() == Kind::File)
        .map(|entry| entry.path().into_os_string())
        .collect();
    let mut sorted = files.clone();
    sorted.sort();
    assert_eq!(files, sorted);
}

#[test]
fn links_are_followed_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("real/inner")).unwrap();
    fs::write(root.join("real/inner/file"), "x").unwrap();
    symlink("real", root.join("link")).unwrap();
    symlink("../..", root.join("real/inner/up")).unwrap();
    assert_eq!(clean(root, WalkOptions::default()).len(), 6);
    let (paths, errors) = walk(root, {
        let mut options = by_name();
        options.follow_links = true;
        options
    });
    assert!(paths.contains(&root.join("link/inner/file")), "{paths:?}");
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors.iter().all(|error| matches!(error, FileError::Loop { path } if path.ends_with("inner/up")))
    );
    // A root that is a link is what it leads to.
    let paths = clean(&root.join("link"), WalkOptions::default());
    assert!(paths.contains(&root.join("link/inner/file")));
    fs::remove_file(root.join("real/inner/up")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    let (_, errors) = walk(root, {
        let mut options = WalkOptions::default();
        options.follow_links = true;
        options
    });
    assert!(matches!(&errors[..], [FileError::Io { path, .. }] if path.ends_with("dangling")), "{errors:?}");
}

#[test]
fn depth_and_length_have_no_limit() {
    const DEPTH: usize = 5000;
    let folder = tempfile::tempdir().unwrap();
    let name = "d".repeat(200);
    let mut directory = rustix::fs::openat(CWD, folder.path(), OFlags::PATH, Mode::empty()).unwrap();
    for level in 0..DEPTH {
        rustix::fs::mkdirat(&directory, &name, Mode::RWXU).unwrap();
        if level % 16 == 0 {
            // Something that comes after the way back, in any order.
            let other = format!("{}{level}", if level % 32 == 0 { "a" } else { "z" });
            rustix::fs::mkdirat(&directory, other, Mode::RWXU).unwrap();
        }
        directory = rustix::fs::openat(&directory, &name, OFlags::PATH, Mode::empty()).unwrap();
    }
    for order in [Order::Directory, Order::Name] {
        let (mut count, mut most) = (0, 0);
        let mut options = WalkOptions::default();
        options.order = order;
        for entry in Walk::new(vec![folder.path().into()], options) {
            let entry = entry.unwrap();
            count += 1;
            if count % 1000 == 0 {
                most = most.max(fs::read_dir("/proc/self/fd").unwrap().count());
                entry.stat().unwrap();
            }
        }
        assert_eq!(count, DEPTH + DEPTH.div_ceil(16) + 1);
        assert!(most < 200, "{most} descriptors");
    }
    // A path of a million bytes, given by somebody.
    let mut path = folder.path().to_path_buf();
    path.extend(std::iter::repeat_n(&name, DEPTH));
    let entry = Entry::named(&path).unwrap();
    assert_eq!((entry.kind(), entry.path()), (Kind::Directory, path));
    // The standard library would keep a descriptor open for each level.
    if let Some(rm) = require_tool("rm") {
        assert!(Command::new(rm).arg("-rf").arg(folder.path()).status().unwrap().success());
    }
}

#[test]
fn what_is_excluded_is_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for path in ["a/keep.o", "a/x.o", "cache/b/c", "deep/cache/d", "top", "deep/top"] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), path).unwrap();
    }
    let excludes = Excludes::new(["*.o", "!keep.o", "cache/", "/top"]).unwrap();
    let paths = clean(root, {
        let mut options = by_name();
        options.excludes = Some(Arc::new(excludes));
        options
    });
    let paths: Vec<&Path> = paths.iter().map(|path| path.strip_prefix(root).unwrap()).collect();
    assert_eq!(paths, ["", "a", "a/keep.o", "deep", "deep/top"].map(Path::new));
}

#[test]
fn what_vanishes_is_an_error_and_the_rest_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["a", "b", "c"] {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("file"), name).unwrap();
    }
    let (mut files, mut errors) = (0, Vec::new());
    for found in Walk::new(vec![root.into(), root.join("missing")], by_name()) {
        match found {
            Ok(entry) if entry.path().ends_with("a") => fs::remove_dir_all(root.join("b")).unwrap(),
            Ok(entry) => files += usize::from(entry.kind() == Kind::File),
            Err(error) => errors.push(error.to_string()),
        }
    }
    assert_eq!(files, 2);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("/b: open: No such file"), "{errors:?}");
    assert!(errors[1].contains("/missing: stat: No such file"), "{errors:?}");
}

#[test]
fn a_link_in_place_of_a_directory_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("a")).unwrap();
    fs::create_dir_all(root.join("b")).unwrap();
    fs::create_dir(folder.path().join("elsewhere")).unwrap();
    fs::write(folder.path().join("elsewhere/secret"), "x").unwrap();
    let mut errors = Vec::new();
    for found in Walk::new(vec![root.clone()], by_name()) {
        match found {
            Ok(entry) if entry.path().ends_with("a") => {
                fs::remove_dir(root.join("b")).unwrap();
                symlink("../elsewhere", root.join("b")).unwrap();
            }
            Ok(entry) => assert!(!entry.path().ends_with("secret")),
            Err(error) => errors.push(error),
        }
    }
    assert_eq!(errors.len(), 1, "{errors:?}");
}

#[test]
fn other_file_systems_are_left_out_when_asked() {
    let Some(mount) = Mount::new(FsKind::Tmpfs, 1 << 20) else { return };
    let inside = mount.path();
    let root = inside.parent().unwrap();
    fs::write(inside.join("file"), "x").unwrap();
    assert!(clean(root, WalkOptions::default()).contains(&inside.join("file")));
    let one = || {
        let mut options = WalkOptions::default();
        options.one_file_system = true;
        options
    };
    let paths = clean(root, one());
    assert!(!paths.contains(&inside.join("file")) && paths.contains(&inside));
    // A root is entered wherever it is.
    assert!(clean(&inside, one()).contains(&inside.join("file")));
}

#[test]
fn paths_begin_as_they_were_given() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    let slash = PathBuf::from(format!("{}/", folder.path().display()));
    let paths = clean(&slash, WalkOptions::default());
    assert_eq!(paths.last().unwrap().as_os_str(), folder.path().join("file").as_os_str());
    let file = folder.path().join("file");
    assert_eq!(clean(&file, WalkOptions::default()), [file]);
}

fn by_name() -> WalkOptions {
    let mut options = WalkOptions::default();
    options.order = Order::Name;
    options
}

fn walk(root: &Path, options: WalkOptions) -> (Vec<PathBuf>, Vec<FileError>) {
    let (mut paths, mut errors) = (Vec::new(), Vec::new());
    for found in Walk::new(vec![root.into()], options) {
        match found {
            Ok(entry) => paths.push(entry.path()),
            Err(error) => errors.push(error),
        }
    }
    (paths, errors)
}

fn clean(root: &Path, options: WalkOptions) -> Vec<PathBuf> {
    let (paths, errors) = walk(root, options);
    assert!(errors.is_empty(), "{errors:?}");
    paths
}

/// What `find` prints.
fn find(root: &Path) -> Option<BTreeSet<PathBuf>> {
    let output = Command::new(require_tool("find")?).arg(root).arg("-print0").output().unwrap();
    let paths = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Some(paths.map(|path| OsString::from_vec(path.to_vec()).into()).collect())
}

fn odd_tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for outer in ODD_NAMES {
        let directory = folder.path().join(OsStr::from_bytes(outer));
        fs::create_dir(&directory).unwrap();
        for name in ODD_NAMES {
            fs::write(directory.join(OsStr::from_bytes(name)), name).unwrap();
        }
        // Of whole paths, one is sorted before what is in the directory, and one after.
        for suffix in [".txt", "0"] {
            let name = [outer, suffix.as_bytes()].concat();
            fs::write(folder.path().join(OsStr::from_bytes(&name)), "").unwrap();
        }
    }
    symlink("plain", folder.path().join("link")).unwrap();
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    folder
}
