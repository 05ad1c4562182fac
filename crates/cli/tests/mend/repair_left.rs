//! What a killed repair leaves beside a file: the next repair of that removes it, and nothing else.

use crate::common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use common::{Ended, VERISUM, change_and_restore_time, command};
use verisum_testkit::{FsKind, Mount};

/// A recorded tree of one file, and a copy of it.
struct Trees {
    folder: tempfile::TempDir,
}

impl Trees {
    fn new() -> Trees {
        let trees = Trees { folder: tempfile::tempdir().unwrap() };
        for tree in ["tree", "copy"] {
            fs::create_dir(trees.path(tree)).unwrap();
            fs::write(trees.path(tree).join("file"), "good").unwrap();
        }
        trees.run(&["scrub", "tree"]).clean();
        change_and_restore_time(&trees.path("tree/file"), "evil");
        assert_eq!(trees.run(&["scrub", "tree"]).code, Some(1));
        trees
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        command.env("XDG_STATE_HOME", self.path("state")).current_dir(self.path(".")).args(words);
        Ended::of(command.output().unwrap())
    }

    /// Writes a file beside the one of the tree, with the name that it has while it takes the place of that.
    fn leave(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path("tree").join(format!(".verisum-repair-{name}"));
        fs::write(&path, content).unwrap();
        path
    }
}

#[test]
fn the_other_names_of_a_file_are_repaired_with_the_one_that_is_named() {
    let trees = Trees::new();
    change_and_restore_time(&trees.path("tree/file"), "good");
    fs::create_dir(trees.path("tree/in")).unwrap();
    fs::hard_link(trees.path("tree/file"), trees.path("tree/in/name")).unwrap();
    fs::write(trees.path("tree/in/other"), "other").unwrap();
    trees.run(&["scrub", "tree", "copy"]).clean();
    for named in ["tree/file", "tree/in/name", "tree/in"] {
        change_and_restore_time(&trees.path("tree/file"), "evil");
        change_and_restore_time(&trees.path("tree/in/other"), "bad");
        assert_eq!(trees.run(&["scrub", "tree"]).code, Some(1));
        let words = ["repair", "--keep-bad", "bad", "--from", "copy", named];
        let [told, done] = [&["--dry-run"][..], &[]].map(|more| trees.run(&[&words[..], more].concat()));
        for (ended, word) in [(told, "mendable  "), (done, "repaired  ")] {
            assert_eq!(ended.out().matches(word).count(), 2, "{named}: {}", ended.out());
            assert!(!ended.out().contains("elsewhere"), "{named}: {}", ended.out());
        }
        let about = ["tree/file", "tree/in/name"].map(|name| fs::metadata(trees.path(name)).unwrap());
        assert_eq!((about[0].ino(), about[0].nlink()), (about[1].ino(), 2), "{named}");
        assert_eq!(fs::read(trees.path("tree/file")).unwrap(), b"good", "{named}");
        // What is another file stays as it is.
        assert_eq!(fs::read(trees.path("tree/in/other")).unwrap(), b"bad", "{named}");
        change_and_restore_time(&trees.path("tree/in/other"), "other");
        trees.run(&["scrub", "tree"]);
    }
}

#[test]
fn what_has_the_good_content_or_is_no_whole_file_goes() {
    let dead = i32::MAX;
    let alive = std::process::id();
    for is_good_by_now in [false, true] {
        let trees = Trees::new();
        let gone = [trees.leave(&format!("{dead}-0"), "good"), trees.leave(&format!("{dead}-1.new"), "go")];
        let stays = [
            trees.leave(&format!("{alive}-0"), "good"),
            trees.leave(&format!("{alive}-1.new"), "go"),
            trees.leave(&format!("{dead}-2"), "what somebody put in the place of the file"),
            trees.leave(&format!("{dead}-notes"), "good"),
            trees.leave("notes.new", "good"),
        ];
        if is_good_by_now {
            // The kill came after the file had its name, and before that was recorded.
            change_and_restore_time(&trees.path("tree/file"), "good");
        }
        trees.run(&["repair", "--dry-run", "--keep-bad", "bad", "--from", "copy", "tree"]).clean();
        assert!(gone.iter().chain(&stays).all(|path| path.exists()));
        trees.run(&["repair", "--keep-bad", "bad", "--from", "copy", "tree"]).clean();
        assert_eq!(fs::read(trees.path("tree/file")).unwrap(), b"good");
        assert!(!gone.iter().any(|path| path.exists()), "{is_good_by_now}");
        assert!(stays.iter().all(|path| path.exists()), "{is_good_by_now}");
    }
}

