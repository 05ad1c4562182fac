//! A row of a lake: the state of a file at one moment.

use std::sync::Arc;

use verisum_catalog::store::{Moment, Stamp, State};
use verisum_digest::Output;

/// What a file was when the row was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The path below the place, without a slash before it.
    pub path: Vec<u8>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Time of modification.
    pub mtime: Option<Stamp>,
    /// Time of the inode's last change.
    pub ctime: Option<Stamp>,
    /// The inode's number.
    pub inode: Option<u64>,
    /// The name of the digest.
    pub algorithm: Arc<str>,
    /// The digest.
    pub digest: Option<Output>,
    /// What was last thought of it; none if its record was removed.
    pub state: Option<State>,
    /// When it was first recorded.
    pub first_seen: Option<Moment>,
    /// When its content was last found to be new.
    pub changed: Option<Moment>,
    /// When its content was last compared; none for never.
    pub verified: Option<Moment>,
    /// When the row was written.
    pub exported: Moment,
    /// When the row was written that this one takes the place of.
    pub replaces: Option<Moment>,
}

impl Row {
    /// The row of a file whose record was removed.
    pub fn gone(last: &Row, exported: Moment) -> Row {
        Row {
            path: last.path.clone(),
            size: None,
            mtime: None,
            ctime: None,
            inode: None,
            algorithm: last.algorithm.clone(),
            digest: None,
            state: None,
            first_seen: None,
            changed: None,
            verified: None,
            exported,
            replaces: Some(last.exported),
        }
    }

    /// Whether two rows say the same of a file, whenever they were written.
    pub fn says_the_same(&self, other: &Row) -> bool {
        let Row { exported, replaces, .. } = *self;
        *self == Row { exported, replaces, ..other.clone() }
    }
}
