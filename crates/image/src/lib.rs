//! Disk images as a sequence of bytes and extents.
//!
//! An [`Image`] knows how long it is, which parts of it read as zeros without being looked at, and how
//! to read any part of itself from several threads at once. It knows nothing of hashes.

#![deny(unsafe_code)]

mod error;
mod source;

pub use error::{Error, Operation};
pub use source::{Extent, ExtentKind, Image};
