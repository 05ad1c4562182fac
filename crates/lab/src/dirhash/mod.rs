//! The directory-hash laboratory: which hash should name the entries of a directory's index?
//!
//! [`htree`] models ext4's index exactly; [`Directory`] puts any name hash on it. [`bakeoff`] and
//! [`steady`] are the experiments of the thread of 2002 in which ext3 chose its hash.

pub mod attack;
pub mod bakeoff;
pub mod cost;
mod directory;
pub mod ext4;
mod glibc;
pub mod htree;
pub mod live;
pub mod names;
pub mod quality;
pub mod steady;
pub mod workload;

pub use directory::{Directory, Hashing};
pub use glibc::Rand;
