//! Scrubs of trees of which too much changed at once, read or not.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use verisum_catalog::scrub::{
    Accept, Alarm, ScrubOptions, ScrubReport, ScrubSummary, TooMuch, accept, scrub,
};
use verisum_catalog::store::Catalog;
use verisum_digest::Digest;
use verisum_files::{Excludes, Limits, Stop, Timestamp, Verdict};

const FILES: u64 = 10;

/// What is other than usual in a run.
type Change<'a> = &'a dyn Fn(&mut ScrubOptions);

/// A tree of two directories of as many files, and its catalogue.
struct World {
    folder: TempDir,
    catalog: Catalog,
    now: i64,
}

impl World {
    fn new(files: u64) -> World {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(&folder.path().join("c.db")).unwrap();
        let mut world = World { folder, catalog, now: 1_800_000_000_000 };
        for directory in ["x", "y"] {
            fs::create_dir_all(world.path(directory)).unwrap();
            for number in 0..files {
                world.write(directory, number, "content", 1);
            }
        }
        let summary = world.scrub("", &|_| ());
        assert_eq!((summary.files, summary.alarm), (2 * files, None));
        world
    }

    fn path(&self, below: &str) -> PathBuf {
        let tree = self.folder.path().canonicalize().unwrap().join("tree");
        if below.is_empty() { tree } else { tree.join(below) }
    }

    fn file(&self, directory: &str, number: u64) -> PathBuf {
        self.path(directory).join(format!("f{number:03}"))
    }

    fn write(&self, directory: &str, number: u64, content: &str, day: u64) {
        fs::write(self.file(directory, number), format!("{content} {directory} {number}")).unwrap();
        self.touch(directory, number, day);
    }

    fn touch(&self, directory: &str, number: u64, day: u64) {
        let file = File::open(self.file(directory, number)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400)).unwrap();
    }

    /// Scrubs a part of the tree; half of it is too much.
    fn scrub(&mut self, below: &str, change: &dyn Fn(&mut ScrubOptions)) -> ScrubSummary {
        self.scrub_with(below, change, &mut |_| ())
    }

    /// Scrubs a part of the tree, and interrupts the run once it has told of the file that was only touched:
    /// what it did is kept, and it does not come to its end.
    fn interrupt(&mut self, below: &str) {
        let stop = Arc::new(Stop::default());
        let request = stop.clone();
        let summary =
            self.scrub_with(below, &|options| options.stop = stop.clone(), &mut |_| request.request());
        assert_eq!((summary.interrupted, summary.count(Verdict::Touched)), (true, 1));
    }

    fn scrub_with(
        &mut self,
        below: &str,
        change: &dyn Fn(&mut ScrubOptions),
        report: &mut (dyn FnMut(ScrubReport) + Send),
    ) -> ScrubSummary {
        self.now += 1000;
        let mut options = ScrubOptions::new(Digest::find("sha256").unwrap());
        options.alarm = Alarm { share: 0.5, at_least: 1 };
        options.now = Some(Timestamp::of_milliseconds(self.now));
        change(&mut options);
        let path = self.path(below);
        scrub(&mut self.catalog, path.as_path(), &options, report).unwrap()
    }

    fn accept(&mut self, path: &Path) -> u64 {
        let what = Accept {
            path,
            dry: false,
            only_missing: false,
            cross_file_systems: false,
            now: Timestamp::of_milliseconds(self.now),
        };
        accept(&self.catalog, &what, &mut |accepted| assert_eq!(accepted.error, None)).unwrap() as u64
    }

    /// Expects that every file is held, and taken once somebody accepts the tree.
    fn expect_all_held(&mut self, summary: &ScrubSummary, files: u64) {
        assert_eq!(summary.held, files);
        let again = self.scrub("", &|_| ());
        assert_eq!((again.alarm, again.held, again.count(Verdict::Modified)), (None, files, files));
        assert_eq!(self.accept(&self.path("")), files);
        let last = self.scrub("", &|_| ());
        assert_eq!((last.held, last.count(Verdict::Ok)), (0, files));
    }
}

fn without_time(options: &mut ScrubOptions) {
    options.budget = Some(Duration::ZERO);
}

