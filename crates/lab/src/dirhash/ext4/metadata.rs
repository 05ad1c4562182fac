//! The checksums that ext4 keeps of directory blocks with the feature metadata_csum.
//!
//! All are CRC-32C as a bare register, begun with what belongs to the inode: a block that was written to
//! the wrong place is found too.

use super::image::{DirectoryInfo, Ext4};

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

/// What the checksums of a directory begin with.
fn inode_seed(image: &Ext4, directory: &DirectoryInfo) -> u32 {
    let seed = crc32c(image.checksum_seed, &directory.inode.to_le_bytes());
    crc32c(seed, &directory.generation.to_le_bytes())
}

/// What is wrong with the checksum of a leaf, or of a block of a directory without an index.
pub(super) fn leaf(image: &Ext4, directory: &DirectoryInfo, block: &[u8]) -> Option<String> {
    let (records, tail) = block.split_at_checked(block.len().checked_sub(12)?)?;
    // A record of an unused inode and twelve bytes, of a type that no file has.
    if tail[..8] != [0, 0, 0, 0, 12, 0, 0, 0xde] {
        return Some("the record with the checksum is missing".to_string());
    }
    compare(crc32c(inode_seed(image, directory), records), &tail[8..])
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
    let register = crc32c(inode_seed(image, directory), entries);
    let register = crc32c(register, &tail[..4]);
    compare(crc32c(register, &[0; 4]), &tail[4..])
}

fn compare(computed: u32, stored: &[u8]) -> Option<String> {
    let stored = u32::from_le_bytes(stored.try_into().expect("four bytes"));
    (computed != stored).then(|| format!("checksum {stored:08x} should be {computed:08x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_crc_32c() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }
}
