//! Block maps of made-up images: what they say, what differs, and bringing them up to date.

mod common;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use common::definition::block_hash;
use common::fake::Fake;
use proptest::prelude::*;
use serde_json::Value;
use verisum_blockhash::{
    BlockHashError, BlockMap, ImageProgress, MapComparison, MapWriter, Params, compare_images, compare_maps,
    hash_image_to, merge_ranges, update_map,
};
use verisum_digest::{Digest, Output, Policy};
use verisum_image::{Extent, ExtentKind, ExtentLocation, Image};

fn params(digest: &str, block_size: u32, threads: usize) -> Params {
    let digest = Digest::find(digest).unwrap();
    Params::new(digest).block_size(block_size).unwrap().threads(threads).unwrap()
}

/// The bytes of the map of an image, and its block hash.
fn map_of(image: &dyn Image, params: &Params) -> (Vec<u8>, Output) {
    let mut writer = MapWriter::new(Vec::new(), Path::new("map"), params).unwrap();
    let root = hash_image_to(image, params, &ImageProgress::default(), &mut writer).unwrap();
    (writer.finish(image.length(), &root).unwrap(), root)
}

/// A map in a file of its own.
struct Stored {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Stored {
    fn new(bytes: &[u8]) -> Stored {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map");
        std::fs::write(&path, bytes).unwrap();
        Stored { _folder: folder, path }
    }

