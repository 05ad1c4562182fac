//! Hashes that share nothing with another.

use twox_hash::XxHash3_64;

use super::{NameValue, Seed};

/// XFS: rotate by 7, exclusive or. Four bytes at a time, as one rotation by 28.
pub(super) fn xfs(name: &[u8], _: &Seed) -> NameValue {
    let (groups, rest) = name.as_chunks::<4>();
    let hash = groups.iter().fold(0u32, |hash, &[a, b, c, d]| {
        u32::from(a) << 21 ^ u32::from(b) << 14 ^ u32::from(c) << 7 ^ u32::from(d) ^ hash.rotate_left(28)
    });
    let hash = rest.iter().fold(hash, |hash, &byte| u32::from(byte) ^ hash.rotate_left(7));
    NameValue { hash: hash.into(), minor: 0 }
}

/// FreeBSD's UFS dirhash: FNV-1, without the address of the directory that the kernel adds.
pub(super) fn ufs(name: &[u8], _: &Seed) -> NameValue {
    let hash =
        name.iter().fold(33_554_467u32, |hash, &byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    NameValue { hash: hash.into(), minor: 0 }
}

pub(super) fn xxh3(name: &[u8], seed: &Seed) -> NameValue {
    NameValue { hash: XxHash3_64::oneshot_with_seed(seed.long(0), name), minor: 0 }
}
