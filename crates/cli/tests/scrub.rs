//! `verisum scrub`, `accept` and `catalog`: what each thing that happens to a tree is called, and what
//! becomes of its record.

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ended, verisum};
use tempfile::TempDir;
use verisum_testkit::{FsKind, Mount, require_tool};

/// A tree in a folder of its own, and its catalogue beside it.
struct Tree {
    folder: TempDir,
}

impl Tree {
    fn new() -> Tree {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("tree/below")).unwrap();
        let tree = Tree { folder };
        for number in 0..10 {
            fs::write(tree.path(&format!("f{number}")), format!("content {number}")).unwrap();
        }
        fs::write(tree.path("below/deep"), "deep content").unwrap();
        tree
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("tree")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    fn catalog(&self) -> PathBuf {
        self.folder.path().join("c.db")
    }

    fn scrub(&self, options: &[&str]) -> Ended {
        scrub(&self.catalog(), &self.root(), options)
    }

    fn accept(&self, path: &Path) -> Ended {
        verisum([s("accept"), s("--catalog"), self.catalog(), path.into()])
    }
}

fn s(text: &str) -> PathBuf {
    text.into()
}

fn scrub(catalog: &Path, root: &Path, options: &[&str]) -> Ended {
    let mut arguments = vec![s("scrub"), s("--catalog"), catalog.into()];
    arguments.extend(options.iter().map(PathBuf::from));
    arguments.push(root.into());
    verisum(arguments)
}

fn check(catalog: &Path) {
    let ended = verisum([s("catalog"), s("check"), s("--catalog"), catalog.into()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Changes bytes without a trace in the file's time of modification.
fn change_and_restore_time(path: &Path, content: &str) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, content).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Asserts the exit code and that these lines are printed, each by its first two words.
#[track_caller]
fn expect(ended: &Ended, code: i32, lines: &[(&str, &Path)]) {
    let out = String::from_utf8_lossy(&ended.stdout);
    let mut found: Vec<(&str, &str)> = out
        .lines()
        .filter(|line| !line.starts_with(' ') && !line.contains(" files, ") && !line.contains(" file, "))
        .map(|line| line.split_once(char::is_whitespace).unwrap())
        .map(|(verdict, rest)| (verdict, rest.trim_start().split("  (").next().unwrap()))
        .collect();
    let mut wanted: Vec<(&str, &str)> =
        lines.iter().map(|(verdict, path)| (*verdict, path.to_str().unwrap())).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{out}{}", ended.stderr);
    assert_eq!(ended.code, Some(code), "{out}{}", ended.stderr);
}

#[test]
fn each_change_has_its_name() {
    let tree = Tree::new();
    expect(&tree.scrub(&[]), 0, &[]);
    fs::write(tree.path("f0"), "other content").unwrap();
    File::options().write(true).open(tree.path("f1")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::rename(tree.path("f2"), tree.path("below/moved")).unwrap();
    fs::remove_file(tree.path("f3")).unwrap();
    change_and_restore_time(&tree.path("f4"), "CONTENT 4");
    fs::write(tree.path("f10"), "new content").unwrap();
    let ended = tree.scrub(&["--verbose"]);
    let lines: [(&str, &Path); 6] = [
        ("modified", &tree.path("f0")),
        ("touched", &tree.path("f1")),
        ("moved", &tree.path("below/moved")),
        ("missing", &tree.path("f3")),
        ("suspicious", &tree.path("f4")),
        ("new", &tree.path("f10")),
    ];
    expect(&ended, 1, &lines);
    // What changed is recorded, what is bad stays bad, and what is missing was told.
    expect(&tree.scrub(&["--verbose"]), 1, &[("suspicious", &tree.path("f4"))]);
    check(&tree.catalog());
}

#[test]
fn a_bad_file_stays_bad_until_it_is_restored_or_accepted() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let (one, two) = (tree.path("f1"), tree.path("f2"));
    change_and_restore_time(&one, "CONTENT 1");
    change_and_restore_time(&two, "CONTENT 2");
    let bad: [(&str, &Path); 2] = [("suspicious", &one), ("suspicious", &two)];
    expect(&tree.scrub(&[]), 1, &bad);
    // A new time of modification makes nothing better.
    File::options().write(true).open(&one).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    expect(&tree.scrub(&["--quiet"]), 1, &bad);
    fs::write(&one, "content 1").unwrap();
    expect(&tree.scrub(&[]), 1, &[("touched", &one), ("suspicious", &two)]);
    let accepted = tree.accept(&two).clean();
    assert!(accepted.contains("sha256") && accepted.contains("recorded"), "{accepted}");
    assert_eq!(tree.scrub(&["--quiet"]).clean(), "");
    assert_eq!(tree.accept(&two).code, Some(3));
    check(&tree.catalog());
}

#[test]
fn a_new_name_makes_nothing_better() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    // Bad before it is renamed, and bad by the time it is.
    let (one, two, three) = (tree.path("f1"), tree.path("f2"), tree.path("f3"));
    change_and_restore_time(&one, "CONTENT 1");
    expect(&tree.scrub(&[]), 1, &[("suspicious", &one)]);
    change_and_restore_time(&two, "CONTENT 2");
    fs::rename(&one, tree.path("one")).unwrap();
    fs::rename(&two, tree.path("two")).unwrap();
    let bad: [(&str, &Path); 2] = [("suspicious", &tree.path("one")), ("suspicious", &tree.path("two"))];
    expect(&tree.scrub(&[]), 1, &bad);
    expect(&tree.scrub(&[]), 1, &bad);
    // Nor does it help to be gone for a while.
    change_and_restore_time(&three, "CONTENT 3");
    tree.scrub(&[]);
    fs::remove_file(&three).unwrap();
    tree.scrub(&[]);
    fs::write(&three, "other").unwrap();
    expect(&tree.scrub(&[]), 1, &[bad[0], bad[1], ("suspicious", &three)]);
    tree.accept(&tree.root()).clean();
    assert_eq!(tree.scrub(&["--quiet"]).clean(), "");
    check(&tree.catalog());
}

#[test]
fn a_bad_file_that_is_renamed_stays_bad() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    for number in 1..=4 {
        change_and_restore_time(&tree.path(&format!("f{number}")), &format!("CONTENT {number}"));
    }
    let bad = |names: [&str; 4]| names.map(|name| ("suspicious", tree.path(name)));
    let expect_bad = |ended: &Ended, names: [&str; 4], more: &[(&str, &Path)]| {
        let bad = bad(names);
        let mut lines: Vec<(&str, &Path)> = bad.iter().map(|(word, path)| (*word, path.as_path())).collect();
        lines.extend(more);
        expect(ended, 1, &lines);
    };
    expect_bad(&tree.scrub(&[]), ["f1", "f2", "f3", "f4"], &[]);
    // Renamed, renamed to another directory, copied with another time, and gone.
    fs::rename(tree.path("f1"), tree.path("g1")).unwrap();
    fs::rename(tree.path("f2"), tree.path("below/g2")).unwrap();
    fs::copy(tree.path("f3"), tree.path("g3")).unwrap();
    fs::remove_file(tree.path("f3")).unwrap();
    fs::remove_file(tree.path("f4")).unwrap();
    let ended = tree.scrub(&["-v"]);
    expect_bad(&ended, ["g1", "below/g2", "g3", "f4"], &[]);
    assert!(ended.out().contains(&format!("from {}", tree.path("f1").display())), "{}", ended.out());
    // So it stays, whatever is done to it but to restore it.
    fs::rename(tree.path("g1"), tree.path("h1")).unwrap();
    expect_bad(&tree.scrub(&["-v"]), ["h1", "below/g2", "g3", "f4"], &[]);
    check(&tree.catalog());
    fs::write(tree.path("below/g2"), "content 2").unwrap();
    fs::write(tree.path("new"), "content 4").unwrap();
    let ended = tree.scrub(&["-v"]);
    let (restored, new) = (tree.path("below/g2"), tree.path("new"));
    expect(
        &ended,
        1,
        &[
            ("suspicious", &tree.path("h1")),
            ("suspicious", &tree.path("g3")),
            ("touched", &restored),
            ("moved", &new),
        ],
    );
    tree.accept(&tree.root()).clean();
    assert_eq!(tree.scrub(&["--quiet"]).clean(), "");
    check(&tree.catalog());
}

