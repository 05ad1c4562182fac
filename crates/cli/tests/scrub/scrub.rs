//! `verisum scrub`, `accept` and `catalog`: what each thing that happens to a tree is called, and what
//! becomes of its record.

use crate::common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use common::scrubbing::{Tree, check, expect, export, s, scrub};
use common::{Ended, change_and_restore_time, verisum};

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
    change_and_restore_time(&two, "ANOTHER 2");
    tree.scrub(&[]);
    let quiet = [s("accept"), s("-q"), s("--catalog"), tree.catalog(), two];
    assert_eq!(verisum(&quiet).clean(), "");
    assert!(verisum(&quiet).stderr.contains("no file here has a problem"));
    check(&tree.catalog());
}

#[test]
fn what_is_gone_can_be_accepted_without_what_is_bad() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let (bad, gone, back) = (tree.path("f1"), tree.path("f2"), tree.path("f3"));
    let content = fs::read(&back).unwrap();
    change_and_restore_time(&bad, "CONTENT 1");
    fs::remove_file(&gone).unwrap();
    fs::remove_file(&back).unwrap();
    tree.scrub(&["--quiet"]);
    // No scrub has read yet what it is now.
    fs::write(&back, &content).unwrap();
    let words = [s("accept"), s("--only-missing"), s("--catalog"), tree.catalog(), tree.root()];
    let ended = verisum(&words);
    let has = |text: &str, path: &Path| text.contains(&*path.to_string_lossy());
    assert_eq!((ended.code, ended.out().lines().count()), (Some(3), 1), "{}", ended.out());
    assert!(has(ended.out(), &gone) && has(&ended.stderr, &back), "{}", ended.stderr);
    assert!(ended.stderr.contains("it is there again: scrub it"), "{}", ended.stderr);
    expect(&tree.scrub(&["--quiet"]), 1, &[("suspicious", &bad)]);
    assert!(verisum(&words).stderr.contains("no file here has a problem"));
    check(&tree.catalog());
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
    let list = format!("`verisum catalog list --missing --catalog '{}'`", tree.catalog().display());
    assert!(out.contains(&format!("\n... and 5 more missing ({list} names all)\n")), "{out}");
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
    // Restored or forgotten, as somebody may have deleted it.
    for words in [&["--archive"][..], &["--missing", "fail"]] {
        let said = tree.scrub(words).stderr;
        let file = tree.path("below/deep");
        let hints = ["mend it from a copy: verisum repair ", "if it was deleted on purpose: verisum accept "];
        for hint in hints {
            let line = said.lines().find(|line| line.contains(hint)).unwrap_or_else(|| panic!("{said}"));
            assert!(line.contains(&file.display().to_string()), "{line}");
        }
    }
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
    let accept =
        format!("`verisum accept --catalog '{}' '{}'`", tree.catalog().display(), tree.root().display());
    assert!(ended.stderr.contains(&accept), "{}", ended.stderr);
    // There is none.
    let undo = "` brings back what has a known copy or parity, and --from PLACE names a copy)";
    assert!(ended.stderr.contains(undo), "{}", ended.stderr);
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
fn beyond_the_first_alarms_the_list_has_missing_files_too() {
    let tree = Tree::new();
    let mirror = tree.folder.path().join("mirror");
    fs::create_dir(&mirror).unwrap();
    for number in 0..10 {
        fs::copy(tree.path(&format!("f{number}")), mirror.join(format!("f{number}"))).unwrap();
    }
    scrub(&tree.catalog(), &mirror, &[]).clean();
    tree.scrub(&[]).clean();
    for number in 0..5 {
        change_and_restore_time(&tree.path(&format!("f{number}")), &format!("CONTENT {number}"));
    }
    for number in 5..10 {
        fs::remove_file(tree.path(&format!("f{number}"))).unwrap();
    }
    change_and_restore_time(&tree.path("below/deep"), "DEEP content");
    let ended = tree.scrub(&[]);
    let list = format!("`verisum catalog list --bad --missing --catalog '{}'`", tree.catalog().display());
    assert!(ended.stderr.contains(&format!("... and 1 more: {list} lists all\n")), "{}", ended.stderr);
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
        alarm.out().contains("... and 5 more that changed or are gone (--verbose names all)"),
        "{}",
        alarm.out()
    );
    let named = |options: &[&str]| {
        let ended = tree.scrub(options);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        ended.out().lines().filter(|line| line.contains("modified ") && line.contains("/m")).count()
    };
    assert_eq!((named(&[]), named(&["--quiet"]), named(&["-v"])), (10, 10, 15));
    // With those that were held before ten are named too.
    fs::write(tree.path("f1"), "encrypted").unwrap();
    let again = tree.scrub(&["--alarm-changed", "20%"]);
    assert!(again.stderr.contains("ALARM: 16 of 26 files changed or went: "), "{}", again.stderr);
    assert_eq!(again.out().matches("held until it is accepted").count(), 10, "{}", again.out());
    assert!(again.out().contains("... and 6 more that changed or are gone"), "{}", again.out());
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
    // Figures that cannot be written are said once, and hide nothing.
    let link = tree.folder.path().join("link");
    std::os::unix::fs::symlink("nothing", &link).unwrap();
    let ended = tree.scrub(&["--quiet", &format!("--prometheus={}", link.display())]);
    let said: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("verisum: ")).collect();
    assert!(said[0].contains("1 file is bad or missing, and no copy is known (`verisum repair --catalog "));
    assert_eq!(said[1..], [format!("verisum: {}: create: the link leads to no file", link.display())]);
    expect(&ended, 1, &[("suspicious", &tree.path("f4"))]);
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
fn a_signal_ends_a_run_in_good_order() {
    let tree = Tree::new();
    for number in 0..200 {
        fs::write(tree.path(&format!("big{number}")), vec![number as u8; 50_000]).unwrap();
    }
    let mut arguments = vec![s("scrub"), s("--limit"), s("1MB/s"), s("--catalog"), tree.catalog()];
    arguments.push(tree.root());
    let child = common::start(common::command(common::VERISUM).args(&arguments));
    let pid = rustix::process::Pid::from_child(&child);
    // Not before it has recorded something.
    let log = tree.folder.path().join("c.db-wal");
    let recorded = || fs::read(&log).is_ok_and(|log| log.windows(4).any(|name| name == b"big1"));
    common::wait_until("something is recorded", recorded);
    // `timeout` sends one to the program, and one to its group: both come at once.
    use rustix::process::Signal;
    for signal in [Signal::STOP, Signal::TERM, Signal::INT, Signal::CONT] {
        rustix::process::kill_process(pid, signal).unwrap();
    }
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(130), ""));
    assert!(ended.out().contains("interrupted: the next run resumes it"), "{}", ended.out());
    let status = verisum([s("catalog"), s("status"), s("--catalog"), tree.catalog()]).clean();
    assert!(status.contains(": was interrupted, read "), "{status}");
    check(&tree.catalog());
    // What it did is not done again, and the rest is.
    let json = tree.scrub(&["--json", "--max-age", "90d"]).clean();
    let summary = json.lines().last().unwrap();
    assert!(summary.contains("\"complete\":true") && !summary.contains("\"read_files\":211,"), "{summary}");
    assert_eq!(export(&tree.catalog()).matches("\"ok\"").count(), 211);
}

