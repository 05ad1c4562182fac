//! Compares two or more trees in any places: by names, then by sizes, then by digests.
//!
//! ```
//! use verisum_files::Progress;
//! use verisum_files::compare::{FileStatus, Tree, list};
//! use verisum_files::place::LocalPlace;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tree = || Tree::new(Box::new(LocalPlace::default()), b"src");
//! let (mut a, mut b) = (tree(), tree());
//! let digest = verisum_digest::Digest::find("sha256")?;
//! let mut listed = list([&mut a, &mut b], &digest, &std::env::temp_dir(), &|_, _| true)?;
//! while let Some(mut pairs) = listed.group()? {
//!     listed.read([&mut a, &mut b], &digest, &mut pairs, &|_, _| true, &Progress::default())?;
//!     assert!(pairs.iter().all(|pair| pair.status == FileStatus::Same));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Memory does not grow with the trees.

mod absent;
mod listed;
mod recorded;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use verisum_digest::{Digest, Output};

use crate::place::{
    Contradicted, FileAnswer, FileRead, FileRequest, FileState, Files, Place, PlaceError, PlaceEvent, Reason,
    RecordedMd5, below, join,
};
use crate::{Excludes, Progress, lock};

use listed::PairWriter;

pub use crate::place::ContentEvidence;
pub use listed::ListedPairs;
pub use recorded::settle_recorded;

/// One of the trees.
pub struct Tree<'a> {
    /// Where it is.
    pub place: Box<dyn Place + 'a>,
    /// Its path there.
    pub root: Vec<u8>,
    /// Which of its files are left out.
    pub excludes: Option<Arc<Excludes>>,
}

impl<'a> Tree<'a> {
    /// The tree at a path of a place.
    pub fn new(place: Box<dyn Place + 'a>, root: &[u8]) -> Tree<'a> {
        Tree { place, root: root.to_vec(), excludes: None }
    }

    /// The path of a file by its name below it; its own for an empty one.
    pub fn path_of(&self, name: &[u8]) -> Vec<u8> {
        join(&self.root, name)
    }
}

/// Takes what the trees say beside answers, and the answers about files that are not what the keeper of their place
/// recorded; the first tree is 0. False ends the work.
pub type TreeSink<'a> = &'a (dyn Fn(usize, PlaceEvent) -> bool + Sync);

/// What is known of a name in all trees.
#[derive(Debug)]
pub struct Pair<const N: usize = 2> {
    /// Below the trees; empty if they are files.
    pub name: Vec<u8>,
    /// The file on each side that has it.
    pub files: [Option<ComparedFile>; N],
    /// What that means.
    pub status: FileStatus,
    /// What it is known by.
    pub evidence: ContentEvidence,
    /// The digest that settled it, if a place had recorded that.
    pub settled_by: Option<Arc<str>>,
}

/// A file on one side.
#[derive(Debug)]
pub struct ComparedFile {
    /// What the listing said of it.
    pub seen: FileState,
    /// Its digest, or why there is none; none where it was not read. What is set before the trees are read is not
    /// read.
    pub read: Option<Box<Result<Output, Reason>>>,
    /// What the keeper of its place recorded of it, if that is not what was read.
    pub contradicted: Option<Box<Contradicted>>,
    /// What the keeper of its place recorded of it.
    pub recorded: Option<RecordedMd5>,
    /// Whether a report of the keeper has a digest of what was listed.
    pub is_reported: bool,
}

/// How a file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileStatus {
    /// Nothing but reading tells.
    Asked,
    /// The content is the same.
    Same,
    /// The content is another.
    Differs,
    /// The first tree has it, and another has not; those that have it have the same.
    Missing,
    /// The first tree has it not; those that have it have the same.
    Extra,
    /// A side has it, and one that has not could not be listed whole.
    Unknown,
    /// It could not be read on some side, and no two are known to differ.
    Unreadable,
}

