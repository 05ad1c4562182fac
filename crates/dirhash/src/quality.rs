//! Does a hash spread names as chance would?
//!
//! All tests look at the 31 bits of the key that an index has; the bit that is always clear is left out.
//! Each gives the probability that a hash of chance would look as bad or worse. A p-value is no grade:
//! with some dozens of tests one of a hundredth is to be expected, one of a millionth is not.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::namehash::{NameHash, Seed};

use crate::names::{Names, mix};
use crate::probability::{binomial_upper, chi_square_upper, poisson_upper};

/// What is tested.
#[derive(Clone, Copy, Debug)]
pub enum TestSubject {
    /// A row of the table.
    Hash(&'static NameHash),
    /// A deliberately bad one: the sum of the bytes. If it passes, the tests are worthless.
    BadControl,
}

impl TestSubject {
    /// Its name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            TestSubject::Hash(hash) => hash.id,
            TestSubject::BadControl => "bad-control",
        }
    }

    fn is_seeded(&self) -> bool {
        matches!(self, TestSubject::Hash(hash) if hash.is_seeded())
    }

    /// The 31 bits of many names.
    fn keys<N: AsRef<[u8]>>(&self, names: &[N], seed: &Seed) -> Vec<u32> {
        match self {
            TestSubject::Hash(hash) => {
                let names: Vec<&[u8]> = names.iter().map(AsRef::as_ref).collect();
                let mut keys = vec![0; names.len()];
                hash.index_keys(&names, seed, &mut keys);
                keys.iter_mut().for_each(|key| *key >>= 1);
                keys
            }
            TestSubject::BadControl => names.iter().map(|name| self.key(name.as_ref(), seed)).collect(),
        }
    }

    /// The 31 bits.
    fn key(&self, name: &[u8], seed: &Seed) -> u32 {
        match self {
            TestSubject::Hash(hash) => hash.index_key(name, seed) >> 1,
            TestSubject::BadControl => {
                name.iter().map(|&byte| u32::from(byte)).sum::<u32>() << 8 & 0x7fff_ffff
            }
        }
    }
}

/// One test's result.
#[derive(Clone, Debug)]
pub struct QualityFinding {
    /// Which test.
    pub test: String,
    /// What was counted.
    pub measured: f64,
    /// What chance would give.
    pub expected: f64,
    /// The probability of so much or more.
    pub p: f64,
}

/// Below this a hash of chance would not be: with a hundred tests once in ten thousand runs.
pub const SUSPICIOUS: f64 = 1e-6;

const BITS: u32 = 31;

/// Runs every test on every subject, on all processors; the findings stand where their subjects do. `watch` is
/// told how many subjects are done.
pub fn examine_all(
    subjects: &[TestSubject],
    seed: &Seed,
    count: usize,
    watch: &(dyn Fn(usize) + Sync),
) -> Vec<Vec<QualityFinding>> {
    let threads = thread::available_parallelism().map_or(1, |number| number.get()).min(subjects.len());
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        let mut mine = Vec::new();
        while let Some((place, subject)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            subjects.get(place).map(|subject| (place, subject))
        } {
            mine.push((place, examine(*subject, seed, count)));
            watch(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
        mine
    };
    let mut findings = vec![Vec::new(); subjects.len()];
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).filter_map(|_| thread::Builder::new().spawn_scoped(scope, worker).ok()).collect();
        let mut all = worker();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        for (place, found) in all {
            findings[place] = found;
        }
    });
    findings
}

/// All tests of one hash. `names` is how many names each set has, at most.
pub fn examine(subject: TestSubject, seed: &Seed, names: usize) -> Vec<QualityFinding> {
    let mut findings = Vec::new();
    for length in [4, 8, 12, 16, 32] {
        findings.push(avalanche(subject, seed, length));
    }
    for (set, members) in key_sets(names) {
        let keys = subject.keys(&members, seed);
        findings.push(collisions(&format!("collisions, {set}"), &keys));
        findings.push(top_bits(&format!("top 12 bits, {set}"), &keys));
    }
    findings.push(adjacency(subject, seed, names));
    if subject.is_seeded() {
        findings.push(seed_avalanche(subject, names.min(500)));
        findings.push(seed_independence(subject, names));
    }
    findings
}

/// The first names of a pattern.
fn counted(names: &Names, count: usize) -> Vec<Vec<u8>> {
    let mut buffer = Vec::new();
    (0..count as u64).map(|number| names.name(number, &mut buffer).to_vec()).collect()
}

