//! `verisum repair --keep-bad`: what is kept is whole, has what the bad file had, and says which file it was.

use crate::common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

use common::{Ended, VERISUM, command, flip};
use verisum::digest::Digest;
use verisum_testkit::{FsKind, Mount};

/// Bytes of a file that is long enough to be written in place.
const LENGTH: usize = 3 << 20;

/// A recorded tree, and a copy of it.
struct Trees {
    folder: tempfile::TempDir,
}

fn good() -> Vec<u8> {
    let mut bytes = vec![0; LENGTH];
    fastrand::Rng::with_seed(44).fill(&mut bytes);
    bytes
}

impl Trees {
    fn new() -> Trees {
        let trees = Trees { folder: tempfile::tempdir().unwrap() };
        for name in ["tree/in", "copy/in"] {
            fs::create_dir_all(trees.path(name)).unwrap();
            fs::write(trees.path(name).join("long"), good()).unwrap();
        }
        fs::set_permissions(trees.long(), fs::Permissions::from_mode(0o640)).unwrap();
        trees.run(&["image", "map", "--exact", "--output", "tree/in/long.map", "tree/in/long"]).clean();
        trees.run(&["scrub", "tree", "copy"]).clean();
        trees
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn long(&self) -> PathBuf {
        self.path("tree/in/long")
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        command.args(words).current_dir(self.folder.path()).env("XDG_STATE_HOME", self.path("state"));
        Ended::of(command.output().unwrap())
    }

    /// Damages the file as a disk does, and has it found.
    fn rot(&self) {
        let modified = fs::metadata(self.long()).unwrap().modified().unwrap();
        let file = File::options().write(true).open(self.long()).unwrap();
        file.write_all_at(b"rotten", 100_000).unwrap();
        file.set_modified(modified).unwrap();
        drop(file);
        assert_eq!(self.run(&["scrub", "tree"]).code, Some(1));
    }
}

/// Files below a directory.
fn files_below(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(files_below(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

#[test]
fn a_kept_file_has_what_the_bad_one_had_and_its_path_in_the_tree() {
    let trees = Trees::new();
    let Some(mount) = Mount::new(FsKind::Ext4, 0) else { return };
    let elsewhere = mount.path().join("bad").display().to_string();
    let ways = [("bad", &["--in-place"][..]), ("bad", &[]), (&elsewhere, &["--in-place"]), (&elsewhere, &[])];
    for (keep, options) in ways {
        trees.rot();
        let (before, bad) = (fs::metadata(trees.long()).unwrap(), fs::read(trees.long()).unwrap());
        let words = [&["repair", "--keep-bad", keep, "--from", "copy"], options, &["tree/in/long"]].concat();
        trees.run(&words).clean();
        assert!(fs::read(trees.long()).unwrap() == good(), "{words:?}");
        let kept = trees.path(keep).join("in/long");
        assert!(fs::read(&kept).unwrap() == bad, "{words:?}");
        let told = |file: &fs::Metadata| (file.mode() & 0o700, file.uid(), file.mtime(), file.mtime_nsec());
        let now = fs::metadata(&kept).unwrap();
        assert_eq!(told(&now), told(&before), "{words:?}");
        // Its directory may be open to more than that of the file was.
        assert_eq!(now.mode() & 0o077, 0, "{words:?}");
        fs::remove_dir_all(trees.path(keep)).unwrap();
    }
}

#[test]
fn no_part_of_a_file_is_kept_where_there_is_no_room_for_it() {
    let trees = Trees::new();
    let Some(mount) = Mount::new(FsKind::Tmpfs, 2 << 20) else { return };
    let keep = mount.path().join("bad");
    trees.rot();
    let bad = fs::read(trees.long()).unwrap();
    for options in [&["--in-place"][..], &[]] {
        let common = ["repair", "--keep-bad", keep.to_str().unwrap(), "--from", "copy"];
        let ended = trees.run(&[&common[..], options, &["tree"]].concat());
        assert_eq!(ended.code, Some(1), "{}", ended.out());
        assert!(ended.out().contains("No space left on device"), "{}", ended.out());
        assert_eq!(files_below(&keep), [] as [PathBuf; 0], "{options:?}");
        assert!(fs::read(trees.long()).unwrap() == bad, "{options:?}");
    }
}

/// Somebody may have written a newer file, which the storage then lost.
#[test]
fn what_cannot_be_read_is_kept_before_a_list_says_what_it_should_be() {
    let trees = Trees::new();
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    let marker = b"verisum: these bytes are kept nowhere";
    let (file, good) = (mount.path().join("file"), b"what the list is of".repeat(1000));
    fs::write(&file, marker.repeat(5000)).unwrap();
    fs::write(trees.path("copy/file"), &good).unwrap();
    let digest = Digest::find("sha256").unwrap().hash(&good).unwrap();
    fs::write(trees.path("SUMS"), format!("{digest}  file\n")).unwrap();
    mount.edit_image(|image| flip(image, marker));
    let tree = mount.path().display().to_string();
    let words = ["repair", "--sums", "SUMS", "--from", "copy"];
    let foretold = trees.run(&[&words[..], &["--dry-run", &tree]].concat());
    assert!(foretold.code == Some(3) && foretold.out().contains("needs --keep-bad"), "{}", foretold.out());
    let refused = trees.run(&[&words[..], &[&tree]].concat());
    assert_eq!(refused.code, Some(3), "{}{}", refused.out(), refused.stderr);
    assert!(refused.out().contains("--keep-bad DIR repairs it"), "{}", refused.out());
    assert_eq!(fs::metadata(&file).unwrap().len(), 5000 * marker.len() as u64);
    let repaired = trees.run(&[&words[..], &["--keep-bad", "bad", &tree]].concat());
    assert_eq!(repaired.code, Some(0), "{}{}", repaired.out(), repaired.stderr);
    assert!(fs::read(&file).unwrap() == good);
    // It is told how much of it is lost.
    let kept = fs::read(trees.path("bad/file")).unwrap();
    let lost = kept.chunks(4096).filter(|block| block.iter().all(|byte| *byte == 0)).count() * 4096;
    let told = format!("{lost} bytes of the kept copy could not be read and are zeros");
    assert!(lost > 0 && repaired.out().contains(&told), "{lost}: {}", repaired.out());
}

/// The tree is a mount point, so that nothing can move beside it, and one file cannot be read, another may be meant.
#[test]
fn the_command_of_a_tree_mends_what_cannot_be_read_too() {
    let trees = Trees::new();
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    let marker = b"verisum: these bytes are kept nowhere";
    let tree = mount.path().to_path_buf();
    for folder in [&tree, &trees.path("copy")] {
        fs::write(folder.join("unreadable"), marker.repeat(5000)).unwrap();
        fs::write(folder.join("other"), "good content").unwrap();
    }
    trees.run(&["scrub", tree.to_str().unwrap(), "copy"]).clean();
    mount.edit_image(|image| flip(image, marker));
    common::change_and_restore_time(&tree.join("other"), "baad content");
    assert_eq!(trees.run(&["scrub", tree.to_str().unwrap()]).code, Some(1));
    let status = trees.run(&["catalog", "status"]);
    assert!(status.out().contains("the storage failed: first copy what can be read"), "{}", status.out());
    let joined = status.out().split_whitespace().collect::<Vec<_>>().join(" ");
    let line = joined.split('`').nth(1).unwrap().replace('\'', "");
    let keep =
        line.split_once("--keep-bad ").unwrap_or_else(|| panic!("{line}")).1.split(' ').next().unwrap();
    let words: Vec<&str> = line.strip_prefix("verisum ").unwrap().split(' ').collect();
    let ended = trees.run(&[&words[..], &["--dry-run"]].concat());
    assert!(
        ended.code == Some(0) && ended.out().contains("2 files could be repaired"),
        "{line}: {}{}",
        ended.out(),
        ended.stderr
    );
    let ended = trees.run(&words);
    assert_eq!(ended.code, Some(0), "{line}: {}{}", ended.out(), ended.stderr);
    trees.run(&["scrub", tree.to_str().unwrap()]).clean();
    assert_eq!(files_below(keep.as_ref()).len(), 2);
    fs::remove_dir_all(keep).unwrap();
}
