//! `verisum scrub` of files with other names and with several: what was bad under one stays so under all.

use crate::common;
use crate::scrub_heirs::{age, expect_all, swap};

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::scrubbing::{Tree, check, expect, export, s, scrub};
use common::{Ended, change_and_restore_time, verisum, wait_until};
use verisum::digest::Digest;
use verisum_testkit::{FsKind, Mount};

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
fn a_bad_file_that_is_renamed_into_another_tree_stays_bad() {
    let tree = Tree::new();
    let other = tree.folder.path().canonicalize().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("own"), "own content").unwrap();
    let scrub_other = |options: &[&str]| scrub(&tree.catalog(), &other, options);
    tree.scrub(&[]).clean();
    scrub_other(&[]).clean();
    for number in 1..=3 {
        change_and_restore_time(&tree.path(&format!("f{number}")), &format!("CONTENT {number}"));
    }
    assert_eq!(tree.scrub(&[]).code, Some(1));
    // Whichever tree is scrubbed first.
    fs::rename(tree.path("f1"), other.join("one")).unwrap();
    for _ in 0..2 {
        expect(&scrub_other(&["-v"]), 1, &[("suspicious", &other.join("one"))]);
    }
    fs::rename(tree.path("f2"), other.join("two")).unwrap();
    let (f2, f3) = (tree.path("f2"), tree.path("f3"));
    expect(&tree.scrub(&["-v"]), 1, &[("suspicious", &f2), ("suspicious", &f3)]);
    let both: [(&str, &Path); 2] = [("suspicious", &other.join("one")), ("suspicious", &other.join("two"))];
    expect(&scrub_other(&["-v"]), 1, &both);
    expect(&tree.scrub(&["-v"]), 1, &[("suspicious", &f3)]);
    // A copy is another file, and what it is a copy of is still named.
    fs::copy(&f3, other.join("copy")).unwrap();
    expect(&scrub_other(&["-v"]), 1, &[both[0], both[1], ("new", &other.join("copy"))]);
    fs::write(other.join("one"), "content 1").unwrap();
    expect(&scrub_other(&["-v"]), 1, &[("touched", &other.join("one")), both[1]]);
    // Restored, with its time, before it was renamed.
    change_and_restore_time(&f3, "content 3");
    fs::rename(&f3, other.join("three")).unwrap();
    expect(&scrub_other(&["-v"]), 1, &[("new", &other.join("three")), both[1]]);
    check(&tree.catalog());
}

/// What is recorded of a file that has this content, by where that is.
fn places_of(tree: &Tree, content: &str) -> Vec<String> {
    let digest = Digest::find("sha256").unwrap().hash(content.as_bytes()).unwrap().to_string();
    let text = export(&tree.catalog());
    let lines = text.lines().filter(|line| line.contains(&format!("\"digest\":\"{digest}\"")));
    let path = |line: &str| line.split("\"path\":\"").nth(1).unwrap().split('"').next().unwrap().to_string();
    lines.map(path).collect()
}

/// A tree in which f1, which has gone bad since it was recorded, and below/deep have changed places.
fn changed_places() -> Tree {
    let tree = Tree::new();
    // With a time each.
    for (name, number) in [("f1", 1), ("below/deep", 2)] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_000_000 + number);
        File::options().write(true).open(tree.path(name)).unwrap().set_modified(time).unwrap();
    }
    tree.scrub(&[]).clean();
    change_and_restore_time(&tree.path("f1"), "CONTENT 1");
    let aside = tree.folder.path().join("aside");
    fs::rename(tree.path("f1"), &aside).unwrap();
    fs::rename(tree.path("below/deep"), tree.path("f1")).unwrap();
    fs::rename(&aside, tree.path("below/deep")).unwrap();
    tree
}

#[test]
fn a_file_that_rotted_and_was_renamed_is_found_by_a_later_run_than_its_old_name() {
    let rounds: [&[&[&str]]; 2] = [
        // A pattern, and then all.
        &[&["--exclude", "below"], &[]],
        // Several such runs, and one that is not complete, before all.
        &[&["--exclude", "below"], &["--exclude", "below", "--exclude", "f2"], &["--exclude", "f*"], &[]],
    ];
    for round in rounds {
        let tree = changed_places();
        let (one, deep) = (tree.path("f1"), tree.path("below/deep"));
        expect(&tree.scrub(&[&["-v"], round[0]].concat()), 0, &[("modified", &one)]);
        for options in &round[1..] {
            tree.scrub(options);
        }
        expect(&tree.scrub(&["-v"]), 1, &[("suspicious", &deep)]);
        assert_eq!(places_of(&tree, "content 1"), ["below/deep"]);
        assert_eq!(places_of(&tree, "deep content"), ["f1"]);
        fs::write(&deep, "content 1").unwrap();
        tree.scrub(&[]).clean();
        assert_eq!(tree.scrub(&["-q"]).clean(), "");
        check(&tree.catalog());
    }
}

