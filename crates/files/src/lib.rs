//! Trees of files: walked, hashed, tagged, and checked against lists.
//!
//! ```
//! use verisum_files::{HashOptions, hash_files};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! for result in hash_files(vec!["src".into()], &HashOptions::default())? {
//!     let file = result?;
//!     println!("{}  {}", file.digests[0], file.path.display());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Walk`] finds files without following links and without paths that others may change under it.
//! [`hash`] reads many of them at once and gives each file's digests together with what `stat` said
//! of it before and after.

#![deny(unsafe_code)]

pub mod bag;
pub mod check;
pub mod compare;
mod control;
mod decoder;
mod digest_guess;
mod engine;
mod error;
mod exclude;
mod hash_files;
mod hash_reader;
mod in_order;
mod kept_file;
mod lock;
mod locked_file;
pub mod parquet_page;
pub mod percent;
pub mod place;
mod record;
pub mod replace;
pub mod reread;
mod results;
mod shared_error;
mod stat;
pub mod store;
mod system;
pub mod tags;
pub mod text;
mod verdict;
mod walk;
mod write_over;

pub use control::{Limits, Progress, Stop};
pub use decoder::{decoded, hide_caught_panics};
pub use digest_guess::{IsBlockHash, Misjudged, NamedDigest};
pub(crate) use engine::hash_prepared;
pub use engine::{Content, Hashed, Job, LEAST_OPEN_FILES, Plan, hash, hash_wanted};
pub use error::{FileError, Operation, at, explained, message_says_storage_failed, says_storage_failed};
pub use exclude::{BadPattern, Excludes};
pub use hash_files::{FileDigests, HashFiles, HashOptions, ResultOrder, StartError, hash_files};
pub use kept_file::{AsRead, Dress, KeptFile};
pub use lock::lock;
pub use locked_file::LockedFile;
pub use record::{FUTURE, Record, RecordedTime, Standing};
pub use replace::{ReplaceError, Replacement, rename_to_nothing};
pub use results::{Outlet, Results};
pub use shared_error::SharedError;
pub use stat::{Kind, Stat, Timestamp, times_of};
pub use system::{generation, go_to_background, has_writer, is_rotating, outlast, settle};
pub use verdict::{Comparison, Evidence, Fate, SecondRead, Verdict, VerdictClass};
pub use verisum_pagecache::hash_in_page_cache;
pub use walk::trusted::{Reached, trusted_name, trusted_path};
pub use walk::{Directory, Entry, LEADS_OUT, Order, Roots, Walk, WalkOptions, born};
pub use write_over::write_over;
