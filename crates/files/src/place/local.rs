//! This machine as a place: the engine hashes trees while it walks them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::io::Errno;
use verisum_digest::{Digest, Output};

use super::ordered_sink::OrderedSink;
use super::{
    Capabilities, FileAnswer, FileIdentity, FileRead, FileRequest, FileState, Files, Place, PlaceError,
    PlaceEvent, Reason, Sink,
};
use crate::hash_reader::hash_reader;
use crate::{
    Content, Entry, FileError, Hashed, Job, Kind, Operation, Order, Plan, Replacement, Stat, Stop, Walk,
    WalkOptions, hash,
};

/// Opens standard input.
pub type OpenStdin = fn() -> io::Result<Box<dyn Read>>;

/// The files of this machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LocalPlace {
    /// How to hash; its sets are not used.
    pub plan: Plan,
    /// How to walk trees.
    pub walk: WalkOptions,
    /// Whether trees on rotational disks are walked by where the data lies, in place of the order of
    /// `walk`.
    pub by_extent: bool,
    /// Whether answers come in the order of the walk, or of the names that were asked.
    pub in_order: bool,
    /// Files of trees up to this path are passed over.
    pub after: Vec<u8>,
    /// Where pipes and devices are read too: what opens standard input, whose name is `-`.
    pub streams: Option<OpenStdin>,
}

impl Default for LocalPlace {
    /// All cores, and answers in order.
    fn default() -> LocalPlace {
        LocalPlace::new(Plan::new(Vec::new(), thread::available_parallelism().map_or(1, usize::from)))
    }
}

impl LocalPlace {
    /// Answers come in order, and trees are walked by name.
    pub fn new(plan: Plan) -> LocalPlace {
        let walk = WalkOptions { order: Order::Name, ..WalkOptions::default() };
        LocalPlace { plan, walk, by_extent: false, in_order: true, after: Vec::new(), streams: None }
    }

    fn walk(&self, root: &Entry, path: &Path) -> Walk {
        let order = if self.by_extent { self.walk.order.or_by_extent(root) } else { self.walk.order };
        Walk::new(vec![path.to_path_buf()], WalkOptions { order, ..self.walk.clone() })
    }

    fn is_wanted(&self, entry: &Entry) -> bool {
        self.after.is_empty() || *entry.path().as_os_str().as_bytes() > self.after[..]
    }
}

impl Place for LocalPlace {
    fn is_here(&self) -> bool {
        true
    }

    fn end_by(&mut self, stop: &Arc<Stop>) {
        self.plan.stop = stop.clone();
    }

    fn capabilities(&mut self, _: &[Digest], _: Sink) -> Result<Capabilities, PlaceError> {
        let in_order = self.in_order;
        let own = Capabilities::new("verisum");
        Ok(Capabilities { tells_states: true, in_order, reads_ranges: true, writes: true, ..own })
    }

    fn list(&mut self, root: &[u8], sink: Sink) -> Result<(), PlaceError> {
        let path = path_of(root);
        let walk: Box<dyn Iterator<Item = Result<Entry, FileError>>> = match Entry::followed(path) {
            Ok(entry) if entry.kind() == Kind::Directory => {
                let options = WalkOptions { order: Order::Name, ..self.walk.clone() };
                let walk = Walk::new(vec![path.to_path_buf()], options);
                Box::new(walk.filter(|found| found.as_ref().map_or(true, |entry| entry.kind() == Kind::File)))
            }
            Ok(entry) if entry.kind() == Kind::Special => {
                Box::new(std::iter::once(Err(FileError::NotAFile { path: path.to_path_buf() })))
            }
            found => Box::new(std::iter::once(found)),
        };
        for found in walk {
            if found.as_ref().is_ok_and(|entry| !self.is_wanted(entry)) {
                continue;
            }
            let answer = match found.and_then(|entry| Ok((entry.stat()?, entry))) {
                Ok((stat, entry)) => {
                    FileAnswer::listed(entry.path().into_os_string().into_vec(), state(&stat, stat.size))
                }
                Err(error) => failed(error, 0, None),
            };
            if !sink(PlaceEvent::Answer(answer)) {
                break;
            }
        }
        Ok(())
    }

    fn hash(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        let plan = Plan { sets: vec![digests.to_vec()], ..self.plan.clone() };
        let answers = OrderedSink::new(sink, self.in_order);
        let mut jobs = LocalJobs { place: self, files, digests, answers: &answers, walking: None, next: 0 };
        hash(&plan, &mut jobs, &|hashed: Hashed<LocalToken>| {
            let LocalToken { number, tag, expected } = hashed.token;
            let answer = match hashed.result {
                Ok(content) => read(hashed.entry.path(), tag, expected, content),
                Err(error) => failed(error, tag, expected),
            };
            answers.give(number, answer)
        });
        Ok(())
    }

    fn read(&mut self, path: &[u8], range: Range<u64>) -> Result<Box<dyn Read + Send>, PlaceError> {
        let path = path_of(path);
        let mut file = Entry::followed(path)?.open_regular()?;
        let sought = file.seek(SeekFrom::Start(range.start));
        sought.map_err(|error| FileError::io(path, Operation::Read, error))?;
        Ok(Box::new(file.take(range.end.saturating_sub(range.start))))
    }

