//! `verisum scrub` where bad data turns up under other names: it must not become a record there, and no good
//! record may go for it.

use crate::common;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use common::scrubbing::{Tree, check, expect, export, refused};
use common::{Ended, change_and_restore_time as rot, verisum};
use verisum_testkit::{FsKind, Mount, copy_program};

/// What happens to a bad f1 and its neighbour f2, and what is then said, if f1 was known to be bad and if not.
type Mishap = (fn(&Tree), &'static [(&'static str, &'static str)], &'static [(&'static str, &'static str)]);

const MISHAPS: [Mishap; 6] = [
    (
        |tree| fs::rename(tree.path("f1"), tree.path("f2")).unwrap(),
        &[("suspicious", "f1"), ("suspicious", "f2")],
        // Its own record goes with it, so nothing is missing.
        &[("suspicious", "f2")],
    ),
    (
        |tree| {
            fs::remove_file(tree.path("f2")).unwrap();
            fs::hard_link(tree.path("f1"), tree.path("f2")).unwrap();
        },
        &[("suspicious", "f1"), ("suspicious", "f2")],
        &[("suspicious", "f1"), ("suspicious", "f2")],
    ),
    (
        // The names change places.
        |tree| {
            let aside = tree.folder.path().join("aside");
            fs::rename(tree.path("f1"), &aside).unwrap();
            fs::rename(tree.path("f2"), tree.path("f1")).unwrap();
            fs::rename(aside, tree.path("f2")).unwrap();
        },
        // Each is as its own record says.
        &[("ok", "f1"), ("suspicious", "f2")],
        &[("modified", "f1"), ("suspicious", "f2")],
    ),
    (
        |tree| {
            fs::rename(tree.path("f1"), tree.path("f2")).unwrap();
            fs::write(tree.path("f1"), "something new").unwrap();
        },
        &[("suspicious", "f1"), ("suspicious", "f2")],
        &[("modified", "f1"), ("suspicious", "f2")],
    ),
    (
        // Copied, with its time, and gone.
        |tree| {
            let time = fs::metadata(tree.path("f1")).unwrap().modified().unwrap();
            fs::copy(tree.path("f1"), tree.path("f2")).unwrap();
            File::options().write(true).open(tree.path("f2")).unwrap().set_modified(time).unwrap();
            fs::remove_file(tree.path("f1")).unwrap();
        },
        &[("suspicious", "f1"), ("suspicious", "f2")],
        // Nobody knows that content.
        &[("missing", "f1"), ("modified", "f2")],
    ),
    (
        // Under two names at once.
        |tree| {
            fs::rename(tree.path("f1"), tree.path("n")).unwrap();
            fs::hard_link(tree.path("n"), tree.path("m")).unwrap();
        },
        &[("suspicious", "m"), ("suspicious", "n")],
        &[("suspicious", "m"), ("suspicious", "n")],
    ),
];

pub fn expect_all(tree: &Tree, ended: &Ended, code: i32, lines: &[(&'static str, &'static str)]) {
    let lines: Vec<(&str, PathBuf)> =
        lines.iter().map(|(verdict, name)| (*verdict, tree.path(name))).collect();
    let lines: Vec<(&str, &Path)> = lines.iter().map(|(verdict, path)| (*verdict, path.as_path())).collect();
    expect(ended, code, &lines);
}

/// The digest that is recorded of a file.
fn recorded(tree: &Tree, name: &str) -> String {
    let text = export(&tree.catalog());
    let wanted = format!("\"path\":\"{name}\"");
    let line = text.lines().find(|line| line.contains(&wanted)).unwrap_or_else(|| panic!("{text}"));
    line.split("\"digest\":\"").nth(1).unwrap().split('"').next().unwrap().to_string()
}

