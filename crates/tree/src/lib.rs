//! Trees of files: walked, hashed, recorded and verified.
//!
//! [`Walk`] finds files without following links and without paths that others may change under it.
//! [`hash`] reads many of them at once and gives each file's digests together with what `stat` said
//! of it before and after.

#![deny(unsafe_code)]

mod assumed;
pub mod check;
mod control;
mod engine;
mod error;
mod exclude;
mod record;
mod reread;
pub mod scrub;
mod stat;
pub mod store;
mod system;
pub mod tags;
mod verdict;
mod walk;

pub use assumed::{Assumed, Guess, Misjudged};
pub use control::{Limits, Progress, Stop};
pub(crate) use engine::hash_prepared;
pub use engine::{Content, Hashed, Job, LEAST_OPEN_FILES, Plan, hash, hash_wanted};
pub use error::{Error, Operation};
pub use exclude::{BadPattern, Excludes};
pub use record::{Record, RecordedTime, Standing};
pub use stat::{Kind, Stat, Timestamp};
pub use system::{go_to_background, is_rotating};
pub use verdict::{Class, Comparison, Evidence, SecondRead, Verdict};
pub use walk::{Directory, Entry, Order, Walk, WalkOptions};
