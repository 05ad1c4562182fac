//! What the benches of trees have in common: a tree of small files, and the times of ways that take turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use verisum_files::{Walk, WalkOptions};

/// How often each way is measured.
pub const ROUNDS: usize = 5;

/// Files of one directory.
const FILES_PER_DIRECTORY: usize = 1000;

/// Makes `count` files of `size` bytes, no two alike.
pub fn make(folder: &Path, count: usize, size: usize) {
    let mut content: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
    for index in 0..count {
        let directory = folder.join(format!("{:04}", index / FILES_PER_DIRECTORY));
        if index % FILES_PER_DIRECTORY == 0 {
            fs::create_dir(&directory).expect("a directory");
        }
        let stamp = (index as u64).to_le_bytes();
        let length = size.min(stamp.len());
        content[..length].copy_from_slice(&stamp[..length]);
        fs::write(directory.join(format!("file-{index:07}")), &content).expect("a file");
    }
}

/// Everything below a folder.
pub fn walk(folder: &Path) -> Walk {
    Walk::new(vec![PathBuf::from(folder)], WalkOptions::default())
}

/// The median, in seconds.
pub fn median(times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2].as_secs_f64()
}
