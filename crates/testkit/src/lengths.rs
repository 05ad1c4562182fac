//! Lengths at which block code breaks.

/// The edge lengths for a block size, ascending and without doubles: none, one byte, sectors, blocks and
/// batches of 16 blocks with one more or fewer, and some that fit nothing.
pub fn edge_lengths(block_size: u64) -> Vec<u64> {
    let block = block_size;
    let mut lengths = vec![0, 1, 511, 512, 513, block - 1, block, block + 1];
    lengths.extend([15 * block, 16 * block, 17 * block, 33 * block + 5, (1 << 20) + 3]);
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_dropped() {
        assert_eq!(edge_lengths(512)[..6], [0, 1, 511, 512, 513, 7680]);
        assert_eq!(edge_lengths(65536).len(), 13);
    }
}