    fn open(&self) -> Result<BlockMap, BlockHashError> {
        BlockMap::open(&self.path, &Policy::default())
    }
}

/// Where two contents differ, block by block.
fn truth(a: &[u8], b: &[u8], block_size: usize) -> Vec<Range<u64>> {
    let longest = a.len().max(b.len());
    let block = |content: &[u8], start: usize| {
        content.get(start..).map(|rest| rest[..rest.len().min(block_size)].to_vec()).unwrap_or_default()
    };
    let differ = (0..longest).step_by(block_size).filter(|&at| block(a, at) != block(b, at));
    merge_ranges(differ.map(|at| at as u64..(at + block_size).min(longest) as u64).collect())
}

/// The same content, whose zeros are claimed in another way.
fn unclaimed(image: &Fake) -> Fake {
    let all = Extent::new(0..image.length(), ExtentKind::Data);
    let extents = if image.content.is_empty() { Vec::new() } else { vec![all] };
    Fake { content: image.content.clone(), extents, ..Fake::new(&[]) }
}

/// The content after some edits: `(place, length, zeros)`, in thousandths of the image.
fn edited(image: &Fake, edits: &[(usize, usize, bool)], length: usize) -> (Fake, Vec<Range<u64>>) {
    let mut content = image.content.clone();
    let mut touched = Vec::new();
    for &(place, len, zeros) in edits {
        let start = content.len() * place / 1000;
        let end = content.len().min(start + len);
        for (i, byte) in content[start..end].iter_mut().enumerate() {
            *byte = if zeros { 0 } else { (i % 7) as u8 };
        }
        touched.push(start as u64..end as u64);
    }
    content.resize(length, 0);
    let extents = if content.is_empty() { Vec::new() } else { zero_runs(&content) };
    (Fake { content, extents, ..Fake::new(&[]) }, touched)
}

/// Extents that tell every zero byte.
fn zero_runs(content: &[u8]) -> Vec<Extent> {
    let mut start = 0;
    let runs = content.chunk_by(|a, b| (*a == 0) == (*b == 0));
    runs.map(|run| {
        start += run.len() as u64;
        let kind = if run[0] == 0 { ExtentKind::Zero } else { ExtentKind::Data };
        Extent::new(start - run.len() as u64..start, kind)
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_way_to_compare_and_to_update_is_right(
        runs in prop::collection::vec((0usize..100_000, any::<bool>(), any::<bool>()), 0..8),
        edits in prop::collection::vec((0usize..1000, 0usize..20_000, any::<bool>()), 0..6),
        change in prop::sample::select(vec![0isize, 0, 1, -1, 512, -700, 70_000, -70_000]),
        block_size in prop::sample::select(vec![16u32, 512, 1000, 65_536]),
        threads in 1usize..4,
        digest in prop::sample::select(vec!["sha256", "crc32c", "sha512"]),
    ) {
        let a = Fake::new(&runs);
        let (b, touched) = edited(&a, &edits, a.content.len().saturating_add_signed(change));
        let params = params(digest, block_size, threads);
        let progress = ImageProgress::default();
        let (map_a, root_a) = map_of(&a, &params);
        let (map_b, root_b) = map_of(&b, &params);
        prop_assert_eq!(root_a, block_hash(params.digest(), block_size as usize, &a.content));
        prop_assert!(map_of(&unclaimed(&a), &params).0 == map_a, "one content has one map");

        let (stored_a, stored_b) = (Stored::new(&map_a), Stored::new(&map_b));
        let (a_map, b_map) = (stored_a.open().unwrap(), stored_b.open().unwrap());
        a_map.check().unwrap();
        prop_assert_eq!((a_map.length(), *a_map.root()), (a.length(), root_a));
        prop_assert_eq!(a_map.file_length(), map_a.len() as u64);

        let of_block = |block: &[u8]| params.digest().hash(block).unwrap().as_bytes().to_vec();
        let digests: Vec<Vec<u8>> = a.content.chunks(block_size as usize).map(of_block).collect();
        prop_assert!(a_map.digests(0..a_map.blocks()).unwrap() == digests.concat());
        let middle = digests.len() / 3..digests.len() * 2 / 3;
        let some = a_map.digests(middle.start as u64..middle.end as u64).unwrap();
        prop_assert!(some == digests[middle].concat());

        let expected = truth(&a.content, &b.content, block_size as usize);
        prop_assert_eq!(&compare_maps(&a_map, &b_map, threads).unwrap(), &expected);
        prop_assert_eq!(&compare_images(&a, &b, block_size, threads, &progress).unwrap(), &expected);
        let mut comparison = MapComparison::new(&a_map).unwrap();
        let root = hash_image_to(&b, &params, &progress, &mut comparison).unwrap();
        prop_assert_eq!(&comparison.finish(b.length(), &root).unwrap(), &expected);

        let updated = |touched| {
            let writer = MapWriter::new(Vec::new(), Path::new("map"), a_map.params()).unwrap();
            update_map(&a_map, &b, touched, &params, writer, &progress, &|| true).unwrap()
        };
        let (root, hashed, bytes) = updated(touched);
        prop_assert_eq!(root, root_b);
        prop_assert!(bytes == map_b);
        prop_assert!(hashed <= b.length());
        let (root, hashed, bytes) = updated(expected.clone());
        prop_assert!(root == root_b && bytes == map_b);
        let kept: u64 = expected.iter().map(|range| range.end.min(b.length()).saturating_sub(range.start)).sum();
        prop_assert_eq!(hashed, kept, "no more is hashed than what differs");
    }

    #[test]
    fn a_damaged_map_is_never_believed(
        place in 0usize..1000,
        bit in 0u8..8,
        cut in 0usize..3000,
    ) {
        let image = Fake::new(&[(40_000, false, false), (500_000, true, true), (70_000, false, false)]);
        let (bytes, _) = map_of(&image, &params("crc32c", 16, 1));
        let check = |bytes: &[u8]| Stored::new(bytes).open().and_then(|map| map.check());
        check(&bytes).unwrap();
        let mut flipped = bytes.clone();
        flipped[bytes.len() * place / 1000] ^= 1 << bit;
        prop_assert!(check(&flipped).is_err());
        prop_assert!(check(&bytes[..bytes.len() - 1 - cut]).is_err());
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + 1 + cut, 0);
        prop_assert!(check(&longer).is_err());
    }
}

/// A message of the vectors as an image that claims its zeros.
struct Runs(Vec<Extent>);

impl Runs {
    fn new(vector: &Value) -> Runs {
        let mut start = 0;
        let runs = vector["runs"].as_array().unwrap().iter().map(|run| {
            start += run["length"].as_u64().unwrap();
            let kind = if run["kind"] == "zero" { ExtentKind::Zero } else { ExtentKind::Data };
            Extent::new(start - run["length"].as_u64().unwrap()..start, kind)
        });
        Runs(runs.collect())
    }
}

impl Image for Runs {
    fn length(&self) -> u64 {
        self.0.last().map_or(0, |extent| extent.range.end)
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), verisum_image::ImageError> {
        let found = self.0.iter().find(|extent| extent.range.end > range.start).unwrap();
        out.push(Extent::new(range.start..found.range.end.min(range.end), found.kind));
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), verisum_image::ImageError> {
        buf.fill(0);
        let end = offset + buf.len() as u64;
        for extent in self.0.iter().filter(|extent| extent.kind == ExtentKind::Data) {
            let (start, end) = (extent.range.start.max(offset), extent.range.end.min(end));
            if start < end {
                let data = common::data(start as usize, (end - start) as usize);
                buf[(start - offset) as usize..(end - offset) as usize].copy_from_slice(&data);
            }
        }
        Ok(())
    }
}

#[test]
fn maps_are_those_of_the_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/blockmap.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    assert!(vectors.len() > 30);
    let sha256 = Digest::find("sha256").unwrap();
    for vector in vectors {
        let block_size = vector["block_size"].as_u64().unwrap() as u32;
        let (bytes, root) =
            map_of(&Runs::new(vector), &params(vector["digest"].as_str().unwrap(), block_size, 2));
        assert_eq!(root.to_string(), vector["root"].as_str().unwrap());
        assert_eq!(bytes.len() as u64, vector["map_length"].as_u64().unwrap(), "{vector}");
        assert_eq!(sha256.hash(&bytes).unwrap().to_string(), vector["sha256"].as_str().unwrap(), "{vector}");
        let stored = Stored::new(&bytes);
        let map = stored.open().unwrap();
        map.check().unwrap();
        assert_eq!((map.length(), *map.root()), (vector["length"].as_u64().unwrap(), root));
    }
}

#[test]
fn maps_of_huge_empty_images_are_tiny() {
    struct Empty;
    impl Image for Empty {
        fn length(&self) -> u64 {
            1 << 40
        }
        fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), verisum_image::ImageError> {
            out.push(Extent::new(range, ExtentKind::Zero));
            Ok(())
        }
        fn read_at(&self, _: &mut [u8], _: u64) -> Result<(), verisum_image::ImageError> {
            unreachable!("nothing needs reading")
        }
    }
    let params = params("crc32c", 65_536, 1);
    let (bytes, root) = map_of(&Empty, &params);
    assert_eq!(bytes.len(), 64 + 128);
    let stored = Stored::new(&bytes);
    let map = stored.open().unwrap();
    assert_eq!((map.blocks(), map.data_blocks(), *map.root()), (1 << 24, 0, root));
    assert!(compare_images(&Empty, &Empty, 65_536, 2, &ImageProgress::default()).unwrap().is_empty());
    an_update_can_end_anywhere(&map, &Empty);
}

