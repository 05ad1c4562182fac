//! The compression functions, each written once for any vector of lanes.
//!
//! They follow the specifications named in each module and know nothing of
//! padding: whole blocks only.

mod blake2;
mod keccak;
mod md4;
mod md5;
mod ripemd160;
mod sha1;
mod sha2;
mod sm3;

pub(crate) use blake2::{Blake2b, Blake2s};
pub(crate) use keccak::Keccak;
pub(crate) use md4::Md4;
pub(crate) use md5::Md5;
pub(crate) use ripemd160::Ripemd160;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) use sha1::SHA1_K;
pub(crate) use sha1::Sha1;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) use sha2::SHA256_K;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(crate) use sha2::SHA512_K;
pub(crate) use sha2::{Sha256, Sha512};
pub(crate) use sm3::Sm3;

use crate::vector::Vector;

/// A compression function with a state of `STATE` words and blocks of `BLOCK`
/// words.
pub(crate) trait Compress<V: Vector, const STATE: usize, const BLOCK: usize> {
    /// Whether the words of a message are big endian.
    const BIG_ENDIAN: bool;

    /// Mixes a block of each lane into its state.
    fn compress(token: V::Token, state: &mut [V; STATE], block: [V; BLOCK]);
}

/// Compresses `blocks` consecutive blocks of each lane: the body of every
/// kernel.
///
/// # Safety
///
/// - `state` must be valid for reads and writes of `STATE` rows of `V::LANES`
///   words and be aligned to such a row.
/// - `pointers` must be valid for reads of `V::LANES` pointers, each valid for
///   reads of `blocks` blocks of `BLOCK` words.
#[inline(always)]
pub(crate) unsafe fn run<V, A, const STATE: usize, const BLOCK: usize>(
    token: V::Token,
    state: *mut u64,
    pointers: *const *const u8,
    blocks: usize,
) where
    V: Vector,
    A: Compress<V, STATE, BLOCK>,
{
    let rows = state.cast::<V::Word>();
    let mut words = [V::zero(token); STATE];
    let mut i = 0;
    while i < STATE {
        // SAFETY: the caller promises the rows.
        words[i] = unsafe { V::load(token, rows.add(i * V::LANES)) };
        i += 1;
    }
    let mut offset = 0;
    let mut left = blocks;
    while left > 0 {
        // SAFETY: the caller promises this block of each lane.
        let block = unsafe { load_block::<V, BLOCK>(token, pointers, offset, A::BIG_ENDIAN) };
        A::compress(token, &mut words, block);
        offset += BLOCK * size_of::<V::Word>();
        left -= 1;
    }
    let mut i = 0;
    while i < STATE {
        // SAFETY: the caller promises the rows.
        unsafe { words[i].store(rows.add(i * V::LANES)) };
        i += 1;
    }
}

/// Reads a block of each lane.
///
/// # Safety
///
/// `pointers` must be valid for reads of `V::LANES` pointers, each valid for
/// reads of a block at `offset`.
#[inline(always)]
unsafe fn load_block<V: Vector, const BLOCK: usize>(
    token: V::Token,
    pointers: *const *const u8,
    offset: usize,
    big_endian: bool,
) -> [V; BLOCK] {
    const { assert!(BLOCK >= V::TILE && V::TILE <= 16) };
    let mut block = [V::zero(token); BLOCK];
    let mut start = 0;
    while start < BLOCK {
        // Where tiles do not divide the block the last two overlap.
        if start + V::TILE > BLOCK {
            start = BLOCK - V::TILE;
        }
        let tile = &mut block[start..start + V::TILE];
        // SAFETY: every tile, the last too, lies within the block.
        unsafe { V::load_tile(token, pointers, offset + start * size_of::<V::Word>(), tile) };
        start += V::TILE;
    }
    if big_endian {
        let mut i = 0;
        while i < BLOCK {
            block[i] = block[i].swap_bytes();
            i += 1;
        }
    }
    block
}

/// Hides the values of constants from the compiler, which would otherwise add
/// them last, at the end of the chain of steps, where each instruction counts.
/// Of what it cannot see it adds first what is ready first.
#[inline(always)]
pub(crate) fn opaque<T>(constants: &'static T) -> &'static T {
    core::hint::black_box(constants)
}
