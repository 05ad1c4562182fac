//! Scrubs a tree of another place, which lists the tree and hashes its files. The answers are judged, written
//! and reported as for a tree of this machine.
//!
//! What is due is decided as for a tree of this machine, by one plan: where all of it is to be read, the place lists
//! and reads it in one go; else it lists it, and reads the bad files first, then the new and the changed ones,
//! then the stalest, as long as there is time.
//!
//! Of such files the time of the inode's last change is not known, and which file it is only where the place tells that.
//! A content that is another while the time of modification is the recorded one is bad: rot if the length is the
//! recorded one, else suspicious; unless it is another file, as after a renaming.

mod contradicted;
mod listing;
mod reader;
mod reading_order;

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use verisum_digest::Output;

use super::finish::last_known;
use super::jobs::Outcome;
use super::judge::{Observation, Token, is_bad};
use super::plan::Turn;
use super::run::{Passage, Work};
use super::tally::Untried;
use super::writer::{Judged, Message, Writer};
use super::{FileFault, RootFault, Scope, ScrubError, ScrubOptions, SecondReading, tree_guard};
use crate::store::{Catalog, CatalogRecord, Heap, Identity, Moment, Seen, Stamp, State, VerifiedFile};
use listing::Listing;
use reading_order::{Choice, HeapFiles};
use verisum_files::place::{FileIdentity, PlaceError, RecordedDigest};
use verisum_files::{Comparison, Evidence, SecondRead, Verdict};

use reader::Sink;
pub(super) use reader::{Ask, Condition, Contradiction, Request, Response, is_no_file};
pub use reader::{Notes, PlaceTree, has_same_change, is_same_time};

/// How many files are judged and written at once.
const BATCH: usize = 1000;
/// How long after the time of an upload a record may have been made that another upload of the same second followed,
/// in milliseconds: the second, and what clocks are apart. Some stores make the ETag of the bytes they have, so the
/// longer it is, the more rot of new objects would be taken for an upload.
const SAME_SECOND: Duration = Duration::from_secs(2);

impl Passage for PlaceTree<'_> {
    fn scope(&self, catalog: &Catalog, address: &Path, _: &ScrubOptions) -> Result<Scope, ScrubError> {
        if let Some(root) = catalog.root_of(address)? {
            return tree_guard::inside(catalog, root, address, 0);
        }
        let root = catalog.add_root(address, Identity { device: 0, inode: 0 })?;
        Ok(Scope { directory: root.directory, path: address.to_path_buf(), root, top: None })
    }

    fn rehashes(&self) -> bool {
        false
    }

    fn go<'w>(&mut self, work: &Work, mut writer: Writer<'w>) -> Result<(Writer<'w>, Outcome), ScrubError> {
        writer.begin(work)?;
        let (options, plan) = (work.options, work.plan);
        // Nobody else writes while a second connection is opened.
        let turn = work.take_turn();
        let others = work.scope.roots_below(writer.catalog)?;
        let choice = Choice::new(writer.catalog.again()?, plan, options.sample)?;
        let used = writer.catalog.algorithms_of(work.scope.root.id)?;
        drop(turn);
        let mut scrub = RemoteScrub {
            listing: Listing::new(work.scope, options, others),
            writer,
            work,
            root: self.root,
            responses: Vec::new(),
            doubtful: Vec::new(),
            choice: Some(choice),
            is_stopped: false,
            is_in_store: self.place.tells_records(),
            listed_at: None,
            reported_at: None,
            notes: self.notes,
            failed: None,
        };
        // With one digest for all files, and all of them due, they are listed and read in one go.
        let digests = work.judge.digests;
        let mut others = used.iter().filter_map(|algorithm| digests.set_of.get(algorithm));
        let has_one_digest = others.all(|set| *set == digests.new);
        let reads_all = plan.is_in_one_pass && plan.before >= options.started() && options.limits.is_none();
        self.place.end_by(&options.stop);
        let capabilities = self.place.capabilities(std::slice::from_ref(&options.digest), self.notes);
        let (listed_at, reported_at) =
            capabilities.map_or((None, None), |able| (able.listed_at, able.reported_at));
        scrub.listed_at = listed_at.map(Stamp::from);
        // One that is older than verifications may be stands for none.
        let has_no_age = options.since.is_none() && options.max_age.is_none();
        let is_recent = |at: &Moment| has_no_age || *at >= plan.before;
        scrub.reported_at = reported_at.map(Moment::from).filter(is_recent);
        let is_listed_first = scrub.listing.leaves_out_any() || scrub.reported_at.is_some();
        let hashed = has_one_digest && reads_all && !is_listed_first;
        match scrub.receive(&mut |sink| self.ask(&options.digest, Ask::Tree { hashed }, sink)) {
            Err(ReceiveError::Digest(why)) => return Err(scrub.error(why)),
            Err(ReceiveError::Failed(error)) => return Err(error),
            Ok(()) => {}
        }
        if let Some(mut choice) = scrub.choice.take() {
            plan.leave_a_tenth();
            for heap in choice.heaps()? {
                scrub.read_heap(heap, choice.files(heap, options.shuffle), self)?;
            }
        }
        if !options.stop.is_due() {
            scrub.read_again(self)?;
        }
        scrub.finish()
    }
}

