//! `copy` and `repair` on storage that fails to read or write: no file gets worse, and the error is named.

use crate::common;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use common::scrubbing::s;
use common::{Ended, flip, verisum};
use verisum_testkit::fault::SwitchedFile;
use verisum_testkit::{FsKind, Mount};

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

fn run(words: &[&str], paths: &[&Path]) -> Ended {
    let words = words.iter().map(|word| s(word));
    verisum(words.chain(paths.iter().map(|path| path.to_path_buf())))
}

/// Files beside the ones that were there.
fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
    names.sort();
    names
}

#[test]
fn a_source_that_cannot_be_read_gives_nothing() {
    let good = bytes(1, 3 << 20);
    let Some(storage) = SwitchedFile::new(&good) else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::write(root.join("copy"), "the older copy").unwrap();
    storage.fail(true);
    let copied = run(&["copy"], &[&storage.path(), &root.join("copy")]);
    assert_eq!((copied.code, copied.out()), (Some(3), ""), "{}", copied.stderr);
    assert!(copied.stderr.contains("Input/output error"), "{}", copied.stderr);
    assert_eq!(fs::read_to_string(root.join("copy")).unwrap(), "the older copy");
    assert_eq!(names(&root), [Path::new("copy")]);

    // The same of a repair, which goes on to the next source.
    storage.fail(false);
    let tree = root.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), &good).unwrap();
    let catalog = root.join("c.db");
    let with = |words: &[&str], path: &Path| {
        run(&[words, &["--catalog", catalog.to_str().unwrap()]].concat(), &[path])
    };
    with(&["scrub"], &tree).clean();
    let bad = bytes(2, 3 << 20);
    rot(&tree.join("file"), &bad);
    with(&["scrub"], &tree);
    storage.fail(true);
    let (from, keep) = (storage.path(), root.join("bad"));
    let options = ["repair", "--keep-bad", keep.to_str().unwrap(), "--from", from.to_str().unwrap()];
    let left = with(&options, &tree.join("file"));
    assert_eq!(left.code, Some(1), "{}", left.out());
    assert!(left.out().contains("no-source") && left.out().contains("Input/output error"), "{}", left.out());
    assert!(fs::read(tree.join("file")).unwrap() == bad && names(&tree) == [Path::new("file")]);
    fs::write(root.join("second"), &good).unwrap();
    let second = root.join("second");
    let repaired = with(&[&options[..], &["--from", second.to_str().unwrap()]].concat(), &tree.join("file"));
    assert_eq!(repaired.code, Some(0), "{}", repaired.out());
    assert!(fs::read(tree.join("file")).unwrap() == good);
}

/// Writes other bytes, and leaves the time of modification alone.
fn rot(path: &Path, bytes: &[u8]) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, bytes).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Files that are there when the disk begins to fail.
const OLD: &str = "what was there before";

