//! Names that all have one hash, and what they do to a directory.
//!
//! Of a linear hash (CRCs, XFS) they are computed, of r5 and ext4's legacy hash built: all bits of the hash
//! are equal. Of the others they are found by trying, which with a secret seed nobody can, and only for the
//! key in an index.

mod exchange;
mod fork;
mod inversion;
mod scan;
mod search;

use std::time::{Duration, Instant};

use crate::namehash::{NameHash, Seed};

use self::scan::Scan;
use crate::htree::{Geometry, IndexFull};
use crate::names::mix;
use crate::{HashedDirectory, Hashing};

/// How colliding names are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The hash is linear in the bits of the name: a system of equations.
    Linear,
    /// ext4's legacy hash: pairs of strings between which it cannot tell, and behind them an ending that is
    /// found by inverting its last two steps.
    Inversion,
    /// Pairs of letters of the same weight, in any order, and behind them an ending that is looked up.
    Exchange,
    /// Hash after hash until one fits: 2³¹ on average for ext4's.
    Search,
}

impl Method {
    /// The words used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Linear => "linear equations",
            Method::Inversion => "forks, inversion",
            Method::Exchange => "exchange",
            Method::Search => "search",
        }
    }

    /// What of the hash is equal: all of it, or what an index of ext4's form has for a key, which is its first
    /// 31 bits. ext4's own hashes have no more.
    pub fn equal(self, hash: &NameHash) -> &'static str {
        match self == Method::Search && hash.system != "ext4" {
            true => "31 bits",
            false => "hash",
        }
    }

    /// The best for a hash. The seed must be known, of linear hashes not even that.
    pub fn of(hash: &NameHash) -> Method {
        match hash.id {
            "legacy" | "legacy_unsigned" => Method::Inversion,
            "reiserfs_r5" | "ubifs" => Method::Exchange,
            "btrfs" | "xfs" | "gfs2" | "zfs" | "zfs48" | "bcachefs_crc32c" | "bcachefs_crc64"
            | "crc32c_seeded" => Method::Linear,
            _ => Method::Search,
        }
    }
}

/// Names of one hash.
#[derive(Clone, Debug)]
pub struct Collisions {
    /// How they were made.
    pub method: Method,
    /// All different, of letters and other printable ASCII characters.
    pub names: Vec<Vec<u8>>,
    /// For a search the names hashed, for an inversion the beginnings tried.
    pub tried: u64,
    /// How long it took.
    pub time: Duration,
}

/// Makes names that have the hash of `like`, of which [`Method::equal`] says how much. A search uses all processors, tells `watch` a few
/// times a second how many names it has hashed and found, and ends after `most_tried` hashes with what it
/// has found by then. However many processors there are, the names are the same.
pub fn collide(
    hashing: Hashing,
    like: &[u8],
    count: usize,
    most_tried: u64,
    watch: &mut dyn FnMut(u64, usize),
) -> Collisions {
    let started = Instant::now();
    let method = Method::of(hashing.hash);
    let exact = |names| Scan { names, tried: 0 };
    let Scan { mut names, tried } = match method {
        Method::Linear => exact(linear(hashing, like, count)),
        Method::Inversion => inversion::invert(hashing, like, count, watch),
        Method::Exchange => exact(exchange::exchange(like, count)),
        Method::Search => search::search(hashing, like, count, most_tried, watch),
    };
    // Whatever the construction promises, only what the hash itself confirms counts.
    let value = |name: &[u8]| hashing.hash.hash(name, &hashing.seed).hash;
    names.retain(|name| match method {
        Method::Search => hashing.key(name) == hashing.key(like),
        _ => value(name) == value(like),
    });
    Collisions { method, names, tried, time: started.elapsed() }
}

/// Length of a [`prefix`].
const PREFIX_LEN: usize = 12;

/// A name of its own for each number, of twelve letters.
fn prefix(number: u64) -> [u8; PREFIX_LEN] {
    std::array::from_fn(|place| b'a' + (number >> (4 * place) & 15) as u8)
}

/// Letters whose five free bits are unknowns: more of them than any hash has bits, since some depend on
/// others.
const UNKNOWN_LETTERS: usize = 20;

fn linear(hashing: Hashing, like: &[u8], count: usize) -> Vec<Vec<u8>> {
    let hashed = |bits: u128, number: u64| {
        let mut name = prefix(number).to_vec();
        name.extend((0..UNKNOWN_LETTERS).map(|place| b'@' | (bits >> (5 * place) & 31) as u8));
        (hashing.hash.hash(&name, &hashing.seed).hash, name)
    };
    // What each bit changes, the same for every prefix; then the equations in echelon form: the pivot bit
    // of the hash, what the combination changes, which bits it is of.
    let (base, _) = hashed(0, 0);
    let mut echelon: Vec<(u64, u128)> = Vec::new();
    for bit in 0..5 * UNKNOWN_LETTERS {
        let mut change = hashed(1 << bit, 0).0 ^ base;
        let mut bits = 1u128 << bit;
        for &(other, of) in &echelon {
            if change & top_bit(other) != 0 {
                change ^= other;
                bits ^= of;
            }
        }
        if change != 0 {
            echelon.push((change, bits));
        }
    }
    let target = hashing.hash.hash(like, &hashing.seed).hash;
    (0..)
        .take(count * 2)
        .filter_map(|number| {
            let mut difference = hashed(0, number).0 ^ target;
            let mut bits = 0;
            for &(change, of) in &echelon {
                if difference & top_bit(change) != 0 {
                    difference ^= change;
                    bits ^= of;
                }
            }
            (difference == 0).then(|| hashed(bits, number).1)
        })
        .take(count)
        .collect()
}