/// Why no more responses are received.
enum ReceiveError {
    Digest(FileFault),
    Failed(ScrubError),
}

/// A file that was read.
struct ReadFile {
    request: Request,
    digest: Output,
    /// What its place recorded instead, if nothing here is recorded of what was written there.
    contradiction: Option<Box<Contradiction>>,
}

/// A scrub of a remote tree in progress.
struct RemoteScrub<'a, 'w> {
    listing: Listing<'a>,
    writer: Writer<'w>,
    work: &'a Work<'a>,
    /// The path of the tree in its place.
    root: &'a [u8],
    /// Responses that are not written yet.
    responses: Vec<Response>,
    /// Files that are read again before they are called bad.
    doubtful: Vec<(Token, ReadFile)>,
    /// Takes files that were listed and are to be read. None once the listing is through: then all that is there was
    /// met.
    choice: Option<Choice<'a>>,
    /// Whether the time was over before the last file that is due.
    is_stopped: bool,
    /// Whether the place is an object store, whose versions stand for inodes.
    is_in_store: bool,
    /// When the place made its listing, if not in this run.
    listed_at: Option<Stamp>,
    /// When the report was made whose digests stand for reading.
    reported_at: Option<Moment>,
    notes: Notes<'a>,
    failed: Option<ScrubError>,
}