/// Sets of names that have tripped hashes.
fn key_sets(count: usize) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let counters = Names::parse("foo%d").expect("a pattern");
    let mut sets = vec![("counters", counted(&counters, count))];
    sets.extend(Names::CORPORA.iter().map(|(name, corpus)| (*name, counted(corpus, count))));
    // Sixteen bytes, of which at most two differ from a row of `a`.
    let mut sparse = HashSet::new();
    'all: for first in 0..16 {
        for second in 0..first {
            for a in 1..=32u8 {
                for b in 1..=32u8 {
                    if sparse.len() == count {
                        break 'all;
                    }
                    let mut name = vec![b'a'; 16];
                    name[first] = b'a' - 1 + a;
                    name[second] = b'a' - 1 + b;
                    sparse.insert(name);
                }
            }
        }
    }
    sets.push(("sparse", sorted(sparse)));
    // Orders of the same eight words of four bytes.
    let mut permutations = HashSet::new();
    for number in 0..count.min(40_000) as u64 {
        let mut words: Vec<[u8; 4]> = (0..8).map(|i| [b'A' + i, b'b', b'c', b'd' + i]).collect();
        let mut state = number;
        for left in (1..words.len()).rev() {
            words.swap(left, (state % (left as u64 + 1)) as usize);
            state /= left as u64 + 1;
        }
        permutations.insert(words.concat());
    }
    sets.push(("permutations", sorted(permutations)));
    // The same byte again and again; names that go on with zero bytes.
    let mut extended = HashSet::new();
    for byte in 1..=255u8 {
        for length in 1..=255usize.min(count / 128) {
            extended.insert(vec![byte; length]);
            let mut zeros = vec![byte];
            zeros.resize(length, 0);
            extended.insert(zeros);
        }
    }
    sets.push(("lengths", sorted(extended)));
    sets
}

fn sorted(set: HashSet<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = set.into_iter().collect();
    names.sort();
    names
}

/// Each bit of a name should change each bit of the key half of the time.
fn avalanche(subject: TestSubject, seed: &Seed, length: usize) -> QualityFinding {
    const NAMES: u64 = 400;
    let mut flips = vec![[0u32; BITS as usize]; length * 8];
    for number in 0..NAMES {
        let mut name: Vec<u8> = (0..length as u64).map(|i| mix(number * 64 + i) as u8).collect();
        let key = subject.key(&name, seed);
        for (bit, flips) in flips.iter_mut().enumerate() {
            name[bit / 8] ^= 1 << (bit % 8);
            let changed = key ^ subject.key(&name, seed);
            name[bit / 8] ^= 1 << (bit % 8);
            for (output, count) in flips.iter_mut().enumerate() {
                *count += changed >> output & 1;
            }
        }
    }
    chi_of_halves(format!("avalanche, {length} bytes"), flips.iter().flatten(), NAMES)
}

/// Each bit of the seed too.
fn seed_avalanche(subject: TestSubject, names: usize) -> QualityFinding {
    let TestSubject::Hash(hash) = subject else { unreachable!("the control has no seed") };
    let bits = if hash.id.starts_with("tea") { 64 } else { hash.seed_bits as usize };
    let mut flips = vec![[0u32; BITS as usize]; bits];
    for number in 0..names as u64 {
        let name = mix(number).to_le_bytes();
        let mut seed = Seed(std::array::from_fn(|i| mix(number * 16 + i as u64) as u8));
        let key = subject.key(&name, &seed);
        for (bit, flips) in flips.iter_mut().enumerate() {
            seed.0[bit / 8] ^= 1 << (bit % 8);
            let changed = key ^ subject.key(&name, &seed);
            seed.0[bit / 8] ^= 1 << (bit % 8);
            for (output, count) in flips.iter_mut().enumerate() {
                *count += changed >> output & 1;
            }
        }
    }
    chi_of_halves("avalanche, seed".to_string(), flips.iter().flatten(), names as u64)
}

/// The sum over all pairs of input and output bit, which for a hash of chance is a chi-square.
fn chi_of_halves<'a>(test: String, flips: impl Iterator<Item = &'a u32>, trials: u64) -> QualityFinding {
    let half = trials as f64 / 2.0;
    let (mut chi, mut cells) = (0.0, 0.0);
    for &count in flips {
        chi += (f64::from(count) - half).powi(2) / (half / 2.0);
        cells += 1.0;
    }
    QualityFinding { test, measured: chi, expected: cells, p: chi_square_upper(chi, cells) }
}

