//! Whether few large files are hashed by the best plan: the engine's choice beside all others.
//!
//! `cargo bench -p verisum-files --bench plans -- [MIB [DIGEST…]]`: for 1 to 64 files of equal and of skewed lengths, all
//! of MIB together (1,024 without arguments), each number of files that a thread can hash side by side is tried, in turn
//! with the engine's own choice. Two threads, or as many as `VERISUM_BENCH_THREADS` says. The last column is the time of the
//! choice by that of the best plan; the least time of each counts.

#![allow(clippy::print_stdout)]

use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use verisum_digest::Digest;
use verisum_files::{Entry, Job, Kind, Plan, Walk, WalkOptions, hash};

const COUNTS: [usize; 8] = [1, 2, 3, 4, 8, 16, 17, 64];

/// How often each plan is tried.
const ROUNDS: usize = 5;

fn main() {
    let threads = std::env::var("VERISUM_BENCH_THREADS").map_or(2, |text| text.parse().expect("a number"));
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let bytes = arguments.next().map_or(1024, |text| text.parse().expect("a number of MiB")) << 20;
    let mut names: Vec<String> = arguments.collect();
    if names.is_empty() {
        names = ["sha256", "sha512", "sha1", "md5", "sha3-256", "blake2b512", "blake3", "xxh128"]
            .map(Into::into)
            .into();
    }
    println!(
        "{:<12} {:>5} {:<7} {:>10} {:>10} {:>5} {:>6}",
        "digest", "files", "", "chosen, ms", "best, ms", "by", "ratio"
    );
    for count in COUNTS {
        for is_skewed in [false, true] {
            if is_skewed && count == 1 {
                continue;
            }
            let folder = tempfile::tempdir().expect("a folder");
            make(folder.path(), &lengths(count, bytes, is_skewed));
            for name in &names {
                let digest = Digest::find(name).expect("a digest");
                let (chosen, best, by) = compare(folder.path(), threads, &digest, count);
                let kind = if is_skewed { "skewed" } else { "equal" };
                let (a, b) = (chosen.as_secs_f64() * 1e3, best.as_secs_f64() * 1e3);
                println!("{name:<12} {count:>5} {kind:<7} {a:>10.1} {b:>10.1} {by:>5} {:>6.2}", a / b);
            }
        }
    }
}

/// Lengths of so many files: all the same, or each half as long as the one before, down to a sixteenth of the first.
fn lengths(count: usize, bytes: u64, is_skewed: bool) -> Vec<u64> {
    let weight = |number: usize| if is_skewed { 1.0 / f64::from(1 << (number % 5)) } else { 1.0 };
    let all: f64 = (0..count).map(weight).sum();
    (0..count).map(|number| (bytes as f64 * weight(number) / all) as u64).collect()
}

fn make(folder: &Path, lengths: &[u64]) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut block = vec![0; 1 << 20];
    random.fill(&mut block);
    for (number, length) in lengths.iter().enumerate() {
        let mut file = File::create(folder.join(format!("{number:02}"))).expect("a file");
        for at in (0..*length).step_by(block.len()) {
            file.write_all(&block[..block.len().min((length - at) as usize)]).expect("room");
        }
    }
    for number in 0..lengths.len() {
        fs::read(folder.join(format!("{number:02}"))).expect("a file");
    }
}

/// The time of the engine's choice, the least of all plans, and how many side by side those were.
fn compare(folder: &Path, threads: usize, digest: &Digest, count: usize) -> (Duration, Duration, String) {
    let plans: Vec<Option<usize>> =
        std::iter::once(None).chain((1..=count.min(digest.lanes())).map(Some)).collect();
    let mut least = vec![Duration::MAX; plans.len()];
    for _ in 0..ROUNDS {
        for (plan, least) in plans.iter().zip(&mut least) {
            *least = (*least).min(hashed(folder, threads, digest, *plan));
        }
    }
    let chosen = least[0];
    let (best, by) = least.into_iter().zip(&plans).min().expect("a plan");
    (chosen, best, by.map_or("own".into(), |by| by.to_string()))
}

fn hashed(folder: &Path, threads: usize, digest: &Digest, side_by_side: Option<usize>) -> Duration {
    let mut plan = Plan::new(vec![vec![digest.clone()]], threads);
    plan.side_by_side = side_by_side;
    let found = Walk::new(vec![folder.into()], WalkOptions::default()).map(|entry| entry.expect("a tree"));
    let files: Vec<Entry> = found.filter(|entry| entry.kind() == Kind::File).collect();
    let started = Instant::now();
    hash(&plan, &mut files.into_iter().map(|entry| Job { entry, set: 0, token: () }), &|hashed| {
        hashed.result.expect("a file");
        ControlFlow::Continue(())
    });
    started.elapsed()
}
