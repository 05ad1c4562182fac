//! Disk images: `verisum image`, `blksum`, block maps and NBD.

#[path = "../common/mod.rs"]
mod common;

mod blksum;
mod block_hash_lists;
mod changes;
mod containers;
mod image_repair;
mod made_of_blocks;
mod maps;
mod nbd;
mod qemu;
