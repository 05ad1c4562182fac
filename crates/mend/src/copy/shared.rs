//! The state that all threads of a copy share: options, counts, and the sink of events.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use verisum_files::lock;
use verisum_files::place::{PlaceError, PlaceScheme};

use super::{CopyError, CopyEvent, CopyOptions, CopyOutcome, CopySummary};

/// Takes what comes of each entry, from several threads.
pub(super) type Sink<'a> = &'a (dyn Fn(&CopyEvent) + Sync);

/// After so many failures of a place in a row it is given up.
const MOST_FAILED: u32 = 8;

pub(super) struct Shared<'a> {
    pub(super) options: &'a CopyOptions,
    sink: Sink<'a>,
    summary: Mutex<CopySummary>,
    /// Whether TO cannot be written to any more.
    is_ended: AtomicBool,
    /// How many files failed in a row because of the place that they are in or go to.
    failed_there: AtomicU32,
    /// Whether files that are not tried are counted: what a place did not come to list, nobody can count.
    pub(super) counts_untried: bool,
    /// Whether files at TO have names from the start: its file system knows no others.
    pub(super) has_names_only: AtomicBool,
    /// Whether files may be opened without moving the time of their last access.
    pub(super) opens_quietly: AtomicBool,
    /// The number of the next passing name.
    pub(super) next_name: AtomicU64,
    pub(super) is_root: bool,
}

impl<'a> Shared<'a> {
    pub(super) fn new(options: &'a CopyOptions, sink: Sink<'a>) -> Shared<'a> {
        Shared {
            options,
            sink,
            summary: Mutex::default(),
            is_ended: AtomicBool::new(false),
            failed_there: AtomicU32::new(0),
            counts_untried: false,
            has_names_only: AtomicBool::new(false),
            opens_quietly: AtomicBool::new(true),
            next_name: AtomicU64::new(0),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    /// Whether nothing more is to be begun.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed) || self.is_asked()
    }

    /// Whether somebody asked to end. What was written whole gets its name unless somebody did: also where a full
    /// disk takes no more.
    pub(super) fn is_asked(&self) -> bool {
        self.options.stop.is_due()
    }

    /// Begins nothing more.
    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }

    /// Counts an event and tells of it. After the first failure that all others would share, no more of its
    /// kind are told.
    pub(super) fn tell(&self, event: &CopyEvent) {
        if let CopyOutcome::Failed(error) = &event.outcome
            && error.ends_all()
            && self.is_ended.swap(true, Ordering::Relaxed)
        {
            self.untried(u64::from(matches!(error, CopyError::Place { .. })));
            return;
        }
        match &event.outcome {
            CopyOutcome::Failed(error)
                if error.is_of_place() || error.is_elusive() && is_in_bucket(event.path) =>
            {
                let before = self.failed_there.fetch_add(1, Ordering::Relaxed);
                if before + 1 >= MOST_FAILED {
                    self.summary().gave_up = true;
                    self.is_ended.store(true, Ordering::Relaxed);
                }
            }
            CopyOutcome::Failed(_) => {}
            _ => self.failed_there.store(0, Ordering::Relaxed),
        }
        if !matches!(event.outcome, CopyOutcome::Made) {
            self.options.progress.add(1, 0);
        }
        self.summary().count(event);
        (self.sink)(event);
    }

    /// Tells of an entry without content.
    pub(super) fn tell_plain(&self, path: &Path, name: &Path, outcome: CopyOutcome) {
        self.tell(&CopyEvent { path, name, outcome, size: 0, modified: None, mode: None, digests: &[] });
    }

    /// Counts files that are not tried because a place failed for all.
    pub(super) fn untried(&self, files: u64) {
        if self.counts_untried {
            self.summary().not_tried += files;
        }
    }

    /// Tells that a place does not list what is left. What was listed before is copied; if that is nothing, it is the
    /// error of the whole copy.
    pub(super) fn unlisted(
        &self,
        has_begun: bool,
        address: &Path,
        error: PlaceError,
    ) -> Result<(), CopyError> {
        let error = CopyError::place(address, error);
        if !has_begun {
            return Err(error);
        }
        self.tell_plain(address, Path::new(""), CopyOutcome::Failed(error));
        self.summary().stopped = true;
        Ok(())
    }

    pub(super) fn summary(&self) -> MutexGuard<'_, CopySummary> {
        lock(&self.summary)
    }

    pub(super) fn ended(&self) -> CopySummary {
        let mut summary = *self.summary();
        summary.stopped |= self.is_stopped();
        summary
    }
}

/// Whether a path is an address in a bucket. What its store lists was there a moment ago, unless that makes it up.
fn is_in_bucket(path: &Path) -> bool {
    PlaceScheme::of(path.as_os_str().as_bytes()).is_some_and(|scheme| scheme.is_bucket)
}