/// Pairs of names with one key, against N²/2³².
fn collisions(test: &str, keys: &[u32]) -> QualityFinding {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let pairs: u64 = sorted.chunk_by(|a, b| a == b).map(|run| (run.len() * (run.len() - 1) / 2) as u64).sum();
    let count = keys.len() as f64;
    let expected = count * (count - 1.0) / 2.0 / f64::from(1u32 << BITS);
    QualityFinding {
        test: test.to_string(),
        measured: pairs as f64,
        expected,
        p: poisson_upper(pairs, expected),
    }
}

/// The top bits, which decide the leaf, should be spread evenly.
fn top_bits(test: &str, keys: &[u32]) -> QualityFinding {
    // At least some names for each of the values.
    let bits = (keys.len() / 5).max(2).ilog2().min(12);
    let mut counts = vec![0u32; 1 << bits];
    for key in keys {
        counts[(key >> (BITS - bits)) as usize] += 1;
    }
    let each = keys.len() as f64 / counts.len() as f64;
    let chi: f64 = counts.iter().map(|&count| (f64::from(count) - each).powi(2) / each).sum();
    let freedom = (counts.len() - 1) as f64;
    QualityFinding {
        test: test.to_string(),
        measured: chi,
        expected: freedom,
        p: chi_square_upper(chi, freedom),
    }
}

/// How often a counter's next name lands near the last one's: within 2^24 of 2^32.
fn adjacency(subject: TestSubject, seed: &Seed, count: usize) -> QualityFinding {
    let counters = Names::parse("file_name_%05d").expect("a pattern");
    let keys = subject.keys(&counted(&counters, count), seed);
    let near = keys.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 1 << 23).count() as u64;
    // Two points of a line, not of a circle: both sides of each but for the ends.
    let p = 2.0 / 256.0 - 1.0 / 65536.0;
    let trials = (keys.len() - 1) as u64;
    QualityFinding {
        test: "neighbouring counters (share)".to_string(),
        measured: near as f64 / trials as f64,
        expected: p,
        p: binomial_upper(near, trials, p),
    }
}

/// Names that collide whatever the seed make the seed useless against an attacker.
fn seed_independence(subject: TestSubject, count: usize) -> QualityFinding {
    let (one, other) = (Seed([0x5a; 16]), Seed(std::array::from_fn(|i| mix(i as u64) as u8)));
    let counters = Names::parse("foo%d").expect("a pattern");
    let names = counted(&counters, count);
    let keys = [one, other].map(|seed| subject.keys(&names, &seed));
    // Only 16 bits of each key: else no two of so few would meet under either seed.
    let mut both: Vec<u32> =
        keys[0].iter().zip(&keys[1]).map(|(one, other)| (one >> 15) << 16 | other >> 15).collect();
    both.sort_unstable();
    let pairs: u64 = both.chunk_by(|a, b| a == b).map(|run| (run.len() * (run.len() - 1) / 2) as u64).sum();
    let expected = count as f64 * (count as f64 - 1.0) / 2.0 / 2f64.powi(32);
    QualityFinding {
        test: "collisions under any seed".to_string(),
        measured: pairs as f64,
        expected,
        p: poisson_upper(pairs, expected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(subject: TestSubject) -> f64 {
        let seed = Seed::parse("11223344-5566-7788-99aa-bbccddeeff00").unwrap();
        examine(subject, &seed, 20_000).iter().map(|finding| finding.p).fold(1.0, f64::min)
    }

    #[test]
    fn ext4_s_padding_makes_names_collide_under_any_seed() {
        // What a name lacks of a block is filled with its length: another name can have just that.
        for (id, block) in [("half_md4", 32), ("tea", 16)] {
            let hash = NameHash::find(id).unwrap();
            let mut long = b"12345678".to_vec();
            long.resize(block, 8);
            for seed in [Seed::ZERO, Seed([7; 16]), Seed([0xd4; 16])] {
                assert_eq!(hash.hash(b"12345678", &seed), hash.hash(&long, &seed), "{id}");
            }
        }
    }

    #[test]
    fn the_control_fails_and_good_hashes_pass() {
        assert!(worst(TestSubject::BadControl) < SUSPICIOUS);
        for id in ["siphash24", "xxh3"] {
            let worst = worst(TestSubject::Hash(NameHash::find(id).unwrap()));
            assert!(worst > SUSPICIOUS, "{id} {worst}");
        }
        for id in ["legacy", "xfs", "reiserfs_r5", "btrfs"] {
            assert!(worst(TestSubject::Hash(NameHash::find(id).unwrap())) < SUSPICIOUS, "{id}");
        }
    }
}
