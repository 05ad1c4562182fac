//! The files of a run, in order: the bad ones, the new and the changed, the stalest.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use super::judge::Token;
use super::merge::Level;
use super::writer::Message;
use super::{Error, Options, Scope, Tally, due, error_text};
use crate::store::catalog::{Catalog, Record, State, stamp};
use crate::{Entry, Job, Kind, Order, Stat, Walk, WalkOptions};

/// How many rows are read at once; among so many, shuffling takes place.
const PAGE: usize = 4096;

/// How many files may be under way from here to the catalogue.
const RECENT: usize = 1 << 15;

/// Where a stretch of rows begins: after these values of its index.
type Position = (i64, i64, Vec<u8>);

const START: Position = (i64::MIN, i64::MIN, Vec::new());

/// The jobs of one run.
pub(super) struct Jobs<'a> {
    reader: Catalog,
    scope: &'a Scope,
    options: &'a Options,
    plan: &'a due::Plan,
    /// The place of each algorithm's digest.
    sets: HashMap<i64, usize>,
    /// The place of the digest of new files.
    set: usize,
    sender: Option<SyncSender<Message>>,
    tally: &'a Tally,
    /// Recorded files that were given out lately, and may not be written yet.
    recent: HashSet<(i64, Vec<u8>)>,
    stage: Stage,
    walk: Walk,
    levels: Vec<Level>,
    next_directory: i64,
    /// Device and inode of files that belong to the catalogue.
    own: Vec<(u64, u64)>,
    /// Roots of their own below.
    others: HashSet<PathBuf>,
    page: VecDeque<(i64, Vec<u8>, Record)>,
    position: Position,
    folder: (i64, PathBuf, u64),
    inside: HashMap<i64, bool>,
    dice: RandomState,
    /// Whether the work is told of before it is done.
    is_estimated: bool,
    /// The time was over before the last file due.
    is_stopped: bool,
    outcome: Outcome,
    error: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Bad,
    Walk,
    Stale,
    Future,
    End,
}

