//! Joins lost names with the new files that were moved from there. They keep their records and their history; a file
//! that was bad stays bad under its new name.
//!
//! A lost name is one whose file is gone, in the part of the tree where the walk was, elsewhere in it, or in
//! another tree of the catalogue. [`HEIRS`] says which of the files that the run recorded first is what was lost.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::finish::{PAGE, PathState, bad_verdict, last_known};
use super::top_directory::{Top, is_gone};
use super::writer::{AlgorithmNames, Writer};
use super::{FileFault, ScrubError, ScrubReport};
use crate::store::{
    CatalogRecord, Heir, Likeness, Moment, Position, RecordFinding, RecordName, Root, Seen, State,
};
use verisum_files::Verdict;

/// A row of the table from a lost name and a file that was found to what the file is. Its record goes with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeirRule {
    likeness: Likeness,
    /// What the file that was found is; `None` for what the lost one was, if that was bad, or changed and not accepted.
    verdict: Option<Verdict>,
}

/// Which file has the record of a lost name from now on: the first that there is, by the rows of this table.
/// `docs/verdicts.md` has the same in words.
pub(super) const HEIRS: [HeirRule; 4] = [
    HeirRule { likeness: Likeness::Itself, verdict: Some(Verdict::Moved) },
    HeirRule { likeness: Likeness::Content, verdict: Some(Verdict::Moved) },
    HeirRule { likeness: Likeness::File, verdict: None },
    HeirRule { likeness: Likeness::BadContent, verdict: None },
];

/// Where lost names come from.
#[derive(Clone, Copy)]
pub(super) enum Lost<'a> {
    /// They are missing. Only the very files are their heirs: nothing else is said of these then.
    Itself,
    /// They were bad, and are gone.
    Gone,
    /// They are bad, and may be gone where the walk was not.
    BadElsewhere,
    /// They are bad, and may be gone from another tree of the catalogue; or they were, and another file has the name.
    OfOther { root: &'a Root, top: &'a Top, was_replaced: bool },
    /// They are sound, and may be gone where the walk was not.
    SoundElsewhere,
    /// They are missing.
    Missing,
}

