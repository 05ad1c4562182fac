//! A file that is no block map, or a hostile one, is refused, and one that is accepted is consistent: it
//! equals itself, and its digests are as many as it says.
//!
//! With the first byte odd the checksums of the rest are set right first, so that what lies behind them is
//! reached.

#![no_main]

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use verisum_blockhash::{BlockMap, DigestSink, MapComparison, compare_maps};
use verisum_digest::{Digest, Policy};

/// The most blocks of which the root is computed: an empty map can claim any number.
const MOST_BLOCKS: u64 = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let [mode, bytes @ ..] = data else { return };
    let mut bytes = bytes.to_vec();
    if mode % 2 == 1 {
        set_checksums(&mut bytes);
    }
    let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.write_all(&bytes).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let Ok(map) = BlockMap::read_file(file, Path::new("map"), &Policy::default()) else { return };
    assert_eq!(map.file_length(), bytes.len() as u64);
    assert!(map.data_blocks() <= map.blocks());
    assert!(compare_maps(&map, &map, 1).unwrap().is_empty());
    let mut comparison = MapComparison::new(&map).unwrap();
    let digest_len = map.params().digest().len();
    let fed =
        comparison.zeros(u64::from(*mode)).and_then(|()| comparison.digests(&vec![*mode; 99 * digest_len]));
    if fed.is_ok() && comparison.zeros(map.blocks()).is_ok() {
        let _ = comparison.finish(map.length(), map.root());
    }
    if map.blocks() <= MOST_BLOCKS && map.check().is_ok() {
        let mut comparison = MapComparison::new(&map).unwrap();
        comparison.zeros(map.blocks()).unwrap();
    }
});

/// Writes the right checksum over each that there is.
fn set_checksums(bytes: &mut [u8]) {
    const HEADER: usize = 64;
    const ENTRY: usize = 48;
    const TRAILER: usize = 128;
    if bytes.len() < HEADER + TRAILER {
        return;
    }
    let blake3 = Digest::find("blake3").unwrap();
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let block_size = u64::from(u32::from_le_bytes(bytes[12..16].try_into().unwrap())).max(1);
    let digest_len = usize::from(bytes[16]);
    let trailer = bytes.len() - TRAILER;
    let blocks = number(bytes, trailer).div_ceil(block_size);
    let sections = number(bytes, trailer + 16).min(((trailer - HEADER) / ENTRY) as u64) as usize;
    let index = trailer - sections * ENTRY;
    let mut offset = HEADER;
    for entry in (index..trailer).step_by(ENTRY) {
        let in_section = blocks.saturating_sub(number(bytes, entry).saturating_mul(4096)).min(4096);
        let data = number(bytes, entry + 8);
        let len = if data < in_section { 512 } else { 0 } + (data.min(4096) as usize) * digest_len;
        let end = (offset + len).min(index);
        let checksum = blake3.hash(&bytes[offset..end]).unwrap();
        bytes[entry + 16..entry + ENTRY].copy_from_slice(checksum.as_bytes());
        offset = end;
    }
    let mut covered = bytes[..HEADER].to_vec();
    covered.extend_from_slice(&bytes[index..trailer + 88]);
    let checksum = blake3.hash(&covered).unwrap();
    bytes[trailer + 88..trailer + 120].copy_from_slice(checksum.as_bytes());
}
