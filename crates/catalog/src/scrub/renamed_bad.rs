//! The last check of what a run recorded: bad data must not become a record under another name.
//!
//! A file that was recorded first, or whose record was replaced, is as bad as another record says if it is the
//! very file of that record, or of what was found there, by inode, length and time of modification, and has not
//! the recorded content. The same holds if it has the content that was found to be bad and is no longer where
//! that was, unless that content says nothing: a good file had it before, or it is one byte again and again.
//!
//! A record belongs to the file that has its inode, and a name only comes second: the record goes with its file to a
//! new name, and the file is then what it would be had it kept its name. The record stays where it is only if the
//! record of another file would be lost for it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use verisum_digest::Output;

use super::finish::{PAGE, bad_verdict, is_one_file};
use super::judge::state_after;
use super::top_directory::is_gone;
use super::writer::{AlgorithmNames, Writer};
use super::{FileFault, ScrubError, ScrubReport};
use crate::store::{
    CatalogRecord, Copied, KnownBad, Likeness, Moment, RecordName, Seen, State, Succession, Trouble,
};
use verisum_files::{Comparison, Evidence, SecondRead, Verdict, VerdictClass};

impl Writer<'_> {
    /// Takes from files that are bad under another name what the run recorded of them, and reports them.
    /// `with_sound` also looks at the records of places where the walk was not.
    pub(super) fn judge_known_bad(
        &mut self,
        with_sound: bool,
        names: &AlgorithmNames,
    ) -> Result<(), ScrubError> {
        let root = self.scope.root.id;
        self.catalog.find_known_bad(root, with_sound, self.options.started())?;
        let mut after = 0;
        let mut all: Vec<KnownBad> = Vec::new();
        loop {
            let page = self.catalog.known_bad(after, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            after = *last;
            for (_, bad) in page {
                let is_done = all.last().is_some_and(|last| last.heir == bad.heir);
                if !is_done && self.is_the_file(&bad)? {
                    all.push(bad);
                }
            }
        }
        self.catalog.drop_known_bad()?;
        let claims = self.claims(&all)?;
        let follows = followers(&claims);
        // As long as all that was replaced is there to compare with.
        let mut copies = self.catalog.copied_with_their_time(root)?;
        copies.retain(|copy| !all.iter().any(|bad| bad.heir == copy.place));
        for ((bad, follows), claim) in all.iter().zip(follows).zip(claims) {
            if follows || bad.told.is_none() {
                // What has that name and follows a record too is dealt with by itself.
                let there = claim.there.filter(|_| claim.known.is_none());
                self.mark_bad(bad, (follows, there), names)?;
            }
        }
        self.judge_copies(copies, names)
    }

    /// What decides of each of these files which record its name has from now on.
    fn claims(&self, all: &[KnownBad]) -> Result<Vec<Claim>, ScrubError> {
        let by_heir: HashMap<&RecordName, usize> = all.iter().map(|one| &one.heir).zip(0..).collect();
        // Whatever name the record was found by: it may have been of several.
        let by_record: HashMap<_, usize> = all.iter().map(|one| identity(&one.record)).zip(0..).collect();
        let claim = |bad: &KnownBad| {
            let Succession { is_free, there, own, own_found } = self.catalog.succession(bad)?;
            let there = self.elsewhere(bad)?.or(there);
            // A name that was bad before has its record until that has found its file, or the content is back.
            let was_bad = bad.was_told && own.is_some_and(|own| own.state.is_corrupt());
            let is_back = was_bad || self.catalog.is_back(bad, there)?;
            let is_own_there =
                own.is_some_and(|own| there == Some(own.inode) && self.is_at(&bad.known, &own));
            Ok(Claim {
                is_free: is_free || there.is_some(),
                there: there.map(|inode| (inode, is_own_there)),
                known: by_heir.get(&bad.known).copied(),
                is_own_safe: own.is_none()
                    || is_own_there
                    || own_found.iter().any(|place| !by_heir.contains_key(place)),
                own_heir: own.and_then(|own| by_record.get(&identity(&own)).copied()),
                is_back,
            })
        };
        all.iter().map(claim).collect()
    }

    /// Whether the very file of a record is at a place.
    fn is_at(&self, place: &RecordName, record: &CatalogRecord) -> bool {
        let there = self.path(place.0, &place.1).ok().and_then(|path| self.find(&path).ok());
        there.is_some_and(|(_, stat)| {
            let Seen { size, mtime, inode, .. } = Seen::new(&stat, record.digest);
            (size, mtime, inode) == (record.size, record.mtime, record.inode)
                && self.may_be(place, (self.scope.root.id, record), None)
        })
    }

    /// The inode that the name of a record has, if that is another one than that of the file that was found; 0 if
    /// nothing is there. This run need not have looked there.
    fn elsewhere(&self, bad: &KnownBad) -> Result<Option<u64>, ScrubError> {
        if self.scope.root.is_remote() || bad.likeness != Likeness::File {
            return Ok(None);
        }
        let there = self.find(&self.path(bad.known.0, &bad.known.1)?);
        let inode = if is_gone(&there) { Some(0) } else { there.ok().map(|(_, stat)| stat.inode) };
        Ok(inode.filter(|inode| *inode != bad.seen.inode))
    }

    /// Calls files suspicious that took the place of others, with different content and the very time of
    /// modification, where that is nobody else's time.
    fn judge_copies(&mut self, copies: Vec<Copied>, names: &AlgorithmNames) -> Result<(), ScrubError> {
        let root = self.scope.root.id;
        let evidence = Evidence::Compared(Comparison {
            same_digest: false,
            same_mtime: true,
            same_ctime: None,
            same_file: Some(false),
            time_tells: true,
            second: SecondRead::Same,
        });
        let verdict = evidence.verdict();
        let state = State::Trouble(Trouble::Verdict(verdict));
        for Copied { place, old, new } in copies {
            let read = Seen::of(&new);
            self.catalog.put_back(root, &place, (state, self.options.started()), read)?;
            self.summary.add(verdict, 1);
            let (recorded, found) = (Some(Seen::of(&old)), Some(read));
            let algorithm = names.get(&old.algorithm).cloned().unwrap_or_default();
            let report = ScrubReport::new(self.path(place.0, &place.1)?, verdict);
            (self.report)(ScrubReport { recorded, found, algorithm, ..report });
        }
        Ok(())
    }

    /// Reports a file that was called bad under its name, as long as the record of another was there, and is as its own
    /// record says.
    fn tell_restored(
        &mut self,
        bad: &KnownBad,
        record: &CatalogRecord,
        names: &AlgorithmNames,
    ) -> Result<(), ScrubError> {
        self.doubtful.retain(|(place, _)| *place != bad.heir);
        self.summary.add(Verdict::Ok, 1);
        let (recorded, found) = (Some(Seen::of(&bad.record)), Some(Seen::of(record)));
        let algorithm = names.get(&record.algorithm).cloned().unwrap_or_default();
        let report = ScrubReport::new(self.path(bad.heir.0, &bad.heir.1)?, Verdict::Ok);
        (self.report)(ScrubReport { restored: true, recorded, found, algorithm, ..report });
        Ok(())
    }

    /// Whether a file is the one that the other record is of. Inodes are used again.
    fn is_the_file(&self, bad: &KnownBad) -> Result<bool, ScrubError> {
        let KnownBad { heir, known, record, found, likeness, .. } = bad;
        if bad.was_told && !self.scope.root.is_remote() {
            // This run need not have looked at it.
            let there = self.find(&self.path(heir.0, &heir.1)?);
            if is_gone(&there) || there.is_ok_and(|(_, stat)| stat.inode != bad.seen.inode) {
                return Ok(false);
            }
        }
        // A good file may have had the name of a bad one, and be under its own again.
        let root = self.scope.root.id;
        if let Some((since, _)) = *found
            && self.catalog.was_recorded_before(root, record.algorithm, &bad.seen, since)?
        {
            return Ok(false);
        }
        if *likeness == Likeness::BadContent {
            let since = found.map_or(Moment::MAX, |(since, _)| since);
            return self.is_telling(heir, (record.algorithm, &bad.seen.digest), since);
        }
        // It may be back under its own name, where another was well meanwhile.
        let is_same = known != heir && self.are_one_file(known, heir)?;
        if found.is_some() && is_same {
            // Once it is well under one name it is under all.
            let state = self.catalog.record(known.0, OsStr::from_bytes(&known.1))?.map(|now| now.state);
            return Ok(state != Some(State::Sound));
        }
        let seen = found.map(|(_, seen)| seen);
        Ok(*likeness == Likeness::File && self.may_be(heir, (self.scope.root.id, record), seen))
    }

    /// Whether a content that was found to be bad at some time says of a file that has it that this is
    /// bad too.
    pub(super) fn is_telling(
        &self,
        heir: &RecordName,
        content: (i64, &Output),
        since: Moment,
    ) -> Result<bool, ScrubError> {
        if self.catalog.was_good_before(self.scope.root.id, content, since)? {
            return Ok(false);
        }
        let found = self.find(&self.path(heir.0, &heir.1)?);
        let file = found.and_then(|(entry, _)| entry.open_regular());
        Ok(!file.is_ok_and(|file| is_one_byte(file).unwrap_or(false)))
    }

    fn mark_bad(
        &mut self,
        bad: &KnownBad,
        (follows, there): (bool, Option<(u64, bool)>),
        names: &AlgorithmNames,
    ) -> Result<(), ScrubError> {
        let KnownBad { heir, known, told, .. } = bad;
        let verdict = match (told, bad_verdict(bad.record.state).0) {
            // As if it had been found so under the name of its record.
            (Some(State::Trouble(Trouble::Verdict(found))), _) => state_after(bad.record.state, *found).0,
            (_, bad) if bad.class() == VerdictClass::Corrupt => bad,
            _ => Verdict::Suspicious,
        };
        let state = State::Trouble(Trouble::Verdict(verdict));
        let from = match self.are_one_file(known, heir)? {
            true => None,
            false => Some(self.path(known.0, &known.1)?),
        };
        let (root, now) = (self.scope.root.id, self.options.started());
        let record = self.catalog.mark_bad(root, bad, (follows, there), (state, now))?;
        if record.state == State::Sound {
            return self.tell_restored(bad, &record, names);
        }
        let (recorded, found) = (Some(Seen::of(&record)), Some(bad.seen));
        let algorithm = names.get(&record.algorithm).cloned().unwrap_or_default();
        if told.is_some() {
            let told = self.doubtful.iter_mut().find(|(place, _)| place == heir);
            if let Some((_, report)) = told {
                let found = report.found.and(found);
                let error = match report.error.take() {
                    Some(FileFault::Past { now, .. }) => Some(*now),
                    error => error,
                };
                *report = ScrubReport { verdict, from, recorded, found, algorithm, error, ..report.clone() };
            }
            return Ok(());
        }
        self.summary.add(verdict, 1);
        let report = ScrubReport::new(self.path(heir.0, &heir.1)?, verdict);
        (self.report)(ScrubReport { from, recorded, found, algorithm, ..report });
        Ok(())
    }

    fn are_one_file(&self, one: &RecordName, other: &RecordName) -> Result<bool, ScrubError> {
        let find = |place: &RecordName| Ok::<_, ScrubError>(self.find(&self.path(place.0, &place.1)?));
        Ok(is_one_file(&find(one)?, &find(other)?))
    }
}

