//! The seed of a name hash.

use data_encoding::HEXLOWER_PERMISSIVE;

/// The secret that is mixed into a hash: for ext4 the bytes of the superblock's `s_hash_seed`, which its
/// tools print as a UUID. A hash uses the first [`NameHash::seed_bits`](super::NameHash::seed_bits) of it,
/// little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seed(pub [u8; 16]);

impl Seed {
    /// No seed. ext4 takes its published initial state instead.
    pub const ZERO: Seed = Seed([0; 16]);

    /// Reads 32 hexadecimal digits, with hyphens as in a UUID or without.
    pub fn parse(text: &str) -> Option<Seed> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.replace('-', "").as_bytes()).ok()?;
        bytes.try_into().ok().map(Seed)
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
