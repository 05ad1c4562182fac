//! Scrubs by the library, with a clock of the test's own.

use std::fs;
use std::path::Path;
use std::time::Duration;

use verisum_digest::{Digest, Policy};
use verisum_tree::Verdict;
use verisum_tree::scrub::{Alarm, Options, Summary, scrub};
use verisum_tree::store::catalog::Catalog;

const DAY: i64 = 86_400_000;
const TODAY: i64 = 20_000 * DAY;

fn options(now: i64) -> Options {
    Options {
        excludes: None,
        order: verisum_tree::Order::Directory,
        limits: None,
        stop: Default::default(),
        progress: Default::default(),
        digest: Digest::find("sha256").unwrap(),
        policy: Policy::default(),
        threads: 2,
        max_age: None,
        budget: None,
        sample: 1.0,
        shuffle: false,
        since: None,
        one_file_system: true,
        stop_after: None,
        alarm: Alarm { share: 1.0, at_least: 1 },
        archive: false,
        replaced_root: false,
        now,
    }
}

fn run(catalog: &mut Catalog, tree: &Path, options: &Options) -> Summary {
    scrub(catalog, tree, options, &mut |_| ()).unwrap()
}

#[test]
fn a_clock_that_goes_back_hides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    let mut catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
    // Somebody's clock was ten years ahead.
    run(&mut catalog, &tree, &options(TODAY + 3650 * DAY));
    let aged = Options { max_age: Some(Duration::from_secs(90 * 86_400)), ..options(TODAY) };
    let summary = run(&mut catalog, &tree, &aged);
    assert!(summary.clock_went_back);
    assert_eq!(summary.count(Verdict::Ok), 1, "nobody knows how old that verification is");
    let summary = run(&mut catalog, &tree, &Options { now: TODAY + 30 * DAY, ..aged.clone() });
    assert!(!summary.clock_went_back);
    assert_eq!(summary.read_files, 0);
    let summary = run(&mut catalog, &tree, &Options { now: TODAY + 100 * DAY, ..aged });
    assert_eq!(summary.read_files, 1);
}

#[test]
fn a_budget_of_nothing_still_finds_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..10 {
        fs::write(tree.join(number.to_string()), "content").unwrap();
    }
    let mut catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
    run(&mut catalog, &tree, &options(TODAY));
    fs::remove_file(tree.join("3")).unwrap();
    fs::write(tree.join("new"), "other").unwrap();
    let summary = run(&mut catalog, &tree, &Options { budget: Some(Duration::ZERO), ..options(TODAY + DAY) });
    assert_eq!((summary.count(Verdict::Missing), summary.waiting, summary.complete), (1, 1, false));
    let summary = run(&mut catalog, &tree, &options(TODAY + 2 * DAY));
    assert_eq!((summary.count(Verdict::New), summary.count(Verdict::Ok), summary.complete), (1, 9, true));
}

#[test]
fn what_a_stopped_run_verified_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..10 {
        fs::write(tree.join(number.to_string()), "content").unwrap();
    }
    let mut catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
    run(&mut catalog, &tree, &options(TODAY));
    let short = Options { budget: Some(Duration::ZERO), ..options(TODAY + DAY) };
    assert!(!run(&mut catalog, &tree, &short).complete);
    fs::write(tree.join("3"), "changed").unwrap();
    // The changed file is read at once, the others because the cycle is not over.
    let summary = run(&mut catalog, &tree, &options(TODAY + 2 * DAY));
    assert_eq!((summary.count(Verdict::Modified), summary.count(Verdict::Ok)), (1, 9));
    assert!(summary.complete);
}
