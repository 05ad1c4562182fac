//! Many files at once have the digests that each has alone, whatever happens to some of them.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Seek};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, Timespec, Timestamps};
use verisum_digest::{Digest, Level, Output, Policy};
use verisum_files::{
    Content, Entry, FileError, Job, Kind, Limits, Operation, Plan, Stop, Walk, WalkOptions, hash,
};
use verisum_testkit::{Run, paint};

const DIGESTS: [&str; 6] = ["sha256", "md5", "blake2b512", "blake3", "crc32", "xxh3-64"];

#[test]
fn every_length_at_every_level_on_any_number_of_threads() {
    let (folder, count) = edges();
    for level in Level::ALL.iter().filter(|level| level.available()) {
        for threads in [1, 2, 5] {
            assert_digests(&Plan::new(vec![digests(&DIGESTS, *level)], threads), folder.path(), count);
        }
    }
    for name in DIGESTS {
        assert_digests(&plan(&[name], 2), folder.path(), count);
    }
}

#[test]
fn narrow_windows_and_few_streams_change_no_value() {
    let (folder, count) = edges();
    for (window, streams, threads) in
        [(1, None, 1), (1, None, 3), (2, Some(1), 2), (7, Some(2), 4), (64, Some(1), 1)]
    {
        assert_digests(&Plan { window, streams, ..plan(&["sha256"], threads) }, folder.path(), count);
    }
}