impl Writer<'_> {
    /// Gives all lost names of a kind their heirs.
    pub(super) fn join(&mut self, lost: Lost, names: &AlgorithmNames) -> Result<(), ScrubError> {
        let mut after = Position::START;
        loop {
            let page = self.lost(lost, &after)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = last.clone();
            for (Position { directory, name, .. }, record) in page {
                self.join_one(lost, &(directory, name), &record, names)?;
            }
        }
    }

    /// The same of those that were renamed out of other trees of the catalogue into this one.
    pub(super) fn join_other_roots(&mut self, names: &AlgorithmNames) -> Result<(), ScrubError> {
        if !self.catalog.has_fresh(self.scope.root.id)? {
            return Ok(());
        }
        for other in self.catalog.roots()? {
            if other.id == self.scope.root.id {
                continue;
            }
            // While its file system is not mounted nothing of it is gone.
            let top = Top::open(&other.path, self.options.one_file_system).ok();
            if let Some(top) = top.filter(|top| top.stat().inode == other.identity.inode) {
                self.join(Lost::OfOther { root: &other, top: &top, was_replaced: false }, names)?;
                let lost = Lost::OfOther { root: &other, top: &top, was_replaced: true };
                for (number, place, record, finding) in self.catalog.bad_before(other.id)? {
                    if self.give_heir(lost, &place, (&record, &finding), names)? {
                        self.catalog.forget_previous(number)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Some names that are, or may be, lost.
    fn lost(&self, lost: Lost, after: &Position) -> Result<Vec<(Position, CatalogRecord)>, ScrubError> {
        let (catalog, root) = (&*self.catalog, self.scope.root.id);
        let place = (after.directory, after.name.clone());
        let rows = match lost {
            Lost::BadElsewhere => return Ok(catalog.in_trouble(root, after, false, PAGE)?),
            Lost::OfOther { root, .. } => return Ok(catalog.in_trouble(root.id, after, false, PAGE)?),
            Lost::Itself | Lost::Missing => catalog.missing(root, &place, PAGE)?,
            Lost::Gone => catalog.gone(root, &place, PAGE)?,
            Lost::SoundElsewhere => catalog.may_be_renamed(root, false, &place, PAGE)?,
        };
        let position = |(directory, name)| Position { value: 0, directory, name };
        Ok(rows.into_iter().map(|(place, record)| (position(place), record)).collect())
    }

    fn join_one(
        &mut self,
        mut lost: Lost,
        place: &RecordName,
        record: &CatalogRecord,
        names: &AlgorithmNames,
    ) -> Result<(), ScrubError> {
        let is_bad = record.state.is_unforgiven();
        let finding = || self.catalog.finding(place.0, OsStr::from_bytes(&place.1));
        let is_lost = match &mut lost {
            Lost::Itself | Lost::Gone | Lost::Missing => true,
            Lost::BadElsewhere => is_bad && is_gone(&self.find(&self.path(place.0, &place.1)?)),
            Lost::SoundElsewhere => !is_bad && is_gone(&self.find(&self.path(place.0, &place.1)?)),
            Lost::OfOther { .. } if !is_bad => false,
            Lost::OfOther { root, top, was_replaced } => {
                let there = top.find(&self.path_in(root, place.0, &place.1)?);
                let inode =
                    finding()?.and_then(|finding| finding.read).map_or(record.inode, |read| read.inode);
                // No run may have seen yet that another file has its name.
                *was_replaced = there.as_ref().is_ok_and(|(_, stat)| stat.inode != inode);
                *was_replaced || is_gone(&there)
            }
        };
        if !is_lost {
            return Ok(());
        }
        let finding = finding()?.unwrap_or_default();
        self.give_heir(lost, place, (record, &finding), names).map(drop)
    }

    /// Gives the record of a lost name to the file that it is now, and reports that. Returns whether there is one.
    fn give_heir(
        &mut self,
        lost: Lost,
        place: &RecordName,
        (record, finding): (&CatalogRecord, &RecordFinding),
        names: &AlgorithmNames,
    ) -> Result<bool, ScrubError> {
        if record.state == State::DAMAGED {
            // It says nothing of any file.
            return Ok(false);
        }
        let root = self.scope.root.id;
        let is_bad = record.state.is_unforgiven();
        if is_bad && !matches!(lost, Lost::OfOther { .. }) {
            // There may be more of it than one heir.
            self.catalog.keep_previous(root, place.0, OsStr::from_bytes(&place.1), None)?;
        }
        // What was found last is what the file is known by.
        let last = finding.read.filter(|_| is_bad).unwrap_or(Seen::of(record));
        for rule in HEIRS {
            let is_for = match lost {
                Lost::Itself => rule.likeness == Likeness::Itself,
                // Of other trees only the file itself counts, and no copy.
                Lost::OfOther { .. } => rule.likeness == Likeness::File,
                _ => true,
            };
            if !is_for || rule.verdict.is_none() && !is_bad {
                continue;
            }
            // Those of the same tree are looked at when all others are known.
            let in_place = matches!(lost, Lost::OfOther { .. });
            for heir in self.catalog.heirs(root, (record, &last), rule.likeness, in_place)? {
                if self.is_heir(lost, rule.likeness, &heir, (record, finding)) {
                    self.hand_on((lost, place), rule, heir, (record, finding), names)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a file is the lost one, for all that is known of it besides.
    fn is_heir(
        &self,
        lost: Lost,
        likeness: Likeness,
        heir: &Heir,
        (record, finding): (&CatalogRecord, &RecordFinding),
    ) -> bool {
        match likeness {
            Likeness::BadContent => finding.read.is_some_and(|read| {
                let content = (record.algorithm, &read.digest);
                self.is_telling(&heir.place, content, finding.since).unwrap_or(true)
            }),
            Likeness::File => {
                let (root, is_on_device) = match lost {
                    Lost::OfOther { root, top, .. } => (root.id, self.is_on_device_of(top, &heir.place)),
                    _ => (self.scope.root.id, true),
                };
                is_on_device && self.may_be(&heir.place, (root, record), Some(finding.seen))
            }
            _ => true,
        }
    }

    /// Gives a record to a file, and reports what that is.
    fn hand_on(
        &mut self,
        (lost, place): (Lost, &RecordName),
        rule: HeirRule,
        heir: Heir,
        (record, finding): (&CatalogRecord, &RecordFinding),
        names: &AlgorithmNames,
    ) -> Result<(), ScrubError> {
        let root = self.scope.root.id;
        let owner = match lost {
            Lost::OfOther { root, .. } => root,
            _ => &self.scope.root,
        };
        let from = Some(self.path_in(owner, place.0, &place.1)?);
        let algorithm = names.get(&record.algorithm).cloned().unwrap_or_default();
        let (verdict, held) = rule.verdict.map_or(bad_verdict(record.state), |verdict| (verdict, false));
        let report = ScrubReport::new(self.path(heir.place.0, &heir.place.1)?, verdict);
        let report = ScrubReport { from, recorded: Some(Seen::of(record)), algorithm, held, ..report };
        if rule.verdict.is_some() {
            self.catalog.give_history(root, place, record, &heir, rule.likeness)?;
            self.summary.add(verdict, 1);
            (self.report)(report);
            return Ok(());
        }
        let last = finding.read.unwrap_or(Seen::of(record));
        let mut found = heir.seen;
        if !heir.is_comparable {
            found.digest = last.digest;
        }
        // The new name has moved the inode's time; that alone is no sign that somebody set a time back.
        let has_set_back = last.ctime != record.ctime || found.mtime != record.mtime;
        let ctime = if has_set_back { record.ctime } else { found.ctime };
        let since = Some(finding.since);
        let finding = RecordFinding { read: Some(found), ..finding.clone() };
        // Another file has the name and the record there.
        let is_taken = matches!(lost, Lost::OfOther { was_replaced: true, .. });
        let gone = (!is_taken).then_some((owner.id, place));
        let record = CatalogRecord { ctime, ..*record };
        self.catalog.hand_over(root, gone, (Some(heir.number), &heir.place), &record, finding)?;
        if heir.number == 0 {
            self.catalog.settle_heir(&heir.place)?;
        }
        self.summary.add(verdict, 1);
        (self.report)(ScrubReport { found: Some(found), since, ..report });
        Ok(())
    }

    /// Reports the names that are still lost when all files are known for what they are.
    pub(super) fn tell_all_missing(&mut self, names: &AlgorithmNames) -> Result<(), ScrubError> {
        let mut after = RecordName::default();
        loop {
            let page = self.catalog.missing(self.scope.root.id, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = last.clone();
            for (place, record) in page {
                let finding = self.catalog.finding(place.0, OsStr::from_bytes(&place.1))?.unwrap_or_default();
                // After an alarm the records that it replaced are put back.
                let heir = match self.summary.alarm {
                    None => self.catalog.heir_in_place(self.scope.root.id, &record)?,
                    Some(_) => None,
                };
                match heir {
                    Some(heir) => {
                        self.hand_on((Lost::Missing, &place), HEIRS[0], heir, (&record, &finding), names)?;
                    }
                    None => self.tell_missing(&place, (&record, &finding), names)?,
                }
            }
        }
    }

    /// Hands the records on of files that were renamed over others, from where the walk was not.
    pub(super) fn tell_renamed_over(&mut self, names: &AlgorithmNames) -> Result<(), ScrubError> {
        let (root, mut after) = (self.scope.root.id, RecordName::default());
        loop {
            let page = self.catalog.may_be_renamed(root, true, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = last.clone();
            for (place, record) in page.into_iter().filter(|(_, record)| record.state == State::Sound) {
                if is_gone(&self.find(&self.path(place.0, &place.1)?))
                    && let Some(heir) = self.catalog.heir_in_place(root, &record)?
                {
                    let finding = RecordFinding::default();
                    self.hand_on((Lost::Missing, &place), HEIRS[0], heir, (&record, &finding), names)?;
                }
            }
        }
    }

    fn tell_missing(
        &mut self,
        place: &RecordName,
        (record, finding): (&CatalogRecord, &RecordFinding),
        names: &AlgorithmNames,
    ) -> Result<(), ScrubError> {
        let since = finding.since.known().filter(|since| *since < self.news_since);
        match since {
            None => self.summary.add(Verdict::Missing, 1),
            Some(_) => self.summary.still_missing += 1,
        }
        if since.is_none() || self.options.archive || self.options.missing_fails {
            let report = ScrubReport::new(self.path(place.0, &place.1)?, Verdict::Missing);
            let algorithm = names.get(&record.algorithm).cloned().unwrap_or_default();
            (self.report)(ScrubReport { recorded: Some(Seen::of(record)), algorithm, since, ..report });
        }
        Ok(())
    }

    /// Reports what was bad and is gone, if no file that was found is that.
    pub(super) fn tell_all_gone(&mut self) -> Result<(), ScrubError> {
        let mut after = RecordName::default();
        loop {
            let page = self.catalog.gone(self.scope.root.id, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = last.clone();
            for (place, record) in page {
                self.tell_gone(&place, &record)?;
            }
        }
    }

    /// Being gone makes nothing good.
    fn tell_gone(&mut self, place: &RecordName, record: &CatalogRecord) -> Result<(), ScrubError> {
        self.catalog.note_gone(place.0, OsStr::from_bytes(&place.1))?;
        let (verdict, false) = bad_verdict(record.state) else { return Ok(()) };
        self.summary.add(verdict, 1);
        let error = match verdict {
            Verdict::RecordDamaged => FileFault::Gone,
            _ => FileFault::GoneBad,
        };
        let path = self.path(place.0, &place.1)?;
        (self.report)(ScrubReport { error: Some(error), ..ScrubReport::new(path, verdict) });
        Ok(())
    }

    /// Whether a fresh file may be that of a record of some root, which may have been `seen` to be bad later,
    /// because it has the inode that it had then. Inodes are used again: what was made since then, or has another
    /// generation, is another file.
    pub(super) fn may_be(
        &self,
        heir: &RecordName,
        (root, record): (i64, &CatalogRecord),
        seen: Option<Moment>,
    ) -> bool {
        let Some(Ok((entry, stat))) = self.find_place(heir) else { return true };
        if let Some(born) = entry.born() {
            return Moment::from(born) <= last_known(record).max(seen.unwrap_or_default());
        }
        let Ok(Some(generation)) = entry.open_regular().map(|file| verisum_files::generation(&file)) else {
            return true;
        };
        let verified = (stat.inode == record.inode).then_some(record.verified);
        let is_it = |read| self.catalog.has_generation(root, (stat.inode, read), generation).ok().flatten();
        seen.into_iter().chain(verified).find_map(is_it).unwrap_or(true)
    }

    /// Whether a file of the run's root is on the file system of another root's top.
    fn is_on_device_of(&self, top: &Top, heir: &RecordName) -> bool {
        let found = self.find_place(heir).and_then(|found| found.ok());
        found.is_some_and(|(_, stat)| top.stat().device == stat.device)
    }

    fn find_place(&self, place: &RecordName) -> Option<PathState> {
        self.path(place.0, &place.1).ok().map(|path| self.find(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules as `docs/verdicts.md` has them.
    fn table() -> String {
        let likeness = |likeness| match likeness {
            Likeness::Itself => "the recorded content, inode, length and time",
            Likeness::Content => "the recorded content",
            Likeness::File => "the inode, length and time, and different content",
            Likeness::BadContent => "the content that was found to be bad",
            Likeness::InodeAlone => "the inode",
        };
        let row = |rule: &HeirRule| {
            let was = if rule.verdict.is_none() { "bad" } else { "" };
            let verdict = rule.verdict.map_or("what the lost one was", Verdict::name);
            format!("| {was} | {} | {verdict} | goes with it |\n", likeness(rule.likeness))
        };
        let head = "| the lost file was | a new file has | it is | the record |\n|---|---|---|---|\n";
        HEIRS.iter().fold(head.to_string(), |table, rule| table + &row(rule))
    }

    #[test]
    fn the_page_on_scrubs_has_the_table_of_heirs() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verdicts.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&table()), "docs/verdicts.md must have this:\n{}", table());
    }
}
