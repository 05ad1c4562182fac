//! Attacks r5. Each step of r5 adds the weight of a letter and multiplies by eleven.

use std::collections::HashMap;

use super::prefix;

/// Letters at the end that are looked up, by what they add.
const LAST: u32 = 3;

/// Makes names with the value of `like`: pairs of letters that weigh the same in either order, the same
/// ending behind all of them.
pub(super) fn exchange(like: &[u8], count: usize) -> Vec<Vec<u8>> {
    let pairs = count.max(2).next_power_of_two().ilog2() as usize;
    // `al` and `ba`: 11 · 16 for one letter more and 16 · 11 for eleven less.
    let beginning = |number: usize| {
        (0..pairs).flat_map(move |pair| if number >> pair & 1 == 0 { *b"al" } else { *b"ba" })
    };
    let start = beginning(0).fold(0, follow);
    let ending = ending(start, like.iter().copied().fold(0, follow));
    (0..count).map(|number| beginning(number).chain(ending.iter().copied()).collect()).collect()
}

/// A step, of signed characters.
fn follow(value: u32, letter: u8) -> u32 {
    let letter = i32::from(letter as i8);
    value.wrapping_add((letter << 4) as u32).wrapping_add((letter >> 4) as u32).wrapping_mul(11)
}

/// Letters that lead from one value to another: the first twelve are tried, the last three then follow.
fn ending(start: u32, target: u32) -> Vec<u8> {
    let letters = || b'!'..=b'~';
    let mut last = HashMap::new();
    for a in letters().filter(|&letter| letter != b'/') {
        for b in letters().filter(|&letter| letter != b'/') {
            for c in letters().filter(|&letter| letter != b'/') {
                last.insert([a, b, c].into_iter().fold(0, follow), [a, b, c]);
            }
        }
    }
    // Of 2³² sums they have some hundred thousand: one in ten thousand beginnings will do.
    (0..)
        .find_map(|number| {
            let first = prefix(number);
            let value = first.into_iter().fold(start, follow);
            let rest = target.wrapping_sub(value.wrapping_mul(11u32.pow(LAST)));
            last.get(&rest).map(|last| [&first[..], last].concat())
        })
        .expect("every value is the sum of some letters")
}