#[test]
fn no_job_is_taken_outside_the_window() {
    let (folder, _) = edges();
    let (taken, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let plan = Plan { window: 5, ..plan(&["md5"], 3) };
    let mut jobs = jobs(folder.path()).inspect(|_| {
        assert!(taken.fetch_add(1, Ordering::SeqCst) < finished.load(Ordering::SeqCst) + 5);
    });
    hash(&plan, &mut jobs, &|_| {
        finished.fetch_add(1, Ordering::SeqCst);
        ControlFlow::Continue(())
    });
}

#[test]
fn sets_are_told_apart() {
    let (folder, count) = edges();
    let set = |names: &[&str]| digests(names, Level::best());
    let plan = Plan::new(vec![set(&["sha256", "md5"]), set(&["blake3"]), Vec::new()], 2);
    let mut next = 0;
    let mut jobs = jobs(folder.path()).map(|job| {
        next += 1;
        Job { entry: job.entry, set: next % 3, token: next % 3 }
    });
    let seen = AtomicUsize::new(0);
    hash(&plan, &mut jobs, &|hashed| {
        let bytes = fs::read(hashed.entry.path()).unwrap();
        assert_eq!(hashed.result.unwrap().digests, expected(&plan.sets[hashed.token], &bytes));
        seen.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    assert_eq!(seen.into_inner(), count);
}

#[test]
fn holes_are_zeros_and_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let layouts: [&[Run]; 5] = [
        &[Run::hole(5 << 20)],
        &[Run::data(100), Run::hole(3 << 20), Run::data(70_000)],
        &[Run::hole((2 << 20) + 5), Run::data(1 << 20), Run::hole(1 << 20)],
        &[Run::data(1 << 20), Run::hole(1 << 20), Run::data(1)],
        &[Run::hole(70_001)],
    ];
    for (index, layout) in layouts.iter().enumerate() {
        paint(&folder.path().join(index.to_string()), layout).unwrap();
    }
    for threads in [1, 3] {
        assert_digests(&plan(&["sha256", "blake3"], threads), folder.path(), layouts.len());
    }
    // Where reading would take most of a day by the limit, a hole takes a moment.
    paint(&folder.path().join("big"), &[Run::hole(256 << 20)]).unwrap();
    let plan = Plan { limits: Some(Arc::new(Limits::new(4096, 0))), ..plan(&["crc32"], 2) };
    let big = one(&plan, &folder.path().join("big"));
    assert_eq!((big.length, big.read), (256 << 20, 0));
    assert_eq!((plan.progress.bytes(), plan.progress.holes()), (256 << 20, 256 << 20));
    let part = one(&self::plan(&["crc32"], 2), &folder.path().join("3"));
    assert_eq!(part.length, (2 << 20) + 1);
    assert!((1 << 20..2 << 20).contains(&part.read), "{}", part.read);
}

#[test]
fn files_that_are_none_or_gone_are_errors_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let path = folder.path().join(name);
        fs::write(&path, "x").unwrap();
        (Entry::named(&path).unwrap(), path)
    };
    let (gone, gone_path) = make("gone");
    let (pipe, pipe_path) = make("pipe");
    let (link, link_path) = make("link");
    let (good, _) = make("good");
    for path in [&gone_path, &pipe_path, &link_path] {
        fs::remove_file(path).unwrap();
    }
    // Opening this without care would wait for a writer for ever.
    rustix::fs::mknodat(CWD, &pipe_path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    std::os::unix::fs::symlink("good", &link_path).unwrap();
    assert_eq!(Entry::named(&pipe_path).unwrap().kind(), Kind::Special);
    let directory = Entry::named(folder.path()).unwrap();
    let entries = [gone, pipe, link, good, directory];
    let mut jobs = entries.into_iter().map(|entry| Job { entry, set: 0, token: () });
    let results = results(&plan(&["sha256"], 2), &mut jobs);
    let failed_to_open = |name: &str| match &results[&folder.path().join(name)] {
        Err(FileError::Io { operation: Operation::Open, source, .. }) => source.raw_os_error(),
        _ => None,
    };
    assert_eq!(failed_to_open("gone"), Some(rustix::io::Errno::NOENT.raw_os_error()));
    assert_eq!(failed_to_open("link"), Some(rustix::io::Errno::LOOP.raw_os_error()));
    assert!(matches!(results[&pipe_path], Err(FileError::NotAFile { .. })));
    assert!(matches!(results[folder.path()], Err(FileError::NotAFile { .. })));
    assert!(results[&folder.path().join("good")].is_ok());
}

#[test]
fn a_file_that_changes_while_it_is_read_is_told_by_its_states() {
    let folder = tempfile::tempdir().unwrap();
    let (busy, calm) = (folder.path().join("busy"), folder.path().join("calm"));
    paint(&busy, &[Run::data(8 << 20)]).unwrap();
    paint(&calm, &[Run::data(8 << 20)]).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Times that no two writes share, whatever the clock of the file system.
            let file = fs::File::open(&busy).unwrap();
            for nanoseconds in 0.. {
                let time = Timespec { tv_sec: 1, tv_nsec: nanoseconds % 1_000_000_000 };
                let times = Timestamps { last_access: time, last_modification: time };
                rustix::fs::futimens(&file, &times).unwrap();
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        // The limit makes it last long enough for the other thread to have its turn.
        let plan = Plan { limits: Some(Arc::new(Limits::new(64 << 20, 0))), ..plan(&["sha256"], 1) };
        let results = results(&plan, &mut jobs(folder.path()));
        over.store(true, Ordering::Relaxed);
        let same = |path| {
            let content: &Content = results[path].as_ref().unwrap();
            content.before.is_same_state(&content.after)
        };
        assert!(!same(&busy) && same(&calm));
    });
}

#[test]
fn a_file_that_grows_or_shrinks_once_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for (before, after) in [(8 << 20, 9 << 20), (8 << 20, 4096), (8 << 20, 0)] {
        paint(&path, &[Run::data(before)]).unwrap();
        // The limit makes the first read long enough to meet the change, which is made once.
        let plan = Plan { limits: Some(Arc::new(Limits::new(64 << 20, 0))), ..plan(&["sha256"], 2) };
        let content = std::thread::scope(|scope| {
            scope.spawn(|| {
                while plan.progress.bytes() == 0 {
                    std::thread::yield_now();
                }
                fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(after).unwrap();
            });
            one(&plan, &path)
        });
        // Unless the change was still going on, which the states tell.
        if content.before.is_same_state(&content.after) {
            assert_eq!(content.length, after);
            assert_eq!(content.digests, expected(&plan.sets[0], &fs::read(&path).unwrap()));
        }
    }
}

