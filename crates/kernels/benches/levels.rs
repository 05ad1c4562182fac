//! The speed of every kernel beside OpenSSL's single stream.
//!
//! `cargo bench -p verisum-kernels -- [OPTION=VALUE ...]`, of which
//!
//! - `algorithms=sha256,md5` chooses algorithms; all of them by default;
//! - `levels=avx512` chooses levels;
//! - `size=65536` is the length of a message in bytes;
//! - `count=16` is the number of messages in a batch; by default as many as the
//!   kernel has lanes;
//! - `stride=65536` is the distance between messages; by default their length;
//! - `rounds=15` is how often everything is measured.
//!
//! `sweep` in place of these compares batches of 1 to 40 messages of 16 KiB at every level with the messages
//! one after the other, by the best single stream up to that level, and ends with 1 where one takes more
//! than 1.5 times as long.
//!
//! The speed of zero detection comes last, for memory of `size` bytes.
//!
//! All implementations of an algorithm take turns in short runs, so that they
//! share whatever else the machine is doing, and the median of each is printed:
//! GB (10^9 bytes) per second of the thread's processor time, and the ratio to
//! OpenSSL in the same run. Every digest goes through `black_box`.

#![allow(clippy::print_stdout)] // A table is what this is for.

use std::collections::HashMap;
use std::hint::black_box;
use std::process::ExitCode;

use openssl::hash::{Hasher, MessageDigest};
use openssl::provider::Provider;
use verisum_kernels::{Kernel, KernelAlgorithm, Level, is_zero_at};

#[path = "../tests/common/sweep.rs"]
mod sweep;

/// How many times as long as the messages one after the other a batch may take.
const BOUND: f64 = 1.5;

/// The shortest run that is measured, in seconds.
const RUN: f64 = 0.004;

fn main() -> ExitCode {
    if std::env::args().any(|arg| arg == "sweep") {
        return sweep_levels();
    }
    levels();
    ExitCode::SUCCESS
}

/// Prints the slowest batch of each kernel beside its messages one after the other.
fn sweep_levels() -> ExitCode {
    let bytes: Vec<u8> = (0..16384).map(|i| (i % 251) as u8).collect();
    let messages = [&bytes[..]; sweep::MOST];
    let mut verdict = ExitCode::SUCCESS;
    println!("{:<12} {:<10} {:<10} {:>5} {:>7}", "algorithm", "level", "single", "batch", "ratio");
    for &algorithm in KernelAlgorithm::ALL {
        for kernel in Level::ALL.iter().filter_map(|&level| Kernel::at(algorithm, level)) {
            let single = sweep::best_single(algorithm, kernel.level(), &bytes);
            let ratios =
                (1..=sweep::MOST).map(|n| (n, sweep::compare(kernel, single, &messages[..n], BOUND)));
            let worst = ratios.max_by(|one, other| one.1.total_cmp(&other.1));
            let (count, ratio) = worst.expect("there are counts");
            let is_slower = ratio > BOUND;
            if is_slower {
                verdict = ExitCode::FAILURE;
            }
            println!(
                "{:<12} {:<10} {:<10} {count:>5} {ratio:>7.2}{}",
                algorithm.name(),
                kernel.level().name(),
                single.level().name(),
                if is_slower { "  SLOWER" } else { "" }
            );
        }
    }
    verdict
}

