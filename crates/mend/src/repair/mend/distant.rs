//! Repairs files of one tree in another place, such as a host or a bucket, by whole copies.
//!
//! A host gets the new content under a passing name and hashes it there; only then it replaces the bad file, whose
//! owner and permissions it takes over. A store replaces an object when all of the new one has arrived.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use verisum_catalog::scrub::is_same_time;
use verisum_catalog::store::Stamp;
use verisum_digest::{Digest, DigestStream, Output};
use verisum_files::place::{
    Durability, FileAnswer, FileIdentity, FileRequest, FileState, Files, KnownState, Modified, NewFile,
    Place, PlaceError, PlaceEvent, PlacedFile, Reason, Replaces, join,
};
use verisum_files::{AsRead, FileError, KeptFile, Timestamp, lock, message_says_storage_failed};

use super::super::damaged::ANY_LENGTH;
use super::super::fill::FillError;
use super::super::source::{Candidate, Source};
use super::super::{CopyFault, RepairFailure, RepairOptions, RepairOutcome};
use super::waiting::{NotMended, WaitingFiles, interrupted};
use super::{Damaged, Done, FileAfter, MendedTree, RepairRefusal, nothing_for};

/// The permissions of a new file whose copy is not here.
const USUAL_MODE: u32 = 0o644;

/// Those of a file that is to take over others. Nobody else may use it until then.
const PRIVATE: u32 = 0o600;

/// A tree in another place that is repaired.
pub(in super::super) struct DistantTree<'a> {
    place: &'a mut dyn Place,
    /// Its path there.
    root: &'a [u8],
    options: &'a RepairOptions,
    /// Whether something of it is there, if that is known.
    is_there: Option<bool>,
}

/// A bad file, or none, as its place just told of it.
struct DistantFile {
    /// None if it is missing.
    state: Option<FileState>,
    before: Option<Output>,
    may_be_meant: bool,
}

