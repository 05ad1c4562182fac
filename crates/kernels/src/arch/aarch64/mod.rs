//! The kernels of 64-bit ARM, and the order in which they take over as lanes run out.

mod crypto;
mod neon;
mod sha3;

use std::arch::is_aarch64_feature_detected;

use super::{Stage, portable};
use crate::Level;
use crate::spec::Compression;

/// Evidence that the processor has NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

/// Evidence that the processor has the SHA-3 instructions, and those for SHA-512, which come with them.
#[derive(Clone, Copy)]
pub(crate) struct Sha3(());

impl Neon {
    /// # Safety
    ///
    /// The processor must have NEON.
    #[inline(always)]
    pub(crate) unsafe fn assume() -> Self {
        Neon(())
    }
}

impl Sha3 {
    /// # Safety
    ///
    /// The processor must have NEON and the SHA-3 instructions.
    #[inline(always)]
    pub(crate) unsafe fn assume() -> Self {
        Sha3(())
    }
}

/// Asks the processor, through the standard library's cache.
pub(crate) fn has(level: Level) -> bool {
    match level {
        Level::Portable => true,
        Level::Neon => is_aarch64_feature_detected!("neon"),
        Level::Sha2 => has(Level::Neon) && is_aarch64_feature_detected!("sha2"),
        // One name of the standard library for both kinds.
        Level::Sha3 => has(Level::Sha2) && is_aarch64_feature_detected!("sha3"),
        _ => false,
    }
}

macro_rules! stages {
    ($($lanes:literal from $worth:literal: $compress:path),*) => {
        &[$(Stage { lanes: $lanes, worth: $worth, compress: $compress }),*]
    };
}

/// Returns the stages at a level that the processor has.
///
/// A single message is hashed in ordinary registers where there are no instructions for it: these have
/// rotations and complements as they are needed. How many messages make a stage worth it was measured
/// nowhere; until a kernel is measured, all lanes but one in use do.
pub(crate) fn stages(compression: Compression, level: Level) -> Option<&'static [Stage]> {
    use Compression::*;
    let stages: &'static [Stage] = match level {
        Level::Portable => portable::stages(compression),
        Level::Neon => match compression {
            Md4 => stages![8 from 7: neon::md4x8, 4 from 3: neon::md4, 1 from 1: portable::md4],
            Md5 => stages![8 from 7: neon::md5x8, 4 from 3: neon::md5, 1 from 1: portable::md5],
            Ripemd160 => {
                stages![8 from 7: neon::ripemd160x8, 4 from 3: neon::ripemd160, 1 from 1: portable::ripemd160]
            }
            Sha1 => stages![4 from 3: neon::sha1, 1 from 1: portable::sha1],
            Sha256 => stages![4 from 3: neon::sha256, 1 from 1: portable::sha256],
            Sm3 => stages![4 from 3: neon::sm3, 1 from 1: portable::sm3],
            Sha512 => stages![2 from 2: neon::sha512, 1 from 1: portable::sha512],
            Blake2s => stages![4 from 3: neon::blake2s, 1 from 1: portable::blake2s],
            Blake2b => stages![2 from 2: neon::blake2b, 1 from 1: portable::blake2b],
            Keccak9 => stages![2 from 2: neon::keccak9, 1 from 1: portable::keccak9],
            Keccak13 => stages![2 from 2: neon::keccak13, 1 from 1: portable::keccak13],
            Keccak17 => stages![2 from 2: neon::keccak17, 1 from 1: portable::keccak17],
            Keccak18 => stages![2 from 2: neon::keccak18, 1 from 1: portable::keccak18],
            Keccak21 => stages![2 from 2: neon::keccak21, 1 from 1: portable::keccak21],
        },
        Level::Sha2 => match compression {
            Sha1 => {
                stages![4 from 3: crypto::sha1::<4>, 2 from 2: crypto::sha1::<2>, 1 from 1: crypto::sha1::<1>]
            }
            Sha256 => {
                stages![4 from 3: crypto::sha256::<4>, 2 from 2: crypto::sha256::<2>, 1 from 1: crypto::sha256::<1>]
            }
            _ => return None,
        },
        Level::Sha3 => match compression {
            // The registers hold two messages.
            Sha512 => stages![2 from 2: crypto::sha512::<2>, 1 from 1: crypto::sha512::<1>],
            Keccak9 => stages![2 from 2: sha3::keccak9, 1 from 1: portable::keccak9],
            Keccak13 => stages![2 from 2: sha3::keccak13, 1 from 1: portable::keccak13],
            Keccak17 => stages![2 from 2: sha3::keccak17, 1 from 1: portable::keccak17],
            Keccak18 => stages![2 from 2: sha3::keccak18, 1 from 1: portable::keccak18],
            Keccak21 => stages![2 from 2: sha3::keccak21, 1 from 1: portable::keccak21],
            _ => return None,
        },
        _ => return None,
    };
    Some(stages)
}

/// Returns the lanes of NEON where the level has the SHA-3 instructions: on some processors these, of which
/// one can begin in each cycle, take longer than the several plain instructions that do the same.
pub(crate) fn alternatives(compression: Compression, level: Level) -> &'static [Stage] {
    use Compression::*;
    match (level, compression) {
        (Level::Sha3, Keccak9 | Keccak13 | Keccak17 | Keccak18 | Keccak21) => {
            let stages = stages(compression, Level::Neon).expect("NEON has lanes for every algorithm");
            &stages[..stages.len() - 1]
        }
        _ => &[],
    }
}
