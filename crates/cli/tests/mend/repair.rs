//! `verisum repair`: exactly what a source still has comes back, and nothing else is touched.

use crate::common;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::scrubbing::{check, expect, refused, s, scrub};
use common::sshd::sshd;
use common::{Ended, VERISUM, change_and_restore_time, command, flip, start, verisum};
use verisum_testkit::{FsKind, Mount, require_tool};

/// A recorded tree, a copy of it that is not recorded, and a directory for bad files.
struct Trees {
    folder: tempfile::TempDir,
}

impl Trees {
    fn new(files: &[(&[u8], &str)]) -> Trees {
        let trees = Trees { folder: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            for tree in ["tree", "copy"] {
                let path = trees.path(tree).join(OsStr::from_bytes(name));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        scrub(&trees.catalog(), &trees.path("tree"), &[]).clean();
        trees
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn catalog(&self) -> PathBuf {
        self.path("c.db")
    }

    fn scrub(&self) -> Ended {
        scrub(&self.catalog(), &self.path("tree"), &[])
    }

    /// With the copy for a source, and room for bad files.
    fn repair(&self, options: &[&str]) -> Ended {
        let (copy, bad) = (self.path("copy"), self.path("bad"));
        let mut all = vec!["--from", copy.to_str().unwrap(), "--keep-bad", bad.to_str().unwrap()];
        all.extend(options);
        repair(&self.catalog(), &self.path("tree"), &all)
    }
}

fn repair(catalog: &Path, path: &Path, options: &[&str]) -> Ended {
    let mut arguments = vec![s("repair"), s("--catalog"), catalog.into()];
    arguments.extend(options.iter().map(PathBuf::from));
    arguments.push(path.into());
    verisum(arguments)
}

/// Asserts what became of files; the last line has the totals.
#[track_caller]
fn became(ended: &Ended, code: i32, lines: &[(&str, &Path)]) {
    let out = ended.out().trim_end();
    let files = out.rsplit_once('\n').map_or("", |(files, _)| files);
    let (stdout, stderr) = (files.into(), ended.stderr.clone());
    let files = Ended { stdout, stderr, code: ended.code, signal: None };
    expect(&files, code, lines);
}

/// All files of a tree, with their content.
fn content(tree: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![tree.to_path_buf()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => {
                    drop(found.insert(path.strip_prefix(tree).unwrap().into(), fs::read(&path).unwrap()))
                }
            }
        }
    }
    found
}

/// `repair` without a catalogue, with a copy for a source.
fn repair_by(tree: &Path, copy: &Path, options: &[&str]) -> Ended {
    let mut arguments = vec![s("repair"), s("--from"), copy.into()];
    arguments.extend(options.iter().map(PathBuf::from));
    arguments.push(tree.into());
    verisum(arguments)
}

#[test]
fn a_list_says_what_is_repaired() {
    let files: [(&[u8], &str); 5] =
        [(b"bad", "one"), (b"a/gone", "two"), (b"well", "three"), (b"new\nline", "four"), (b"both", "five")];
    let trees = Trees::new(&files);
    let (tree, copy, list) = (trees.path("tree"), trees.path("copy"), trees.path("SUMS"));
    let sums = verisum([s("sum"), s("-r"), s("-a"), s("blake3"), s("--tag"), tree.clone()]).clean();
    // Names from the tree, with a dot, and whole ones.
    let sums = sums.replace(&format!("{}/", tree.display()), "./");
    let whole = format!("{}/well", tree.display());
    fs::write(&list, sums.replace("./well", &whole)).unwrap();
    let [sums, kept] = [&list, &trees.path("kept")].map(|path| path.to_str().unwrap().to_string());
    became(&repair_by(&tree, &copy, &["--sums", &sums]), 0, &[]);
    fs::write(tree.join("bad"), "ONE and more").unwrap();
    fs::remove_dir_all(tree.join("a")).unwrap();
    fs::remove_file(tree.join("new\nline")).unwrap();
    let now = content(&tree);
    let dry = repair_by(&tree, &copy, &["--sums", &sums, "--dry-run"]);
    assert!(dry.out().ends_with("3 files could be repaired (10 bytes)\n"), "{}", dry.out());
    assert!(content(&tree) == now);
    let ended = repair_by(&tree, &copy, &["--sums", &sums]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.out().ends_with("2 files repaired (7 bytes), 1 left alone\n"), "{}", ended.out());
    became(
        &repair_by(&tree, &copy, &["--sums", &sums, "--keep-bad", &kept]),
        0,
        &[("repaired", &tree.join("bad"))],
    );
    assert!(content(&tree) == content(&copy));
    assert_eq!(fs::read(Path::new(&kept).join("bad")).unwrap(), b"ONE and more");
    // Whoever could not reach it before cannot now.
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o700);
    // A copy that is bad itself, and lines that say nothing.
    fs::write(tree.join("both"), "FIVE").unwrap();
    fs::write(copy.join("both"), "fIVE").unwrap();
    let ended = repair_by(&tree, &copy, &["--sums", &sums, "--keep-bad", &kept]);
    assert!(ended.code == Some(1) && ended.out().contains("different content"), "{}", ended.out());
    assert_eq!(fs::read(tree.join("both")).unwrap(), b"FIVE");
    let digest = "0".repeat(64);
    let lines = ["../x", "/etc/passwd", "a/../../x", "", "."].map(|name| format!("{digest}  {name}\n"));
    fs::write(&list, lines.concat() + "junk\n" + &format!("{digest}  y\n{}  y\n", "1".repeat(64))).unwrap();
    let ended = repair_by(&tree, &copy, &["--sums", &sums]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 7), "{}", ended.stderr);
    assert!(ended.stderr.contains("line 8: another line has another digest of it"), "{}", ended.stderr);
    refused(&verisum([s("repair"), s("--sums"), list, tree]), 2, "need a copy or parity: --from PLACE");
}

