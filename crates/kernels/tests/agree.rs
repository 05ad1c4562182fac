//! Every level agrees with the portable one, on so little input that an
//! interpreter such as Miri gets through it. OpenSSL, which it could not call,
//! has no part in this.

use verisum_kernels::{Kernel, KernelAlgorithm, Level, is_zero_at};

/// A whole block and a few bytes, a part of a block, and nothing.
const LENGTHS: [usize; 3] = [141, 20, 0];

fn messages(bytes: &[u8], count: usize) -> Vec<&[u8]> {
    (0..count).map(|i| &bytes[i..i + LENGTHS[i % 3]]).collect()
}

/// Hashes one message after another with the portable level, in two pieces.
fn portable(algorithm: KernelAlgorithm, messages: &[&[u8]]) -> Vec<u8> {
    let mut single = Kernel::best(algorithm, Level::Portable).single();
    let mut digests = vec![0; messages.len() * algorithm.digest_len()];
    for (message, digest) in messages.iter().zip(digests.chunks_mut(algorithm.digest_len())) {
        let (first, second) = message.split_at(message.len() / 3);
        single.update(first);
        single.update(second);
        single.finish_into_and_reset(digest);
    }
    digests
}

fn kernels() -> impl Iterator<Item = Kernel> {
    let pairs = KernelAlgorithm::ALL.iter().flat_map(|&a| Level::ALL.iter().map(move |&l| (a, l)));
    // Miri knows the instructions for SHA-256, but not those for SHA-1.
    let known = |&(algorithm, level): &(KernelAlgorithm, Level)| {
        !(cfg!(miri) && algorithm == KernelAlgorithm::Sha1 && level == Level::ShaNi)
    };
    pairs.filter(known).filter_map(|(algorithm, level)| Kernel::at(algorithm, level))
}

#[test]
fn batches() {
    let bytes: Vec<u8> = (0..200).map(|i| i as u8).collect();
    for kernel in kernels() {
        let messages = messages(&bytes, kernel.lanes() + 1);
        let expected = portable(kernel.algorithm(), &messages);
        let mut digests = vec![0; expected.len()];
        kernel.hash_batch(&messages, &mut digests);
        assert_eq!(digests, expected, "{kernel:?}");
    }
}

#[test]
fn zeros() {
    let mut bytes = [0; 300];
    for &level in Level::ALL.iter().filter(|level| level.available()) {
        for len in [0, 1, 63, 64, 255, 256, 299] {
            assert_eq!(is_zero_at(level, &bytes[1..1 + len]), Some(true));
            if len > 0 {
                bytes[len] = 1;
                assert_eq!(is_zero_at(level, &bytes[1..1 + len]), Some(false));
                bytes[len] = 0;
            }
        }
    }
}
