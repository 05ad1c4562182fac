//! A file to be repaired: what is known of it.

use std::path::PathBuf;

use verisum_catalog::store::Stamp;
use verisum_digest::{Digest, Output};

/// The most bytes that a file of unknown length may have.
pub(super) const ANY_LENGTH: u64 = 1 << 62;

/// A file that is to be given its content again.
#[derive(Debug)]
pub(super) struct Damaged {
    /// Its path.
    pub(super) path: PathBuf,
    /// Its path below what is repaired.
    pub(super) below: PathBuf,
    /// Its path in the directory for bad files: that in its tree, so that it can be told from others of its name.
    pub(super) kept: PathBuf,
    /// The recorded digest.
    pub(super) digest: Digest,
    /// Its value.
    pub(super) recorded: Output,
    /// The recorded length in bytes.
    pub(super) size: u64,
    /// The recorded time of modification; none for that of the bad file, or of the copy.
    pub(super) modified: Option<Stamp>,
    /// What the file may be, by length and time of modification, to be the one that was found bad.
    pub(super) found: Vec<(u64, Stamp)>,
    /// The inode that it was a name of, if it is missing and that is known.
    pub(super) inode: Option<u64>,
    /// Whether somebody may have written what it is now.
    pub(super) may_be_meant: bool,
    /// Where the catalogue has its content.
    pub(super) copies: Vec<PathBuf>,
}