    fn write(
        &mut self,
        bytes: &[u8],
        content: &mut dyn Read,
        about: &FileState,
        previous: Option<&FileState>,
    ) -> Result<Option<FileIdentity>, PlaceError> {
        let path = path_of(bytes);
        let replacement = Replacement::new(path)?;
        io::copy(content, &mut replacement.file())
            .map_err(|error| FileError::io(path, Operation::Read, error))?;
        if let Some(modified) = about.modified {
            let set = modified.time.set(replacement.file());
            set.map_err(|error| FileError::io(path, Operation::Stat, error))?;
        }
        let now = match self.state(bytes) {
            Ok(known) => Some(known.now),
            Err(PlaceError::File(error)) if error.reason() == Reason::Missing => None,
            Err(error) => return Err(error),
        };
        match now.as_ref() == previous {
            true => {
                replacement.place()?;
                Ok(None)
            }
            false => Err(PlaceError::Replaced),
        }
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), PlaceError> {
        let removed = std::fs::remove_file(path_of(path));
        removed.map_err(|source| PlaceError::NotWritten { operation: "remove", source })
    }
}

/// What a job is known by.
struct LocalToken {
    /// Its place among the answers.
    number: u64,
    tag: u64,
    expected: Option<Output>,
}

/// Finds the files to hash. What is no file is answered, or hashed, in its turn.
struct LocalJobs<'a, 'f, 's> {
    place: &'a LocalPlace,
    files: Files<'f>,
    digests: &'a [Digest],
    answers: &'a OrderedSink<'s>,
    walking: Option<Walk>,
    next: u64,
}

impl Iterator for LocalJobs<'_, '_, '_> {
    type Item = Job<LocalToken>;

    fn next(&mut self) -> Option<Job<LocalToken>> {
        loop {
            let walked = self.walking.as_mut().map(Walk::next);
            let (found, request) = match walked {
                Some(None) => {
                    self.walking = None;
                    continue;
                }
                Some(Some(Ok(entry))) if entry.kind() != Kind::File || !self.place.is_wanted(&entry) => {
                    continue;
                }
                Some(Some(found)) => (found, None),
                None => {
                    let request = match &mut self.files {
                        Files::Trees(roots) => FileRequest { path: roots.next()?, ..FileRequest::default() },
                        Files::Named(names) => names.next()?,
                    };
                    match self.named(&request) {
                        Ok(found) => (found, Some(request)),
                        Err(ControlFlow::Continue(())) => continue,
                        Err(ControlFlow::Break(())) => return None,
                    }
                }
            };
            let number = self.number();
            let (tag, expected) = request.map_or((0, None), |request| (request.tag, request.expected));
            match found {
                Ok(entry) => return Some(Job { entry, set: 0, token: LocalToken { number, tag, expected } }),
                Err(error) => {
                    if self.answers.give(number, failed(error, tag, expected)).is_break() {
                        return None;
                    }
                }
            }
        }
    }
}

impl LocalJobs<'_, '_, '_> {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// What a name stands for; an error if there is nothing more to do for the name itself.
    fn named(&mut self, request: &FileRequest) -> Result<Result<Entry, FileError>, ControlFlow<()>> {
        let path = path_of(&request.path);
        if let (Some(open), b"-") = (self.place.streams, &request.path[..]) {
            return Err(self.stream(request, open()));
        }
        let entry = match Entry::followed(path) {
            Ok(entry) => entry,
            // Whoever reads the message asked for the file to be opened, not to be looked at.
            Err(FileError::Io { path, source, .. }) => {
                return Ok(Err(FileError::Io { path, operation: Operation::Open, offset: None, source }));
            }
            Err(error) => return Ok(Err(error)),
        };
        match (entry.kind(), &self.files) {
            (Kind::Directory, Files::Trees(_)) => {
                self.walking = Some(self.place.walk(&entry, path));
                Err(ControlFlow::Continue(()))
            }
            (Kind::Directory, _) => Ok(Err(FileError::io(path, Operation::Open, Errno::ISDIR))),
            // Somebody who names a pipe or a device wants to wait for what it gives.
            (kind, _) if kind != Kind::File && self.place.streams.is_some() => {
                let opened = File::open(path).map(|file| Box::new(file) as Box<dyn Read>);
                Err(self.stream(request, opened))
            }
            _ => Ok(Ok(entry)),
        }
    }

    /// Hashes what can only be read from one end to the other.
    fn stream(&mut self, request: &FileRequest, source: io::Result<Box<dyn Read>>) -> ControlFlow<()> {
        let path = path_of(&request.path);
        let failure = |operation| move |error: io::Error| FileError::io(path, operation, error);
        let hashed = source
            .map_err(failure(Operation::Open))
            .and_then(|mut source| hash_reader(&mut source, path, self.digests));
        let answer = match hashed {
            Ok((digests, length)) => FileAnswer {
                request: FileRequest {
                    seen: FileState { size: Some(length), ..FileState::default() },
                    ..request.clone()
                },
                result: Ok(FileRead { digests, ..FileRead::default() }),
            },
            Err(error) => FileAnswer { request: request.clone(), result: Err(error) },
        };
        let number = self.number();
        self.answers.give(number, answer)
    }
}

fn read(path: PathBuf, tag: u64, expected: Option<Output>, content: Content) -> FileAnswer {
    let seen = state(&content.before, content.length);
    let changed = !content.before.is_same_state(&content.after);
    let request = FileRequest { path: path.into_os_string().into_vec(), tag, expected, seen };
    FileAnswer { request, result: Ok(FileRead { digests: content.digests, changed, ..FileRead::default() }) }
}

fn failed(error: FileError, tag: u64, expected: Option<Output>) -> FileAnswer {
    let path = error.path().as_os_str().as_bytes().to_vec();
    FileAnswer { request: FileRequest { path, tag, expected, ..FileRequest::default() }, result: Err(error) }
}

fn state(stat: &Stat, size: u64) -> FileState {
    let identity = Some(FileIdentity { number: stat.inode, born: None });
    FileState { size: Some(size), modified: Some(stat.modified.into()), identity }
}

fn path_of(path: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path))
}