impl<'w> RemoteScrub<'_, 'w> {
    /// Asks the place, and writes its responses as they come.
    fn receive(&mut self, ask: &mut dyn FnMut(Sink) -> Result<(), PlaceError>) -> Result<(), ReceiveError> {
        let ended = ask(&mut |response| {
            self.responses.push(response);
            if self.responses.len() >= BATCH
                && let Err(error) = self.keep()
            {
                self.failed = Some(error);
            }
            self.failed.is_none() && !self.work.options.stop.is_due()
        });
        let kept = match self.failed.take() {
            Some(error) => Err(error),
            None => self.keep(),
        };
        kept.map_err(ReceiveError::Failed)?;
        match ended {
            Ok(()) => Ok(()),
            Err(why @ PlaceError::Digest(_)) => Err(ReceiveError::Digest(why.into())),
            Err(error) => Err(ReceiveError::Failed(self.error(error))),
        }
    }

    fn error(&self, why: impl Into<FileFault>) -> ScrubError {
        ScrubError::Remote { path: self.work.scope.path.clone(), why: Box::new(why.into()) }
    }

    /// Something of the tree that could not be listed.
    fn unlisted(&self, error: FileFault) -> Message {
        Message::Unlisted { path: self.work.scope.path.clone(), error, storage_failed: false, place: None }
    }

    /// Judges and writes the responses.
    fn keep(&mut self) -> Result<(), ScrubError> {
        let _turn = self.work.take_turn();
        self.listing.begin(self.writer.catalog)?;
        let mut messages = Vec::new();
        for response in std::mem::take(&mut self.responses) {
            match response {
                Response::Listed(request, reported) => self.listed(request, reported)?,
                Response::File(request, digest) => self.file(request, digest, &mut messages)?,
                Response::Contradicted(request, digest, contradiction) => {
                    self.contradicted(request, digest, contradiction, &mut messages)?;
                }
                Response::Changed(name) if self.listing.leaves_out(&name) => {}
                Response::Changed(name) => {
                    let token = self.token(&name, &mut messages)?;
                    self.judged(token, &name, Observation::of(Evidence::Unsettled, None), &mut messages);
                }
                Response::Unread { name, error, storage_failed } => {
                    if name.is_empty() {
                        return Err(self.error(error));
                    }
                    self.unread(&name, Observation::unreadable(error, storage_failed), &mut messages)?;
                }
                Response::Unlisted(error) => {
                    self.listing.is_blind = true;
                    self.listing.outcome.unlisted += 1;
                    // Perhaps it is why nothing is listed: then that is said, once.
                    match self.listing.first_error {
                        None if self.listing.has_met_nothing() => self.listing.first_error = Some(error),
                        _ => messages.push(self.unlisted(error)),
                    }
                }
            }
        }
        self.writer.keep(&mut messages)
    }

    /// Whether a file is left out.
    fn is_passed_over(&self, request: &Request) -> Result<bool, ScrubError> {
        if request.name.is_empty() {
            let path = self.work.scope.path.clone();
            return Err(ScrubError::Root { path, why: RootFault::RemoteFile });
        }
        Ok(self.listing.leaves_out(&request.name))
    }

    fn file(
        &mut self,
        request: Request,
        digest: Output,
        messages: &mut Vec<Message>,
    ) -> Result<(), ScrubError> {
        if self.is_passed_over(&request)? {
            return Ok(());
        }
        let token = self.token(&request.name, messages)?;
        self.work.judge.tally.read(request.condition.size, request.condition.size);
        let read = ReadFile { request, digest, contradiction: None };
        let observation = match self.compare(&token, &read) {
            ControlFlow::Continue(comparison) if comparison.needs_second_read() => {
                self.doubtful.push((token, read));
                return Ok(());
            }
            compared => observation_of(&token, &read, compared),
        };
        self.judged(token, &read.request.name, observation, messages);
        Ok(())
    }

    /// Takes note of a file that was listed, and chooses it if it is due. One is not read whose recorded digest its place
    /// reports; one is read first of which it reports another.
    fn listed(&mut self, request: Request, reported: Option<Box<RecordedDigest>>) -> Result<(), ScrubError> {
        if self.is_passed_over(&request)? {
            return Ok(());
        }
        self.listing.meet_any();
        let known = self.listing.known(self.writer.catalog, &request.name)?;
        let known = known.and_then(|(directory, record)| Some((directory, record?)));
        if let Some((directory, _)) = known {
            self.listing.meet(directory, &request.name, true);
        }
        let record = known.map(|(_, record)| record);
        let set = self.work.judge.digests.of(record.as_ref());
        let Some(choice) = &mut self.choice else { return Ok(()) };
        let same = record.as_ref().zip(reported).and_then(|(record, reported)| {
            let is_comparable = self.reported_at.is_some()
                && reported.algorithm == self.work.judge.digests.sets[set].name()
                && record.state == State::Sound
                && !reading_order::is_written_to(record, &request);
            is_comparable.then_some(record.digest == reported.digest)
        });
        match same {
            Some(true) => self.listing.outcome.reported += 1,
            Some(false) => choice.add_at(Turn::Bad, record.as_ref(), request, set)?,
            None => choice.add(record.as_ref(), request, set)?,
        }
        Ok(())
    }

    /// Reads files of one digest, as long as there is time.
    fn read_heap(
        &mut self,
        heap: Heap,
        mut files: HeapFiles,
        tree: &mut PlaceTree,
    ) -> Result<(), ScrubError> {
        let Work { options, plan, judge, .. } = self.work;
        let may_go_on = |size: u64| {
            if let Some(limits) = &options.limits {
                limits.wait(size, 1, &options.stop);
            }
            !options.stop.is_due() && !plan.is_over()
        };
        let mut given = std::iter::from_fn(|| files.next_if(may_go_on)).fuse();
        let ended =
            self.receive(&mut |sink| tree.ask(&judge.digests.sets[heap.set], Ask::Files(&mut given), sink));
        match ended {
            // Nothing there computes it.
            Err(ReceiveError::Digest(why)) => {
                files.rewind();
                self.cannot_read(&mut files, &why)?;
            }
            Err(ReceiveError::Failed(error)) => return Err(error),
            Ok(()) if heap.turn != Turn::Stale as i64 && !options.stop.is_due() => {
                self.leave(&mut files, heap.turn == Turn::Fresh as i64)?
            }
            Ok(()) => self.is_stopped |= files.next().is_some(),
        }
        Ok(files.end()?)
    }

    /// Takes note of bad, new and changed files for which there is no time.
    fn leave(&mut self, left: &mut HeapFiles, is_fresh: bool) -> Result<(), ScrubError> {
        loop {
            let files: Vec<Request> = left.take(BATCH).collect();
            if files.is_empty() {
                return Ok(());
            }
            let _turn = self.work.take_turn();
            let mut messages = Vec::new();
            for file in files {
                let known = self.listing.known(self.writer.catalog, &file.name)?;
                let known = known.and_then(|(directory, record)| Some((directory, record?)));
                let (why, is_bad) = (Untried::NoTime, known.is_some_and(|(_, record)| is_bad(record.state)));
                self.work.judge.tally.leave(why, is_bad, is_fresh);
                let Some((directory, record)) = known else { continue };
                let name = name_of(&file.name);
                if is_bad {
                    let path = self.work.scope.path.join(OsStr::from_bytes(&file.name));
                    let state = Some(record.state);
                    messages.push(Message::NotTried { directory, name, path, state, why });
                } else if record.state == State::Sound && is_fresh {
                    let is_resized = record.size != file.condition.size;
                    messages.push(Message::Waiting { directory, name, is_resized });
                }
            }
            self.writer.keep(&mut messages)?;
        }
    }

    /// A file or a directory that was not read.
    fn unread(
        &mut self,
        name: &[u8],
        observation: Observation,
        messages: &mut Vec<Message>,
    ) -> Result<(), ScrubError> {
        if self.listing.leaves_out(name) {
            return Ok(());
        }
        match self.listing.known(self.writer.catalog, name)? {
            Some((_, Some(_))) => {
                let token = self.token(name, messages)?;
                self.judged(token, name, observation, messages);
            }
            _ => {
                // What is recorded below it is not gone.
                self.listing.unlisted.push(name.to_vec());
                self.listing.outcome.unlisted += 1;
                let path = self.work.scope.path.join(OsStr::from_bytes(name));
                let storage_failed = observation.found == Verdict::IoError;
                let error = observation.error.unwrap_or(FileFault::Found(observation.found));
                messages.push(Message::Unlisted { path, error, storage_failed, place: None });
            }
        }
        Ok(())
    }

    /// Files whose digest nothing there computes.
    fn cannot_read(&mut self, files: &mut HeapFiles, why: &FileFault) -> Result<(), ScrubError> {
        for request in files {
            let error = why.clone();
            self.responses.push(Response::Unread { name: request.name, error, storage_failed: false });
            if self.responses.len() >= BATCH {
                self.keep()?;
            }
        }
        self.keep()
    }

    fn token(&mut self, name: &[u8], messages: &mut Vec<Message>) -> Result<Token, ScrubError> {
        let (directory, record) = self.listing.locate(self.writer.catalog, name, messages)?;
        self.listing.meet_any();
        if record.is_none() || self.choice.is_some() {
            self.listing.meet(directory, name, record.is_some());
        }
        let set = self.work.judge.digests.of(record.as_ref());
        Ok(Token { directory, device: 0, set, record, is_known_bad: false })
    }

    fn judged(&self, token: Token, name: &[u8], observation: Observation, messages: &mut Vec<Message>) {
        messages.push(match self.work.judge.verified(&token, &observation) {
            Some(record) => {
                let (directory, name) = (token.directory, name_of(name));
                Message::Verified(VerifiedFile { directory, name, record, generation: None })
            }
            None => Message::Judged(self.work.judge.spent.boxed(self.judgement(token, name, observation))),
        });
    }

    fn judgement(&self, token: Token, name: &[u8], observation: Observation) -> Judged {
        let path = || self.work.scope.path.join(OsStr::from_bytes(name));
        self.work.judge.judged(token, name_of(name), observation, path)
    }

    /// A file beside its record; what it is, where they cannot be compared.
    fn compare(&self, token: &Token, read: &ReadFile) -> ControlFlow<Observation, Comparison> {
        let record = self.work.judge.comparable(token.record.as_ref(), seen(token.record.as_ref(), read))?;
        let Condition { size, mtime, identity, .. } = read.request.condition;
        let same_file = is_same_file(record, identity);
        ControlFlow::Continue(Comparison {
            same_digest: record.digest == read.digest,
            same_mtime: has_its_time(record, mtime),
            same_ctime: match has_its_size(record, size) {
                true => None,
                false => has_same_change(record, Some(size), identity, self.is_in_store),
            },
            same_file,
            // Of another file that is found out at the end of the run, by the times of all. Objects have the time of
            // their upload: another version without another time was not uploaded, unless in the same second.
            time_tells: same_file != Some(false) || self.is_in_store && !may_be_known_since(record, mtime),
            second: SecondRead::NotMade,
        })
    }

    /// Reads once more what would be called bad, and judges it.
    fn read_again(&mut self, tree: &mut PlaceTree) -> Result<(), ScrubError> {
        let mut doubtful: BTreeMap<usize, Vec<(Token, ReadFile)>> = BTreeMap::new();
        for (token, read) in std::mem::take(&mut self.doubtful) {
            doubtful.entry(token.set).or_default().push((token, read));
        }
        for (set, files) in doubtful {
            let mut found: HashMap<Vec<u8>, Response> = HashMap::new();
            let requests = Ask::Settled(files.iter().map(|(_, read)| read.request.clone()).collect());
            let ended = tree.ask(&self.work.judge.digests.sets[set], requests, &mut |response| {
                if let Response::File(Request { name, .. }, _)
                | Response::Contradicted(Request { name, .. }, ..)
                | Response::Changed(name)
                | Response::Unread { name, .. } = &response
                {
                    found.insert(name.clone(), response);
                }
                true
            });
            let mut files = files.into_iter();
            while files.len() > 0 {
                let _turn = self.work.take_turn();
                let mut messages = Vec::new();
                for (token, first) in files.by_ref().take(BATCH) {
                    let again = found.remove(&first.request.name);
                    if again.is_none() && ended.is_ok() {
                        // It is gone since; the next run says so.
                        continue;
                    }
                    if let Some(contradiction) = first.contradicted_again(again.as_ref()) {
                        self.not_as_written(token, first, &contradiction, &mut messages)?;
                        continue;
                    }
                    let (read, observation) = self.second_read(&token, first, again);
                    self.judged(token, &read, observation, &mut messages);
                }
                self.writer.keep(&mut messages)?;
            }
            if let Err(error) = ended {
                return Err(self.error(error));
            }
        }
        Ok(())
    }

    /// What a file is after it was read twice, with its name.
    fn second_read(&self, token: &Token, first: ReadFile, again: Option<Response>) -> (Vec<u8>, Observation) {
        let name = first.request.name.clone();
        let again = match again {
            Some(Response::Contradicted(request, digest, _)) => Some(Response::File(request, digest)),
            again => again,
        };
        let observation = match again {
            // What the second read says of it is not what the first said.
            Some(Response::File(..)) if first.contradiction.is_some() => {
                Observation::unreadable(FileFault::Disagree, false)
            }
            Some(Response::File(request, digest)) if request.condition == first.request.condition => {
                let is_same = digest == first.digest;
                let second = if is_same { SecondRead::Same } else { SecondRead::Different };
                let compared = self.compare(token, &first);
                let compared = compared.map_continue(|comparison| Comparison { second, ..comparison });
                Observation {
                    second: Some(SecondReading { same: is_same, bypass: super::Bypass::No }),
                    ..observation_of(token, &first, compared)
                }
            }
            // Somebody wrote to it since it was listed.
            Some(Response::File(request, digest)) => {
                let read = ReadFile { request, digest, contradiction: None };
                observation_of(token, &read, self.compare(token, &read))
            }
            Some(Response::Unread { error, storage_failed, .. }) => {
                Observation::unreadable(FileFault::SecondReadThere(Box::new(error)), storage_failed)
            }
            Some(_) => Observation::of(Evidence::Unsettled, None),
            None => {
                let lost = io::Error::other("the connection was lost");
                Observation::unreadable(FileFault::SecondRead(lost.into()), false)
            }
        };
        (name, observation)
    }

    /// Finds what is missing.
    fn finish(mut self) -> Result<(Writer<'w>, Outcome), ScrubError> {
        if !self.work.options.stop.is_due() {
            self.find_missing()?;
        }
        if let Some(error) = self.listing.first_error.take() {
            let _turn = self.work.take_turn();
            let mut messages = vec![self.unlisted(error)];
            self.writer.keep(&mut messages)?;
        }
        let passed_over = self.listing.passed_over();
        let reported_at = self.reported_at;
        let outcome =
            Outcome { passed_over, reported_at, is_through: !self.is_stopped, ..self.listing.outcome };
        Ok((self.writer, outcome))
    }

    fn find_missing(&mut self) -> Result<(), ScrubError> {
        if self.listing.has_met_nothing()
            && let Some(error) = self.listing.first_error.take()
        {
            return Err(self.error(error));
        }
        // Of a tree without records nothing is missing.
        if self.work.scope.root.files == 0 {
            return Ok(());
        }
        let is_whole = self.work.scope.is_whole();
        let is_nothing_there = self.listing.has_met_nothing() && !self.listing.leaves_out_any();
        if is_whole && is_nothing_there && !self.work.options.replaced_root {
            let path = self.work.scope.path.clone();
            return Err(ScrubError::Root { path, why: RootFault::Empty });
        }
        let _turn = self.work.take_turn();
        let mut messages = Vec::new();
        let at = self.work.plan.now();
        self.listing.missing(
            self.writer.catalog,
            self.work.scope.directory,
            self.listed_at,
            &mut |(directory, name), state| {
                messages.push(Message::Gone { directory, name, state: Some(state), at });
            },
        )?;
        self.listing.outcome.known += messages.len() as u64;
        self.writer.keep(&mut messages)
    }
}

