//! Scrubs a tree of another place, which lists it, reads its files and tells what they are. What that
//! means is judged, written and reported as for a tree of this machine.
//!
//! What is due is decided as for a tree of this machine, by one plan: where all of it is to be read, the place lists
//! and reads it in one go; else it lists it, and reads the bad files first, then the new and the changed ones,
//! then the stalest, as long as there is time.
//!
//! Of such files the time of the inode's last change is not known, and which file it is only where the place tells that.
//! A content that is another while the time of modification is the recorded one is bad: rot if the length is the
//! recorded one, else suspicious; unless it is another file, as after a renaming.

mod choice;
mod listing;
mod reader;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicUsize, Ordering};

use verisum_digest::{Digest, Output};

use super::finish::last_known;
use super::jobs::Outcome;
use super::judge::{Judge, Look, Token};
use super::writer::{Message, Writer};
use super::{Digests, Error, Options, Report, RunPlan, Scope, Summary, Tally, guard};
use crate::store::{Catalog, Identity, Record, Run, Seen, State, stamp};
use choice::{Choice, Heap};
use listing::Listing;
use verisum_files::place::{FileIdentity, PlaceError};
use verisum_files::{Comparison, Evidence, SecondRead, Verdict};

use reader::Sink;
pub(super) use reader::{Ask, Condition, Request, Response, is_no_file};
pub use reader::{Notes, PlaceTree, is_same_time};

/// How many files are judged and written at once.
const BATCH: usize = 1000;

/// The directory of this address: a root of the catalogue, a directory in one, or a new root.
pub(super) fn scope(catalog: &Catalog, address: &Path) -> Result<Scope, Error> {
    if let Some(root) = catalog.root_of(address)? {
        return guard::inside(catalog, root, address, 0);
    }
    let root = catalog.add_root(address, Identity { device: 0, inode: 0 })?;
    Ok(Scope { directory: root.directory, path: address.to_path_buf(), root, top: None })
}

/// Forgets a new root of which nothing could be read: nobody could tell it from a name that was mistyped.
pub(super) fn forgotten(
    catalog: &Catalog,
    scope: &Scope,
    done: &Result<(Summary, bool), Error>,
    history: &[Run],
) -> Result<bool, Error> {
    let is_new = matches!(done, Err(Error::Remote { .. } | Error::Root { .. })) && history.is_empty();
    let root = if is_new { catalog.root(&scope.root.path)? } else { None };
    match root.filter(|root| root.files == 0) {
        Some(root) => catalog.forget_root(&root).map(|_| true).map_err(Error::from),
        None => Ok(false),
    }
}

pub(super) fn work<'t>(
    catalog: &mut Catalog,
    scope: &Scope,
    (options, take_turn): (&Options, &(dyn Fn() -> MutexGuard<'t, ()> + Sync)),
    RunPlan { history, due: plan, algorithm }: RunPlan,
    Digests { sets, set_of, unavailable }: Digests,
    tree: &mut PlaceTree,
    report: &mut (dyn FnMut(Report) + Send),
) -> Result<(Summary, bool), Error> {
    let tally = Tally::new(None);
    let names = sets.iter().map(|digest| digest.name().to_string()).collect();
    let used = catalog.algorithms_of(scope.root.id)?;
    let roots = catalog.roots()?.into_iter().map(|root| root.path);
    let others = roots.filter(|path| *path != scope.path && path.starts_with(&scope.path)).collect();
    let next = (plan.clock(), sets.iter().position(|digest| digest.name() == options.digest.name()));
    let judge =
        Judge { sets: &sets, unavailable: &unavailable, algorithm, options, tally: &tally, now: next.0 };
    let mut scrub = RemoteScrub {
        listing: Listing::new(scope, options, others),
        writer: Writer::new(catalog, scope, history, names, options, report),
        scope,
        judge,
        take_turn,
        set_of: &set_of,
        set: next.1.unwrap_or_default(),
        responses: Vec::new(),
        doubtful: Vec::new(),
        choice: Choice::new(plan, options.sample),
        is_listed: false,
        is_in_store: tree.place.tells_records(),
        failed: None,
    };
    let mut needed: Vec<usize> = used.iter().filter_map(|algorithm| set_of.get(algorithm).copied()).collect();
    needed.push(scrub.set);
    // With one digest for all files, and all of them due, they are listed and read in one go.
    let has_one_digest = needed.iter().all(|set| *set == needed[0]);
    let reads_all = plan.is_in_one_pass && plan.before >= options.now && options.limits.is_none();
    let hashed = has_one_digest && reads_all && !scrub.listing.leaves_out_any();
    let digest = if hashed { &sets[needed[0]] } else { &options.digest };
    match scrub.receive(&mut |sink| tree.ask(digest, Ask::Tree { hashed }, sink)) {
        Err(ReceiveError::Digest(why)) => return Err(scrub.error(why)),
        Err(ReceiveError::Failed(error)) => return Err(error),
        Ok(()) => {}
    }
    scrub.is_listed = true;
    for heap in scrub.choice.heaps(options.shuffle) {
        scrub.read_heap(heap, &sets, tree)?;
    }
    if !options.stop.is_due() {
        scrub.read_again(&sets, tree)?;
    }
    let (mut summary, is_through) = scrub.finish()?;
    summary.count_reads(&tally);
    Ok((summary, is_through))
}

/// Why no more responses are received.
enum ReceiveError {
    Digest(String),
    Failed(Error),
}

/// A file that was read.
struct ReadFile {
    request: Request,
    digest: Output,
}

/// A scrub of a remote tree in progress.
struct RemoteScrub<'a, 't, Clock> {
    listing: Listing<'a>,
    writer: Writer<'a>,
    scope: &'a Scope,
    judge: Judge<'a, Clock>,
    take_turn: &'a (dyn Fn() -> MutexGuard<'t, ()> + Sync),
    set_of: &'a HashMap<i64, usize>,
    set: usize,
    /// Responses that are not written yet.
    responses: Vec<Response>,
    /// Files that are read again before they are called bad.
    doubtful: Vec<(Token, ReadFile)>,
    /// Files that were listed and are to be read.
    choice: Choice<'a>,
    /// Whether the listing is through: then all that is there was met.
    is_listed: bool,
    /// Whether the place is an object store, whose versions stand for inodes.
    is_in_store: bool,
    failed: Option<Error>,
}

