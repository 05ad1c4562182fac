//! Manifests: lists of names and digests, in every format that is in use.
//!
//! A [`Writer`] makes the lines of a list, one file at a time. A [`Reader`] finds out what a list is and
//! reads it line by line, in memory that does not depend on its length. Nothing here opens the files
//! that a list names.
//!
//! [`Chkbit`] and [`Bitrot`] read what those tools keep, to be taken over.

mod bitrot;
mod chkbit;
mod columns;
mod coreutils;
mod escape;
mod format;
mod guess;
mod json;
mod lines;
mod listed;
mod mtree;
mod reader;
mod rhash;
mod tags;
mod unvis;
mod writer;

pub use bitrot::{Bitrot, Page as BitrotPage};
pub use chkbit::{Chkbit, IndexError, OF_TREE, Recorded};
pub use format::Format;
pub use lines::MAX_LINE;
pub use listed::{Bad, Claim, Line, Listed};
pub use reader::{Dialect, Options, ReadError, Reader};
pub use tags::tag;
pub use writer::{Item, Unwritable, Writer};