#[test]
fn a_bad_file_that_is_renamed_into_another_part_of_its_tree_stays_bad() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let (one, two) = (tree.path("f1"), tree.path("f2"));
    change_and_restore_time(&one, "CONTENT 1");
    change_and_restore_time(&two, "CONTENT 2");
    expect(&tree.scrub(&[]), 1, &[("suspicious", &one), ("suspicious", &two)]);
    let (renamed, below) = (tree.path("below/one"), tree.path("below"));
    fs::rename(&one, &renamed).unwrap();
    // Only the part that it is in now is looked at.
    expect(&scrub(&tree.catalog(), &below, &["-v"]), 1, &[("suspicious", &renamed)]);
    expect(&scrub(&tree.catalog(), &below, &["-v"]), 1, &[("suspicious", &renamed)]);
    expect(&tree.scrub(&["-v"]), 1, &[("suspicious", &renamed), ("suspicious", &two)]);
    // New files get another digest now, which the record does not have.
    let other = tree.path("below/two");
    fs::rename(&two, &other).unwrap();
    for _ in 0..2 {
        let ended = tree.scrub(&["-v", "--algorithm", "md5"]);
        expect(&ended, 1, &[("suspicious", &renamed), ("suspicious", &other)]);
    }
    fs::write(&other, "content 2").unwrap();
    expect(&tree.scrub(&["-v"]), 1, &[("suspicious", &renamed), ("touched", &other)]);
    check(&tree.catalog());
}