#[test]
fn files_that_were_not_read_count_and_are_held() {
    let mut world = World::new(FILES);
    // As long as before, and longer.
    for number in 0..FILES {
        world.write("x", number, "CONTENT", 2);
        world.write("y", number, "encrypted", 2);
    }
    let summary = world.scrub("", &without_time);
    assert_eq!(summary.alarm, Some(TooMuch { files: 20, of: 20, unread: 20 }));
    assert_eq!((summary.waiting, summary.read_files), (20, 0));
    world.expect_all_held(&summary, 20);
}

#[test]
fn with_time_for_a_part_all_are_held() {
    const MANY: u64 = 200;
    for (content, is_changed) in [("encrypted", true), ("CONTENT", true), ("content", false)] {
        let mut world = World::new(MANY);
        for directory in ["x", "y"] {
            (0..MANY).for_each(|number| world.write(directory, number, content, 2));
        }
        let summary = world.scrub("", &|options| {
            // A tenth of what is to be read, and much longer than the walk takes.
            options.budget = Some(Duration::from_secs(4));
            options.limits = Some(Arc::new(Limits::new(0, 10)));
        });
        assert!(summary.waiting > 0 && summary.read_files > 0, "{summary:?}");
        if is_changed {
            let alarm = TooMuch { files: 2 * MANY, of: 2 * MANY, unread: summary.waiting };
            assert_eq!(summary.alarm, Some(alarm), "{content}");
            world.expect_all_held(&summary, 2 * MANY);
        } else {
            assert_eq!((summary.alarm, summary.held), (None, 0), "those that were read were only touched");
        }
    }
}

#[test]
fn files_that_are_only_touched_are_held_no_longer_than_they_are_not_read() {
    let mut world = World::new(FILES);
    let all = |world: &World, change: &dyn Fn(&str, u64)| {
        for directory in ["x", "y"] {
            (0..FILES).for_each(|number| change(directory, number));
        }
        world.now
    };
    let owner_only = Permissions::from_mode(0o600);
    all(&world, &|directory, number| {
        fs::set_permissions(world.file(directory, number), owner_only.clone()).unwrap();
    });
    assert_eq!(world.scrub("", &without_time).alarm, None, "nobody writes by that");
    all(&world, &|directory, number| world.touch(directory, number, 2));
    let summary = world.scrub("", &|_| ());
    assert_eq!((summary.alarm, summary.count(Verdict::Touched)), (None, 20));
    all(&world, &|directory, number| world.touch(directory, number, 3));
    let summary = world.scrub("", &without_time);
    assert_eq!(summary.alarm.map(|alarm| alarm.unread), Some(20), "nobody knows better");
    let summary = world.scrub("", &|_| ());
    assert_eq!((summary.alarm, summary.held, summary.count(Verdict::Touched)), (None, 0, 20));
}

#[test]
fn what_changes_later_counts_with_what_is_held() {
    let mut world = World::new(FILES);
    let change = |world: &World, directory: &str, numbers: std::ops::Range<u64>| {
        numbers.for_each(|number| world.write(directory, number, "encrypted", 2));
    };
    change(&world, "x", 0..10);
    change(&world, "y", 0..1);
    let summary = world.scrub("", &|_| ());
    assert_eq!(summary.alarm, Some(TooMuch { files: 11, of: 20, unread: 0 }));
    change(&world, "y", 1..9);
    fs::remove_file(world.file("y", 9)).unwrap();
    let summary = world.scrub("", &|_| ());
    assert_eq!((summary.alarm, summary.held), (Some(TooMuch { files: 20, of: 20, unread: 0 }), 20));
    // Without news there is no alarm, and nothing is let go.
    let summary = world.scrub("", &|_| ());
    assert_eq!((summary.alarm, summary.held), (None, 20));
    assert_eq!(world.accept(&world.path("")), 20);
    change(&world, "x", 0..1);
    world.write("x", 0, "a new day", 3);
    let summary = world.scrub("", &|_| ());
    assert_eq!((summary.alarm, summary.count(Verdict::Modified)), (None, 1));
}

#[test]
fn a_part_of_a_tree_is_compared_with_itself_and_with_the_tree() {
    let mut world = World::new(FILES);
    (0..9).for_each(|number| world.write("y", number, "encrypted", 2));
    let summary = world.scrub("y", &|_| ());
    assert_eq!(summary.alarm, Some(TooMuch { files: 9, of: 10, unread: 0 }));
    world.write("x", 0, "a new day", 2);
    let summary = world.scrub("x", &|_| ());
    assert_eq!((summary.alarm, summary.count(Verdict::Modified), summary.held), (None, 1, 9));
    (1..3).for_each(|number| world.write("x", number, "encrypted", 2));
    let summary = world.scrub("x", &|_| ());
    assert_eq!((summary.alarm, summary.held), (Some(TooMuch { files: 11, of: 20, unread: 0 }), 11));
}

