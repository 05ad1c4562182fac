//! What tagging new files costs beside setting an attribute of the same size on each of them.
//!
//! `cargo bench -p verisum-files --bench tags -- [COUNT SIZE [FOLDER]]`: makes so many files of so many bytes
//! in a new folder below FOLDER, which is to be on the file system in question, and lets the ways take
//! turns; between them the attributes are removed. Without arguments it is 100,000 files of 4 KiB in the
//! folder for temporary files. Two threads.
//!
//! With the name of a folder in place of all that it finds the files there and sets an attribute of each,
//! once, and prints the seconds that this took.

#![allow(clippy::print_stdout)]

mod shared;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use rustix::fs::{XattrFlags, fremovexattr, fsetxattr};
use shared::{ROUNDS, make, median, walk};
use verisum_digest::{Algorithm, Policy};
use verisum_files::store::xattr::{Family, NAME};
use verisum_files::tags::{self, TagOptions, TagOutcome, TaggingOptions};
use verisum_files::{Entry, Kind, Plan, Verdict};

const THREADS: usize = 2;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).peekable();
    if let Some(folder) = arguments.peek().map(Path::new).filter(|path| path.is_dir()) {
        let started = Instant::now();
        bare(folder);
        println!("{:.3} s", started.elapsed().as_secs_f64());
        return;
    }
    let mut number = |usual| arguments.next().map_or(usual, |text| text.parse().expect("a number"));
    let (count, size) = (number(100_000), number(4096));
    let below = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(below).expect("a folder");
    let folder = folder.path();
    make(folder, count, size);
    let mut options = TaggingOptions::default();
    options.family = Family::Verisum;
    options.plan = Plan::new(Vec::new(), THREADS);
    options.policy = Policy::default();
    options.apart = None;
    options.dry = false;
    let mut tagging = TagOptions::default();
    tagging.algorithm = Algorithm::find("sha256").expect("a digest");
    tagging.new_only = false;

    let ways: [(&str, &dyn Fn()); 4] = [
        ("walk, open, fsetxattr, close", &|| bare(folder)),
        ("tag", &|| {
            let counts = tags::tag(&mut walk(folder), &options, &tagging, &|_| {});
            assert_eq!(counts.of(TagOutcome::Tagged), count as u64);
        }),
        ("tag again", &|| {
            let counts = tags::tag(&mut walk(folder), &options, &tagging, &|_| {});
            assert_eq!(counts.of(TagOutcome::Current), count as u64);
        }),
        ("status", &|| {
            let (status, _) = tags::status(&mut walk(folder), &options, &|_| {});
            assert_eq!(status.current, count as u64);
        }),
    ];
    let mut times = vec![Vec::new(); ways.len()];
    for round in 0..=ROUNDS {
        for (way, (times, (_, run))) in times.iter_mut().zip(&ways).enumerate() {
            if way < 2 {
                remove(folder);
            }
            let started = Instant::now();
            run();
            // The first round fills the caches.
            if round > 0 {
                times.push(started.elapsed());
            }
        }
    }
    let verified = tags::verify(&mut walk(folder), &options, Default::default(), &|_| {});
    assert_eq!(verified.of(TagOutcome::Judged(Verdict::Ok)), count as u64);
    println!("{count} files of {size} bytes, {THREADS} threads, median of {ROUNDS} rounds");
    let least = median(&times[0]);
    for ((name, _), times) in ways.iter().zip(&times) {
        let seconds = median(times);
        println!("{name:32} {:8.2} us a file  {:5.2} x", seconds * 1e6 / count as f64, seconds / least);
    }
}

/// Finds each file and sets an attribute of 64 bytes.
fn bare(folder: &Path) {
    each(folder, &|entry| {
        let file = entry.open().expect("a file");
        fsetxattr(&file, NAME, &[7; 64], XattrFlags::empty()).expect("an attribute");
    });
}

fn remove(folder: &Path) {
    each(folder, &|entry| {
        let file = entry.open().expect("a file");
        // The first time there is none.
        let _ = fremovexattr(&file, NAME);
    });
}

fn each(folder: &Path, work: &(dyn Fn(Entry) + Sync)) {
    let files = walk(folder).map(|entry| entry.expect("a tree")).filter(|entry| entry.kind() == Kind::File);
    let entries = Mutex::new(files);
    let worker = || {
        loop {
            let some: Vec<Entry> = entries.lock().expect("no panic").by_ref().take(128).collect();
            if some.is_empty() {
                break;
            }
            some.into_iter().for_each(work);
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(worker);
        }
    });
}
