//! Manifests: lists of names and digests, in every format that is in use.
//!
//! A [`Writer`] makes the lines of a list, one file at a time. Nothing here opens the files that a
//! list names.

#[allow(dead_code)] // The readers use the other direction.
mod escape;
mod format;
#[allow(dead_code)] // As above.
mod tags;
mod writer;

pub use format::Format;
pub use writer::{Item, Unwritable, Writer};