impl FileStatus {
    /// Its word in results.
    pub fn name(self) -> &'static str {
        match self {
            FileStatus::Asked | FileStatus::Unknown => "unknown",
            FileStatus::Same => "same",
            FileStatus::Differs => "differs",
            FileStatus::Missing => "missing",
            FileStatus::Extra => "extra",
            FileStatus::Unreadable => "unreadable",
        }
    }
}

/// Why trees are not compared: what went wrong with each.
#[derive(Debug)]
pub struct CompareError(pub Vec<Option<PlaceError>>);

impl std::fmt::Display for CompareError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut errors = self.0.iter().flatten();
        errors.next().map_or(Ok(()), |first| first.fmt(f))?;
        errors.try_for_each(|other| write!(f, "; {other}"))
    }
}

impl std::error::Error for CompareError {}

impl CompareError {
    /// That of one side.
    fn of<const N: usize>(side: usize, error: PlaceError) -> CompareError {
        let mut errors = [const { None }; N];
        errors[side] = Some(error);
        CompareError(errors.into())
    }
}

impl<const N: usize> Pair<N> {
    /// Whether two sides have the same content, as far as that is known.
    pub fn is_same(&self, one: usize, other: usize) -> Option<bool> {
        let (one, other) = (self.files[one].as_ref()?, self.files[other].as_ref()?);
        match (one.read.as_deref(), other.read.as_deref()) {
            (Some(Ok(one)), Some(Ok(other))) => Some(one == other),
            _ => (!one.may_be(other)).then_some(false),
        }
    }

    /// Whether a side has it, by its listing and by what came of reading it.
    pub fn has(&self, side: usize) -> bool {
        self.files[side]
            .as_ref()
            .is_some_and(|file| !matches!(file.read.as_deref(), Some(Err(Reason::Missing))))
    }

    /// Of three files, the one that is not as both others are.
    pub fn odd(&self) -> Option<usize> {
        let others = |side: usize| ((side + 1) % N, (side + 2) % N);
        (0..N).filter(|_| N == 3).find(|side| {
            let (one, other) = others(*side);
            self.is_same(one, other) == Some(true) && self.is_same(*side, one) == Some(false)
        })
    }

    /// The pairs of sides that have it.
    fn couples(&self) -> impl Iterator<Item = (usize, usize)> {
        let sides = (0..N).flat_map(|one| (one + 1..N).map(move |other| (one, other)));
        sides.filter(|(one, other)| self.has(*one) && self.has(*other))
    }

    /// Whether a side has to be read: another may have the same.
    fn is_to_read(&self, side: usize) -> bool {
        let Some(file) = &self.files[side] else { return false };
        let mut others = self.files.iter().enumerate().filter(|(other, _)| *other != side);
        file.read.is_none() && others.any(|(_, other)| other.as_ref().is_some_and(|other| file.may_be(other)))
    }

    /// The lengths of the files that have to be read.
    fn bytes_to_read(&self) -> u64 {
        let sides = (0..N).filter(|side| self.status == FileStatus::Asked && self.is_to_read(*side));
        sides.map(|side| self.size(side)).sum()
    }

    /// The length of the file of a side, as far as it is known.
    fn size(&self, side: usize) -> u64 {
        self.files[side].as_ref().and_then(|file| file.seen.size).unwrap_or(0)
    }

    /// What is known after reading.
    fn settled(&self) -> FileStatus {
        if self.couples().any(|(one, other)| self.is_same(one, other) == Some(false)) {
            return FileStatus::Differs;
        }
        let failed = |file: &Option<ComparedFile>| {
            file.as_ref().is_some_and(|file| {
                !matches!(file.read.as_deref(), Some(Ok(_) | Err(Reason::Missing)) | None)
            })
        };
        let is_told = self.couples().all(|(one, other)| self.is_same(one, other).is_some());
        match (0..N).find(|side| !self.has(*side)) {
            _ if !is_told || self.files.iter().any(failed) => FileStatus::Unreadable,
            None => FileStatus::Same,
            Some(_) if (0..N).all(|side| !self.has(side)) => FileStatus::Unreadable,
            Some(0) => FileStatus::Extra,
            Some(_) => FileStatus::Missing,
        }
    }
}

