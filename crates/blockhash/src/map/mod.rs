//! Block maps: files with the digest of every block of an image. With a map an image can be compared with its
//! former state block by block, and its block hash can be updated without reading all of it.
//!
//! `docs/block-map.md` is the specification. A map is written from front to back by [`MapWriter`], which
//! takes the digests from the pump, and read by [`BlockMap`].

mod compare;
mod error;
mod format;
mod reader;
mod update;
mod writer;

pub use compare::{MapComparison, compare_maps};
pub use error::MapError;
pub use format::MAP_MAGIC;
pub use reader::BlockMap;
pub use update::update_map;
pub use writer::MapWriter;
