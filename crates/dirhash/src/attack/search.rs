//! Attacks any hash: tries names until one has the wanted key.

use super::scan::{NumberBlock, Scan, scan};
use super::{Hashing, PREFIX_LEN, prefix};

/// Names hashed at once; they differ in their first two letters.
const BATCH: usize = 256;

/// Names a thread hashes before it looks at the others: some tenths of a millisecond.
const BLOCK: u64 = 1 << 16;

pub(super) fn search(
    hashing: Hashing,
    like: &[u8],
    count: usize,
    most: u64,
    watch: &mut dyn FnMut(u64, usize),
) -> Scan {
    let target = hashing.key(like);
    scan(count, most, BLOCK, watch, |numbers, found| search_block(hashing, target, numbers, found))
}

fn search_block(hashing: Hashing, target: u32, numbers: NumberBlock, found: &mut Vec<(u64, Vec<u8>)>) {
    let mut names = [[0; PREFIX_LEN]; BATCH];
    let mut keys = [0; BATCH];
    for first in numbers.clone().step_by(BATCH) {
        // Blocks begin at multiples of a batch: only the first two letters count through it.
        let rest = prefix(first);
        for (number, name) in (0u8..=255).zip(&mut names) {
            *name = rest;
            name[0] = b'a' + (number & 15);
            name[1] = b'a' + (number >> 4);
        }
        let length = BATCH.min((numbers.end - first) as usize);
        let slices: [&[u8]; BATCH] = std::array::from_fn(|place| &names[place][..]);
        hashing.hash.index_keys(&slices[..length], &hashing.seed, &mut keys[..length]);
        // Almost no batch has one.
        if keys[..length].contains(&target) {
            let places = (0..length).filter(|&place| keys[place] == target);
            found.extend(places.map(|place| (first + place as u64, names[place].to_vec())));
        }
    }
}