impl<'t, Clock: Fn() -> i64 + Sync + Send> RemoteScrub<'_, 't, Clock> {
    /// Asks the place, and writes its responses as they come.
    fn receive(&mut self, ask: &mut dyn FnMut(Sink) -> Result<(), PlaceError>) -> Result<(), ReceiveError> {
        let ended = ask(&mut |response| {
            self.responses.push(response);
            if self.responses.len() >= BATCH
                && let Err(error) = self.keep()
            {
                self.failed = Some(error);
            }
            self.failed.is_none() && !self.judge.options.stop.is_due()
        });
        let kept = match self.failed.take() {
            Some(error) => Err(error),
            None => self.keep(),
        };
        kept.map_err(ReceiveError::Failed)?;
        match ended {
            Ok(()) => Ok(()),
            Err(PlaceError::Digest(why)) => Err(ReceiveError::Digest(why.to_string())),
            Err(error) => Err(ReceiveError::Failed(self.error(error.to_string()))),
        }
    }

    fn error(&self, why: String) -> Error {
        Error::Remote { path: self.scope.path.clone(), why }
    }

    /// Judges and writes the responses.
    fn keep(&mut self) -> Result<(), Error> {
        let _turn = (self.take_turn)();
        self.listing.begin(self.writer.catalog)?;
        let mut messages = Vec::new();
        for response in std::mem::take(&mut self.responses) {
            match response {
                Response::File(request, digest) => self.file(request, digest, &mut messages)?,
                Response::Changed(name) if self.listing.leaves_out(&name) => {}
                Response::Changed(name) => {
                    let token = self.token(&name, &mut messages)?;
                    self.judged(token, &name, Look::of(Evidence::Unsettled, None), &mut messages);
                }
                Response::Unread { name, error, storage_failed } => {
                    if name.is_empty() {
                        return Err(self.error(error));
                    }
                    let look = Look::of(Evidence::Unreadable { storage_failed }, None);
                    self.unread(&name, Look { error: Some(error), ..look }, &mut messages)?;
                }
                Response::Unlisted(error) => {
                    self.listing.is_blind = true;
                    self.listing.outcome.unlisted += 1;
                    self.listing.first_error.get_or_insert_with(|| error.clone());
                    let path = self.scope.path.clone();
                    messages.push(Message::Unlisted { path, error, storage_failed: false });
                }
            }
        }
        self.writer.keep(&mut messages)
    }

    fn file(
        &mut self,
        request: Request,
        digest: Option<Output>,
        messages: &mut Vec<Message>,
    ) -> Result<(), Error> {
        if request.name.is_empty() {
            let path = self.scope.path.clone();
            return Err(Error::Root { path, why: "it is no directory, and trees are what is recorded" });
        }
        if self.listing.leaves_out(&request.name) {
            return Ok(());
        }
        let Some(digest) = digest else { return self.listed(request) };
        let token = self.token(&request.name, messages)?;
        let tally = self.judge.tally;
        tally.read_files.fetch_add(1, Ordering::Relaxed);
        tally.read_bytes.fetch_add(request.condition.size, Ordering::Relaxed);
        tally.hashed_bytes.fetch_add(request.condition.size, Ordering::Relaxed);
        let read = ReadFile { request, digest };
        match self.comparison(token.record.as_ref(), &read) {
            Some(comparison) if comparison.needs_second_read() => self.doubtful.push((token, read)),
            comparison => {
                let look = self.look(&token, &read, comparison);
                self.judged(token, &read.request.name, look, messages);
            }
        }
        Ok(())
    }

    /// Takes note of a file that was listed, and chooses it if it is due.
    fn listed(&mut self, request: Request) -> Result<(), Error> {
        self.listing.meet_any();
        let known = self.listing.known(self.writer.catalog, &request.name)?;
        let known = known.and_then(|(directory, record)| Some((directory, record?)));
        if let Some((directory, _)) = known {
            self.listing.meet(directory, &request.name, true);
        }
        let record = known.map(|(_, record)| record);
        let set = record.and_then(|record| self.set_of.get(&record.algorithm).copied());
        self.choice.add(record.as_ref(), request, set.unwrap_or(self.set));
        Ok(())
    }

    /// Reads files of one digest, as long as there is time.
    fn read_heap(&mut self, heap: Heap, sets: &[Digest], tree: &mut PlaceTree) -> Result<(), Error> {
        let (options, plan) = (self.judge.options, self.choice.plan);
        let given = AtomicUsize::new(0);
        let may_go_on = |file: &&Request| {
            if let Some(limits) = &options.limits {
                limits.wait(file.condition.size, 1, &options.stop);
            }
            !options.stop.is_due() && !plan.is_over()
        };
        let mut files = heap.files.iter().take_while(may_go_on).cloned().inspect(|_| {
            given.fetch_add(1, Ordering::Relaxed);
        });
        let ended = self.receive(&mut |sink| tree.ask(&sets[heap.set], Ask::Files(&mut files), sink));
        let given = given.load(Ordering::Relaxed);
        match ended {
            // Nothing there computes it.
            Err(ReceiveError::Digest(why)) => return self.cannot_read(heap.files, &why),
            Err(ReceiveError::Failed(error)) => return Err(error),
            Ok(()) => {}
        }
        let left = &heap.files[given.min(heap.files.len())..];
        self.choice.is_stopped |= !left.is_empty();
        if heap.is_fresh && !options.stop.is_due() {
            self.left_waiting(left)?;
        }
        Ok(())
    }

    /// Takes note of new and changed files for which there is no time.
    fn left_waiting(&mut self, left: &[Request]) -> Result<(), Error> {
        self.listing.outcome.waiting += left.len() as u64;
        for files in left.chunks(BATCH) {
            let _turn = (self.take_turn)();
            let mut messages = Vec::new();
            for file in files {
                let known = self.listing.known(self.writer.catalog, &file.name)?;
                if let Some((directory, Some(record))) = known
                    && record.state == State::Sound
                {
                    let name = OsStr::from_bytes(listing::split(&file.name).1).to_os_string();
                    let is_resized = record.size != file.condition.size;
                    messages.push(Message::Waiting { directory, name, is_resized });
                }
            }
            self.writer.keep(&mut messages)?;
        }
        Ok(())
    }

    /// A file or a directory that was not read.
    fn unread(&mut self, name: &[u8], look: Look, messages: &mut Vec<Message>) -> Result<(), Error> {
        if self.listing.leaves_out(name) {
            return Ok(());
        }
        match self.listing.known(self.writer.catalog, name)? {
            Some((_, Some(_))) => {
                let token = self.token(name, messages)?;
                self.judged(token, name, look, messages);
            }
            _ => {
                // What is recorded below it is not gone.
                self.listing.unlisted.push(name.to_vec());
                self.listing.outcome.unlisted += 1;
                let path = self.scope.path.join(OsStr::from_bytes(name));
                let (error, storage_failed) =
                    (look.error.unwrap_or_default(), look.found == Verdict::IoError);
                messages.push(Message::Unlisted { path, error, storage_failed });
            }
        }
        Ok(())
    }

    /// Files whose digest nothing there computes.
    fn cannot_read(&mut self, files: Vec<Request>, why: &str) -> Result<(), Error> {
        for request in files {
            let error = why.to_string();
            self.responses.push(Response::Unread { name: request.name, error, storage_failed: false });
            if self.responses.len() >= BATCH {
                self.keep()?;
            }
        }
        self.keep()
    }

    fn token(&mut self, name: &[u8], messages: &mut Vec<Message>) -> Result<Token, Error> {
        let (directory, record) = self.listing.locate(self.writer.catalog, name, messages)?;
        self.listing.meet_any();
        if record.is_none() || !self.is_listed {
            self.listing.meet(directory, name, record.is_some());
        }
        let set = record.and_then(|record| self.set_of.get(&record.algorithm).copied());
        let name = OsStr::from_bytes(listing::split(name).1).to_os_string();
        Ok(Token { directory, name, device: 0, set: set.unwrap_or(self.set), record, is_known_bad: false })
    }

    fn judged(&mut self, token: Token, name: &[u8], look: Look, messages: &mut Vec<Message>) {
        let path = || self.scope.path.join(OsStr::from_bytes(name));
        messages.push(Message::Judged(Box::new(self.judge.judged(token, look, path))));
    }

    /// A file beside its record, where they can be compared.
    fn comparison(&self, record: Option<&Record>, read: &ReadFile) -> Option<Comparison> {
        let record = record.filter(|record| {
            record.state != State::DAMAGED && !self.judge.unavailable.contains_key(&record.algorithm)
        })?;
        let Condition { size, mtime, .. } = read.request.condition;
        // A list that was recorded says nothing of lengths and times.
        let is_from_list = record.verified == 0;
        let has_its_size = record.size == size || is_from_list && record.size == 0;
        let same_file = is_same_file(record, read.request.condition.identity);
        Some(Comparison {
            same_digest: record.digest == read.digest,
            same_mtime: is_same_time(record.mtime, mtime) || is_from_list && record.mtime == 0,
            // No ordinary writing moves the length and not the time.
            same_ctime: (!has_its_size).then_some(false),
            same_file,
            // Of another file that is found out at the end of the run, by the times of all. Objects have the time of
            // their upload: another version without another time was not uploaded.
            time_tells: same_file != Some(false) || self.is_in_store,
            second: SecondRead::NotMade,
        })
    }

    fn look(&self, token: &Token, read: &ReadFile, comparison: Option<Comparison>) -> Look {
        let seen = seen(token.record.as_ref(), read);
        let Some(comparison) = comparison else {
            let why = token.record.and_then(|record| self.judge.unavailable.get(&record.algorithm));
            return match (&token.record, why) {
                (None, _) => Look::of(Evidence::Unrecorded { moved_here: false }, Some(seen)),
                (Some(record), Some(why)) if record.state != State::DAMAGED => {
                    let look = Look::of(Evidence::Unreadable { storage_failed: false }, None);
                    Look { error: Some(format!("hash: {why}")), ..look }
                }
                (Some(_), _) => Look::of(Evidence::RecordDamaged, Some(seen)),
            };
        };
        Look::of(Evidence::Compared(comparison), Some(seen))
    }

    /// Reads once more what would be called bad, and judges it.
    fn read_again(&mut self, sets: &[Digest], tree: &mut PlaceTree) -> Result<(), Error> {
        let mut doubtful: BTreeMap<usize, Vec<(Token, ReadFile)>> = BTreeMap::new();
        for (token, read) in std::mem::take(&mut self.doubtful) {
            doubtful.entry(token.set).or_default().push((token, read));
        }
        for (set, files) in doubtful {
            let mut found: HashMap<Vec<u8>, Response> = HashMap::new();
            let requests = Ask::Settled(files.iter().map(|(_, read)| read.request.clone()).collect());
            let ended = tree.ask(&sets[set], requests, &mut |response| {
                if let Response::File(Request { name, .. }, _)
                | Response::Changed(name)
                | Response::Unread { name, .. } = &response
                {
                    found.insert(name.clone(), response);
                }
                true
            });
            let mut files = files.into_iter();
            while files.len() > 0 {
                let _turn = (self.take_turn)();
                let mut messages = Vec::new();
                for (token, first) in files.by_ref().take(BATCH) {
                    let again = found.remove(&first.request.name);
                    if again.is_none() && ended.is_ok() {
                        // It is gone since; the next run says so.
                        continue;
                    }
                    let (read, look) = self.second_look(&token, first, again);
                    self.judged(token, &read, look, &mut messages);
                }
                self.writer.keep(&mut messages)?;
            }
            if let Err(error) = ended {
                return Err(self.error(error.to_string()));
            }
        }
        Ok(())
    }

    /// What a file is after it was read twice, with its name.
    fn second_look(&self, token: &Token, first: ReadFile, again: Option<Response>) -> (Vec<u8>, Look) {
        let name = first.request.name.clone();
        let look = match again {
            Some(Response::File(request, Some(digest))) if request.condition == first.request.condition => {
                let is_same = digest == first.digest;
                let second = if is_same { SecondRead::Same } else { SecondRead::Different };
                let comparison = self.comparison(token.record.as_ref(), &first);
                let comparison = comparison.map(|comparison| Comparison { second, ..comparison });
                let second = Some((is_same, super::Bypass::No));
                Look { second, ..self.look(token, &first, comparison) }
            }
            // Somebody wrote to it since it was listed.
            Some(Response::File(request, Some(digest))) => {
                let read = ReadFile { request, digest };
                self.look(token, &read, self.comparison(token.record.as_ref(), &read))
            }
            Some(Response::Unread { error, storage_failed, .. }) => {
                let look = Look::of(Evidence::Unreadable { storage_failed }, None);
                Look { error: Some(format!("second read: {error}")), ..look }
            }
            Some(_) => Look::of(Evidence::Unsettled, None),
            None => {
                let look = Look::of(Evidence::Unreadable { storage_failed: false }, None);
                Look { error: Some("second read: the connection was lost".to_string()), ..look }
            }
        };
        (name, look)
    }

    /// Finds what is missing, and ends the run. Returns also whether all that is due was read.
    fn finish(mut self) -> Result<(Summary, bool), Error> {
        let is_interrupted = self.judge.options.stop.is_due();
        let is_through = !is_interrupted && !self.choice.is_stopped;
        if !is_interrupted {
            self.find_missing()?;
        }
        let _turn = (self.take_turn)();
        let passed_over = self.listing.passed_over();
        let mut outcome = Outcome { passed_over, is_interrupted, is_through, ..self.listing.outcome };
        outcome.is_complete = is_through && outcome.unlisted == 0;
        Ok((self.writer.finish(&outcome)?, is_through))
    }

    fn find_missing(&mut self) -> Result<(), Error> {
        if let (true, Some(error)) = (self.listing.has_met_nothing(), self.listing.first_error.take()) {
            return Err(self.error(error));
        }
        let is_whole = self.scope.directory == self.scope.root.directory;
        let is_nothing_there = self.listing.has_met_nothing() && !self.listing.leaves_out_any();
        if is_whole && is_nothing_there && self.scope.root.files > 0 && !self.judge.options.replaced_root {
            let why = "nothing is there of what is recorded: is it mounted? (--replaced-root takes it for the \
                       same tree)";
            return Err(self.error(why.to_string()));
        }
        let _turn = (self.take_turn)();
        let mut messages = Vec::new();
        let at = (self.judge.now)();
        self.listing.missing(
            self.writer.catalog,
            self.scope.directory,
            &mut |(directory, name), state| {
                messages.push(Message::Gone { directory, name, state: Some(state), at });
            },
        )?;
        self.listing.outcome.known += messages.len() as u64;
        self.writer.keep(&mut messages)
    }
}

/// Whether a file is the one that was recorded, as far as both are known.
fn is_same_file(record: &Record, identity: Option<FileIdentity>) -> Option<bool> {
    let identity = identity.filter(|_| record.inode != 0)?;
    let was_made_before = identity.born.is_none_or(|born| stamp(born) / 1_000_000 <= last_known(record));
    Some(identity.number == record.inode && was_made_before)
}

/// What was read, as far as it is known. A time in whole seconds says no more than what is recorded.
fn seen(record: Option<&Record>, read: &ReadFile) -> Seen {
    let Condition { size, mtime, is_exact, identity } = read.request.condition;
    let recorded = record.map(|record| record.mtime).filter(|time| !is_exact && is_same_time(*time, mtime));
    // A program that does not tell which file it is leaves that as it was, as long as nothing else changed.
    let same = record.filter(|record| record.digest == read.digest && is_same_time(record.mtime, mtime));
    let inode = identity.map_or_else(|| same.map_or(0, |record| record.inode), |identity| identity.number);
    Seen { size, mtime: recorded.unwrap_or(mtime), ctime: 0, inode, digest: read.digest }
}
