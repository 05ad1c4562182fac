//! Reads manifests and gives their files to the engine.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex};

use verisum_digest::Digest;

use super::answers::Answers;
use super::existence::present;
use super::group::{LineGroup, Member};
use super::listed_path::{ListedPath, path_of};
use super::{Base, CheckOutcome, Compute, Event, OpenList, Sources};
use crate::hash_reader::hash_reader;
use crate::store::manifest::{Bad, Line, Listed, Skipped};
use crate::{FileError, Job, Kind, Operation, lock};

/// How many lines are looked at to find those of the same file.
pub(super) const AHEAD: usize = 4096;

/// The most answers that wait for an earlier one before that one is waited for.
const MOST_WAITING: usize = 1 << 16;

/// The most different sets of digests that are computed apart. Beyond, all digests are computed.
const MOST_SETS: usize = 32;

/// Reads manifests and gives their files to the engine.
pub(super) struct Feed<'a> {
    answers: &'a Mutex<Answers<'a>>,
    compute: Compute<'a>,
    sources: Sources<'a>,
    source: Option<OpenList>,
    /// How many manifests were begun.
    manifest: usize,
    groups: VecDeque<LineGroup>,
    /// Every digest that was asked for, or why there is none.
    computed: HashMap<Cow<'static, str>, Result<Digest, verisum_digest::DigestError>>,
    /// Names of digests, computed in one read each.
    sets: Vec<Vec<Cow<'static, str>>>,
    /// Whether the engine does not know the last set yet.
    fresh: bool,
    /// Whether all manifests were read.
    ended: bool,
}

/// What a manifest says next.
enum NextGroup {
    /// Something to tell.
    Event(Event),
    /// A file, and where its name begins; without a base it is standard input.
    File { manifest: usize, number: u64, listed: Listed, base: Option<Base> },
}

impl Iterator for Feed<'_> {
    type Item = Job<LineGroup>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.groups.is_empty() {
                let answers = lock(self.answers);
                // What waits for a file that takes long is not let grow without bound.
                if self.ended || self.fresh || answers.ended() || answers.waiting() > MOST_WAITING {
                    return None;
                }
                drop(answers);
                self.fill();
                // The engine has to begin anew with more sets. What it has is finished first.
                if self.fresh {
                    return None;
                }
                continue;
            }
            let group = self.groups.pop_front()?;
            if let Some(listed) = group.block_hash() {
                // All cores hash one image; what the engine has goes on beside it.
                let computed = (self.compute.block_hash)(group.place.directory(), listed);
                let answers = group.of_block_hash(computed);
                self.give(answers);
                continue;
            }
            let answers = match group.place.entry() {
                // Whoever made a bag may have put a pipe into it, which nobody ever writes to.
                Some(Ok(entry)) if entry.kind() != Kind::File && group.place.is_inside() => {
                    group.failed(FileError::NotAFile { path: entry.path() })
                }
                Some(Ok(entry)) if entry.kind() == Kind::Special && !self.compute.reads_streams => {
                    group.failed(FileError::NotAFile { path: entry.path() })
                }
                Some(Ok(entry)) if entry.kind() == Kind::Special => {
                    let path = entry.path();
                    let opened = File::open(&path).map_err(|e| FileError::io(&path, Operation::Open, e));
                    self.stream(group, &path, opened)
                }
                Some(Ok(entry)) => match group.unlisted_size(&entry) {
                    Some(size) => group.of_size(size),
                    None => return Some(Job { entry, set: group.set, token: group }),
                },
                Some(Err(error)) => group.failed(error),
                None => self.stream(group, Path::new("-"), Ok(io::stdin().lock())),
            };
            self.give(answers);
        }
    }
}