#[test]
fn bad_data_that_takes_the_place_of_another_file_is_bad_there() {
    for (number, (mishap, if_known, if_not)) in MISHAPS.into_iter().enumerate() {
        for is_known in [true, false] {
            let tree = Tree::new();
            for (name, age) in [("f1", 1), ("f2", 2)] {
                let file = File::options().write(true).open(tree.path(name)).unwrap();
                file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            }
            tree.scrub(&[]).clean();
            let records = [recorded(&tree, "f1"), recorded(&tree, "f2")];
            rot(&tree.path("f1"), "CONTENT 1");
            if is_known {
                expect_all(&tree, &tree.scrub(&[]), 1, &[("suspicious", "f1")]);
            }
            mishap(&tree);
            let lines = if is_known { if_known } else { if_not };
            let is_seen = lines.iter().any(|(verdict, _)| *verdict == "suspicious");
            expect_all(&tree, &tree.scrub(&["-v"]), i32::from(is_seen), lines);
            if is_seen && number < 5 {
                // That of a file that changed places with a good one went with it, and that of one of which nothing
                // else is left: only it says what the bad file was, and the other's was overwritten.
                let follows = number == 2 || [0, 3].contains(&number) && !is_known;
                assert_eq!(recorded(&tree, "f2"), records[usize::from(!follows)], "{number} {is_known}");
            }
            // So it stays.
            let bad: Vec<_> = lines.iter().filter(|(verdict, _)| *verdict == "suspicious").copied().collect();
            expect_all(&tree, &tree.scrub(&["-v"]), i32::from(is_seen), &bad);
            check(&tree.catalog());
            tree.accept(&tree.root());
            assert_eq!(tree.scrub(&["-q"]).clean(), "", "{number} {is_known}");
        }
    }
}

