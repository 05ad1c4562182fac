//! What hashing costs beside finding, opening and reading the same files without hashing them.
//!
//! `cargo bench -p verisum-files --bench files -- [COUNT SIZE [DIGEST…]]`: makes so many files of so many
//! bytes, reads them once, and lets the ways take turns. Without arguments it is 100,000 files of 4 KiB,
//! SHA-256 and MD5. Two threads, or as many as `VERISUM_BENCH_THREADS` says.
//!
//! With the name of a folder in place of all that it finds and reads the files there without hashing them,
//! once, and prints the seconds that this took.

#![allow(clippy::print_stdout)]

mod shared;

use std::hint::black_box;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use shared::{ROUNDS, make, median, walk};
use verisum_digest::Digest;
use verisum_files::{Entry, Job, Kind, Plan, Stat, hash};

fn main() {
    let threads = std::env::var("VERISUM_BENCH_THREADS").map_or(2, |text| text.parse().expect("a number"));
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).peekable();
    if let Some(folder) = arguments.peek().map(Path::new).filter(|path| path.is_dir()) {
        let started = Instant::now();
        let (files, _) = bare(folder, threads, Looks::AtEach);
        println!("{files} files, {:.3} s", started.elapsed().as_secs_f64());
        return;
    }
    let mut number = |usual| arguments.next().map_or(usual, |text| text.parse().expect("a number"));
    let (count, size) = (number(100_000), number(4096));
    let mut digests: Vec<String> = arguments.collect();
    if digests.is_empty() {
        digests = vec!["sha256".into(), "md5".into()];
    }
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), count, size);

    let mut ways = vec![
        ("walk, open, fstat, read, close".to_string(), Way::Bare(Looks::AtEach)),
        ("walk, open, read, close".to_string(), Way::Bare(Looks::AtNone)),
    ];
    let hashed_by = |name: &String| (name.clone(), Way::Hashed(Digest::find(name).expect("a digest")));
    ways.extend(digests.iter().map(hashed_by));
    let mut times = vec![Vec::new(); ways.len()];
    for round in 0..=ROUNDS {
        for ((_, way), times) in ways.iter().zip(&mut times) {
            let started = Instant::now();
            let found = match way {
                Way::Bare(looks) => bare(folder.path(), threads, *looks),
                Way::Hashed(digest) => hashed(folder.path(), threads, digest),
            };
            assert_eq!(found, (count as u64, (count * size) as u64));
            // The first round fills the caches.
            if round > 0 {
                times.push(started.elapsed());
            }
        }
    }
    println!("{count} files of {size} bytes, {threads} threads, median of {ROUNDS} rounds");
    let least = median(&times[0]);
    for ((name, _), times) in ways.iter().zip(&times) {
        let seconds = median(times);
        println!(
            "{name:32} {:8.2} us a file  {:6.2} GB/s  {:5.2} x",
            seconds * 1e6 / count as f64,
            (count * size) as f64 / seconds / 1e9,
            seconds / least
        );
    }
}

/// What is done with the files.
enum Way {
    Bare(Looks),
    Hashed(Digest),
}

/// Whether a file is asked for its length, or read until nothing comes, of which a short read is the sign.
#[derive(Clone, Copy)]
enum Looks {
    AtEach,
    AtNone,
}

fn found(folder: &Path) -> impl Iterator<Item = Entry> + use<> {
    walk(folder).map(|entry| entry.expect("a tree")).filter(|entry| entry.kind() == Kind::File)
}

/// Finds and reads each file, and does nothing with it.
fn bare(folder: &Path, threads: usize, looks: Looks) -> (u64, u64) {
    let entries = Mutex::new(found(folder));
    let (files, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let mut buffer = vec![0; 1 << 20];
        loop {
            let some: Vec<Entry> = entries.lock().expect("no panic").by_ref().take(128).collect();
            if some.is_empty() {
                break;
            }
            for entry in some {
                let mut file = entry.open().expect("a file");
                let mut left = match looks {
                    Looks::AtEach => Some(Stat::of(&file).expect("a file").size),
                    Looks::AtNone => None,
                };
                while left != Some(0) {
                    let count = file.read(&mut buffer).expect("a file");
                    left = match left {
                        Some(left) => Some(left - count as u64),
                        None => (count < buffer.len()).then_some(0),
                    };
                    bytes.fetch_add(count as u64, Ordering::Relaxed);
                }
                files.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    (files.into_inner(), bytes.into_inner())
}

fn hashed(folder: &Path, threads: usize, digest: &Digest) -> (u64, u64) {
    let plan = Plan::new(vec![vec![digest.clone()]], threads);
    let (files, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    hash(&plan, &mut found(folder).map(|entry| Job { entry, set: 0, token: () }), &|hashed| {
        let content = hashed.result.expect("a file");
        black_box(&content.digests);
        files.fetch_add(1, Ordering::Relaxed);
        bytes.fetch_add(content.length, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    (files.into_inner(), bytes.into_inner())
}
