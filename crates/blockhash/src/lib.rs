//! The block hash of a disk image, computed on every core.
//!
//! With a digest `D` and a block size `B`, the block hash of a message is
//! `D(D(block 1) ‖ … ‖ D(block N) ‖ le64(length))`, where blocks are consecutive runs of `B` bytes and
//! the last may be shorter. Only `D` and `B` change the value; threads, batches and the way in which
//! the bytes arrive never do. `docs/block-hash.md` is the specification.
//!
//! [`Hasher`] takes bytes from memory. [`hash_image`] and [`hash_stream`] are the pump: workers that
//! each take the next run of blocks, read it into a buffer of their own, and hash its blocks side by
//! side.
//!
//! ```
//! use verisum_blockhash::{Hasher, Params};
//! use verisum_digest::Digest;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let params = Params::new(Digest::find("sha256")?).block_size(4096)?;
//! let mut hasher = Hasher::new(&params)?;
//! hasher.update(&[1; 8192])?;
//! hasher.zero(1 << 20)?;
//! println!("{}", hasher.finish()?);
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]

mod blocks;
#[cfg(feature = "image")]
mod compare;
mod completions;
mod error;
#[cfg(feature = "image")]
mod fit;
mod hasher;
#[cfg(feature = "image")]
mod made_of_blocks;
#[cfg(feature = "image")]
mod map;
mod params;
mod pool;
#[cfg(feature = "image")]
mod pump;
#[cfg(feature = "image")]
mod ranges;
#[cfg(feature = "image")]
mod runs;
mod sequencer;
#[cfg(feature = "image")]
mod several;

#[cfg(feature = "image")]
pub use blocks::DigestSink;
#[cfg(feature = "image")]
pub use compare::compare_images;
pub use completions::Completion;
pub use error::BlockHashError;
#[cfg(feature = "image")]
pub use fit::is_block_hash;
pub use hasher::Hasher;
#[cfg(feature = "image")]
pub use made_of_blocks::{digest_image, digest_stream};
#[cfg(feature = "image")]
pub use map::{BlockMap, MAP_MAGIC, MapComparison, MapError, MapWriter, compare_maps, update_map};
pub use params::{DEFAULT_BLOCK_SIZE, MAX_THREADS, ONE_THREAD_BYTES, Params};
#[cfg(feature = "image")]
pub use pump::{ImageProgress, hash_image, hash_image_to, hash_stream, hash_stream_to};
#[cfg(feature = "image")]
pub use ranges::merge_ranges;
#[cfg(feature = "image")]
pub use several::{digests_of_image, digests_of_stream};
