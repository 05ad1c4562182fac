//! How fast this machine gives the bytes of a file, by every way to ask for them, without hashing.
//!
//! Each thread takes the next piece of the file, gets it and adds up its words, so that its bytes have
//! been in a register once, as any digest would need. `image` is [`RawImage`] as shipped: the reader to
//! compare the whole command with digest `null` to.
//!
//! ```text
//! cargo bench -p verisum-image --bench read -- [--size MIB] [--threads N] [--rounds N] [--work N]
//!                                              [--only TEXT] [--uncached] [FILE...]
//! ```
//!
//! Without FILE it makes ext4, XFS and Btrfs on loop devices, and tmpfs, and measures each from the page
//! cache. With `--uncached` nothing is cached at the start of each run: as root, the caches of the whole
//! machine are dropped. Methods alternate; the median of the rounds is printed. `--work N` adds the words
//! up N times, to see how a digest's time and the disk's overlap; `--only` keeps the methods whose name
//! contains TEXT.
#![allow(clippy::print_stdout)]

mod methods;

use std::path::{Path, PathBuf};

use methods::Method;
use verisum_testkit::{FsKind, Mount, Run, cache, paint};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

struct Options {
    size: u64,
    threads: Vec<usize>,
    rounds: usize,
    work: usize,
    uncached: bool,
    only: String,
    files: Vec<PathBuf>,
}

fn options() -> Options {
    let mut options = Options {
        size: 512 << 20,
        threads: vec![std::thread::available_parallelism().map_or(1, usize::from)],
        rounds: 5,
        work: 1,
        uncached: false,
        only: String::new(),
        files: vec![],
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            // Cargo says so to every bench.
            "--bench" => {}
            "--size" => options.size = value().parse::<u64>().expect("MiB") << 20,
            "--threads" => options.threads = vec![value().parse().expect("a number")],
            "--rounds" => options.rounds = value().parse().expect("a number"),
            "--work" => options.work = value().parse().expect("a number"),
            "--uncached" => options.uncached = true,
            "--only" => options.only = value(),
            _ => options.files.push(argument.into()),
        }
    }
    options
}

fn main() {
    let options = options();
    if options.files.is_empty() {
        for kind in FsKind::ALL {
            if kind == FsKind::Tmpfs && options.uncached {
                continue;
            }
            let Some(mount) = Mount::new(kind, options.size * 5 / 4 + (256 << 20)) else { continue };
            let direct = mount.bypass_cache_of_backing_file();
            let path = mount.path().join("image");
            paint(&path, &[Run::data(options.size)]).expect("a painted file");
            let note = if direct { "" } else { ", backing file cached" };
            measure(&format!("{}{note}", kind.name()), &path, &options);
        }
    }
    for path in &options.files {
        measure(&path.display().to_string(), path, &options);
    }
}

fn measure(name: &str, path: &Path, options: &Options) {
    for &threads in &options.threads {
        let state = if options.uncached { "uncached" } else { "cached" };
        let methods = if options.uncached { cold() } else { cached() };
        table(&format!("{name}, {state}, {threads} threads"), path, threads, options, &methods);
    }
}

/// Ways worth trying when all is in the page cache.
fn cached() -> Vec<Method> {
    let mut methods = vec![];
    for piece in [128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB] {
        methods.push(Method::Buffered { piece, drop_behind: false });
    }
    for piece in [256 * KIB, MIB, 4 * MIB, 16 * MIB] {
        methods.push(Method::Mapped { piece });
    }
    methods.push(Method::Buffered { piece: 512 * KIB, drop_behind: true });
    methods.push(Method::Direct { piece: MIB });
    methods.push(Method::Image { piece: 512 * KIB, cache: true });
    methods.push(Method::Image { piece: MIB, cache: false });
    methods
}

/// Ways worth trying when nothing is.
fn cold() -> Vec<Method> {
    let mut methods = vec![];
    for piece in [256 * KIB, 512 * KIB, MIB, 4 * MIB] {
        methods.push(Method::Direct { piece });
    }
    for (piece, depth) in [(256 * KIB, 4), (256 * KIB, 8), (512 * KIB, 4), (MIB, 2), (MIB, 4)] {
        methods.push(Method::Ring { piece, depth });
    }
    for drop_behind in [false, true] {
        methods.push(Method::Buffered { piece: 512 * KIB, drop_behind });
    }
    methods.push(Method::Mapped { piece: 4 * MIB });
    methods.push(Method::Image { piece: MIB, cache: false });
    methods.push(Method::Image { piece: 512 * KIB, cache: true });
    methods
}

fn table(title: &str, path: &Path, threads: usize, options: &Options, methods: &[Method]) {
    let methods: Vec<_> = methods.iter().filter(|m| m.to_string().contains(&options.only)).collect();
    let mut seconds = vec![vec![]; methods.len()];
    for _ in 0..options.rounds {
        for (method, seconds) in methods.iter().zip(&mut seconds) {
            match options.uncached {
                false => drop(methods::run(&Method::Buffered { piece: MIB, drop_behind: false }, path, 2, 1)),
                true => forget_everything(path),
            }
            seconds.push(methods::run(method, path, threads, options.work));
        }
    }
    println!("\n{title}\n{:>8} {:>8} {:>8}  method", "GB/s", "best", "cached");
    let length = std::fs::metadata(path).expect("the file").len() as f64;
    for (method, seconds) in methods.iter().zip(&mut seconds) {
        let mut speeds: Vec<f64> = seconds.iter().flatten().map(|s| length / s / 1e9).collect();
        speeds.sort_by(f64::total_cmp);
        let Some(best) = speeds.last() else {
            println!("{:>8} {:>8} {:>8}  {method}", "-", "-", "-");
            continue;
        };
        // What the method leaves in the page cache of a file that was not in it.
        if options.uncached {
            forget_everything(path);
            methods::run(method, path, threads, options.work);
        }
        let resident = cache::resident(path).unwrap_or(0) as f64 / length * 100.0;
        println!("{:8.2} {best:8.2} {resident:7.0}%  {method}", speeds[speeds.len() / 2]);
    }
}

/// Empties the page cache of the file and of whatever is below its file system.
fn forget_everything(path: &Path) {
    cache::forget(path).expect("a forgotten file");
    // Only root may; then figures include the cache of a loop device's backing file.
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "1");
}
