//! Copies to a host: writes groups of files there under temporary names, reads them back, and renames them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use verisum_digest::{Digest, Output};
use verisum_files::lock;
use verisum_files::place::{
    Durability, FileAnswer, FileRequest, FileState, Files, NewFile, PlaceError, PlaceEvent, PlacedFile,
    Replaces, StagedFile,
};

use super::digests::{Set, Sums};
use super::send::{OpenedUpload, Outgoing, ReadEnd, Sender};
use super::worker::set_of;
use super::{CopyError, CopyOutcome, Mismatch, Verification};

/// How often a group is sent again over a new connection.
const MOST_LOST: u32 = 2;

/// A file that a host has under a passing name.
struct Arrived<'f> {
    opened: OpenedUpload<'f>,
    sums: Sums,
    mismatch: Option<Mismatch>,
    passing: Vec<u8>,
}

impl Sender<'_> {
    /// Sends files together; what comes of each is told.
    pub(super) fn stage(&mut self, group: &[Outgoing]) {
        let mut left = Vec::new();
        for file in group {
            match self.open(file) {
                Ok(opened) => left.extend(opened),
                Err(error) => self.failed(file, error),
            }
        }
        let mut lost = 0;
        while !left.is_empty() && !self.shared.is_stopped() {
            let (arrived, again) = self.send_staged(left, &mut lost);
            left = again;
            if !arrived.is_empty() {
                left.extend(self.place_arrived(arrived, &mut lost));
            }
        }
    }

    /// Sends what was opened. Returns what arrived, and what is to be sent once more.
    fn send_staged<'f>(
        &mut self,
        opened: Vec<OpenedUpload<'f>>,
        lost: &mut u32,
    ) -> (Vec<Arrived<'f>>, Vec<OpenedUpload<'f>>) {
        let (mut arrived, mut again) = (Vec::new(), Vec::new());
        let mut ready: Vec<(OpenedUpload, Arc<Set>)> = Vec::new();
        for opened in opened {
            match set_of(self.sets, self.shared.options, &opened.expected) {
                Ok(set) => ready.push((opened, set)),
                Err(source) => self.failed(opened.file, opened.digest_failed(source)),
            }
        }
        let (ends, staged) = match self.send_contents(&ready) {
            Ok(sent) => sent,
            Err(error) => {
                let opened = ready.into_iter().map(|(opened, _)| opened).collect();
                return (arrived, self.all_failed(opened, error, lost));
            }
        };
        for (((mut opened, _), end), staged) in ready.into_iter().zip(ends).zip(staged) {
            let error = match (end, staged) {
                (Some(ReadEnd::Whole(sums, mismatch)), Ok(Some(passing))) => {
                    arrived.push(Arrived { opened, sums, mismatch, passing });
                    continue;
                }
                (Some(ReadEnd::Stopped), _) => continue,
                (Some(ReadEnd::Bad(mismatch)), _) if opened.is_second => {
                    self.tell(&opened, CopyOutcome::Bad(mismatch), &[]);
                    continue;
                }
                (Some(ReadEnd::Bad(_) | ReadEnd::Changed), _) if !opened.is_second => {
                    match opened.read_again() {
                        Ok(()) => {
                            again.push(opened);
                            continue;
                        }
                        Err(error) => error,
                    }
                }
                (Some(ReadEnd::Failed(error)), _) => opened.read_failed(error),
                (_, Ok(None)) => {
                    again.push(opened);
                    continue;
                }
                (Some(ReadEnd::Whole(..)) | None, Err(error)) => self.place_failed(opened.file, error),
                (Some(ReadEnd::Bad(_) | ReadEnd::Changed), _) | (None, Ok(Some(_))) => {
                    CopyError::Changed { path: opened.file.shown() }
                }
            };
            self.failed(opened.file, error);
        }
        (arrived, again)
    }

    /// Sends the bytes of files. How the reading of each ended, and its passing name.
    fn send_contents(
        &mut self,
        ready: &[(OpenedUpload, Arc<Set>)],
    ) -> Result<(Vec<Option<ReadEnd>>, Vec<StagedFile>), CopyError> {
        let Some((_, set)) = ready.first() else { return Ok((Vec::new(), Vec::new())) };
        let durability = match self.shared.options.verification {
            Verification::Reread => Durability::Uncached,
            Verification::Written => Durability::Disk,
            Verification::None => Durability::System,
        };
        let failed = |error| CopyError::place(self.to.address, error);
        if durability == Durability::Uncached {
            // What cannot be read back need not be sent.
            let capabilities = self.place.capabilities(&set.digests[..1], &|_| true);
            capabilities.map_err(failed)?;
        }
        let contents = ready.iter().map(|(opened, set)| opened.content(self.shared, set));
        let mut contents = contents.collect::<Result<Vec<_>, _>>()?;
        let mut files: Vec<NewFile> = ready
            .iter()
            .zip(&mut contents)
            .map(|((opened, _), content)| NewFile {
                path: &opened.file.path,
                size: opened.stat.size,
                mode: opened.mode,
                content,
            })
            .collect();
        let staged = self.place.stage(self.to.root, &mut files, durability).map_err(failed)?;
        drop(files);
        Ok((contents.into_iter().map(|content| content.end).collect(), staged))
    }

    /// Reads back what arrived, if wanted, and gives what is good its name. Returns what is to be sent once more.
    fn place_arrived<'f>(&mut self, arrived: Vec<Arrived<'f>>, lost: &mut u32) -> Vec<OpenedUpload<'f>> {
        let opened = |arrived: Vec<Arrived<'f>>| arrived.into_iter().map(|one| one.opened).collect();
        let found = match self.shared.options.verification {
            Verification::Reread => match self.read_back(&arrived) {
                Ok(found) => Some(found),
                Err(error) => {
                    let error = CopyError::place(self.to.address, error);
                    return self.all_failed(opened(arrived), error, lost);
                }
            },
            _ => None,
        };
        let mut good = Vec::new();
        for (number, arrived) in arrived.into_iter().enumerate() {
            let (written, digest) = (arrived.sums.outputs[0], &arrived.sums.set.digests[0]);
            let outcome = match found.as_ref().map(|found| found.get(&number)) {
                None => None,
                Some(Some(found)) if *found == written => None,
                Some(Some(found)) => {
                    let algorithm = digest.name().to_string();
                    Some(CopyOutcome::Differs { algorithm, written, found: *found })
                }
                Some(None) => {
                    let error = PlaceError::Machine("read back: no answer".into());
                    Some(CopyOutcome::Failed(self.place_failed(arrived.opened.file, error)))
                }
            };
            match outcome {
                Some(outcome) => self.tell(&arrived.opened, outcome, &[]),
                None => good.push(arrived),
            }
        }
        let files = good.iter().map(|arrived| PlacedFile {
            passing: &arrived.passing,
            path: &arrived.opened.file.path,
            modified: arrived.opened.stat.modified,
            mode: arrived.opened.mode,
            replaces: Replaces::Anything,
        });
        let placed = match self.place.place_staged(&files.collect::<Vec<_>>()) {
            Ok(placed) => placed,
            Err(error) => {
                let error = CopyError::place(self.to.address, error);
                return self.all_failed(opened(good), error, lost);
            }
        };
        for (arrived, placed) in good.into_iter().zip(placed) {
            let Arrived { opened, sums, mismatch, .. } = arrived;
            match placed {
                Ok(()) => {
                    self.shared.summary().compared += u64::from(!opened.expected.is_empty());
                    let outcome = mismatch.map_or(CopyOutcome::Copied, CopyOutcome::CopiedBad);
                    self.tell(&opened, outcome, &sums.pairs());
                }
                Err(error) => self.failed(opened.file, self.place_failed(opened.file, error)),
            }
        }
        Vec::new()
    }

    /// The digests that files have at TO, by their numbers.
    fn read_back(&mut self, arrived: &[Arrived]) -> Result<HashMap<usize, Output>, PlaceError> {
        let found = Mutex::new(HashMap::new());
        let keep = |event: PlaceEvent| {
            if let PlaceEvent::Answer(FileAnswer { request, result: Ok(read) }) = event
                && let Some(digest) = read.digest()
            {
                let mut found = lock(&found);
                found.insert(request.tag as usize, digest);
            }
            true
        };
        let mut left: Vec<(usize, &Arrived)> = arrived.iter().enumerate().collect();
        // Files with records of other digests have another first one.
        while let Some((_, first)) = left.first() {
            let digest: Digest = first.sums.set.digests[0].clone();
            let is_of = |arrived: &Arrived| arrived.sums.set.digests[0].name() == digest.name();
            let (these, others) = left.into_iter().partition(|(_, arrived)| is_of(arrived));
            left = others;
            let these: Vec<(usize, &Arrived)> = these;
            let mut requests = these.into_iter().map(|(number, arrived)| FileRequest {
                path: arrived.passing.clone(),
                tag: number as u64,
                seen: FileState { size: Some(arrived.opened.stat.size), ..FileState::default() },
                ..FileRequest::default()
            });
            self.place.hash(std::slice::from_ref(&digest), Files::Named(&mut requests), &keep)?;
        }
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns files that are to be sent once more because a connection was lost; tells of any other error, by the
    /// name of the first.
    fn all_failed<'f>(
        &self,
        files: Vec<OpenedUpload<'f>>,
        error: CopyError,
        lost: &mut u32,
    ) -> Vec<OpenedUpload<'f>> {
        if error.is_of_place() && *lost < MOST_LOST {
            *lost += 1;
            return files;
        }
        if let Some(first) = files.first() {
            self.failed(first.file, error);
        }
        // What fails for all of them fails for those that follow.
        self.shared.end();
        Vec::new()
    }
}