impl<'a> DistantTree<'a> {
    pub(in super::super) fn new(
        place: &'a mut dyn Place,
        root: &'a [u8],
        options: &'a RepairOptions,
    ) -> DistantTree<'a> {
        DistantTree { place, root, options, is_there: None }
    }

    /// Whether a file is at this path in the tree, or below it.
    pub(in super::super) fn has_any(&mut self, below: &Path) -> Result<bool, PlaceError> {
        let found = Mutex::new(false);
        let path = join(self.root, below.as_os_str().as_bytes());
        self.place.list(&path, &|event| {
            let is_file = matches!(&event, PlaceEvent::Answer(answer) if answer.result.is_ok());
            let mut found = lock(&found);
            *found |= is_file;
            !*found
        })?;
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn path_of(&self, damaged: &Damaged) -> Vec<u8> {
        join(self.root, damaged.kept.as_os_str().as_bytes())
    }

    /// Looks at all files: what each is, or what becomes of it because of that.
    fn examined(&mut self, damaged: &[Damaged]) -> Vec<Result<DistantFile, RepairOutcome>> {
        let mut of_digest: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, file) in damaged.iter().enumerate() {
            of_digest.entry(file.digest.name()).or_default().push(at);
        }
        let mut found: Vec<_> = damaged.iter().map(|_| Err(interrupted())).collect();
        for those in of_digest.into_values() {
            if self.options.stop.is_due() {
                break;
            }
            let requests = those.iter().map(|at| FileRequest {
                path: self.path_of(&damaged[*at]),
                tag: *at as u64,
                ..FileRequest::default()
            });
            let requests = requests.collect();
            let answers = Mutex::new(Vec::new());
            let ended = self.place.hash_settled(&damaged[those[0]].digest, requests, &|event| {
                if let PlaceEvent::Answer(answer) = event {
                    lock(&answers).push(answer);
                }
                !self.options.stop.is_due()
            });
            if let Err(error) = ended {
                let failed = RepairFailure::Place(error.into());
                those.iter().for_each(|at| found[*at] = Err(RepairOutcome::Failed(failed.clone())));
            }
            for answer in answers.into_inner().unwrap_or_else(PoisonError::into_inner) {
                let at = answer.request.tag as usize;
                if let Some(file) = damaged.get(at) {
                    found[at] = self.examine(file, answer);
                }
            }
        }
        let is_any_there = found.iter().flatten().any(|file| file.state.is_some());
        if is_any_there {
            self.is_there = Some(true);
        }
        if found.iter().any(Result::is_ok) && self.is_there.is_none() {
            // A place that cannot list says so when it is written to.
            self.is_there = Some(self.has_any(Path::new("")).unwrap_or(true));
        }
        if self.is_there == Some(false) {
            let nothing = || Err(RepairOutcome::Failed(RepairFailure::NothingThere));
            found.iter_mut().filter(|file| file.is_ok()).for_each(|file| *file = nothing());
        }
        found
    }

    /// Looks whether a file still is what was found bad.
    fn examine(&mut self, damaged: &Damaged, answer: FileAnswer) -> Result<DistantFile, RepairOutcome> {
        let FileAnswer { request: FileRequest { path, seen, .. }, result } = answer;
        let (state, before) = match result {
            Ok(read) if read.changed => return Err(RepairOutcome::Refused(RepairRefusal::Changed)),
            Ok(read) if read.digest() == Some(damaged.recorded) => return Err(RepairOutcome::Sound),
            Ok(read) => (seen, read.digest()),
            Err(error) => match error.reason() {
                Reason::Missing if self.options.except_missing => {
                    return Err(RepairOutcome::Refused(RepairRefusal::Missing));
                }
                Reason::Missing => {
                    return Ok(DistantFile { state: None, before: None, may_be_meant: false });
                }
                Reason::Directory | Reason::Special => {
                    return Err(RepairOutcome::Refused(RepairRefusal::OtherKind));
                }
                reason if error.is_storage_failure() || message_says_storage_failed(&reason.message()) => {
                    (self.place.state(&path).map_or(seen, |known| known.now), None)
                }
                reason => return Err(RepairOutcome::Failed(RepairFailure::NotRead(reason))),
            },
        };
        let has_time =
            |recorded: Stamp| state.modified.is_none_or(|now| is_same_time(recorded, Stamp::from(now.time)));
        let is_as_found =
            |&(size, modified): &(u64, Stamp)| state.size.is_none_or(|now| now == size) && has_time(modified);
        let has_its_time = damaged.found.iter().any(|(_, modified)| has_time(*modified));
        let is_unread = before.is_none();
        let may_be_meant = damaged.may_be_meant || is_unread && !has_its_time;
        match may_be_meant && self.options.keep_bad.is_none() && !self.options.dry {
            _ if !is_unread && !damaged.found.iter().any(is_as_found) => {
                Err(RepairOutcome::Refused(RepairRefusal::Changed))
            }
            true if damaged.may_be_meant => Err(RepairOutcome::Refused(RepairRefusal::MayBeAccepted)),
            true => Err(RepairOutcome::Refused(RepairRefusal::MayBeMeantUnread)),
            false => Ok(DistantFile { state: Some(state), before, may_be_meant }),
        }
    }

    /// Puts the content of a copy in a file's place; without a source, no content.
    fn replace(
        &mut self,
        (damaged, bad): (&Damaged, &DistantFile),
        mut source: Option<&mut Source>,
        size: u64,
        candidate: &Candidate,
    ) -> Result<Done, NotMended> {
        let from = candidate.shown.clone();
        // What the record does not tell, the copy may.
        let is_told = damaged.size < ANY_LENGTH && damaged.modified.is_some();
        let copy = source.as_mut().filter(|_| !is_told);
        let known = copy.and_then(|source| source.place.state(&candidate.path).ok()).unwrap_or_default();
        let size = if size < ANY_LENGTH { size } else { known.now.size.unwrap_or_default() };
        if self.options.dry {
            let needs_keep_bad = bad.may_be_meant && self.options.keep_bad.is_none();
            return Ok(
                RepairOutcome::Mendable { from, bytes: size, needs_keep_bad, also_from: Vec::new() }.into()
            );
        }
        let mut kept = match (&bad.state, &self.options.keep_bad) {
            (Some(state), Some(keep)) => {
                let kept = self.kept(damaged, (bad.before, state), keep);
                Some(kept.map_err(NotMended::not_kept)?)
            }
            _ => None,
        };
        let here = source.as_ref().filter(|source| source.place.is_here());
        let about = here.and_then(|_| candidate.here().metadata().ok());
        let has_usual_permissions = bad.state.is_none() && about.is_none() && self.place.stages();
        let written = about.as_ref().and_then(|about| about.modified().ok()).map(modified_at);
        let written = written.or(known.original).or(known.now.modified);
        let mode = about.map_or(USUAL_MODE, |about| about.permissions().mode() & 0o777);
        let mut content: Box<dyn Read> = match source {
            Some(source) => {
                let read = source.place.read(&candidate.path, 0..size.saturating_add(1));
                Box::new(read.map_err(|error| CopyFault::Place(error.into()))?)
            }
            None => Box::new(io::empty()),
        };
        let mut content = ProvedContent::new(&mut *content, &damaged.digest, damaged.recorded)?;
        let path = self.path_of(damaged);
        let mut kept_unread = 0;
        // From when on the file may have been replaced, whatever is heard of that.
        let keep = &mut || kept_unread += kept.take().map_or(0, KeptFile::stay);
        match self.place.stages() {
            true => self.stage((damaged, bad), &path, (&mut content, size), (mode, written), keep)?,
            false => self.write((damaged, bad), &path, (&mut content, size), written, keep)?,
        }
        let now = self.place.state(&path).map(|known| known.now).unwrap_or_default();
        let listed = now.modified.map(|modified| Stamp::from(modified.time));
        // What is listed may be in whole seconds.
        let mtime = damaged.modified.filter(|wanted| listed.is_none_or(|time| is_same_time(*wanted, time)));
        let after = FileAfter {
            size,
            mtime: mtime.or(listed).unwrap_or_default(),
            ctime: Stamp::UNKNOWN,
            inode: now.identity.map_or(0, |identity| identity.number),
        };
        let outcome = RepairOutcome::Repaired {
            from,
            bytes: size,
            other_names: 0,
            has_usual_permissions,
            also_from: Vec::new(),
        };
        Ok(Done { now: Some(after), before: bad.before, kept_unread, ..Done::from(outcome) })
    }

    /// Has a host write a file beside the bad one, hash it there, and give it the name.
    fn stage(
        &mut self,
        (damaged, bad): (&Damaged, &DistantFile),
        path: &[u8],
        (content, size): (&mut ProvedContent, u64),
        (mode, of_copy): (u32, Option<Modified>),
        keep: &mut dyn FnMut(),
    ) -> Result<(), NotMended> {
        let replaces = if bad.state.is_some() { Replaces::Likeness } else { Replaces::Nothing };
        let mode = if bad.state.is_some() { PRIVATE } else { mode };
        let mut files = [NewFile { path, size, mode, content }];
        let staged = self.place.stage(self.root, &mut files, Durability::Uncached).map_err(failed)?;
        let passing = match staged.into_iter().next() {
            Some(Ok(Some(passing))) => passing,
            Some(Err(PlaceError::File(FileError::Io { source, .. }))) => {
                return Err(CopyFault::Content(source.into()).into());
            }
            Some(Err(error)) => return Err(failed(error)),
            Some(Ok(None)) | None => return Err(NotMended::failed(RepairFailure::HostEnded)),
        };
        let proved =
            self.prove(damaged, &passing, None).and_then(|()| self.require_as_found(bad, path).map(drop));
        let recorded = damaged.modified.map(Stamp::timestamp);
        let modified = recorded.or(of_copy.map(|modified| modified.time)).unwrap_or_else(Timestamp::now);
        let placed = PlacedFile { passing: &passing, path, modified, mode, replaces };
        // Without it what is staged is removed.
        let wanted = if proved.is_ok() { std::slice::from_ref(&placed) } else { &[] };
        if proved.is_ok() {
            keep();
        }
        let placed = self.place.place_staged(wanted);
        proved?;
        placed.map_err(failed)?.into_iter().try_for_each(|placed| placed.map_err(failed))
    }

    /// Has a store replace an object, and reads that back.
    fn write(
        &mut self,
        (damaged, bad): (&Damaged, &DistantFile),
        path: &[u8],
        (content, size): (&mut ProvedContent, u64),
        of_copy: Option<Modified>,
        keep: &mut dyn FnMut(),
    ) -> Result<(), NotMended> {
        let previous = self.require_as_found(bad, path)?;
        // Its own time is that of its upload.
        let modified = previous.and_then(|known| known.original).or(of_copy);
        let about = FileState { size: Some(size), modified, identity: None };
        let ours = match self.place.write(path, content, &about, previous.map(|known| known.now).as_ref()) {
            // The copy is not the good content, or could not be read: the upload was given up.
            Err(PlaceError::File(FileError::Io { source, .. })) => {
                return Err(CopyFault::Content(source.into()).into());
            }
            written => {
                keep();
                written.map_err(|error| match error {
                    PlaceError::Replaced => NotMended::refused(RepairRefusal::Changed),
                    error => failed(error),
                })?
            }
        };
        self.prove(damaged, path, ours)
    }

    /// Fails unless what was written has the recorded digest in its place. Where that is not `ours`, somebody else wrote it
    /// since.
    fn prove(&mut self, damaged: &Damaged, path: &[u8], ours: Option<FileIdentity>) -> Result<(), NotMended> {
        let found = Mutex::new(Err(RepairFailure::NoAnswer));
        let request = FileRequest { path: path.to_vec(), ..FileRequest::default() };
        let mut requests = std::iter::once(request);
        let ended =
            self.place.hash(std::slice::from_ref(&damaged.digest), Files::Named(&mut requests), &|event| {
                if let PlaceEvent::Answer(answer) = event {
                    let now = answer.request.seen.identity;
                    let read = answer.result.map(|read| (read.digest(), now));
                    *lock(&found) = read.map_err(|error| RepairFailure::NotReadAgain(error.reason()));
                }
                true
            });
        ended.map_err(failed)?;
        match found.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Ok((found, _)) if found == Some(damaged.recorded) => Ok(()),
            Ok((_, now)) if ours.zip(now).is_some_and(|(ours, now)| ours != now) => {
                Err(NotMended::refused(RepairRefusal::Changed))
            }
            Ok(_) => Err(NotMended::failed(RepairFailure::Fill(FillError::Different.into()))),
            Err(why) => Err(NotMended::failed(why)),
        }
    }

    /// What a file is now, if that is what it was found to be.
    fn require_as_found(&mut self, bad: &DistantFile, path: &[u8]) -> Result<Option<KnownState>, NotMended> {
        let known = match self.place.state(path) {
            Ok(known) => Some(known),
            Err(PlaceError::File(error)) if error.reason() == Reason::Missing => None,
            Err(error) => return Err(failed(error)),
        };
        let is_same = match (known.map(|known| known.now), &bad.state) {
            (Some(now), Some(found)) => {
                let times = now.modified.zip(found.modified);
                let sizes = now.size.zip(found.size);
                let identities = now.identity.zip(found.identity);
                identities.is_none_or(|(now, found)| now.number == found.number)
                    && times.is_none_or(|(now, found)| now.is_same(&found))
                    && sizes.is_none_or(|(now, found)| now == found)
            }
            (now, found) => now.is_none() && found.is_none(),
        };
        if is_same { Ok(known) } else { Err(NotMended::refused(RepairRefusal::Changed)) }
    }

    /// A copy of a bad file in a directory of this machine.
    fn kept(
        &mut self,
        damaged: &Damaged,
        (before, state): (Option<Output>, &FileState),
        keep: &Path,
    ) -> io::Result<KeptFile> {
        let folder = keep.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
        let mut file = tempfile::tempfile_in(folder)?;
        let range = 0..state.size.map_or(i64::MAX as u64, |size| size.saturating_add(1));
        let content = self.place.read(&self.path_of(damaged), range);
        io::copy(&mut content.map_err(io::Error::other)?, &mut file)?;
        let modified = state.modified;
        let dress = |copy: &File| match modified {
            Some(modified) => Ok(modified.time.set(copy)?),
            None => Ok(()),
        };
        let as_read = AsRead { digest: &damaged.digest, value: before, stop: &self.options.stop };
        KeptFile::copy((keep, &damaged.kept), &file, as_read, &dress)
    }
}

