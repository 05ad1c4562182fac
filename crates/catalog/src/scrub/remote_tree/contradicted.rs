//! Objects that rotted before they were recorded: their content contradicts the checksum that the store recorded at the
//! upload.

use verisum_digest::{Digest, Output};
use verisum_files::place::{Contradicted, PlaceEvent};
use verisum_files::{Evidence, Verdict};

use super::super::ScrubError;
use super::super::judge::{Observation, Token};
use super::super::writer::{Message, WrittenRecord};
use super::super::{Bypass, FileFault, SecondReading};
use super::reader::{Condition, Contradiction, Request, Response};
use super::{ReadFile, RemoteScrub, has_its_time, is_same_file, seen};
use crate::store::{CatalogRecord, Moment, RecordChange, RecordFinding, Seen, Stamp, State, Trouble};

impl ReadFile {
    /// What its place recorded, if a second read of the same file was not that either.
    pub(super) fn contradicted_again(&self, again: Option<&Response>) -> Option<Box<Contradiction>> {
        match again {
            Some(Response::Contradicted(request, digest, _))
                if request.condition == self.request.condition && *digest == self.digest =>
            {
                self.contradiction.clone()
            }
            _ => None,
        }
    }
}

impl RemoteScrub<'_, '_> {
    /// A file that is not what its place recorded. What is recorded here of the same version says more.
    pub(super) fn contradicted(
        &mut self,
        request: Request,
        digest: Output,
        contradiction: Box<Contradiction>,
        messages: &mut Vec<Message>,
    ) -> Result<(), ScrubError> {
        let known = self.listing.known(self.writer.catalog, &request.name)?.and_then(|(_, record)| record);
        let is_of_it = |record: &CatalogRecord| {
            // Two uploads may have one time.
            has_its_time(record, request.condition.mtime)
                && is_same_file(record, request.condition.identity) != Some(false)
        };
        match known {
            Some(record) if is_of_it(&record) || record.state == State::DAMAGED => {
                if record.digest == digest {
                    let path = [self.root, b"/", &*request.name].concat();
                    // As the keys of objects are written.
                    let start = path.iter().take_while(|byte| **byte == b'/').count();
                    let (name, why) = (String::from_utf8_lossy(&path[start..]), contradiction.contradicted);
                    let note = format!("{name}: {why}; it is as the catalogue has it");
                    (self.notes)(PlaceEvent::Note(note));
                }
                self.file(request, digest, messages)
            }
            // Of two records of the place one is wrong.
            _ if contradiction.is_disputed => {
                let why = FileFault::NotAsWritten(contradiction.contradicted);
                self.unread(&request.name, Observation::unreadable(why, false), messages)
            }
            _ if self.is_passed_over(&request)? => Ok(()),
            _ => {
                let token = self.token(&request.name, messages)?;
                self.work.judge.tally.read(request.condition.size, request.condition.size);
                self.doubtful.push((token, ReadFile { request, digest, contradiction: Some(contradiction) }));
                Ok(())
            }
        }
    }

    /// Judges a file that twice was not what its place recorded. That is its record from now on, so that a copy of it can
    /// repair the file. An archive keeps what it has.
    pub(super) fn not_as_written(
        &self,
        token: Token,
        read: ReadFile,
        contradiction: &Contradiction,
        messages: &mut Vec<Message>,
    ) -> Result<(), ScrubError> {
        let Contradicted { recorded, found } = &*contradiction.contradicted;
        let is_kept = self.work.options.archive
            || token.record.is_some_and(|record| record.state == State::Trouble(Trouble::Held));
        let mut observation =
            Observation::of(Evidence::NotAsWritten, Some(seen(token.record.as_ref(), &read)));
        observation.second = Some(SecondReading { same: true, bypass: Bypass::No });
        observation.error = Some(FileFault::NotAsWritten(contradiction.contradicted.clone()));
        let name = &read.request.name;
        if token.record.is_some() && is_kept {
            self.judged(token, name, Observation { found: Verdict::Suspicious, ..observation }, messages);
            return Ok(());
        }
        let now = self.work.plan.now();
        let old = token.record;
        // An ETag may be none of the content, so that only its user knows.
        let found_to_be = if recorded.is_certain { observation.found } else { Verdict::Suspicious };
        let observation = Observation { found: found_to_be, ..observation };
        let mut judged = self.judgement(Token { record: None, ..token }, name, observation);
        // No digest of the table is of parts of several lengths, or of a single one: then nothing tells a good copy.
        if Digest::find(&recorded.algorithm).is_err() {
            judged.error = Some(FileFault::WriteAnew(contradiction.contradicted.clone()));
        } else {
            let Condition { size, mtime, identity, .. } = read.request.condition;
            let new = CatalogRecord {
                size,
                mtime,
                ctime: Stamp::UNKNOWN,
                inode: identity.map_or(0, |identity| identity.number),
                algorithm: self.writer.catalog.algorithm(&recorded.algorithm)?,
                digest: recorded.digest,
                first_seen: old.map_or(now, |old| old.first_seen),
                changed: now,
                verified: Moment::NEVER,
                state: State::Sound,
            };
            judged.found = judged.found.map(|seen| Seen { digest: *found, ..seen });
            let detail = judged.error.as_ref().map(ToString::to_string);
            let finding = RecordFinding { since: now, seen: now, read: judged.found, detail };
            let bad = State::Trouble(Trouble::Verdict(judged.verdict));
            (judged.recorded, judged.change) = (Some(new), Some(RecordChange::Suspect(bad, finding)));
            judged.written = Some(WrittenRecord { old, new, algorithm: recorded.algorithm.clone() });
        }
        messages.push(Message::Judged(self.work.judge.spent.boxed(judged)));
        Ok(())
    }
}