#[test]
fn what_an_interrupted_run_did_elsewhere_is_not_compared_with_a_part() {
    let without_files = |options: &mut ScrubOptions| {
        options.excludes = Some(Arc::new(Excludes::new(["f*"]).unwrap()));
    };
    let parts: [(&str, Change); 2] = [("y", &|_| ()), ("", &without_files)];
    for (below, change) in parts {
        let mut world = World::new(FILES);
        (0..9).for_each(|number| world.write("x", number, "encrypted", 2));
        world.touch("x", 9, 2);
        world.interrupt("x");
        let summary = world.scrub(below, change);
        assert_eq!((summary.alarm, summary.count(Verdict::Modified)), (None, 9), "{below}");
    }
    // It is compared with the whole tree.
    let mut world = World::new(FILES);
    (0..9).for_each(|number| world.write("x", number, "encrypted", 2));
    world.touch("x", 9, 2);
    world.interrupt("x");
    (0..2).for_each(|number| world.write("y", number, "encrypted", 2));
    let summary = world.scrub("y", &|_| ());
    assert_eq!((summary.alarm, summary.held), (Some(TooMuch { files: 11, of: 20, unread: 0 }), 11));
}

#[test]
fn a_file_that_changed_more_than_once_counts_once() {
    let interrupted = |changed: u64| {
        let mut world = World::new(FILES);
        (0..changed).for_each(|number| world.write("x", number, "encrypted", 2));
        world.touch("y", 9, 2);
        world.interrupt("");
        world
    };
    // It was replaced, and went.
    let mut world = interrupted(7);
    (0..7).for_each(|number| fs::remove_file(world.file("x", number)).unwrap());
    let summary = world.scrub("", &|_| ());
    assert_eq!((summary.alarm, summary.count(Verdict::Missing), summary.held), (None, 7, 0));
    // It was replaced, and written to again.
    for content in ["ENCRYPTED", "longer than that"] {
        let mut world = interrupted(7);
        (0..7).for_each(|number| world.write("x", number, content, 3));
        let summary = world.scrub("", &without_time);
        assert_eq!((summary.alarm, summary.waiting, summary.held), (None, 7, 0), "{content}");
    }
    // The same, and too much.
    let mut world = interrupted(10);
    (0..5).for_each(|number| fs::remove_file(world.file("x", number)).unwrap());
    fs::remove_file(world.file("y", 0)).unwrap();
    let summary = world.scrub("", &|_| ());
    assert_eq!((summary.alarm, summary.held), (Some(TooMuch { files: 11, of: 20, unread: 0 }), 11));
}

#[test]
fn files_that_change_places_do_not_count() {
    let mut world = World::new(FILES);
    // As logs rotate, each by the name of the next one; the last one is lost.
    for number in (1..FILES).rev() {
        fs::rename(world.file("x", number - 1), world.file("x", number)).unwrap();
    }
    // And two by two.
    for number in (0..FILES).step_by(2) {
        let (one, other) = (world.file("y", number), world.file("y", number + 1));
        fs::rename(&one, world.path("between")).unwrap();
        fs::rename(&other, &one).unwrap();
        fs::rename(world.path("between"), &other).unwrap();
    }
    let summary = world.scrub("", &|options| options.alarm = Alarm { share: 0.1, at_least: 1 });
    assert_eq!((summary.alarm, summary.held), (None, 0), "{summary:?}");
    // But content that is nowhere any more counts.
    let write =
        |directory: &str| (0..FILES).for_each(|number| world.write(directory, number, "encrypted", 2));
    ["x", "y"].into_iter().for_each(write);
    fs::rename(world.file("y", 0), world.path("between")).unwrap();
    fs::rename(world.file("y", 1), world.file("y", 0)).unwrap();
    fs::rename(world.path("between"), world.file("y", 1)).unwrap();
    let summary = world.scrub("", &|_| ());
    assert_eq!(summary.alarm.map(|alarm| alarm.files), Some(2 * FILES - 1), "one of x is new");
}