fn levels() {
    let options: HashMap<String, String> = std::env::args()
        .filter_map(|arg| arg.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())))
        .collect();
    let number = |name: &str| options.get(name).map(|v| v.parse::<usize>().expect("a number"));
    let chosen = |name: &str, value: &str| {
        options.get(name).is_none_or(|list| list.split(',').any(|item| item == value))
    };
    let size = number("size").unwrap_or(65536);
    let stride = number("stride").unwrap_or(size);
    let rounds = number("rounds").unwrap_or(15);
    let _legacy = Provider::try_load(None, "legacy", true).expect("OpenSSL's legacy provider");

    let memory: Vec<u8> = (0..65 * stride.max(size)).map(|i| (i % 251) as u8).collect();
    // Pages of memory are not aligned otherwise, and buffers of readers are.
    let start = memory.as_ptr().align_offset(4096);
    let message = |i: usize| &memory[start + i * stride..][..size];

    println!("messages of {size} bytes, {stride} apart; GB/s and ratio to OpenSSL");
    println!(
        "{:<12} {:>8} {:<10} {:>5} {:>5} {:>8} {:>7}",
        "algorithm", "openssl", "level", "lanes", "batch", "GB/s", "ratio"
    );
    for &algorithm in KernelAlgorithm::ALL.iter().filter(|a| chosen("algorithms", a.name())) {
        let kernels: Vec<Kernel> = Level::ALL
            .iter()
            .filter(|level| chosen("levels", level.name()))
            .filter_map(|&level| Kernel::at(algorithm, level))
            .collect();
        let name = match algorithm {
            KernelAlgorithm::Blake2s256 => "BLAKE2s256",
            KernelAlgorithm::Blake2b512 => "BLAKE2b512",
            other => other.name(),
        };
        let mut hasher = Hasher::new(MessageDigest::from_name(name).expect("known to OpenSSL")).unwrap();
        let xof = matches!(algorithm, KernelAlgorithm::Shake128 | KernelAlgorithm::Shake256);
        let mut openssl = |times: usize| {
            for _ in 0..times {
                hasher.update(black_box(message(0))).unwrap();
                if xof {
                    hasher.finish_xof(&mut [0; 32]).unwrap();
                } else {
                    black_box(hasher.finish().unwrap());
                }
            }
        };

        let mut baseline = Vec::new();
        let mut speeds = vec![Vec::new(); kernels.len()];
        for _ in 0..rounds {
            baseline.push(speed(size, &mut openssl));
            for (kernel, speeds) in kernels.iter().zip(&mut speeds) {
                let count = number("count").unwrap_or(kernel.lanes());
                let messages: Vec<&[u8]> = (0..count).map(message).collect();
                let mut digests = vec![0; count * algorithm.digest_len()];
                speeds.push(speed(size * count, &mut |times| {
                    for _ in 0..times {
                        kernel.hash_batch(black_box(&messages), &mut digests);
                        black_box(&digests);
                    }
                }));
            }
        }
        let baseline = median(&mut baseline);
        for (kernel, speeds) in kernels.iter().zip(&mut speeds) {
            let speed = median(speeds);
            println!(
                "{:<12} {baseline:>8.3} {:<10} {:>5} {:>5} {speed:>8.3} {:>7.2}",
                algorithm.name(),
                kernel.level().name(),
                kernel.lanes(),
                number("count").unwrap_or(kernel.lanes()),
                speed / baseline
            );
        }
    }

    let zeros = vec![0; size];
    for &level in Level::ALL.iter().filter(|level| chosen("levels", level.name())) {
        if is_zero_at(level, &zeros).is_some() {
            let mut speeds: Vec<f64> = (0..rounds)
                .map(|_| {
                    speed(size, &mut |times| {
                        for _ in 0..times {
                            black_box(is_zero_at(level, black_box(&zeros)));
                        }
                    })
                })
                .collect();
            println!("is_zero {:<10} {:>8.1}", level.name(), median(&mut speeds));
        }
    }
}

/// Measures a call in GB/s; it is told how often to repeat what handles `bytes`.
fn speed(bytes: usize, call: &mut dyn FnMut(usize)) -> f64 {
    let mut times = 1;
    loop {
        let start = thread_seconds();
        call(times);
        let seconds = thread_seconds() - start;
        if seconds >= RUN {
            return (bytes * times) as f64 / seconds / 1e9;
        }
        times = (times as f64 * (1.2 * RUN / seconds.max(RUN / 10.0))).ceil() as usize;
    }
}

/// The processor time of this thread: what others do meanwhile does not count.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec, which is all that is asked for.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
