//! Pairs of strings that leave ext4's legacy hash in the same state.
//!
//! The hash remembers its last two words and nothing else. Another letter changes the last word. The letter
//! after it can be changed so that the next word is the same, if the products of the two letters differ in the
//! bits in which the words differ; and a third letter so that the word after that is the same again. From there
//! on the names are one. As many forks one behind the other, and every choice at each, make twice as many names
//! of one hash each time, whatever follows them.

use std::collections::HashMap;

use super::inversion::{Product, step};
use super::prefix;

/// The last two words of the hash, the older first.
pub(super) type Words = (u32, u32);

/// Two strings of one length that lead from the same words to the same words.
pub(super) struct Fork {
    pub(super) ways: [Vec<u8>; 2],
    pub(super) end: Words,
}

/// Finds forks.
pub(super) struct Forks<'a> {
    products: &'a [Product],
    /// Pairs of letters by the bits in which their products differ.
    pairs: HashMap<u32, Vec<(Product, Product)>>,
}

impl<'a> Forks<'a> {
    pub(super) fn new(products: &'a [Product]) -> Forks<'a> {
        let mut pairs: HashMap<u32, Vec<_>> = HashMap::new();
        for &one in products {
            for &other in products.iter().filter(|other| other.letter != one.letter) {
                pairs.entry(one.product ^ other.product).or_default().push((one, other));
            }
        }
        Forks { products, pairs }
    }

    /// The first fork behind these words: some letters that both ways share, then three that differ.
    pub(super) fn first(&self, start: Words) -> Fork {
        (0..)
            .find_map(|number| {
                let shared = prefix(number);
                let length = (64 - number.leading_zeros()).div_ceil(4) as usize;
                self.at(start, &shared[..length])
            })
            .expect("one in some thousand beginnings has a fork")
    }

    fn at(&self, start: Words, shared: &[u8]) -> Option<Fork> {
        let (older, last) = shared.iter().fold(start, |words, &letter| follow(words, Product::of(letter)));
        let next: Vec<u32> = self.products.iter().map(|letter| step(older, last, letter.product)).collect();
        for (place, &one) in next.iter().enumerate() {
            for (other_place, &other) in next.iter().enumerate().skip(place + 1) {
                for &(second, other_second) in self.pairs.get(&(one ^ other)).into_iter().flatten() {
                    let same = step(last, one, second.product);
                    debug_assert_eq!(same, step(last, other, other_second.product));
                    let Some((third, other_third)) = self.third(one, other, same) else { continue };
                    let ways = [
                        [self.products[place], second, third],
                        [self.products[other_place], other_second, other_third],
                    ]
                    .map(|letters| [shared, &letters.map(|letter| letter.letter)].concat());
                    return Some(Fork { ways, end: (same, step(one, same, third.product)) });
                }
            }
        }
        None
    }

    /// The letters after which both ways have one word again.
    fn third(&self, one: u32, other: u32, same: u32) -> Option<(Product, Product)> {
        let words: HashMap<u32, Product> =
            self.products.iter().map(|&letter| (step(one, same, letter.product), letter)).collect();
        self.products
            .iter()
            .find_map(|&letter| Some((*words.get(&step(other, same, letter.product))?, letter)))
    }
}

/// The words after one more letter.
pub(super) fn follow((older, last): Words, letter: Product) -> Words {
    (last, step(older, last, letter.product))
}

#[cfg(test)]
mod tests {
    use super::super::inversion::{START, products};
    use super::*;

    #[test]
    fn both_ways_end_where_it_says() {
        let products = products();
        let forks = Forks::new(&products);
        let mut start = START;
        for _ in 0..8 {
            let fork = forks.first(start);
            assert_ne!(fork.ways[0], fork.ways[1]);
            for way in &fork.ways {
                let end = way.iter().fold(start, |words, &letter| follow(words, Product::of(letter)));
                assert_eq!(end, fork.end, "{way:?}");
                assert!(way.len() < 10);
            }
            start = fork.end;
        }
    }
}