#[test]
fn the_file_is_still_open_when_it_is_done() {
    let (folder, _) = edges();
    hash(&plan(&["md5"], 2), &mut jobs(folder.path()), &|hashed| {
        fs::remove_file(hashed.entry.path()).unwrap();
        let content = hashed.result.unwrap();
        // Its position is nobody's promise.
        (&content.file).rewind().unwrap();
        let mut bytes = Vec::new();
        (&content.file).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, content.length);
        ControlFlow::Continue(())
    });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_of_several_names_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    for (file, length) in [("small", 1000), ("large", 3 << 20)] {
        paint(&folder.path().join(file), &[Run::data(length)]).unwrap();
        for index in 1..20 {
            let name = folder.path().join(format!("{file}-{index}"));
            fs::hard_link(folder.path().join(file), name).unwrap();
        }
    }
    for threads in [1, 2, 4] {
        let plan = Plan { hard_links_once: true, ..plan(&["sha256"], threads) };
        let results = results(&plan, &mut jobs(folder.path()));
        assert_eq!((results.len(), plan.progress.bytes()), (40, 1000 + (3 << 20)));
        for (path, result) in results {
            assert_eq!(result.unwrap().digests, expected(&plan.sets[0], &fs::read(path).unwrap()));
        }
    }
}

#[test]
fn a_stop_gives_up_what_is_left_and_reports_it() {
    let (folder, count) = edges();
    let is_stopped = |result: &Result<Content, FileError>| matches!(result, Err(FileError::Stopped { .. }));
    for threads in [1, 3] {
        let plan = plan(&["sha256"], threads);
        let mut seen = 0;
        let mut jobs = jobs(folder.path()).inspect(|_| {
            seen += 1;
            if seen == count / 2 {
                plan.stop.request();
            }
        });
        let results = results(&plan, &mut jobs);
        assert_eq!(results.len(), seen);
        assert!(results.values().any(is_stopped));
    }
    let stop = Arc::new(Stop::at(Instant::now() + Duration::from_millis(100)));
    let plan = Plan { stop, limits: Some(Arc::new(Limits::new(1000, 0))), ..plan(&["sha256"], 2) };
    assert!(results(&plan, &mut jobs(folder.path())).values().any(is_stopped));
}

#[test]
fn a_break_ends_it() {
    let (folder, _) = edges();
    let reported = AtomicUsize::new(0);
    hash(&plan(&["sha256"], 3), &mut jobs(folder.path()), &|_| {
        reported.fetch_add(1, Ordering::SeqCst);
        ControlFlow::Break(())
    });
    // Those that other threads were reporting at that moment, too.
    assert!((1..=3).contains(&reported.into_inner()));
}

#[test]
#[should_panic]
fn a_panic_of_the_caller_ends_it_too() {
    let (folder, _) = edges();
    hash(&plan(&["sha256"], 3), &mut jobs(folder.path()), &|_| panic!("of the caller"));
}

#[test]
fn limits_hold() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..20 {
        paint(&folder.path().join(index.to_string()), &[Run::data(10_000)]).unwrap();
    }
    for (bytes, operations) in [(400_000, 0), (0, 40)] {
        let limits = Some(Arc::new(Limits::new(bytes, operations)));
        let plan = Plan { limits, ..plan(&["md5"], 4) };
        let started = Instant::now();
        assert_eq!(results(&plan, &mut jobs(folder.path())).len(), 20);
        // Never faster than that; how much slower is the machine's.
        assert!(started.elapsed() >= Duration::from_millis(450), "{:?}", started.elapsed());
    }
}

