//! Every kernel at every level equals OpenSSL.

mod common;

use common::{input, kernels, openssl};
use proptest::prelude::*;
use verisum_kernels::{Kernel, KernelAlgorithm};

/// Hashes a batch and compares it with the expected digests.
#[track_caller]
fn assert_batch(kernel: Kernel, messages: &[&[u8]], expected: &[u8]) {
    let digest_len = kernel.algorithm().digest_len();
    let mut digests = vec![0xa5; messages.len() * digest_len];
    kernel.hash_batch(messages, &mut digests);
    for (i, (got, want)) in digests.chunks(digest_len).zip(expected.chunks(digest_len)).enumerate() {
        assert_eq!(
            got,
            want,
            "{kernel:?}: message {i} of {}, of {} bytes",
            messages.len(),
            messages[i].len()
        );
    }
}

/// The digests of each of the prefixes of the input.
fn expected(algorithm: KernelAlgorithm, bytes: &[u8], lengths: &[usize]) -> Vec<u8> {
    lengths.iter().flat_map(|&len| openssl(algorithm, &bytes[..len])).collect()
}

/// Each kernel hashes as many copies of a message as it has lanes, so that its
/// widest stage is what is tested; then half as many, which some have a stage
/// for; then the message alone.
fn assert_lengths(lengths: &[usize]) {
    let bytes = input(*lengths.iter().max().unwrap());
    for &algorithm in KernelAlgorithm::ALL {
        let digest_len = algorithm.digest_len();
        let expected = expected(algorithm, &bytes, lengths);
        for kernel in kernels().into_iter().filter(|k| k.algorithm() == algorithm) {
            for (&len, digest) in lengths.iter().zip(expected.chunks(digest_len)) {
                let messages = vec![&bytes[..len]; kernel.lanes()];
                for count in [kernel.lanes(), kernel.lanes().div_ceil(2), 1] {
                    assert_batch(kernel, &messages[..count], &digest.repeat(count));
                }
            }
        }
    }
}

#[test]
fn all_short_lengths() {
    assert_lengths(&(0..=300).collect::<Vec<_>>());
}

#[test]
fn lengths_around_blocks() {
    let mut lengths = Vec::new();
    for block_len in [64, 72, 104, 128, 136, 144, 168] {
        for blocks in [1, 2, 3, 4, 5, 8, 16, 17, 31, 64] {
            let len = block_len * blocks;
            lengths.extend([len - 1, len, len + 1]);
        }
    }
    lengths.extend([4095, 4096, 4097, 65535, 65536, 65537]);
    assert_lengths(&lengths);
}

#[test]
fn one_mebibyte() {
    assert_lengths(&[1 << 20]);
}

#[test]
fn all_alignments() {
    let len = 517;
    let bytes = input(64 + len);
    for &algorithm in KernelAlgorithm::ALL {
        let messages: Vec<&[u8]> = (0..64).map(|start| &bytes[start..start + len]).collect();
        let expected: Vec<u8> = messages.iter().flat_map(|m| openssl(algorithm, m)).collect();
        for kernel in kernels().into_iter().filter(|k| k.algorithm() == algorithm) {
            // Every lane at another alignment, then every lane at the same.
            assert_batch(kernel, &messages, &expected);
            for (message, digest) in messages.iter().zip(expected.chunks(algorithm.digest_len())) {
                let same = vec![*message; kernel.lanes()];
                assert_batch(kernel, &same, &digest.repeat(kernel.lanes()));
            }
        }
    }
}

#[test]
fn ragged_batches() {
    let bytes = input(20_000);
    for &algorithm in KernelAlgorithm::ALL {
        // Short and long ones, in no order, with empty ones among them.
        let lengths: Vec<usize> = (0..67usize)
            .map(|i| match i % 4 {
                0 => i * 7919 % 300,
                1 => i * 104_729 % 20_000,
                2 => i * 31 % 5 * 64,
                _ => i * 1299 % 2_000,
            })
            .collect();
        let messages: Vec<&[u8]> =
            lengths.iter().enumerate().map(|(i, &len)| &bytes[i..][..len.min(19_900)]).collect();
        let expected: Vec<u8> = messages.iter().flat_map(|m| openssl(algorithm, m)).collect();
        let digest_len = algorithm.digest_len();
        for kernel in kernels().into_iter().filter(|k| k.algorithm() == algorithm) {
            for count in (0..=40).chain([64, 67]) {
                assert_batch(kernel, &messages[..count], &expected[..count * digest_len]);
                let equal = vec![messages[1]; count];
                assert_batch(kernel, &equal, &expected[digest_len..2 * digest_len].repeat(count));
            }
        }
    }
}

#[test]
#[should_panic(expected = "the length of the digests")]
fn digests_of_another_length() {
    kernels()[0].hash_batch(&[b"one", b"two"], &mut [0; 16]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn random_batches(
        messages in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                prop::collection::vec(any::<u8>(), 0..5000),
            ],
            0..40,
        ),
    ) {
        let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        for &algorithm in KernelAlgorithm::ALL {
            let expected: Vec<u8> = messages.iter().flat_map(|m| openssl(algorithm, m)).collect();
            for kernel in kernels().into_iter().filter(|k| k.algorithm() == algorithm) {
                assert_batch(kernel, &messages, &expected);
            }
        }
    }
}