impl ComparedFile {
    /// Whether sizes let two files be the same.
    fn may_be(&self, other: &ComparedFile) -> bool {
        self.seen.size.is_none_or(|size| other.seen.size.is_none_or(|other| size == other))
    }
}

/// Lists all trees at once, and brings their files together by name. What does not fit into memory waits in a file in
/// the folder `scratch`.
///
/// # Errors
/// A place cannot be listed, or the file cannot be written.
pub fn list<const N: usize>(
    mut trees: [&mut Tree; N],
    digest: &Digest,
    scratch: &Path,
    sink: TreeSink,
) -> Result<ListedPairs<N>, CompareError> {
    let (paired, ended) = thread::scope(|scope| {
        let (mut found, mut sides) = (Vec::with_capacity(N), 0..N);
        let threads = trees.each_mut().map(|tree| {
            let side = sides.next().unwrap_or_default();
            let (give, take) = mpsc::sync_channel(MOST_WAITING);
            found.push(take);
            scope.spawn(move || list_one(tree, digest, give, &|event| sink(side, event)))
        });
        let paired = paired::<N>(found, scratch);
        let join = |thread: thread::ScopedJoinHandle<_>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (paired, threads.map(join))
    });
    if !ended.iter().all(Result::is_ok) {
        return Err(CompareError(ended.map(Result::err).into()));
    }
    let listings: [ListingEnd; N] = ended.map(Result::unwrap_or_default);
    let is_older = listings.each_ref().map(|listing| listing.is_older);
    let unseen = listings.map(|listing| listing.unseen);
    let mut listed = paired?.finish(unseen.clone())?;
    for (side, tree) in trees.iter_mut().enumerate().filter(|(side, _)| is_older[*side]) {
        let mut asked = PairWriter::new(scratch);
        while let Some(mut pairs) = listed.next()? {
            absent::find(side, tree, &mut pairs).map_err(|error| CompareError::of::<N>(side, error))?;
            pairs.iter().try_for_each(|pair| asked.add(pair))?;
        }
        listed = asked.finish(unseen.clone())?;
    }
    Ok(listed)
}

/// Reads the files that are [`FileStatus::Asked`], on all sides at once.
fn read<const N: usize>(
    trees: [&mut Tree; N],
    digest: &Digest,
    pairs: &mut [Pair<N>],
    sink: TreeSink,
    progress: &Progress,
) -> Result<(), CompareError> {
    let shared = Mutex::new(&mut *pairs);
    let ended = at_once(trees, |side, tree| {
        let mut requests = Requests::new(&shared, side, &tree.root).peekable();
        if requests.peek().is_none() {
            return Ok(());
        }
        let answered = |event: PlaceEvent| match event {
            PlaceEvent::Answer(FileAnswer { request, result }) => {
                let digest = match &result {
                    Ok(read) => read.digest().ok_or(Reason::Failed(String::new())),
                    Err(error) => Err(error.reason()),
                };
                let mut pairs = lock(&shared);
                let pair = &mut pairs[request.tag as usize];
                progress.add(1, pair.size(side));
                if let Some(file) = &mut pair.files[side] {
                    file.read = Some(Box::new(digest));
                    // Of two records that contradict each other nobody knows which is right.
                    let read = result.as_ref().ok().filter(|read| !read.is_disputed);
                    file.contradicted = read.and_then(|read| read.contradicted.clone()).map(Box::new);
                }
                drop(pairs);
                let is_contradicted = result.as_ref().is_ok_and(|read| read.contradicted.is_some());
                !is_contradicted || sink(side, PlaceEvent::Answer(FileAnswer { request, result }))
            }
            // Every file has an answer, whatever its program said beside.
            PlaceEvent::Unlisted(line) => sink(side, PlaceEvent::Note(line)),
            other => sink(side, other),
        };
        tree.place.hash(std::slice::from_ref(digest), Files::Named(&mut requests), &answered)
    });
    match ended.iter().all(Result::is_ok) {
        true => Ok(()),
        false => Err(CompareError(ended.map(Result::err).into())),
    }
}

