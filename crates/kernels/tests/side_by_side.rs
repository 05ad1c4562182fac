//! Messages continued side by side equal OpenSSL.

mod common;

use common::{input, kernels, openssl};
use proptest::prelude::*;
use verisum_kernels::{Kernel, Single};

/// Hashes messages in these pieces: in each round every message that has more gets its next piece.
fn assert_rounds(kernel: Kernel, messages: &[&[u8]], sizes: &[usize]) {
    let mut singles: Vec<Single> = messages.iter().map(|_| kernel.single()).collect();
    let mut rests = messages.to_vec();
    let mut piece = 0;
    while rests.iter().any(|rest| !rest.is_empty()) {
        let mut round: Vec<(&mut Single, &[u8])> = Vec::new();
        for (single, rest) in singles.iter_mut().zip(&mut rests) {
            let (now, later) =
                rest.split_at(sizes[piece % sizes.len()].clamp(1, rest.len().max(1)).min(rest.len()));
            piece += 1;
            *rest = later;
            round.push((single, now));
        }
        kernel.update_batch(&mut round);
    }
    let len = kernel.algorithm().digest_len();
    for (single, message) in singles.iter_mut().zip(messages) {
        let mut found = vec![0; len];
        single.finish_into_and_reset(&mut found);
        assert_eq!(found, openssl(kernel.algorithm(), message), "{kernel:?}, {} bytes", message.len());
    }
}

#[test]
fn edges_of_blocks_in_every_kernel() {
    let data = input(100_000);
    for kernel in kernels() {
        for count in [1, 2, 3, 7, kernel.lanes(), kernel.lanes() + 1, 2 * kernel.lanes() + 3] {
            let messages: Vec<&[u8]> = (0..count).map(|i| &data[i..i + 1000 + 64 * (i % 5) + i]).collect();
            assert_rounds(kernel, &messages, &[64]);
            assert_rounds(kernel, &messages, &[128, 1, 127, 0, 129]);
            assert_rounds(kernel, &messages, &[usize::MAX]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_messages_in_any_pieces(
        lengths in prop::collection::vec(0_usize..3000, 0..70),
        sizes in prop::collection::vec(0_usize..600, 1..20),
    ) {
        let data = input(3000 + 70);
        let messages: Vec<&[u8]> = lengths.iter().enumerate().map(|(i, length)| &data[i..i + length]).collect();
        for kernel in kernels() {
            assert_rounds(kernel, &messages, &sizes);
        }
    }
}