#[test]
fn what_may_be_written_since_it_was_tagged_is_only_repaired_if_it_is_kept() {
    let trees = Trees::new(&[(b"bad", "one")]);
    let (tree, copy) = (trees.path("tree"), trees.path("copy"));
    verisum([s("tag"), s("--quiet"), tree.join("bad")]).clean();
    // A tag that is younger than that tells nothing of the inode's time.
    std::thread::sleep(Duration::from_millis(3100));
    change_and_restore_time(&tree.join("bad"), "ONE");
    let verify = verisum([s("verify"), tree.clone()]);
    let mend = format!("verisum repair --tags '{0}' --keep-bad '{0}.bad' --from PLACE", tree.display());
    let told = format!("{}{}", verify.out(), verify.stderr);
    assert!(told.contains("suspicious") && told.contains(&mend), "{told}");
    let careful = repair_by(&tree, &copy, &["--tags"]);
    assert_eq!(careful.code, Some(1), "{}{}", careful.out(), careful.stderr);
    assert!(careful.out().contains("--keep-bad DIR repairs it"), "{}", careful.out());
    assert_eq!(fs::read(tree.join("bad")).unwrap(), b"ONE");
    let kept = trees.path("kept").to_str().unwrap().to_string();
    became(&repair_by(&tree, &copy, &["--tags", "--keep-bad", &kept]), 0, &[("repaired", &tree.join("bad"))]);
    assert_eq!(fs::read(Path::new(&kept).join("bad")).unwrap(), b"ONE");
}

#[test]
fn tags_say_what_is_repaired() {
    let trees = Trees::new(&[(b"bad", "one"), (b"written", "two"), (b"untagged", "three")]);
    let (tree, copy) = (trees.path("tree"), trees.path("copy"));
    verisum([s("tag"), s("--quiet"), tree.join("bad"), tree.join("written")]).clean();
    change_and_restore_time(&tree.join("bad"), "ONE");
    fs::write(tree.join("written"), "TWO").unwrap();
    fs::write(tree.join("untagged"), "THREE").unwrap();
    let kept = trees.path("kept").to_str().unwrap().to_string();
    let careful = ["--tags", "--keep-bad", &kept];
    became(&repair_by(&tree, &copy, &careful), 0, &[("repaired", &tree.join("bad"))]);
    let now = ["bad", "written", "untagged"].map(|name| fs::read_to_string(tree.join(name)).unwrap());
    assert_eq!(now, ["one", "TWO", "THREE"]);
    // The new file has the tag of the old one.
    verisum([s("verify"), s("--quiet"), tree.join("bad")]).clean();
}

#[test]
fn a_scrub_repairs_what_it_finds_and_leaves_missing_files_missing() {
    let trees = Trees::new(&[(b"bad", "one"), (b"gone", "two"), (b"well", "three")]);
    let (tree, copy, kept) = (trees.path("tree"), trees.path("copy"), trees.path("kept"));
    change_and_restore_time(&tree.join("bad"), "ONE");
    fs::remove_file(tree.join("gone")).unwrap();
    let [from, keep] = [&copy, &kept].map(|path| path.to_str().unwrap());
    let repairing = ["--repair", "--from", from];
    // Somebody may have written it.
    let ended = scrub(&trees.catalog(), &tree, &repairing);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.out().contains("refused       ") && ended.out().ends_with("1 left alone\n"),
        "{}",
        ended.out()
    );
    assert!(!ended.stderr.contains("bad or missing"), "{}", ended.stderr);
    let ended = scrub(&trees.catalog(), &tree, &[&repairing[..], &["--keep-bad", keep, "--json"]].concat());
    assert_eq!(ended.code, Some(1), "that something was bad is said");
    let lines: Vec<serde_json::Value> =
        ended.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["file", "summary", "repair", "repairs"]);
    assert_eq!((&lines[2]["outcome"], &lines[3]["repaired"]), (&"repaired".into(), &1.into()));
    assert_eq!(fs::read(tree.join("bad")).unwrap(), b"one");
    assert_eq!(content(&kept).into_values().collect::<Vec<_>>(), [b"ONE"]);
    assert!(!tree.join("gone").exists());
    // What is missing can be mended all the same, and status says how.
    scrub(&trees.catalog(), &tree, &repairing).clean();
    scrub(&trees.catalog(), &copy, &[]).clean();
    let status = verisum([s("catalog"), s("status"), s("--catalog"), trees.catalog()]).clean();
    assert!(
        status.contains(
            "1 file is bad or missing; it can be repaired from a known copy: `verisum repair --catalog "
        ),
        "{status}"
    );
    // A copy of which directory?
    let two = verisum([
        s("scrub"),
        s("--repair"),
        s("--from"),
        copy.clone(),
        s("--catalog"),
        trees.catalog(),
        tree,
        copy,
    ]);
    refused(&two, 2, "--from PLACE and --parity PLACE are of one directory");
}