#[test]
fn a_file_that_rotted_and_was_renamed_over_another_is_judged_by_its_own_record() {
    let tree = Tree::new();
    let log = |number: usize| tree.path(&format!("f{number}"));
    for number in 0..3 {
        // With a time each.
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_000_001 + number);
        let file = File::options().write(true).open(log(number as usize)).unwrap();
        file.set_modified(time).unwrap();
    }
    tree.scrub(&[]).clean();
    // As logs are rotated: f1 over f2, f0 over f1, and a new f0.
    change_and_restore_time(&log(0), "CONTENT 0");
    fs::rename(log(1), log(2)).unwrap();
    fs::rename(log(0), log(1)).unwrap();
    fs::write(log(0), "the newest").unwrap();
    expect(&tree.scrub(&[]), 1, &[("suspicious", &log(1))]);
    for (content, name) in [("content 0", "f1"), ("content 1", "f2"), ("the newest", "f0")] {
        assert_eq!(places_of(&tree, content), [name], "{content}");
    }
    expect(&tree.scrub(&[]), 1, &[("suspicious", &log(1))]);
    fs::write(log(1), "content 0").unwrap();
    tree.scrub(&[]).clean();
    assert_eq!(tree.scrub(&["-q"]).clean(), "");
    check(&tree.catalog());
}

#[test]
fn a_good_file_that_takes_the_name_of_another_has_moved_there() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let (f1, f2) = (tree.path("f1"), tree.path("f2"));
    fs::rename(&f1, &f2).unwrap();
    // What is held has its old record until it is accepted, so nothing may go there.
    let copy = tree.folder.path().join("held.db");
    fs::copy(tree.catalog(), &copy).unwrap();
    let held = scrub(&copy, &tree.root(), &["--alarm-changed", "10%"]);
    assert_eq!(held.code, Some(1), "{}{}", held.out(), held.stderr);
    assert!(export(&copy).contains("\"path\":\"f1\""), "{}", export(&copy));
    check(&copy);

    let run = tree.scrub(&["-v", "--missing", "fail"]);
    expect(&run, 0, &[("moved", &f2), ("modified", &f2)]);
    assert!(run.out().contains(f1.to_str().unwrap()), "{}", run.out());
    assert_eq!(places_of(&tree, "content 1"), ["f2"]);
    assert_eq!(tree.scrub(&["-q", "--missing", "fail"]).clean(), "");
    // A copy of it in the place of another is another file: its own name is missing.
    fs::copy(&f2, tree.path("f3")).unwrap();
    fs::remove_file(&f2).unwrap();
    expect(&tree.scrub(&["--missing", "fail"]), 1, &[("missing", &f2)]);
    check(&tree.catalog());
}

#[test]
fn a_good_file_that_was_renamed_over_one_of_another_part_has_moved_there() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let deep = tree.path("below/deep");
    fs::rename(tree.path("f1"), &deep).unwrap();
    let run = scrub(&tree.catalog(), &tree.path("below"), &["-v", "--missing", "fail"]);
    expect(&run, 0, &[("moved", &deep), ("modified", &deep)]);
    assert_eq!(places_of(&tree, "content 1"), ["below/deep"]);
    assert_eq!(tree.scrub(&["-q", "--missing", "fail"]).clean(), "");
    check(&tree.catalog());
}

#[test]
fn a_file_that_rotted_and_took_the_name_of_one_that_moved_on_is_judged_by_its_own_record() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    // As logs are rotated before there is a new one: f1 to a new name, f0 over its old one.
    change_and_restore_time(&tree.path("f0"), "CONTENT 0");
    fs::rename(tree.path("f1"), tree.path("n")).unwrap();
    fs::rename(tree.path("f0"), tree.path("f1")).unwrap();
    let run = tree.scrub(&[]);
    expect(&run, 1, &[("suspicious", &tree.path("f1"))]);
    assert!(!run.out().contains("missing "), "{}", run.out());
    for (content, name) in [("content 0", "f1"), ("content 1", "n")] {
        assert_eq!(places_of(&tree, content), [name], "{content}");
    }
    fs::write(tree.path("f1"), "content 0").unwrap();
    tree.scrub(&[]).clean();
    assert_eq!(tree.scrub(&["-q"]).clean(), "");
    check(&tree.catalog());
}

#[test]
fn a_file_that_rotted_and_went_to_a_part_that_is_scrubbed_later_is_found_there() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    change_and_restore_time(&tree.path("f1"), "CONTENT 1");
    fs::rename(tree.path("f1"), tree.path("below/n")).unwrap();
    fs::write(tree.path("f1"), "something new").unwrap();
    tree.scrub(&["--exclude", "below"]).clean();
    let below = tree.path("below");
    let bad: [(&str, &Path); 1] = [("suspicious", &tree.path("below/n"))];
    expect(&scrub(&tree.catalog(), &below, &[]), 1, &bad);
    expect(&tree.scrub(&[]), 1, &bad);
    assert_eq!(places_of(&tree, "content 1"), ["below/n"]);
    tree.accept(&tree.root()).clean();
    assert_eq!(tree.scrub(&["-q"]).clean(), "");
    check(&tree.catalog());
}

