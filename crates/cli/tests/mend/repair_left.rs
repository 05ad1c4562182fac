//! What a killed repair leaves beside a file: the next repair of that removes it, and nothing else.

use crate::common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use common::{Ended, VERISUM, change_and_restore_time, command};

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
