//! A message in pieces has the digest of the whole.

mod common;

use common::{input, kernels, openssl};
use proptest::prelude::*;

#[test]
fn every_split_in_two() {
    let bytes = input(400);
    for kernel in kernels() {
        let mut single = kernel.single();
        let mut digest = vec![0; kernel.algorithm().digest_len()];
        for len in [0, 1, 63, 64, 65, 127, 128, 129, 136, 144, 256, 272, 400] {
            let expected = openssl(kernel.algorithm(), &bytes[..len]);
            for split in 0..=len {
                single.update(&bytes[..split]);
                single.update(&bytes[split..len]);
                single.finish_into_and_reset(&mut digest);
                assert_eq!(digest, expected, "{kernel:?}: {split} of {len} bytes");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_splits(
        pieces in prop::collection::vec(
            prop_oneof![prop::collection::vec(any::<u8>(), 0..300),
                        prop::collection::vec(any::<u8>(), 0..3000)],
            0..12,
        ),
    ) {
        let whole = pieces.concat();
        for kernel in kernels() {
            let mut single = kernel.single();
            for piece in &pieces {
                single.update(piece);
            }
            let mut twin = single.clone();
            let mut digest = vec![0; kernel.algorithm().digest_len()];
            single.finish_into_and_reset(&mut digest);
            prop_assert_eq!(&digest, &openssl(kernel.algorithm(), &whole), "{:?}", kernel);
            digest.fill(0);
            twin.finish_into_and_reset(&mut digest);
            prop_assert_eq!(&digest, &openssl(kernel.algorithm(), &whole), "{:?}, cloned", kernel);
        }
    }
}
