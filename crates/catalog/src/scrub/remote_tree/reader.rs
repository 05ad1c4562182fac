//! Requests to the reader of a remote tree, and its answers.

use verisum_digest::{Digest, Output};

/// What is known of a file besides its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Length in bytes.
    pub size: u64,
    /// Time of modification, as [`crate::store::stamp`] has it.
    pub mtime: i64,
    /// Whether its nanoseconds are known.
    pub is_exact: bool,
}

/// A file that is to be read, by its name below the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name below the directory.
    pub name: Vec<u8>,
    /// What the listing said of it.
    pub condition: Condition,
}

/// What a reader tells of the tree. Names are below the directory that is scrubbed; it has none itself.
#[derive(Clone, Debug)]
pub enum Response {
    /// A regular file. The digest is missing where it was only listed.
    File(Request, Option<Output>),
    /// A file that changed while it was read.
    Changed(Vec<u8>),
    /// A file or a directory that cannot be read, and why; nothing if it is gone.
    Unread {
        /// Its name.
        name: Vec<u8>,
        /// Why it cannot be read.
        error: String,
        /// Whether it is the storage that fails.
        storage_failed: bool,
    },
    /// Something that nobody can name could not be listed.
    Unlisted(String),
}

/// Takes responses; returns false to end.
pub type Sink<'a> = &'a mut (dyn FnMut(Response) -> bool + Send);

/// Why a reader ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReaderError {
    /// Nothing there computes the digest.
    Digest(String),
    /// The machine cannot be reached, or does not do what it should.
    Machine(String),
}

/// Whoever lists and reads the tree.
pub trait Reader {
    /// Lists all regular files, and reads them if there is a digest. What is gone meanwhile is not told.
    fn tree(&mut self, digest: Option<&Digest>, sink: Sink) -> Result<(), ReaderError>;
    /// Reads these.
    fn files(&mut self, digest: &Digest, files: Vec<Request>, sink: Sink) -> Result<(), ReaderError>;
    /// Reads these again, as far from any cache as can be, and looks at each before and after.
    fn again(&mut self, digest: &Digest, files: Vec<Request>, sink: Sink) -> Result<(), ReaderError>;
}

/// Whether two times of modification are the same, as far as both are known: some programs tell whole seconds.
pub fn is_same_time(one: i64, other: i64) -> bool {
    const SECOND: i64 = 1_000_000_000;
    let is_whole = |time: i64| time.rem_euclid(SECOND) == 0;
    one == other || ((is_whole(one) || is_whole(other)) && one.div_euclid(SECOND) == other.div_euclid(SECOND))
}