#[test]
fn files_that_are_well_and_change_places_between_two_runs_are_not_accused() {
    let tree = Tree::new();
    // One time, of a tick of the clock.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for name in ["f1", "below/deep"] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(now * 1000 + 500);
        File::options().write(true).open(tree.path(name)).unwrap().set_modified(time).unwrap();
    }
    tree.scrub(&[]).clean();
    let aside = tree.folder.path().join("aside");
    fs::rename(tree.path("f1"), &aside).unwrap();
    fs::rename(tree.path("below/deep"), tree.path("f1")).unwrap();
    fs::rename(&aside, tree.path("below/deep")).unwrap();
    tree.scrub(&["--exclude", "below"]).clean();
    expect(&tree.scrub(&["-v"]), 0, &[("modified", &tree.path("below/deep"))]);
    assert_eq!(tree.scrub(&["-q"]).clean(), "");
    assert_eq!(places_of(&tree, "content 1"), ["below/deep"]);
}

#[test]
fn a_replaced_file_with_the_inode_and_time_of_the_old_one_is_modified() {
    // With inodes of 128 bytes nothing says when a file was made.
    let Some(mount) = Mount::formatted(FsKind::Ext4, 0, &["-I", "128"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (catalog, file) = (folder.path().join("c.db"), mount.path().join("file"));
    let put = |content: &str| {
        fs::write(&file, content).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        file.metadata().unwrap().ino()
    };
    let inode = put("content");
    scrub(&catalog, &mount.path(), &[]).clean();
    // Another length, and the same again.
    for content in ["other content", "third content"] {
        // The clock of the file system may not have ticked since, and its times are whole seconds.
        let changed = file.metadata().unwrap().ctime();
        wait_until("there is another second", || {
            fs::write(mount.path().join("clock"), "").unwrap();
            mount.path().join("clock").metadata().unwrap().ctime() > changed
        });
        fs::remove_file(mount.path().join("clock")).unwrap();
        // The first inode that is free is the next to be used.
        fs::remove_file(&file).unwrap();
        assert_eq!(put(content), inode);
        expect(&scrub(&catalog, &mount.path(), &["-v"]), 0, &[("modified", &file)]);
    }
    // The file itself with another content, of the same length and of another one.
    change_and_restore_time(&file, "rotten thing!");
    expect(&scrub(&catalog, &mount.path(), &["-v"]), 1, &[("suspicious", &file)]);
    change_and_restore_time(&file, "longer than it was");
    expect(&scrub(&catalog, &mount.path(), &["-v"]), 1, &[("suspicious", &file)]);
}

/// What becomes of a file whose record has another digest than those of its neighbours.
#[test]
fn a_renamed_file_is_compared_by_the_digest_of_its_own_record() {
    type Renamed = (fn(&Tree), &'static [(&'static str, &'static str)], &'static str);
    let renamed: [Renamed; 3] = [
        (|tree| swap(tree, "f1", "f2"), &[("modified", "f1"), ("modified", "f2")], "f2"),
        (
            |tree| fs::rename(tree.path("f1"), tree.path("f2")).unwrap(),
            &[("modified", "f2"), ("moved", "f2")],
            "f2",
        ),
        (|tree| fs::rename(tree.path("f1"), tree.path("n")).unwrap(), &[("moved", "n")], "n"),
    ];
    for rehashes in [false, true] {
        for (rename, when_sound, now) in &renamed {
            for is_rotten in [false, true] {
                let tree = Tree::new();
                age(&tree, &["f1", "f2"]);
                let outside = tree.folder.path().join("outside");
                fs::rename(tree.path("f2"), &outside).unwrap();
                tree.scrub(&["-a", "md5"]).clean();
                fs::rename(&outside, tree.path("f2")).unwrap();
                tree.scrub(&["-a", "sha256"]).clean();
                if rehashes {
                    let rehash =
                        [s("catalog"), s("rehash"), s("--catalog"), tree.catalog(), s("--to"), s("blake3")];
                    verisum(rehash).clean();
                }
                if is_rotten {
                    change_and_restore_time(&tree.path("f1"), "CONTENT 1");
                }
                rename(&tree);
                let about = format!("{rehashes} {when_sound:?} {is_rotten}");
                let ended = tree.scrub(&["-v"]);
                if is_rotten {
                    assert_eq!(ended.code, Some(1), "{about}: {}", ended.out());
                    let line = format!("suspicious    {}", tree.path(now).display());
                    assert!(ended.out().contains(&line), "{about}: {}", ended.out());
                    assert_eq!(tree.scrub(&[]).code, Some(1), "{about}");
                } else {
                    expect_all(&tree, &ended, 0, when_sound);
                    tree.scrub(&[]).clean();
                }
                check(&tree.catalog());
            }
        }
    }
}
