//! ext4's legacy hash: its last two steps run backwards.
//!
//! The hash says what the sum of the last step was, but for one of two values; each last character then
//! gives the word before it, and that the product that the character before must have. Of 2³² products 93
//! are a character's.

use super::scan::{Block, Scan, scan};
use super::{Hashing, prefix};

/// The legacy hash's constant for a character.
const MULTIPLIER: u32 = 7_152_373;

/// What a sum with the highest bit set is reduced by.
const REDUCTION: u32 = 0x7fff_ffff;

/// Letters that mean the same with signed characters and without.
const LETTERS: std::ops::RangeInclusive<u8> = b'!'..=b'~';

/// Prefixes a thread tries before it looks at the others: about a millisecond.
const BLOCK: u64 = 1 << 12;

/// A step of the legacy hash: the word before and the last one, and the character's product.
fn step(previous: u32, current: u32, product: u32) -> u32 {
    let sum = previous.wrapping_add(current ^ product);
    (sum & REDUCTION) + (sum >> 31)
}

pub(super) fn invert(hashing: Hashing, like: &[u8], count: usize, watch: &mut dyn FnMut(u64, usize)) -> Scan {
    let inversion = Inversion::new(hashing, like);
    scan(count, u64::MAX, BLOCK, watch, |numbers, found| inversion.block(numbers, found))
}

struct Inversion {
    hashing: Hashing,
    key: u32,
    /// The word after the last step.
    target: u32,
    /// Each letter's, in ascending order.
    products: Vec<(u32, u8)>,
    /// For each value of the low bits of a product whether a letter has it: almost always 0. Bytes, not
    /// bits: that is one load, and they still fit into the nearest cache.
    possible: Box<[u8; POSSIBLE]>,
}

const POSSIBLE: usize = 1 << 15;

impl Inversion {
    fn new(hashing: Hashing, like: &[u8]) -> Inversion {
        let mut products: Vec<(u32, u8)> = LETTERS
            .filter(|&letter| letter != b'/')
            .map(|letter| (u32::from(letter).wrapping_mul(MULTIPLIER), letter))
            .collect();
        products.sort_unstable();
        let mut possible = Box::new([0; POSSIBLE]);
        for &(product, _) in &products {
            possible[product as usize % POSSIBLE] = 1;
        }
        let target = (hashing.hash.hash(like, &hashing.seed).hash >> 1) as u32;
        Inversion { hashing, key: hashing.key(like), target, products, possible }
    }

    /// 1 if a product may be a letter's. Without a branch: the processor could not foresee it.
    fn is_possible(&self, product: u32) -> u8 {
        self.possible[product as usize % POSSIBLE]
    }

    fn block(&self, numbers: Block, found: &mut Vec<(u64, Vec<u8>)>) {
        for number in numbers {
            let prefix = prefix(number);
            let prefix = &prefix[..(68 - number.leading_zeros() as usize) / 4 + 1];
            let (mut previous, mut current) = (0x37ab_e8f9, 0x12a3_fe2d);
            for &byte in prefix {
                let next = step(previous, current, u32::from(byte).wrapping_mul(MULTIPLIER));
                (previous, current) = (current, next);
            }
            let last_sums =
                [self.target, self.target.wrapping_add(REDUCTION)].map(|sum| sum.wrapping_sub(current));
            for &(last_product, last) in &self.products {
                // Two sums are reduced to the target, and two to each word before it.
                let [a, b] = last_sums.map(|sum| sum ^ last_product);
                let sums = [a, a.wrapping_add(REDUCTION), b, b.wrapping_add(REDUCTION)];
                let candidates = sums.map(|sum| sum.wrapping_sub(previous) ^ current);
                if candidates.iter().fold(0, |any, &product| any | self.is_possible(product)) != 0 {
                    self.confirm(number, prefix, candidates, last, found);
                }
            }
        }
    }

    #[cold]
    fn confirm(
        &self,
        number: u64,
        prefix: &[u8],
        candidates: [u32; 4],
        last: u8,
        found: &mut Vec<(u64, Vec<u8>)>,
    ) {
        for candidate in candidates {
            let Ok(place) = self.products.binary_search_by_key(&candidate, |&(product, _)| product) else {
                continue;
            };
            let name = [prefix, &[self.products[place].1, last]].concat();
            if self.hashing.key(&name) == self.key && found.last().is_none_or(|(_, other)| *other != name) {
                found.push((number, name));
            }
        }
    }
}