impl MendedTree for DistantTree<'_> {
    fn mend(&mut self, damaged: &[Damaged], sources: &mut [Source], tell: &mut dyn FnMut(usize, Done)) {
        let stop = self.options.stop.clone();
        for source in sources.iter_mut() {
            source.place.end_by(&stop);
        }
        self.place.end_by(&stop);
        let mut bad = Vec::new();
        for (at, found) in self.examined(damaged).into_iter().enumerate() {
            bad.push(found.map_err(|outcome| tell(at, outcome.into())).ok());
        }
        let mut waiting = WaitingFiles::new(damaged, bad, tell);
        for source in sources {
            let those: Vec<usize> = (0..damaged.len()).filter(|at| waiting.bad[*at].is_some()).collect();
            waiting.try_copies(source, &those, &stop, &mut |file, source, size, candidate| {
                self.replace(file, Some(source), size.unwrap_or(file.0.size), candidate)
            });
        }
        for (at, damaged) in damaged.iter().enumerate() {
            let Some(bad) = &waiting.bad[at] else { continue };
            let emptied = nothing_for(damaged).filter(|_| !stop.is_due());
            let emptied = emptied.and_then(|nothing| {
                self.replace((damaged, bad), None, 0, &nothing).or_else(NotMended::ended).ok()
            });
            let tried = std::mem::take(&mut waiting.tried[at]);
            let is_over = stop.is_due();
            let left = || if is_over { interrupted() } else { RepairOutcome::NoSource { tried } };
            waiting.end(at, emptied.unwrap_or_else(|| left().into()));
        }
    }
}