#[test]
fn a_file_that_rotted_and_was_renamed_is_found_where_only_its_new_place_is_scrubbed() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let below = tree.path("below");
    change_and_restore_time(&tree.path("f1"), "CONTENT 1");
    change_and_restore_time(&tree.path("f3"), "CONTENT 3");
    let (bad, good, link) = (tree.path("below/one"), tree.path("below/two"), tree.path("below/link"));
    fs::rename(tree.path("f1"), &bad).unwrap();
    fs::rename(tree.path("f2"), &good).unwrap();
    // The bad file has its old name still.
    fs::hard_link(tree.path("f3"), &link).unwrap();
    fs::hard_link(tree.path("f4"), tree.path("below/healthy")).unwrap();
    let ended = scrub(&tree.catalog(), &below, &["-v"]);
    let lines: [(&str, &Path); 4] =
        [("suspicious", &bad), ("moved", &good), ("suspicious", &link), ("new", &tree.path("below/healthy"))];
    expect(&ended, 1, &lines);
    expect(&tree.scrub(&["-v"]), 1, &[lines[0], lines[2], ("suspicious", &tree.path("f3"))]);
    check(&tree.catalog());
}

#[test]
fn all_names_of_a_bad_file_are_bad() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    change_and_restore_time(&tree.path("f1"), "CONTENT 1");
    fs::hard_link(tree.path("f1"), tree.path("a1")).unwrap();
    fs::hard_link(tree.path("f1"), tree.path("below/z1")).unwrap();
    let bad = ["f1", "a1", "below/z1"].map(|name| tree.path(name));
    let bad: Vec<(&str, &Path)> = bad.iter().map(|path| ("suspicious", path.as_path())).collect();
    for _ in 0..2 {
        expect(&tree.scrub(&["-v"]), 1, &bad);
    }
    // Once it is restored, all of them are.
    fs::write(tree.path("f1"), "content 1").unwrap();
    let restored: Vec<(&str, &Path)> = bad.iter().map(|(_, path)| ("touched", *path)).collect();
    expect(&tree.scrub(&[]), 0, &restored);
    check(&tree.catalog());
}