/// The files of a directory, by their names and contents.
fn files(folder: &Path) -> Vec<(String, String)> {
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| read(entry.unwrap())).collect();
    files.sort();
    files
}

#[test]
fn what_a_killed_repair_kept_is_kept_once() {
    let dead = i32::MAX;
    let Some(mount) = Mount::new(FsKind::Ext4, 0) else { return };
    let elsewhere = mount.path().join("bad");
    let kept = [("file".to_string(), "evil".to_string())];
    for keep in [PathBuf::from("bad"), elsewhere] {
        for has_exchanged in [false, true] {
            let trees = Trees::new();
            let keep = trees.path(".").join(&keep);
            let modified = fs::metadata(trees.path("tree/file")).unwrap().modified().unwrap();
            fs::create_dir_all(&keep).unwrap();
            // A kill came before the exchange, or after it.
            if fs::hard_link(trees.path("tree/file"), keep.join("file")).is_err() {
                fs::copy(trees.path("tree/file"), keep.join("file")).unwrap();
                fs::write(keep.join(format!(".verisum-repair-{dead}-0")), "evil").unwrap();
                fs::write(keep.join(format!(".verisum-repair-{dead}-1.new")), "ev").unwrap();
            }
            let left = trees.leave(&format!("{dead}-0"), "good");
            fs::File::open(&left).unwrap().set_modified(modified).unwrap();
            if has_exchanged {
                let between = trees.path("between");
                fs::rename(&left, &between).unwrap();
                fs::rename(trees.path("tree/file"), &left).unwrap();
                fs::rename(&between, trees.path("tree/file")).unwrap();
            }
            let words = ["repair", "--from", "copy", "--keep-bad", keep.to_str().unwrap(), "tree"];
            let repaired = trees.run(&words).clean();
            assert!(!repaired.contains("elsewhere"), "{repaired}");
            assert_eq!(files(&trees.path("tree")), [("file".into(), "good".into())]);
            match has_exchanged {
                // Nothing is kept any more, and so nobody looks there.
                true => assert!(files(&keep).ends_with(&kept)),
                false => assert_eq!(files(&keep), kept),
            }
            fs::remove_dir_all(&keep).unwrap();
        }
    }
}

#[test]
fn a_file_whose_name_only_begins_like_those_of_repairs_is_scrubbed_and_has_parity() {
    let trees = Trees::new();
    change_and_restore_time(&trees.path("tree/file"), "good");
    let notes = trees.leave("notes", "notes");
    trees.leave(&format!("{}-0", i32::MAX), "left");
    trees.leave("0123456789abcdef", "left by `parity repair`");
    trees.run(&["scrub", "tree"]).clean();
    trees.run(&["parity", "create", "--redundancy", "50%", "tree"]).clean();
    change_and_restore_time(&notes, "rot!!");
    let scrub = trees.run(&["scrub", "tree"]);
    assert!(scrub.code == Some(1) && scrub.stderr.contains("repair-notes: suspicious"), "{}", scrub.stderr);
    assert!(scrub.out().contains("ok 1, suspicious 1"), "{}", scrub.out());
    let verify = trees.run(&["parity", "verify", "tree"]);
    assert!(verify.out().starts_with(".verisum-repair-notes: damaged"), "{}", verify.out());
    assert!(verify.out().contains("2 files, "), "{}", verify.out());
}
