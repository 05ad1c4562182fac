//! Checking files against manifests: many files at once, results in the manifests' order.
//!
//! Lines that stand near each other and name the same file are answered by one read of it. Memory does
//! not depend on how long the manifests are.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use verisum_digest::{Digest, Output};

use crate::store::manifest::{Bad, Format, Line, Listed, ReadError, Reader};
use crate::{Entry, Error, Hashed, Job, Kind, Operation, Plan};

/// How many lines are looked at to find those of the same file.
const AHEAD: usize = 4096;

/// The most answers that wait for an earlier one before that one is waited for.
const MOST_WAITING: usize = 1 << 16;

/// The most different sets of digests that are computed apart. Beyond, all digests are computed.
const MOST_SETS: usize = 32;

/// A manifest to check.
pub struct Source {
    /// Its lines.
    pub reader: Reader<Box<dyn Read + Send>>,
    /// Where its names begin.
    pub base: Base,
    /// Whether it is standard input itself, which then is no file that it may name `-`.
    pub is_stdin: bool,
}

/// Where the names in a manifest begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// At the working directory.
    Here,
    /// At this directory.
    Directory(PathBuf),
    /// At this directory, which no name may leave.
    Inside(PathBuf),
}

/// What was found.
#[derive(Debug)]
pub enum Event {
    /// A file was checked, or could not be.
    File {
        /// The number of its manifest, from 0.
        manifest: usize,
        /// The line, from 1.
        number: u64,
        /// What the manifest says.
        listed: Listed,
        /// What was found.
        outcome: Outcome,
    },
    /// A line cannot be understood.
    Bad {
        /// The number of its manifest, from 0.
        manifest: usize,
        /// The line, from 1.
        number: u64,
        /// Why.
        bad: Bad,
    },
    /// A manifest ended, or could not be read any further.
    End {
        /// Its number, from 0.
        manifest: usize,
        /// Why there is no more of it, if that is not its end.
        error: Option<ReadError>,
    },
}

/// What was found of a file.
#[derive(Debug)]
pub enum Outcome {
    /// Every digest that could be computed is the one that is listed.
    Match,
    /// A digest is another: those of the file, in the order of the listed ones; none for those that
    /// nothing here computes.
    Mismatch(Vec<Option<Output>>),
    /// There is no such file.
    Missing(Arc<Error>),
    /// It could not be opened, read or hashed.
    Failed(Arc<Error>),
    /// It is listed without a digest.
    NoDigest,
}

