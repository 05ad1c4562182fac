//! A message that is hashed in parts has the digest of the whole message.

use verisum_digest::{Digest, Level, Policy, block_digests};

const OF_PARTS: [&str; 5] = ["s3-etag:1M", "s3-etag:5M", "s3-sha256:1K", "s3-crc32c:300001", "s3-sha1:70000"];

/// What any message has, and parts give.
const WHOLE: [&str; 6] = ["blake3", "crc32", "crc32c", "crc64-jones", "crc64-nvme", "crc64-xz"];

/// Hashes the parts in groups that go side by side, the last group first.
fn in_parts(digest: &Digest, message: &[u8], piece: usize, lanes: usize) -> String {
    let parts = digest.parts().unwrap();
    let all: Vec<&[u8]> = message.chunks(parts.length() as usize).collect();
    let mut hashes: Vec<_> = all.iter().map(|_| None).collect();
    for first in (0..all.len()).step_by(lanes).rev() {
        let group = &all[first..(first + lanes).min(all.len())];
        let mut running: Vec<_> =
            (0..group.len()).map(|at| parts.start((first + at) as u64).unwrap()).collect();
        let longest = group.iter().map(|part| part.len()).max().unwrap();
        for start in (0..longest).step_by(piece) {
            let pieces =
                group.iter().map(|part| &part[start.min(part.len())..(start + piece).min(part.len())]);
            let mut messages: Vec<_> = running.iter_mut().zip(pieces).collect();
            parts.advance(&mut messages).unwrap();
        }
        for (at, part) in running.into_iter().enumerate() {
            hashes[first + at] = Some(part.finish().unwrap());
        }
    }
    let mut joined = parts.join().unwrap();
    hashes.iter().for_each(|part| joined.push(part.as_ref().unwrap()).unwrap());
    joined.finish(message.len() as u64).unwrap().to_string()
}

#[test]
fn parts_give_the_digest_of_the_whole_at_every_level() {
    let message: Vec<u8> = (0..(23 << 20) + 5).map(|at: usize| (at % 251) as u8).collect();
    let is_emulated = std::env::var_os("TEST_EMULATED").is_some();
    let levels: Vec<Level> = Level::ALL.iter().copied().filter(|level| level.available()).collect();
    for &max_level in &levels {
        // Under emulation the longest take minutes; what joins the parts knows of no level.
        let most = match Some(&max_level) == levels.last() {
            _ if !is_emulated => message.len(),
            true => 3 << 20,
            false => (1 << 20) + 1,
        };
        for name in block_digests().chain(OF_PARTS).chain(WHOLE) {
            let digest = Digest::find_with(name, &Policy { max_level }).unwrap();
            let part = digest.parts().unwrap().length() as usize;
            let lengths =
                [0, 1, 4097, part - 1, part, part + 1, 2 * part, 3 * part + 1000, 4 * part, 7 * part];
            for length in lengths.into_iter().chain([message.len()]).filter(|length| *length <= most) {
                let (whole, lanes) = (&message[..length], digest.parts().unwrap().lanes());
                let expected = digest.hash(whole).unwrap().to_string();
                for (piece, lanes) in [(256 << 10, lanes), (100_003, 3)] {
                    let found = in_parts(&digest, whole, piece, lanes);
                    assert_eq!(found, expected, "{name} of {length} bytes at {max_level:?}");
                }
            }
        }
    }
}

#[test]
fn what_waits_for_the_bytes_before_it_has_no_parts() {
    for name in ["sha256", "md5", "adler32", "xxh3-128"] {
        assert!(Digest::find(name).unwrap().parts().is_none(), "{name}");
    }
}

#[test]
fn a_crc_has_parts_of_any_length() {
    let message: Vec<u8> = (0..(3 << 20) + 5).map(|at: usize| (at % 251) as u8).collect();
    let digest = Digest::find("crc64-nvme").unwrap();
    let parts = digest.parts().unwrap().with_length(700_001).unwrap();
    assert_eq!(parts.length(), 700_001);
    let mut joined = parts.join().unwrap();
    for (number, bytes) in message.chunks(700_001).enumerate() {
        let mut part = parts.start(number as u64).unwrap();
        parts.advance(&mut [(&mut part, bytes)]).unwrap();
        joined.push(&part.finish().unwrap()).unwrap();
    }
    assert_eq!(joined.finish(message.len() as u64).unwrap(), digest.hash(&message).unwrap());
    for name in ["blake3", "glacier", "s3-etag:8M"] {
        let parts = Digest::find(name).unwrap().parts().unwrap();
        assert!(
            parts.with_length(700_001).is_none() && parts.with_length(parts.length()).is_some(),
            "{name}"
        );
    }
}
