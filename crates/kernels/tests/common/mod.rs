//! What the tests share: the oracle, the input, and every kernel there is.

use std::sync::OnceLock;

use openssl::hash::{Hasher, MessageDigest};
use openssl::provider::Provider;
use verisum_kernels::{Kernel, KernelAlgorithm, Level};

/// Hashes with OpenSSL.
pub fn openssl(algorithm: KernelAlgorithm, message: &[u8]) -> Vec<u8> {
    // MD4 is in the legacy provider, which replaces the default one unless asked
    // to keep it.
    static LEGACY: OnceLock<Provider> = OnceLock::new();
    LEGACY.get_or_init(|| Provider::try_load(None, "legacy", true).unwrap());
    let name = match algorithm {
        KernelAlgorithm::Blake2s256 => "BLAKE2s256",
        KernelAlgorithm::Blake2b512 => "BLAKE2b512",
        other => other.name(),
    };
    let digest = MessageDigest::from_name(name)
        .unwrap_or_else(|| panic!("OpenSSL has no {name}, and nothing else is the oracle"));
    let mut hasher = Hasher::new(digest).unwrap();
    hasher.update(message).unwrap();
    if matches!(algorithm, KernelAlgorithm::Shake128 | KernelAlgorithm::Shake256) {
        let mut output = vec![0; algorithm.digest_len()];
        hasher.finish_xof(&mut output).unwrap();
        return output;
    }
    hasher.finish().unwrap().to_vec()
}

/// Makes input with a prime cycle, so that no block or lane equals another.
pub fn input(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Returns every kernel at every level.
///
/// A level that the processor lacks is skipped aloud, but in continuous
/// integration it must be declared: `TEST_LEVELS_MISSING=avx512,...`.
#[allow(clippy::print_stderr)] // A skip is said aloud.
pub fn kernels() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for &level in Level::ALL {
        if !level.available() {
            let declared = std::env::var("TEST_LEVELS_MISSING").unwrap_or_default();
            let declared = declared.split(',').any(|name| name == level.name());
            let in_ci = std::env::var_os("CI").is_some();
            assert!(declared || !in_ci, "the processor has no {}, which would go untested", level.name());
            eprintln!("SKIPPED: the processor has no {}", level.name());
            continue;
        }
        let of_level = KernelAlgorithm::ALL.iter().filter_map(|&a| Kernel::at(a, level));
        let before = kernels.len();
        kernels.extend(of_level);
        let expected = match level {
            Level::ShaNi | Level::Sha2 => 3,
            // SHA-512 in four lengths, SHA-3 in four, SHAKE in two.
            Level::Sha3 => 10,
            _ => KernelAlgorithm::ALL.len(),
        };
        assert_eq!(kernels.len() - before, expected, "kernels at {}", level.name());
    }
    kernels
}
