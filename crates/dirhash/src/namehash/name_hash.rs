//! A hash of names: what it is, and how it is computed for one name or many.

use verisum_kernels::Level;

use super::{NAME_HASHES, Seed, ext4};
use crate::simd::{NameFunction, NameKernel, NameValue};

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
            Characters::Bytes => "bytes",
            Characters::Signed => "signed",
            Characters::Unsigned => "unsigned",
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
    pub(super) function: fn(&[u8], &Seed) -> NameValue,
    /// What of our kernels hashes many names at once.
    pub(super) lanes: Option<NameFunction>,
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
        let Some(kernel) = NameKernel::best(function, self.characters == Characters::Signed, cap) else {
            return 0;
        };
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

#[cfg(test)]
mod tests {
    use super::*;

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