/// What a file that was read is, beside its record or without.
fn observation_of(
    token: &Token,
    read: &ReadFile,
    compared: ControlFlow<Observation, Comparison>,
) -> Observation {
    match compared {
        ControlFlow::Break(observation) => observation,
        ControlFlow::Continue(comparison) => {
            Observation::of(Evidence::Compared(comparison), Some(seen(token.record.as_ref(), read)))
        }
    }
}

/// The name of a file in its directory.
fn name_of(path: &[u8]) -> OsString {
    OsStr::from_bytes(listing::split(path).1).into()
}

/// Whether a file has the recorded length, as far as that is known.
fn has_its_size(record: &CatalogRecord, size: u64) -> bool {
    record.known_size().is_none_or(|known| known == size)
}

/// Whether it has the recorded time of modification.
fn has_its_time(record: &CatalogRecord, mtime: Stamp) -> bool {
    record.known_mtime().is_none_or(|known| is_same_time(known, mtime))
}

/// Whether a file is the one that was recorded, as far as both are known.
fn is_same_file(record: &CatalogRecord, identity: Option<FileIdentity>) -> Option<bool> {
    let identity = identity.filter(|_| record.inode != 0)?;
    let was_made_before = identity.born.is_none_or(|born| Moment::from(born) <= last_known(record));
    Some(identity.number == record.inode && was_made_before)
}

/// Whether an object may have been uploaded again after its record was made, in the second of this time of an upload.
fn may_be_known_since(record: &CatalogRecord, uploaded: Stamp) -> bool {
    last_known(record) <= Moment::from(uploaded.timestamp()) + SAME_SECOND
}

/// What was read, as far as it is known. A time in whole seconds says no more than what is recorded.
fn seen(record: Option<&CatalogRecord>, read: &ReadFile) -> Seen {
    let Condition { size, mtime, is_exact, identity } = read.request.condition;
    let recorded = record.map(|record| record.mtime).filter(|time| !is_exact && is_same_time(*time, mtime));
    // A program that does not tell which file it is leaves that as it was, as long as nothing else changed.
    let same = record.filter(|record| record.digest == read.digest && is_same_time(record.mtime, mtime));
    let inode = identity.map_or_else(|| same.map_or(0, |record| record.inode), |identity| identity.number);
    Seen { size, mtime: recorded.unwrap_or(mtime), ctime: Stamp::UNKNOWN, inode, digest: read.digest }
}
