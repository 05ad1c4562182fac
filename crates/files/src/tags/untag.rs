//! Removes tags.

use std::fs::File;

use rustix::io::Errno;
use verisum_digest::Algorithm;

use super::files::each;
use super::locked_write::{Refusal, TagLock};
use super::session::Session;
use super::{Counts, Entries, TagOutcome, TagSink, TaggingOptions};
use crate::store::xattr::{Family, refused};
use crate::{Operation, Verdict};

/// Removes the tags of one family, and of one digest if one is given. Other attributes stay.
pub fn untag(
    entries: Entries,
    options: &TaggingOptions,
    algorithm: Option<&'static Algorithm>,
    report: TagSink,
) -> Counts {
    let session = Session::new(options, report);
    let family = options.family;
    each(&session, entries, &|opened| {
        let entry = &opened.entry;
        // A shatag time may have outlived its sum; other tags are seen when they are read.
        if opened.found.is_empty() && family != Family::Shatag {
            return session.plain(entry, TagOutcome::Judged(Verdict::New));
        }
        let removed = match options.dry {
            true => would_remove(family, &opened.file, algorithm).map_err(Refusal::from),
            false => TagLock::take(&opened.file)
                .map_err(Refusal::from)
                .and_then(|_held| Ok(family.remove(&opened.file, algorithm)?)),
        };
        match removed {
            Ok(true) => session.plain(entry, TagOutcome::Removed),
            Ok(false) => session.plain(entry, TagOutcome::Judged(Verdict::New)),
            Err(refusal) => session.refuse(entry, &opened.stat, Operation::RemoveAttribute, refusal),
        }
    });
    session.counts()
}

/// Whether there are tags that would be removed; fails where the file system would refuse.
fn would_remove(family: Family, file: &File, algorithm: Option<&Algorithm>) -> Result<bool, Errno> {
    let has = family.has(file, algorithm)?;
    refused(file).filter(|_| has).map_or(Ok(has), Err)
}
