//! A reader of ext4 images for directories alone: read-only, bounded, and made for damaged images.
//!
//! Non-goals: files, journals, encrypted names, letters that only tables of Unicode can fold, and checksums of
//! metadata other than directories'. An image whose journal was not replayed is read as it lies on the disk.

mod check;
mod image;
mod metadata;

pub use check::{DirectoryReport, Finding, LeafUse, check};
pub use image::{DirectoryInfo, Ext4, Opaque, ReadError};