#[test]
fn rot_on_every_file_system_is_mended_and_the_file_keeps_what_else_it_has() {
    let marker = b"verisum: these bytes are going to rot";
    for kind in [FsKind::Ext4, FsKind::Xfs, FsKind::Btrfs] {
        let Some(mut mount) = Mount::new(kind, 0) else { return };
        let folder = tempfile::tempdir().unwrap();
        let (catalog, copy) = (folder.path().join("c.db"), folder.path().join("copy"));
        let path = mount.path().canonicalize().unwrap().join("file");
        let mut good = vec![7; 100_000];
        good[..marker.len()].copy_from_slice(marker);
        fs::write(&path, &good).unwrap();
        let Some(setfattr) = require_tool("setfattr") else { return };
        let set = Command::new(setfattr).args(["-n", "user.colour", "-v", "blue"]).arg(&path).status();
        assert!(set.unwrap().success());
        std::os::unix::fs::chown(&path, Some(5), Some(6)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        let before = path.metadata().unwrap();
        fs::create_dir(&copy).unwrap();
        fs::write(copy.join("file"), &good).unwrap();
        scrub(&catalog, path.parent().unwrap(), &[]).clean();
        mount.edit_image(|image| flip(image, marker));
        let found = scrub(&catalog, path.parent().unwrap(), &[]);
        // Btrfs has checksums of its own.
        let (verdict, code) = if kind == FsKind::Btrfs { ("io-error", 3) } else { ("rot", 1) };
        expect(&found, code, &[(verdict, &path)]);
        let from = copy.to_str().unwrap();
        let tried = repair(&catalog, path.parent().unwrap(), &["--dry-run", "--from", from]);
        became(&tried, 0, &[("mendable", &path)]);
        assert_ne!(fs::read(&path).ok(), Some(good.clone()));
        let ended = repair(&catalog, path.parent().unwrap(), &["--from", from]);
        became(&ended, 0, &[("repaired", &path)]);
        assert_eq!(fs::read(&path).unwrap(), good);
        let after = path.metadata().unwrap();
        let kept =
            |file: &fs::Metadata| (file.uid(), file.gid(), file.mode(), file.mtime(), file.mtime_nsec());
        assert_eq!(kept(&after), kept(&before));
        let Some(getfattr) = require_tool("getfattr") else { return };
        let got =
            Command::new(getfattr).args(["--only-values", "-n", "user.colour"]).arg(&path).output().unwrap();
        assert_eq!(got.stdout, b"blue");
        assert_eq!(
            fs::read_dir(path.parent().unwrap())
                .unwrap()
                .filter(|entry| { entry.as_ref().unwrap().file_name().as_bytes().starts_with(b".verisum") })
                .count(),
            0
        );
        expect(&scrub(&catalog, path.parent().unwrap(), &[]), 0, &[]);
        check(&catalog);
    }
}

#[test]
fn what_is_missing_comes_back_with_its_directories_and_odd_names_too() {
    let names: [(&[u8], &str); 4] =
        [(b"a/b/c", "deep"), (b"new\nline", "two lines"), (b"\xff\xfe'", "no UTF-8"), (b"stays", "here")];
    let trees = Trees::new(&names);
    fs::remove_dir_all(trees.path("tree/a")).unwrap();
    for name in [&b"new\nline"[..], b"\xff\xfe'"] {
        fs::remove_file(trees.path("tree").join(OsStr::from_bytes(name))).unwrap();
    }
    trees.scrub();
    let left = trees.repair(&["--except-missing"]);
    assert_eq!((left.code, left.out()), (Some(0), "nothing to repair\n"));
    let ended = trees.repair(&["--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.out().contains("\"repaired\":3"), "{}", ended.out());
    assert!(ended.out().contains("\"name_hex\":") || ended.out().contains("hex"), "{}", ended.out());
    assert_eq!(content(&trees.path("tree")), content(&trees.path("copy")));
    expect(&trees.scrub(), 0, &[]);
    check(&trees.catalog());
}

#[test]
fn what_is_no_recorded_content_never_takes_a_place() {
    let trees = Trees::new(&[(b"a", "one"), (b"b", "two"), (b"c", "three")]);
    for name in ["a", "b", "c"] {
        change_and_restore_time(&trees.path("tree").join(name), "bad");
    }
    trees.scrub();
    // One copy is bad as well, one is gone, one is a directory.
    fs::write(trees.path("copy/a"), "0ne").unwrap();
    fs::remove_file(trees.path("copy/b")).unwrap();
    fs::remove_file(trees.path("copy/c")).unwrap();
    fs::create_dir(trees.path("copy/c")).unwrap();
    let before = content(&trees.path("tree"));
    let ended = trees.repair(&[]);
    let all = ["a", "b", "c"].map(|name| trees.path("tree").join(name));
    let out = ended.out();
    for path in &all {
        assert!(out.contains(&format!("no-source     {}", path.display())), "{out}");
    }
    assert!(out.contains("copy/a: different content") && out.contains("copy/b: No such file"), "{out}");
    assert_eq!((ended.code, content(&trees.path("tree"))), (Some(1), before));
    // Content of another name is as good.
    fs::write(trees.path("tree/c2"), "three").unwrap();
    trees.scrub();
    assert!(trees.repair(&[]).out().contains("tree/c2;"));
    assert_eq!(fs::read(trees.path("tree/c")).unwrap(), b"three");
    assert_eq!(fs::read(trees.path("bad/c")).unwrap(), b"bad");
    check(&trees.catalog());
}

#[test]
fn a_file_that_somebody_wrote_or_writes_is_left_alone() {
    let trees = Trees::new(&[(b"later", "one"), (b"open", "two"), (b"link", "three"), (b"held", "four")]);
    for name in ["later", "open", "link", "held"] {
        change_and_restore_time(&trees.path("tree").join(name), "bad");
    }
    trees.scrub();
    // Without room for what they are now, nothing is done to suspicious files.
    let copy = trees.path("copy");
    let before = content(&trees.path("tree"));
    let ended = repair(&trees.catalog(), &trees.path("tree"), &["--from", copy.to_str().unwrap()]);
    assert_eq!((ended.code, content(&trees.path("tree"))), (Some(1), before));
    assert!(ended.out().contains("--keep-bad DIR"), "{}", ended.out());

    fs::write(trees.path("tree/later"), "written since").unwrap();
    let writer = File::options().append(true).open(trees.path("tree/open")).unwrap();
    let outside = trees.path("outside");
    fs::write(&outside, "outside").unwrap();
    fs::remove_file(trees.path("tree/link")).unwrap();
    symlink(&outside, trees.path("tree/link")).unwrap();
    let ended = trees.repair(&[]);
    drop(writer);
    let out = ended.out();
    assert!(out.contains("tree/later  (was suspicious; it changed since it was found bad"), "{out}");
    assert!(out.contains("tree/open  (was suspicious; a program has it open to write to it)"), "{out}");
    assert!(out.contains("tree/link  (was suspicious; something else is in its place)"), "{out}");
    assert_eq!(ended.code, Some(1));
    assert_eq!(fs::read(&outside).unwrap(), b"outside");
    assert_eq!(fs::read(trees.path("tree/later")).unwrap(), b"written since");
    assert_eq!(fs::read(trees.path("tree/held")).unwrap(), b"four");
    check(&trees.catalog());
}

#[test]
fn what_changed_in_an_archive_can_be_taken_back() {
    let trees = Trees::new(&[(b"a", "1984"), (b"b", "old")]);
    fs::write(trees.path("tree/a"), "2024!").unwrap();
    assert_eq!(scrub(&trees.catalog(), &trees.path("tree"), &["--archive"]).code, Some(1));
    let copy = trees.path("copy");
    let ended = repair(&trees.catalog(), &trees.path("tree"), &["--from", copy.to_str().unwrap()]);
    became(&ended, 3, &[("refused", &trees.path("tree/a"))]);
    became(&trees.repair(&[]), 0, &[("repaired", &trees.path("tree/a"))]);
    assert_eq!(fs::read(trees.path("tree/a")).unwrap(), b"1984");
    assert_eq!(fs::read(trees.path("bad/a")).unwrap(), b"2024!");
    expect(&scrub(&trees.catalog(), &trees.path("tree"), &["--archive"]), 0, &[]);
    check(&trees.catalog());
}

#[test]
fn what_is_elsewhere_is_never_touched() {
    let trees = Trees::new(&[(b"in/a", "one")]);
    change_and_restore_time(&trees.path("tree/in/a"), "bad");
    trees.scrub();
    // The directory is a link now: what is behind it is not in the tree.
    fs::rename(trees.path("tree/in"), trees.path("moved")).unwrap();
    symlink(trees.path("moved"), trees.path("tree/in")).unwrap();
    let ended = trees.repair(&[]);
    assert_eq!(ended.code, Some(1), "{}", ended.out());
    assert_eq!(fs::read(trees.path("moved/a")).unwrap(), b"bad");
    // Nor is a place that no catalogue knows.
    let other = repair(&trees.catalog(), &trees.path("copy"), &[]);
    refused(&other, 3, "it is in no tree of the catalogue");
    let inside = trees.path("tree/bad");
    let ended = repair(&trees.catalog(), &trees.path("tree"), &["--keep-bad", inside.to_str().unwrap()]);
    refused(&ended, 3, "it is in the tree itself");
    assert!(!inside.exists());
    let [behind, file] = ["behind", "seen"].map(|name| trees.path(name));
    symlink(trees.path("tree"), &behind).unwrap();
    fs::write(&file, "").unwrap();
    for (keep, why) in
        [(behind.join("bad"), "it is in the tree itself"), (file.join("bad"), "Not a directory")]
    {
        let ended = repair(&trees.catalog(), &trees.path("tree"), &["--keep-bad", keep.to_str().unwrap()]);
        refused(&ended, 3, why);
    }
}

/// A file system of its own has nothing beside it that a file could move to.
#[test]
fn bad_files_of_a_mounted_tree_are_kept_on_another_file_system() {
    let trees = Trees::new(&[(b"in/a", "one"), (b"in/b", "two")]);
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    let tree = mount.path().to_path_buf();
    let marker = b"verisum: these bytes rot on the disk itself";
    fs::create_dir(tree.join("in")).unwrap();
    for (name, content) in [("a", &b"one"[..]), ("b", b"two"), ("rotten", &marker.repeat(2000))] {
        fs::write(tree.join("in").join(name), content).unwrap();
        fs::write(trees.path("copy/in").join(name), content).unwrap();
    }
    scrub(&trees.catalog(), &tree, &[]).clean();
    mount.edit_image(|image| flip(image, marker));
    let bad = tree.join("in/a");
    change_and_restore_time(&bad, "bad");
    fs::set_permissions(&bad, fs::Permissions::from_mode(0o640)).unwrap();
    let before = bad.metadata().unwrap();
    assert_eq!(scrub(&trees.catalog(), &tree, &[]).code, Some(1));
    let keep = trees.path("bad");
    let copy = trees.path("copy");
    let options = ["--keep-bad", keep.to_str().unwrap(), "--from", copy.to_str().unwrap()];
    repair(&trees.catalog(), &tree, &options).clean();
    assert_eq!(
        (fs::read(&bad).unwrap(), fs::read(keep.join("in/a")).unwrap()),
        (b"one".into(), b"bad".into())
    );
    let kept = keep.join("in/a").metadata().unwrap();
    let told = |file: &fs::Metadata| (file.uid(), file.gid(), file.mtime(), file.mtime_nsec());
    assert_eq!(told(&kept), told(&before));
    assert_eq!((before.mode() & 0o777, kept.mode() & 0o777), (0o640, 0o600), "for its owner alone");
    // Its first block cannot be read: that is zeros.
    assert_eq!(fs::read(tree.join("in/rotten")).unwrap(), marker.repeat(2000));
    let rotten = fs::read(keep.join("in/rotten")).unwrap();
    let good = marker.repeat(2000);
    assert!(rotten.len() == good.len() && rotten[..4096] == [0; 4096] && rotten[60000..] == good[60000..]);
    // A file that is repaired alone has its path in its tree there, too.
    change_and_restore_time(&bad, "BAD");
    assert_eq!(scrub(&trees.catalog(), &tree, &[]).code, Some(1));
    repair(&trees.catalog(), &bad, &options).clean();
    assert_eq!(fs::read(keep.join("in/a.1")).unwrap(), b"BAD");
}

#[test]
fn all_names_of_a_bad_file_are_mended_and_holes_stay_holes() {
    let trees = Trees::new(&[(b"seed", "x")]);
    let (tree, copy) = (trees.path("tree"), trees.path("copy"));
    for (folder, text) in [(&tree, "start"), (&copy, "start")] {
        fs::write(folder.join("one"), text).unwrap();
        File::options().write(true).open(folder.join("one")).unwrap().set_len(50 << 20).unwrap();
    }
    fs::hard_link(tree.join("one"), tree.join("two")).unwrap();
    fs::hard_link(tree.join("one"), trees.path("outside")).unwrap();
    trees.scrub();
    let time = tree.join("one").metadata().unwrap().modified().unwrap();
    let file = File::options().write(true).open(tree.join("one")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"stop", 0).unwrap();
    file.set_modified(time).unwrap();
    drop(file);
    trees.scrub();
    let ended = trees.repair(&[]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().contains("1 more name elsewhere keep"), "{}", ended.out());
    let [one, two] = ["one", "two"].map(|name| tree.join(name).metadata().unwrap());
    assert_eq!((one.ino(), one.nlink()), (two.ino(), 2));
    assert_eq!(one.len(), 50 << 20);
    assert!(one.blocks() * 512 < 1 << 20, "{}", one.blocks());
    assert_eq!(fs::read(tree.join("one")).unwrap(), fs::read(copy.join("one")).unwrap());
    expect(&trees.scrub(), 0, &[]);
}

#[test]
fn a_full_disk_leaves_the_file_as_it_was() {
    let Some(mount) = Mount::new(FsKind::Ext4, 16 << 20) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (catalog, copy) = (folder.path().join("c.db"), folder.path().join("copy"));
    let tree = mount.path().canonicalize().unwrap().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::create_dir(&copy).unwrap();
    let good = vec![5; 2 << 20];
    for folder in [&tree, &copy] {
        fs::write(folder.join("file"), &good).unwrap();
    }
    scrub(&catalog, &tree, &[]).clean();
    let path = tree.join("file");
    let mut bad = good.clone();
    bad[77] = 6;
    let time = path.metadata().unwrap().modified().unwrap();
    fs::write(&path, &bad).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    scrub(&catalog, &tree, &[]);
    let rest = vec![1; 1 << 20];
    let mut fillers = 0;
    while fs::write(mount.path().join(format!("filler{fillers}")), &rest).is_ok() {
        fillers += 1;
    }
    let keep = mount.path().join("bad");
    let options = ["--from", copy.to_str().unwrap(), "--keep-bad", keep.to_str().unwrap()];
    let ended = repair(&catalog, &tree, &options);
    became(&ended, 1, &[("failed", &path)]);
    assert!(ended.out().contains("No space left on device"), "{}", ended.out());
    assert_eq!(fs::read(&path).unwrap(), bad);
    assert_eq!(fs::read_dir(&tree).unwrap().count(), 1);
    fs::remove_file(mount.path().join("filler0")).unwrap();
    fs::remove_file(mount.path().join("filler1")).unwrap();
    fs::remove_file(mount.path().join("filler2")).unwrap();
    became(&repair(&catalog, &tree, &options), 0, &[("repaired", &path)]);
    assert_eq!(fs::read(&path).unwrap(), good);
    check(&catalog);
}

/// How often a repair is killed; `TEST_KILLS` sets another number.
const KILLS: u32 = 40;

#[test]
fn killed_at_any_moment_a_repair_leaves_old_or_new_and_the_next_one_ends_it() {
    let names: Vec<String> = (0..40).map(|number| format!("f{number}")).collect();
    let text = "good ".repeat(20_000);
    let files: Vec<(&[u8], &str)> = names.iter().map(|name| (name.as_bytes(), text.as_str())).collect();
    let trees = Trees::new(&files);
    let bad = text.replace("good ", "evil ");
    let kills = std::env::var("TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let mut random = 4321_u32;
    for round in 0..kills {
        for name in &names {
            let path = trees.path("tree").join(name);
            if fs::read(&path).unwrap() == text.as_bytes() {
                change_and_restore_time(&path, &bad);
            }
        }
        trees.scrub();
        let mut repair = command(VERISUM);
        repair.arg("repair").arg("--catalog").arg(trees.catalog()).arg("--from").arg(trees.path("copy"));
        let mut child = start(repair.arg("--keep-bad").arg(trees.path("bad")).arg(trees.path("tree")));
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(Duration::from_micros(u64::from(random >> 14)));
        child.kill().unwrap();
        child.wait().unwrap();
        check(&trees.catalog());
        for name in &names {
            let found = fs::read(trees.path("tree").join(name)).unwrap();
            assert!(found == text.as_bytes() || found == bad.as_bytes(), "round {round}: {name}");
        }
        fs::remove_dir_all(trees.path("bad")).ok();
    }
    trees.scrub();
    let ended = trees.repair(&[]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    for name in &names {
        assert_eq!(fs::read(trees.path("tree").join(name)).unwrap(), text.as_bytes());
    }
}

/// Where a kill meets the moment between the exchange of two files and what the catalogue is told of it.
#[test]
fn what_a_killed_repair_left_is_no_file_of_the_tree_and_the_next_repair_removes_it() {
    let trees = Trees::new(&[(b"a", "good"), (b"b", "well")]);
    let (path, from) = (trees.path("tree").join("a"), trees.path("copy").join("a"));
    change_and_restore_time(&path, "evil");
    assert_eq!(trees.scrub().code, Some(1));
    let [left, of_one_that_runs, somebodys] =
        [format!("{}-0", i32::MAX), format!("{}-0", std::process::id()), "0-notes".to_string()]
            .map(|name| trees.path("tree").join(format!(".verisum-repair-{name}")));
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    fs::rename(&path, &left).unwrap();
    fs::copy(&left, &of_one_that_runs).unwrap();
    fs::copy(&left, &somebodys).unwrap();
    fs::copy(&from, &path).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();

    for options in [&["--dry-run"][..], &[]] {
        assert_eq!(trees.repair(options).code, Some(0));
        assert!(left.exists(), "somebody may have written it, and nothing else has it");
    }
    fs::create_dir(trees.path("bad")).unwrap();
    fs::hard_link(&left, trees.path("bad/a")).unwrap();
    assert_eq!(trees.scrub().code, Some(0));
    change_and_restore_time(&path, "evil");
    trees.scrub();
    fs::copy(&from, &path).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    let ended = trees.repair(&[]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().contains("1 as recorded now"), "{}", ended.out());
    assert!(!left.exists() && of_one_that_runs.exists() && somebodys.exists());
    trees.scrub().clean();
    check(&trees.catalog());
}

#[test]
fn a_host_is_a_source_too() {
    let Some(server) = sshd("") else { return };
    let [here, there] = ["here", "there"].map(|name| server.path(name));
    for folder in [&here, &there] {
        fs::create_dir(folder).unwrap();
        for (name, text) in [("a", "one"), ("b'\n", "two")] {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    // Times of whole seconds tell nothing of a file; when it was made does.
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(here.join("a")).unwrap().set_modified(old).unwrap();
    let here = here.canonicalize().unwrap();
    let catalog = server.path("catalog.db");
    scrub(&catalog, &here, &[]).clean();
    change_and_restore_time(&here.join("a"), "bad");
    fs::remove_file(here.join("b'\n")).unwrap();
    scrub(&catalog, &here, &[]);
    let mut repair = server.remote("repair");
    repair.arg("--catalog").arg(&catalog).arg("--from").arg(format!("web1:{}", there.display()));
    let ended = server.run(repair.arg("--keep-bad").arg(server.path("bad")).arg(&here));
    assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
    assert_eq!(content(&here), content(&there));
    assert!(ended.out().contains("from ssh://web1/"), "{}", ended.out());
    // One that cannot be reached is named, and nothing is lost.
    change_and_restore_time(&here.join("a"), "bad");
    scrub(&catalog, &here, &[]);
    let mut repair = server.remote("repair");
    repair.arg("--catalog").arg(&catalog).args(["--from", "nowhere.invalid:/x", "--keep-bad"]);
    let ended = server.run(repair.arg(server.path("bad")).arg(&here));
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().contains("no-source") && ended.out().contains("nowhere.invalid"), "{}", ended.out());
    assert_eq!(fs::read(here.join("a")).unwrap(), b"bad");
}

/// What the catalogue of a copy knows by its content is found there, whatever its name.
#[test]
fn a_renamed_copy_is_found_by_the_catalogue_of_the_copy() {
    let trees = Trees::new(&[(b"a", "first"), (b"in/b", "second")]);
    let (tree, copy, other) = (trees.path("tree"), trees.path("copy"), trees.path("other.db"));
    fs::create_dir(copy.join("else where")).unwrap();
    fs::rename(copy.join("a"), copy.join("else where/A")).unwrap();
    fs::rename(copy.join("in/b"), copy.join("else where/B")).unwrap();
    scrub(&other, &copy, &[]).clean();
    let list = trees.path("list");
    fs::write(&list, verisum([s("sum"), s("-r"), "--".into(), tree.clone()]).clean()).unwrap();
    change_and_restore_time(&tree.join("a"), "wrong");
    fs::remove_file(tree.join("in/b")).unwrap();
    trees.scrub();
    assert_eq!(trees.repair(&["--dry-run"]).code, Some(1));
    let known = ["--from-catalog", other.to_str().unwrap()];
    let repaired = trees.repair(&known);
    assert_eq!(repaired.code, Some(0), "{}", repaired.out());
    assert_eq!(repaired.out().matches("copy/else where/").count(), 2, "{}", repaired.out());
    let good = |name: &str| fs::read_to_string(tree.join(name)).unwrap();
    assert_eq!((good("a").as_str(), good("in/b").as_str()), ("first", "second"));
    // What it says is not believed.
    fs::write(copy.join("else where/A"), "FIRST").unwrap();
    change_and_restore_time(&tree.join("a"), "wrong");
    fs::remove_file(tree.join("in/b")).unwrap();
    let bad = trees.path("bad");
    let by_list =
        [&["--sums", list.to_str().unwrap(), "--keep-bad", bad.to_str().unwrap()], &known[..]].concat();
    let ended = repair_by(&tree, &copy, &by_list);
    assert_eq!(good("in/b"), "second", "{}{}", ended.out(), ended.stderr);
    assert!(ended.out().contains("else where/A: different content"), "{}", ended.out());
    assert_eq!(good("a"), "wrong");
    // One that was made on the host of the copy knows it by its path there.
    fs::remove_file(tree.join("in/b")).unwrap();
    if let Some(server) = sshd("") {
        let there = server.path("there");
        fs::rename(&copy, &there).unwrap();
        let of_host = server.path("host.db");
        scrub(&of_host, &there, &[]).clean();
        let mut repair = server.remote("repair");
        repair.arg("--sums").arg(&list).arg("--from-catalog").arg(of_host).arg("--from");
        let ended = server.run(repair.arg(format!("web1:{}", there.display())).arg(&tree));
        assert_eq!(good("in/b"), "second", "{}{}", ended.out(), ended.stderr);
    }
    let ended = repair_by(&tree, &tree, &[&["--sums", list.to_str().unwrap()], &known[..]].concat());
    refused(&ended, 3, "it knows none of the copies");
}

/// A random model of damage and sources says beforehand what can be mended.
#[test]
fn exactly_what_a_source_has_is_mended() {
    let mut random = 99_u32;
    let mut draw = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) % below
    };
    for _ in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let [tree, one, two] = ["tree", "one", "two"].map(|name| top.join(name));
        let catalog = top.join("c.db");
        let names: Vec<OsString> = (0..30_u8)
            .map(|number| OsString::from_vec(vec![b'n', number.wrapping_mul(37) | 0x80, b'a' + number % 26]))
            .collect();
        let text = |name: &OsStr| format!("content of {name:?}");
        for folder in [&tree, &one, &two] {
            fs::create_dir(folder).unwrap();
            for name in &names {
                fs::write(folder.join(name), text(name)).unwrap();
            }
        }
        scrub(&catalog, &tree, &[]).clean();
        let mut expected = BTreeMap::new();
        for name in &names {
            let mut sources = 0;
            for source in [&one, &two] {
                match draw(3) {
                    0 => fs::remove_file(source.join(name)).unwrap(),
                    1 => fs::write(source.join(name), "something else").unwrap(),
                    _ => sources += 1,
                }
            }
            let path = tree.join(name);
            let damage = draw(3);
            match damage {
                0 => fs::remove_file(&path).unwrap(),
                1 => change_and_restore_time(&path, &text(name).replace('c', "k")),
                _ => {}
            }
            if damage == 2 || sources > 0 {
                expected.insert(PathBuf::from(name), text(name).into_bytes());
            } else if damage == 1 {
                expected.insert(name.into(), text(name).replace('c', "k").into_bytes());
            }
        }
        scrub(&catalog, &tree, &[]);
        let (one, two, bad) = (one.to_str().unwrap(), two.to_str().unwrap(), top.join("bad"));
        let bad = bad.to_str().unwrap();
        repair(&catalog, &tree, &["--from", one, "--from", two, "--keep-bad", bad, "-q"]);
        assert_eq!(content(&tree), expected);
        check(&catalog);
    }
}

#[test]
fn a_place_that_is_trusted_is_the_record() {
    let trees = Trees::new(&[(b"a", "one"), (b"sub/b", "two"), (b"sub/c", "three")]);
    let path = |name: &str| trees.path("tree").join(name);
    fs::write(path("a"), "evil").unwrap();
    fs::remove_file(path("sub/b")).unwrap();
    fs::write(path("own"), "mine").unwrap();
    let run = |words: &[&str]| {
        let mut repair = command(VERISUM);
        repair.arg("repair").arg("--trust").arg(trees.path("copy")).args(words).arg(trees.path("tree"));
        repair.env("XDG_STATE_HOME", trees.path("state"));
        Ended::of(repair.output().unwrap())
    };
    // What is there may be meant.
    let careful = run(&[]);
    assert_eq!(careful.code, Some(1), "{}{}", careful.out(), careful.stderr);
    assert!(careful.out().contains("--keep-bad DIR repairs it"), "{}", careful.out());
    assert_eq!(fs::read(path("a")).unwrap(), b"evil");
    let bad = trees.path("bad");
    run(&["--keep-bad", bad.to_str().unwrap()]).clean();
    for (name, content) in [("a", "one"), ("sub/b", "two"), ("sub/c", "three"), ("own", "mine")] {
        assert_eq!(fs::read(path(name)).unwrap(), content.as_bytes(), "{name}");
    }
    assert_eq!(fs::read(bad.join("a")).unwrap(), b"evil");
    let both = run(&["--tags"]);
    assert_eq!(both.code, Some(2), "{}", both.stderr);
    // What could not be read is not said to need no repair, neither of a place nor of a list.
    fs::remove_dir_all(trees.path("copy")).unwrap();
    fs::create_dir(trees.path("copy")).unwrap();
    let empty = run(&[]);
    assert_eq!((empty.code, empty.out()), (Some(3), "1 not compared\n"), "{}", empty.stderr);
    assert!(
        empty.stderr.ends_with("copy: no files: its file system may not be mounted\n"),
        "{}",
        empty.stderr
    );
    fs::remove_dir(trees.path("copy")).unwrap();
    let nowhere = run(&[]);
    assert_eq!((nowhere.code, nowhere.out()), (Some(3), "1 not compared\n"), "{}", nowhere.stderr);
    let [list, tree] = ["SUMS", "tree"].map(|name| trees.path(name).to_str().unwrap().to_string());
    fs::write(&list, format!("SHA256 (../a) = {}\n", "0".repeat(64))).unwrap();
    let refused = repair_by(Path::new(&tree), Path::new(&tree), &["--sums", &list]);
    assert_eq!((refused.code, refused.out()), (Some(3), "1 not compared\n"), "{}", refused.stderr);
}

#[test]
fn the_first_useless_lines_of_a_list_are_told() {
    let trees = Trees::new(&[(b"a", "text")]);
    let [list, tree, copy] = ["SUMS", "tree", "copy"].map(|name| trees.path(name));
    fs::write(&list, format!("SHA256 (../a) = {}\n", "0".repeat(64)).repeat(1003)).unwrap();
    let list = list.to_str().unwrap();
    let compare = |options: &[&str]| {
        let mut arguments = vec![s("compare"), s("--sums"), list.into()];
        arguments.extend(options.iter().map(PathBuf::from));
        verisum([&arguments[..], &[tree.clone(), copy.clone()]].concat())
    };
    let repair = |options: &[&str]| repair_by(&tree, &copy, &[&["--sums", list], options].concat());
    for ended in [compare(&[]), repair(&[])] {
        let told = ended.stderr.matches(": the file is outside the directory\n").count();
        let more = format!("verisum: {list}: ... and 3 more (--verbose tells why)\n");
        assert!(told == 1000 && ended.stderr.contains(&more), "{told}: {}", ended.stderr);
    }
    for ended in [compare(&["--verbose"]), repair(&["--verbose"])] {
        let told = ended.stderr.matches(": the file is outside the directory\n").count();
        assert!(told == 1003 && !ended.stderr.contains("tells why"), "{told}: {}", ended.stderr);
    }
}
