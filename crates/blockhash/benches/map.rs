//! Block maps of an image of 1 TiB full of data: 16 million digests of 32 bytes, half a GiB a map.
//!
//! `cargo bench -p verisum-blockhash --bench map`. The maps lie in the temporary folder and in the page
//! cache. What is compared are maps that are equal, that differ in one block of a thousand sections, and
//! that differ in every block; `check` also computes the root anew.
//!
//! Then an image of 1 GiB in memory: hashed, hashed into a map, hashed and compared with a map, and compared
//! with another image.

#![allow(missing_docs)]

use std::ops::Range;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use verisum_blockhash::{
    BlockMap, DigestSink, ImageProgress, MapComparison, MapWriter, Params, compare_images, compare_maps,
    hash_image, hash_image_to,
};
use verisum_digest::{Digest, Output, Policy};
use verisum_image::{Extent, ExtentKind, Image};

const LENGTH: u64 = 1 << 40;
const BLOCKS: u64 = LENGTH / 65_536;
const SECTION: u64 = 4096;

/// Writes a map of made-up digests.
fn write(path: &Path, digest_of: impl Fn(u64) -> u64) {
    let params = Params::new(Digest::find("sha256").unwrap());
    let mut root = params.digest().stream().unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = MapWriter::new(file, path, &params).unwrap();
    let mut digests = Vec::new();
    for first in (0..BLOCKS).step_by(SECTION as usize) {
        digests.clear();
        for block in first..first + SECTION {
            let word = digest_of(block).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            (0..4).for_each(|i| digests.extend_from_slice(&word.rotate_left(i * 7).to_le_bytes()));
        }
        writer.digests(&digests).unwrap();
        root.update(&digests).unwrap();
    }
    root.update(&LENGTH.to_le_bytes()).unwrap();
    let mut output = Output::zeroed(32);
    root.finish(output.as_mut_bytes()).unwrap();
    writer.finish(LENGTH, &output).unwrap();
}

fn maps(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let open = |name: &str| BlockMap::open(&path(name), &Policy::default()).unwrap();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    write(&path("one"), |block| block);
    let mut group = criterion.benchmark_group("maps of 1 TiB");
    group.sample_size(10);
    let mut compare = |name: &str, ranges: usize, digest_of: &dyn Fn(u64) -> u64| {
        write(&path("other"), digest_of);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let (one, other) = (open("one"), open("other"));
                assert_eq!(compare_maps(&one, &other, threads).unwrap().len(), ranges);
            });
        });
    };
    compare("equal", 0, &|block| block);
    compare("a quarter of the sections", 1024, &|block| {
        if block % (4 * SECTION) == 5 { block + BLOCKS } else { block }
    });
    compare("every block", 1, &|block| block + BLOCKS);
    group.bench_function("check", |bencher| bencher.iter(|| open("one").check().unwrap()));
    group.finish();
}

/// Data without zeros, which is read as from a page cache.
struct InMemory(Vec<u8>);

impl Image for InMemory {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), verisum_image::ImageError> {
        out.push(Extent::new(range, ExtentKind::Data));
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), verisum_image::ImageError> {
        buf.copy_from_slice(&self.0[offset as usize..][..buf.len()]);
        Ok(())
    }
}

fn images(criterion: &mut Criterion) {
    let image = InMemory((0..1_u32 << 30).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8 | 1).collect());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let params = Params::new(Digest::find("sha256").unwrap()).threads(threads).unwrap();
    let progress = ImageProgress::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    let write = || {
        let mut writer = MapWriter::new(std::fs::File::create(&path).unwrap(), &path, &params).unwrap();
        let root = hash_image_to(&image, &params, &progress, &mut writer).unwrap();
        writer.finish(image.length(), &root).unwrap();
    };
    let mut group = criterion.benchmark_group("images of 1 GiB");
    group.sample_size(10).throughput(Throughput::Bytes(image.length()));
    group.bench_function("hash", |bencher| bencher.iter(|| hash_image(&image, &params, &progress).unwrap()));
    group.bench_function("map", |bencher| bencher.iter(write));
    group.bench_function("verify", |bencher| {
        let map = BlockMap::open(&path, &Policy::default()).unwrap();
        bencher.iter(|| {
            let mut comparison = MapComparison::new(&map).unwrap();
            let root = hash_image_to(&image, &params, &progress, &mut comparison).unwrap();
            assert!(comparison.finish(image.length(), &root).unwrap().is_empty());
        });
    });
    group.bench_function("diff", |bencher| {
        bencher.iter(|| compare_images(&image, &image, 65_536, threads, &progress).unwrap());
    });
    group.finish();
}

criterion_group!(benches, maps, images);
criterion_main!(benches);
