//! Copies of trees in which every byte is hashed, compared with its record, and read back.
//!
//! Each file is hashed while it is read, written to a file without a name, brought to the disk, read back
//! past the page cache, and only then given its name. So a kill or a full disk leaves the file that was there
//! before, and a name never leads to half a file. What the record of the source calls rotten is not copied.
//!
//! ```
//! use std::fs;
//! use std::path::Path;
//! use verisum_mend::copy::{CopyOptions, copy};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! fs::create_dir("photos")?;
//! fs::write("photos/one.raw", "one")?;
//!
//! let (from, to) = (Path::new("photos"), Path::new("copy"));
//! let summary = copy(from, to, &CopyOptions::default(), None, &|event| {
//!     if event.outcome.is_problem() {
//!         println!("{}: {:?}", event.path.display(), event.outcome);
//!     }
//! })?;
//! assert_eq!((summary.copied, summary.failed), (1, 0));
//! # Ok(())
//! # }
//! ```
//!
//! Non-goals: removing what FROM does not have, and merging two trees that both changed.

mod batch;
mod between_places;
mod digests;
mod engine;
mod error;
mod event;
mod feed;
mod fetch;
mod links;
mod options;
mod place_feed;
mod pump;
mod record;
mod recorder;
mod reread;
mod send;
mod shared;
mod small;
mod special;
mod stage;
mod sums;
mod target;
mod temporary;
mod worker;

pub use engine::copy;
pub use error::CopyError;
pub use event::{CopyEvent, CopyOutcome, CopySummary, Mismatch, RecordPlace};
pub use fetch::{RemoteTree, copy_from};
pub use options::{CopyOptions, Reflink, Verification};
pub use recorder::CopyRecorder;
pub use send::{copy_between, copy_to};
pub use sums::SumsList;
pub use temporary::LEFTOVER;