/// As in a script that starts it in the background.
#[test]
fn a_signal_that_it_was_started_to_ignore_ends_no_run() {
    let tree = Tree::new();
    fs::write(tree.path("big"), vec![1; 500_000]).unwrap();
    let line = r#"trap '' INT; exec "$0" scrub --limit 1MB/s --catalog "$1" "$2""#;
    let mut shell = common::command("sh");
    shell.args(["-c", line, common::VERISUM]).arg(tree.catalog()).arg(tree.root());
    let child = common::start(&mut shell);
    let log = tree.folder.path().join("c.db-wal");
    common::wait_until("it has begun", || log.exists());
    common::signal(&child, rustix::process::Signal::INT);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.out());
}

/// With --archive it is a failure by itself, and an alarm has it held.
#[test]
fn what_an_interrupted_run_replaced_is_named_once() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    for number in 0..4 {
        fs::write(tree.path(&format!("f{number}")), format!("other content {number}")).unwrap();
    }
    for number in 0..200 {
        fs::write(tree.path(&format!("z-big{number}")), vec![number as u8; 50_000]).unwrap();
    }
    let words = ["scrub", "--limit", "1MB/s", "--order", "name", "--threads", "1", "--catalog"].map(s);
    let mut interrupted = common::command(common::VERISUM);
    let child = common::start(interrupted.args(words).arg(tree.catalog()).arg(tree.root()));
    let log = tree.folder.path().join("c.db-wal");
    let recorded = || fs::read(&log).is_ok_and(|log| log.windows(6).any(|name| name == b"z-big1"));
    common::wait_until("the changed files are recorded", recorded);
    common::signal(&child, rustix::process::Signal::INT);
    assert_eq!(Ended::of(child.wait_with_output().unwrap()).code, Some(130));
    let ended = tree.scrub(&["--archive", "--alarm-changed", "1%"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("ALARM: 4 of "), "{}", ended.stderr);
    for number in 0..4 {
        let line = format!("{}  (", tree.path(&format!("f{number}")).display());
        assert_eq!(ended.out().matches(&line).count(), 1, "{}", ended.out());
    }
    assert!(!ended.out().contains("... and "), "{}", ended.out());
}

