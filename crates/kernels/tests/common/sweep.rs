//! How batches of every size compare with the same messages one after the other.

use std::hint::black_box;
use std::time::Instant;

use verisum_kernels::{Kernel, KernelAlgorithm, Level};

/// The most messages of a batch: more than any kernel has lanes, and some left over.
pub const MOST: usize = 40;

/// How often a batch is tried against the messages one after the other before it is called slow. The best
/// time of each counts, as whatever else the machine does only adds.
const TRIES: usize = 50;

/// The fastest kernel for single messages at or below a level.
pub fn best_single(algorithm: KernelAlgorithm, level: Level, message: &[u8]) -> Kernel {
    let allowed = Level::ALL.iter().filter(|&&other| other <= level);
    let timed = allowed.filter_map(|&other| Kernel::at(algorithm, other)).map(|kernel| {
        let mut best = f64::INFINITY;
        for _ in 0..10 {
            best = best.min(one_by_one(kernel, &[message]));
        }
        (kernel, best)
    });
    timed.min_by(|one, other| one.1.total_cmp(&other.1)).expect("the portable level has every algorithm").0
}

/// How many times as long a batch takes as its messages one after the other; compares them again and again
/// until that is no more than `bound`.
pub fn compare(kernel: Kernel, single: Kernel, messages: &[&[u8]], bound: f64) -> f64 {
    let mut digests = vec![0; messages.len() * kernel.algorithm().digest_len()];
    let (mut batch, mut alone) = (f64::INFINITY, f64::INFINITY);
    for done in 1..=TRIES {
        let start = Instant::now();
        kernel.hash_batch(black_box(messages), &mut digests);
        batch = batch.min(start.elapsed().as_secs_f64());
        black_box(&digests);
        alone = alone.min(one_by_one(single, messages));
        if done >= 3 && batch <= bound * alone {
            break;
        }
    }
    batch / alone
}

/// The seconds that it takes.
fn one_by_one(kernel: Kernel, messages: &[&[u8]]) -> f64 {
    let mut single = kernel.single();
    let mut digest = vec![0; kernel.algorithm().digest_len()];
    let start = Instant::now();
    for message in messages {
        single.update(black_box(message));
        single.finish_into_and_reset(&mut digest);
        black_box(&digest);
    }
    start.elapsed().as_secs_f64()
}
