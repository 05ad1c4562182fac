//! The options of a copy.

use std::path::PathBuf;
use std::sync::Arc;

use verisum_digest::{Digest, Policy};
use verisum_files::{Excludes, Limits, Progress, Stop};

/// How sure it is to be that a copy is good before it gets its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// It is brought to the disk, read back past the page cache, and its digest compared.
    #[default]
    Reread,
    /// It is brought to the disk.
    Written,
    /// The system writes it when it likes, as `cp` leaves it.
    None,
}

/// Whether a copy may share its storage with the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reflink {
    /// Never: damage to the storage of one is no damage to the other.
    #[default]
    Never,
    /// Where the file system can.
    Auto,
    /// A file that cannot is a failure.
    Always,
}

/// What a copy is asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopyOptions {
    /// The digest; none for that of a file's record, and SHA-256 where there is no record. Where it is
    /// another one than the record's, both are computed in one read.
    pub algorithm: Option<Digest>,
    /// Which implementations may compute digests.
    pub policy: Policy,
    /// How sure it is to be that a copy is good.
    pub verification: Verification,
    /// Whether a copy may share its storage with the original.
    pub reflink: Reflink,
    /// Copy files that are not as recorded, too.
    pub allow_bad: bool,
    /// Where both sides have records, compare those instead of sizes and times.
    pub update: bool,
    /// The copies are recorded: also read files that are at TO already, if the catalogue does not know them.
    pub record: bool,
    /// Write tags to the copies.
    pub tag: bool,
    /// Do not enter directories of other file systems.
    pub one_file_system: bool,
    /// What is left out.
    pub excludes: Option<Arc<Excludes>>,
    /// Threads, at least 1.
    pub threads: usize,
    /// The most that is read from FROM in a second.
    pub limits: Option<Arc<Limits>>,
    /// Where files wait that go from one place to another, neither of which is here.
    pub scratch: PathBuf,
    /// When to end early.
    pub stop: Arc<Stop>,
    /// Where to tell how far it is.
    pub progress: Arc<Progress>,
}

impl CopyOptions {
    /// Whether it matters what the catalogue says of TO.
    pub(super) fn reads_records_of_to(&self) -> bool {
        self.update || self.record
    }
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions {
            algorithm: None,
            policy: Policy::default(),
            verification: Verification::default(),
            reflink: Reflink::default(),
            allow_bad: false,
            update: false,
            record: false,
            tag: false,
            one_file_system: false,
            excludes: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            limits: None,
            scratch: PathBuf::from("/var/tmp"),
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }
}
