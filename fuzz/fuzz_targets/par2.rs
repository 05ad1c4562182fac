//! A PAR2 file that is none, or a hostile one, neither ends the reader nor leads it out of its directory.
//!
//! With the first byte odd the MD5 of each packet is set right first, so that what lies behind it is reached.

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
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a"), [7; 5000]).unwrap();
    let set = root.join("set.par2");
    fs::write(&set, &bytes).unwrap();
    let _ = verisum_parity::verify_par2(&set, &ParityVerifyOptions::default(), &mut |_| {});
    let _ = verisum_parity::repair_par2(&set, &ParityRepairOptions::default(), &mut |_| {});
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1, "nothing is written outside");
});

/// Writes the right digest into each packet, as far as their lengths lead from one to the next.
fn seal(bytes: &mut [u8]) {
    let md5 = Digest::find("md5").unwrap();
    let mut at = 0;
    while let Some(length) = bytes.get(at + 8..at + 16) {
        let length = u64::from_le_bytes(length.try_into().unwrap());
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
        let Some(end) = end.filter(|end| (at + 64..=bytes.len()).contains(end)) else { return };
        let digest = md5.hash(&bytes[at + 32..end]).unwrap();
        bytes[at + 16..at + 32].copy_from_slice(digest.as_bytes());
        at = end;
    }
}
