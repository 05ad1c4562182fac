//! Whatever is written in a format is read back as it was, for names of any bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use verisum_digest::{Digest, Output};
use verisum_files::Timestamp;
use verisum_files::store::manifest::{
    Dialect, Item, Line, ListFormat, ListOptions, Reader, Unwritable, Writer,
};

/// Bytes that lists make much of, among others.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        3 => prop::sample::select(&b"\\\n\r\t #;*%=()[]?-./0aA\"',:{}\x7f\x80\xff\x1b^M~"[..]),
        1 => 1..=255_u8,
    ]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(byte(), 1..40)
}

/// The digests of a format, and its file name.
fn digests(format: ListFormat) -> (&'static [&'static str], &'static str) {
    match format {
        ListFormat::Gnu => (&["sha256", "md5", "crc32", "xxh64", "xxh3-64", "sha512"], "list"),
        ListFormat::Bsd => {
            (&["sha256", "blake3", "blake2s256", "sm3", "sha512-256", "xxh3-64", "xxh32"], "list")
        }
        ListFormat::Sfv => (&["crc32"], "list.sfv"),
        ListFormat::Hashdeep => (&["md5", "sha1", "sha256"], "list"),
        ListFormat::Mtree => (&["md5", "sha1", "sha384", "ripemd160"], "list"),
        ListFormat::Bagit => (&["sha512"], "manifest-sha512.txt"),
        ListFormat::S3 => (&["sha256", "md5", "s3-etag:8M", "crc64-nvme", "blake2b-256"], "list"),
        ListFormat::Json => (&["sha256", "blake3", "crc32"], "list"),
    }
}

/// A name and its digests.
type Found = (Vec<u8>, Vec<(String, Output)>);

/// Writes and reads; the names that fit.
fn check(format: ListFormat, zero: bool, names: &[Vec<u8>], size: u64, time: (i64, u32)) {
    let (ids, file_name) = digests(format);
    let digests: Vec<Digest> = ids.iter().map(|id| Digest::find(id).unwrap()).collect();
    let outputs: Vec<Output> =
        digests.iter().map(|digest| digest.hash(&size.to_le_bytes()).unwrap()).collect();
    let mut writer = Writer::new(format, &digests).unwrap().zero(zero);
    let mut list = Vec::new();
    writer.header(&mut list);
    let mut expected = Vec::new();
    for name in names {
        let modified = Some(Timestamp { seconds: time.0, nanoseconds: time.1 });
        let before = list.len();
        match writer.item(&mut list, &Item { name, size, modified, mode: Some(0o644), digests: &outputs }) {
            Ok(()) => expected.push(name),
            Err(error) => {
                assert!(matches!(error, Unwritable::Name { .. }));
                assert_eq!(list.len(), before, "what is refused leaves no trace");
            }
        }
    }
    let dialect = if format == ListFormat::Bagit { Dialect::Bag } else { Dialect::Any };
    let mut options = ListOptions::default();
    options.zero = zero;
    options.dialect = dialect;
    options.name = file_name.into();
    let mut reader = Reader::new(&list[..], &options).unwrap();
    let mut found: Vec<Found> = Vec::new();
    while let Some(line) = reader.line().unwrap() {
        let Line::File(listed) = line else { panic!("line {} of {}", reader.number(), list.escape_ascii()) };
        if listed.claims.is_empty() {
            continue;
        }
        if matches!(format, ListFormat::Mtree | ListFormat::Hashdeep | ListFormat::S3 | ListFormat::Json) {
            assert_eq!(listed.size, Some(size));
        }
        if format == ListFormat::Mtree && time.0 >= 0 {
            assert_eq!(listed.modified, Some(Timestamp { seconds: time.0, nanoseconds: time.1 }));
        }
        let claims = listed.claims.iter().map(|claim| (claim.algorithm.to_string(), claim.digest));
        match found.last_mut() {
            // A line for each digest.
            Some((name, before))
                if matches!(format, ListFormat::Gnu | ListFormat::Bsd)
                    && *name == listed.name
                    && before.len() < ids.len() =>
            {
                before.extend(claims);
            }
            _ => found.push((listed.name.clone(), claims.collect())),
        }
    }
    assert_eq!(found.len(), expected.len(), "{}", list.escape_ascii());
    for ((name, claims), expected) in found.iter().zip(expected) {
        let plain = |name: &[u8]| match format {
            ListFormat::Mtree | ListFormat::Sfv => name.strip_prefix(b"./").unwrap_or(name).to_vec(),
            _ => name.to_vec(),
        };
        assert_eq!(plain(name).escape_ascii().to_string(), plain(expected).escape_ascii().to_string());
        assert_eq!(claims.len(), ids.len());
        for (id, output) in ids.iter().zip(&outputs) {
            assert!(claims.contains(&(id.to_string(), *output)), "{id} of {}", list.escape_ascii());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_format(
        names in vec(name(), 1..6),
        size in any::<u64>(),
        time in (-10_i64..1 << 33, 0..1_000_000_000_u32),
    ) {
        for format in ListFormat::ALL {
            check(format, false, &names, size, time);
        }
        check(ListFormat::Gnu, true, &names, size, time);
        check(ListFormat::Bsd, true, &names, size, time);
    }

    #[test]
    fn no_bytes_break_a_reader(bytes in vec(byte(), 0..400), start in 0_usize..8) {
        let starts = ["", "#mtree\n", "%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n", "{\"path\":\"", "; \n", "MD5 (", "/set ", "\u{feff}"];
        let text = [starts[start].as_bytes(), &bytes].concat();
        for dialect in [Dialect::Any, Dialect::Coreutils, Dialect::Bag] {
            let Ok(mut reader) = Reader::new(&text[..], &{
let mut options = ListOptions::default();
options.dialect = dialect;
options
}) else { continue };
            while let Some(line) = reader.line().unwrap() {
                if let Line::File(listed) = line {
                    prop_assert!(!listed.name.contains(&0));
                }
            }
        }
    }
}