fn an_update_can_end_anywhere(map: &BlockMap, image: &dyn Image) {
    let update = |most: u64, touched: Vec<Range<u64>>| {
        let asked = AtomicU64::new(0);
        let goes_on = || asked.fetch_add(1, Ordering::Relaxed) < most;
        let writer = MapWriter::new(Vec::new(), Path::new("map"), map.params()).unwrap();
        let updated =
            update_map(map, image, touched, map.params(), writer, &ImageProgress::default(), &goes_on);
        (updated.map(|(root, ..)| root), asked.into_inner())
    };
    // Half of the image is hashed anew, and half of it is copied.
    let half = 0..map.length() / 2;
    let touched = || vec![half.clone()];
    let (root, asked) = update(u64::MAX, touched());
    assert_eq!(root.unwrap(), *map.root());
    // Of so many blocks at a time, while it is checked and while it is copied and hashed.
    assert!(asked >= 2 * map.blocks() / 4096, "{asked}");
    for most in (0..asked).step_by(97) {
        assert!(matches!(update(most, touched()).0, Err(BlockHashError::Finished)), "{most}");
    }
}

#[test]
fn what_lies_at_the_same_place_is_not_read() {
    /// Its bytes are all stored in one file, shifted by `shift`; some ranges must not be read.
    struct Placed {
        inode: u64,
        shift: u64,
        readable: Range<u64>,
    }
    impl Image for Placed {
        fn length(&self) -> u64 {
            4 << 20
        }
        fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), verisum_image::ImageError> {
            let place = ExtentLocation { device: 1, inode: self.inode, offset: range.start + self.shift };
            out.push(Extent { place: Some(place), ..Extent::new(range, ExtentKind::Data) });
            Ok(())
        }
        fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), verisum_image::ImageError> {
            assert!(self.readable.contains(&offset));
            buf.fill(self.inode as u8);
            Ok(())
        }
    }
    let image = |inode, shift, readable| Placed { inode, shift, readable };
    let differ = |a: &Placed, b: &Placed| compare_images(a, b, 4096, 2, &ImageProgress::default()).unwrap();
    assert!(differ(&image(1, 0, 0..0), &image(1, 0, 0..0)).is_empty());
    assert!(differ(&image(1, 0, 0..4 << 20), &image(1, 512, 0..4 << 20)).is_empty());
    assert_eq!(differ(&image(1, 0, 0..4 << 20), &image(2, 0, 0..4 << 20)), vec![0..4 << 20]);
}