#[test]
fn what_an_interrupted_run_recorded_is_missing_once_it_is_gone() {
    let tree = Tree::new();
    tree.scrub(&[]).clean();
    let new = |number| tree.path(&format!("new{number}"));
    for number in 0..200 {
        // Some have the same content.
        fs::write(new(number), vec![(number / 2) as u8; 50_000]).unwrap();
    }
    let arguments = [s("scrub"), s("--limit"), s("1MB/s"), s("--catalog"), tree.catalog(), tree.root()];
    let child = common::start(common::command(common::VERISUM).args(&arguments));
    let pid = rustix::process::Pid::from_child(&child);
    let log = tree.folder.path().join("c.db-wal");
    let recorded = || fs::read(&log).is_ok_and(|log| log.windows(4).any(|name| name == b"new1"));
    common::wait_until("something is recorded", recorded);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(Ended::of(child.wait_with_output().unwrap()).code, Some(130));
    let recorded = export(&tree.catalog()).matches("\"new").count();
    (0..200).for_each(|number| fs::remove_file(new(number)).unwrap());
    let ended = tree.scrub(&["--missing", "fail"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out(), ended.stderr);
    assert!(!ended.out().contains("moved"), "{}", ended.out());
    let exported = export(&tree.catalog());
    assert_eq!(
        (exported.matches("\"new").count(), exported.matches("\"missing\"").count()),
        (recorded, recorded)
    );
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
    assert_eq!(read(tree.scrub(&["--json", "--sample", "100%"])), 11);
    assert_eq!(read(tree.scrub(&["--json", "--shuffle"])), 11);
    for number in 0..1000 {
        fs::write(tree.path(&format!("below/{number}")), "content").unwrap();
    }
    tree.scrub(&[]).clean();
    // 101 on average; one in 10^15 runs is outside of these.
    let sampled = read(tree.scrub(&["--json", "--sample", "10%"]));
    assert!((30..=200).contains(&sampled), "{sampled} of 1011 files");
}

#[test]
fn shuffled_files_are_read_in_another_order() {
    let tree = Tree::new();
    // Several times what is read and hashed in one go, and so has one time.
    (100..200).for_each(|number| fs::write(tree.path(&number.to_string()), [b'x'; 60_000]).unwrap());
    tree.scrub(&["-t1"]).clean();
    // When each was verified, by their inodes, in whose order they are read: a limit keeps those of different goes
    // apart.
    let times = |options: &[&str]| -> Vec<String> {
        tree.scrub(&[&["-t1", "--order", "inode", "--limit", "10MB/s"], options].concat()).clean();
        let of = |line: &str| -> Option<(u64, String)> {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let path = record["path"].as_str().filter(|path| path.starts_with('1'))?;
            let inode = fs::metadata(tree.path(path)).unwrap().ino();
            Some((inode, record["last_verified"].as_str()?.to_string()))
        };
        let verified: BTreeMap<_, _> = export(&tree.catalog()).lines().filter_map(of).collect();
        verified.into_values().collect()
    };
    let (plain, shuffled) = (times(&[]), times(&["--shuffle"]));
    assert!(plain.len() == 100 && plain.is_sorted(), "{plain:?}");
    assert!(shuffled.len() == 100 && !shuffled.is_sorted(), "{shuffled:?}");
}

#[test]
fn files_that_went_missing_are_named_also_where_little_is_said() {
    let tree = Tree::new();
    tree.scrub(&["-q"]).clean();
    let gone = [tree.path("f1"), tree.path("below/deep")];
    gone.iter().for_each(|path| fs::remove_file(path).unwrap());
    let missing: Vec<(&str, &Path)> = gone.iter().map(|path| ("missing", &**path)).collect();
    expect(&tree.scrub(&["-q"]), 0, &missing);
    // They were told of once, unless they are failures.
    assert_eq!(tree.scrub(&["-q"]).clean(), "");
    for _ in 0..2 {
        expect(&tree.scrub(&["-q", "--missing", "fail"]), 1, &missing);
    }
    let nagios = tree.scrub(&["--nagios", "--missing=fail"]);
    assert_eq!(nagios.code, Some(2), "{}", nagios.out());
    assert!(nagios.out().starts_with("VERISUM CRITICAL - 11 files, 0 bad, 0 unchecked, 2 missing | "));
    tree.accept(&tree.root());
    assert_eq!(tree.scrub(&["-q", "--missing", "fail"]).clean(), "");
    for number in 0..5 {
        fs::write(tree.path(&format!("more{number}")), "more").unwrap();
    }
    tree.scrub(&["-q", "--missing=fail"]).clean();
    // What is scheduled says it too.
    let line = [s("schedule"), s("--cron"), s("@daily"), s("--catalog"), tree.catalog(), tree.root()];
    let line = verisum(line).clean();
    fs::remove_file(tree.path("f2")).unwrap();
    let command = line.strip_prefix("@daily ").unwrap();
    let ended = std::process::Command::new("sh").args(["-c", command]).output().unwrap();
    expect(&Ended::of(ended), 0, &[("missing", &tree.path("f2"))]);
}

/// The niceness of a process, once it is this; a process that has ended has none.
fn comes_to(process: u32, niceness: i64) -> bool {
    loop {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields[0] == "Z" {
            return false;
        }
        if fields[16].parse::<i64>().unwrap() == niceness {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn scrubs_let_other_programs_go_first() {
    let tree = Tree::new();
    fs::write(tree.path("large"), vec![1; 1 << 20]).unwrap();
    let mut command = common::command(common::VERISUM);
    command.env_remove("VERISUM_FOREGROUND").args(["scrub", "--limit", "1kB/s", "--catalog"]);
    let mut scrub = common::start(command.arg(tree.catalog()).arg(tree.root()));
    let is_last = comes_to(scrub.id(), 19);
    scrub.kill().unwrap();
    scrub.wait().unwrap();
    assert!(is_last, "it ended at normal priority");
}
