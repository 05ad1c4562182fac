//! The attributes of a new file: everything besides its content.

use std::fs::File;

use rustix::io::Errno;
use verisum_catalog::store::Stamp;
use verisum_files::Entry;
use verisum_files::place::{FileRights, KnownState};

use super::source::{Candidate, Source};
use crate::metadata::Metadata;

/// Gives a new file what it is to have besides its content. Returns whether nothing told it.
///
/// # Errors
/// The outer one is the old file's, the inner one the new file's.
pub(super) fn dressed(
    new: &File,
    old: Option<&File>,
    copy: Option<(&mut Source, &Candidate)>,
    modified: Option<Stamp>,
) -> Result<Result<bool, String>, String> {
    let model = match (old, copy) {
        (Some(old), _) => Model::File(old.try_clone().map_err(|error| format!("open: {error}"))?),
        (None, None) => Model::None,
        (None, Some((source, candidate))) if source.place.is_here() => {
            let opened = Entry::followed(candidate.here()).and_then(|entry| entry.open_regular());
            opened.map_or(Model::None, Model::File)
        }
        (None, Some((source, candidate))) => {
            source.place.state(&candidate.path).map_or(Model::None, Model::Known)
        }
    };
    let is_usual = matches!(model, Model::None | Model::Known(KnownState { rights: None, .. }));
    Ok(match dress(new, &model, old.is_some(), modified) {
        Ok(true) => Ok(is_usual),
        Ok(false) => Err("its owner, group, mode or attributes cannot be kept (root may)".to_string()),
        Err(errno) => Err(format!("keep its times: {errno}")),
    })
}

/// What has what a new file is to have besides its content.
enum Model {
    /// The old file, or its copy.
    File(File),
    /// A copy of which only this is known.
    Known(KnownState),
    None,
}

/// Gives a new file what the old one has besides its content, or else what the copy has, and the recorded time.
/// Returns whether it took everything.
fn dress(new: &File, model: &Model, is_of_old: bool, modified: Option<Stamp>) -> Result<bool, Errno> {
    let mut metadata = match model {
        Model::File(file) => {
            let mut metadata = Metadata::new(&rustix::fs::fstat(file)?);
            metadata.read_attributes(file, false);
            metadata
        }
        _ => Metadata::new(&rustix::fs::fstat(new)?),
    };
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
