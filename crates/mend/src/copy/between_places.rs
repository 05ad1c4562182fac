//! Copies between two other places: fetches each file to an unnamed local file, and sends it from there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum_files::place::{FileRequest, FileState, KnownState, Modified, PlaceError, PlaceEvent, below};
use verisum_files::{Stat, Timestamp};

use super::digests::Sums;
use super::fetch::{RemoteTree, place_records};
use super::pump::Hasher;
use super::record::{self, Expected};
use super::send::{OpenedUpload, Outgoing, Sender};
use super::shared::Shared;
use super::worker::set_of;
use super::{CopyError, CopyEvent, CopyOutcome};

/// The mode of files of places that tell none.
const FILE_MODE: u32 = 0o644;

/// The bytes of one read.
const PIECE: usize = 256 << 10;

/// A file in another place.
pub(super) struct Distant {
    /// Its path there.
    pub(super) path: Vec<u8>,
    pub(super) address: PathBuf,
    /// What was listed of it.
    pub(super) seen: FileState,
}

impl Distant {
    /// A file that was listed, with its path below FROM. What cannot be listed is told.
    pub(super) fn listed(from: RemoteTree, event: PlaceEvent, shared: &Shared) -> Option<(Distant, PathBuf)> {
        let failed = |address: &Path, error: PlaceError| {
            let outcome = CopyOutcome::Failed(CopyError::place(address, error));
            shared.tell_plain(address, Path::new(""), outcome);
            None
        };
        let answer = match event {
            PlaceEvent::Answer(answer) => answer,
            PlaceEvent::Unlisted(why) => {
                return failed(from.address, PlaceError::Unlisted(why));
            }
            PlaceEvent::Way(_) | PlaceEvent::Note(_) => return None,
        };
        let path = answer.request.path;
        let Some(below) = below(from.root, &path).map(|below| Path::new(OsStr::from_bytes(below))) else {
            let what = "it lists a file that was not asked for";
            return failed(from.address, PlaceError::Machine(what.into()));
        };
        let address = match below.as_os_str().is_empty() {
            true => from.address.to_path_buf(),
            false => from.address.join(below),
        };
        if let Err(error) = answer.result {
            return failed(&address, error.into());
        }
        // A listing is not to be trusted with where a file goes.
        let mut names = below.as_os_str().as_bytes().split(|byte| *byte == b'/');
        if !below.as_os_str().is_empty() && names.any(|name| matches!(name, b"" | b"." | b"..")) {
            return failed(&address, PlaceError::Machine("it lists a name that no file has".into()));
        }
        if shared.options.excludes.as_ref().is_some_and(|excludes| excludes.leaves_out_file(below)) {
            return None;
        }
        let below = below.to_path_buf();
        Some((Distant { path, address, seen: answer.request.seen }, below))
    }

    fn failed(&self, error: PlaceError) -> CopyError {
        CopyError::place(&self.address, error)
    }
}

/// What was fetched.
struct FetchedFile {
    file: File,
    length: u64,
    /// Its digests, if they are to be compared.
    sums: Option<Sums>,
}

