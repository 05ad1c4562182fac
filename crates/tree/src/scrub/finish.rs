//! What can be said only at the end: what was moved, what is missing, and whether too much changed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::jobs::Outcome;
use super::top::{Top, is_gone};
use super::writer::{Names, Writer, seen};
use super::{Error, Report, Summary};
use crate::store::catalog::{self, Catalog, Place, Position, Record, Root, Seen, State, Trouble};
use crate::{Entry, Kind, Stat, Verdict};

/// How many missing files are looked at at once.
pub(super) const PAGE: usize = 1024;

/// What is at a path.
pub(super) type Found = Result<(Entry, Stat), crate::Error>;

impl Writer<'_> {
    /// Ends the run, in one transaction: what was moved keeps its history, and what was replaced is
    /// final or put back. A run that was interrupted has not seen enough to say so; like one that was
    /// killed it leaves that to the next.
    pub(super) fn finish(mut self, outcome: &Outcome) -> Result<Summary, Error> {
        if !outcome.is_interrupted {
            self.catalog.begin()?;
            let finished = self.settle(outcome);
            match finished {
                Ok(()) => self.catalog.commit()?,
                Err(error) => {
                    self.catalog.roll_back();
                    return Err(error);
                }
            }
        }
        if let Some(root) = self.catalog.root(&self.scope.root.path)? {
            (self.summary.files, self.summary.bytes) = (root.files, root.bytes);
        }
        self.summary.held = self.catalog.held(self.scope.root.id)?;
        self.summary.waiting = outcome.waiting;
        self.summary.given_up = outcome.given_up;
        self.summary.not_tried = outcome.not_tried;
        self.summary.mount_points = outcome.mount_points;
        self.summary.oldest = self.catalog.oldest(self.scope.root.id)?;
        self.summary.unlisted = outcome.unlisted;
        self.summary.complete = outcome.is_complete;
        self.summary.interrupted = outcome.is_interrupted;
        Ok(self.summary)
    }

    fn settle(&mut self, outcome: &Outcome) -> Result<(), Error> {
        let root = self.scope.root.id;
        let names = self.catalog.algorithms()?;
        self.catalog.index_fresh()?;
        for (directory, device) in &outcome.mounted {
            self.catalog.set_device(*directory, *device)?;
        }
        // Only a walk that was everywhere knows what is gone.
        let was_everywhere = outcome.is_through
            && outcome.unlisted + outcome.not_tried == 0
            && self.options.excludes.is_none()
            && self.scope.directory == self.scope.root.directory;
        self.catalog.settle_unread(root, if was_everywhere { self.options.now } else { i64::MIN })?;
        self.resolve_renamed(&names)?;
        self.resolve_gone(&names)?;
        // What else there is on another machine nobody can look at from here.
        if !self.scope.root.is_afar() {
            if !was_everywhere {
                self.resolve_elsewhere(&names)?;
            }
            self.resolve_other_roots(&names)?;
        }
        let has_heirs = self.catalog.has_heirs()?;
        let looks_elsewhere = !was_everywhere && !self.scope.root.is_afar();
        if has_heirs && looks_elsewhere {
            self.resolve_hidden(&names)?;
        }
        self.resolve_missing(&names)?;
        if has_heirs {
            self.condemn(looks_elsewhere, &names)?;
        }
        self.catalog.settle_former(root)?;
        self.report_new(&names)?;
        self.report_modified(&names)?;
        self.summary.alarm = self.too_much(outcome)?;
        if self.summary.alarm.is_none() {
            return Ok(self.catalog.keep_replacements(root)?);
        }
        self.catalog.hold_replacements(root, self.options.now)?;
        self.catalog.hold_missing(root, self.news_since)?;
        self.hold_waiting(&names)
    }

    /// Holds the changed files that were not read, and reports them.
    fn hold_waiting(&mut self, names: &Names) -> Result<(), Error> {
        let (catalog, top) = (&*self.catalog, &self.scope.root.path);
        let report = &mut *self.report;
        let mut folders = Folders::default();
        catalog.hold_waiting(self.scope.root.id, self.options.now, &mut |(directory, name), record| {
            let Some(folder) = folders.path(catalog, directory) else { return };
            let path = top.join(folder).join(OsStr::from_bytes(&name));
            report(Report {
                held: true,
                recorded: Some(seen(&record)),
                algorithm: names.get(&record.algorithm).cloned().unwrap_or_default(),
                error: Some("it was written to, and was not read yet".to_string()),
                ..Report::new(path, Verdict::Modified)
            });
        })?;
        Ok(folders.failed.map_or(Ok(()), Err)?)
    }

    /// Reports the new files that are nobody's heirs.
    fn report_new(&mut self, names: &Names) -> Result<(), Error> {
        let (catalog, top) = (&*self.catalog, &self.scope.root.path);
        let (report, summary) = (&mut *self.report, &mut self.summary);
        let mut folders = Folders::default();
        catalog.take_fresh(self.scope.root.id, &mut |(directory, name), record| {
            let Some(folder) = folders.path(catalog, directory) else { return };
            summary.add(Verdict::New, 1);
            let found = Some(seen(&record));
            let algorithm = names.get(&record.algorithm).cloned().unwrap_or_default();
            let path = top.join(folder).join(OsStr::from_bytes(&name));
            report(Report { found, algorithm, ..Report::new(path, Verdict::New) });
        })?;
        Ok(folders.failed.map_or(Ok(()), Err)?)
    }

    /// Reports the files whose records were replaced.
    fn report_modified(&mut self, names: &Names) -> Result<(), Error> {
        let (catalog, top) = (&*self.catalog, &self.scope.root.path);
        let (report, summary) = (&mut *self.report, &mut self.summary);
        let mut folders = Folders::default();
        catalog.each_replaced(self.scope.root.id, &mut |(directory, name), old, new| {
            let Some(folder) = folders.path(catalog, directory) else { return };
            summary.add(Verdict::Modified, 1);
            let (recorded, found) = (Some(seen(&old)), Some(seen(&new)));
            let algorithm = names.get(&old.algorithm).cloned().unwrap_or_default();
            let path = top.join(folder).join(OsStr::from_bytes(&name));
            report(Report { recorded, found, algorithm, ..Report::new(path, Verdict::Modified) });
        })?;
        Ok(folders.failed.map_or(Ok(()), Err)?)
    }

    /// The file that a missing one was renamed to, if its content is another since.
    fn altered_heir(&self, place: &Place, record: &Record) -> Result<Option<(Place, Seen)>, Error> {
        let suspicious = State::Trouble(Trouble::Verdict(Verdict::Suspicious));
        let now = self.options.now;
        let may_be = |heir: &Place| self.may_be(heir, last_known(record));
        Ok(self.catalog.inherit_altered(self.scope.root.id, place, record, (suspicious, now), &may_be)?)
    }

    /// Whether a fresh file may be one that was last known to be there at some time, in milliseconds since
    /// 1970, because it has the inode. Inodes are used again: what was made since then is another file.
    pub(super) fn may_be(&self, heir: &Place, last_known: i64) -> bool {
        let found = self.path(heir.0, &heir.1).ok().and_then(|path| self.find(&path).ok());
        found.and_then(|(entry, _)| entry.born()).is_none_or(|born| born <= last_known)
    }

    pub(super) fn find(&self, path: &Path) -> Found {
        self.scope.find(path, self.options)
    }

    /// Whether a file has the content that is recorded of another.
    fn is_restored(&self, heir: &Place, record: &Record) -> bool {
        let found = self.catalog.record(heir.0, OsStr::from_bytes(&heir.1)).ok().flatten();
        found.is_some_and(|found| (found.algorithm, found.digest) == (record.algorithm, record.digest))
    }

    /// Whether a file of the run's root is on the file system of another root's top.
    fn is_on_device_of(&self, other: &Root, heir: &Place) -> bool {
        let top = Top::open(&other.path, self.options.one_file_system).ok();
        let found = self.path(heir.0, &heir.1).ok().and_then(|path| self.find(&path).ok());
        found.is_some_and(|(_, stat)| top.is_some_and(|top| top.stat().device == stat.device))
    }

    /// Gives files that were bad, or changed and were never accepted, and are gone their heirs, and reports
    /// what they are now. Being renamed makes nothing good: only the recorded content does.
    fn resolve_gone(&mut self, names: &Names) -> Result<(), Error> {
        let mut after: Place = (i64::MIN, Vec::new());
        loop {
            let page = self.catalog.gone(self.scope.root.id, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = last.clone();
            for (place, record) in page {
                if self.hand_down(&self.scope.root, &place, &record, names)? {
                    continue;
                }
                let (verdict, false) = bad_verdict(record.state) else { continue };
                self.summary.add(verdict, 1);
                let error = match verdict {
                    Verdict::RecordDamaged => "it is gone",
                    _ => "it is gone, and what it was when it was last seen is as bad",
                };
                let path = self.path(place.0, &place.1)?;
                (self.report)(Report { error: Some(error.to_string()), ..Report::new(path, verdict) });
            }
        }
    }

    /// Does the same with those that the walk has not come to, where it was not everywhere, as far as they
    /// have heirs: afterwards these would not be new any more.
    fn resolve_elsewhere(&mut self, names: &Names) -> Result<(), Error> {
        let mut after = Position::START;
        loop {
            let page = self.catalog.in_trouble(self.scope.root.id, &after, false, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = last.clone();
            for (Position { directory, name, .. }, record) in page {
                if record.state.is_unforgiven() && is_gone(&self.find(&self.path(directory, &name)?)) {
                    self.hand_down(&self.scope.root, &(directory, name), &record, names)?;
                }
            }
        }
    }

    /// Does the same with those that were renamed out of other trees of the catalogue into this one.
    fn resolve_other_roots(&mut self, names: &Names) -> Result<(), Error> {
        if !self.catalog.has_fresh(self.scope.root.id)? {
            return Ok(());
        }
        for other in self.catalog.roots()? {
            if other.id == self.scope.root.id {
                continue;
            }
            // While its file system is not mounted nothing of it is gone.
            let top = Top::open(&other.path, self.options.one_file_system).ok();
            let Some(top) = top.filter(|top| top.stat().inode == other.identity.inode) else { continue };
            let mut after = Position::START;
            loop {
                let page = self.catalog.in_trouble(other.id, &after, false, PAGE)?;
                let Some((last, _)) = page.last() else { break };
                after = last.clone();
                for (Position { directory, name, .. }, record) in page {
                    let path = self.path_in(&other, directory, &name)?;
                    if record.state.is_unforgiven() && is_gone(&top.find(&path)) {
                        self.hand_down(&other, &(directory, name), &record, names)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives the record of one that is gone from a root to the file that it is now in that of the run, and
    /// reports that; whether there is such a file. Out of another root only the file itself counts, and no
    /// copy.
    fn hand_down(
        &mut self,
        owner: &Root,
        place: &Place,
        record: &Record,
        names: &Names,
    ) -> Result<bool, Error> {
        let (verdict, held) = bad_verdict(record.state);
        if verdict == Verdict::RecordDamaged {
            // It says nothing of any file.
            return Ok(false);
        }
        let root = self.scope.root.id;
        let is_own = owner.id == root;
        if is_own {
            // There may be more of it than one heir.
            self.catalog.keep_former(root, place.0, OsStr::from_bytes(&place.1), None)?;
            if let Some(heir) = self.catalog.inherit(root, place, record, false)? {
                self.tell_moved(place, &heir, record, names)?;
                return Ok(true);
            }
        }
        let from = Some(self.path_in(owner, place.0, &place.1)?);
        let algorithm = names.get(&record.algorithm).cloned().unwrap_or_default();
        let recorded = Some(seen(record));
        let finding = self.catalog.finding(place.0, OsStr::from_bytes(&place.1))?.unwrap_or_default();
        let last_known = last_known(record).max(finding.seen);
        let may_be = |heir: &Place, by_content: bool| match (is_own, by_content) {
            (true, true) => finding.read.is_none_or(|read| {
                let content = (record.algorithm, &read.digest);
                self.is_telling(heir, content, finding.since).unwrap_or(true)
            }),
            (true, false) => self.may_be(heir, last_known),
            (false, true) => false,
            (false, false) => {
                !self.is_restored(heir, record)
                    && self.is_on_device_of(owner, heir)
                    && self.may_be(heir, last_known)
            }
        };
        let heir = self.catalog.inherit_bad((owner.id, root), place, record, &finding, &may_be)?;
        let Some((heir, found)) = heir else { return Ok(false) };
        self.summary.add(verdict, 1);
        let report = Report::new(self.path(heir.0, &heir.1)?, verdict);
        let (found, since) = (Some(found), Some(finding.since));
        (self.report)(Report { from, recorded, algorithm, found, held, since, ..report });
        Ok(true)
    }

    /// Gives fresh files the records of those that they were elsewhere in the root, where the walk was not,
    /// and that were not bad there.
    fn resolve_hidden(&mut self, names: &Names) -> Result<(), Error> {
        let mut after: Place = (i64::MIN, Vec::new());
        loop {
            let page = self.catalog.may_be_renamed(self.scope.root.id, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = last.clone();
            for (place, record) in page {
                if !record.state.is_unforgiven() && is_gone(&self.find(&self.path(place.0, &place.1)?)) {
                    self.hand_on(&place, &record, names)?;
                }
            }
        }
    }

    /// Gives fresh files the records of missing ones that they are themselves, before anything else is said
    /// of them.
    fn resolve_renamed(&mut self, names: &Names) -> Result<(), Error> {
        let mut after: Place = (i64::MIN, Vec::new());
        loop {
            let page = self.catalog.missing(self.scope.root.id, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = last.clone();
            for (place, record) in page {
                if let Some(heir) = self.catalog.inherit(self.scope.root.id, &place, &record, true)? {
                    self.tell_moved(&place, &heir, &record, names)?;
                }
            }
        }
    }

    fn tell_moved(
        &mut self,
        place: &Place,
        heir: &Place,
        record: &Record,
        names: &Names,
    ) -> Result<(), Error> {
        self.summary.add(Verdict::Moved, 1);
        let (from, recorded) = (Some(self.path(place.0, &place.1)?), Some(seen(record)));
        let algorithm = names.get(&record.algorithm).cloned().unwrap_or_default();
        let report = Report::new(self.path(heir.0, &heir.1)?, Verdict::Moved);
        (self.report)(Report { from, recorded, algorithm, ..report });
        Ok(())
    }

    /// Gives the record of a file that is gone, and was not bad, to the one that it is now, and reports that;
    /// whether there is such a file.
    fn hand_on(&mut self, place: &Place, record: &Record, names: &Names) -> Result<bool, Error> {
        let root = self.scope.root.id;
        if let Some(heir) = self.catalog.inherit(root, place, record, false)? {
            self.tell_moved(place, &heir, record, names)?;
            return Ok(true);
        }
        let Some((heir, found)) = self.altered_heir(place, record)? else {
            return self.hand_to_unread(place, record);
        };
        self.summary.add(Verdict::Suspicious, 1);
        let (from, recorded) = (Some(self.path(place.0, &place.1)?), Some(seen(record)));
        let algorithm = names.get(&record.algorithm).cloned().unwrap_or_default();
        let report = Report::new(self.path(heir.0, &heir.1)?, Verdict::Suspicious);
        (self.report)(Report { from, recorded, found: Some(found), algorithm, ..report });
        Ok(true)
    }

    /// Gives the record of a file that is gone to one that cannot be read, and was reported as that, if it is
    /// the same; whether there is one.
    fn hand_to_unread(&mut self, place: &Place, record: &Record) -> Result<bool, Error> {
        let root = self.scope.root.id;
        let heir = self.catalog.unread_as(root, record)?;
        let Some(heir) = heir.filter(|heir| self.may_be(heir, last_known(record))) else { return Ok(false) };
        self.catalog.hand_to_unread(root, place, &heir, record, self.options.now)?;
        Ok(true)
    }

    /// Gives missing files their heirs, and reports those that have none.
    fn resolve_missing(&mut self, names: &Names) -> Result<(), Error> {
        let root = self.scope.root.id;
        let mut after: Place = (i64::MIN, Vec::new());
        loop {
            let page = self.catalog.missing(root, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = last.clone();
            for (place, record) in page {
                let algorithm = || names.get(&record.algorithm).cloned().unwrap_or_default();
                let finding = self.catalog.finding(place.0, OsStr::from_bytes(&place.1))?;
                let since = finding.map(|finding| finding.since).filter(|since| *since < self.news_since);
                if self.hand_on(&place, &record, names)? {
                    continue;
                }
                match since {
                    None => self.summary.add(Verdict::Missing, 1),
                    Some(_) => self.summary.still_missing += 1,
                }
                if since.is_none() || self.options.archive {
                    let mut report = Report::new(self.path(place.0, &place.1)?, Verdict::Missing);
                    report.recorded = Some(seen(&record));
                    report.algorithm = algorithm();
                    report.since = since;
                    (self.report)(report);
                }
            }
        }
    }
}

/// The path of the last directory that was asked for, and what kept one from being known.
#[derive(Default)]
pub(super) struct Folders {
    last: Option<(i64, PathBuf)>,
    pub(super) failed: Option<catalog::Error>,
}

impl Folders {
    pub(super) fn path(&mut self, catalog: &Catalog, directory: i64) -> Option<&Path> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != directory) {
            match catalog.path_in_root(directory) {
                Ok(path) => self.last = Some((directory, path)),
                Err(error) => {
                    self.failed.get_or_insert(error);
                    return None;
                }
            }
        }
        self.last.as_ref().map(|(_, path)| path.as_path())
    }
}

/// What a file in trouble is called, and whether it is held.
pub(super) fn bad_verdict(state: State) -> (Verdict, bool) {
    match state {
        State::Trouble(Trouble::Verdict(verdict)) => (verdict, false),
        State::Trouble(Trouble::Held) => (Verdict::Modified, true),
        State::Sound => (Verdict::Ok, false),
    }
}

/// When a file was last known to be there, in milliseconds since 1970.
pub(super) fn last_known(record: &Record) -> i64 {
    record.verified.max(record.changed).max(record.first_seen)
}

/// Whether two names are those of one file.
pub(super) fn is_one_file(one: &Found, other: &Found) -> bool {
    let file = |found: &Found| {
        let stat = found.as_ref().ok().map(|(_, stat)| stat).filter(|stat| stat.kind == Kind::File);
        stat.map(|stat| (stat.device, stat.inode))
    };
    file(one).is_some_and(|one| file(other) == Some(one))
}