/// The files of a side that have to be read, as its place takes them.
struct Requests<'a, 'p, const N: usize> {
    pairs: &'a Mutex<&'p mut [Pair<N>]>,
    side: usize,
    root: Vec<u8>,
    /// The pairs before this one were looked at.
    looked_at: usize,
    ready: std::vec::IntoIter<FileRequest>,
}

impl<'a, 'p, const N: usize> Requests<'a, 'p, N> {
    fn new(pairs: &'a Mutex<&'p mut [Pair<N>]>, side: usize, root: &[u8]) -> Requests<'a, 'p, N> {
        Requests { pairs, side, root: root.to_vec(), looked_at: 0, ready: Vec::new().into_iter() }
    }
}

impl<const N: usize> Iterator for Requests<'_, '_, N> {
    type Item = FileRequest;

    fn next(&mut self) -> Option<FileRequest> {
        loop {
            if let Some(request) = self.ready.next() {
                return Some(request);
            }
            let pairs = lock(self.pairs);
            let next = pairs.iter().enumerate().skip(self.looked_at).take(MOST_WAITING);
            let asked = next.filter(|(_, pair)| pair.status == FileStatus::Asked);
            let request = |(tag, pair): (usize, &Pair<N>)| {
                let file = pair.files[self.side].as_ref().filter(|_| pair.is_to_read(self.side))?;
                let path = join(&self.root, &pair.name);
                Some(FileRequest { path, tag: tag as u64, seen: file.seen, ..FileRequest::default() })
            };
            let ready: Vec<FileRequest> = asked.filter_map(request).collect();
            self.ready = ready.into_iter();
            if self.looked_at >= pairs.len() {
                return None;
            }
            self.looked_at += MOST_WAITING;
        }
    }
}

/// A file of a tree, by its name.
struct ListedFile {
    name: Vec<u8>,
    seen: FileState,
    recorded: Option<RecordedMd5>,
    is_reported: bool,
}

/// So many files of a side wait for those of the others, or for their place.
const MOST_WAITING: usize = 1024;

/// So many names of what could not be listed are kept.
const MOST_UNSEEN: usize = 1000;

/// What of a tree could not be listed.
#[derive(Clone, Debug, Default)]
enum Unseen {
    #[default]
    Nothing,
    /// Files and directories of these names.
    Names(Vec<Vec<u8>>),
    /// Nobody knows what.
    Anything,
}

impl Unseen {
    /// Adds a name, if one is known.
    fn add(&mut self, name: Option<&[u8]>) {
        match (&mut *self, name.filter(|name| !name.is_empty())) {
            (Unseen::Nothing, Some(name)) => *self = Unseen::Names(vec![name.to_vec()]),
            (Unseen::Names(names), Some(name)) if names.len() < MOST_UNSEEN => names.push(name.to_vec()),
            _ => *self = Unseen::Anything,
        }
    }

    /// Whether a file of this name may be there.
    fn may_be(&self, name: &[u8]) -> bool {
        match self {
            Unseen::Nothing => false,
            Unseen::Names(names) => names.iter().any(|unseen| below(unseen, name).is_some()),
            Unseen::Anything => true,
        }
    }
}

/// What a listing lacks.
#[derive(Default)]
struct ListingEnd {
    unseen: Unseen,
    /// Whether it was made before this run, so that files may have been written since.
    is_older: bool,
}

