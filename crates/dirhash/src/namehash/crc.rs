//! Cyclic redundancy checks as name hashes. They are linear: whoever can choose a few bytes of a name can
//! choose its hash.
//!
//! All are the bare register, without the inversions that published CRCs begin and end with.

use super::{NameValue, Seed};

/// Eight bytes a step: table `k` is what a byte does to the register `k` bytes later.
type Tables<T> = [[T; 256]; 8];

macro_rules! tables {
    ($name:ident, $word:ty) => {
        const fn $name(reflected: $word) -> Tables<$word> {
            let mut tables = [[0; 256]; 8];
            let mut byte = 0;
            while byte < 256 {
                let mut register = byte as $word;
                let mut bit = 0;
                while bit < 8 {
                    register = (register >> 1) ^ (if register & 1 == 1 { reflected } else { 0 });
                    bit += 1;
                }
                tables[0][byte] = register;
                byte += 1;
            }
            let mut later = 1;
            while later < 8 {
                let mut byte = 0;
                while byte < 256 {
                    let before = tables[later - 1][byte];
                    tables[later][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
                    byte += 1;
                }
                later += 1;
            }
            tables
        }
    };
}

tables!(tables32, u32);
tables!(tables64, u64);

static CASTAGNOLI: Tables<u32> = tables32(0x82f6_3b78);
static IEEE: Tables<u32> = tables32(0xedb8_8320);
static ECMA: Tables<u64> = tables64(0xc96c_5795_d787_0f42);

#[inline(always)]
fn crc32(tables: &Tables<u32>, mut register: u32, bytes: &[u8]) -> u32 {
    let (groups, rest) = bytes.as_chunks::<8>();
    for group in groups {
        let word = u64::from_le_bytes(*group) ^ u64::from(register);
        register = step(tables, word);
    }
    for &byte in rest {
        register = (register >> 8) ^ tables[0][(register as u8 ^ byte) as usize];
    }
    register
}

#[inline(always)]
fn crc64(tables: &Tables<u64>, mut register: u64, bytes: &[u8]) -> u64 {
    let (groups, rest) = bytes.as_chunks::<8>();
    for group in groups {
        register = step(tables, u64::from_le_bytes(*group) ^ register);
    }
    for &byte in rest {
        register = (register >> 8) ^ tables[0][(register as u8 ^ byte) as usize];
    }
    register
}

#[inline(always)]
fn step<T: Copy + Default + std::ops::BitXor<Output = T>>(tables: &Tables<T>, word: u64) -> T {
    let bytes = word.to_le_bytes();
    (0..8).fold(T::default(), |all, index| all ^ tables[7 - index][bytes[index] as usize])
}

fn value(hash: u64) -> NameValue {
    NameValue { hash, minor: 0 }
}

pub(super) fn btrfs(name: &[u8], _: &Seed) -> NameValue {
    value(crc32(&CASTAGNOLI, 0xffff_fffe, name).into())
}

pub(super) fn crc32c_seeded(name: &[u8], seed: &Seed) -> NameValue {
    value(crc32(&CASTAGNOLI, seed.word(0), name).into())
}

/// GFS2: the CRC-32 of zip and zlib.
pub(super) fn gfs2(name: &[u8], _: &Seed) -> NameValue {
    value((!crc32(&IEEE, u32::MAX, name)).into())
}

pub(super) fn bcachefs_crc32c(name: &[u8], seed: &Seed) -> NameValue {
    let keyed = crc32(&CASTAGNOLI, u32::MAX, &seed.0[..8]);
    value(crc32(&CASTAGNOLI, keyed, name).into())
}

/// bcachefs: ECMA-182's polynomial, the most significant bit first; 63 bits.
pub(super) fn bcachefs_crc64(name: &[u8], seed: &Seed) -> NameValue {
    // The reflection of the register of the reflected check, fed with reflected bytes.
    let reflect = |register, bytes: &[u8]| {
        bytes.iter().fold(register, |register: u64, byte| {
            (register >> 8) ^ ECMA[0][(register as u8 ^ byte.reverse_bits()) as usize]
        })
    };
    let register: u64 = reflect(reflect(u64::MAX, &seed.0[..8]), name);
    value(register.reverse_bits() >> 1)
}

pub(super) fn zfs28(name: &[u8], seed: &Seed) -> NameValue {
    zfs::<28>(name, seed)
}

pub(super) fn zfs48(name: &[u8], seed: &Seed) -> NameValue {
    zfs::<48>(name, seed)
}

/// ZFS: the register begins with the object's salt; the highest bits of it.
fn zfs<const BITS: u32>(name: &[u8], seed: &Seed) -> NameValue {
    value(crc64(&ECMA, seed.long(0), name) >> (64 - BITS) << (64 - BITS))
}