/// What the choice of files led to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Recorded files that the walk met, or that are missing.
    pub known: u64,
    /// New and changed files for which there was no time.
    pub waiting: u64,
    /// Files that were not read because their device fails.
    pub given_up: u64,
    /// Directories and files that could not be looked at.
    pub unlisted: u64,
    /// Whether all that is due was given out.
    pub is_complete: bool,
    /// Whether somebody ended the run before its time.
    pub is_interrupted: bool,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(
        reader: Catalog,
        scope: &'a Scope,
        options: &'a Options,
        plan: &'a due::Plan,
        sets: HashMap<i64, usize>,
        tally: &'a Tally,
        sender: SyncSender<Message>,
    ) -> Result<Jobs<'a>, Error> {
        let walk = WalkOptions {
            one_file_system: options.one_file_system,
            order: options.order,
            excludes: options.excludes.clone(),
            ..WalkOptions::default()
        };
        let roots = reader.roots()?.into_iter().map(|root| root.path);
        let others = roots.filter(|path| *path != scope.path && path.starts_with(&scope.path)).collect();
        let own = reader.own_files().into_iter().filter_map(|path| Entry::named(&path).ok()?.stat().ok());
        let own = own.map(|stat| (stat.device, stat.inode)).collect();
        // Of a part of what is recorded nobody has the sums.
        let is_estimated = scope.directory == scope.root.directory && options.excludes.is_none();
        if is_estimated {
            let due = match plan.before >= options.now {
                true => scope.root.bytes,
                false => reader.bytes_due(scope.root.id, plan.before)?,
            };
            options.progress.expect((due as f64 * options.sample) as u64);
        }
        let next_directory = reader.last_directory()? + 1;
        let algorithm = reader.algorithms()?.into_iter().find(|(_, name)| name == options.digest.name());
        let set = algorithm.and_then(|(number, _)| sets.get(&number).copied()).unwrap_or_default();
        Ok(Jobs {
            scope,
            options,
            plan,
            set,
            sets,
            sender: Some(sender),
            tally,
            recent: HashSet::new(),
            stage: Stage::Bad,
            walk: Walk::new(vec![scope.path.clone()], walk),
            levels: Vec::new(),
            next_directory,
            own,
            others,
            page: VecDeque::new(),
            position: START,
            folder: (0, PathBuf::new(), 0),
            inside: HashMap::new(),
            dice: RandomState::new(),
            is_estimated,
            is_stopped: false,
            outcome: Outcome::default(),
            error: None,
            reader,
        })
    }

    /// Lets the writer end.
    pub(super) fn close(&mut self) {
        self.sender = None;
    }

    /// What the choice led to, once there are no more.
    pub(super) fn outcome(mut self) -> Result<Outcome, Error> {
        self.outcome.is_interrupted = self.options.stop.is_due();
        self.outcome.is_complete &= !self.outcome.is_interrupted;
        self.outcome.is_complete &= self.outcome.waiting + self.outcome.given_up + self.outcome.unlisted == 0;
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.outcome),
        }
    }

    fn send(&self, message: Message) {
        // The writer ends early only if the catalogue fails, which ends the run.
        if let Some(sender) = &self.sender {
            let _ = sender.send(message);
        }
    }

    fn advance(&mut self) -> Result<Option<Job<Token>>, Error> {
        loop {
            if self.options.stop.is_due() {
                return Ok(None);
            }
            let job = match self.stage {
                Stage::Bad | Stage::Stale | Stage::Future => self.recorded()?,
                Stage::Walk => self.walked()?,
                Stage::End => return Ok(None),
            };
            if job.is_some() || self.options.stop.is_due() {
                return Ok(job);
            }
            self.page.clear();
            (self.stage, self.position) = match self.stage {
                Stage::Bad => (Stage::Walk, START),
                Stage::Walk => (Stage::Stale, START),
                Stage::Stale => (Stage::Future, (self.plan.future, i64::MAX, Vec::new())),
                Stage::Future | Stage::End => {
                    self.outcome.is_complete = !self.is_stopped;
                    (Stage::End, START)
                }
            };
        }
    }

    /// The next file of the bad or the stale ones.
    fn recorded(&mut self) -> Result<Option<Job<Token>>, Error> {
        loop {
            if self.page.is_empty() && !self.turn_page()? {
                return Ok(None);
            }
            if self.options.stop.is_due() {
                return Ok(None);
            }
            if self.plan.is_over() {
                self.is_stopped = true;
                return Ok(None);
            }
            let Some((directory, name, record)) = self.page.pop_front() else { continue };
            if self.is_wanted(directory, &name, &record)?
                && let Some(job) = self.recorded_job(directory, &name, record)?
            {
                return Ok(Some(job));
            }
        }
    }

    /// Reads more rows; whether there are any.
    fn turn_page(&mut self) -> Result<bool, Error> {
        let root = self.scope.root.id;
        let rows = match self.stage {
            Stage::Bad => self.reader.in_trouble(root, &self.position, false, PAGE)?,
            Stage::Stale => self.reader.stalest(root, &self.position, self.plan.before, PAGE)?,
            _ => self.reader.stalest(root, &self.position, i64::MAX, PAGE)?,
        };
        let Some((directory, name, record)) = rows.last() else { return Ok(false) };
        let first = match self.stage {
            Stage::Bad => record.state.code(),
            _ => record.verified,
        };
        self.position = (first, *directory, name.clone());
        self.page = rows.into();
        if self.stage != Stage::Bad {
            let page = self.page.make_contiguous();
            match (self.options.shuffle, self.options.order) {
                (true, _) => page.sort_by_cached_key(|row| self.dice.hash_one((row.0, &row.1))),
                (false, Order::Inode | Order::Extent) => page.sort_by_key(|row| row.2.inode),
                // They come as they were verified, which was in the order of the walk, or about it.
                (false, Order::Directory | Order::Name) => {}
            }
        }
        Ok(true)
    }

    fn is_wanted(&mut self, directory: i64, name: &[u8], record: &Record) -> Result<bool, Error> {
        if self.stage != Stage::Bad {
            // Those in trouble were read in the first stage, and missing ones cannot be.
            let chance = self.dice.hash_one((name, directory)) as f64 / u64::MAX as f64;
            let is_recent = || self.recent.contains(&(directory, name.to_vec()));
            if record.state != State::Sound || chance > self.options.sample || is_recent() {
                return Ok(false);
            }
        }
        self.is_inside(directory)
    }

    /// Whether a directory is in the part of the root that the run is about.
    fn is_inside(&mut self, directory: i64) -> Result<bool, Error> {
        if self.scope.directory == self.scope.root.directory {
            return Ok(true);
        }
        let (mut id, mut passed) = (directory, Vec::new());
        let inside = loop {
            if id == self.scope.directory {
                break true;
            }
            if let Some(known) = self.inside.get(&id) {
                break *known;
            }
            passed.push(id);
            match self.reader.parent(id)? {
                Some(parent) if parent > 0 => id = parent,
                _ => break false,
            }
        };
        self.inside.extend(passed.into_iter().map(|id| (id, inside)));
        Ok(inside)
    }

    fn recorded_job(
        &mut self,
        directory: i64,
        name: &[u8],
        record: Record,
    ) -> Result<Option<Job<Token>>, Error> {
        if self.folder.0 != directory {
            let path = self.scope.root.path.join(self.reader.path_in_root(directory)?);
            let device = Entry::named(&path).and_then(|entry| entry.stat()).map_or(0, |stat| stat.device);
            self.folder = (directory, path, device);
        }
        let device = self.folder.2;
        if let Some(excludes) = &self.options.excludes
            && let Ok(folder) = self.folder.1.strip_prefix(&self.scope.path)
            && excludes.leaves_out_file(&folder.join(OsStr::from_bytes(name)))
        {
            return Ok(None);
        }
        if self.gives_up(device) {
            return Ok(None);
        }
        // What is gone since the walk is found by the next one.
        let Ok(entry) = Entry::named(&self.folder.1.join(OsStr::from_bytes(name))) else { return Ok(None) };
        if entry.kind() != Kind::File {
            return Ok(None);
        }
        let Some(&set) = self.sets.get(&record.algorithm) else { return Ok(None) };
        if self.stage == Stage::Bad {
            self.remember(directory, name);
        }
        let token =
            Token { directory, name: OsStr::from_bytes(name).into(), device, set, record: Some(record) };
        Ok(Some(Job { entry, set, token }))
    }

    /// Whether too much of a device could not be read to go on with it. Counts the file if so.
    fn gives_up(&mut self, device: u64) -> bool {
        let gives_up = self.options.stop_after.is_some_and(|most| self.tally.failures_of(device) >= most);
        self.outcome.given_up += u64::from(gives_up);
        gives_up
    }

    /// The next new or changed file of the walk.
    fn walked(&mut self) -> Result<Option<Job<Token>>, Error> {
        while let Some(found) = self.walk.next() {
            let job = match found {
                Ok(entry) => self.entry(entry)?,
                Err(error) => {
                    self.walk_failed(error);
                    None
                }
            };
            if job.is_some() || self.options.stop.is_due() {
                return Ok(job);
            }
        }
        while let Some(level) = self.levels.pop() {
            self.leave(level)?;
        }
        Ok(None)
    }

    fn entry(&mut self, entry: Entry) -> Result<Option<Job<Token>>, Error> {
        if self.levels.is_empty() {
            let stat = entry.stat()?;
            let level = Level::new(&self.reader, self.scope.directory, entry.path(), stat.device)?;
            self.levels.push(level);
            return Ok(None);
        }
        self.leave_up_to(&entry)?;
        match entry.kind() {
            Kind::Directory => self.directory(&entry).map(|()| None),
            Kind::File => self.file(entry),
            Kind::Link | Kind::Special => Ok(None),
        }
    }

    /// Leaves the directories below the one that an entry is in.
    fn leave_up_to(&mut self, entry: &Entry) -> Result<(), Error> {
        let directory = entry.directory().path();
        while self.levels.last().is_some_and(|level| level.path != *directory) {
            if let Some(level) = self.levels.pop() {
                self.leave(level)?;
            }
        }
        if !self.levels.is_empty() {
            return Ok(());
        }
        let path = entry.path();
        Err(Error::Root { path, why: "list: the walk came to it out of order" })
    }

    fn directory(&mut self, entry: &Entry) -> Result<(), Error> {
        let stat = entry.stat();
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        let known = level.child(entry.name());
        let Ok(stat) = stat else { return Ok(()) };
        let (parent, parent_device) = (level.id, level.device);
        if !self.others.is_empty() && self.others.contains(&entry.path()) {
            self.walk.pass_over(entry);
            return Ok(());
        }
        if self.options.one_file_system && stat.device != parent_device {
            return Ok(());
        }
        let id = match known {
            Some((id, device)) => {
                // It was another file system, and now is this one: nobody has mounted it.
                if device != stat.device && self.was_mounted(parent, device)? && stat.device == parent_device
                {
                    let error = "the file system that was recorded here is not mounted".to_string();
                    self.outcome.unlisted += 1;
                    self.send(Message::Unlisted { path: entry.path(), error });
                    // Its own entries are those of the mount point.
                    let mut level = Level::new(&self.reader, id, entry.path(), stat.device)?;
                    level.is_complete = false;
                    self.levels.push(level);
                    return Ok(());
                }
                id
            }
            None => {
                let id = self.next_directory;
                self.next_directory += 1;
                let name = entry.name().to_os_string();
                self.send(Message::Directory { id, parent, name, device: stat.device });
                id
            }
        };
        self.levels.push(Level::new(&self.reader, id, entry.path(), stat.device)?);
        Ok(())
    }

    /// Whether a directory on `device` was on another device than the recorded one of its parent.
    fn was_mounted(&self, parent: i64, device: u64) -> Result<bool, Error> {
        Ok(self.reader.device(parent)?.is_some_and(|parent| parent != device))
    }

    fn file(&mut self, entry: Entry) -> Result<Option<Job<Token>>, Error> {
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        let known = level.file(&self.reader, entry.name())?;
        let (directory, device) = (level.id, level.device);
        self.outcome.known += u64::from(known.is_some());
        let stat = match entry.stat() {
            Ok(stat) => stat,
            Err(error) => {
                self.walk_failed(error);
                return Ok(None);
            }
        };
        if self.own.contains(&(stat.device, stat.inode))
            || known.is_some_and(|known| !is_to_read(&known, &stat))
        {
            return Ok(None);
        }
        if self.plan.is_over() {
            self.outcome.waiting += 1;
            return Ok(None);
        }
        if self.gives_up(device) {
            return Ok(None);
        }
        let record = match known {
            Some(_) => self.reader.record(directory, entry.name())?,
            None => None,
        };
        let set = match &record {
            Some(record) => self.sets.get(&record.algorithm).copied().unwrap_or(self.set),
            None => self.set,
        };
        if record.is_some() {
            self.remember(directory, entry.name().as_bytes());
        }
        if record.is_none() && self.is_estimated {
            self.options.progress.expect(stat.size);
        }
        let token = Token { directory, name: entry.name().into(), device, set, record };
        Ok(Some(Job { entry, set, token }))
    }

    /// Remembers a file that was given out, so that it is not given out again before the catalogue
    /// shows that it was read. No more can be under way than these.
    fn remember(&mut self, directory: i64, name: &[u8]) {
        if self.recent.len() >= RECENT {
            self.recent.clear();
        }
        self.recent.insert((directory, name.to_vec()));
    }

    /// Takes note of what could not be looked at: it is not missing.
    fn walk_failed(&mut self, error: crate::Error) {
        if let crate::Error::Io { path, source, .. } = &error {
            if let (Some(name), Some(parent)) = (path.file_name(), path.parent()) {
                for level in &mut self.levels {
                    if level.path == *path {
                        level.is_complete = false;
                    } else if level.path == parent {
                        level.child(name);
                        let _ = level.file(&self.reader, name);
                    }
                }
            }
            if source.kind() == std::io::ErrorKind::NotFound {
                return;
            }
            self.outcome.unlisted += 1;
            self.send(Message::Unlisted { path: path.clone(), error: error_text(&error) });
        }
    }

    /// Finds what is missing in a directory that the walk is through with.
    fn leave(&mut self, mut level: Level) -> Result<(), Error> {
        if !level.is_complete {
            return Ok(());
        }
        let (reader, sender, at) = (&self.reader, self.sender.as_ref(), (self.plan.clock())());
        let below = level.path.strip_prefix(&self.scope.path).unwrap_or(Path::new("")).to_path_buf();
        let excludes = self.options.excludes.as_deref();
        let is_out = |path: &Path, is_directory| {
            excludes.is_some_and(|excludes| excludes.leaves_out(path, is_directory))
        };
        let mut missing = 0;
        let mut gone = |folder: &Path, (directory, name): (i64, Vec<u8>), state| {
            let name = OsString::from_vec(name);
            if excludes.is_some() && is_out(&folder.join(&name), false) {
                return;
            }
            missing += 1;
            if let Some(sender) = sender {
                let _ = sender.send(Message::Gone { directory, name, state: Some(state), at });
            }
        };
        let inside = |level: &Level, below: &Path| -> Vec<(i64, PathBuf)> {
            let unseen = level.unseen_children().map(|(name, id)| (id, below.join(name)));
            unseen.filter(|(_, path)| !is_out(path, true)).collect()
        };
        level.unseen_files(reader, &mut |place, state| gone(&below, place, state))?;
        let mut folders = inside(&level, &below);
        while let Some((id, below)) = folders.pop() {
            let mut level = Level::new(reader, id, PathBuf::new(), 0)?;
            level.unseen_files(reader, &mut |place, state| gone(&below, place, state))?;
            folders.extend(inside(&level, &below));
        }
        self.outcome.known += missing;
        Ok(())
    }
}

impl Iterator for Jobs<'_> {
    type Item = Job<Token>;

    fn next(&mut self) -> Option<Job<Token>> {
        match self.advance() {
            Ok(job) => job,
            Err(error) => {
                self.error.get_or_insert(error);
                self.stage = Stage::End;
                None
            }
        }
    }
}

/// Whether a file that the walk came to is read at once: it may have changed, or it is back. Files that
/// were bad were read before the walk.
fn is_to_read(known: &crate::store::catalog::Known, stat: &Stat) -> bool {
    match known.state {
        State::Sound => {
            (known.size, known.mtime, known.ctime) != (stat.size, stamp(stat.modified), stamp(stat.changed))
        }
        State::MISSING => true,
        State::Trouble(_) => false,
    }
}
