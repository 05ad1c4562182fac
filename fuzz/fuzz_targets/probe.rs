//! Whatever the bytes of a file, telling its format ends well, and opening it as what it looks like too.

#![no_main]

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use verisum_image::{Detect, Follow, ImageFormat, OpenOptions, RawImage, START_LEN};

fuzz_target!(|data: &[u8]| {
    let path = PathBuf::from(format!("/dev/shm/verisum-fuzz-probe-{}", std::process::id()));
    File::create(&path).and_then(|mut file| file.write_all(data)).expect("a scratch file");
    let options =
        {
let mut options = OpenOptions::default();
options.cache = true;
options.detect = Detect::Qcow2;
options.follow = Follow::None;
options
};
    let raw = RawImage::open(&path, &options).expect("every file is a raw image");
    let format = ImageFormat::probe(&raw).expect("every file can be read");
    let by_start = ImageFormat::probe_start(&data[..data.len().min(START_LEN)]);
    assert!(by_start == ImageFormat::Raw || by_start == format);
    assert_eq!(ImageFormat::find(format.name()), Some(format));
    let _ = verisum_image::open(&path, &options);
});
