//! Digests made of blocks are those of the reference.

use std::path::Path;

use serde_json::Value;
use verisum_digest::{
    Digest, Level, Output, Policy, block_digests, cid_from_text, cid_text, git_digests, part_count,
    part_length,
};

/// Those of the digests of parts that have vectors.
const OF_PARTS: [&str; 3] = ["s3-etag:1M", "s3-etag:5M", "s3-sha256:1M"];

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
    assert_eq!(vectors.len(), 24 * (block_digests().chain(git_digests()).count() + OF_PARTS.len()));
    let longest = message(vectors.iter().map(|(_, length, _)| *length).max().unwrap());
    // The longest, 64 MiB, differ from the others in trees, which no kernel knows of: the highest level hashes them.
    // Under emulation, which this variable tells, they and those of more than 5 MiB are left out, and of lower levels
    // those of more than a part of 1 MiB and a byte: they take minutes.
    let is_emulated = std::env::var_os("TEST_EMULATED").is_some();
    let levels: Vec<Level> = Level::ALL.iter().copied().filter(|level| level.available()).collect();
    for &max_level in &levels {
        let most = match Some(&max_level) == levels.last() {
            false if is_emulated => (1 << 20) + 1,
            true if is_emulated => 5 << 20,
            true => longest.len(),
            false => 16 << 20,
        };
        for (name, length, expected) in vectors.iter().filter(|(_, length, _)| *length <= most) {
            let digest = Digest::find_with(name, &Policy { max_level }).unwrap();
            let found = digest.hash(&longest[..*length]).unwrap();
            assert_eq!(found.to_string(), *expected, "{name} of {length} bytes at {max_level:?}");
        }
    }
}

/// Single bytes where a block may end, which is most likely at a multiple of 256 KiB, and for two of the shortest
/// blocks, which have 1 KiB, on both sides of that. Most bytes between are one piece: 9 million pieces take a second a
/// digest in a build for tests.
fn bytes_at_ends(whole: &[u8]) -> Vec<&[u8]> {
    const ENDS: usize = 256 << 10;
    const SINGLE: usize = 2050;
    let (first, rest) = whole.split_at(ENDS);
    let mut pieces: Vec<&[u8]> = first.chunks(1).collect();
    for part in rest.chunks(ENDS) {
        let (before, others) = part.split_at(SINGLE.min(part.len()));
        let (between, after) = others.split_at(others.len().saturating_sub(SINGLE));
        pieces.extend(before.chunks(1).chain([between]).chain(after.chunks(1)));
    }
    pieces
}

#[test]
fn pieces_copies_and_the_next_message_change_nothing() {
    let length = (9 << 20) + 5;
    let whole = message(length);
    for name in block_digests().chain(OF_PARTS).chain(git_digests()) {
        let digest = Digest::find(name).unwrap();
        let expected = digest.hash(&whole).unwrap();
        let mut stream = digest.stream().unwrap();
        let mut found = Output::zeroed(digest.len());
        let cuts = [4095, 100_003, 5 << 20].map(|piece| (piece, whole.chunks(piece).collect()));
        for (piece, pieces) in cuts.into_iter().chain([(1, bytes_at_ends(&whole))]) {
            stream.expect(length as u64).unwrap();
            pieces.into_iter().for_each(|piece| stream.update(piece).unwrap());
            stream.finish(found.as_mut_bytes()).unwrap();
            assert_eq!(found, expected, "{name} in pieces of {piece}");
        }
        stream.expect(length as u64).unwrap();
        stream.update(&whole[..1_234_567]).unwrap();
        let mut copy = stream.copy().unwrap();
        stream.update(b"something else").unwrap();
        copy.update(&whole[1_234_567..]).unwrap();
        copy.finish(found.as_mut_bytes()).unwrap();
        assert_eq!(found, expected, "a copy of {name}");
    }
}

