//! Scrubs by the library, with a clock of the test's own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use verisum_catalog::scrub::{
    Accept, Alarm, RootFault, ScrubError, ScrubOptions, ScrubReport, ScrubSummary, accept, scrub,
};
use verisum_catalog::store::Catalog;
use verisum_digest::Digest;
use verisum_files::{Limits, Timestamp, Verdict, VerdictClass};

const DAY: i64 = 86_400_000;
const TODAY: i64 = 20_000 * DAY;

fn options(now: i64) -> ScrubOptions {
    let mut options = ScrubOptions::new(Digest::find("sha256").unwrap());
    options.threads = 2;
    options.alarm = Alarm { share: 1.0, at_least: 1 };
    options.now = Some(Timestamp::of_milliseconds(now));
    options
}

fn run(catalog: &mut Catalog, tree: &Path, options: &ScrubOptions) -> ScrubSummary {
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
    let mut aged = options(TODAY);
    aged.max_age = Some(Duration::from_secs(90 * 86_400));
    let summary = run(&mut catalog, &tree, &aged);
    assert!(summary.clock_went_back);
    assert_eq!(summary.count(Verdict::Ok), 1, "nobody knows how old that verification is");
    let summary = run(&mut catalog, &tree, &{
        let mut options = aged.clone();
        options.now = Some(Timestamp::of_milliseconds(TODAY + 30 * DAY));
        options
    });
    assert!(!summary.clock_went_back);
    assert_eq!(summary.read_files, 0);
    let summary = run(&mut catalog, &tree, &{
        let mut options = aged;
        options.now = Some(Timestamp::of_milliseconds(TODAY + 100 * DAY));
        options
    });
    assert_eq!(summary.read_files, 1);
}

#[test]
fn callers_can_tell_why_a_directory_is_no_tree() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, other) = (folder.path().join("tree"), folder.path().join("other"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    let mut catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
    run(&mut catalog, &tree, &options(TODAY));
    let mut why = |path: &Path| match scrub(&mut catalog, path, &options(TODAY), &mut |_| ()) {
        Err(ScrubError::Root { why, .. }) => why,
        ended => panic!("{ended:?}"),
    };
    assert_eq!(why(&tree.join("file")), RootFault::NotADirectory);
    fs::rename(&tree, &other).unwrap();
    assert_eq!(why(&tree), RootFault::Gone);
    fs::create_dir(&tree).unwrap();
    assert_eq!(why(&tree), RootFault::Replaced);
}

#[test]
fn what_is_still_bad_is_told_with_the_run_that_found_it() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let file = tree.join("file");
    fs::write(&file, "content").unwrap();
    let mut catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
    let told = |catalog: &mut Catalog, day: i64| {
        let mut told = Vec::new();
        let summary = scrub(catalog, &tree, &options(TODAY + day * DAY), &mut |report| {
            told.push((report.verdict.class(), report.since.map(|since| since.milliseconds() / DAY)));
        });
        summary.unwrap();
        told
    };
    assert_eq!(told(&mut catalog, 0), [(VerdictClass::Change, None)]);
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    let rot = |content| {
        fs::write(&file, content).unwrap();
        File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    };
    rot("CONTENT");
    assert_eq!(told(&mut catalog, 1), [(VerdictClass::Corrupt, None)]);
    let first = Some((TODAY + DAY) / DAY);
    for day in [2, 3] {
        assert_eq!(told(&mut catalog, day), [(VerdictClass::Corrupt, first)]);
    }
    rot("content");
    let restored = told(&mut catalog, 4)[0];
    assert!(restored.0 != VerdictClass::Corrupt && restored.1.is_none(), "{restored:?}");
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
    let summary = run(&mut catalog, &tree, &{
        let mut options = options(TODAY + DAY);
        options.budget = Some(Duration::ZERO);
        options
    });
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
    let mut short = options(TODAY + DAY);
    short.budget = Some(Duration::ZERO);
    assert!(!run(&mut catalog, &tree, &short).complete);
    fs::write(tree.join("3"), "changed").unwrap();
    // The changed file is read at once, the others because the cycle is not over.
    let summary = run(&mut catalog, &tree, &options(TODAY + 2 * DAY));
    assert_eq!((summary.count(Verdict::Modified), summary.count(Verdict::Ok)), (1, 9));
    assert!(summary.complete);
}

