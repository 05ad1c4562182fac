//! The alarm: decides whether so much changed that something must be wrong.
//!
//! What counts is files, each of them once, whatever became of it: its record was replaced, by this run or by
//! one before that did not come to its end; it went; or it was written to, and there was no time to read it.
//! Those that the run has met are compared with what it has met, and all of them, with what is held, with the
//! whole tree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::finish::Folders;
use super::jobs::Outcome;
use super::writer::Writer;
use super::{ScrubError, TooMuch};
use crate::store::{Changed, RecordSummary, Stamp, State};
use verisum_files::Stat;

/// Changed files.
#[derive(Default)]
struct Changes {
    files: u64,
    /// Those of them that may only have been touched.
    doubtful: u64,
    unread: u64,
}

impl Changes {
    fn add(&mut self, changed: Changed) {
        self.files += 1;
        self.doubtful += u64::from(!changed.is_certain);
        self.unread += u64::from(changed.is_unread);
    }

    /// How many have different content or are gone. Of those that may only have been touched these are taken to
    /// be as many as among the `rewritten` ones that were read: those with different content, and all.
    fn likely(&self, rewritten: (u64, u64)) -> u64 {
        let other = match rewritten {
            (_, 0) => self.doubtful,
            (other, all) => (self.doubtful as f64 * other as f64 / all as f64) as u64,
        };
        self.files - self.doubtful + other
    }
}

/// Whether a file that is not read is one of those that a mass of changes consists of: `Some` if it was written
/// to, with whether it has another length.
pub(super) fn written_to(known: &RecordSummary, stat: &Stat) -> Option<bool> {
    // Whoever writes to a file moves this time; a list that was imported may have another one than it.
    let has_moved = known.ctime != Stamp::UNKNOWN && known.ctime != Stamp::from(stat.changed);
    let is_resized = known.size != stat.size;
    let is_written_to = has_moved && (is_resized || known.mtime != Stamp::from(stat.modified));
    (known.state == State::Sound && is_written_to).then_some(is_resized)
}

impl Writer<'_> {
    /// What changed, if that is too much.
    pub(super) fn too_much(&self, outcome: &Outcome) -> Result<Option<TooMuch>, ScrubError> {
        let (catalog, root) = (&*self.catalog, &self.scope.root);
        let (mut all, mut met) = (Changes::default(), Changes::default());
        let mut folders = Folders::default();
        catalog.each_changed(root.id, self.news_since, &mut |(directory, name), changed| {
            let Some(folder) = folders.path(catalog, directory) else { return };
            let path = root.path.join(folder).join(OsStr::from_bytes(&name));
            all.add(changed);
            if self.was_met(&path, outcome) {
                met.add(changed);
            }
        })?;
        if let Some(error) = folders.failed {
            return Err(error.into());
        }
        let new = all.likely(self.rewritten);
        if new == 0 {
            return Ok(None);
        }
        let held = catalog.held(root.id)?;
        let alarm = self.options.alarm;
        let is_too_much =
            |files: u64, of: u64| files >= alarm.at_least.max(1) && files as f64 > alarm.share * of as f64;
        if is_too_much(new + held, root.files) {
            return Ok(Some(TooMuch { files: all.files + held, of: root.files, unread: all.unread }));
        }
        let is_alarm = is_too_much(met.likely(self.rewritten), outcome.known);
        Ok(is_alarm.then_some(TooMuch { files: met.files, of: outcome.known, unread: met.unread }))
    }

    /// Whether the run has met a file, or would have if it were there.
    fn was_met(&self, path: &Path, outcome: &Outcome) -> bool {
        let Ok(below) = path.strip_prefix(&self.scope.path) else { return false };
        let excludes = self.options.excludes.as_deref();
        let is_out = excludes.is_some_and(|excludes| excludes.leaves_out_file(below));
        let is_passed_over = |path: &Path| outcome.passed_over.contains(path);
        !(is_out || !outcome.passed_over.is_empty() && path.ancestors().any(is_passed_over))
    }
}
