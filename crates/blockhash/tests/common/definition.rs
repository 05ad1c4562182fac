//! The block hash as its definition reads, for comparison.

use verisum_digest::{Digest, Output};

pub fn block_hash(digest: &Digest, block_size: usize, message: &[u8]) -> Output {
    let mut outer = Vec::new();
    for block in message.chunks(block_size) {
        outer.extend_from_slice(digest.hash(block).unwrap().as_bytes());
    }
    outer.extend_from_slice(&(message.len() as u64).to_le_bytes());
    digest.hash(&outer).unwrap()
}
