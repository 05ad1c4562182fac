//! What several tests of images need.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::ops::Range;
use std::path::Path;

use verisum_image::{AlignedBuffer, Extent, Image, ImageError, OpenOptions, RawImage};
use verisum_testkit::cache;

/// Both ways to read.
pub fn ways() -> [OpenOptions; 2] {
    [false, true].map(|cache| {
        let mut options = OpenOptions::default();
        options.cache = cache;
        options
    })
}

/// Opens an image of which nothing is cached, so that direct reads are direct.
pub fn open(path: &Path, options: &OpenOptions) -> RawImage {
    cache::forget(path).unwrap();
    RawImage::open(path, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads a range into a buffer that begins `shift` bytes after an aligned address.
pub fn read(image: &dyn Image, range: Range<u64>, shift: usize) -> Result<Vec<u8>, ImageError> {
    let length = (range.end - range.start) as usize;
    let mut buffer = AlignedBuffer::new(shift + length);
    // What is not overwritten shows.
    buffer.fill(0xEE);
    image.read_at(&mut buffer[shift..], range.start)?;
    assert!(buffer[..shift].iter().all(|&byte| byte == 0xEE));
    Ok(buffer[shift..].to_vec())
}

/// All extents of an image, asked for in ranges of at most `step` bytes and checked to fit together.
pub fn all_extents(image: &dyn Image, step: u64) -> Vec<Extent> {
    let mut all: Vec<Extent> = Vec::new();
    let mut position = 0;
    while position < image.length() {
        let end = image.length().min(position.saturating_add(step));
        let mut found = Vec::new();
        image.extents(position..end, &mut found).unwrap();
        assert!(!found.is_empty(), "no extent at {position}");
        for extent in found {
            assert_eq!(extent.range.start, position, "a gap");
            assert!(extent.range.start < extent.range.end && extent.range.end <= end, "{extent:?} of {end}");
            position = extent.range.end;
            match all.last_mut() {
                Some(last) if last.kind == extent.kind => last.range.end = extent.range.end,
                _ => all.push(extent),
            }
        }
    }
    all
}

/// Asserts that an image holds `expected` and then zeros: read whole, and read as its extents say.
pub fn assert_holds(image: &dyn Image, expected: &[u8]) {
    let length = image.length() as usize;
    assert_eq!(image.exact_length(), expected.len() as u64);
    assert_eq!(image.exact_length() + image.padded_by(), image.length());
    let mut expected = expected.to_vec();
    expected.resize(length, 0);
    assert!(read(image, 0..length as u64, 0).unwrap() == expected, "read whole, {length} bytes");

    let mut pieced = vec![0; length];
    for extent in all_extents(image, 1 << 20) {
        if !extent.kind.is_zero() {
            let bytes = read(image, extent.range.clone(), 0).unwrap();
            pieced[extent.range.start as usize..extent.range.end as usize].copy_from_slice(&bytes);
        }
    }
    assert!(pieced == expected, "read by extents, {length} bytes");
    image.check_unchanged().unwrap();
    assert!(!image.modified_during());
}