#[test]
fn at_a_low_rate_files_are_read_one_after_the_other() {
    const LENGTH: u64 = 300_000;
    let folder = tempfile::tempdir().unwrap();
    for index in 0..20 {
        paint(&folder.path().join(index.to_string()), &[Run::data(LENGTH)]).unwrap();
    }
    let limited = Plan { limits: Some(Arc::new(Limits::new(20_000_000, 0))), ..plan(&["sha256"], 1) };
    for plan in [limited, Plan { streams: Some(1), ..plan(&["sha256"], 1) }] {
        let done = AtomicUsize::new(0);
        hash(&plan, &mut jobs(folder.path()), &|_| {
            let done = done.fetch_add(1, Ordering::SeqCst) as u64 + 1;
            assert_eq!(plan.progress.bytes(), done * LENGTH);
            ControlFlow::Continue(())
        });
        assert_eq!(done.into_inner(), 20);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_on_any_plan(
        lengths in prop::collection::vec(prop_oneof![0_u64..300, 0_u64..70_000, 60_000_u64..600_000], 0..60),
        threads in 1_usize..5,
        window in 1_usize..80,
        set in prop::sample::subsequence(&DIGESTS[..], 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        for (index, length) in lengths.iter().enumerate() {
            let directory = folder.path().join(format!("{}", index % 7));
            fs::create_dir_all(&directory).unwrap();
            paint(&directory.join(index.to_string()), &[Run::data(*length)]).unwrap();
        }
        assert_digests(&Plan { window, ..plan(&set, threads) }, folder.path(), lengths.len());
    }
}

fn plan(names: &[&str], threads: usize) -> Plan {
    Plan::new(vec![digests(names, Level::best())], threads)
}

fn digests(names: &[&str], level: Level) -> Vec<Digest> {
    names.iter().map(|name| Digest::find_with(name, &Policy { max_level: level }).unwrap()).collect()
}

fn expected(digests: &[Digest], bytes: &[u8]) -> Vec<Output> {
    digests.iter().map(|digest| digest.hash(bytes).unwrap()).collect()
}

fn jobs(folder: &Path) -> impl Iterator<Item = Job<()>> + Send {
    Walk::new(vec![folder.into()], WalkOptions::default())
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.kind() == Kind::File)
        .map(|entry| Job { entry, set: 0, token: () })
}

/// All results by path, each once.
fn results(
    plan: &Plan,
    jobs: &mut (dyn Iterator<Item = Job<()>> + Send),
) -> HashMap<PathBuf, Result<Content, FileError>> {
    let results = Mutex::new(HashMap::new());
    hash(plan, jobs, &|hashed| {
        let path = hashed.entry.path();
        let twice = results.lock().unwrap().insert(path, hashed.result);
        assert!(twice.is_none());
        ControlFlow::Continue(())
    });
    results.into_inner().unwrap()
}

fn one(plan: &Plan, path: &Path) -> Content {
    let entry = Entry::named(path).unwrap();
    let results = results(plan, &mut std::iter::once(Job { entry, set: 0, token: () }));
    results.into_values().next().unwrap().unwrap()
}

fn assert_digests(plan: &Plan, folder: &Path, count: usize) {
    let results = results(plan, &mut jobs(folder));
    assert_eq!(results.len(), count);
    let mut bytes = 0;
    for (path, result) in &results {
        let content = result.as_ref().unwrap();
        let whole = fs::read(path).unwrap();
        assert_eq!(content.length, whole.len() as u64);
        assert_eq!(content.digests, expected(&plan.sets[0], &whole), "{}", path.display());
        assert!(content.before.is_same_state(&content.after));
        bytes += content.length;
    }
    assert_eq!((plan.progress.files(), plan.progress.bytes()), (count as u64, bytes));
}

/// Files of the lengths at which something changes: blocks, what is read whole, what is read at once.
fn edges() -> (tempfile::TempDir, usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for edge in [0, 1, 55, 64, 128, 4095, 65536, 128 << 10, 256 << 10, (1 << 20) + 3] {
        for length in [edge - 1, edge, edge + 1_i64] {
            if length >= 0 {
                let name = format!("{edge}-{length}");
                paint(&folder.path().join(name), &[Run::data(length as u64)]).unwrap();
                count += 1;
            }
        }
    }
    (folder, count)
}
