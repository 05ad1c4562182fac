//! The hashes that file systems use for the index of a directory, and candidates for it.
//!
//! [`NAME_HASHES`] is the table. A name hash maps a name (any bytes; in a directory 1 to 255 of them)
//! and a seed to a number, and in some file systems to a second, minor number. Both the seed and
//! whether characters have a sign are part of the mapping: they are parameters, never guessed.
//!
//! ext4's values are those of libext2fs and debugfs. The kernel moves one value, see [`ext4::kernel_key`].

mod crc;
pub mod ext4;
mod name_hash;
mod others;
mod reiserfs;
mod seed;
mod siphash;
mod table;
mod tea;

pub use crate::simd::NameValue;
pub use name_hash::{Characters, NameHash};
pub use seed::Seed;
pub(crate) use table::ext4_hashes;
pub use table::{CANDIDATE, NAME_HASHES};
