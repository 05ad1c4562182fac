//! Compares hashes for the index of a directory: which one is best?
//!
//! ```
//! use verisum_dirhash::htree::Geometry;
//! use verisum_dirhash::namehash::{NameHash, Seed};
//! use verisum_dirhash::{HashedDirectory, Hashing};
//!
//! let seed = Seed::parse("11223344-5566-7788-99aa-bbccddeeff00").unwrap();
//! let hashing = Hashing { hash: NameHash::find("half_md4").unwrap(), seed };
//! let mut directory = HashedDirectory::new(hashing, Geometry::USUAL);
//! for number in 0..1000 {
//!     directory.create(format!("file{number}").as_bytes(), number).unwrap();
//! }
//! println!("{:08x}, and {} blocks as the kernel has them", hashing.key(b"file0"), directory.tree.blocks());
//! ```
//!
//! [`namehash`] has the hashes, [`simd`] those of ext4 for many names side by side. [`htree`] models ext4's index exactly; [`HashedDirectory`] puts any name hash on it.
//! [`bakeoff`] and [`steady`] are the experiments of the thread of 2002 in which ext3 chose its hash,
//! [`workload`] does them on a mounted file system. [`quality`] asks whether a hash spreads names as chance
//! would, [`cost`] what it takes, [`attack`] makes names of one hash. [`ext4`] reads the directories of
//! images, [`live`] those that are mounted.

#![deny(unsafe_code)]

pub mod attack;
pub mod bakeoff;
pub mod cost;
mod directory;
pub mod ext4;
mod glibc;
pub mod htree;
pub mod live;
pub mod namehash;
pub mod names;
mod probability;
pub mod quality;
pub mod simd;
pub mod steady;
pub mod workload;

pub use directory::{HashedDirectory, Hashing};
pub use glibc::Rand;
pub use verisum_kernels::Level;
