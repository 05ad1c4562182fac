//! Operations on the tags of trees: attach, compare, replace, remove, count, adopt.
//!
//! Each operation takes the entries of a walk, works on regular files and on each file once however many
//! names it has, reports what it found through a function, and returns the [`Counts`] of it. No operation
//! ends because a file fails.

mod adopt;
mod files;
mod finding;
mod locked_write;
mod reading;
mod retag;
mod session;
mod status;
mod tag;
mod untag;
mod verify;

use std::sync::Arc;

use rustix::io::Errno;
use verisum_digest::Policy;

use crate::store::xattr::Family;
use crate::{Entry, FileError, Plan, Record, Stat, Timestamp};

pub use adopt::{AdoptOptions, adopt, adopt_listed};
pub use finding::{Counts, TagFinding, TagOutcome};
pub use locked_write::Conflict;
pub use retag::{TagSlot, retag};
pub use status::{Status, TaggedFile, list, status, status_before, would_be_first};
pub use tag::{TagOptions, tag};
pub use untag::untag;
pub use verify::{VerifyOptions, verify};

/// The entries of a walk.
pub type Entries<'a> = &'a mut (dyn Iterator<Item = Result<Entry, FileError>> + Send);

/// Hears of each file. It is called on several threads.
pub type TagSink<'a> = &'a (dyn Fn(&TagFinding) + Sync);

/// Keeps records of files that take no attributes. A catalogue does.
pub trait RecordStore: std::fmt::Debug + Send + Sync {
    /// Whether a file is one of those that the store consists of: they change all the time.
    fn is_own(&self, stat: &Stat) -> bool;

    /// What is recorded of a file.
    fn find(&self, entry: &Entry) -> Option<Record>;

    /// Records a file whose attributes could not be written because of `errno`, in the place of what is
    /// recorded of it. Returns whether that was done.
    fn keep(&self, entry: &Entry, stat: &Stat, record: &Record, errno: Errno) -> bool;

    /// Why the store could not be used, if that happened. Nothing is looked up or kept after it.
    fn take_failure(&self) -> Option<Box<dyn std::error::Error + Send + Sync>>;

    /// Records `new` of a file where `old` stands, if it does.
    fn follow(&self, entry: &Entry, stat: &Stat, old: &Record, new: &Record);
}

/// What all operations need to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaggingOptions {
    /// The attribute format.
    pub family: Family,
    /// How to hash. Its sets of digests are not looked at: the tags tell which are needed.
    pub plan: Plan,
    /// Which implementations of the digests may be used.
    pub policy: Policy,
    /// Where records are kept of files that take no attributes; without it they get none.
    pub apart: Option<Arc<dyn RecordStore>>,
    /// Write and remove nothing: findings are what would be done. What would be read is read.
    pub dry: bool,
}

impl Default for TaggingOptions {
    /// Our own format, on all cores.
    fn default() -> TaggingOptions {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        TaggingOptions {
            family: Family::default(),
            plan: Plan::new(Vec::new(), threads),
            policy: Policy::default(),
            apart: None,
            dry: false,
        }
    }
}

/// The present, as tags keep it: in whole seconds.
fn now() -> Timestamp {
    Timestamp::of_seconds(Timestamp::now().seconds)
}
