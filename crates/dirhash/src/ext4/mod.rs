//! Reads the directories of ext4 images, with bounds that also hold for damaged images. Never writes.
//!
//! Non-goals: files, journals, encrypted names, letters that only tables of Unicode can fold, and checksums of
//! blocks of extents. An image whose journal was not replayed is read as it lies on the disk.

mod check;
mod image;
mod index;
mod inode;
mod metadata;
mod survey;

pub use check::{DirectoryFault, DirectoryReport, LeafUse, check};
pub use image::{Ext4, ReadError};
pub use inode::DirectoryInfo;
pub use survey::{InodeFault, VolumeSurvey};
