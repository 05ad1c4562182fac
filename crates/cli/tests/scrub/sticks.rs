//! Copy, repair and parity on FAT and exFAT, as on USB sticks: no links, no owners, coarse times, fewer names.

use crate::common;

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use common::{Ended, VERISUM, command};
use verisum_testkit::{FsKind, Mount};

const KINDS: [FsKind; 2] = [FsKind::Vfat, FsKind::Exfat];

struct Stick {
    mount: Mount,
    folder: tempfile::TempDir,
}

impl Stick {
    /// With a tree beside it that it can have.
    fn new(kind: FsKind) -> Option<Stick> {
        let stick = Stick { mount: Mount::new(kind, 64 << 20)?, folder: tempfile::tempdir().unwrap() };
        let mut long = vec![0; 2_000_000];
        fastrand::Rng::with_seed(23).fill(&mut long);
        fs::create_dir_all(stick.path("from/below")).unwrap();
        fs::write(stick.path("from/long.bin"), long).unwrap();
        fs::write(stick.path("from/below/A name.jpg"), vec![7; 70_000]).unwrap();
        fs::write(stick.path("from/small"), "small").unwrap();
        fs::hard_link(stick.path("from/small"), stick.path("from/hard")).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_600_000_001_500);
        for name in ["small", "long.bin"] {
            let file = File::options().write(true).open(stick.path("from").join(name)).unwrap();
            file.set_modified(time).unwrap();
        }
        Some(stick)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn tree(&self) -> PathBuf {
        self.mount.path().canonicalize().unwrap().join("tree")
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = command(VERISUM);
        command.env("XDG_STATE_HOME", self.path("state")).current_dir(self.path(".")).args(words);
        Ended::of(command.output().unwrap())
    }

    /// As `run`, with the tree on the stick after all words.
    fn on_tree(&self, words: &[&str]) -> Ended {
        self.run(&[words, &[self.tree().to_str().unwrap()]].concat())
    }

    fn copy(&self) -> Ended {
        self.on_tree(&["copy", "from"])
    }

    fn rot(&self, name: &str) {
        let path = self.tree().join(name);
        let file = File::options().read(true).write(true).open(path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(b"rotten", file.metadata().unwrap().len() / 2).unwrap();
        // With one of the two alone some programs behind FUSE set none.
        file.set_times(FileTimes::new().set_accessed(modified).set_modified(modified)).unwrap();
    }

    #[track_caller]
    fn is_whole(&self) {
        for name in ["long.bin", "below/A name.jpg", "small", "hard"] {
            let [from, there] = [self.path("from"), self.tree()].map(|top| fs::read(top.join(name)).ok());
            assert!(from.is_some() && from == there, "{name}");
        }
        let hidden = |folder: &Path| {
            let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().starts_with(".verisum-")).collect::<Vec<_>>()
        };
        let left = [hidden(&self.tree()), hidden(&self.tree().join("below"))].concat();
        assert!(left.iter().all(|name| name == ".verisum-parity"), "{left:?}");
    }
}

#[test]
fn copies_are_made_once_and_names_that_cannot_be_are_said() {
    for stick in KINDS.into_iter().filter_map(Stick::new) {
        let first = stick.copy();
        assert_eq!(first.code, Some(0), "{}{}", first.out(), first.stderr);
        stick.is_whole();
        let again = stick.copy();
        assert!(again.code == Some(0) && again.stderr.contains("0 files copied"), "{}", again.stderr);
        for name in ["small.txt", "SMALL.txt", "a:b"] {
            fs::write(stick.path("from").join(name), name).unwrap();
        }
        let third = stick.copy();
        assert_eq!(third.code, Some(3), "{}", third.stderr);
        let capitals = ".txt: create: a name with other capitals is in the way\n";
        assert_eq!(third.stderr.matches(capitals).count(), 1, "{}", third.stderr);
        assert_eq!(third.stderr.matches("/a:b: ").count(), 1, "{}", third.stderr);
        assert!(third.stderr.contains("the file system takes no such name"), "{}", third.stderr);
        let text = fs::read_to_string(stick.tree().join("small.txt")).unwrap();
        assert!(text.eq_ignore_ascii_case("small.txt"), "{text}");
        stick.is_whole();
    }
}