/// What tells a record from others.
fn identity(record: &CatalogRecord) -> (i64, u64, Vec<u8>) {
    (record.algorithm, record.inode, record.digest.as_bytes().to_vec())
}

/// What decides which record the name of a bad file has from now on: its own, or that of the file.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// The record of the file was replaced under the name that it is of, or the name has another record, another file, or
    /// none.
    is_free: bool,
    /// The inode of what has that name, where another one is known, and whether that is the file which the name of this
    /// one was recorded of; 0 if nothing has it.
    there: Option<(u64, bool)>,
    /// The bad file that has that name now, if one does.
    known: Option<usize>,
    /// The name of the file has no record, or the file that it was recorded of is under another name, as it was
    /// recorded.
    is_own_safe: bool,
    /// The bad file that it is, if it is one.
    own_heir: Option<usize>,
    /// The record of the file is not lost where it stays.
    is_back: bool,
}

/// Which of these files take their records with them. A record follows its file if nothing else is to be compared
/// with it where it was. It does not if the record of the name that the file has now would be lost for it, while its own
/// content is found elsewhere: the other's file is not known to be well under another name, nor takes its record along.
/// If one of two is lost, it is that of the file that was overwritten, and not that of the file that rotted.
fn followers(all: &[Claim]) -> Vec<bool> {
    let mut follows = vec![true; all.len()];
    loop {
        let mut is_settled = true;
        for (at, one) in all.iter().enumerate() {
            let is_free = one.is_free && one.known.is_none_or(|known| follows[known]);
            let is_safe = one.is_own_safe || one.own_heir.is_some_and(|heir| follows[heir]) || !one.is_back;
            if follows[at] && !(is_free && is_safe) {
                (follows[at], is_settled) = (false, false);
            }
        }
        if is_settled {
            return follows;
        }
    }
}