#[test]
fn a_target_that_cannot_be_written_keeps_what_it_has() {
    let Some(storage) = SwitchedFile::disk(64 << 20) else { return };
    let Some(mut mount) = Mount::on(FsKind::Ext4, &storage.path(), &["-O", "^has_journal"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().canonicalize().unwrap().join("from");
    fs::create_dir(&from).unwrap();
    let to = mount.path().canonicalize().unwrap().join("to");
    fs::create_dir(&to).unwrap();
    for number in 0..20 {
        fs::write(from.join(number.to_string()), bytes(number, 300_000)).unwrap();
        fs::write(to.join(number.to_string()), OLD).unwrap();
    }
    sync(&to);
    storage.fail(true);
    let copied = run(&["copy"], &[&from, &to]);
    assert_eq!(copied.code, Some(3), "{}{}", copied.out(), copied.stderr);
    assert!(copied.stderr.contains("Input/output error"), "{}", copied.stderr);
    storage.fail(false);
    // What the disk has, and not what is in memory.
    mount.edit_image(|_| {});
    for number in 0..20 {
        let found = fs::read(to.join(number.to_string())).unwrap();
        assert!(
            found == OLD.as_bytes() || found == bytes(number, 300_000),
            "{number}: {} bytes",
            found.len()
        );
    }
    let copied = run(&["copy"], &[&from, &to]);
    assert_eq!(copied.code, Some(0), "{}{}", copied.out(), copied.stderr);
    for number in 0..20 {
        assert!(fs::read(to.join(number.to_string())).unwrap() == bytes(number, 300_000));
    }

    // A repair, of which nothing takes the place of the bad file.
    let catalog = folder.path().join("c.db");
    let with = |words: &[&str]| run(&[words, &["--catalog", catalog.to_str().unwrap()]].concat(), &[&to]);
    with(&["scrub"]).clean();
    rot(&to.join("7"), &bytes(99, 300_000));
    with(&["scrub"]);
    let inode = fs::metadata(to.join("7")).unwrap().ino();
    sync(&to);
    storage.fail(true);
    let keep = mount.path().join("bad");
    let options = ["repair", "--keep-bad", keep.to_str().unwrap(), "--from", from.to_str().unwrap()];
    let left = with(&options);
    assert!(matches!(left.code, Some(1 | 3)), "{}{}", left.out(), left.stderr);
    storage.fail(false);
    mount.edit_image(|_| {});
    let found = fs::read(to.join("7")).unwrap();
    assert!(found == bytes(99, 300_000) && fs::metadata(to.join("7")).unwrap().ino() == inode);
    let repaired = with(&options);
    assert_eq!(repaired.code, Some(0), "{}{}", repaired.out(), repaired.stderr);
    assert!(fs::read(to.join("7")).unwrap() == bytes(7, 300_000));
}

/// Brings all of a file system to its disk.
fn sync(folder: &Path) {
    assert!(std::process::Command::new("sync").arg("-f").arg(folder).status().unwrap().success());
}

/// Real rot on disks of several kinds, of which one has checksums of its own and one knows no owners, links or holes.
#[test]
fn parity_and_copies_mend_on_other_file_systems() {
    let marker = b"verisum: these bytes are going to rot";
    for kind in [FsKind::Xfs, FsKind::Btrfs, FsKind::Vfat] {
        let Some(mut mount) = Mount::new(kind, 0) else { continue };
        let folder = tempfile::tempdir().unwrap();
        let (tree, copy) = (mount.path().canonicalize().unwrap().join("tree"), folder.path().join("copy"));
        for root in [&tree, &copy] {
            fs::create_dir(root).unwrap();
            let mut good = bytes(5, 400_000);
            good[4096..4096 + marker.len()].copy_from_slice(marker);
            fs::write(root.join("file"), good).unwrap();
            fs::write(root.join("other"), bytes(6, 50_000)).unwrap();
        }
        let is_good = |name: &str| fs::read(tree.join(name)).ok() == fs::read(copy.join(name)).ok();
        let catalog = folder.path().join("c.db");
        let with =
            |words: &[&str]| run(&[words, &["--catalog", catalog.to_str().unwrap()]].concat(), &[&tree]);
        with(&["scrub"]).clean();
        run(&["parity", "create", "--redundancy", "30%"], &[&tree]).clean();
        mount.edit_image(|image| flip(image, marker));
        assert!(!is_good("file"), "{kind:?}");
        assert_eq!(run(&["parity", "verify"], &[&tree]).code, Some(1), "{kind:?}");
        let repaired = with(&["parity", "repair"]);
        assert_eq!(repaired.code, Some(0), "{kind:?} {}{}", repaired.out(), repaired.stderr);
        assert!(is_good("file") && is_good("other"), "{kind:?}");
        assert_eq!(run(&["parity", "verify"], &[&tree]).code, Some(0), "{kind:?}");
        sync(&tree);
        mount.edit_image(|image| flip(image, marker));
        fs::remove_file(tree.join("other")).unwrap();
        assert_ne!(with(&["scrub"]).code, Some(0), "{kind:?}");
        // Once from the copy, once from parity.
        let repaired = with(&["repair", "--except-missing", "--from", copy.to_str().unwrap()]);
        assert_eq!(repaired.code, Some(0), "{kind:?} {}{}", repaired.out(), repaired.stderr);
        let repaired = with(&["repair"]);
        assert_eq!(repaired.code, Some(0), "{kind:?} {}{}", repaired.out(), repaired.stderr);
        assert!(is_good("file") && is_good("other"), "{kind:?}");
        assert_eq!(names(&tree), [".verisum-parity", "file", "other"].map(PathBuf::from), "{kind:?}");
        let scrubbed = with(&["scrub"]);
        assert_eq!(scrubbed.code, Some(0), "{kind:?} {}{}", scrubbed.out(), scrubbed.stderr);
    }
}