#[test]
fn a_budget_ends_a_run_whose_files_wait_for_a_limit() {
    const FILES: u64 = 600;
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..FILES {
        // Some are read whole, and some in pieces.
        let length = if number % 2 == 0 { 100 } else { 70_000 };
        fs::write(tree.join(number.to_string()), vec![number as u8; length]).unwrap();
    }
    let mut catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
    let limited = |now| {
        let mut options = options(now);
        options.budget = Some(Duration::from_secs(1));
        options.limits = Some(Arc::new(Limits::new(0, 1)));
        options
    };
    let summary = run(&mut catalog, &tree, &limited(TODAY));
    assert!(summary.time < Duration::from_secs(100), "{:?}", summary.time);
    assert!(!summary.complete && summary.given_up == 0, "{summary:?}");
    assert_eq!(summary.count(Verdict::New) + summary.waiting, FILES, "{summary:?}");
    assert!(run(&mut catalog, &tree, &options(TODAY + DAY)).complete);
    // Those whose turn it is wait no longer than new ones, and stay due.
    let summary = run(&mut catalog, &tree, &limited(TODAY + 2 * DAY));
    assert!(summary.time < Duration::from_secs(100), "{:?}", summary.time);
    assert!(!summary.complete && (summary.waiting, summary.given_up) == (0, 0), "{summary:?}");
    let rest = run(&mut catalog, &tree, &options(TODAY + 3 * DAY));
    assert_eq!(summary.count(Verdict::Ok) + rest.count(Verdict::Ok), FILES);
}

#[test]
fn no_ordinary_operation_is_suspicious_where_all_files_have_one_time() {
    const NAMES: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let (tree, aside) = (folder.path().join("tree"), folder.path().join("aside"));
    fs::create_dir(&tree).unwrap();
    let name = |number: usize| tree.join(format!("f{number}"));
    // A build's time, and that of a tree that was made with `touch -r`.
    for nanoseconds in [0, 123_456_789] {
        let time = UNIX_EPOCH + Duration::new(1, nanoseconds);
        let mut count = 0;
        let mut write = |path: &Path| {
            count += 1;
            fs::write(path, format!("content {count:08}")).unwrap();
            File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        };
        (0..NAMES).for_each(|number| write(&name(number)));
        let mut catalog = Catalog::open(&folder.path().join(format!("{nanoseconds}.db"))).unwrap();
        run(&mut catalog, &tree, &options(now()));
        let mut random = 1_u64;
        let mut random = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        for round in 0..50 {
            // What is made from now on has a later time of birth than the last verification, by any clock.
            thread::sleep(Duration::from_millis(20));
            for _ in 0..100 {
                let (one, other) = (name(random(NAMES)), name(random(NAMES)));
                match random(5) {
                    0 | 1 => {
                        let _ = fs::rename(&one, &aside);
                        let _ = fs::rename(&other, &one);
                        let _ = fs::rename(&aside, &other);
                    }
                    2 => {
                        write(&aside);
                        fs::rename(&aside, &one).unwrap();
                    }
                    3 => {
                        let _ = fs::remove_file(&one);
                        write(&one);
                    }
                    _ => drop(fs::rename(&one, &other)),
                }
            }
            let rotten = name(random(NAMES));
            if round % 5 == 0 && rotten.exists() {
                run(&mut catalog, &tree, &options(now()));
                fs::write(&rotten, "rot").unwrap();
                File::options().write(true).open(&rotten).unwrap().set_modified(time).unwrap();
                let summary = run(&mut catalog, &tree, &options(now()));
                assert_eq!(summary.count(Verdict::Suspicious), 1, "round {round}: {summary:?}");
                let what = Accept {
                    path: &tree,
                    dry: false,
                    only_missing: false,
                    cross_file_systems: false,
                    now: Timestamp::of_milliseconds(now()),
                };
                accept(&catalog, &what, &mut |_| ()).unwrap();
            }
            let mut bad = Vec::new();
            let mut report = |report: ScrubReport| {
                if report.verdict.class() >= VerdictClass::Unchecked {
                    bad.push(report);
                }
            };
            scrub(&mut catalog, &tree, &options(now()), &mut report).unwrap();
            assert!(bad.is_empty(), "round {round}: {bad:#?}");
        }
        fs::remove_dir_all(&tree).unwrap();
        fs::create_dir(&tree).unwrap();
    }
}

