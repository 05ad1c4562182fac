//! Whatever the bytes of a qcow2 image, opening and reading it ends, in bounded memory, and its extents
//! and its bytes agree.

#![no_main]

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use verisum_image::{Extent, ExtentKind, Follow, ImageFormat, Image, OpenOptions, Opened};

/// The most that is read of an image.
const READ: u64 = 1 << 20;

/// The most calls for extents.
const CALLS: usize = 16;

fuzz_target!(|data: &[u8]| {
    let path = PathBuf::from(format!("/dev/shm/verisum-fuzz-qcow2-{}", std::process::id()));
    let mut file = File::create(&path).expect("a scratch file");
    file.write_all(data).expect("room for it");
    for snapshot in [None, Some("1".to_string())] {
        let mut options = OpenOptions::default();
options.cache = true;
options.format = Some(ImageFormat::Qcow2);
options.follow = Follow::None;
options.snapshot = snapshot;
        if let Ok(Opened::Image(image)) = verisum_image::open(&path, &options) {
            check(&*image);
        }
    }
});

fn check(image: &dyn Image) {
    let length = image.length();
    let mut extents: Vec<Extent> = Vec::new();
    let mut position = 0;
    for _ in 0..CALLS {
        if position == length || image.extents(position..length, &mut extents).is_err() {
            break;
        }
        let last = extents.last().expect("at least one");
        assert!(last.range.end > position && last.range.end <= length);
        position = last.range.end;
    }
    let mut position = 0;
    let mut left = READ;
    for extent in &extents {
        assert_eq!(extent.range.start, position);
        assert!(extent.range.end > position);
        position = extent.range.end;
        let len = left.min(position - extent.range.start);
        left -= len;
        let mut whole = vec![0xee; len as usize];
        if image.read_at(&mut whole, extent.range.start).is_err() {
            assert_ne!(extent.kind, ExtentKind::Zero);
            continue;
        }
        assert!(extent.kind != ExtentKind::Zero || whole.iter().all(|&byte| byte == 0));
        // In pieces it is the same.
        let cut = whole.len() / 3;
        let mut pieces = vec![0xdd; whole.len()];
        let (first, second) = pieces.split_at_mut(cut);
        image.read_at(second, extent.range.start + cut as u64).expect("it could be read before");
        image.read_at(first, extent.range.start).expect("it could be read before");
        assert!(pieces == whole);
    }
    let _ = (image.layers(), image.check_unchanged());
}