#[test]
fn parts_too_long_to_be_kept_are_hashed_one_after_the_other() {
    const PART: usize = 33 << 20;
    let (digest, md5) = (Digest::find("s3-etag:33M").unwrap(), Digest::find("md5").unwrap());
    for length in [0, 5, PART, PART + 1, 2 * PART, 2 * PART + 7] {
        let whole = message(length);
        let parts: Vec<Output> = whole.chunks(PART).map(|part| md5.hash(part).unwrap()).collect();
        let joined: Vec<u8> = parts.iter().flat_map(Output::as_bytes).copied().collect();
        let expected = md5.hash(if length > PART { &joined } else { &whole }).unwrap();
        let mut stream = digest.stream().unwrap();
        let mut found = Output::zeroed(digest.len());
        for _ in 0..2 {
            whole.chunks(5_000_011).for_each(|piece| stream.update(piece).unwrap());
            let mut copy = stream.copy().unwrap();
            stream.finish(found.as_mut_bytes()).unwrap();
            assert_eq!(found, expected, "{length} bytes");
            copy.finish(found.as_mut_bytes()).unwrap();
            assert_eq!(found, expected, "a copy of {length} bytes");
        }
        let parts = (length > PART).then(|| length.div_ceil(PART) as u64);
        assert_eq!(part_count("s3-etag:33M", length as u64), parts);
    }
}

#[test]
fn parts_have_one_name_for_each_length() {
    for (typed, name) in [
        ("S3-ETag:8M", "s3-etag:8M"),
        ("s3-md5:8388608", "s3-etag:8M"),
        ("s3-sha256:1024MiB", "s3-sha256:1G"),
        ("s3-crc64-nvme:5000000", "s3-crc64-nvme:5000000"),
    ] {
        assert_eq!(Digest::find(typed).unwrap().name(), name);
    }
    for wrong in ["s3-etag", "s3-etag:", "s3-etag:8X", "s3-etag:0", "s3-etag:6G", "s3-no:8M", "s3-etag:8M8"] {
        assert!(Digest::find(wrong).is_err(), "{wrong}");
    }
    let short = Digest::find("s3-etag:1000").unwrap_err().to_string();
    assert_eq!(short, "s3-etag:1000: parts of an upload have 1 KiB to 5 GiB");
    for huge in ["s3-etag:9223372036854775808", "s3-etag:99999999999999999999", "s3-etag:99999999999999G"] {
        let why = Digest::find(huge).unwrap_err().to_string();
        assert_eq!(why, format!("{huge}: parts of an upload have 1 KiB to 5 GiB"));
    }
    assert!(Digest::find("s3-null:8M").is_err(), "nothing has no digest of its parts");
    assert_eq!((part_length("s3-etag:8M"), part_length("sha256")), (Some(8 << 20), None));
}

#[test]
fn names_are_found_in_any_case() {
    assert_eq!(Digest::find("DropBox").unwrap().name(), "dropbox");
    assert!(Digest::find("dropbox2").is_err());
}

#[test]
fn many_names_of_git_are_hashed_as_one_batch() {
    for name in git_digests() {
        let digest = Digest::find(name).unwrap();
        let whole = message(5000);
        let messages: Vec<&[u8]> = (0..150).map(|at| &whole[..at * 33]).collect();
        let mut found = vec![0; messages.len() * digest.len()];
        digest.batch().unwrap().hash(&messages, &mut found).unwrap();
        for (message, found) in messages.iter().zip(found.chunks(digest.len())) {
            assert_eq!(digest.hash(message).unwrap().as_bytes(), found, "{name} of {} bytes", message.len());
        }
    }
}

#[test]
fn git_needs_the_right_length_beforehand() {
    let digest = Digest::find("GIT-BLOB").unwrap();
    let mut room = Output::zeroed(digest.len());
    let mut stream = digest.stream().unwrap();
    let error = stream.update(b"x").unwrap_err().to_string();
    assert!(error.contains("needs the length beforehand"), "{error}");
    assert!(stream.finish(room.as_mut_bytes()).is_err());
    for wrong in [2, 4] {
        stream.expect(wrong).unwrap();
        stream.update(b"abc").unwrap();
        let error = stream.finish(room.as_mut_bytes()).unwrap_err().to_string();
        assert!(error.contains("more or fewer bytes"), "{error}");
    }
    // What failed is over.
    stream.expect(3).unwrap();
    stream.update(b"abc").unwrap();
    stream.finish(room.as_mut_bytes()).unwrap();
    assert_eq!(room, digest.hash(b"abc").unwrap());
}

#[test]
fn the_text_of_a_cid_is_read_again() {
    let cid = Digest::find("ipfs").unwrap().hash(b"").unwrap();
    let text = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";
    assert_eq!(cid_text(&cid), text);
    assert_eq!(cid_from_text(text.as_bytes()), Some(cid));
    for bad in [
        &text[1..],
        &text[..40],
        &text.to_uppercase(),
        "b",
        "",
        "bafybeihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyk1",
    ] {
        assert_eq!(cid_from_text(bad.as_bytes()), None, "{bad}");
    }
}
