//! No batch is much slower than its messages one after the other, at any level: instructions that stall
//! are a hundred times slower.
//!
//! The bench has the same with a narrow bound: `cargo bench -p verisum-kernels -- sweep`.

#[path = "common/sweep.rs"]
mod sweep;

use verisum_kernels::{Kernel, KernelAlgorithm, Level};

/// How many times as long a batch may take. Generous, as kernels are not optimised in full here.
const BOUND: f64 = 4.0;

#[test]
fn no_batch_is_slower_than_its_messages_one_after_the_other() {
    let bytes: Vec<u8> = (0..2048).map(|i| (i % 251) as u8).collect();
    let messages = [&bytes[..]; sweep::MOST];
    let pairs = KernelAlgorithm::ALL.iter().flat_map(|&a| Level::ALL.iter().map(move |&l| (a, l)));
    for kernel in pairs.filter_map(|(algorithm, level)| Kernel::at(algorithm, level)) {
        let single = sweep::best_single(kernel.algorithm(), kernel.level(), &bytes);
        for count in 1..=sweep::MOST {
            let ratio = sweep::compare(kernel, single, &messages[..count], BOUND);
            assert!(ratio <= BOUND, "{count} messages: {ratio} times as long by {kernel:?} as by {single:?}");
        }
    }
}