#[test]
fn maps_that_do_not_go_together_are_refused() {
    let image = Fake::new(&[(5000, false, false)]);
    let stored = |digest, block_size| Stored::new(&map_of(&image, &params(digest, block_size, 1)).0);
    let (one, other, larger) = (stored("sha256", 512), stored("sha1", 512), stored("sha256", 1024));
    let error = |a: &Stored, b: &Stored| {
        compare_maps(&a.open().unwrap(), &b.open().unwrap(), 1).unwrap_err().to_string()
    };
    assert_eq!(error(&one, &other), "the maps hold different digests, sha256 and sha1");
    assert_eq!(error(&one, &larger), "the maps have different block sizes, 512 and 1024");
    let null = MapWriter::new(Vec::new(), Path::new("map"), &params("null", 512, 1)).unwrap_err();
    assert_eq!(null.to_string(), "a block map cannot be made with null");
}

#[test]
fn a_failing_disk_is_an_error() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let image = Fake::new(&[(1 << 20, false, false)]);
    for threads in [1, 3] {
        let params = params("sha256", 16, threads);
        let mut writer = MapWriter::new(Full(300_000), Path::new("map"), &params).unwrap();
        let error = hash_image_to(&image, &params, &ImageProgress::default(), &mut writer).unwrap_err();
        assert!(error.to_string().starts_with("map: write: "), "{error}");
    }
}

#[test]
fn other_files_are_no_maps() {
    let error = |bytes: &[u8]| {
        let stored = Stored::new(bytes);
        let text = stored.open().unwrap_err().to_string();
        text.strip_prefix(stored.path.to_str().unwrap()).unwrap().to_string()
    };
    assert_eq!(error(b""), ": open: not a block map");
    assert_eq!(error(&[0; 1000]), ": open: not a block map");
    let (mut bytes, _) = map_of(&Fake::new(&[(5000, false, false)]), &params("sha256", 512, 1));
    bytes[8] = 2;
    assert_eq!(error(&bytes), ": open: a block map of version 2, which is not known");
    assert!(BlockMap::open(Path::new("/dev/null"), &Policy::default()).is_err());
}
