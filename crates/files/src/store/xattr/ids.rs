//! The numeric ids of digests in stored records.

use verisum_digest::Algorithm;

/// One number a digest, for good: tags of many years hold them. New rows get new numbers; 0 is no digest.
#[rustfmt::skip]
const IDS: &[(u8, &str)] = &[
    (1, "sha256"), (2, "sha512"), (3, "sha1"), (4, "md5"), (5, "blake3"),
    (6, "xxh3-64"), (7, "xxh3-128"), (8, "xxh64"), (9, "xxh32"),
    (10, "crc32"), (11, "crc32c"), (12, "crc64-nvme"), (13, "crc64-xz"), (14, "adler32"),
    (15, "sha224"), (16, "sha384"), (17, "sha512-224"), (18, "sha512-256"),
    (19, "sha3-224"), (20, "sha3-256"), (21, "sha3-384"), (22, "sha3-512"),
    (23, "shake128"), (24, "shake256"), (25, "blake2b512"), (26, "blake2s256"),
    (27, "sm3"), (28, "ripemd160"), (29, "whirlpool"), (30, "md5-sha1"), (31, "md4"),
    (32, "crc64-jones"),
];

/// The number of a digest; `None` if it cannot be stored in a tag.
pub fn id_of(algorithm: &Algorithm) -> Option<u8> {
    IDS.iter().find(|(_, name)| *name == algorithm.id).map(|(id, _)| *id)
}

/// The digest of a number.
pub fn algorithm_of(id: u8) -> Option<&'static Algorithm> {
    // Numbers are given in order, so the row is where its number says.
    let (found, name) = IDS.get(usize::from(id).checked_sub(1)?)?;
    debug_assert_eq!(*found, id);
    Algorithm::find(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verisum_digest::{ALGORITHMS, DigestClass};

    /// The page of the format; its table is the promise.
    const PAGE: &str = include_str!("../../../../../docs/tag-format.md");

    #[test]
    fn numbers_are_those_of_the_page_for_ever() {
        let rows: Vec<(u8, &str)> = PAGE
            .lines()
            .filter_map(|line| {
                let mut cells = line.split('|').map(str::trim).filter(|cell| !cell.is_empty());
                let row = (cells.next()?.parse().ok()?, cells.next()?);
                cells.next().is_none().then_some(row)
            })
            .collect();
        assert_eq!(rows, IDS);
    }

    #[test]
    fn every_digest_has_one_number() {
        for (at, (id, name)) in IDS.iter().enumerate() {
            assert_eq!(usize::from(*id), at + 1, "{name}");
            assert_eq!(algorithm_of(*id).unwrap().id, *name);
            assert_eq!(id_of(algorithm_of(*id).unwrap()), Some(*id));
        }
        for algorithm in ALGORITHMS {
            assert_eq!(id_of(algorithm).is_some(), algorithm.class != DigestClass::Null, "{}", algorithm.id);
        }
        assert!(algorithm_of(0).is_none() && algorithm_of(255).is_none());
    }
}