/// Checks everything that manifests list, and tells of it in order.
///
/// `plan` says how; its sets are not used. `find` makes digests, and `sources` opens manifests one by
/// one. `tell` is called on one thread at a time, and breaks to end early.
pub fn check(
    plan: &Plan,
    find: &(dyn Fn(&str) -> Result<Digest, verisum_digest::Error> + Sync),
    sources: &mut (dyn Iterator<Item = Result<Source, ReadError>> + Send),
    tell: &mut (dyn FnMut(Event) -> ControlFlow<()> + Send),
) {
    let answers = Mutex::new(Answers { slots: VecDeque::new(), told: 0, tell, ended: false });
    let mut feed = Feed {
        answers: &answers,
        find,
        sources,
        source: None,
        manifest: 0,
        groups: VecDeque::new(),
        computed: HashMap::new(),
        sets: Vec::new(),
        fresh: false,
        ended: false,
    };
    loop {
        feed.fill();
        feed.fresh = false;
        let sets = feed.sets.iter().map(|set| feed.digests(set)).collect();
        let plan = Plan { sets, ..plan.clone() };
        let names = feed.sets.clone();
        let done = |hashed: Hashed<Group>| {
            if matches!(hashed.result, Err(Error::Stopped { .. })) {
                return ControlFlow::Break(());
            }
            let outcomes = hashed.token.outcomes(&names, hashed.result);
            lock(&answers).give(outcomes)
        };
        crate::hash(&plan, &mut feed, &done);
        if (feed.ended && feed.groups.is_empty()) || plan.stop.is_due() || lock(&answers).ended {
            break;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Answers that wait for those before them.
struct Answers<'a> {
    slots: VecDeque<Option<Event>>,
    /// How many were told, which is the number of the first slot.
    told: u64,
    tell: &'a mut (dyn FnMut(Event) -> ControlFlow<()> + Send),
    ended: bool,
}

impl Answers<'_> {
    /// Keeps a place in the order.
    fn slot(&mut self, event: Option<Event>) -> u64 {
        self.slots.push_back(event);
        self.told + self.slots.len() as u64 - 1
    }

    /// Fills places, and tells all that has nothing missing before it.
    fn give(&mut self, events: Vec<(u64, Event)>) -> ControlFlow<()> {
        for (slot, event) in events {
            self.slots[(slot - self.told) as usize] = Some(event);
        }
        while let Some(Some(_)) = self.slots.front() {
            let event = self.slots.pop_front().flatten();
            self.told += 1;
            if !self.ended && event.is_some_and(|event| (self.tell)(event).is_break()) {
                self.ended = true;
            }
        }
        match self.ended {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Lines about one file.
#[derive(Debug)]
struct Group {
    place: Place,
    members: Vec<Member>,
    set: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Stdin,
    File {
        path: PathBuf,
        otherwise: Option<PathBuf>,
        /// The directory that it must be in.
        inside: Option<PathBuf>,
    },
}

#[derive(Debug)]
struct Member {
    slot: u64,
    manifest: usize,
    number: u64,
    listed: Listed,
}

impl Group {
    /// What a read of the file means for each line. `sets` has the names of the digests.
    fn outcomes(
        self,
        sets: &[Vec<Cow<'static, str>>],
        result: Result<crate::Content, Error>,
    ) -> Vec<(u64, Event)> {
        match result {
            Ok(content) => {
                let set = self.set;
                self.compared(&sets[set], &content.digests)
            }
            Err(error) => self.failed(error),
        }
    }

    /// Compares what is listed with these digests of these names.
    fn compared(self, names: &[Cow<'static, str>], digests: &[Output]) -> Vec<(u64, Event)> {
        let find = |id: &str| names.iter().position(|name| name == id).map(|place| digests[place]);
        let event = |member: Member| {
            let claims = &member.listed.claims;
            let found: Vec<Option<Output>> = claims.iter().map(|claim| find(&claim.algorithm)).collect();
            let mut pairs = claims.iter().zip(&found);
            let is_match = pairs.all(|(claim, found)| found.is_none_or(|found| found == claim.digest));
            member.event(if is_match { Outcome::Match } else { Outcome::Mismatch(found) })
        };
        self.members.into_iter().map(event).collect()
    }

    fn failed(self, error: Error) -> Vec<(u64, Event)> {
        let error = Arc::new(error);
        let event = |member: Member| {
            let error = error.clone();
            member.event(match is_missing(&error) {
                true => Outcome::Missing(error),
                false => Outcome::Failed(error),
            })
        };
        self.members.into_iter().map(event).collect()
    }
}

impl Member {
    fn event(self, outcome: Outcome) -> (u64, Event) {
        let Member { slot, manifest, number, listed } = self;
        (slot, Event::File { manifest, number, listed, outcome })
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Reads manifests and gives their files to the engine.
struct Feed<'a> {
    answers: &'a Mutex<Answers<'a>>,
    find: &'a (dyn Fn(&str) -> Result<Digest, verisum_digest::Error> + Sync),
    sources: &'a mut (dyn Iterator<Item = Result<Source, ReadError>> + Send),
    source: Option<Source>,
    /// How many manifests were begun.
    manifest: usize,
    groups: VecDeque<Group>,
    /// Every digest that was asked for, or why there is none.
    computed: HashMap<Cow<'static, str>, Result<Digest, verisum_digest::Error>>,
    /// Names of digests, computed in one read each.
    sets: Vec<Vec<Cow<'static, str>>>,
    /// Whether the engine does not know the last set yet.
    fresh: bool,
    /// Whether all manifests were read.
    ended: bool,
}

impl Iterator for Feed<'_> {
    type Item = Job<Group>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.groups.is_empty() {
                // What waits for a file that takes long is not let grow without bound.
                if self.ended || self.fresh || lock(self.answers).slots.len() > MOST_WAITING {
                    return None;
                }
                self.fill();
                // The engine has to begin anew with more sets. What it has is finished first.
                if self.fresh {
                    return None;
                }
                continue;
            }
            let group = self.groups.pop_front()?;
            let answers = match self.entry(&group) {
                // Whoever lists a pipe or a device wants what comes out of it, as the coreutils read it.
                Some(Ok(entry)) if entry.kind() == Kind::Special => {
                    let path = entry.path();
                    let opened = File::open(&path).map_err(|e| Error::io(&path, Operation::Open, e));
                    self.stream(group, &path, opened)
                }
                Some(Ok(entry)) => return Some(Job { entry, set: group.set, token: group }),
                Some(Err(error)) => group.failed(error),
                None => self.stream(group, Path::new("-"), Ok(io::stdin().lock())),
            };
            if lock(self.answers).give(answers).is_break() {
                self.groups.clear();
                self.ended = true;
            }
        }
    }
}

impl Feed<'_> {
    /// Reads lines, and groups those of the same file.
    fn fill(&mut self) {
        let mut places: HashMap<Place, usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        for _ in 0..AHEAD {
            if self.ended || lock(self.answers).ended {
                break;
            }
            let Some((event, base)) = self.line() else { continue };
            let Event::File { manifest, number, listed, outcome: Outcome::NoDigest } = event else {
                self.tell(event);
                continue;
            };
            if let Some(bad) = self.unavailable(&listed) {
                let error = Error::Digest { path: path_of(&listed.name).into(), source: bad };
                self.tell(Event::File {
                    manifest,
                    number,
                    listed,
                    outcome: Outcome::Failed(Arc::new(error)),
                });
                continue;
            }
            if listed.claims.is_empty() {
                self.tell(Event::File { manifest, number, listed, outcome: Outcome::NoDigest });
                continue;
            }
            let place = place(&base, &listed);
            let slot = lock(self.answers).slot(None);
            let member = Member { slot, manifest, number, listed };
            match places.get(&place) {
                Some(group) => groups[*group].members.push(member),
                None => {
                    places.insert(place.clone(), groups.len());
                    groups.push(Group { place, members: vec![member], set: 0 });
                }
            }
        }
        for mut group in groups {
            group.set = self.set(&group.members);
            self.groups.push_back(group);
        }
    }

    /// The next line of the manifests. A file comes as one without digest; none if a manifest began.
    fn line(&mut self) -> Option<(Event, Option<Base>)> {
        let Some(source) = &mut self.source else {
            match self.sources.next() {
                None => self.ended = true,
                Some(Ok(source)) => {
                    self.source = Some(source);
                    self.manifest += 1;
                }
                Some(Err(error)) => {
                    self.manifest += 1;
                    return Some((Event::End { manifest: self.manifest - 1, error: Some(error) }, None));
                }
            }
            return None;
        };
        let manifest = self.manifest - 1;
        let line = source.reader.line();
        let number = source.reader.number();
        let error = match line {
            Ok(Some(Line::File(listed))) => {
                // In lists of the coreutils, `-` is standard input, unless that is the list itself.
                let dash = listed.name == b"-" && matches!(source.reader.format(), None | Some(Format::Json));
                if dash && source.is_stdin {
                    return Some((Event::Bad { manifest, number, bad: Bad::Malformed }, None));
                }
                let base = (!dash).then(|| source.base.clone());
                return Some((Event::File { manifest, number, listed, outcome: Outcome::NoDigest }, base));
            }
            Ok(Some(Line::Bad(bad))) => return Some((Event::Bad { manifest, number, bad }, None)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        self.source = None;
        Some((Event::End { manifest, error }, None))
    }

    fn tell(&self, event: Event) {
        let mut answers = lock(self.answers);
        answers.slot(Some(event));
        let _ = answers.give(Vec::new());
    }

    /// Why none of the digests of a file can be computed, if so.
    fn unavailable(&mut self, listed: &Listed) -> Option<verisum_digest::Error> {
        let mut why = None;
        for claim in &listed.claims {
            let find = self.find;
            let id = &claim.algorithm;
            let digest = match self.computed.get(id) {
                Some(digest) => digest,
                None => self.computed.entry(id.clone()).or_insert_with(|| find(id)),
            };
            match digest {
                Ok(_) => return None,
                Err(error) => why = Some(error.clone()),
            }
        }
        why
    }

    /// The set that has all digests of some lines.
    fn set(&mut self, members: &[Member]) -> usize {
        let mut wanted: Vec<Cow<'static, str>> = Vec::new();
        for claim in members.iter().flat_map(|member| &member.listed.claims) {
            let find = self.find;
            let available = match self.computed.get(&claim.algorithm) {
                Some(digest) => digest,
                None => {
                    self.computed.entry(claim.algorithm.clone()).or_insert_with(|| find(&claim.algorithm))
                }
            };
            if available.is_ok() && !wanted.contains(&claim.algorithm) {
                wanted.push(claim.algorithm.clone());
            }
        }
        wanted.sort_unstable();
        if self.sets.len() >= MOST_SETS && !self.sets.contains(&wanted) {
            wanted = self.computed.iter().filter(|(_, d)| d.is_ok()).map(|(id, _)| id.clone()).collect();
            wanted.sort_unstable();
        }
        match self.sets.iter().position(|set| *set == wanted) {
            Some(place) => place,
            None => {
                self.sets.push(wanted);
                self.fresh = true;
                self.sets.len() - 1
            }
        }
    }

    fn digests(&self, set: &[Cow<'static, str>]) -> Vec<Digest> {
        set.iter().filter_map(|id| self.computed.get(id)?.as_ref().ok().cloned()).collect()
    }

    /// The file of a group; none if it is standard input.
    fn entry(&self, group: &Group) -> Option<Result<Entry, Error>> {
        let Place::File { path, otherwise, inside } = &group.place else { return None };
        let named = |path: &Path| match inside {
            Some(directory) if !is_inside(path, directory) => Err(outside(path)),
            _ => Entry::followed(path),
        };
        Some(match (named(path), otherwise) {
            (Err(error), Some(otherwise)) if is_missing(&error) => named(otherwise).map_err(|_| error),
            (result, _) => result,
        })
    }

    /// Hashes what can only be read from its beginning to its end.
    fn stream(&self, group: Group, path: &Path, input: Result<impl Read, Error>) -> Vec<(u64, Event)> {
        let set = &self.sets[group.set];
        match input.and_then(|input| hash_stream(&self.digests(set), path, input)) {
            Ok(outputs) => group.compared(set, &outputs),
            Err(error) => group.failed(error),
        }
    }
}

fn path_of(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

fn place(base: &Option<Base>, listed: &Listed) -> Place {
    let Some(base) = base else { return Place::Stdin };
    let (directory, inside) = match base {
        Base::Here => (Path::new(""), None),
        Base::Directory(directory) => (directory.as_path(), None),
        Base::Inside(directory) => (directory.as_path(), Some(directory.clone())),
    };
    let otherwise = listed.otherwise.as_ref().map(|name| directory.join(path_of(name)));
    Place::File { path: directory.join(path_of(&listed.name)), otherwise, inside }
}

/// Whether a path leads to something below a directory, its links followed.
fn is_inside(path: &Path, directory: &Path) -> bool {
    let Ok(rest) = path.strip_prefix(directory) else { return false };
    if rest.components().any(|component| !matches!(component, Component::Normal(_) | Component::CurDir)) {
        return false;
    }
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    match (path.canonicalize(), directory.canonicalize()) {
        (Ok(path), Ok(directory)) => path.starts_with(directory),
        // What is not there leads nowhere.
        _ => true,
    }
}

fn outside(path: &Path) -> Error {
    Error::io(path, Operation::Open, io::Error::other("the name leads out of its directory"))
}

fn hash_stream(digests: &[Digest], path: &Path, mut input: impl Read) -> Result<Vec<Output>, Error> {
    let failed = |source| Error::Digest { path: path.into(), source };
    let mut streams = digests.iter().map(Digest::stream).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io(path, Operation::Read, e)),
        };
        streams.iter_mut().try_for_each(|stream| stream.update(&buffer[..count])).map_err(failed)?;
    }
    let finish = |(digest, mut stream): (&Digest, Box<dyn verisum_digest::Stream>)| {
        let mut output = Output::zeroed(digest.len());
        stream.finish(output.as_mut_bytes()).map(|()| output)
    };
    digests.iter().zip(streams).map(finish).collect::<Result<_, _>>().map_err(failed)
}