impl<'a> Feed<'a> {
    pub(super) fn new(
        answers: &'a Mutex<Answers<'a>>,
        compute: Compute<'a>,
        sources: Sources<'a>,
    ) -> Feed<'a> {
        Feed {
            answers,
            compute,
            sources,
            source: None,
            manifest: 0,
            groups: VecDeque::new(),
            computed: HashMap::new(),
            sets: Vec::new(),
            fresh: false,
            ended: false,
        }
    }

    /// Reads ahead, and returns the names of all digests that may be needed now, in sets.
    pub(super) fn begin(&mut self) -> Vec<Vec<Cow<'static, str>>> {
        self.fill();
        self.fresh = false;
        self.sets.clone()
    }

    /// Whether there is nothing more to come.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.groups.is_empty()
    }

    fn give(&mut self, answers: Vec<(u64, Event)>) {
        if lock(self.answers).give(answers).is_break() {
            self.groups.clear();
            self.ended = true;
        }
    }

    /// Reads lines, and groups those of the same file.
    fn fill(&mut self) {
        // By their hashes: copies of all names would take longer.
        let mut places: HashMap<u64, usize> = HashMap::with_capacity(AHEAD);
        let mut groups: Vec<LineGroup> = Vec::new();
        for _ in 0..AHEAD {
            if self.ended || lock(self.answers).ended() {
                break;
            }
            let (manifest, number, listed, base) = match self.next_line() {
                None => continue,
                Some(NextGroup::Event(event)) => {
                    self.tell(event);
                    continue;
                }
                Some(NextGroup::File { manifest, number, listed, base }) => (manifest, number, listed, base),
            };
            let place = ListedPath::new(&base, &listed);
            let without_reading = match self.unavailable(&listed) {
                Some(source) => {
                    let path = path_of(&listed.name).into();
                    Some(CheckOutcome::Failed(Arc::new(FileError::Digest { path, source })))
                }
                None => listed.claims.is_empty().then(|| present(&place, &listed)),
            };
            if let Some(outcome) = without_reading {
                self.tell(Event::File { manifest, number, listed, outcome });
                continue;
            }
            let slot = lock(self.answers).slot(None);
            let member = Member { slot, manifest, number, listed };
            let hash = places.hasher().hash_one(&place);
            let known = places.get(&hash).filter(|group| groups[**group].place == place);
            match known {
                _ if member.listed.block_hash.is_some() => {
                    groups.push(LineGroup { place, members: vec![member], set: 0 });
                }
                Some(group) => groups[*group].members.push(member),
                None => {
                    places.insert(hash, groups.len());
                    groups.push(LineGroup { place, members: vec![member], set: 0 });
                }
            }
        }
        for mut group in groups {
            if group.block_hash().is_none() {
                group.set = self.set(&group.members);
            }
            self.groups.push_back(group);
        }
    }

    /// The next line of the manifests; none if a manifest began.
    fn next_line(&mut self) -> Option<NextGroup> {
        let Some(source) = &mut self.source else {
            match self.sources.next() {
                None => self.ended = true,
                Some(Ok(source)) => {
                    self.source = Some(source);
                    self.manifest += 1;
                }
                Some(Err(error)) => {
                    self.manifest += 1;
                    let manifest = self.manifest - 1;
                    return Some(NextGroup::Event(Event::End {
                        manifest,
                        error: Some(error),
                        skipped: Skipped::default(),
                    }));
                }
            }
            return None;
        };
        let manifest = self.manifest - 1;
        let line = source.reader.line();
        let number = source.reader.number();
        let error = match line {
            Ok(Some(Line::File(listed))) => {
                let may_be_stdin = self.compute.reads_streams && matches!(source.base, Base::Here);
                let dash = may_be_stdin && source.reader.names_stdin(&listed);
                // Standard input may be the list itself.
                if dash && source.is_stdin {
                    return Some(NextGroup::Event(Event::Bad { manifest, number, bad: Bad::Malformed }));
                }
                if !dash && source.leaves_out(&listed) {
                    let outcome = CheckOutcome::LeftOut;
                    return Some(NextGroup::Event(Event::File { manifest, number, listed, outcome }));
                }
                let base = (!dash).then(|| source.base.clone());
                return Some(NextGroup::File { manifest, number, listed, base });
            }
            Ok(Some(Line::Bad(bad))) => return Some(NextGroup::Event(Event::Bad { manifest, number, bad })),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let skipped = source.reader.skipped().clone();
        self.source = None;
        Some(NextGroup::Event(Event::End { manifest, error, skipped }))
    }

    fn tell(&self, event: Event) {
        let mut answers = lock(self.answers);
        answers.slot(Some(event));
        let _ = answers.give(Vec::new());
    }

    /// Why none of the digests of a file can be computed, if so.
    fn unavailable(&mut self, listed: &Listed) -> Option<verisum_digest::DigestError> {
        let mut why = None;
        for claim in &listed.claims {
            let find = self.compute.find;
            let id = claim.computed();
            let digest = match self.computed.get(&id) {
                Some(digest) => digest,
                None => self.computed.entry(id.clone()).or_insert_with(|| find(&id)),
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
            let find = self.compute.find;
            let id = claim.computed();
            let available = match self.computed.get(&id) {
                Some(digest) => digest,
                None => self.computed.entry(id.clone()).or_insert_with(|| find(&id)),
            };
            if available.is_ok() && !wanted.contains(&id) {
                wanted.push(id);
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

    /// The digests of a set.
    pub(super) fn digests(&self, set: &[Cow<'static, str>]) -> Vec<Digest> {
        set.iter().filter_map(|id| self.computed.get(id)?.as_ref().ok().cloned()).collect()
    }

    /// Hashes what can only be read from its beginning to its end.
    fn stream(
        &self,
        group: LineGroup,
        path: &Path,
        input: Result<impl Read, FileError>,
    ) -> Vec<(u64, Event)> {
        let set = &self.sets[group.set];
        match input.and_then(|mut input| hash_reader(&mut input, path, &self.digests(set))) {
            Ok((outputs, length)) => group.compared(set, &outputs, length),
            Err(error) => group.failed(error),
        }
    }
}
