//! A model of ext4's indexed directory, the htree, that gives the kernel's exact block count.
//!
//! It knows no names: an entry is a key (the name's hash), a size on disk, and a number by which the
//! caller knows the name. Blocks are numbered as the kernel numbers them, and the records of each leaf
//! are in its order with its record lengths, so a model can be compared with a real directory block by
//! block. What blocks hold besides (inode numbers, checksums) is not modelled.

mod geometry;
mod insert;
mod leaf;
mod measure;
mod policy;
mod remove;
mod tree;

pub use geometry::{Geometry, GeometryError};
pub use leaf::{LeafRecord, Slot};
pub use measure::{Fill, IndexLimit};
pub use policy::{RemovalPolicy, SplitRule};
pub use tree::{Events, Htree, IndexEntry, IndexFull};
