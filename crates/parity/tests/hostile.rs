//! Parity files that somebody made on purpose: refused or used within bounds, and never a way out of the tree. The
//! fuzz target `parity` does the same for longer.

mod common;

use std::fs;

use common::Tree;
use verisum_digest::Digest;
use verisum_parity::{ParityRepairOptions, ParityVerifyOptions};

#[test]
fn heads_with_other_bytes_and_the_right_seal_do_no_harm() {
    let mut random = fastrand::Rng::new();
    let tree = Tree::random(&mut random, 8, 20_000);
    tree.create(200_000, None);
    let whole = fs::read(&tree.sets()[0]).unwrap();
    let length = u64::from_le_bytes(whole[72..80].try_into().unwrap()) as usize;
    let blake3 = Digest::find("blake3").unwrap();
    for round in 0..300 {
        let outer = tempfile::tempdir().unwrap();
        let (root, place) = (outer.path().join("tree"), outer.path().join("place"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&place).unwrap();
        let mut bytes = whole.clone();
        let at = if round % 2 == 0 { 16..96 } else { 96..length - 32 };
        for _ in 0..random.usize(1..4) {
            bytes[random.usize(at.clone())] = [0, 1, 0x7f, 0x80, 0xff, random.u8(..)][random.usize(..6)];
        }
        if round == 0 {
            // A block of no bytes.
            bytes[16..20].fill(0);
        }
        let digest = blake3.hash(&bytes[..length - 32]).unwrap();
        bytes[length - 32..length].copy_from_slice(digest.as_bytes());
        // The second head is the same.
        let head = bytes[..length].to_vec();
        let second = bytes.len() - 32 - length;
        bytes[second..second + length].copy_from_slice(&head);
        fs::write(place.join("set-00000001.parity"), &bytes).unwrap();
        let _ = verisum_parity::verify(&root, Some(&*place), &ParityVerifyOptions::default(), &mut |_| {});
        let _ = verisum_parity::repair(&root, Some(&*place), &ParityRepairOptions::default(), &mut |_| {});
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 2, "nothing is written outside");
    }
}
