//! Inverts ext4's legacy hash: [forks](super::fork), followed by an ending that gives the wanted hash.
//!
//! The ending is found by running the last two steps backwards. The hash says what the sum of the last step
//! was, but for one of two values; each last character then gives the word before it, and that the product
//! that the character before must have. Of 2³² products 92 are a character's.

use super::fork::{Forks, Words, follow};
use super::scan::{NumberBlock, Scan, scan};
use super::{Hashing, prefix};

/// The legacy hash's constant for a character.
const MULTIPLIER: u32 = 7_152_373;

/// What a sum with the highest bit set is reduced by.
const REDUCTION: u32 = 0x7fff_ffff;

/// The words that the legacy hash begins with.
pub(super) const START: Words = (0x37ab_e8f9, 0x12a3_fe2d);

/// Prefixes a thread tries before it looks at the others: about a millisecond.
const BLOCK: u64 = 1 << 12;

/// The longest name, in bytes.
const LONGEST: usize = 255;

/// Bytes that an ending has at most.
const ENDING: usize = 18;

/// A letter, and what the hash makes of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Product {
    pub(super) product: u32,
    pub(super) letter: u8,
}

impl Product {
    pub(super) fn of(letter: u8) -> Product {
        Product { product: u32::from(letter).wrapping_mul(MULTIPLIER), letter }
    }
}

/// Letters that mean the same with signed characters and without, in ascending order of their products; none
/// that a path or a quoted word cannot have.
pub(super) fn products() -> Vec<Product> {
    let mut products: Vec<Product> =
        (b'!'..=b'~').filter(|letter| !b"/\"".contains(letter)).map(Product::of).collect();
    products.sort_unstable();
    products
}

/// A step of the legacy hash: the word before and the last one, and the character's product.
pub(super) fn step(previous: u32, current: u32, product: u32) -> u32 {
    let sum = previous.wrapping_add(current ^ product);
    (sum & REDUCTION) + (sum >> 31)
}

/// Makes names with the hash of `like`. One search for an ending is all that takes time.
pub(super) fn invert(hashing: Hashing, like: &[u8], count: usize, watch: &mut dyn FnMut(u64, usize)) -> Scan {
    let products = products();
    let finder = Forks::new(&products);
    let mut forks = Vec::new();
    let (mut words, mut length) = (START, 0);
    while 1usize << forks.len() < count {
        let fork = finder.first(words);
        length += fork.ways[0].len();
        if length + ENDING > LONGEST {
            break;
        }
        words = fork.end;
        forks.push(fork.ways);
    }
    let inversion = Inversion::new(hashing, like, words, products);
    let ending = scan(1, u64::MAX, BLOCK, watch, |numbers, found| inversion.block(numbers, found));
    let names = ending.names.first().map_or(Vec::new(), |ending| {
        (0..count.min(1 << forks.len()))
            .map(|number| {
                let ways = forks.iter().enumerate().map(|(place, ways)| &ways[number >> place & 1]);
                ways.chain([ending]).flatten().copied().collect()
            })
            .collect()
    });
    Scan { names, tried: ending.tried }
}

struct Inversion {
    /// The words that an ending begins with.
    start: Words,
    /// The word after the last step.
    target: u32,
    products: Vec<Product>,
    /// For each value of the low bits of a product whether a letter has it: almost always 0. Bytes, not
    /// bits: that is one load, and they still fit into the nearest cache.
    possible: Box<[u8; POSSIBLE]>,
}

const POSSIBLE: usize = 1 << 15;

impl Inversion {
    fn new(hashing: Hashing, like: &[u8], start: Words, products: Vec<Product>) -> Inversion {
        let mut possible = Box::new([0; POSSIBLE]);
        for letter in &products {
            possible[letter.product as usize % POSSIBLE] = 1;
        }
        let target = (hashing.hash.hash(like, &hashing.seed).hash >> 1) as u32;
        Inversion { start, target, products, possible }
    }

    /// 1 if a product may be a letter's. Without a branch: the processor could not foresee it.
    fn is_possible(&self, product: u32) -> u8 {
        self.possible[product as usize % POSSIBLE]
    }

    fn block(&self, numbers: NumberBlock, found: &mut Vec<(u64, Vec<u8>)>) {
        for number in numbers {
            let prefix = prefix(number);
            let prefix = &prefix[..(68 - number.leading_zeros() as usize) / 4 + 1];
            let (previous, current) =
                prefix.iter().fold(self.start, |words, &letter| follow(words, Product::of(letter)));
            let last_sums =
                [self.target, self.target.wrapping_add(REDUCTION)].map(|sum| sum.wrapping_sub(current));
            for &last in &self.products {
                // Two sums are reduced to the target, and two to each word before it.
                let [a, b] = last_sums.map(|sum| sum ^ last.product);
                let sums = [a, a.wrapping_add(REDUCTION), b, b.wrapping_add(REDUCTION)];
                let candidates = sums.map(|sum| sum.wrapping_sub(previous) ^ current);
                if candidates.iter().fold(0, |any, &product| any | self.is_possible(product)) != 0 {
                    self.confirm(number, prefix, (previous, current), candidates, last, found);
                }
            }
        }
    }

    #[cold]
    fn confirm(
        &self,
        number: u64,
        prefix: &[u8],
        words: Words,
        candidates: [u32; 4],
        last: Product,
        found: &mut Vec<(u64, Vec<u8>)>,
    ) {
        for candidate in candidates {
            let Ok(place) = self.products.binary_search_by_key(&candidate, |letter| letter.product) else {
                continue;
            };
            let before = self.products[place];
            let name = [prefix, &[before.letter, last.letter]].concat();
            // The highest bit is not in the index.
            let (_, end) = follow(follow(words, before), last);
            if end << 1 == self.target << 1 && found.last().is_none_or(|(_, other)| *other != name) {
                found.push((number, name));
            }
        }
    }
}
