//! Any bytes can be taken for an ext4 image: its directories are read without a panic, a hang or much
//! memory.
//!
//! The input is what follows the first 1024 bytes, in which no file system has anything, and zeros follow it:
//! the seeds are real images.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use verisum_dirhash::ext4::{Ext4, VolumeSurvey};

fuzz_target!(|data: &[u8]| {
    let mut image = vec![0; 128 * 1024];
    let length = data.len().min(image.len() - 1024);
    image[1024..][..length].copy_from_slice(&data[..length]);
    let path = std::env::temp_dir().join(format!("verisum-fuzz-ext4-{}", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(&image).unwrap();
    if let Ok(ext4) = Ext4::open(&path) {
        let _ = VolumeSurvey::all(&ext4);
        let _ = ext4.find(b"/a/b");
    }
    let _ = std::fs::remove_file(path);
});
