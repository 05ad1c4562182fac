//! Compares two or more trees in any places: by names, then by sizes, then by digests.
//!
//! ```
//! use verisum_files::compare::{FileStatus, Tree, compare};
//! use verisum_files::place::LocalPlace;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tree = || Tree::new(Box::new(LocalPlace::default()), b"src");
//! let (mut a, mut b) = (tree(), tree());
//! let digest = verisum_digest::Digest::find("sha256")?;
//! let pairs = compare([&mut a, &mut b], &digest, &|_, _| true)?;
//! assert!(pairs.iter().all(|pair| pair.status == FileStatus::Same));
//! # Ok(())
//! # }
//! ```
//!
//! The names of all trees are held in memory.

mod absent;
mod recorded;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use verisum_digest::{Digest, Output};

use crate::Progress;
use crate::place::{
    FileAnswer, FileRead, FileRequest, FileState, Files, Place, PlaceError, PlaceEvent, Reason, RecordedMd5,
    below, join,
};

pub use crate::place::ContentEvidence;
pub use recorded::settle_recorded;

/// One of the trees.
pub struct Tree<'a> {
    /// Where it is.
    pub place: Box<dyn Place + 'a>,
    /// Its path there.
    pub root: Vec<u8>,
}

impl<'a> Tree<'a> {
    /// The tree at a path of a place.
    pub fn new(place: Box<dyn Place + 'a>, root: &[u8]) -> Tree<'a> {
        Tree { place, root: root.to_vec() }
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
}

/// A file on one side.
#[derive(Debug)]
pub struct ComparedFile {
    /// What the listing said of it.
    pub seen: FileState,
    /// Its digest, or why there is none; none where it was not read. What is set before the trees are read is not
    /// read.
    pub read: Option<Box<Result<Output, Reason>>>,
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

/// Lists all trees at once, and reads what listing does not tell.
///
/// # Errors
/// A place cannot be listed or read.
pub fn compare<const N: usize>(
    mut trees: [&mut Tree; N],
    digest: &Digest,
    sink: TreeSink,
) -> Result<Vec<Pair<N>>, CompareError> {
    let mut pairs = list(trees.each_mut().map(|tree| &mut **tree), digest, sink)?;
    read(trees, digest, &mut pairs, sink, &Progress::default())?;
    Ok(pairs)
}

/// Lists all trees at once, brings their files together by name, and settles what sizes tell. What is left is
/// [`FileStatus::Asked`].
///
/// # Errors
/// A place cannot be listed.
pub fn list<const N: usize>(
    mut trees: [&mut Tree; N],
    digest: &Digest,
    sink: TreeSink,
) -> Result<Vec<Pair<N>>, CompareError> {
    let (mut pairs, ended) = thread::scope(|scope| {
        let (mut found, mut sides) = (Vec::with_capacity(N), 0..N);
        let threads = trees.each_mut().map(|tree| {
            let side = sides.next().unwrap_or_default();
            let (give, take) = mpsc::sync_channel(MOST_WAITING);
            found.push(take);
            scope.spawn(move || list_one(tree, digest, give, &|event| sink(side, event)))
        });
        let pairs = paired(found);
        let join = |thread: thread::ScopedJoinHandle<_>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (pairs, threads.map(join))
    });
    if !ended.iter().all(Result::is_ok) {
        return Err(CompareError(ended.map(Result::err).into()));
    }
    let listings: [ListingEnd; N] = ended.map(Result::unwrap_or_default);
    let mut errors = [const { None }; N];
    for (side, tree) in trees.iter_mut().enumerate().filter(|(side, _)| listings[*side].is_older) {
        errors[side] = absent::find(side, tree, &mut pairs).err();
    }
    if errors.iter().any(Option::is_some) {
        return Err(CompareError(errors.into()));
    }
    pairs.retain(|pair| pair.files.iter().any(Option::is_some));
    let is_incomplete = listings.map(|listing| listing.is_incomplete);
    for pair in pairs.iter_mut().filter(|pair| pair.status == FileStatus::Asked) {
        if (0..N).any(|side| is_incomplete[side] && !pair.has(side)) {
            pair.status = FileStatus::Unknown;
        } else if !(0..N).any(|side| pair.is_to_read(side)) {
            pair.status = pair.settled();
        }
    }
    Ok(pairs)
}

/// Reads the files that are [`FileStatus::Asked`], on all sides at once, and settles them. A side that fails in the
/// middle leaves files unreadable. Tells how much is wanted, and each file that was read.
///
/// # Errors
/// A place fails; what was found before it does is in the pairs.
pub fn read<const N: usize>(
    trees: [&mut Tree; N],
    digest: &Digest,
    pairs: &mut [Pair<N>],
    sink: TreeSink,
    progress: &Progress,
) -> Result<(), CompareError> {
    for pair in pairs.iter().filter(|pair| pair.status == FileStatus::Asked) {
        let sides = (0..N).filter(|side| pair.is_to_read(*side));
        progress.expect(sides.map(|side| pair.size(side)).sum());
    }
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
                let mut pairs = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let pair = &mut pairs[request.tag as usize];
                progress.add(1, pair.size(side));
                if let Some(file) = &mut pair.files[side] {
                    file.read = Some(Box::new(digest));
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
    for pair in pairs.iter_mut().filter(|pair| pair.status == FileStatus::Asked) {
        (pair.status, pair.evidence) = (pair.settled(), ContentEvidence::Read);
    }
    match ended.iter().all(Result::is_ok) {
        true => Ok(()),
        false => Err(CompareError(ended.map(Result::err).into())),
    }
}

/// The files of a side that have to be read, as its place takes them: all of them at once would need more memory than
/// the pairs.
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
            let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
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

/// What a listing lacks.
#[derive(Clone, Copy, Default)]
struct ListingEnd {
    /// Whether something could not be listed.
    is_incomplete: bool,
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
    let (incomplete, twice) = (AtomicBool::new(false), Mutex::new(None));
    let root = tree.root.clone();
    let note = |event: PlaceEvent| match event {
        PlaceEvent::Answer(FileAnswer { request, result: Ok(FileRead { recorded, reported, .. }) }) => {
            let Some(name) = below(&root, &request.path).map(<[u8]>::to_vec) else { return true };
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.as_ref() == Some(&name) {
                *twice.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.path);
                return false;
            }
            *last = Some(name.clone());
            let is_reported = reported.is_some();
            give.send(ListedFile { name, seen: request.seen, recorded, is_reported }).is_ok()
        }
        PlaceEvent::Answer(_) | PlaceEvent::Unlisted(_) => {
            incomplete.store(true, Ordering::Relaxed);
            sink(event)
        }
        other => sink(other),
    };
    let capabilities = tree.place.capabilities(std::slice::from_ref(digest), &note)?;
    tree.place.list(&tree.root, &note)?;
    match twice.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(path) => Err(PlaceError::ListedTwice(path)),
        None => Ok(ListingEnd {
            is_incomplete: incomplete.into_inner(),
            is_older: capabilities.listed_at.is_some(),
        }),
    }
}

/// Brings the files of all sides together by name, as they come.
fn paired<const N: usize>(listings: Vec<Receiver<ListedFile>>) -> Vec<Pair<N>> {
    let mut pairs: Vec<Pair<N>> = Vec::new();
    let mut sides: Vec<_> = listings.into_iter().map(|listing| listing.into_iter().peekable()).collect();
    loop {
        let first = sides.iter_mut().filter_map(|side| side.peek().map(|file| &file.name)).min();
        let Some(name) = first.cloned() else { return pairs };
        let mut next = sides.iter_mut().map(|side| {
            let ListedFile { seen, recorded, is_reported, .. } = side.next_if(|other| other.name == name)?;
            Some(ComparedFile { seen, read: None, recorded, is_reported })
        });
        let files = std::array::from_fn(|_| next.next().flatten());
        drop(next);
        pairs.push(Pair { name, files, status: FileStatus::Asked, evidence: ContentEvidence::Listed });
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