#[test]
fn other_files_that_get_the_inodes_of_lost_ones_are_not_accused() {
    let tree = Tree::new();
    let write = |name: &str, content: &str| {
        fs::write(tree.path(name), content).unwrap();
        let file = File::options().write(true).open(tree.path(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    (0..3).for_each(|number| write(&format!("old{number}"), &format!("one {number}")));
    tree.scrub(&[]).clean();
    // What was lost was emptied, which says nothing of another empty file.
    change_and_restore_time(&tree.path("f2"), "");
    expect(&tree.scrub(&[]), 1, &[("suspicious", &tree.path("f2"))]);
    fs::remove_file(tree.path("f2")).unwrap();
    (0..3).for_each(|number| fs::remove_file(tree.path(&format!("old{number}"))).unwrap());
    (0..3).for_each(|number| write(&format!("new{number}"), &format!("two {number}")));
    fs::write(tree.path("empty"), "").unwrap();
    let names = ["empty", "new0", "new1", "new2"].map(|name| tree.path(name));
    let lost = ["old0", "old1", "old2"].map(|name| tree.path(name));
    let mut lines: Vec<(&str, &Path)> = names.iter().map(|path| ("new", path.as_path())).collect();
    lines.extend(lost.iter().map(|path| ("missing", path.as_path())));
    let f2 = tree.path("f2");
    lines.push(("suspicious", &f2));
    expect(&tree.scrub(&["-v"]), 1, &lines);
}

#[test]
fn many_missing_files_are_some_names_and_a_number() {
    let tree = Tree::new();
    for number in 0..30 {
        fs::write(tree.path(&format!("below/g{number}")), format!("more {number}")).unwrap();
    }
    tree.scrub(&[]).clean();
    for number in 0..15 {
        fs::remove_file(tree.path(&format!("below/g{number}"))).unwrap();
    }
    let copy = tree.folder.path().join("copy.db");
    fs::copy(tree.catalog(), &copy).unwrap();
    let out = tree.scrub(&[]).clean();
    assert_eq!(out.lines().filter(|line| line.starts_with("missing ")).count(), 10, "{out}");
    assert!(out.contains("\n... and 5 more missing (--verbose names all)\n"), "{out}");
    let out = scrub(&copy, &tree.root(), &["-v"]).clean();
    assert_eq!(out.lines().filter(|line| line.starts_with("missing ")).count(), 15, "{out}");
    // What the runs were is told in words.
    let out = verisum([s("catalog"), s("status"), s("--catalog"), tree.catalog()]).clean();
    assert!(out.contains(" read 26 files, ") && out.contains("; ok 26, missing 15\n"), "{out}");
    assert!(!out.contains('{'), "{out}");
    let ended = tree.accept(&tree.folder.path().canonicalize().unwrap());
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("it is above a tree of the catalogue"), "{}", ended.stderr);
}

#[test]
fn files_that_went_in_an_alarm_are_held_too() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    for number in 0..4 {
        fs::remove_file(tree.path(&format!("f{number}"))).unwrap();
        fs::write(tree.path(&format!("f{number}.enc")), "encrypted").unwrap();
    }
    for _ in 0..2 {
        let ended = tree.scrub(&["--alarm-changed", "20%"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    }
    tree.accept(&tree.root()).clean();
    assert_eq!(tree.scrub(&["--quiet"]).clean(), "");
    check(&tree.catalog());
}

#[test]
fn a_directory_that_is_gone_leaves_its_files_missing() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    fs::remove_dir_all(tree.path("below")).unwrap();
    expect(&tree.scrub(&[]), 0, &[("missing", &tree.path("below/deep"))]);
    let ended = tree.scrub(&["--archive"]);
    assert_eq!((ended.code, ended.out().contains("missing since earlier 1")), (Some(1), true));
    let ended = tree.scrub(&["--archive", "--nagios"]);
    assert!(ended.out().contains(", 1 missing, archive | "), "{}", ended.out());
    // Each run names it.
    expect(&tree.scrub(&["--archive", "--quiet"]), 1, &[("missing", &tree.path("below/deep"))]);
    tree.accept(&tree.root()).clean();
    assert_eq!(tree.scrub(&["--archive", "--quiet"]).clean(), "");
}

#[test]
fn in_an_archive_modified_files_are_not_taken_over() {
    let tree = Tree::new();
    tree.scrub(&["--archive"]).clean();
    let digest = |export: &str| -> String {
        let line = export.lines().find(|line| line.contains("\"f1\"")).unwrap();
        line.split("\"digest\":").nth(1).unwrap().split(',').next().unwrap().to_string()
    };
    let before = digest(&export(&tree.catalog()));
    let path = tree.path("f1");
    fs::write(&path, "tampered with").unwrap();
    let modified: [(&str, &Path); 1] = [("modified", &path)];
    // Also in a run that does not know that it is an archive.
    for options in [&["--archive", "-q"][..], &["--archive", "-q"], &["-q"]] {
        expect(&tree.scrub(options), 1, &modified);
    }
    assert_eq!(digest(&export(&tree.catalog())), before, "the record stays");
    fs::write(&path, "content 1").unwrap();
    expect(&tree.scrub(&["--archive"]), 0, &[("touched", &path)]);
    fs::write(&path, "meant").unwrap();
    expect(&tree.scrub(&["--archive"]), 1, &modified);
    tree.accept(&path).clean();
    assert_eq!(tree.scrub(&["--archive", "--quiet"]).clean(), "");
    check(&tree.catalog());
}

#[test]
fn nothing_is_written_over_the_catalogue() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let catalog = tree.catalog();
    let before = export(&catalog);
    for end in ["", "-wal", "-shm", ".lock"] {
        let own = PathBuf::from(format!("{}{end}", catalog.display()));
        let exported =
            verisum([s("catalog"), s("export"), s("--catalog"), catalog.clone(), s("-o"), own.clone()]);
        let backup = verisum([s("catalog"), s("backup"), s("--catalog"), catalog.clone(), own.clone()]);
        let figures = tree.scrub(&["-q", &format!("--prometheus={}", own.display())]);
        for ended in [exported, backup, figures] {
            assert_eq!(ended.code, Some(3), "{}", ended.stderr);
            assert!(ended.stderr.contains("write: it belongs to the catalogue"), "{}", ended.stderr);
        }
    }
    assert_eq!(export(&catalog), before);
    let file = tree.folder.path().join("export");
    verisum([s("catalog"), s("export"), s("--catalog"), catalog.clone(), s("-o"), file.clone()]).clean();
    assert_eq!(fs::read_to_string(file).unwrap(), before);
    check(&catalog);
    // An emptied one is not sound, and not filled again.
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{end}", catalog.display()));
    }
    File::create(&catalog).unwrap();
    let ended = verisum([s("catalog"), s("check"), s("--catalog"), catalog.clone()]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(tree.scrub(&[]).code, Some(3));
    assert_eq!(fs::metadata(&catalog).unwrap().len(), 0);
}

#[test]
fn an_emptied_directory_is_not_overlooked() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    fs::remove_file(tree.path("below/deep")).unwrap();
    expect(&tree.scrub(&[]), 0, &[("missing", &tree.path("below/deep"))]);
    fs::write(tree.path("below/deep"), "deep content").unwrap();
    expect(&tree.scrub(&["-v"]), 0, &[("touched", &tree.path("below/deep"))]);
}