/// Whether all bytes are the same.
fn is_one_byte(mut file: impl Read) -> io::Result<bool> {
    let mut buffer = vec![0; 1 << 16];
    let mut first = None;
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(read) => &buffer[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let byte = *first.get_or_insert(read[0]);
        if read.iter().any(|other| *other != byte) {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bad file whose record was replaced: the bad files at its former name, and that are its name's own.
    fn one(known: Option<usize>, is_own_safe: bool, own_heir: Option<usize>) -> Claim {
        Claim { is_free: true, there: None, known, is_own_safe, own_heir, is_back: true }
    }

    #[test]
    fn a_record_follows_its_file_unless_another_is_lost() {
        // One bad file and a good one have changed places.
        assert_eq!(followers(&[one(None, true, None)]), [true]);
        // It took the place of one that is gone, and its content is back, or is nowhere.
        assert_eq!(followers(&[one(None, false, None)]), [false]);
        assert_eq!(followers(&[Claim { is_back: false, ..one(None, false, None) }]), [true]);
        // Two and three bad ones have changed places.
        assert_eq!(followers(&[one(Some(1), false, Some(1)), one(Some(0), false, Some(0))]), [true; 2]);
        let ring = [one(Some(2), false, Some(1)), one(Some(0), false, Some(2)), one(Some(1), false, Some(0))];
        assert_eq!(followers(&ring), [true; 3]);
        // A row of them at whose end one is gone: each keeps the record of its name.
        let row = [one(None, false, Some(1)), one(Some(0), false, Some(2)), one(Some(1), false, None)];
        assert_eq!(followers(&row), [false; 3]);
        let held = Claim { is_free: false, ..one(None, true, None) };
        assert_eq!(followers(&[held]), [false]);
    }
}