#[test]
fn a_directory_that_is_renamed_under_the_walk_does_not_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let (here, away) = (tree.join("here"), folder.path().join("away"));
    fs::create_dir_all(&here).unwrap();
    for name in ["one", "two", "three"] {
        fs::write(here.join(name), name).unwrap();
    }
    let mut catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
    run(&mut catalog, &tree, &options(TODAY));
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                fs::rename(&here, &away).unwrap();
                fs::rename(&away, &here).unwrap();
            }
        });
        let ended = (1..=50).map(|day| scrub(&mut catalog, &tree, &options(TODAY + day * DAY), &mut |_| ()));
        let ended = ended.collect::<Result<Vec<_>, _>>();
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(ended.unwrap().len(), 50);
    });
    let summary = run(&mut catalog, &tree, &options(TODAY + 60 * DAY));
    assert_eq!(summary.count(Verdict::Ok), 3, "{summary:?}");
}

/// Makes the content of a file another, and leaves its time.
fn rot(path: &Path) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, vec![b'x'; fs::metadata(path).unwrap().len() as usize]).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// As if it had been moved there while a run went on that had looked there before.
#[test]
fn the_record_of_a_name_that_another_file_took_is_there_for_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, aside) = (folder.path().join("tree"), folder.path().join("aside"));
    fs::create_dir(&tree).unwrap();
    let (old, recent) = (tree.join("old"), tree.join("recent"));
    fs::write(&old, "the content of yesterday").unwrap();
    let yesterday = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    File::options().write(true).open(&old).unwrap().set_modified(yesterday).unwrap();
    fs::write(&recent, "the content of today").unwrap();
    let mut catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
    run(&mut catalog, &tree, &options(now()));
    rot(&recent);
    fs::rename(&recent, &aside).unwrap();
    fs::write(&recent, "the content of tomorrow").unwrap();
    assert_eq!(run(&mut catalog, &tree, &options(now())).count(Verdict::Modified), 1);
    fs::rename(&aside, &old).unwrap();
    for _ in 0..2 {
        let summary = run(&mut catalog, &tree, &options(now()));
        assert_eq!((summary.count(Verdict::Suspicious), summary.count(Verdict::Ok)), (1, 1), "{summary:?}");
    }
}

#[test]
fn a_bad_file_is_known_in_another_tree_though_its_name_has_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let trees = ["one", "two"].map(|name| folder.path().join(name));
    let [from, to] = [trees[0].join("bad"), trees[1].join("moved")];
    for tree in &trees {
        fs::create_dir(tree).unwrap();
        fs::write(tree.join("other"), tree.to_str().unwrap()).unwrap();
    }
    fs::write(&from, "a content of some length").unwrap();
    let mut catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
    let mut suspicious = || {
        let mut run = |tree: &PathBuf| run(&mut catalog, tree, &options(now())).count(Verdict::Suspicious);
        trees.each_ref().map(&mut run)
    };
    assert_eq!(suspicious(), [0, 0]);
    rot(&from);
    assert_eq!(suspicious(), [1, 0]);
    fs::rename(&from, &to).unwrap();
    fs::write(&from, "another file").unwrap();
    assert_eq!(suspicious(), [1, 1]);
    assert_eq!(suspicious(), [1, 1]);
    // Also in a tree that has no records yet.
    let third = folder.path().join("three");
    fs::create_dir(&third).unwrap();
    fs::rename(&to, third.join("again")).unwrap();
    for _ in 0..2 {
        assert_eq!(run(&mut catalog, &third, &options(now())).count(Verdict::Suspicious), 1);
    }
    // And under a name that had a record, while no run has seen yet that another file has its own.
    let fourth = folder.path().join("four");
    fs::create_dir(&fourth).unwrap();
    fs::write(fourth.join("other"), "overwritten").unwrap();
    run(&mut catalog, &fourth, &options(now()));
    fs::rename(third.join("again"), fourth.join("other")).unwrap();
    fs::write(third.join("again"), "one more file").unwrap();
    for _ in 0..2 {
        assert_eq!(run(&mut catalog, &fourth, &options(now())).count(Verdict::Suspicious), 1);
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}
