//! The hashes that file systems index directories with, and candidates for it.
//!
//! [`NAME_HASHES`] is the table. A name hash maps a name (any bytes; in a directory 1 to 255 of them)
//! and a seed to a number, and in some file systems to a second, minor number. Both the seed and
//! whether characters have a sign are part of the mapping: they are parameters, never guessed.
//!
//! ext4's values are those of libext2fs and debugfs. The kernel moves one value, see [`ext4::kernel_key`].

mod crc;
pub mod ext4;
mod others;
mod reiserfs;
mod siphash;
mod tea;

pub use verisum_kernels::NameValue;
use verisum_kernels::{Level, NameFunction, NameKernel};

use Characters::{Bytes, Signed, Unsigned};

/// The secret that is mixed into a hash: for ext4 the bytes of the superblock's `s_hash_seed`, which its
/// tools print as a UUID. A hash uses the first [`NameHash::seed_bits`] of it, little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seed(pub [u8; 16]);

impl Seed {
    /// No seed. ext4 takes its published initial state instead.
    pub const ZERO: Seed = Seed([0; 16]);

    /// Reads 32 hexadecimal digits, with hyphens as in a UUID or without.
    pub fn parse(text: &str) -> Option<Seed> {
        let digits: Vec<u32> =
            text.chars().filter(|&c| c != '-').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
        let mut seed = [0; 16];
        if digits.len() != 32 {
            return None;
        }
        for (byte, pair) in seed.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (pair[0] << 4 | pair[1]) as u8;
        }
        Some(Seed(seed))
    }

    /// The 32-bit word at this place.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u32 {
        u32::from_le_bytes(self.0[4 * index..4 * index + 4].try_into().expect("four bytes"))
    }

    /// The 64-bit word at this place.
    #[inline]
    pub(crate) fn long(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.0[8 * index..8 * index + 8].try_into().expect("eight bytes"))
    }
}

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let hyphen = if [4, 6, 8, 10].contains(&index) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

/// What a byte from 80 (hexadecimal) on counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Characters {
    /// The hash takes bytes as they are: the question does not arise.
    Bytes,
    /// A negative number, as `char` on x86.
    Signed,
    /// A positive number, as `char` on ARM.
    Unsigned,
}

impl Characters {
    /// The word used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Bytes => "bytes",
            Signed => "signed",
            Unsigned => "unsigned",
        }
    }
}

/// A mapping from names to numbers. Its values never change once it has a row.
#[derive(Debug)]
pub struct NameHash {
    /// The name under which verisum prints it.
    pub id: &'static str,
    /// Other spellings that are understood; case, and `-` for `_`, never matter.
    pub aliases: &'static [&'static str],
    /// Who indexes directories with it, or `candidate`.
    pub system: &'static str,
    /// Length of the hash in bits.
    pub bits: u32,
    /// Whether there is a minor hash.
    pub has_minor: bool,
    /// How much of the seed it uses, in bits; 0 if it has none.
    pub seed_bits: u32,
    /// Whether characters have a sign.
    pub characters: Characters,
    /// A code that any right implementation reproduces; `reference/dirhash.py` defines and computes it.
    pub verification: u32,
    function: fn(&[u8], &Seed) -> NameValue,
    /// What of our kernels hashes many names at once.
    lanes: Option<NameFunction>,
}

