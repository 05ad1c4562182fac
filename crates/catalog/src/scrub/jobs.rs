//! The files of a run in order: first the bad files, then those of the walk, which are the new and changed ones or all
//! that are due, then the stalest that the walk left.

mod walk_jobs;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use super::judge::{ScrubJudge, Token, is_bad};
use super::merge::Level;
use super::plan::{Dice, PAGE, Plan};
use super::run::Work;
use super::tally::{Met, Untried};
use super::writer::Message;
use super::{Scope, ScrubError, ScrubOptions, Tally};
use crate::store::{Catalog, CatalogRecord, Moment, Position, RecordName, RecordSummary, Stamp, State};
use verisum_files::{Directory, Entry, Job, Kind, Order, Stat, Walk, WalkOptions};

/// How many files may be under way from here to the catalogue.
const RECENT: usize = 1 << 15;

/// The jobs of one run.
pub(super) struct Jobs<'a> {
    reader: Catalog,
    scope: &'a Scope,
    options: &'a ScrubOptions,
    plan: &'a Plan,
    judge: &'a ScrubJudge<'a>,
    sender: Option<SyncSender<Message>>,
    /// The marks of recorded files that were given out lately, and may not be written yet.
    recent: HashSet<u64>,
    stage: Stage,
    walk: Walk,
    levels: Vec<Level>,
    /// The directory of the last entry of the walk, if its level is the last.
    within: Option<Arc<Directory>>,
    next_directory: i64,
    /// Device and inode of files that belong to the catalogue.
    own: Vec<(u64, u64)>,
    /// The same of files that nothing is to look at, and why.
    withheld: Vec<((u64, u64), String)>,
    /// Roots of their own below.
    others: HashSet<PathBuf>,
    /// New files that an earlier run could not read, and what they were.
    unread: HashMap<RecordName, State>,
    page: VecDeque<(Position, CatalogRecord)>,
    position: Position,
    folder: ReachedFolder,
    inside: HashMap<i64, bool>,
    dice: Dice,
    /// Whether the walk reads most files, and so needs their whole records.
    reads_most: bool,
    /// Whether the work is told of before it is done.
    is_estimated: bool,
    /// Whether whoever shows progress has to count the files, and so hears of those that are not read: no run has come
    /// to the end of the tree.
    is_counted: bool,
    /// The time was over before the last file due.
    is_stopped: bool,
    outcome: Outcome,
    error: Option<ScrubError>,
}

/// A directory that recorded files are in, if it can be reached.
struct ReachedFolder {
    id: i64,
    path: PathBuf,
    found: Option<Arc<Directory>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Bad,
    Walk,
    Stale,
    End,
}

/// What the choice of files led to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Recorded files that the walk met, or that are missing.
    pub known: u64,
    /// Recorded files that the walk met and that are not due.
    pub not_due: Met,
    /// New and changed files for which there was no time.
    pub waiting: u64,
    /// Files that were not read because their device fails.
    pub given_up: u64,
    /// Bad files that were not read, for whatever reason.
    pub not_tried: u64,
    /// Mount points that were not entered.
    pub mount_points: u64,
    /// Files that were not read because a report of their place has the recorded digest, and when it was made.
    pub reported: u64,
    pub reported_at: Option<Moment>,
    /// Directories and files that could not be looked at.
    pub unlisted: u64,
    /// The paths of these, of mount points that were not entered, and of roots of their own: what is below was
    /// not met.
    pub passed_over: HashSet<PathBuf>,
    /// Directories with parity in the usual place.
    pub parity: Vec<PathBuf>,
    /// Recorded directories at which another file system was mounted since, and its device.
    pub mounted: Vec<(i64, u64)>,
    /// Whether all that is due and could be found was given out.
    pub is_through: bool,
    /// The same, and everything could be found, and was tried.
    pub is_complete: bool,
    /// Whether somebody ended the run before its time.
    pub is_interrupted: bool,
}

impl Outcome {
    /// Completes it with what the threads have counted that read.
    pub(super) fn close(&mut self, tally: &Tally, is_interrupted: bool) {
        self.is_interrupted = is_interrupted;
        (self.given_up, self.not_tried) = tally.given_up();
        self.mount_points += tally.mounted_over.load(Ordering::Relaxed);
        self.is_through &= !is_interrupted && tally.left().is_none();
        self.waiting += tally.left().unwrap_or_default();
        self.is_through &= self.waiting + self.given_up == 0;
        self.is_complete = self.is_through && self.unlisted + self.not_tried == 0;
    }
}

