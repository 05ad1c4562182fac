//! Lists of checksums, indexes of chkbit: no bytes make a reader fail, hang or give a name that no file
//! can have; what is read can be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use verisum_digest::Digest;
use verisum_files::store::manifest::{Chkbit, Dialect, ListFormat, Item, Line, ListOptions, Reader, Writer};

/// Manifests' names, which tell digests and formats.
const NAMES: [&str; 5] = ["list", "x.sfv", "B3SUMS", "manifest-sha512.txt", "list.xxh3"];

fuzz_target!(|data: &[u8]| {
    let [choice, text @ ..] = data else { return };
    let mut options = ListOptions::default();
options.algorithm = (choice & 1 == 1).then_some("md5".into());
options.dialect = [
            Dialect::Any,
            Dialect::Xxhsum { little_endian: choice & 1 == 1 },
            Dialect::Coreutils,
            Dialect::Bag,
        ][usize::from(choice >> 1 & 3)];
options.zero = choice >> 3 & 1 == 1;
options.name = NAMES[usize::from(choice >> 4) % NAMES.len()].into();
    if let Ok(mut reader) = Reader::new(text, &options) {
        while let Ok(Some(line)) = reader.line() {
            let Line::File(listed) = line else { continue };
            assert!(!listed.name.contains(&0));
            assert!(reader.number() <= text.len() as u64 + 1);
            // An empty name is that of nobody's file; in some formats it looks like another.
            if !listed.name.is_empty() {
                again(&listed.name);
            }
        }
    }
    if let Ok(index) = Chkbit::read(text) {
        assert!(index.files.iter().all(|file| !file.name.is_empty() && !file.name.contains(&b'/')));
    }
});

/// Writes a name in the formats for any, and reads it.
fn again(name: &[u8]) {
    let digests = [Digest::find("crc32").expect("it is in the table")];
    let outputs = [digests[0].hash(name).expect("it cannot fail")];
    for format in [ListFormat::Gnu, ListFormat::Bsd, ListFormat::Json] {
        let mut writer = Writer::new(format, &digests).expect("it has a place for every digest");
        let mut list = Vec::new();
        let item = Item { name, size: 1, modified: None, mode: None, digests: &outputs };
        writer.item(&mut list, &item).expect("it holds every name");
        let mut reader = Reader::new(&list[..], &ListOptions::default()).expect("it is one of ours");
        match reader.line().expect("it is in memory") {
            Some(Line::File(listed)) => assert_eq!(listed.name, name),
            other => panic!("{other:?}"),
        }
    }
}