#[test]
fn too_many_changes_are_not_taken_over() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let before = export(&tree.catalog());
    for number in 0..4 {
        fs::write(tree.path(&format!("f{number}")), "encrypted").unwrap();
    }
    let ended = tree.scrub(&["--alarm-changed", "20%"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("ALARM: 4 of 11 files"), "{}", ended.stderr);
    let accept = format!("`verisum accept {}`", tree.root().display());
    assert!(ended.stderr.contains(&accept), "{}", ended.stderr);
    let held = |line: &&str| line.starts_with("modified ") && line.contains("held until it is accepted");
    assert_eq!(ended.out().lines().filter(held).count(), 4, "{}", ended.out());
    let digests = |export: &str| -> Vec<String> {
        let digest = |line: &str| line.split("\"digest\":\"").nth(1).map(|rest| rest[..64].to_string());
        export.lines().filter_map(digest).collect()
    };
    assert_eq!(digests(&export(&tree.catalog())), digests(&before), "good records are kept");
    // They wait, also in a run without an alarm.
    let ended = tree.scrub(&[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let file = tree.folder.path().join("verisum.prom");
    let ended = tree.scrub(&["--nagios", &format!("--prometheus={}", file.display())]);
    let line = ended.out();
    assert!(line.contains(", 4 changed files held until accepted | "), "{line}");
    assert!(line.contains(" held=4 "), "{line}");
    let figures = fs::read_to_string(&file).unwrap();
    let alarm = figures.lines().find(|line| line.starts_with("verisum_scrub_alarm{")).unwrap();
    assert!(alarm.ends_with(" 1"), "{alarm}");
    fs::write(tree.path("f0"), "content 0").unwrap();
    tree.accept(&tree.root()).clean();
    assert_eq!(tree.scrub(&["--quiet"]).clean(), "");
    check(&tree.catalog());
}

#[test]
fn of_many_held_files_some_are_named() {
    let tree = Tree::new();
    let more = |content: &str| {
        for number in 0..15 {
            fs::write(tree.path(&format!("m{number}")), content).unwrap();
        }
    };
    more("before");
    tree.scrub(&[]).clean();
    more("encrypted");
    let alarm = tree.scrub(&["--alarm-changed", "20%"]);
    assert!(
        alarm.out().contains("... and 5 more that changed or went (--verbose names all)"),
        "{}",
        alarm.out()
    );
    let named = |options: &[&str]| {
        let ended = tree.scrub(options);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        ended.out().lines().filter(|line| line.contains("modified ") && line.contains("/m")).count()
    };
    assert_eq!((named(&[]), named(&["--quiet"]), named(&["-v"])), (10, 10, 15));
    let ended = tree.scrub(&["--for", "0s"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("--for: 0s: must be above 0"), "{}", ended.stderr);
}

#[test]
fn any_name_is_recorded() {
    let tree = Tree::new();
    for name in [&b"new\nline"[..], b"\xff\xfe", b"-n", b"quote'\"", b"back\\slash", b" "] {
        let path = tree.root().join(std::ffi::OsStr::from_bytes(name));
        fs::write(path, name).unwrap();
    }
    tree.scrub(&[]).clean();
    assert_eq!(tree.scrub(&["--quiet"]).clean(), "");
    let exported = export(&tree.catalog());
    assert!(exported.contains("\"path_bytes_hex\":\"fffe\"") && exported.contains("new\\nline"));
    let file = tree.folder.path().join("export");
    fs::write(&file, &exported).unwrap();
    let copy = tree.folder.path().join("copy.db");
    verisum([s("catalog"), s("import"), s("--catalog"), copy.clone(), file]).clean();
    assert_eq!(export(&copy), exported);
    check(&copy);
    // With the imported records nothing is new.
    assert_eq!(scrub(&copy, &tree.root(), &["--quiet"]).clean(), "");
    let ended = verisum([s("scrub"), s("-v"), s("--catalog"), copy]);
    expect(&ended, 0, &[]);
}

#[test]
fn a_part_of_a_tree_is_scrubbed_alone() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    fs::remove_file(tree.path("f0")).unwrap();
    let ended = scrub(&tree.catalog(), &tree.path("below"), &["--json"]);
    assert!(ended.clean().contains("\"read_files\":1,"), "only what is below");
    expect(&tree.scrub(&[]), 0, &[("missing", &tree.path("f0"))]);
}

#[test]
fn figures_are_for_monitoring() {
    let tree = Tree::new();
    let file = tree.folder.path().join("verisum.prom");
    let prometheus = format!("--prometheus={}", file.display());
    tree.scrub(&["--quiet", &prometheus]).clean();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("verdict=\"new\"} 11\n"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(
            line.starts_with("verisum_scrub_") && line.rsplit(' ').next().unwrap().parse::<f64>().is_ok()
        );
    }
    let line = tree.scrub(&["--nagios"]).clean();
    assert!(line.starts_with("VERISUM OK - 11 files, 0 bad, 0 unchecked | files=11 "), "{line}");
    change_and_restore_time(&tree.path("f4"), "CONTENT 4");
    let ended = tree.scrub(&["--nagios"]);
    assert_eq!((ended.code, ended.out().starts_with("VERISUM CRITICAL - 11 files, 1 bad")), (Some(2), true));
    // Where there is nothing to say, Nagios is told so in its way too.
    let nowhere = scrub(&tree.catalog(), &tree.path("nowhere"), &["--nagios"]);
    assert_eq!((nowhere.code, nowhere.out().starts_with("VERISUM UNKNOWN - ")), (Some(3), true));
    let nothing = verisum([s("scrub"), s("--nagios"), s("--catalog"), tree.path("nowhere")]);
    assert_eq!((nothing.code, nothing.out().starts_with("VERISUM UNKNOWN - ")), (Some(3), true));
}

#[test]
fn what_is_left_out_stays_as_it_was_recorded() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let before = export(&tree.catalog());
    change_and_restore_time(&tree.path("f1"), "CONTENT 1");
    fs::remove_file(tree.path("f2")).unwrap();
    fs::remove_dir_all(tree.path("below")).unwrap();
    let patterns = tree.folder.path().join("patterns");
    fs::write(&patterns, "# none of these\n/f1\nbelow/\n").unwrap();
    let from = format!("--exclude-from={}", patterns.display());
    expect(&tree.scrub(&["-v", "--exclude", "f2", &from]), 0, &[]);
    let of = |text: &str, name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_string();
    let after = export(&tree.catalog());
    for name in ["\"f1\"", "\"f2\"", "below/deep"] {
        assert_eq!(of(&before, name), of(&after, name));
    }
    assert_ne!(of(&before, "\"f3\""), of(&after, "\"f3\""));
    let deep = tree.path("below/deep");
    let lines = [("suspicious", &*tree.path("f1")), ("missing", &tree.path("f2")), ("missing", &deep)];
    expect(&tree.scrub(&["-v"]), 1, &lines);
    tree.scrub(&["--exclude", "[z-a]"]).failed(2, "verisum: --exclude: [z-a]: invalid range; 'z' > 'a'");
}

#[test]
fn a_file_of_two_names_is_read_once() {
    let tree = Tree::new();
    fs::write(tree.path("big"), vec![7; 1 << 20]).unwrap();
    fs::hard_link(tree.path("big"), tree.path("below/same")).unwrap();
    for verdict in ["\"new\":13", "\"ok\":13"] {
        let out = tree.scrub(&["--json"]).clean();
        let summary = out.lines().last().unwrap();
        let bytes = (1 << 20) + 10 * 9 + 12;
        assert!(summary.contains(&format!("\"read_bytes\":{bytes},")), "{summary}");
        assert!(summary.contains("\"read_files\":13,") && summary.contains(verdict), "{summary}");
    }
    change_and_restore_time(&tree.path("big"), "changed");
    let lines = [("suspicious", &*tree.path("big")), ("suspicious", &tree.path("below/same"))];
    expect(&tree.scrub(&[]), 1, &lines);
}

#[test]
fn a_signal_ends_a_run_in_good_order() {
    let tree = Tree::new();
    for number in 0..200 {
        fs::write(tree.path(&format!("big{number}")), vec![number as u8; 50_000]).unwrap();
    }
    let mut arguments = vec![s("scrub"), s("--limit"), s("2MB/s"), s("--catalog"), tree.catalog()];
    arguments.push(tree.root());
    let child = common::start(common::command(common::VERISUM).args(&arguments));
    let pid = rustix::process::Pid::from_child(&child);
    // Not before it has recorded something.
    let log = tree.folder.path().join("c.db-wal");
    let recorded = || fs::read(&log).is_ok_and(|log| log.windows(4).any(|name| name == b"big1"));
    while !recorded() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(130), ""));
    assert!(ended.out().contains("interrupted: the next run goes on with it"), "{}", ended.out());
    let status = verisum([s("catalog"), s("status"), s("--catalog"), tree.catalog()]).clean();
    assert!(status.contains(": was interrupted, read "), "{status}");
    check(&tree.catalog());
    // What it did is not done again, and the rest is.
    let json = tree.scrub(&["--json", "--max-age", "90d"]).clean();
    let summary = json.lines().last().unwrap();
    assert!(summary.contains("\"complete\":true") && !summary.contains("\"read_files\":211,"), "{summary}");
    assert_eq!(export(&tree.catalog()).matches("\"ok\"").count(), 211);
}