/// Gives files times of their own.
pub fn age(tree: &Tree, names: &[&str]) {
    for (age, name) in (1..).zip(names) {
        let file = File::options().write(true).open(tree.path(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
}

/// Lets two files of a tree change places.
pub fn swap(tree: &Tree, one: &str, other: &str) {
    let aside = tree.folder.path().join("aside");
    fs::rename(tree.path(one), &aside).unwrap();
    fs::rename(tree.path(other), tree.path(one)).unwrap();
    fs::rename(aside, tree.path(other)).unwrap();
}

#[test]
fn records_follow_their_files_that_change_places_before_their_rot_is_seen() {
    // With a time each, and with one for all: a whole second, or a tick of the clock.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let (old, tick) = (Duration::from_secs(1_000_000_000), Duration::from_millis(now * 1000 + 500));
    // With one digest for all, and with one each.
    let cases = [None, Some(old), Some(tick)].into_iter().flat_map(|time| [(time, false), (time, true)]);
    for (one_time, is_mixed) in cases {
        for rotten in [&["f1"][..], &["f1", "f2"], &["f1", "f2", "f3"]] {
            let tree = Tree::new();
            for (name, age) in [("f1", 1), ("f2", 2), ("f3", 3)] {
                let file = File::options().write(true).open(tree.path(name)).unwrap();
                let time = one_time.unwrap_or(old - Duration::from_secs(age));
                file.set_modified(SystemTime::UNIX_EPOCH + time).unwrap();
            }
            if is_mixed {
                let outside = |name: &str| tree.folder.path().join(name);
                ["f1", "f2"].iter().for_each(|name| fs::rename(tree.path(name), outside(name)).unwrap());
                for (name, digest) in [("f1", "md5"), ("f2", "blake3")] {
                    tree.scrub(&["-a", digest]).clean();
                    fs::rename(outside(name), tree.path(name)).unwrap();
                }
            }
            tree.scrub(&[]).clean();
            let records = ["f1", "f2", "f3"].map(|name| recorded(&tree, name));
            for name in rotten {
                rot(&tree.path(name), &format!("CONTENT {}", &name[1..]));
            }
            // What was f1 is f2, what was f2 is f3, and what was f3 is f1.
            swap(&tree, "f1", "f2");
            swap(&tree, "f1", "f3");
            let bad: Vec<(&str, &str)> = [("f1", "f2"), ("f2", "f3"), ("f3", "f1")]
                .into_iter()
                .filter(|(was, _)| rotten.contains(was))
                .map(|(_, is)| ("suspicious", is))
                .collect();
            expect_all(&tree, &tree.scrub(&[]), 1, &bad);
            let now = ["f2", "f3", "f1"].map(|name| recorded(&tree, name));
            assert_eq!(now, records, "{rotten:?} {one_time:?} {is_mixed}");
            expect_all(&tree, &tree.scrub(&[]), 1, &bad);
            // The right content of each is well.
            for (name, number) in [("f2", 1), ("f3", 2), ("f1", 3)] {
                fs::write(tree.path(name), format!("content {number}")).unwrap();
            }
            assert_eq!(tree.scrub(&["-q"]).clean(), "", "{rotten:?} {one_time:?}");
            check(&tree.catalog());
        }
    }
}

/// A run that saw only a part saw another file in the place of f1. Then f1 comes back to its own name.
#[test]
fn rot_of_a_file_that_comes_back_to_its_name_is_told() {
    let aside = "below/deep";
    for is_seen_by in [&["--exclude", "below"][..], &["--exclude", "deep", "--exclude", "f[2-9]"]] {
        for is_rotten_first in [false, true] {
            let tree = Tree::new();
            tree.scrub(&[]).clean();
            let record = recorded(&tree, "f1");
            swap(&tree, "f1", aside);
            if is_rotten_first {
                rot(&tree.path(aside), "CONTENT 1");
            }
            tree.scrub(is_seen_by).clean();
            swap(&tree, "f1", aside);
            if !is_rotten_first {
                rot(&tree.path("f1"), "CONTENT 1");
            }
            for _ in 0..2 {
                expect_all(&tree, &tree.scrub(&[]), 1, &[("suspicious", "f1")]);
                assert_eq!(recorded(&tree, "f1"), record);
            }
            fs::write(tree.path("f1"), "content 1").unwrap();
            assert_eq!(tree.scrub(&["-q"]).clean(), "");
            check(&tree.catalog());
        }
    }
}

/// Rot that a run of a part sees under the name of another file, and that has a third name at the next run.
#[test]
fn rot_that_a_run_of_a_part_saw_takes_its_own_record_along() {
    let follow_ups: [fn(&Tree); 3] = [
        |tree| fs::rename(tree.path("below/deep"), tree.path("c")).unwrap(),
        |tree| {
            // What had the name of the bad file is another one by then.
            fs::write(tree.path("aside"), "something new").unwrap();
            fs::rename(tree.path("aside"), tree.path("f1")).unwrap();
            fs::rename(tree.path("below/deep"), tree.path("c")).unwrap();
        },
        |tree| swap(tree, "below/deep", "f2"),
    ];
    for (follow_up, lines) in follow_ups.into_iter().zip([
        &[("suspicious", "c")][..],
        &[("suspicious", "c")],
        &[("suspicious", "f2"), ("ok", "below/deep")],
    ]) {
        let tree = Tree::new();
        age(&tree, &["f1", "f2", "below/deep"]);
        tree.scrub(&[]).clean();
        let record = recorded(&tree, "f1");
        swap(&tree, "f1", "below/deep");
        rot(&tree.path("below/deep"), "CONTENT 1");
        let ended = common::scrubbing::scrub(&tree.catalog(), &tree.path("below"), &[]);
        expect_all(&tree, &ended, 1, &[("suspicious", "below/deep")]);
        assert_eq!(recorded(&tree, "below/deep"), record);
        follow_up(&tree);
        for lines in [lines, &lines[..1]] {
            expect_all(&tree, &tree.scrub(&[]), 1, lines);
            assert_eq!(recorded(&tree, lines[0].1), record);
        }
        check(&tree.catalog());
    }
}

#[test]
fn a_file_that_cannot_be_read_is_what_it_was_under_its_new_name() {
    if verisum_testkit::require_root().is_none() {
        return;
    }
    // Root may read everything.
    let scrub = |tree: &Tree| {
        let program = tree.folder.path().join("verisum");
        let mut command = common::command(program.to_str().unwrap());
        command.args(["scrub", "-v", "--catalog"]).args([tree.catalog(), tree.root()]).uid(65534).gid(65534);
        Ended::of(command.output().unwrap())
    };
    type Rename = (&'static str, fn(&Tree), &'static [(&'static str, &'static str)]);
    let renames: [Rename; 5] = [
        // A good one.
        ("f1", |tree| fs::rename(tree.path("f1"), tree.path("c")).unwrap(), &[("unverifiable", "c")]),
        (
            // Rot took its name.
            "f1",
            |tree| {
                fs::rename(tree.path("f1"), tree.path("c")).unwrap();
                fs::rename(tree.path("f2"), tree.path("f1")).unwrap();
                rot(&tree.path("f1"), "CONTENT 2");
            },
            &[("unverifiable", "c"), ("suspicious", "f1")],
        ),
        // Known rot.
        ("f3", |tree| fs::rename(tree.path("f3"), tree.path("c")).unwrap(), &[("suspicious", "c")]),
        ("f3", |tree| swap(tree, "f3", "f4"), &[("ok", "f3"), ("suspicious", "f4")]),
        // A good one that changes places with known rot.
        ("f1", |tree| swap(tree, "f3", "f1"), &[("unverifiable", "f3"), ("suspicious", "f1")]),
    ];
    for (number, (unreadable, rename, lines)) in renames.into_iter().enumerate() {
        let tree = Tree::new();
        age(&tree, &["f1", "f2", "f3", "f4"]);
        fs::set_permissions(tree.folder.path(), Permissions::from_mode(0o777)).unwrap();
        copy_program(common::VERISUM, tree.folder.path().join("verisum"));
        scrub(&tree).clean();
        let record = recorded(&tree, unreadable);
        rot(&tree.path("f3"), "CONTENT 3");
        expect_all(&tree, &scrub(&tree), 1, &[("suspicious", "f3")]);
        fs::set_permissions(tree.path(unreadable), Permissions::from_mode(0o000)).unwrap();
        rename(&tree);
        let known: &[_] = if number < 2 { &[("suspicious", "f3")] } else { &[] };
        expect_all(&tree, &scrub(&tree), 1, &[lines, known].concat());
        let name = lines.iter().map(|(_, name)| *name).find(|name| recorded(&tree, name) == record);
        assert!(
            name.is_some_and(|name| fs::metadata(tree.path(name)).unwrap().mode() & 0o777 == 0),
            "{number}"
        );
        check(&tree.catalog());
    }
}

#[test]
fn what_takes_the_name_of_known_rot_is_well_once_that_is_found() {
    type Mishap = (fn(&Tree), &'static [(&'static str, &'static str)]);
    let mishaps: [Mishap; 2] = [
        (
            |tree| {
                fs::rename(tree.path("f1"), tree.path("j")).unwrap();
                fs::rename(tree.path("f2"), tree.path("f1")).unwrap();
            },
            &[("ok", "f1"), ("suspicious", "j")],
        ),
        (
            // Over two names, one of them new.
            |tree| {
                fs::rename(tree.path("f1"), tree.path("j")).unwrap();
                swap(tree, "j", "f2");
            },
            &[("suspicious", "f2"), ("new", "j")],
        ),
    ];
    for (mishap, lines) in mishaps {
        let tree = Tree::new();
        age(&tree, &["f1", "f2"]);
        tree.scrub(&[]).clean();
        let record = recorded(&tree, "f1");
        rot(&tree.path("f1"), "CONTENT 1");
        expect_all(&tree, &tree.scrub(&[]), 1, &[("suspicious", "f1")]);
        mishap(&tree);
        expect_all(&tree, &tree.scrub(&["-v"]), 1, lines);
        let (_, name) = lines.iter().find(|(verdict, _)| *verdict == "suspicious").unwrap();
        expect_all(&tree, &tree.scrub(&["-v"]), 1, &[("suspicious", name)]);
        assert_eq!(recorded(&tree, name), record);
        check(&tree.catalog());
    }
}

#[test]
fn a_copy_of_a_bad_file_with_its_time_is_suspicious_in_its_place() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    rot(&tree.path("f1"), "CONTENT 1");
    let (time, copy) = (fs::metadata(tree.path("f1")).unwrap().modified().unwrap(), tree.path("copy"));
    fs::copy(tree.path("f1"), &copy).unwrap();
    File::options().write(true).open(&copy).unwrap().set_modified(time).unwrap();
    fs::rename(copy, tree.path("f1")).unwrap();
    let good = recorded(&tree, "f1");
    for _ in 0..2 {
        expect_all(&tree, &tree.scrub(&[]), 1, &[("suspicious", "f1")]);
    }
    assert_eq!(recorded(&tree, "f1"), good);
}

#[test]
fn directories_that_change_places_take_their_bad_files_with_them() {
    let tree = Tree::new();
    for (folder, content) in [("one", "content of one"), ("two", "content of the other")] {
        fs::create_dir(tree.path(folder)).unwrap();
        fs::write(tree.path(folder).join("file"), content).unwrap();
    }
    tree.scrub(&[]).clean();
    rot(&tree.path("one/file"), "CONTENT of one");
    expect_all(&tree, &tree.scrub(&[]), 1, &[("suspicious", "one/file")]);
    fs::rename(tree.path("one"), tree.path("aside")).unwrap();
    fs::rename(tree.path("two"), tree.path("one")).unwrap();
    fs::rename(tree.path("aside"), tree.path("two")).unwrap();
    let ended = tree.scrub(&["-v"]);
    expect_all(&tree, &ended, 1, &[("ok", "one/file"), ("suspicious", "two/file")]);
    // The same once they are back.
    fs::rename(tree.path("one"), tree.path("aside")).unwrap();
    fs::rename(tree.path("two"), tree.path("one")).unwrap();
    fs::rename(tree.path("aside"), tree.path("two")).unwrap();
    let ended = tree.scrub(&["-v"]);
    expect_all(&tree, &ended, 1, &[("suspicious", "one/file"), ("ok", "two/file")]);
    check(&tree.catalog());
}

#[test]
fn what_was_bad_is_bad_elsewhere_once_its_own_name_is_well() {
    type Repair = (fn(&Tree), &'static [(&'static str, &'static str)]);
    let restore = |tree: &Tree, name: &str| {
        fs::copy(tree.folder.path().join("good"), tree.path("aside")).unwrap();
        fs::rename(tree.path("aside"), tree.path(name)).unwrap();
    };
    let repairs: [Repair; 4] = [
        (
            |tree| {
                fs::rename(tree.path("f1"), tree.path("f1.bad")).unwrap();
            },
            &[("touched", "f1"), ("suspicious", "f1.bad")],
        ),
        (
            |tree| fs::hard_link(tree.path("f1"), tree.path("link")).unwrap(),
            &[("touched", "f1"), ("suspicious", "link")],
        ),
        (
            |tree| {
                fs::copy(tree.path("f1"), tree.path("copy")).unwrap();
            },
            &[("touched", "f1"), ("suspicious", "copy")],
        ),
        (|_| (), &[("touched", "f1")]),
    ];
    for (prepare, lines) in repairs {
        let tree = Tree::new();
        tree.scrub(&[]).clean();
        fs::copy(tree.path("f1"), tree.folder.path().join("good")).unwrap();
        rot(&tree.path("f1"), "CONTENT 1");
        expect_all(&tree, &tree.scrub(&[]), 1, &[("suspicious", "f1")]);
        prepare(&tree);
        restore(&tree, "f1");
        expect_all(&tree, &tree.scrub(&["-v"]), i32::from(lines.len() > 1), lines);
        check(&tree.catalog());
    }
    // The recorded content comes back under a third name.
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    fs::copy(tree.path("f1"), tree.folder.path().join("good")).unwrap();
    rot(&tree.path("f1"), "CONTENT 1");
    tree.scrub(&[]);
    fs::rename(tree.path("f1"), tree.path("m")).unwrap();
    restore(&tree, "n");
    expect_all(&tree, &tree.scrub(&["-v"]), 1, &[("moved", "n"), ("suspicious", "m")]);
    expect_all(&tree, &tree.scrub(&["-v"]), 1, &[("suspicious", "m")]);
    check(&tree.catalog());
}

#[test]
fn rot_that_nobody_has_seen_is_bad_elsewhere_once_its_own_name_is_well() {
    type Repair = (fn(&Tree), &'static [(&'static str, &'static str)], i32);
    fn good(tree: &Tree) -> PathBuf {
        tree.folder.path().join("good")
    }
    // Beside the tree, and with the time that it had.
    fn restore(tree: &Tree, name: &str) {
        let (aside, to) = (tree.folder.path().join("aside"), tree.path(name));
        let time = fs::metadata(good(tree)).unwrap().modified().unwrap();
        fs::copy(good(tree), &aside).unwrap();
        File::options().write(true).open(&aside).unwrap().set_modified(time).unwrap();
        fs::rename(aside, to).unwrap();
    }
    let repairs: [Repair; 6] = [
        (
            |tree| {
                fs::rename(tree.path("f1"), tree.path("f1.old")).unwrap();
                restore(tree, "f1");
            },
            &[("suspicious", "f1.old")],
            1,
        ),
        (
            |tree| {
                fs::hard_link(tree.path("f1"), tree.path("f1.old")).unwrap();
                restore(tree, "f1");
            },
            &[("suspicious", "f1.old")],
            1,
        ),
        (
            |tree| {
                fs::rename(tree.path("f1"), tree.path("m")).unwrap();
                fs::copy(good(tree), tree.path("n")).unwrap();
            },
            &[("moved", "n"), ("suspicious", "m")],
            1,
        ),
        (
            |tree| {
                fs::rename(tree.path("f1"), tree.path("f2")).unwrap();
                restore(tree, "f1");
            },
            &[("suspicious", "f2")],
            1,
        ),
        (
            // The directory as a whole.
            |tree| {
                fs::rename(tree.path("f1"), tree.path("below/f1")).unwrap();
                fs::rename(tree.path("below"), tree.path("old")).unwrap();
                restore(tree, "f1");
                fs::create_dir(tree.path("below")).unwrap();
                fs::copy(tree.path("old/deep"), tree.path("below/deep")).unwrap();
                fs::remove_file(tree.path("old/deep")).unwrap();
            },
            &[("suspicious", "old/f1"), ("touched", "below/deep")],
            1,
        ),
        (
            // What was written to says so, and what took the inode of a good file is another one.
            |tree| {
                fs::rename(tree.path("f1"), tree.path("f1.old")).unwrap();
                fs::write(tree.path("f1.old"), "something else").unwrap();
                restore(tree, "f1");
            },
            &[("new", "f1.old")],
            0,
        ),
    ];
    for (number, (repair, lines, code)) in repairs.into_iter().enumerate() {
        let tree = Tree::new();
        let file = File::options().write(true).open(tree.path("f1")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(99)).unwrap();
        tree.scrub(&[]).clean();
        let before = recorded(&tree, "f2");
        fs::copy(tree.path("f1"), good(&tree)).unwrap();
        let time = fs::metadata(tree.path("f1")).unwrap().modified().unwrap();
        File::options().write(true).open(good(&tree)).unwrap().set_modified(time).unwrap();
        rot(&tree.path("f1"), "CONTENT 1");
        repair(&tree);
        expect_all(&tree, &tree.scrub(&["-v"]), code, lines);
        assert_eq!(recorded(&tree, "f2"), before, "{number}");
        // So it stays.
        let bad: Vec<_> = lines.iter().filter(|(verdict, _)| *verdict == "suspicious").copied().collect();
        expect_all(&tree, &tree.scrub(&["-v"]), code, &bad);
        check(&tree.catalog());
    }
}

#[test]
fn what_was_bad_is_bad_whenever_it_turns_up_again() {
    type Return = (&'static [&'static str], fn(&Tree), &'static str);
    // Where the bad file is while a run finds a good one under its name, and under which name it comes back.
    let returns: [Return; 5] = [
        (&[], |tree| fs::rename(aside(tree), tree.path("g")).unwrap(), "g"),
        // A good record does not go for it.
        (&[], |tree| fs::rename(aside(tree), tree.path("f2")).unwrap(), "f2"),
        (&[], |tree| fs::rename(aside(tree), tree.path("f1")).unwrap(), "f1"),
        // Another inode, and another time.
        (&[], |tree| fs::copy(aside(tree), tree.path("g")).map(drop).unwrap(), "g"),
        (&["--exclude", "/skip"], |_| (), "skip/f1"),
    ];
    fn aside(tree: &Tree) -> PathBuf {
        tree.folder.path().join("bad")
    }
    for (options, come_back, name) in returns {
        let tree = Tree::new();
        // The records of f1 and f2 are older than what comes back.
        let old = SystemTime::now() - Duration::from_secs(99);
        File::options().write(true).open(tree.path("f2")).unwrap().set_modified(old).unwrap();
        fs::create_dir(tree.path("skip")).unwrap();
        tree.scrub(&[]).clean();
        let (good, before) = (fs::read(tree.path("f1")).unwrap(), recorded(&tree, "f2"));
        rot(&tree.path("f1"), "CONTENT 1");
        expect_all(&tree, &tree.scrub(&[]), 1, &[("suspicious", "f1")]);
        let hidden = if options.is_empty() { aside(&tree) } else { tree.path("skip/f1") };
        fs::rename(tree.path("f1"), hidden).unwrap();
        fs::write(tree.path("f1"), &good).unwrap();
        expect_all(&tree, &tree.scrub(&[&["-v"], options].concat()), 0, &[("touched", "f1")]);
        expect_all(&tree, &tree.scrub(&[&["-v"], options].concat()), 0, &[]);
        check(&tree.catalog());
        come_back(&tree);
        for _ in 0..2 {
            expect_all(&tree, &tree.scrub(&["-v"]), 1, &[("suspicious", name)]);
        }
        assert_eq!(recorded(&tree, "f2"), before, "{name}");
        check(&tree.catalog());
        tree.accept(&tree.path(name));
        assert_eq!(tree.scrub(&["-q"]).clean(), "", "{name}");
    }
}

#[test]
fn what_was_accepted_or_written_to_is_not_remembered() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let good = fs::read(tree.path("f1")).unwrap();
    rot(&tree.path("f1"), "CONTENT 1");
    tree.scrub(&[]);
    // Restored in place: the inode is that of a good file.
    fs::copy(tree.path("f1"), tree.folder.path().join("bad")).unwrap();
    fs::write(tree.path("f1"), &good).unwrap();
    expect_all(&tree, &tree.scrub(&["-v"]), 0, &[("touched", "f1")]);
    fs::write(tree.path("f1"), "something new").unwrap();
    expect_all(&tree, &tree.scrub(&["-v"]), 0, &[("modified", "f1")]);
    fs::rename(tree.path("f1"), tree.path("g")).unwrap();
    expect_all(&tree, &tree.scrub(&["-v"]), 0, &[("moved", "g")]);
    assert!(export(&tree.catalog()).contains("\"type\":\"known-bad\""));
    let accepted = tree.accept(&tree.root());
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    assert!(!export(&tree.catalog()).contains("\"type\":\"known-bad\""));
    fs::copy(tree.folder.path().join("bad"), tree.path("copy")).unwrap();
    expect_all(&tree, &tree.scrub(&["-v"]), 0, &[("new", "copy")]);
    check(&tree.catalog());
}

#[test]
fn a_bad_content_that_says_nothing_condemns_nobody() {
    let zeros = [0; 100];
    for (content, has_other) in [(b"the text of some licence".as_slice(), true), (zeros.as_slice(), false)] {
        for is_restored in [true, false] {
            let tree = Tree::new();
            let good = fs::read(tree.path("f1")).unwrap();
            if has_other {
                fs::write(tree.path("licence"), content).unwrap();
            }
            tree.scrub(&[]).clean();
            // Below it is another length.
            rot(&tree.path("f1"), std::str::from_utf8(content).unwrap());
            expect_all(&tree, &tree.scrub(&[]), 1, &[("suspicious", "f1")]);
            fs::remove_file(tree.path("f1")).unwrap();
            if is_restored {
                fs::write(tree.path("f1"), &good).unwrap();
            }
            fs::write(tree.path("fresh"), content).unwrap();
            fs::write(tree.path("f2"), content).unwrap();
            let own = if is_restored { "touched" } else { "suspicious" };
            let lines = [(own, "f1"), ("new", "fresh"), ("modified", "f2")];
            expect_all(&tree, &tree.scrub(&["-v"]), i32::from(!is_restored), &lines);
            check(&tree.catalog());
        }
    }
}

#[test]
fn a_link_to_a_bad_file_that_has_another_inode_than_recorded_is_bad() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let time = fs::metadata(tree.path("f1")).unwrap().modified().unwrap();
    fs::write(tree.path("other"), "CONTENT 1").unwrap();
    File::options().write(true).open(tree.path("other")).unwrap().set_modified(time).unwrap();
    fs::rename(tree.path("other"), tree.path("f1")).unwrap();
    expect_all(&tree, &tree.scrub(&["-v"]), 1, &[("suspicious", "f1")]);
    fs::hard_link(tree.path("f1"), tree.path("link")).unwrap();
    for _ in 0..2 {
        expect_all(&tree, &tree.scrub(&["-v"]), 1, &[("suspicious", "f1"), ("suspicious", "link")]);
    }
    check(&tree.catalog());
}

#[test]
fn a_new_link_to_a_bad_file_of_many_names_is_told_once() {
    let tree = Tree::new();
    fs::hard_link(tree.path("f1"), tree.path("a2")).unwrap();
    fs::hard_link(tree.path("f1"), tree.path("a3")).unwrap();
    tree.scrub(&[]).clean();
    rot(&tree.path("f1"), "CONTENT 1");
    fs::hard_link(tree.path("f1"), tree.path("n")).unwrap();
    let bad = ["f1", "a2", "a3", "n"].map(|name| ("suspicious", name));
    expect_all(&tree, &tree.scrub(&["-v"]), 1, &bad);
    let ended = tree.scrub(&["--nagios"]);
    assert!(ended.out().contains("14 files, 4 bad"), "{}", ended.out());
}

#[test]
fn what_was_accepted_is_good_under_its_next_name() {
    for is_known in [true, false] {
        let tree = Tree::new();
        fs::hard_link(tree.path("f1"), tree.path("h")).unwrap();
        tree.scrub(&[]).clean();
        rot(&tree.path("f1"), "CONTENT 1");
        if is_known {
            tree.scrub(&[]);
        }
        fs::remove_file(tree.path("h")).unwrap();
        tree.scrub(&[]);
        tree.accept(&tree.path("f1")).clean();
        let still: &[(&str, &str)] = if is_known { &[("suspicious", "h")] } else { &[] };
        expect_all(&tree, &tree.scrub(&["-v"]), i32::from(is_known), still);
        fs::rename(tree.path("f1"), tree.path("a9")).unwrap();
        let lines = [&[("moved", "a9")], still].concat();
        expect_all(&tree, &tree.scrub(&["-v"]), i32::from(is_known), &lines);
        check(&tree.catalog());
    }
}

#[test]
fn what_was_accepted_is_good_though_another_name_of_its_file_is_missing() {
    let tree = Tree::new();
    fs::hard_link(tree.path("f1"), tree.path("h")).unwrap();
    tree.scrub(&[]).clean();
    fs::remove_file(tree.path("h")).unwrap();
    expect_all(&tree, &tree.scrub(&["-v"]), 0, &[("missing", "h")]);
    rot(&tree.path("f1"), "CONTENT 1");
    expect_all(&tree, &tree.scrub(&["-v"]), 1, &[("suspicious", "f1")]);
    tree.accept(&tree.path("f1")).clean();
    expect_all(&tree, &tree.scrub(&["-v"]), 0, &[]);
    // The record of the missing name is of this inode, and of another content.
    swap(&tree, "f1", "f2");
    let ended = tree.scrub(&["-v"]);
    expect_all(&tree, &ended, 0, &[("modified", "f1"), ("modified", "f2")]);
    check(&tree.catalog());
    // It is still told, and can be restored.
    expect_all(&tree, &tree.scrub(&["-v", "--missing", "fail"]), 1, &[("missing", "h")]);
}

#[test]
fn what_was_accepted_under_a_name_that_it_took_from_another_is_good_everywhere() {
    for act in ["rename", "link", "copy"] {
        let tree = Tree::new();
        tree.scrub(&[]).clean();
        rot(&tree.path("f1"), "CONTENT 1");
        tree.scrub(&[]);
        fs::rename(tree.path("f1"), tree.path("f2")).unwrap();
        let bad = [("suspicious", "f1"), ("suspicious", "f2")];
        expect_all(&tree, &tree.scrub(&["-v"]), 1, &bad);
        tree.accept(&tree.path("f2")).clean();
        let (from, to) = (tree.path("f2"), tree.path("n"));
        let word = match act {
            "rename" => fs::rename(from, to).map(|()| "moved"),
            "link" => fs::hard_link(from, to).map(|()| "new"),
            _ => fs::copy(from, to).map(|_| "new"),
        };
        // The old name has lost its content all the same.
        expect_all(&tree, &tree.scrub(&["-v"]), 1, &[("suspicious", "f1"), (word.unwrap(), "n")]);
        expect_all(&tree, &tree.scrub(&["-v"]), 1, &[("suspicious", "f1")]);
        check(&tree.catalog());
        tree.accept(&tree.path("f1")).clean();
        assert_eq!(tree.scrub(&["-q"]).clean(), "", "{act}");
    }
}

#[test]
fn in_an_archive_what_is_missing_stays_in_the_figures() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    fs::remove_file(tree.path("f1")).unwrap();
    let figures = tree.folder.path().join("figures.prom");
    let run = || {
        let ended = tree.scrub(&["--archive", "-q", "--prometheus", figures.to_str().unwrap()]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let text = fs::read_to_string(&figures).unwrap();
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
            line.unwrap_or_else(|| panic!("{text}")).rsplit(' ').next().unwrap().to_string()
        };
        (value("verisum_scrub_still_missing_files"), value("verisum_scrub_exit_code"))
    };
    assert_eq!(run(), ("0".to_string(), "1".to_string()));
    assert_eq!(run(), ("1".to_string(), "1".to_string()));
}

#[test]
fn a_file_system_that_was_made_since_is_not_taken_for_the_one_before() {
    let Some(mut mount) = Mount::new(FsKind::Ext4, 0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("c.db");
    let scrub = |options: &[&str]| common::scrubbing::scrub(&catalog, &mount.path(), options);
    fs::write(mount.path().join("file"), "content").unwrap();
    scrub(&[]).clean();
    let before = export(&catalog);
    // Times of inodes are whole milliseconds here, and whole seconds to some file systems.
    std::thread::sleep(Duration::from_millis(1100));
    mount.edit_image(|image| {
        let made = std::process::Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image).status();
        assert!(made.unwrap().success());
    });
    fs::write(mount.path().join("file"), "another content").unwrap();
    let scrub = |options: &[&str]| common::scrubbing::scrub(&catalog, &mount.path(), options);
    refused(&scrub(&[]), 3, "is it mounted?");
    let accept =
        verisum(["accept".as_ref(), "--catalog".as_ref(), catalog.as_os_str(), mount.path().as_os_str()]);
    refused(&accept, 3, "is it mounted?");
    assert_eq!(export(&catalog), before);
    assert_eq!(scrub(&["--replaced-root"]).code, Some(0));
}
