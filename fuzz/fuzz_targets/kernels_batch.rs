//! A batch of messages of any lengths has the digests of each message alone, whatever the algorithm and the level.
//!
//! The first bytes choose the algorithm, the number and the lengths of the
//! messages; the messages are pieces of the whole input, at any alignment.

#![no_main]

use libfuzzer_sys::fuzz_target;
use verisum_kernels::{KernelAlgorithm, Kernel, Level};

fuzz_target!(|data: &[u8]| {
    let [algorithm, count, rest @ ..] = data else { return };
    let algorithm = KernelAlgorithm::ALL[usize::from(*algorithm) % KernelAlgorithm::ALL.len()];
    let count = usize::from(*count) % 70;
    let messages: Vec<&[u8]> = rest
        .chunks_exact(2)
        .take(count)
        .map(|place| {
            let start = usize::from(place[0]) * 7 % rest.len();
            let len = usize::from(place[1]) * 5;
            &rest[start..rest.len().min(start + len)]
        })
        .collect();

    let digest_len = algorithm.digest_len();
    let mut expected = vec![0; messages.len() * digest_len];
    let mut single = Kernel::best(algorithm, Level::Portable).single();
    for (message, digest) in messages.iter().zip(expected.chunks_mut(digest_len)) {
        let (first, second) = message.split_at(message.len() / 3);
        single.update(first);
        single.update(second);
        single.finish_into_and_reset(digest);
    }

    for kernel in Level::ALL.iter().filter_map(|&level| Kernel::at(algorithm, level)) {
        let mut digests = vec![0; expected.len()];
        kernel.hash_batch(&messages, &mut digests);
        assert_eq!(digests, expected, "{kernel:?}, batch");
    }
});