fn top_bit(word: u64) -> u64 {
    1 << word.ilog2()
}

/// What names do to a modelled directory.
#[derive(Clone, Copy, Debug)]
pub struct Damage {
    /// Names that could be created.
    pub names: usize,
    /// Whether the index was full before the last one.
    pub full: bool,
    /// Leaves read by a lookup, on average over the names.
    pub leaves_read: f64,
    /// By the worst lookup.
    pub most_leaves_read: u32,
    /// Blocks of the directory.
    pub blocks: u64,
}

/// Creates the names in a model, and looks each up again.
pub fn damage(hashing: Hashing, names: &[Vec<u8>], geometry: Geometry) -> Damage {
    let mut directory = HashedDirectory::new(hashing, geometry);
    let mut made = 0;
    let mut full = false;
    for (id, name) in names.iter().enumerate() {
        if let Err(IndexFull) = directory.create(name, id as u32) {
            full = true;
            break;
        }
        made += 1;
    }
    let reads: Vec<u32> = names[..made]
        .iter()
        .enumerate()
        .map(|(id, name)| directory.tree.lookup(hashing.key(name), id as u32).0)
        .collect();
    Damage {
        names: made,
        full,
        leaves_read: reads.iter().map(|&read| f64::from(read)).sum::<f64>() / made.max(1) as f64,
        most_leaves_read: reads.iter().copied().max().unwrap_or(0),
        blocks: directory.tree.blocks(),
    }
}

/// A seed that an attacker does not know.
pub fn other_seed(seed: &Seed) -> Seed {
    Seed(std::array::from_fn(|place| seed.0[place] ^ mix(place as u64) as u8 ^ 0x5a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn built_names_collide_and_are_names() {
        let seed = Seed::parse("11223344-5566-7788-99aa-bbccddeeff00").unwrap();
        for id in [
            "legacy",
            "legacy_unsigned",
            "btrfs",
            "xfs",
            "gfs2",
            "zfs",
            "zfs48",
            "bcachefs_crc32c",
            "bcachefs_crc64",
            "crc32c_seeded",
            "reiserfs_r5",
            "ubifs",
        ] {
            let hashing = Hashing { hash: NameHash::find(id).unwrap(), seed };
            let count = 600;
            let found = collide(hashing, b"hello", count, 0, &mut |_, _| ());
            assert_eq!(found.names.len(), count, "{id}");
            assert_eq!(found.names.iter().collect::<HashSet<_>>().len(), count, "{id}");
            for name in &found.names {
                assert_eq!(hashing.hash.hash(name, &seed), hashing.hash.hash(b"hello", &seed), "{id}");
                assert!(!name.starts_with(b"-"), "{name:?} looks like an option");
                assert!(name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'/'), "{name:?}");
            }
        }
    }

    #[test]
    fn a_crc_s_seed_is_no_defence() {
        let known = Hashing { hash: NameHash::find("crc32c_seeded").unwrap(), seed: Seed::ZERO };
        let found = collide(known, b"hello", 100, 0, &mut |_, _| ());
        let secret = Hashing { seed: Seed([0xa7; 16]), ..known };
        let keys: HashSet<u32> = found.names.iter().map(|name| secret.key(name)).collect();
        assert_eq!(keys.len(), 1);
    }

    /// A collision takes too long for a test: what it must find is a name that it will come to.
    #[test]
    fn a_search_finds_the_lowest_numbers_and_stops_where_it_is_told() {
        let hashing = Hashing { hash: NameHash::find("half_md4").unwrap(), seed: Seed([3; 16]) };
        for number in [0, 255, 65_536, 131_071] {
            let like = prefix(number);
            let found = collide(hashing, &like, 1, 200_000, &mut |_, _| ());
            assert_eq!(found.names, [like]);
            assert!((number + 1..=200_000).contains(&found.tried), "{}", found.tried);
        }
        let found = collide(hashing, b"not found so soon", 1, 100_001, &mut |_, _| ());
        assert_eq!((found.names.len(), found.tried), (0, 100_001));
    }

    #[test]
    fn colliding_names_make_lookups_scan() {
        let hashing = Hashing { hash: NameHash::find("reiserfs_r5").unwrap(), seed: Seed::ZERO };
        let found = collide(hashing, b"", 2000, 0, &mut |_, _| ());
        let damage = damage(hashing, &found.names, Geometry::USUAL);
        assert!(damage.leaves_read > 5.0, "{damage:?}");
    }
}