/// The content of a copy. At its end it fails if it is not the recorded one: whoever reads it keeps nothing then.
struct ProvedContent<'c> {
    content: &'c mut dyn Read,
    stream: Box<dyn DigestStream>,
    recorded: Output,
    is_proved: bool,
}

impl<'c> ProvedContent<'c> {
    fn new(
        content: &'c mut dyn Read,
        digest: &Digest,
        recorded: Output,
    ) -> Result<ProvedContent<'c>, NotMended> {
        let stream = digest
            .stream()
            .map_err(|error| NotMended::failed(RepairFailure::Fill(FillError::Digest(error).into())))?;
        Ok(ProvedContent { content, stream, recorded, is_proved: false })
    }
}

impl Read for ProvedContent<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.stream.update(&buffer[..count]).map_err(io::Error::other)?;
        if count == 0 && !buffer.is_empty() && !self.is_proved {
            let mut output = Output::zeroed(self.recorded.as_bytes().len());
            self.stream.finish(output.as_mut_bytes()).map_err(io::Error::other)?;
            if output != self.recorded {
                return Err(io::Error::other(FillError::Changed));
            }
            self.is_proved = true;
        }
        Ok(count)
    }
}

fn modified_at(time: SystemTime) -> Modified {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = Timestamp { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() };
    Modified::from(time)
}

fn failed(error: PlaceError) -> NotMended {
    NotMended::failed(RepairFailure::Place(error.into()))
}
