//! Hashes messages once, by one way: for programs that count instructions.
//!
//! `once ALGORITHM WAY COUNT LENGTH`, where WAY is a level or `openssl`, which takes one message after the
//! other. Prints the first digest.

#![allow(clippy::print_stdout)] // What it is for, beside its instructions.

use std::hint::black_box;

use openssl::hash::{MessageDigest, hash};
use verisum_kernels::{Kernel, KernelAlgorithm, Level};

/// The longest message, in bytes.
const MOST: usize = 65536;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [algorithm, way, count, length] = &arguments[..] else {
        panic!("usage: once ALGORITHM WAY COUNT LENGTH")
    };
    let known = KernelAlgorithm::ALL.iter().find(|known| known.name() == algorithm).expect("an algorithm");
    let (count, length): (usize, usize) =
        (count.parse().expect("a number"), length.parse().expect("a number"));
    // As many bytes are made whatever the length: the difference of two lengths is that of hashing.
    let bytes: Vec<u8> = (0..MOST).map(|i| (i % 251) as u8).collect();
    let message = &bytes[..length];
    let mut digests = vec![0; count * known.digest_len()];
    if way == "openssl" {
        let name = match known {
            KernelAlgorithm::Blake2s256 => "BLAKE2s256",
            KernelAlgorithm::Blake2b512 => "BLAKE2b512",
            other => other.name(),
        };
        let digest = MessageDigest::from_name(name).expect("known to OpenSSL");
        for out in digests.chunks_mut(known.digest_len()) {
            out.copy_from_slice(&hash(digest, black_box(message)).expect("a digest"));
        }
    } else {
        let level = Level::from_name(way).expect("a level");
        let kernel = Kernel::at(*known, level).expect("a kernel of that level");
        kernel.hash_batch(black_box(&vec![message; count]), &mut digests);
    }
    let hex: Vec<String> = digests[..known.digest_len()].iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{}", hex.concat());
}
