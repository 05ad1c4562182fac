//! The pump on made-up images: any extents, any failure, any block size.

mod common;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use common::definition::block_hash;
use proptest::prelude::*;
use verisum_blockhash::{Error, Params, Progress, hash_image};
use verisum_digest::Digest;
use verisum_image::{Extent, ExtentKind, Image, Operation};

/// An image in memory that claims some zeros as such, and may fail.
struct Fake {
    content: Vec<u8>,
    extents: Vec<Extent>,
    fails_at: Option<u64>,
    panics_at: Option<u64>,
    changed: AtomicBool,
}

impl Fake {
    /// Runs of `(length, zero, claimed)`: an unclaimed run of zeros is said to be data.
    fn new(runs: &[(usize, bool, bool)]) -> Fake {
        let mut content = Vec::new();
        let mut extents = Vec::new();
        for &(length, zero, claimed) in runs.iter().filter(|run| run.0 > 0) {
            let start = content.len();
            if zero {
                content.resize(start + length, 0);
            } else {
                content.extend(common::data(start, length));
            }
            let kind = if zero && claimed { ExtentKind::Zero } else { ExtentKind::Data };
            extents.push(Extent::new(start as u64..content.len() as u64, kind));
        }
        Fake { content, extents, fails_at: None, panics_at: None, changed: AtomicBool::new(false) }
    }
}

impl Image for Fake {
    fn length(&self) -> u64 {
        self.content.len() as u64
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), verisum_image::Error> {
        let in_range = self.extents.iter().filter(|e| e.range.end > range.start && e.range.start < range.end);
        // Two at a time: the pump must ask again.
        out.extend(
            in_range
                .take(2)
                .map(|e| Extent::new(e.range.start.max(range.start)..e.range.end.min(range.end), e.kind)),
        );
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), verisum_image::Error> {
        let range = offset..offset + buf.len() as u64;
        assert!(!self.panics_at.is_some_and(|at| range.contains(&at)), "a panic on purpose");
        if self.fails_at.is_some_and(|at| range.contains(&at)) {
            let error = std::io::Error::from_raw_os_error(5);
            return Err(verisum_image::Error::io("fake".as_ref(), Operation::Read, error));
        }
        buf.copy_from_slice(&self.content[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), verisum_image::Error> {
        if self.changed.load(Ordering::Relaxed) {
            return Err(verisum_image::Error::Changed { path: "fake".into(), before: 1, after: 2 });
        }
        Ok(())
    }
}

fn params(digest: &str, block_size: u32, threads: usize) -> Params {
    let digest = Digest::find(digest).unwrap();
    Params::new(digest).block_size(block_size).unwrap().threads(threads).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_extents_give_the_defined_value(
        runs in prop::collection::vec((0usize..400_000, any::<bool>(), any::<bool>()), 0..20),
        block_size in prop::sample::select(vec![512u32, 1000, 4096, 65_536, 1 << 20]),
        threads in 1usize..5,
        digest in prop::sample::select(vec!["sha256", "md5", "blake3"]),
    ) {
        let image = Fake::new(&runs);
        let params = params(digest, block_size, threads);
        let progress = Progress::default();
        let expected = block_hash(params.digest(), block_size as usize, &image.content);
        prop_assert_eq!(hash_image(&image, &params, &progress).unwrap(), expected);
        prop_assert_eq!(progress.bytes(), image.length());
    }
}

#[test]
fn many_short_extents() {
    let runs: Vec<_> = (0..20_000).map(|i| (512, i % 2 == 0, true)).collect();
    let image = Fake::new(&runs);
    for threads in [1, 4] {
        let params = params("sha1", 512, threads);
        let expected = block_hash(params.digest(), 512, &image.content);
        assert_eq!(hash_image(&image, &params, &Progress::default()).unwrap(), expected);
    }
}

#[test]
fn blocks_too_long_to_be_held() {
    let image = Fake::new(&[
        (30 << 20, true, false),
        (50 << 20, false, true),
        (90 << 20, true, true),
        (5, false, false),
    ]);
    for (block_size, threads) in [(41u32 << 20, 1), (24 << 20, 2), (1 << 30, 3)] {
        let params = params("crc32c", block_size, threads);
        let expected = block_hash(params.digest(), block_size as usize, &image.content);
        assert_eq!(hash_image(&image, &params, &Progress::default()).unwrap(), expected);
    }
}

#[test]
fn a_read_error_anywhere_ends_it_with_that_error() {
    let mut image = Fake::new(&[(20 << 20, false, false)]);
    for at in [0, 1 << 20, (10 << 20) + 5, (20 << 20) - 1] {
        image.fails_at = Some(at);
        for threads in [1, 2, 8] {
            let error =
                hash_image(&image, &params("md5", 65_536, threads), &Progress::default()).unwrap_err();
            assert!(error.to_string().starts_with("fake: read"), "{error}");
        }
    }
}

#[test]
fn a_panic_of_a_worker_is_an_error_or_a_panic_but_never_a_hang() {
    let mut image = Fake::new(&[(20 << 20, false, false)]);
    image.panics_at = Some(10 << 20);
    for threads in [1, 4] {
        let image = &image;
        let result = std::panic::catch_unwind(move || {
            hash_image(image, &params("md5", 65_536, threads), &Progress::default())
        });
        assert!(!matches!(result, Ok(Ok(_))));
    }
}

#[test]
fn an_image_that_changed_has_no_value() {
    let image = Fake::new(&[(1 << 20, false, false)]);
    image.changed.store(true, Ordering::Relaxed);
    let result = hash_image(&image, &params("sha256", 65_536, 2), &Progress::default());
    assert!(matches!(result, Err(Error::Image(_))));
}
