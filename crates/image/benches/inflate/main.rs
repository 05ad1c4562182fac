//! How much of what the decompression libraries reach alone the qcow2 reader reaches on the same clusters.
//!
//! `alone` has all compressed clusters in memory and decompresses each into a buffer of its own thread,
//! and nothing else. `reader` reads the same image as `verisum image sum` does, from the page cache. Both
//! use every core; rounds alternate, and the median is printed.
//!
//! ```text
//! cargo bench -p verisum-image --bench inflate -- [--size MIB] [--threads N] [--rounds N] [FILE...]
//! ```
//!
//! Without FILE it makes images with qemu-img, of zlib and Zstandard and several cluster sizes.
#![allow(clippy::print_stdout)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use libdeflater::Decompressor;
use verisum_image::{AlignedBuffer, ExtentKind, Image, OpenOptions, Opened};

const MIB: u64 = 1 << 20;

/// What is made without FILE.
const MADE: [(&str, &str); 6] = [
    ("zlib, 64 KiB", "cluster_size=64k"),
    ("zlib, 4 KiB", "cluster_size=4k"),
    ("zlib, 2 MiB", "cluster_size=2M"),
    ("zstd, 64 KiB", "compression_type=zstd,cluster_size=64k"),
    ("zstd, 4 KiB", "compression_type=zstd,cluster_size=4k"),
    ("zstd, 2 MiB", "compression_type=zstd,cluster_size=2M"),
];

struct Options {
    size: u64,
    threads: usize,
    rounds: usize,
    files: Vec<PathBuf>,
}

fn options() -> Options {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options { size: 512 * MIB, threads, rounds: 5, files: vec![] };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value").parse::<u64>().expect("a number");
        match argument.as_str() {
            // Cargo says so to every bench.
            "--bench" => {}
            "--size" => options.size = value() * MIB,
            "--threads" => options.threads = value() as usize,
            "--rounds" => options.rounds = value() as usize,
            _ => options.files.push(argument.into()),
        }
    }
    options
}

fn main() {
    let options = options();
    println!("{:>8} {:>8} {:>8}  image", "alone", "reader", "ratio");
    println!("{:>8} {:>8}", "GB/s", "GB/s");
    if options.files.is_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let raw = folder.path().join("raw");
        paint_text(&raw, options.size);
        for (name, settings) in MADE {
            let path = folder.path().join("image");
            let status = Command::new("qemu-img")
                .args(["convert", "-c", "-W", "-f", "raw", "-O", "qcow2", "-o", settings])
                .args([&raw, &path])
                .status()
                .expect("qemu-img");
            assert!(status.success());
            measure(name, &path, &options);
        }
    }
    for path in &options.files {
        measure(&path.display().to_string(), path, &options);
    }
}

/// Words in no order, which compress about as text does.
fn paint_text(path: &Path, size: u64) {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    let words: Vec<String> = (0..2000)
        .map(|_| (0..next() % 9 + 2).map(|_| (b'a' + (next() % 26) as u8) as char).collect())
        .collect();
    let file = File::create(path).expect("a file");
    let mut piece = Vec::new();
    for offset in (0..size).step_by(MIB as usize) {
        piece.clear();
        while piece.len() < MIB as usize {
            piece.extend_from_slice(words[(next() % 2000) as usize].as_bytes());
            piece.push(b' ');
        }
        file.write_all_at(&piece[..MIB as usize], offset).expect("room for it");
    }
}

fn measure(name: &str, path: &Path, options: &Options) {
    let mut open = OpenOptions::default();
    open.cache = true;
    let Ok(Opened::Image(image)) = verisum_image::open(path, &open) else { panic!("{name}: not an image") };
    let clusters = Clusters::of(&*image, path);
    let (mut alone, mut reader) = (vec![], vec![]);
    for _ in 0..options.rounds {
        alone.push(clusters.decompress(options.threads));
        reader.push(read(&*image, options.threads));
    }
    let bytes = clusters.list.len() as f64 * clusters.size as f64;
    let [alone, reader] = [alone, reader].map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        bytes / seconds[seconds.len() / 2] / 1e9
    });
    println!("{alone:>8.2} {reader:>8.2} {:>8.2}  {name}", reader / alone);
}

/// The compressed clusters of an image, in memory.
struct Clusters {
    is_zstd: bool,
    size: usize,
    list: Vec<Vec<u8>>,
}

impl Clusters {
    fn of(image: &dyn Image, path: &Path) -> Clusters {
        let layer = &image.layers()[0];
        let size = layer.cluster_size.expect("it has clusters") as usize;
        let is_zstd = layer.properties.contains(&("compression", "zstd".into()));
        let file = File::open(path).expect("it was open before");
        let (mut list, mut extents, mut position) = (vec![], vec![], 0);
        while position < image.length() {
            extents.clear();
            image.extents(position..image.length(), &mut extents).expect("extents");
            for extent in extents.iter().filter(|extent| extent.kind == ExtentKind::Compressed) {
                let place = extent.place.expect("a whole cluster");
                let mut bytes = vec![0; size + 512];
                let len = file.read_at(&mut bytes, place.offset).expect("its bytes");
                bytes.truncate(len);
                if is_zstd {
                    let len = zstd::zstd_safe::find_frame_compressed_size(&bytes).expect("a frame");
                    bytes.truncate(len);
                } else {
                    // Where a stream ends is not known before; what follows is not looked at.
                    bytes.shrink_to_fit();
                }
                list.push(bytes);
            }
            position = extents.last().expect("an extent").range.end;
        }
        Clusters { is_zstd, size, list }
    }

    /// Seconds that it takes to decompress all.
    fn decompress(&self, threads: usize) -> f64 {
        let next = AtomicUsize::new(0);
        timed(threads, || {
            let mut zlib = Decompressor::new();
            let mut zstd = zstd::bulk::Decompressor::new().expect("a decompressor");
            let mut buffer = AlignedBuffer::new(self.size);
            while let Some(bytes) = self.list.get(next.fetch_add(1, Ordering::Relaxed)) {
                let len = match self.is_zstd {
                    true => zstd.decompress_to_buffer(bytes, &mut buffer[..]).expect("a cluster"),
                    false => zlib.deflate_decompress(bytes, &mut buffer).expect("a cluster"),
                };
                assert_eq!(len, self.size);
            }
        })
    }
}

/// Seconds that it takes to read an image in runs as long as those of the block hash.
fn read(image: &dyn Image, threads: usize) -> f64 {
    let run = image.unit().max(MIB);
    let next = AtomicUsize::new(0);
    timed(threads, || {
        let mut buffer = AlignedBuffer::new(run as usize);
        loop {
            let start = next.fetch_add(1, Ordering::Relaxed) as u64 * run;
            if start >= image.length() {
                break;
            }
            let len = run.min(image.length() - start) as usize;
            image.read_at(&mut buffer[..len], start).expect("its bytes");
        }
    })
}

fn timed(threads: usize, work: impl Fn() + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(&work);
        }
    });
    start.elapsed().as_secs_f64()
}
