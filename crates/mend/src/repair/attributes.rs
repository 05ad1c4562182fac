//! The attributes of a new file: everything besides its content.

use std::fs::File;

use rustix::io::Errno;
use verisum_catalog::store::Stamp;
use verisum_files::Entry;
use verisum_files::place::{FileRights, KnownState};

use super::RepairFailure;
use super::source::{Candidate, Source};
use crate::metadata::Metadata;

/// Gives a new file what it is to have besides its content. Returns whether nothing told it.
pub(super) fn dressed(
    new: &File,
    old: Option<&File>,
    copy: Option<(&mut Source, &Candidate)>,
    modified: Option<Stamp>,
) -> Result<bool, RepairFailure> {
    let model = match (old, copy) {
        (Some(old), _) => Model::Old(old),
        (None, None) => Model::None,
        (None, Some((source, candidate))) if source.place.is_here() => {
            let opened = Entry::followed(candidate.here()).and_then(|entry| entry.open_regular());
            opened.map_or(Model::None, Model::Copy)
        }
        (None, Some((source, candidate))) => {
            source.place.state(&candidate.path).map_or(Model::None, Model::Known)
        }
    };
    let is_usual = matches!(model, Model::None | Model::Known(KnownState { rights: None, .. }));
    match dress(new, &model, old.is_some(), modified) {
        Ok(true) => Ok(is_usual),
        Ok(false) => Err(RepairFailure::Attributes),
        Err(errno) => Err(RepairFailure::Times(errno)),
    }
}

/// What has what a new file is to have besides its content.
enum Model<'f> {
    /// The old file.
    Old(&'f File),
    /// A copy of it.
    Copy(File),
    /// A copy of which only this is known.
    Known(KnownState),
    None,
}

/// Gives a new file what the old one has besides its content, or else what the copy has, and the recorded time.
/// Returns whether it took everything.
fn dress(new: &File, model: &Model, is_of_old: bool, modified: Option<Stamp>) -> Result<bool, Errno> {
    let file = match model {
        Model::Old(file) => Some(*file),
        Model::Copy(file) => Some(file),
        Model::Known(_) | Model::None => None,
    };
    let mut metadata = Metadata::new(&rustix::fs::fstat(file.unwrap_or(new))?);
    if let Some(file) = file {
        metadata.read_attributes(file, false);
    }
    if let Model::Known(known) = model {
        if let Some(FileRights { mode, user, group }) = known.rights {
            // Nobody vouches for more than the usual permissions.
            (metadata.mode, metadata.user, metadata.group) = (mode & 0o777, user, group);
        }
        if let Some(modified) = known.original.or(known.now.modified) {
            metadata.times.last_modification = modified.time.to_timespec();
        }
    }
    if let Some(modified) = modified {
        metadata.times.last_modification = modified.timestamp().to_timespec();
    }
    let is_whole = metadata.apply(new, true, false)?;
    // A file that is made again may get another owner, as any copy does.
    Ok(is_whole || !is_of_old)
}
