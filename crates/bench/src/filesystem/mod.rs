//! Measures what the checksums of a file system cost: btrfs with each of its checksums, and without.
//!
//! As root it measures the kernel's own code on file systems that lie in memory ([`WorkFolder`], [`Volume`],
//! [`phases`]), or repeats the experiment of 2024 as it was published ([`original`]). Everybody can measure
//! the tools ([`rootless`]) and a [`model`] of the work.

mod data;
mod kernel;
mod model;
mod phases;
mod published;
mod rootless;
mod volume;
mod work_folder;

pub use data::{BtrfsChecksum, CHECKSUMS, Data, WRITE};
pub use kernel::driver;
pub use model::{ONE_BY_ONE, SECTOR, SIDE_BY_SIDE, model};
pub use phases::{Group, phases};
pub use published::{ORIGINAL, Whole, original, urandom};
pub use rootless::{CHECK, MKFS, Tools, rootless, rootless_needs};
pub use volume::{Programs, Volume};
pub use work_folder::{WorkFolder, available};