impl NameHash {
    /// The hash of this name or alias.
    pub fn find(name: &str) -> Option<&'static NameHash> {
        let wanted = name.to_ascii_lowercase().replace('-', "_");
        NAME_HASHES.iter().find(|row| row.id == wanted || row.aliases.contains(&wanted.as_str()))
    }

    /// The hash of a name.
    #[inline]
    pub fn hash(&self, name: &[u8], seed: &Seed) -> NameValue {
        (self.function)(name, seed)
    }

    /// The hashes of many names, each where its name stands. ext4's own hashes are computed side by side
    /// where the processor has vectors for it; the others one by one.
    ///
    /// # Panics
    /// If there are not as many values as names.
    pub fn hash_batch(&self, names: &[&[u8]], seed: &Seed, values: &mut [NameValue]) {
        self.hash_batch_at(Level::best(), names, seed, values);
    }

    /// The same with no instructions above this level.
    ///
    /// # Panics
    /// If there are not as many values as names.
    pub fn hash_batch_at(&self, cap: Level, names: &[&[u8]], seed: &Seed, values: &mut [NameValue]) {
        assert_eq!(names.len(), values.len(), "a value for each name");
        let done = self.in_lanes(cap, names, seed, values);
        for (name, value) in names.iter().zip(values).skip(done) {
            *value = self.hash(name, seed);
        }
    }

    /// The keys of many names in an index, each where its name stands: [`NameHash::index_key`] of all.
    ///
    /// # Panics
    /// If there are not as many keys as names.
    pub fn index_keys(&self, names: &[&[u8]], seed: &Seed, keys: &mut [u32]) {
        /// Whose values stay in the nearest cache.
        const TOGETHER: usize = 128;
        assert_eq!(names.len(), keys.len(), "a key for each name");
        let mut values = [NameValue::default(); TOGETHER];
        for (names, keys) in names.chunks(TOGETHER).zip(keys.chunks_mut(TOGETHER)) {
            let values = &mut values[..names.len()];
            self.hash_batch(names, seed, values);
            for (key, value) in keys.iter_mut().zip(values) {
                *key = self.key_of(value.hash);
            }
        }
    }

    /// Hashes names side by side; returns how many from the first on it did.
    fn in_lanes(&self, cap: Level, names: &[&[u8]], seed: &Seed, values: &mut [NameValue]) -> usize {
        // Of fewer the vectors would be mostly empty.
        const WORTH: usize = 4;
        let Some(function) = self.lanes.filter(|_| names.len() >= WORTH) else { return 0 };
        let Some(kernel) = NameKernel::best(function, self.characters == Signed, cap) else { return 0 };
        kernel.hash_batch(ext4::state(seed), names, values)
    }

    /// The key of a name in an index of ext4's form: the 32 most significant bits of the hash without
    /// the lowest, and without the value that the kernel reserves; for ext4's own hashes exactly what
    /// the kernel computes.
    #[inline]
    pub fn index_key(&self, name: &[u8], seed: &Seed) -> u32 {
        self.key_of(self.hash(name, seed).hash)
    }

    /// The key in an index of ext4's form that a value of this hash becomes.
    #[inline]
    pub const fn key_of(&self, hash: u64) -> u32 {
        ext4::kernel_key((hash << (64 - self.bits) >> 32) as u32)
    }

    /// Whether the seed matters.
    pub const fn is_seeded(&self) -> bool {
        self.seed_bits > 0
    }
}

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
    fn seeds_are_read_and_printed() {
        let text = "11223344-5566-7788-99aa-bbccddeeff00";
        let seed = Seed::parse(text).unwrap();
        assert_eq!(seed.to_string(), text);
        assert_eq!(seed.word(0), 0x4433_2211);
        assert_eq!(seed.long(1), 0x00ff_eedd_ccbb_aa99);
        assert_eq!(Seed::parse(&text.replace('-', "")), Some(seed));
        for wrong in ["", "11", "11223344-5566-7788-99aa-bbccddeeff0", "x1223344-5566-7788-99aa-bbccddeeff00"]
        {
            assert_eq!(Seed::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn keys_are_the_most_significant_bits() {
        let key = |id, hash| NameHash::find(id).unwrap().key_of(hash);
        assert_eq!(key("half_md4", 0x1234_5679), 0x1234_5678);
        assert_eq!(key("half_md4", 0xffff_fffe), 0xffff_fffc);
        assert_eq!(key("ubifs", 0x1fff_ffff), 0xffff_fff8);
        assert_eq!(key("xxh3", 0x1234_5678_9abc_def0), 0x1234_5678);
        assert_eq!(key("bcachefs_crc64", 0x7fff_ffff_0000_0000), 0xffff_fffc);
    }
}
