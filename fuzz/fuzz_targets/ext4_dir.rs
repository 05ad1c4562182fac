//! Any bytes can be taken for an ext4 image: its directories are read without a panic, a hang or much
//! memory.
//!
//! The input is laid over an image whose superblock is sound enough to get past the first questions.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use verisum_lab::dirhash::ext4::{Ext4, Survey};

fuzz_target!(|data: &[u8]| {
    let mut image = vec![0u8; 128 * 1024];
    image[1024] = 64;
    image[1024 + 4] = 128;
    image[1024 + 20] = 1;
    image[1024 + 32..1024 + 36].copy_from_slice(&64u32.to_le_bytes());
    image[1024 + 40] = 32;
    image[1024 + 56..1024 + 58].copy_from_slice(&0xef53u16.to_le_bytes());
    image[1024 + 76] = 1;
    image[1024 + 88] = 128;
    for (place, byte) in image[1024..].iter_mut().zip(data) {
        *place ^= byte;
    }
    let path = std::env::temp_dir().join(format!("verisum-fuzz-ext4-{}", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(&image).unwrap();
    if let Ok(ext4) = Ext4::open(&path) {
        let _ = Survey::all(&ext4);
        let _ = ext4.find(b"/a/b");
    }
    let _ = std::fs::remove_file(path);
});
