//! Digests made of blocks are those of the reference.

use std::path::Path;

use serde_json::Value;
use verisum_digest::{Digest, Level, Output, Policy, block_digests};

fn message(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn vectors() -> Vec<(String, usize, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/blocks.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let text = |vector: &Value, name: &str| vector[name].as_str().unwrap().to_string();
    let rows = file["vectors"].as_array().unwrap().iter();
    rows.map(|row| (text(row, "digest"), row["length"].as_u64().unwrap() as usize, text(row, "hex")))
        .collect()
}

#[test]
fn the_references_vectors_hold_at_every_level() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 24 * block_digests().count());
    let longest = message(vectors.iter().map(|(_, length, _)| *length).max().unwrap());
    for &max_level in Level::ALL.iter().filter(|level| level.available()) {
        for (name, length, expected) in &vectors {
            let digest = Digest::find_with(name, &Policy { max_level }).unwrap();
            let found = digest.hash(&longest[..*length]).unwrap();
            assert_eq!(found.to_string(), *expected, "{name} of {length} bytes at {max_level:?}");
        }
    }
}

#[test]
fn pieces_copies_and_the_next_message_change_nothing() {
    let length = (9 << 20) + 5;
    let whole = message(length);
    for name in block_digests() {
        let digest = Digest::find(name).unwrap();
        let expected = digest.hash(&whole).unwrap();
        let mut stream = digest.stream().unwrap();
        let mut found = Output::zeroed(digest.len());
        for piece in [1, 4095, 100_003, 5 << 20] {
            whole.chunks(piece).for_each(|piece| stream.update(piece).unwrap());
            stream.finish(found.as_mut_bytes()).unwrap();
            assert_eq!(found, expected, "{name} in pieces of {piece}");
        }
        stream.update(&whole[..1_234_567]).unwrap();
        let mut copy = stream.copy().unwrap();
        stream.update(b"something else").unwrap();
        copy.update(&whole[1_234_567..]).unwrap();
        copy.finish(found.as_mut_bytes()).unwrap();
        assert_eq!(found, expected, "a copy of {name}");
    }
}

#[test]
fn names_are_found_in_any_case() {
    assert_eq!(Digest::find("DropBox").unwrap().name(), "dropbox");
    assert!(Digest::find("dropbox2").is_err());
}
