//! Bad files that a run of `verisum scrub` does not come to are named all the same; those that it leaves out are not.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};

use common::scrubbing::{Tree, s};
use common::{Ended, VERISUM, change_and_restore_time, command, signal, start, verisum, wait_until};
use rustix::process::Signal;

const BAD: usize = 8;

/// A tree of 40 files, of which eight are known to be bad.
fn tree() -> Tree {
    let tree = Tree::new();
    let bad = || (0..BAD).map(|number| tree.path(&format!("bad{number}")));
    bad().for_each(|path| fs::write(path, "content").unwrap());
    (0..21).for_each(|number| fs::write(tree.path(&format!("good{number}")), "content").unwrap());
    tree.scrub(&[]).clean();
    bad().for_each(|path| change_and_restore_time(&path, "Content"));
    named(&tree.scrub(&[]), 1, BAD);
    tree
}

/// Asserts the exit code, and that so many bad files are named.
#[track_caller]
fn named(ended: &Ended, code: i32, count: usize) {
    assert_eq!(ended.code, Some(code), "{}{}", ended.out(), ended.stderr);
    let lines = ended.out().lines().filter(|line| line.starts_with("suspicious ") && line.contains("/bad"));
    assert_eq!(lines.count(), count, "{}{}", ended.out(), ended.stderr);
}

fn summary(ended: &Ended) -> serde_json::Value {
    let line = ended.out().lines().rfind(|line| line.contains("\"summary\"")).expect("a summary");
    serde_json::from_str(line).unwrap()
}

/// What a run is by all that tells of it: the exit code, its lines, JSON, Nagios and Prometheus.
#[track_caller]
fn agree(tree: &Tree, options: &[&str], code: i32, bad: usize) -> serde_json::Value {
    let figures = tree.folder.path().join("figures.prom");
    let prometheus = format!("--prometheus={}", figures.display());
    named(&tree.scrub(&[options, &[&prometheus]].concat()), code, bad);
    let figures = fs::read_to_string(figures).unwrap();
    assert!(figures.contains(&format!("verdict=\"suspicious\"}} {bad}\n")), "{figures}");
    let repairable = figures.lines().filter(|line| line.starts_with("verisum_scrub_repairable_files{"));
    let repairable: usize =
        repairable.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum();
    assert_eq!(repairable, bad, "{figures}");
    let json = tree.scrub(&[options, &["--json"]].concat());
    let summary = summary(&json);
    assert_eq!((json.code, &summary["counts"]["suspicious"]), (Some(code), &bad.into()), "{summary}");
    assert_eq!(json.out().matches("\"type\":\"alarm\"").count(), bad.min(10), "{}", json.out());
    let nagios = tree.scrub(&[options, &["--nagios"]].concat());
    assert_eq!(nagios.code, Some(if bad > 0 { 2 } else { 0 }), "{}", nagios.out());
    assert!(nagios.out().contains(&format!("40 files, {bad} bad")), "{}", nagios.out());
    assert_eq!(
        nagios.out().lines().skip(1).filter(|line| line.contains("/bad")).count(),
        bad.min(3),
        "{}",
        nagios.out()
    );
    summary
}

#[test]
fn bad_files_of_a_tree_that_is_gone_are_counted() {
    let tree = tree();
    let figures = tree.folder.path().join("figures.prom");
    fs::rename(tree.root(), tree.folder.path().join("elsewhere")).unwrap();
    let ended = tree.scrub(&["-q", &format!("--prometheus={}", figures.display())]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let figures = fs::read_to_string(figures).unwrap();
    for (figure, value) in [
        ("verisum_scrub_files{", format!("verdict=\"suspicious\"}} {BAD}")),
        ("verisum_scrub_exit_code{", "\"} 1".to_string()),
        ("verisum_scrub_not_tried_files{", format!("\"}} {BAD}")),
    ] {
        let row = figures.lines().find(|line| line.starts_with(figure));
        assert!(row.is_some_and(|row| row.ends_with(&value)), "{figure}: {figures}");
    }
}

#[test]
fn bad_files_for_which_there_is_no_time_are_named_and_counted() {
    let tree = tree();
    let summary = agree(&tree, &["--for", "1s", "--limit-iops", "1"], 1, BAD);
    assert!(summary["not_tried"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!((&summary["complete"], &summary["interrupted"]), (&false.into(), &false.into()), "{summary}");
    let ended = tree.scrub(&["--for", "1s", "--limit-iops", "1"]);
    assert!(ended.out().contains("it was not tried again: there was no time"), "{}", ended.out());
    assert!(ended.stderr.contains("known to be bad were not tried again"), "{}", ended.stderr);
    // They stay what they are.
    named(&tree.scrub(&[]), 1, BAD);
}

#[test]
fn a_run_that_is_ended_names_the_bad_files_that_it_did_not_come_to() {
    let tree = tree();
    let arguments = [s("scrub"), s("--limit-iops"), s("1"), s("--catalog"), tree.catalog(), tree.root()];
    let child = start(command(VERISUM).args(&arguments));
    let status = [s("catalog"), s("status"), s("--catalog"), tree.catalog()];
    wait_until("the run has begun", || verisum(&status).out().contains(": in progress"));
    signal(&child, Signal::INT);
    let ended = Ended::of(child.wait_with_output().unwrap());
    named(&ended, 130, BAD);
    assert!(ended.out().contains("it was not tried again: the run was ended"), "{}", ended.out());
}

#[test]
fn what_is_left_out_is_neither_named_nor_counted() {
    let tree = tree();
    agree(&tree, &["--exclude", "bad[0-4]"], 1, 3);
    agree(&tree, &["--exclude", "bad*"], 0, 0);
    let ended = tree.scrub(&["--exclude", "bad*"]);
    assert_eq!(ended.clean().matches("bad").count(), 0);
    // Its record stays.
    let status = verisum([s("catalog"), s("status"), s("--catalog"), tree.catalog()]);
    assert!(status.out().contains("suspicious: 8"), "{}", status.out());
    // Held files too.
    let changed: Vec<PathBuf> = (0..3).map(|number| tree.path(&format!("good{number}"))).collect();
    changed.iter().for_each(|path: &PathBuf| fs::write(Path::new(path), "changed").unwrap());
    assert_eq!(tree.scrub(&["--archive", "--exclude", "bad*"]).code, Some(1));
    tree.scrub(&["--exclude", "bad*", "--exclude", "good*"]).clean();
}
