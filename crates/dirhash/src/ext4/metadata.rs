//! The checksums of ext4's feature metadata_csum, for the metadata that leads to names.
//!
//! All are CRC-32C as a bare register. Those of a directory begin with what belongs to its inode: a block
//! that was written to the wrong place is found too.

use super::image::Ext4;
use super::inode::DirectoryInfo;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            register = (register >> 1) ^ (if register & 1 == 1 { 0x82f6_3b78 } else { 0 });
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
};

pub(super) fn crc32c(register: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(register, |register, &byte| (register >> 8) ^ TABLE[usize::from(register as u8 ^ byte)])
}

/// What is wrong with the checksum of the superblock, of 1024 bytes.
pub(super) fn superblock(block: &[u8]) -> Option<String> {
    const CRC_32C: u8 = 1;
    match block[373] {
        CRC_32C => compare(crc32c(!0, &block[..1020]), &block[1020..1024]),
        other => Some(format!("checksums of type {other}, which is unknown")),
    }
}

/// What is wrong with the checksum of a group's descriptor: the lower half of one.
pub(super) fn descriptor(image: &Ext4, group: u32, descriptor: &[u8]) -> Option<String> {
    let register = crc32c(image.checksum_seed, &group.to_le_bytes());
    let register = crc32c(crc32c(register, &descriptor[..30]), &[0; 2]);
    let register = crc32c(register, descriptor.get(32..).unwrap_or_default());
    compare_half(register, &descriptor[30..32])
}

/// What is wrong with the checksum of an inode, all of its bytes being given.
pub(super) fn inode(image: &Ext4, number: u32, raw: &[u8]) -> Option<String> {
    let (low, high) = (124..126, 130..132);
    let generation = u32::from_le_bytes(raw[100..104].try_into().expect("four bytes"));
    let mut zeroed = raw.to_vec();
    zeroed[low.clone()].fill(0);
    // The upper half lies in what inodes of more than 128 bytes may have beyond those.
    let is_whole = raw.get(128..130).is_some_and(|extra| u16::from_le_bytes([extra[0], extra[1]]) >= 4);
    if !is_whole {
        return compare_half(crc32c(inode_seed(image, number, generation), &zeroed), &raw[low]);
    }
    zeroed[high.clone()].fill(0);
    let stored = [&raw[low], &raw[high]].concat();
    compare(crc32c(inode_seed(image, number, generation), &zeroed), &stored)
}

/// What the checksums of an inode and its blocks begin with.
fn inode_seed(image: &Ext4, inode: u32, generation: u32) -> u32 {
    let seed = crc32c(image.checksum_seed, &inode.to_le_bytes());
    crc32c(seed, &generation.to_le_bytes())
}

/// What is wrong with the checksum of a leaf, or of a block of a directory without an index.
pub(super) fn leaf(image: &Ext4, directory: &DirectoryInfo, block: &[u8]) -> Option<String> {
    let (records, tail) = block.split_at_checked(block.len().checked_sub(12)?)?;
    // A record of an unused inode and twelve bytes, of a type that no file has.
    if tail[..8] != [0, 0, 0, 0, 12, 0, 0, 0xde] {
        return Some("the record with the checksum is missing".to_string());
    }
    compare(crc32c(inode_seed(image, directory.inode, directory.generation), records), &tail[8..])
}

/// What is wrong with the checksum of an index block, whose entries begin at `start`.
pub(super) fn index(image: &Ext4, directory: &DirectoryInfo, block: &[u8], start: usize) -> Option<String> {
    let word = |at: usize| usize::from(u16::from_le_bytes([block[at], block[at + 1]]));
    let (limit, count) = (word(start), word(start + 2));
    let tail = start + 8 * limit;
    // Without room for it there is none.
    let (Some(tail), Some(entries)) = (block.get(tail..tail + 8), block.get(..start + 8 * count)) else {
        return Some(format!("there is no room for the checksum behind {limit} entries"));
    };
    let register = crc32c(inode_seed(image, directory.inode, directory.generation), entries);
    let register = crc32c(register, &tail[..4]);
    compare(crc32c(register, &[0; 4]), &tail[4..])
}

fn compare(computed: u32, stored: &[u8]) -> Option<String> {
    let stored = u32::from_le_bytes(stored.try_into().expect("four bytes"));
    (computed != stored).then(|| format!("checksum {stored:08x} should be {computed:08x}"))
}

fn compare_half(computed: u32, stored: &[u8]) -> Option<String> {
    let (computed, stored) = (computed as u16, u16::from_le_bytes([stored[0], stored[1]]));
    (computed != stored).then(|| format!("checksum {stored:04x} should be {computed:04x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_crc_32c() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }
}