impl Sender<'_> {
    /// Fetches a file, and once more if it changes meanwhile or is not as recorded; none if it is at TO already, or it
    /// is time to stop.
    pub(super) fn fetch<'f>(
        &mut self,
        file: &'f Outgoing,
        distant: &Distant,
    ) -> Result<Option<OpenedUpload<'f>>, CopyError> {
        let existing = self.existing(file)?;
        if self.has_it(file, existing.as_ref(), distant)? {
            return Ok(None);
        }
        let previous = existing.map(|existing| existing.now);
        let mut seen = distant.seen;
        let mut is_second = false;
        loop {
            let known = file.known.as_ref().and_then(|known| known.expected_there(&distant.address, &seen));
            let told = self.told_by_keeper(distant, &seen);
            let expected: Vec<Expected> = known.into_iter().chain(told).collect();
            let Some(fetched) = self.fetched(distant, &seen, &expected)? else { return Ok(None) };
            let after = self.state(distant)?;
            let is_same = after.now == seen && seen.size.is_none_or(|size| size == fetched.length);
            let is_bad = fetched.sums.is_some_and(|sums| record::mismatch(&expected, &sums).is_some());
            if is_same && (is_second || !is_bad) {
                if let Some(modified) = after.original.or(seen.modified) {
                    let set = modified.time.set(&fetched.file);
                    set.map_err(|errno| self.scratch_failed("set times", errno.into()))?;
                }
                let stat =
                    Stat::of(&fetched.file).map_err(|errno| self.scratch_failed("stat", errno.into()))?;
                // What is here now is what counts.
                let is_second = true;
                let source = fetched.file;
                let mode = FILE_MODE;
                return Ok(Some(OpenedUpload { file, source, stat, mode, expected, is_second, previous }));
            }
            if is_second {
                return Err(CopyError::Changed { path: distant.address.clone() });
            }
            is_second = true;
            seen = after.now;
        }
    }

    /// Whether TO has a file already, which is told then.
    fn has_it(
        &mut self,
        file: &Outgoing,
        existing: Option<&KnownState>,
        distant: &Distant,
    ) -> Result<bool, CopyError> {
        let (Some(size), Some(listed)) = (distant.seen.size, distant.seen.modified) else { return Ok(false) };
        let mut modified = listed.time;
        let mut is_current = self.is_current(existing, size, modified);
        // Only stores tell it.
        let tells_original = self.source.as_ref().is_some_and(|source| !source.stages());
        if !is_current && tells_original {
            let original: Option<Modified> = self.state(distant)?.original;
            if let Some(original) = original {
                modified = original.time;
                is_current = self.is_current(existing, size, modified);
            }
        }
        if is_current {
            self.shared.options.progress.skip(size);
            self.tell_distant(file, (size, modified));
        }
        Ok(is_current)
    }

    fn tell_distant(&self, file: &Outgoing, (size, modified): (u64, Timestamp)) {
        self.shared.tell(&CopyEvent {
            path: &file.shown(),
            name: &file.below,
            outcome: CopyOutcome::Current,
            size,
            modified: Some(modified),
            mode: None,
            digests: &[],
        });
    }

    /// What the keeper of its place recorded of a file.
    fn told_by_keeper(&mut self, distant: &Distant, seen: &FileState) -> Option<Expected> {
        let source = self.source.as_deref_mut()?;
        let request = FileRequest { path: distant.path.clone(), seen: *seen, ..FileRequest::default() };
        let records = place_records(source, &[request]);
        records.first().and_then(Option::as_ref).and_then(|record| record::of_place(record, seen))
    }

    fn state(&mut self, distant: &Distant) -> Result<KnownState, CopyError> {
        match &mut self.source {
            Some(source) => source.state(&distant.path).map_err(|error| distant.failed(error)),
            None => Err(distant.failed(PlaceError::Machine("it is not open".into()))),
        }
    }

    /// Fetches all of a file; none if it is time to stop.
    fn fetched(
        &mut self,
        distant: &Distant,
        seen: &FileState,
        expected: &[Expected],
    ) -> Result<Option<FetchedFile>, CopyError> {
        let digest = |source| CopyError::Digest { path: distant.address.clone(), source };
        let set = set_of(self.sets, self.shared.options, expected).map_err(digest)?;
        let mut hasher = match expected.is_empty() {
            true => None,
            false => Some(Hasher::new(&set.digests).map_err(digest)?),
        };
        let file = tempfile::tempfile_in(&self.shared.options.scratch);
        let file = file.map_err(|error| self.scratch_failed("create", error))?;
        // A byte more than there should be shows that there is no more.
        let range = 0..seen.size.map_or(i64::MAX as u64, |size| size.saturating_add(1));
        let Some(source) = &mut self.source else {
            return Err(distant.failed(PlaceError::Machine("it is not open".into())));
        };
        let request = FileRequest { path: distant.path.clone(), seen: *seen, ..FileRequest::default() };
        let mut content = source.read_listed(&request, range).map_err(|error| distant.failed(error))?;
        let mut buffer = vec![0; PIECE];
        let mut length = 0;
        loop {
            if self.shared.is_stopped() {
                return Ok(None);
            }
            let count = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(distant.failed(PlaceError::Machine(format!("read: {error}").into())));
                }
            };
            (&file).write_all(&buffer[..count]).map_err(|error| self.scratch_failed("write", error))?;
            if let Some(hasher) = &mut hasher {
                hasher.add(&buffer[..count]).map_err(digest)?;
            }
            length += count as u64;
        }
        let outputs = hasher.map(|mut hasher| hasher.finish()).transpose().map_err(digest)?;
        let sums = outputs.map(|outputs| Sums { set: set.clone(), outputs });
        Ok(Some(FetchedFile { file, length, sums }))
    }

    fn scratch_failed(&self, operation: &'static str, source: std::io::Error) -> CopyError {
        CopyError::target(&self.shared.options.scratch, operation, source)
    }
}
