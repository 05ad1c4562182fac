//! Manifests: lists of names and digests, in all common formats.
//!
//! A [`Writer`] makes the lines of a list, one file at a time. A [`Reader`] finds out what a list is and
//! reads it line by line, in memory that does not depend on its length. Nothing here opens the files
//! that a list names.
//!
//! [`Chkbit`] reads what that tool keeps, to be taken over.

mod b3sum;
mod chkbit;
mod columns;
mod coreutils;
mod digest_names;
mod escape;
mod format;
mod guess;
mod json;
mod lines;
mod listed;
mod mtree;
mod reader;
mod rhash;
mod s3;
mod unvis;
mod writer;

pub use chkbit::{Chkbit, ChkbitFile, IndexError, is_chkbit, is_chkbit_of_directory};
pub use coreutils::BlockHashes;
pub use digest_names::{block_hash_tag, tag};
pub use escape::backslashes;
pub use format::{FormatTraits, JSON_VERSION, ListFormat};
pub(crate) use guess::{by_length, is_named};
pub use lines::MAX_LINE;
pub use listed::{Bad, BlockHash, Claim, Line, Listed};
pub use reader::{Dialect, ListOptions, ReadError, Reader, Skipped};
pub use writer::{Item, Unwritable, Writer};
