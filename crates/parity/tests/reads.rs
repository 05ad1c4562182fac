//! How much a repair reads: of sets that are named, and in place, no more than these sets.
//!
//! The only test of this file, for what the whole process reads is counted.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use common::{Content, Tree, flip};
use verisum_parity::{ParityRepairOptions, ParityVerifyOptions};

const MEBIBYTE: u64 = 1 << 20;

/// Bytes that this process has read, from disks or from memory.
fn read() -> u64 {
    let told = fs::read_to_string("/proc/self/io").unwrap();
    told.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[test]
fn a_repair_of_named_sets_in_place_reads_these_sets_only() {
    let mut random = fastrand::Rng::with_seed(19);
    let content = [("long", 96 << 20), ("short", 100_000)];
    let content = content.map(|(name, length)| (PathBuf::from(name), common::bytes(&mut random, length)));
    let tree = Tree::new(Content::from(content));
    tree.create(50_000, Some(2 * MEBIBYTE));
    let path = tree.path().join("long");
    let before = fs::metadata(&path).unwrap();
    for at in [7, 40 * MEBIBYTE, 40 * MEBIBYTE + 70_000, 90 * MEBIBYTE] {
        flip(&path, at);
    }
    let found =
        verisum_parity::verify(tree.path(), None, &ParityVerifyOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((found.damaged, found.beyond_repair, found.bad_sets.len()), (1, 0, 3), "{found:?}");

    let mut options = ParityRepairOptions::default();
    (options.sets, options.in_place) = (found.bad_sets, true);
    let start = read();
    let done = verisum_parity::repair(tree.path(), None, &options, &mut |_| {}).unwrap();
    let was_read = read() - start;
    assert_eq!((done.repaired, done.not_repaired, done.sets), (1, 0, 3), "{done:?}");
    // Each set is looked at and then computed; its parity and its heads are a tenth of it.
    assert!(was_read < 3 * 2 * 2 * MEBIBYTE * 5 / 4, "{was_read} bytes of three sets of 2 MiB");
    tree.assert_whole();
    let now = fs::metadata(&path).unwrap();
    assert_eq!(now.ino(), before.ino(), "it is the same file");
    assert_eq!(now.modified().unwrap(), before.modified().unwrap());
    let again =
        verisum_parity::verify(tree.path(), None, &ParityVerifyOptions::default(), &mut common::unexpected);
    assert_eq!(again.unwrap().damaged, 0);
}
