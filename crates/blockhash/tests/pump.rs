//! The pump on made-up images: any extents, any failure, any block size.

mod common;

use std::sync::atomic::Ordering;

use common::definition::block_hash;
use common::fake::Fake;
use proptest::prelude::*;
use verisum_blockhash::{BlockHashError, ImageProgress, Params, hash_image};
use verisum_digest::Digest;
use verisum_image::{Image, OpenOptions, RawImage};

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
        let progress = ImageProgress::default();
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
        assert_eq!(hash_image(&image, &params, &ImageProgress::default()).unwrap(), expected);
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
        assert_eq!(hash_image(&image, &params, &ImageProgress::default()).unwrap(), expected);
    }
}

#[test]
fn a_read_error_anywhere_ends_it_with_that_error() {
    let mut image = Fake::new(&[(20 << 20, false, false)]);
    for at in [0, 1 << 20, (10 << 20) + 5, (20 << 20) - 1] {
        image.fails_at = Some(at);
        for threads in [1, 2, 8] {
            let error =
                hash_image(&image, &params("md5", 65_536, threads), &ImageProgress::default()).unwrap_err();
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
            hash_image(image, &params("md5", 65_536, threads), &ImageProgress::default())
        });
        assert!(!matches!(result, Ok(Ok(_))));
    }
}

#[test]
fn an_image_that_changed_has_no_value() {
    let image = Fake::new(&[(1 << 20, false, false)]);
    image.changed.store(true, Ordering::Relaxed);
    let result = hash_image(&image, &params("sha256", 65_536, 2), &ImageProgress::default());
    assert!(matches!(result, Err(BlockHashError::Image(_))));
}

/// In /dev/shm, where every file is in the page cache. Linux before 6.5 does not tell, and they are read.
fn file_in_memory(content: &[u8]) -> tempfile::NamedTempFile {
    verisum_pagecache::hash_in_page_cache();
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    std::fs::write(file.path(), content).unwrap();
    file
}

/// Bytes without a block of zeros, but for one part.
fn content(length: usize, zeros: std::ops::Range<usize>) -> Vec<u8> {
    let at =
        |at: usize| if zeros.contains(&at) { 0 } else { (at.wrapping_mul(2_654_435_761) >> 11) as u8 | 1 };
    (0..length).map(at).collect()
}

#[test]
fn files_in_the_page_cache() {
    let content = content((40 << 20) + 512, 19 << 20..(22 << 20) + 77);
    let file = file_in_memory(&content);
    let image = RawImage::open(file.path(), &OpenOptions::default()).unwrap();
    for (block_size, threads) in [(65_536, 1), (4096, 2), (100_000, 3), (65_536, 7)] {
        let params = params("blake3", block_size, threads);
        let expected = block_hash(params.digest(), block_size as usize, &content);
        let progress = ImageProgress::default();
        assert_eq!(hash_image(&image, &params, &progress).unwrap(), expected);
        assert_eq!(progress.bytes(), content.len() as u64);
    }
}

#[test]
fn files_that_are_cut_off_while_they_are_hashed_in_the_page_cache() {
    let content = content(48 << 20, 0..0);
    let params = params("crc32c", 65_536, 2);
    let expected = block_hash(params.digest(), 65_536, &content);
    for round in 0..24 {
        let file = file_in_memory(&content);
        let image = RawImage::open(file.path(), &OpenOptions::default()).unwrap();
        let progress = ImageProgress::default();
        let found = std::thread::scope(|scope| {
            let found = scope.spawn(|| hash_image(&image, &params, &progress));
            while progress.bytes() < round << 20 && !found.is_finished() {
                std::hint::spin_loop();
            }
            file.as_file().set_len(1 << 20).unwrap();
            found.join().unwrap()
        });
        match found {
            Ok(digest) => assert_eq!(digest, expected, "all of it was hashed before"),
            Err(error) => assert!(matches!(error, BlockHashError::Image(_)), "{error}"),
        }
    }
}
