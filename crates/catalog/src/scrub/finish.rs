//! The last steps of a run: joins lost and found names, raises the alarm, and counts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::jobs::Outcome;
use super::join::Lost;
use super::top_directory::is_gone;
use super::writer::{AlgorithmNames, Writer};
use super::{FileFault, ScrubError, ScrubReport, ScrubSummary};
use crate::store::{self, Catalog, CatalogRecord, Moment, Seen, State, Trouble};
use verisum_files::{Entry, FUTURE, Kind, Stat, Verdict};

/// How many missing files are looked at at once.
pub(super) const PAGE: usize = 1024;

/// What is at a path.
pub(super) type PathState = Result<(Entry, Stat), verisum_files::FileError>;

impl Writer<'_> {
    /// Ends the run, in one transaction: what was moved keeps its history, and what was replaced is
    /// final or put back. A run that was interrupted has not seen enough to say so; like one that was
    /// killed it leaves that to the next.
    pub(super) fn finish(mut self, outcome: &Outcome) -> Result<ScrubSummary, ScrubError> {
        if !outcome.is_interrupted {
            self.catalog.begin()?;
            let finished = self.settle(outcome);
            match finished {
                Ok(()) => self.catalog.commit()?,
                Err(error) => {
                    self.catalog.roll_back();
                    self.tell_doubtful();
                    return Err(error);
                }
            }
        }
        self.tell_doubtful();
        if let Some(root) = self.catalog.root(&self.scope.root.path)? {
            (self.summary.files, self.summary.bytes) = (root.files, root.bytes);
        }
        self.summary.held = self.held()?;
        self.summary.waiting = outcome.waiting;
        self.summary.reported = outcome.reported;
        self.summary.reported_at = outcome.reported_at;
        self.summary.given_up = outcome.given_up;
        self.summary.not_tried = outcome.not_tried;
        self.summary.mount_points = outcome.mount_points;
        // A run may take longer than a day.
        let now = Moment::now().max(self.options.started());
        let recorded = || self.catalog.oldest(self.scope.root.id, now + FUTURE);
        self.summary.oldest = match self.oldest_met(outcome) {
            Some(met) => {
                debug_assert_eq!(recorded().ok(), Some(Some(met)));
                Some(met)
            }
            None => recorded()?,
        };
        self.summary.unlisted = outcome.unlisted;
        self.summary.parity.clone_from(&outcome.parity);
        self.summary.complete = outcome.is_complete;
        self.summary.interrupted = outcome.is_interrupted;
        Ok(self.summary)
    }

    /// When the stalest file was last verified, if the run came to each and all are well. To look through all records
    /// takes as long as to read one file in thirty.
    fn oldest_met(&self, outcome: &Outcome) -> Option<Moment> {
        let (verified, not_due) = (self.verified, outcome.not_due);
        let all_are_well = self.summary.counts.iter().sum::<u64>() == verified.files;
        let came_to_all = outcome.is_complete
            && outcome.passed_over.is_empty()
            && verified.files + not_due.files == self.summary.files;
        verified.oldest.into_iter().chain(not_due.oldest).min().filter(|_| all_are_well && came_to_all)
    }

    /// How many files of the tree are held, without those that this run leaves out.
    fn held(&self) -> Result<u64, ScrubError> {
        let Some(excludes) = &self.options.excludes else {
            return Ok(self.catalog.held(self.scope.root.id)?);
        };
        let mut held = 0;
        self.catalog.each_in_trouble(&self.scope.root, true, false, &mut |file| {
            let below = file.path.strip_prefix(&self.scope.path);
            let is_out = below.is_ok_and(|below| excludes.leaves_out_file(below));
            held += u64::from(!is_out && file.record.state == State::Trouble(Trouble::Held));
            Ok::<_, ScrubError>(())
        })?;
        Ok(held)
    }

    fn settle(&mut self, outcome: &Outcome) -> Result<(), ScrubError> {
        let root = self.scope.root.id;
        let names = self.catalog.algorithms()?;
        self.catalog.take_back_gone(root, self.news_since, self.options.started())?;
        self.catalog.index_fresh()?;
        for (directory, device) in &outcome.mounted {
            self.catalog.set_device(*directory, *device)?;
        }
        // Only a walk that was everywhere knows what is gone.
        let was_everywhere = outcome.is_through
            && outcome.unlisted + outcome.not_tried == 0
            && self.options.excludes.is_none()
            && self.scope.directory == self.scope.root.directory;
        self.settle_unread(was_everywhere, outcome)?;
        self.join(Lost::Itself, &names)?;
        self.join(Lost::Gone, &names)?;
        // What else there is on another machine nobody can look at from here.
        if !self.scope.root.is_remote() {
            if !was_everywhere {
                self.join(Lost::BadElsewhere, &names)?;
            }
            self.join_other_roots(&names)?;
        }
        self.catalog.list_misnamed(root, self.news_since)?;
        let has_heirs = self.catalog.has_heirs(root)?;
        let looks_elsewhere = !was_everywhere && !self.scope.root.is_remote();
        if has_heirs && looks_elsewhere {
            self.join(Lost::SoundElsewhere, &names)?;
        }
        self.join(Lost::Missing, &names)?;
        if has_heirs {
            self.judge_known_bad(looks_elsewhere, &names)?;
        }
        self.tell_all_gone()?;
        self.summary.alarm = self.too_much(outcome)?;
        self.tell_all_missing(&names)?;
        // After an alarm the records that it replaced are put back.
        if has_heirs && looks_elsewhere && self.summary.alarm.is_none() {
            self.tell_renamed_over(&names)?;
        }
        // A file whose record was replaced may be where this run did not look.
        let mut unread = Verdict::ALL.iter().filter(|verdict| verdict.is_unread());
        let has_read_all = was_everywhere && unread.all(|verdict| self.summary.count(*verdict) == 0);
        self.catalog.settle_previous(root, has_read_all, self.options.started())?;
        if self.summary.alarm.is_none() {
            self.catalog.remember_replaced(root, self.options.started())?;
        }
        if has_read_all {
            // Those of remembered records are of use.
            self.catalog.settle_generations(root)?;
        }
        self.catalog.settle_rehashed()?;
        self.report_changes(&names)?;
        if self.summary.alarm.is_none() {
            return Ok(self.catalog.keep_replacements(root)?);
        }
        self.catalog.hold_replacements(root, self.options.started())?;
        self.catalog.hold_missing(root, self.news_since)?;
        self.hold_waiting(&names)
    }

    /// Forgets which files no run could read, if they are recorded by now, gone or left out.
    fn settle_unread(&mut self, was_everywhere: bool, outcome: &Outcome) -> Result<(), ScrubError> {
        let (root, started) = (self.scope.root.id, self.options.started());
        self.catalog.settle_unread(root, if was_everywhere { started } else { Moment::MIN })?;
        // What else there is on another machine nobody can look at from here.
        if was_everywhere || self.scope.root.is_remote() {
            return Ok(());
        }
        for place in self.catalog.unread(root, started)?.into_keys() {
            let path = self.path(place.0, &place.1)?;
            let Ok(below) = path.strip_prefix(&self.scope.path) else { continue };
            let excludes = self.options.excludes.as_ref();
            let is_out = excludes.is_some_and(|excludes| excludes.leaves_out_file(below));
            let was_passed_over = path.ancestors().any(|above| outcome.passed_over.contains(above));
            if is_out || !was_passed_over && is_gone(&self.find(&path)) {
                self.catalog.forget_unread(&place)?;
            }
        }
        Ok(())
    }

    /// Holds the changed files that were not read, and reports them.
    fn hold_waiting(&mut self, names: &AlgorithmNames) -> Result<(), ScrubError> {
        let (catalog, top) = (&*self.catalog, &self.scope.root.path);
        let report = &mut *self.report;
        let mut folders = Folders::default();
        catalog.hold_waiting(
            self.scope.root.id,
            self.options.started(),
            &mut |(directory, name), record| {
                let Some(folder) = folders.path(catalog, directory) else { return };
                let path = top.join(folder).join(OsStr::from_bytes(&name));
                report(ScrubReport {
                    held: true,
                    recorded: Some(Seen::of(&record)),
                    algorithm: names.get(&record.algorithm).cloned().unwrap_or_default(),
                    error: Some(FileFault::Waiting),
                    ..ScrubReport::new(path, Verdict::Modified)
                });
            },
        )?;
        Ok(folders.failed.map_or(Ok(()), Err)?)
    }

    /// Reports the new files that are nobody's heirs, and the files whose records were replaced.
    fn report_changes(&mut self, names: &AlgorithmNames) -> Result<(), ScrubError> {
        let (catalog, root) = (&*self.catalog, &self.scope.root);
        let (report, summary) = (&mut *self.report, &mut self.summary);
        let mut folders = Folders::default();
        let mut tell =
            |(directory, name): (i64, Vec<u8>), old: Option<&CatalogRecord>, new: &CatalogRecord| {
                let Some(folder) = folders.path(catalog, directory) else { return };
                let verdict = if old.is_some() { Verdict::Modified } else { Verdict::New };
                summary.add(verdict, 1);
                // It may have been read again by the digest of its own record.
                let is_comparable = old.is_none_or(|old| old.algorithm == new.algorithm);
                let (recorded, found) = (old.map(Seen::of), is_comparable.then(|| Seen::of(new)));
                let algorithm = names.get(&old.unwrap_or(new).algorithm).cloned().unwrap_or_default();
                let path = root.path.join(folder).join(OsStr::from_bytes(&name));
                report(ScrubReport { recorded, found, algorithm, ..ScrubReport::new(path, verdict) });
            };
        catalog.take_fresh(root.id, &mut |place, new| tell(place, None, &new))?;
        catalog.each_replaced(root.id, &mut |place, old, new| tell(place, Some(&old), &new))?;
        Ok(folders.failed.map_or(Ok(()), Err)?)
    }

    pub(super) fn find(&self, path: &Path) -> PathState {
        self.scope.find(path, self.options)
    }
}

/// The path of the last directory that was asked for, and what kept one from being known.
#[derive(Default)]
pub(super) struct Folders {
    last: Option<(i64, PathBuf)>,
    pub(super) failed: Option<store::CatalogError>,
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

/// When a file was last known to be there. A run calls all times its start; a file that was made while it went on was
/// there when its inode was recorded.
pub(super) fn last_known(record: &CatalogRecord) -> Moment {
    record.verified.max(record.changed).max(record.first_seen).max(record.ctime.timestamp().into())
}

/// Whether two names are those of one file.
pub(super) fn is_one_file(one: &PathState, other: &PathState) -> bool {
    let file = |found: &PathState| {
        let stat = found.as_ref().ok().map(|(_, stat)| stat).filter(|stat| stat.kind == Kind::File);
        stat.map(|stat| (stat.device, stat.inode))
    };
    file(one).is_some_and(|one| file(other) == Some(one))
}