/// Gives the files of a tree one after the other.
fn list_one(
    tree: &mut Tree,
    digest: &Digest,
    give: SyncSender<ListedFile>,
    sink: &(dyn Fn(PlaceEvent) -> bool + Sync),
) -> Result<ListingEnd, PlaceError> {
    let last: Mutex<Option<Vec<u8>>> = Mutex::default();
    let (unseen, twice) = (Mutex::new(Unseen::default()), Mutex::new(None));
    let root = tree.root.clone();
    let left_out = tree.excludes.clone();
    let note = |event: PlaceEvent| match event {
        PlaceEvent::Answer(answer) if is_left_out(&root, &answer.request.path, left_out.as_deref()) => true,
        PlaceEvent::Answer(FileAnswer { request, result: Ok(FileRead { recorded, reported, .. }) }) => {
            let Some(name) = below(&root, &request.path).map(<[u8]>::to_vec) else { return true };
            let mut last = lock(&last);
            if last.as_ref() == Some(&name) {
                *lock(&twice) = Some(request.path);
                return false;
            }
            *last = Some(name.clone());
            let is_reported = reported.is_some();
            give.send(ListedFile { name, seen: request.seen, recorded, is_reported }).is_ok()
        }
        PlaceEvent::Answer(ref answer) => {
            lock(&unseen).add(below(&root, &answer.request.path));
            sink(event)
        }
        PlaceEvent::Unlisted(_) => {
            lock(&unseen).add(None);
            sink(event)
        }
        other => sink(other),
    };
    let capabilities = tree.place.capabilities(std::slice::from_ref(digest), &note)?;
    tree.place.list(&tree.root, &note)?;
    match twice.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(path) => Err(PlaceError::ListedTwice(path)),
        None => Ok(ListingEnd {
            unseen: unseen.into_inner().unwrap_or_else(PoisonError::into_inner),
            is_older: capabilities.listed_at.is_some(),
        }),
    }
}

/// Whether a file of a tree is left out. The root itself never is.
fn is_left_out(root: &[u8], path: &[u8], excludes: Option<&Excludes>) -> bool {
    let name = below(root, path).filter(|name| !name.is_empty());
    name.zip(excludes)
        .is_some_and(|(name, excludes)| excludes.leaves_out_file(Path::new(OsStr::from_bytes(name))))
}

/// Brings the files of all sides together by name, as they come.
fn paired<const N: usize>(
    listings: Vec<Receiver<ListedFile>>,
    scratch: &Path,
) -> Result<PairWriter, CompareError> {
    let mut pairs = PairWriter::new(scratch);
    let mut sides: Vec<_> = listings.into_iter().map(|listing| listing.into_iter().peekable()).collect();
    loop {
        let first = sides.iter_mut().filter_map(|side| side.peek().map(|file| &file.name)).min();
        let Some(name) = first.cloned() else { return Ok(pairs) };
        let mut next = sides.iter_mut().map(|side| {
            let ListedFile { seen, recorded, is_reported, .. } = side.next_if(|other| other.name == name)?;
            Some(ComparedFile { seen, read: None, contradicted: None, recorded, is_reported })
        });
        let files: [_; N] = std::array::from_fn(|_| next.next().flatten());
        drop(next);
        pairs.add(&Pair {
            name,
            files,
            status: FileStatus::Asked,
            evidence: ContentEvidence::Listed,
            settled_by: None,
        })?;
    }
}

/// Does the same on all sides at once.
fn at_once<T: Send, U: Send, const N: usize>(of: [T; N], work: impl Fn(usize, T) -> U + Sync) -> [U; N] {
    thread::scope(|scope| {
        let (work, mut sides) = (&work, 0..N);
        let threads = of.map(|one| {
            let side = sides.next().unwrap_or_default();
            scope.spawn(move || work(side, one))
        });
        threads.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