/// A listing gives a directory's names with those of others between them, and names are not all of letters that are text.
#[test]
fn of_names_of_a_host_that_differ_in_capitals_one_is_taken() {
    for stick in KINDS.into_iter().filter_map(Stick::new) {
        for folder in ["from/sub", "from/SUB"] {
            fs::create_dir(stick.path(folder)).unwrap();
        }
        for name in ["Name", "NAME", "sub/one", "SUB/two", "sub/\u{e4}", "sub/\u{c4}"] {
            fs::write(stick.path("from").join(name), name).unwrap();
        }
        let copied = stick.on_tree(&["copy", &format!("local:{}", stick.path("from").display())]);
        assert_eq!(copied.code, Some(3), "{}", copied.stderr);
        let capitals = ": create: a name with other capitals is in the way\n";
        // Of two directories each file is named.
        let refused = copied.stderr.matches(capitals).count();
        assert!((3..=4).contains(&refused), "{}", copied.stderr);
        stick.is_whole();
        for name in ["Name", "sub/one", "sub/two", "sub/\u{e4}"] {
            let Ok(text) = fs::read_to_string(stick.tree().join(name)) else { continue };
            assert_eq!(text.to_lowercase(), name.to_lowercase());
        }
        let again = stick.on_tree(&["copy", &format!("local:{}", stick.path("from").display())]);
        assert!(again.stderr.contains("0 files copied"), "{}", again.stderr);
        assert_eq!(again.stderr.matches(capitals).count(), refused, "{}", again.stderr);
    }
}

#[test]
fn what_is_rotten_or_missing_comes_back() {
    for stick in KINDS.into_iter().filter_map(Stick::new) {
        stick.copy();
        stick.on_tree(&["scrub"]).clean();
        stick.on_tree(&["scrub"]).clean();
        let bad = stick.mount.path().join("bad");
        let keep = ["--keep-bad", bad.to_str().unwrap()];
        for options in [&["--from", "from"][..], &["--from", "from", "--in-place"]] {
            let map = stick.tree().join("long.bin.map");
            if options.len() > 2 {
                let words = ["image", "map", "--exact", "--output", map.to_str().unwrap(), "from/long.bin"];
                stick.run(&words).clean();
            }
            stick.rot("long.bin");
            fs::remove_file(stick.tree().join("small")).unwrap();
            fs::remove_dir_all(stick.tree().join("below")).unwrap();
            assert_eq!(stick.on_tree(&["scrub"]).code, Some(1));
            let ended = stick.on_tree(&[&["repair"], options, &keep].concat());
            assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
            stick.is_whole();
        }
        assert!(bad.join("long.bin").exists());
        assert_eq!(stick.on_tree(&["scrub"]).code, Some(0));
    }
}

#[test]
fn parity_on_it_mends_and_has_no_parity_of_itself() {
    for stick in KINDS.into_iter().filter_map(Stick::new) {
        stick.copy();
        stick.on_tree(&["parity", "create", "--redundancy", "20%"]).clean();
        let spoil = || {
            stick.rot("long.bin");
            fs::remove_file(stick.tree().join("hard")).unwrap();
        };
        let verified = stick.on_tree(&["parity", "verify"]).clean();
        assert!(verified.starts_with("4 files, "), "{verified}");
        spoil();
        assert_eq!(stick.on_tree(&["parity", "verify"]).code, Some(1));
        stick.on_tree(&["parity", "repair"]).clean();
        stick.is_whole();
        fs::write(stick.tree().join("new"), "new").unwrap();
        stick.on_tree(&["parity", "update"]).clean();
        spoil();
        stick.on_tree(&["parity", "repair", "--in-place"]).clean();
        stick.is_whole();
        stick.on_tree(&["parity", "verify"]).clean();
    }
}
