//! The time of a hash, by the length of the name.

use std::hint::black_box;
use std::time::Instant;

use crate::Hashing;
use crate::names::mix;

/// Lengths that show each hash's steps.
pub const LENGTHS: [usize; 10] = [1, 4, 8, 16, 17, 32, 33, 64, 128, 255];

/// Names hashed for one sample: enough to be timed, few enough to stay in cache.
const NAMES: usize = 64;

/// Measures the hashes in turns, so that whatever else the machine does meets all of them.
/// For each length and hash, the samples in the order of the turns: nanoseconds a name.
pub fn measure(hashes: &[Hashing], lengths: &[usize], samples: usize) -> Vec<Vec<Vec<f64>>> {
    let mut all = Vec::with_capacity(lengths.len());
    for &length in lengths {
        let names: Vec<Vec<u8>> = (0..NAMES as u64)
            .map(|name| (0..length as u64).map(|i| b'a' + (mix(name * 256 + i) % 26) as u8).collect())
            .collect();
        // A sample of some tens of microseconds.
        let rounds = (4096 / (length + 16)).max(4);
        let mut times = vec![Vec::with_capacity(samples); hashes.len()];
        for sample in 0..=samples {
            for (hashing, times) in hashes.iter().zip(&mut times) {
                let started = Instant::now();
                for _ in 0..rounds {
                    for name in &names {
                        black_box(hashing.hash.hash(black_box(name), &hashing.seed));
                    }
                }
                let time = started.elapsed().as_nanos() as f64 / (rounds * NAMES) as f64;
                // The first sample warms caches and predictors.
                if sample > 0 {
                    times.push(time);
                }
            }
        }
        all.push(times);
    }
    all
}