#[test]
fn a_tree_in_a_tree_is_recorded_once() {
    let tree = Tree::new();
    scrub(&tree.catalog(), &tree.path("below"), &[]).clean();
    let both = tree.scrub(&[]).clean();
    assert!(both.contains("tree: 10 files") && both.contains("below: 1 file,"), "{both}");
    assert_eq!(export(&tree.catalog()).matches("\"type\":\"file\"").count(), 11);
    fs::remove_file(tree.path("below/deep")).unwrap();
    expect(&tree.scrub(&[]), 0, &[("missing", &tree.path("below/deep"))]);
}

#[test]
fn a_device_that_fails_is_left_alone() {
    let Some(bad) = verisum_testkit::fault::btrfs_bad_file() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (catalog, root) = (folder.path().join("c.db"), bad.mount.path().canonicalize().unwrap());
    expect(&scrub(&catalog, &root, &["--stop-after", "1"]), 3, &[("io-error", &root.join("bad"))]);
    for number in 0..5 {
        fs::write(root.join(format!("later{number}")), "x").unwrap();
    }
    // Whichever comes first, files that are given up are counted and not taken for missing.
    let ended = scrub(&catalog, &root, &["-t1", "--stop-after", "1"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(!ended.out().contains("missing"), "{}", ended.out());
    assert_eq!(scrub(&catalog, &root, &["--stop-after", "0"]).code, Some(3));
    assert_eq!(export(&catalog).matches("\"later").count(), 5);
}

#[test]
fn a_catalogue_that_cannot_be_written_is_refused() {
    if verisum_testkit::require_root().is_none() {
        return;
    }
    let Some(mount) = Mount::new(FsKind::Ext4, 16 << 20) else { return };
    let tree = Tree::new();
    let catalog = mount.path().join("c.db");
    scrub(&catalog, &tree.root(), &[]).clean();
    let status = Command::new("mount").args(["-o", "remount,ro"]).arg(mount.path()).status();
    assert!(status.unwrap().success());
    let ended = scrub(&catalog, &tree.root(), &[]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
    assert!(ended.stderr.contains("c.db"), "{}", ended.stderr);
}

#[test]
fn two_runs_never_overlap() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let lock = File::open(tree.folder.path().join("c.db.lock")).unwrap();
    lock.try_lock().unwrap();
    let name = tree.catalog().canonicalize().unwrap();
    let message = format!("verisum: {}: lock: another run uses this catalogue", name.display());
    tree.scrub(&[]).failed(3, &message);
}

#[test]
fn rot_on_a_disk_is_found() {
    let Some(mut mount) = Mount::new(FsKind::Ext4, 32 << 20) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (catalog, path) = (folder.path().join("c.db"), mount.path().canonicalize().unwrap().join("file"));
    let marker = b"verisum: these bytes are going to rot";
    let mut content = vec![7; 100_000];
    content[..marker.len()].copy_from_slice(marker);
    fs::write(&path, &content).unwrap();
    fs::write(mount.path().join("other"), "other").unwrap();
    assert_eq!(scrub(&catalog, &mount.path(), &[]).code, Some(0));
    let mut image = PathBuf::new();
    mount.edit_image(|file| {
        flip(file, marker);
        image = file.to_path_buf();
        // While nothing is mounted, nothing is missing.
        let ended = scrub(&catalog, file.parent().unwrap().join("mount").as_path(), &[]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert!(ended.stderr.contains("is it mounted?"), "{}", ended.stderr);
    });
    let ended = scrub(&catalog, &mount.path(), &[]);
    expect(&ended, 1, &[("rot", &path)]);
    assert!(ended.out().contains("second read past the page cache: the same"), "{}", ended.out());

    // The disk is good again, and the page cache is not: that is no rot.
    assert_ne!(fs::read(&path).unwrap(), content);
    flip(&image, &{
        let mut flipped = *marker;
        flipped[0] ^= 0x55;
        flipped
    });
    expect(&scrub(&catalog, &mount.path(), &[]), 1, &[("flaky", &path)]);
    expect(&scrub(&catalog, &mount.path(), &[]), 0, &[("ok", &path)]);
    check(&catalog);
}

#[test]
fn a_checksum_error_of_the_file_system_is_an_error_of_its_storage() {
    let Some(mut mount) = Mount::new(FsKind::Btrfs, 0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (catalog, path) = (folder.path().join("c.db"), mount.path().canonicalize().unwrap().join("file"));
    let marker = b"verisum: these bytes are going to rot";
    let mut content = vec![7; 100_000];
    content[..marker.len()].copy_from_slice(marker);
    fs::write(&path, &content).unwrap();
    assert_eq!(scrub(&catalog, &mount.path(), &[]).code, Some(0));
    mount.edit_image(|file| flip(file, marker));
    expect(&scrub(&catalog, &mount.path(), &[]), 3, &[("io-error", &path)]);
    // Restored from a backup.
    fs::write(&path, &content).unwrap();
    expect(&scrub(&catalog, &mount.path(), &["-v"]), 0, &[("touched", &path)]);
}

#[test]
fn a_file_that_is_written_to_all_the_time_is_busy() {
    let tree = Tree::new();
    let path = tree.path("log");
    fs::write(&path, vec![1; 32 << 20]).unwrap();
    tree.scrub(&[]).clean();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(&path).unwrap();
            for number in 0_u64.. {
                if done.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                file.write_all_at(&number.to_le_bytes(), 4096).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        });
        let ended = tree.scrub(&["--foreground"]);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        expect(&ended, 3, &[("busy", &path)]);
    });
    expect(&tree.scrub(&["-v"]), 0, &[("modified", &path)]);
}

/// Maps a file and, for each line of input, writes a byte into it and says so; at the end it brings the
/// file to the disk.
const MAPPED: &str = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
memory = mmap.mmap(file, 8192)
for number, line in enumerate(sys.stdin):
    memory[number] = 65 + number
    print('done', flush=True)
memory.flush()
";

#[test]
fn what_is_written_through_mapped_memory_is_no_rot() {
    let (Some(mount), Some(python)) = (Mount::new(FsKind::Ext4, 0), require_tool("python3")) else { return };
    let tree = Tree::new();
    let path = mount.path().join("data");
    for tagged in [false, true] {
        fs::write(&path, [7; 8192]).unwrap();
        let read = |verb: [&str; 2]| match tagged {
            true => verisum([s(verb[1]), path.clone()]),
            false => scrub(&tree.catalog(), &mount.path(), &["-v"]),
        };
        let mut child = Command::new(&python);
        child.args(["-c", MAPPED]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut store = || {
            to.write_all(b"\n").unwrap();
            from.read_line(&mut String::new()).unwrap();
        };
        // What is written after it was recorded goes into a page that was written to before.
        store();
        let ended = read(["", "tag"]);
        assert_eq!(ended.code, Some(0), "{}{}", ended.out(), ended.stderr);
        store();
        let ended = read(["", "verify"]);
        let word = if tagged { "data: modified" } else { "modified  " };
        assert!(ended.out().contains(word), "{}{}", ended.out(), ended.stderr);
        drop(to);
        child.wait().unwrap();
    }
}

#[test]
fn a_full_disk_under_the_catalogue_stops_the_run_and_harms_nothing() {
    let Some(mount) = Mount::new(FsKind::Tmpfs, 1 << 20) else { return };
    let tree = Tree::new();
    for number in 0..20_000 {
        fs::write(tree.path(&format!("below/a-file-with-some-name-{number}")), "x").unwrap();
    }
    let catalog = mount.path().join("c.db");
    let ended = scrub(&catalog, &tree.root(), &[]);
    assert_eq!(ended.code, Some(3), "{}{}", ended.out(), ended.stderr);
    assert!(ended.stderr.contains("no space left on device"), "{}", ended.stderr);
    check(&catalog);
}

#[test]
fn damage_to_the_catalogue_is_said_and_never_a_panic() {
    let tree = Tree::new();
    for number in 0..300 {
        fs::write(tree.path(&format!("below/{number}")), "x").unwrap();
    }
    tree.scrub(&[]).clean();
    let good = fs::read(tree.catalog()).unwrap();
    let catalog = tree.folder.path().join("bad.db");
    let run = |bytes: &[u8]| {
        fs::write(&catalog, bytes).unwrap();
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(tree.folder.path().join(format!("bad.db{end}")));
        }
        let ended = scrub(&catalog, &tree.root(), &["--quiet"]);
        assert!(matches!(ended.code, Some(0 | 1 | 3)), "{:?} {}", ended.code, ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        ended
    };
    for at in (0..good.len()).step_by(good.len() / 40) {
        let mut bad = good.clone();
        bad[at..].iter_mut().take(64).for_each(|byte| *byte ^= 0xa5);
        run(&bad);
    }
    let mut bad = good.clone();
    bad[..16].fill(0);
    let ended = run(&bad);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("bad.db: open: not a catalogue"), "{}", ended.stderr);
    let ended = run(&good[..good.len() / 2]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("damaged"), "{}", ended.stderr);
    let ended = verisum([s("catalog"), s("check"), s("--catalog"), catalog]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
}

#[test]
fn budgets_and_samples_leave_the_rest_for_later() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let read = |ended: Ended| -> u64 {
        let out = ended.clean();
        out.split("\"read_files\":").nth(1).unwrap().split(',').next().unwrap().parse().unwrap()
    };
    assert_eq!(read(tree.scrub(&["--json", "--max-age", "90d"])), 0);
    assert_eq!(read(tree.scrub(&["--json", "--since", "1d"])), 0);
    assert_eq!(read(tree.scrub(&["--json", "--since", "@4000000000"])), 11);
    assert!(read(tree.scrub(&["--json", "--sample", "1%"])) < 11);
    assert_eq!(read(tree.scrub(&["--json", "--shuffle"])), 11);
}

/// The records of a catalogue.
fn export(catalog: &Path) -> String {
    verisum([s("catalog"), s("export"), s("--catalog"), catalog.into()]).clean()
}

/// Flips a bit of the first of these bytes in an image, where they begin a block.
fn flip(image: &Path, bytes: &[u8]) {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let mut block = vec![0; bytes.len()];
    for offset in (0..file.metadata().unwrap().len()).step_by(4096) {
        if file.read_exact_at(&mut block, offset).is_ok() && block == bytes {
            file.write_all_at(&[bytes[0] ^ 0x55], offset).unwrap();
            file.sync_all().unwrap();
            return;
        }
    }
    panic!("{}: the bytes are not there", image.display());
}