impl<'a> Jobs<'a> {
    pub(super) fn new(
        reader: Catalog,
        work: &'a Work<'a>,
        sender: SyncSender<Message>,
    ) -> Result<Jobs<'a>, ScrubError> {
        let (scope, options, plan) = (work.scope, work.options, work.plan);
        // Asking where each file lies costs as much as all else. It is worth that where most are to be read.
        let is_known = reader.was_complete(scope.root.id)?;
        let order = match options.order {
            Order::Extent if is_known => Order::Inode,
            order => order,
        };
        let mut walk = WalkOptions::default();
        walk.one_file_system = options.one_file_system;
        walk.order = order;
        walk.excludes = options.excludes.clone();
        let others = scope.roots_below(&reader)?.into_iter().collect();
        let own = reader.own_files().into_iter().filter_map(|path| Entry::named(&path).ok()?.stat().ok());
        let own = own.map(|stat| (stat.device, stat.inode)).collect();
        let withheld = options.withheld.iter().filter_map(|(path, why)| {
            let stat = Entry::named(path).ok()?.stat().ok()?;
            Some(((stat.device, stat.inode), why.clone()))
        });
        // Of a part of what is recorded nobody has the sums.
        let is_estimated = scope.is_whole() && options.excludes.is_none();
        let mut reads_most = false;
        if is_estimated {
            let due = match plan.before >= options.started() {
                true => scope.root.bytes,
                false => reader.bytes_due(scope.root.id, plan.before, plan.future)?,
            };
            if is_known {
                options.progress.expect((due as f64 * options.sample) as u64);
            }
            reads_most = plan.is_in_one_pass && due > scope.root.bytes / 2;
        }
        let next_directory = reader.last_directory()? + 1;
        plan.begin_reading();
        Ok(Jobs {
            scope,
            options,
            plan,
            judge: &work.judge,
            sender: Some(sender),
            recent: HashSet::new(),
            stage: Stage::Bad,
            walk: Walk::new(vec![scope.path.clone()], walk),
            levels: Vec::new(),
            within: None,
            next_directory,
            own,
            withheld: withheld.collect(),
            others,
            unread: reader.unread(scope.root.id, Moment::MAX)?,
            page: VecDeque::new(),
            position: Position::START,
            folder: ReachedFolder { id: 0, path: PathBuf::new(), found: None },
            inside: HashMap::new(),
            dice: Dice::default(),
            reads_most,
            is_counted: !is_known && plan.is_in_one_pass,
            is_estimated: is_estimated && is_known,
            is_stopped: false,
            outcome: Outcome::default(),
            error: None,
            reader,
        })
    }

    /// Lets the writer end. If somebody ended the run, the bad files that it did not come to are named first.
    pub(super) fn close(&mut self) {
        if self.options.stop.is_due() && self.stage == Stage::Bad {
            self.next();
        }
        self.sender = None;
    }

    /// What the choice led to, once there are no more.
    pub(super) fn outcome(self) -> Result<Outcome, ScrubError> {
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

    fn advance(&mut self) -> Result<Option<Job<Token>>, ScrubError> {
        loop {
            if self.is_ended() {
                return Ok(None);
            }
            let job = match self.stage {
                Stage::Bad | Stage::Stale => self.recorded()?,
                Stage::Walk => self.walked()?,
                Stage::End => return Ok(None),
            };
            if job.is_some() || self.options.stop.is_due() {
                return Ok(job);
            }
            self.page.clear();
            self.position = Position::START;
            self.stage = match self.stage {
                Stage::Bad => Stage::Walk,
                // The walk read all that is due, where it came to everything.
                Stage::Walk if self.plan.is_in_one_pass && self.outcome.passed_over.is_empty() => self.end(),
                Stage::Walk => {
                    self.reader.list_stale(self.scope.root.id, self.plan.before, self.plan.future)?;
                    self.plan.begin_reading();
                    Stage::Stale
                }
                Stage::Stale | Stage::End => self.end(),
            };
        }
    }

    /// Whether somebody ended the run, and no bad files are left to be named.
    fn is_ended(&self) -> bool {
        self.stage != Stage::Bad && self.options.stop.is_due()
    }

    fn end(&mut self) -> Stage {
        self.outcome.is_through = !self.is_stopped;
        Stage::End
    }

    /// The next file of the bad or the stale ones.
    fn recorded(&mut self) -> Result<Option<Job<Token>>, ScrubError> {
        loop {
            if self.page.is_empty() && !self.turn_page()? {
                return Ok(None);
            }
            if self.is_ended() {
                return Ok(None);
            }
            // Bad files are named all the same. Where there was no time for all that is fresh, there is none for others.
            let is_over = || self.plan.is_over() || self.judge.tally.left().is_some();
            if self.stage == Stage::Stale && is_over() {
                self.is_stopped = true;
                return Ok(None);
            }
            let Some((Position { directory, name, .. }, record)) = self.page.pop_front() else { continue };
            if self.is_wanted(directory, &name, &record)?
                && let Some(job) = self.recorded_job(directory, &name, record)?
            {
                return Ok(Some(job));
            }
        }
    }

    /// Reads more rows; whether there are any.
    fn turn_page(&mut self) -> Result<bool, ScrubError> {
        let root = self.scope.root.id;
        let rows = match self.stage {
            Stage::Bad => self.reader.in_trouble(root, &self.position, false, PAGE)?,
            _ => self.reader.stale(&self.position, PAGE)?,
        };
        let Some((last, _)) = rows.last() else { return Ok(false) };
        self.position = last.clone();
        self.page = rows.into();
        if self.stage != Stage::Bad {
            let page = self.page.make_contiguous();
            match (self.options.shuffle, self.options.order) {
                (true, _) => {
                    page.sort_by_cached_key(|(place, _)| self.dice.throw((place.directory, &place.name[..])));
                }
                (false, Order::Inode | Order::Extent) => page.sort_by_key(|(_, record)| record.inode),
                // They come as they were verified, which was in the order of the walk, or about it.
                (false, Order::Directory | Order::Name) => {}
            }
        }
        Ok(true)
    }

    fn is_wanted(&mut self, directory: i64, name: &[u8], record: &CatalogRecord) -> Result<bool, ScrubError> {
        if self.stage != Stage::Bad {
            // Those in trouble were read in the first stage, and missing ones cannot be. Damage to a record
            // is found here, and known in the first stage of the next run.
            let is_recent = || self.recent.contains(&self.mark(directory, name));
            let is_in_turn = matches!(record.state, State::Sound | State::DAMAGED);
            if !is_in_turn || !self.dice.takes((name, directory), self.options.sample) || is_recent() {
                return Ok(false);
            }
        }
        self.is_inside(directory)
    }

    /// Whether a directory is in the part of the root that the run is about.
    fn is_inside(&mut self, directory: i64) -> Result<bool, ScrubError> {
        if self.scope.is_whole() {
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
        record: CatalogRecord,
    ) -> Result<Option<Job<Token>>, ScrubError> {
        if self.folder.id != directory {
            let path = self.scope.root.path.join(self.reader.path_in_root(directory)?);
            let found = self.scope.top.as_ref().and_then(|top| top.folder(&path).ok());
            self.folder = ReachedFolder { id: directory, path, found };
        }
        if let Some(excludes) = &self.options.excludes
            && let Ok(folder) = self.folder.path.strip_prefix(&self.scope.path)
            && excludes.leaves_out_file(&folder.join(OsStr::from_bytes(name)))
        {
            return Ok(None);
        }
        // The walk forgets these.
        if super::parity_files::is_of_parity_in(&self.folder.path, name) {
            return Ok(None);
        }
        // What is gone since the walk is found by the next one.
        let Some(folder) = &self.folder.found else { return Ok(None) };
        let Some(top) = &self.scope.top else { return Ok(None) };
        let found = top.entry(folder, OsStr::from_bytes(name), Some(record.inode));
        let Some((entry, stat)) = found.ok().filter(|(_, stat)| stat.kind == Kind::File) else {
            return Ok(None);
        };
        // The walk tells of these.
        if self.withheld(&entry).is_some() {
            return Ok(None);
        }
        let device = stat.device;
        let is_known_bad = tells_of_storage(record.state) && is_untouched(&record, &stat);
        if self.stage == Stage::Bad {
            self.remember(directory, name);
        }
        if let Some(why) = self.judge.why_not_read(device, is_known_bad) {
            let known = (Some(RecordSummary::from(&record)), Some(record.state));
            self.not_tried(why, (directory, OsStr::from_bytes(name).into()), &entry, known);
            return Ok(None);
        }
        let set = self.judge.digests.of(Some(&record));
        let token = Token { directory, device, set, record: Some(record), is_known_bad };
        Ok(Some(Job { entry, set, token }))
    }

    /// Why nothing is to look at a file, if that is so.
    fn withheld(&self, entry: &Entry) -> Option<String> {
        let stat = (!self.withheld.is_empty()).then(|| entry.stat())?.ok()?;
        let found = self.withheld.iter().find(|(file, _)| *file == (stat.device, stat.inode));
        found.map(|(_, why)| why.clone())
    }

    fn not_tried(
        &self,
        why: Untried,
        place: (i64, OsString),
        entry: &Entry,
        known: (Option<RecordSummary>, Option<State>),
    ) {
        self.judge.not_tried(why, place, entry, known).into_iter().for_each(|message| self.send(message));
    }

    /// Remembers a file that was given out, so that it is not given out again before the catalogue
    /// shows that it was read. No more can be under way than these.
    fn remember(&mut self, directory: i64, name: &[u8]) {
        if self.recent.len() >= RECENT {
            self.recent.clear();
        }
        self.recent.insert(self.mark(directory, name));
    }

    /// Eight bytes that stand for a file.
    fn mark(&self, directory: i64, name: &[u8]) -> u64 {
        self.dice.throw((directory, name))
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

/// Whether the storage of a file was found to fail, or its content to be bad: if it fails again, that is nothing new. A
/// damaged record says nothing of the file.
pub(super) fn tells_of_storage(state: State) -> bool {
    state != State::DAMAGED && is_bad(state)
}

/// Whether nobody has written to a file since it was recorded, or put another in its place.
fn is_untouched(record: &CatalogRecord, stat: &Stat) -> bool {
    (record.size, record.mtime, record.ctime, record.inode)
        == (stat.size, Stamp::from(stat.modified), Stamp::from(stat.changed), stat.inode)
}
