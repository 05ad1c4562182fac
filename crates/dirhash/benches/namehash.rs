//! ext4's name hashes beside libext2fs: one name at a time, and in batches.
//!
//! `cargo bench -p verisum-dirhash --bench namehash [-- OPTION=VALUE ...]`, of which `samples=101` is how
//! often everything is measured and `names=256` how many names a batch has, at most 256; `hash=1` and
//! `length=16` leave out all but one of ext4's hash versions and one length, which may be any from 1 to 255.
//!
//! The peer is a C program beside this file, which is compiled here with `cc` and linked to libext2fs
//! (Debian's libext2fs-dev). It and we hash the same names and take turns sample by sample, so that all
//! share whatever else the machine is doing; the sums of all hashes must agree. Each figure is the median
//! in nanoseconds a name; ratios are of libext2fs's time to ours: above 1 we are faster.
//! `touch` is what a batch of names costs without any hash: nothing can be faster.

#![allow(clippy::print_stdout)] // A table is what this is for.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use verisum_dirhash::Level;
use verisum_dirhash::namehash::{NAME_HASHES, NameHash, NameValue, Seed};

const LENGTHS: [usize; 13] = [1, 2, 3, 4, 8, 12, 16, 17, 24, 32, 33, 64, 255];

fn main() {
    let options: HashMap<String, usize> = std::env::args()
        .filter_map(|arg| arg.split_once('=').map(|(k, v)| (k.to_owned(), v.parse().expect("a number"))))
        .collect();
    let samples = options.get("samples").copied().unwrap_or(101).max(1);
    let count = options.get("names").copied().unwrap_or(256).clamp(1, 256);
    let seed = Seed::parse("11223344-5566-7788-99aa-bbccddeeff00").expect("a seed");
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = match Peer::start(folder.path()) {
        Ok(peer) => Some(peer),
        Err(reason) => {
            println!("without libext2fs: {}", reason.trim());
            None
        }
    };
    println!("ns a name; batches of {count} names with {}", Level::best().name());
    println!(
        "{:<18} {:>6} {:>10} {:>8} {:>6} {:>8} {:>6} {:>8}",
        "hash", "length", "libext2fs", "single", "ratio", "batch", "ratio", "touch"
    );
    let lengths = match options.get("length") {
        Some(&length) => vec![length.clamp(1, 255)],
        None => LENGTHS.to_vec(),
    };
    let wanted = |version: usize| options.get("hash").is_none_or(|&only| only == version);
    for (version, hash) in NAME_HASHES.iter().enumerate().take(6).filter(|&(version, _)| wanted(version)) {
        for &length in &lengths {
            measure(hash, version, length, count, samples, &seed, peer.as_mut());
        }
    }
}

fn measure(
    hash: &NameHash,
    version: usize,
    length: usize,
    count: usize,
    samples: usize,
    seed: &Seed,
    mut peer: Option<&mut Peer>,
) {
    let memory = names(length, count);
    let names: Vec<&[u8]> = memory.chunks(length).collect();
    let mut values = vec![NameValue::default(); count];
    // A sample takes some tens of microseconds: few are interrupted.
    let rounds = (8192 / (length + 16) / count.max(16)).max(1) * 4;
    let mut times = [const { Vec::new() }; 4];
    // The first sample warms caches and predictors.
    for sample in 0..=samples {
        let mut sums = [0; 3];
        let mut took = [0; 4];
        if let Some(peer) = &mut peer {
            (took[0], sums[0]) = peer.ask(version, length, count, rounds);
        }
        let started = Instant::now();
        for _ in 0..rounds {
            sums[1] = 0u32;
            for name in &names {
                let value = hash.hash(black_box(name), seed);
                sums[1] = sums[1].wrapping_add(value.hash as u32).wrapping_add(value.minor);
            }
            black_box(sums[1]);
        }
        took[1] = started.elapsed().as_nanos() as u64;
        let started = Instant::now();
        for _ in 0..rounds {
            hash.hash_batch(black_box(&names), seed, &mut values);
            black_box(&values);
        }
        took[2] = started.elapsed().as_nanos() as u64;
        sums[2] = values
            .iter()
            .fold(0u32, |sum, value| sum.wrapping_add(value.hash as u32).wrapping_add(value.minor));
        let started = Instant::now();
        for _ in 0..rounds {
            touch(black_box(&names), &mut values);
            black_box(&values);
        }
        took[3] = started.elapsed().as_nanos() as u64;
        assert!(sums[1] == sums[2] && (peer.is_none() || sums[0] == sums[1]), "{} {length}", hash.id);
        if sample > 0 {
            for (times, took) in times.iter_mut().zip(took) {
                times.push(took as f64 / (rounds * count) as f64);
            }
        }
    }
    let [theirs, single, batch, touch] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!(
        "{:<18} {length:>6} {theirs:>10.1} {single:>8.1} {:>6.2} {batch:>8.1} {:>6.1} {touch:>8.1}",
        hash.id,
        theirs / single,
        theirs / batch
    );
}

/// What no batch can do without: each name is found, its first and last byte are read, and a value is written.
#[inline(never)]
fn touch(names: &[&[u8]], values: &mut [NameValue]) {
    for (name, value) in names.iter().zip(values) {
        let [first, .., last] = **name else {
            *value = NameValue { hash: name.len() as u64, minor: 0 };
            continue;
        };
        *value = NameValue { hash: first.into(), minor: last.into() };
    }
}

/// Names of any bytes, as in libext2fs.c.
fn names(length: usize, count: usize) -> Vec<u8> {
    let mut state = length as u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(length * count).collect()
}

/// The C program.
struct Peer {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Peer {
    /// Compiles it into the folder and starts it, or says why not.
    fn start(folder: &Path) -> Result<Peer, String> {
        let program = folder.join("libext2fs");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/libext2fs.c");
        let compiler = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-o"])
            .args([&program, &source])
            .args(["-lext2fs", "-lcom_err"])
            .output()
            .map_err(|error| format!("cc: {error}"))?;
        if !compiler.status.success() {
            return Err(format!("cc: {}", String::from_utf8_lossy(&compiler.stderr)));
        }
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Ok(Peer { child, answers })
    }

    /// A sample: nanoseconds, and the sum of all values.
    fn ask(&mut self, version: usize, length: usize, count: usize, rounds: usize) -> (u64, u32) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{version} {length} {count} {rounds}").expect("the program listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the program answers");
        let (time, sum) = line.trim().split_once(' ').expect("two numbers");
        (time.parse().expect("a number"), sum.parse().expect("a number"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
