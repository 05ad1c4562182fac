//! A set file that is no parity, or a hostile one, neither ends the reader nor leads it out of the tree.
//!
//! With the first byte odd the seal over the head is set right first, so that what lies behind it is reached.

#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use verisum_digest::Digest;
use verisum_parity::{ParityRepairOptions, ParityVerifyOptions};

fuzz_target!(|data: &[u8]| {
    let [mode, bytes @ ..] = data else { return };
    let mut bytes = bytes.to_vec();
    if mode % 2 == 1 {
        seal(&mut bytes);
    }
    let outer = tempfile::tempdir_in("/dev/shm").unwrap();
    let (tree, place) = (outer.path().join("tree"), outer.path().join("place"));
    fs::create_dir(&tree).unwrap();
    fs::create_dir(&place).unwrap();
    fs::write(tree.join("a"), [7; 5000]).unwrap();
    fs::write(place.join("set-00000001.parity"), &bytes).unwrap();
    let _ = verisum_parity::verify(&tree, Some(&*place), &ParityVerifyOptions::default(), &mut |_| {});
    let mut options = ParityRepairOptions::default();
    options.changed = true;
    let _ = verisum_parity::repair(&tree, Some(&*place), &options, &mut |_| {});
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 2, "nothing is written outside");
});

/// Writes the right digest over the head, if there is room for one.
fn seal(bytes: &mut [u8]) {
    let Some(length) = bytes.get(72..80).map(|length| u64::from_le_bytes(length.try_into().unwrap())) else {
        return;
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
    let Some(body) = length.checked_sub(32) else { return };
    let digest = Digest::find("blake3").unwrap().hash(&bytes[..body]).unwrap();
    bytes[body..length].copy_from_slice(digest.as_bytes());
}
