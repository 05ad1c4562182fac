//! Attributes of any content: what is understood of our own is written alike, and no other ends in a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use verisum_files::store::xattr::{decode, encode, parse_foreign};
use verisum_files::{Kind, Stat, Timestamp};

const NAMES: [&str; 10] = [
    "user.checksum.sha256",
    "user.checksum.crc32",
    "user.shatag.sha256",
    "user.shatag.md5",
    "user.hash",
    "user.hashrat:md5",
    "user.crc64",
    "user.XrdCks.adler32",
    "user.XrdCks.zcrc32",
    "user.other",
];

fuzz_target!(|data: &[u8]| {
    if let Ok(record) = decode(data) {
        let again = encode(&record).expect("it came from a tag");
        assert_eq!(decode(again.as_bytes()), Ok(record));
    }
    let [first, second, rest @ ..] = data else { return };
    let (value, time) = rest.split_at(usize::from(*second).min(rest.len()));
    let time_of = Timestamp { seconds: 1_600_000_000, nanoseconds: 5 };
    let stat = Stat {
        kind: Kind::File,
        device: 1,
        inode: 1,
        links: 1,
        size: 3,
        stored: 0,
        modified: time_of,
        changed: time_of,
    };
    let name = NAMES[usize::from(*first) % NAMES.len()];
    let time = (!time.is_empty()).then_some(time);
    if let Some(Ok(record)) = parse_foreign(name, value, time, &stat).map(|found| found.record) {
        let tag = encode(&record).expect("tags hold every digest of the table");
        assert_eq!(decode(tag.as_bytes()).expect("just written").digest, record.digest);
    }
});
