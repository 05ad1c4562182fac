//! The candidates for each purpose of a digest, best first if time does not matter.

/// What a digest is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Purpose {
    /// To find data that rotted.
    Bitrot,
    /// To find changes that somebody hid: resists attackers.
    Tamper,
    /// For the block hash of disk images.
    Image,
    /// To name the contents of a backup: resists collisions.
    Backup,
    /// To find duplicates: resists collisions.
    Dedup,
    /// For btrfs, which has four.
    Filesystem,
}

/// A digest that comes into question.
#[derive(Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub id: &'static str,
    /// What speaks for and against it.
    pub why: &'static str,
}

const SHA256: Candidate =
    Candidate { id: "sha256", why: "resists attackers, and every system has a tool for it" };
const BLAKE3: Candidate = Candidate { id: "blake3", why: "resists attackers; b3sum checks it" };
const SHA512: Candidate = Candidate { id: "sha512", why: "resists attackers; sha512sum checks it" };
const BLAKE2B: Candidate = Candidate { id: "blake2b512", why: "resists attackers; b2sum checks it" };
const SHA3: Candidate = Candidate { id: "sha3-256", why: "resists attackers, and is built unlike SHA-2" };
const XXH3: Candidate =
    Candidate { id: "xxh3-128", why: "finds accidents and resists no attacker; xxhsum checks it" };
const CRC64: Candidate =
    Candidate { id: "crc64-nvme", why: "surely finds small errors and resists no attacker" };
const XXH64: Candidate =
    Candidate { id: "xxh64", why: "btrfs calls it xxhash; 8 bytes a sector, misses no accident in practice" };
const CRC32C: Candidate =
    Candidate { id: "crc32c", why: "4 bytes a sector; misses one of 4 billion wrong sectors" };
const BTRFS_SHA256: Candidate = Candidate { id: "sha256", why: "32 bytes a sector; resists collisions" };
const BTRFS_BLAKE2: Candidate = Candidate {
    id: "blake2b512",
    why: "btrfs calls it blake2 and keeps 32 bytes a sector; resists collisions",
};

static BITROT: [Candidate; 5] = [SHA256, BLAKE3, BLAKE2B, XXH3, CRC64];
static TAMPER: [Candidate; 5] = [SHA256, BLAKE3, SHA512, BLAKE2B, SHA3];
static BLOCKS: [Candidate; 4] = [SHA256, BLAKE3, SHA512, BLAKE2B];
static FILESYSTEM: [Candidate; 4] = [XXH64, CRC32C, BTRFS_SHA256, BTRFS_BLAKE2];

impl Purpose {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Bitrot => "bitrot",
            Purpose::Tamper => "tamper",
            Purpose::Image => "image",
            Purpose::Backup => "backup",
            Purpose::Dedup => "dedup",
            Purpose::Filesystem => "filesystem",
        }
    }

    /// Whether whole files are hashed, each of which is opened, and not pieces of them.
    pub const fn opens_files(self) -> bool {
        !matches!(self, Purpose::Image | Purpose::Filesystem)
    }

    /// Those that come into question, best first if all took the same time.
    pub fn candidates(self) -> &'static [Candidate] {
        match self {
            Purpose::Bitrot => &BITROT,
            Purpose::Tamper => &TAMPER,
            Purpose::Image | Purpose::Backup | Purpose::Dedup => &BLOCKS,
            Purpose::Filesystem => &FILESYSTEM,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verisum_digest::{Algorithm, DigestClass};

    #[test]
    fn what_must_resist_attackers_does() {
        let all = [
            Purpose::Bitrot,
            Purpose::Tamper,
            Purpose::Image,
            Purpose::Backup,
            Purpose::Dedup,
            Purpose::Filesystem,
        ];
        for purpose in all {
            for candidate in purpose.candidates() {
                let algorithm = Algorithm::find(candidate.id).unwrap();
                assert_eq!(algorithm.id, candidate.id);
                assert!(algorithm.bits >= 64 || purpose == Purpose::Filesystem);
                let accidents_only = matches!(purpose, Purpose::Bitrot | Purpose::Filesystem);
                assert!(accidents_only || algorithm.class == DigestClass::Cryptographic, "{}", candidate.id);
                assert!(!["md4", "md5", "sha1"].contains(&candidate.id));
            }
        }
    }
}
