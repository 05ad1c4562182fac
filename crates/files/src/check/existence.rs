//! Checks files that a list has without a digest: whether they exist, with the same kind and length.

use std::sync::Arc;

use super::group::is_missing;
use super::listed_path::ListedPath;
use super::{CheckOutcome, Difference};
use crate::Kind;
use crate::store::manifest::Listed;

/// Compares what is listed with what is there, without reading that.
pub(super) fn present(place: &ListedPath, listed: &Listed) -> CheckOutcome {
    // The target of a link is what a list of files means, unless it says that there is a link.
    let entry = match listed.kind {
        Some(Kind::Link) => place.unfollowed(),
        _ => place.entry(),
    };
    // Standard input is there, and that is all there is to say of it.
    let Some(entry) = entry else { return CheckOutcome::Present { sized: false } };
    match entry.and_then(|entry| entry.stat()) {
        Ok(stat) => match difference(listed, stat.kind, stat.size) {
            Some(difference) => CheckOutcome::Unlike(difference),
            None => CheckOutcome::Present { sized: has_length(listed, stat.kind) },
        },
        Err(error) if listed.optional && is_missing(&error) => CheckOutcome::Absent,
        Err(error) => CheckOutcome::of_error(Arc::new(error)),
    }
}

fn difference(listed: &Listed, kind: Kind, size: u64) -> Option<Difference> {
    match (listed.kind, listed.size) {
        (Some(listed), _) if listed != kind => Some(Difference::Kind { listed, found: kind }),
        (_, Some(listed)) if kind == Kind::File && listed != size => {
            Some(Difference::Size { listed, found: size })
        }
        _ => None,
    }
}

/// Whether a length is listed that means something: that of a directory is its file system's affair.
fn has_length(listed: &Listed, kind: Kind) -> bool {
    listed.size.is_some() && kind == Kind::File
}
