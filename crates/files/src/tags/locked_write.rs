//! Writes and removes tags safely while other programs may do the same.

use std::fs::File;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use verisum_digest::{Algorithm, Output};

use crate::store::xattr::{Family, Stored};
use crate::{Record, Standing, Stat};

/// How often a lock is asked for, and how long is waited between. Our own hold one for microseconds.
const ATTEMPTS: u32 = 10;
const MOMENT: Duration = Duration::from_millis(2);

/// Why a tag is left as it is, though the system would let us change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// What stands there was written by somebody else since it was looked at.
    #[error("its tag was changed since it was compared")]
    Changed,
    /// Somebody removed it since it was looked at.
    #[error("its tag was removed since it was compared")]
    Removed,
    /// The new tag is no longer as it was written, so that the old one has to stay.
    #[error("its new tag was removed or changed (the old tag stays)")]
    Lost,
    /// Somebody holds a lock on the file.
    #[error("another program has locked it (the old tag stays)")]
    Locked,
}

/// Why a tag was not written or removed.
pub(super) enum Refusal {
    /// The system refused.
    System(Errno),
    /// We did.
    Conflict(Conflict),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::System(errno)
    }
}

impl From<Conflict> for Refusal {
    fn from(conflict: Conflict) -> Refusal {
        Refusal::Conflict(conflict)
    }
}

/// A lock on an open file, against others of us that replace its tags. Without it two that move tags in
/// opposite directions could each remove what the other relies on.
pub(super) struct TagLock<'f>(&'f File);

impl TagLock<'_> {
    /// Takes it. A file system that has no such locks does without.
    pub(super) fn take(file: &File) -> Result<TagLock<'_>, Conflict> {
        for attempt in 1.. {
            match flock(file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) if attempt == ATTEMPTS => return Err(Conflict::Locked),
                Err(Errno::WOULDBLOCK) => thread::sleep(MOMENT),
                _ => break,
            }
        }
        Ok(TagLock(file))
    }
}

impl Drop for TagLock<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// What was recorded of a file when it was looked at, perhaps hours ago.
#[derive(Clone, Copy)]
pub(super) struct Before<'r> {
    /// What was compared with the file.
    pub(super) judged: &'r [Record],
    /// Some of it stood where the new tag is to be, and not in the catalogue or in the place of another tag.
    pub(super) stood: bool,
}

impl Before<'_> {
    /// Of a file that had no tag.
    pub(super) const NOTHING: Before<'static> = Before { judged: &[], stood: false };
}

/// Writes a record where nothing stands but what was judged `before`, what says the same, and what is of an
/// older state of the file than `stat`. What stood there then has to stand there still: whoever removed it
/// wants none.
pub(super) fn put(
    family: Family,
    file: &File,
    stat: &Stat,
    record: &Record,
    before: Before,
) -> Result<(), Refusal> {
    let Before { judged, stood } = before;
    // Reading first would be one more call for each file of a first tagging.
    if judged.is_empty() && family.create(file, record)? {
        return Ok(());
    }
    let known: Vec<_> = judged.iter().chain([record]).map(|known| (known.algorithm, known.digest)).collect();
    match standing(family, file, record.algorithm) {
        Ok(found) if stood && found.is_empty() => Err(Conflict::Removed.into()),
        Ok(found) if !found.iter().all(|tag| is_known(tag, &known, stat)) => Err(Conflict::Changed.into()),
        // Where there are no attributes at all, writing one fails by itself.
        Ok(_) | Err(Errno::OPNOTSUPP) => Ok(family.write(file, record)?),
        Err(errno) => Err(errno.into()),
    }
}

/// What stands in the place for a digest.
pub(super) fn standing(family: Family, file: &File, algorithm: &Algorithm) -> Result<Vec<Stored>, Errno> {
    let mut found = Vec::new();
    family.read_place(file, algorithm, &mut found).map(|()| found)
}

/// Whether a tag says what is `known`, or is of an older state of the file than `stat`.
pub(super) fn is_known(tag: &Stored, known: &[(&Algorithm, Output)], stat: &Stat) -> bool {
    let Ok(tag) = tag else { return false };
    let is_older = tag.standing(stat) == Standing::Outdated
        && tag.modified.is_some_and(|recorded| recorded.time < stat.modified);
    is_older
        || known.iter().any(|(algorithm, digest)| (algorithm.id, *digest) == (tag.algorithm.id, tag.digest))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use verisum_digest::Digest;

    use super::*;

    #[test]
    fn a_tag_that_came_since_the_tags_were_read_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "content").unwrap();
        let file = File::open(&path).unwrap();
        let stat = Stat::of(&file).unwrap();
        let record_of = |content: &[u8]| {
            let digest = Digest::find("sha256").unwrap();
            Record::new(digest.algorithm().unwrap(), digest.hash(content).unwrap(), &stat, None)
        };
        let (theirs, ours) = (record_of(b"other"), record_of(b"content"));
        for family in [Family::Verisum, Family::Shatag, Family::Plain] {
            assert!(put(family, &file, &stat, &theirs, Before::NOTHING).is_ok(), "{family:?}");
            let refused = put(family, &file, &stat, &ours, Before::NOTHING);
            assert!(matches!(refused, Err(Refusal::Conflict(Conflict::Changed))), "{family:?}");
            let left = standing(family, &file, ours.algorithm).ok().unwrap();
            assert!(matches!(&left[..], [Ok(tag)] if tag.digest == theirs.digest), "{family:?}");
        }
    }

    #[test]
    fn a_tag_that_was_removed_since_the_tags_were_read_stays_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "content").unwrap();
        let file = File::open(&path).unwrap();
        let stat = Stat::of(&file).unwrap();
        let digest = Digest::find("sha256").unwrap();
        let output = digest.hash(b"content").unwrap();
        let record = Record::new(digest.algorithm().unwrap(), output, &stat, None);
        for family in [Family::Verisum, Family::Shatag, Family::Plain] {
            let before = Before { judged: &[record], stood: true };
            let refused = put(family, &file, &stat, &record, before);
            assert!(matches!(refused, Err(Refusal::Conflict(Conflict::Removed))), "{family:?}");
            assert!(standing(family, &file, record.algorithm).ok().unwrap().is_empty(), "{family:?}");
            // What the catalogue has goes into the file as soon as that takes it.
            assert!(put(family, &file, &stat, &record, Before { stood: false, ..before }).is_ok());
            assert!(put(family, &file, &stat, &record, before).is_ok(), "{family:?}");
        }
    }
}
