//! The table of name hashes.

use super::Characters::{self, Bytes, Signed, Unsigned};
use super::{NameHash, NameValue, Seed, crc, ext4, others, reiserfs, siphash, tea};
use crate::simd::NameFunction;

/// Every name hash verisum knows. The first seven are ext4's, in the order of its version numbers.
pub static NAME_HASHES: &[NameHash] = &[
    lanes(
        NameFunction::Legacy,
        ext4("legacy", &["dx_hack_hash"], 0, Signed, 0x131b_6417, ext4::legacy_signed),
    ),
    lanes(
        NameFunction::HalfMd4,
        ext4("half_md4", &["halfmd4"], 128, Signed, 0x09d1_095d, ext4::half_md4_signed),
    ),
    lanes(NameFunction::Tea, ext4("tea", &[], 128, Signed, 0xf2f5_e62a, ext4::tea_signed)),
    lanes(
        NameFunction::Legacy,
        ext4("legacy_unsigned", &[], 0, Unsigned, 0x37b0_08eb, ext4::legacy_unsigned),
    ),
    lanes(
        NameFunction::HalfMd4,
        ext4("half_md4_unsigned", &[], 128, Unsigned, 0xfcee_c013, ext4::half_md4_unsigned),
    ),
    lanes(NameFunction::Tea, ext4("tea_unsigned", &[], 128, Unsigned, 0x1781_b204, ext4::tea_unsigned)),
    ext4("siphash", &[], 128, Bytes, 0x4ef8_30e9, ext4::siphash),
    row("btrfs", &[], "btrfs", 32, 0, Bytes, 0x59f9_2859, crc::btrfs),
    row("xfs", &[], "xfs", 32, 0, Bytes, 0x9690_248e, others::xfs),
    row("f2fs", &[], "f2fs", 32, 0, Unsigned, 0xba9b_b574, tea::f2fs),
    minor(row("ocfs2", &[], "ocfs2", 32, 128, Signed, 0x1df5_5357, tea::ocfs2_signed)),
    minor(row("ocfs2_unsigned", &[], "ocfs2", 32, 128, Unsigned, 0x7ccc_ad7c, tea::ocfs2_unsigned)),
    row("reiserfs_r5", &["r5"], "reiserfs", 32, 0, Signed, 0xd15d_1a59, reiserfs::r5),
    row("reiserfs_tea", &[], "reiserfs", 32, 0, Signed, 0x55e0_d0ce, reiserfs::tea),
    row("reiserfs_yura", &["yura", "rupasov"], "reiserfs", 32, 0, Signed, 0xa753_3fec, reiserfs::yura),
    row("ubifs", &[], "ubifs", 29, 0, Signed, 0x4e76_e1f1, reiserfs::ubifs),
    row("zfs", &["zap"], "zfs", 64, 64, Bytes, 0xc39e_bfff, crc::zfs28),
    row("zfs48", &["zap48"], "zfs", 64, 64, Bytes, 0x6470_2522, crc::zfs48),
    row("gfs2", &["crc32"], "gfs2", 32, 0, Bytes, 0x8149_9652, crc::gfs2),
    row("bcachefs_crc32c", &[], "bcachefs", 32, 64, Bytes, 0xd371_8d4f, crc::bcachefs_crc32c),
    row("bcachefs_crc64", &[], "bcachefs", 63, 64, Bytes, 0xd137_7e57, crc::bcachefs_crc64),
    row("bcachefs_siphash", &["bcachefs"], "bcachefs", 63, 64, Bytes, 0x71b1_773c, siphash::bcachefs),
    row("ufs", &["fnv1", "dirhash"], "ufs", 32, 0, Bytes, 0xdabb_33fd, others::ufs),
    row("siphash13", &["siphash_1_3"], CANDIDATE, 64, 128, Bytes, 0x5aff_929c, siphash::siphash13),
    row("siphash24", &["siphash_2_4"], CANDIDATE, 64, 128, Bytes, 0xa1e7_209b, siphash::siphash24),
    row("halfsiphash24", &["halfsiphash"], CANDIDATE, 32, 64, Bytes, 0x717a_7cb5, siphash::half_siphash24),
    row("xxh3", &["xxh3_64"], CANDIDATE, 64, 64, Bytes, 0xb854_abda, others::xxh3),
    row("crc32c_seeded", &["crc32c"], CANDIDATE, 32, 32, Bytes, 0x30a2_646b, crc::crc32c_seeded),
];

/// How many versions of its hash ext4 knows.
const EXT4_VERSIONS: usize = 7;

/// Those of ext4, in the order of its version numbers.
pub(crate) fn ext4_hashes() -> &'static [NameHash] {
    &NAME_HASHES[..EXT4_VERSIONS]
}

/// [`NameHash::system`] of hashes that no file system uses yet.
pub const CANDIDATE: &str = "candidate";

#[allow(clippy::too_many_arguments, reason = "a row of a table")]
const fn row(
    id: &'static str,
    aliases: &'static [&'static str],
    system: &'static str,
    bits: u32,
    seed_bits: u32,
    characters: Characters,
    verification: u32,
    function: fn(&[u8], &Seed) -> NameValue,
) -> NameHash {
    NameHash {
        id,
        aliases,
        system,
        bits,
        has_minor: false,
        seed_bits,
        characters,
        verification,
        function,
        lanes: None,
    }
}

const fn ext4(
    id: &'static str,
    aliases: &'static [&'static str],
    seed_bits: u32,
    characters: Characters,
    verification: u32,
    function: fn(&[u8], &Seed) -> NameValue,
) -> NameHash {
    // The legacy hash has a minor hash too; it is always 0.
    minor(row(id, aliases, "ext4", 32, seed_bits, characters, verification, function))
}

const fn lanes(function: NameFunction, row: NameHash) -> NameHash {
    NameHash { lanes: Some(function), ..row }
}

const fn minor(row: NameHash) -> NameHash {
    NameHash { has_minor: true, ..row }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_stands_once_and_is_written_as_it_is_looked_up() {
        let mut seen = HashSet::new();
        for row in NAME_HASHES {
            for name in std::iter::once(&row.id).chain(row.aliases) {
                assert!(seen.insert(*name), "{name} stands twice");
                assert_eq!(NameHash::find(&name.to_uppercase().replace('_', "-")).unwrap().id, row.id);
            }
            assert!(matches!(row.bits, 29..=64) && row.seed_bits <= 128, "{}", row.id);
        }
        assert!(NameHash::find("md5").is_none() && NameHash::find("").is_none());
    }

    #[test]
    fn the_hashes_of_ext4_come_first() {
        let is_of_ext4 = |hash: &NameHash| hash.system == "ext4";
        assert!(ext4_hashes().iter().all(is_of_ext4));
        assert!(!NAME_HASHES[EXT4_VERSIONS..].iter().any(is_of_ext4));
    }
}
