//! Compares two trees, each in any place: by names, by sizes, and by digests where those do not tell.
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
//! The names of both trees are held in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use verisum_digest::{Digest, Output};

use crate::place::{FileAnswer, FileRequest, FileState, Files, Place, PlaceError, PlaceEvent, Reason, below};

/// One of the two trees.
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
}

/// Takes what the trees say beside answers, the first of them being 0; false to end the work.
pub type TreeSink<'a> = &'a (dyn Fn(usize, PlaceEvent) -> bool + Sync);

/// What is known of a name in both trees.
#[derive(Debug)]
pub struct Pair {
    /// Below the trees; empty if they are files.
    pub name: Vec<u8>,
    /// The file on each side that has it.
    pub files: [Option<ComparedFile>; 2],
    /// What that means.
    pub status: FileStatus,
}

/// A file on one side.
#[derive(Debug)]
pub struct ComparedFile {
    /// What the listing said of it.
    pub seen: FileState,
    /// Its digest, or why there is none; none where it was not read. What is set before the trees are read is not
    /// read.
    pub read: Option<Result<Output, Reason>>,
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
    /// Only the first tree has it.
    Missing,
    /// Only the second tree has it.
    Extra,
    /// One side has it, and the other could not be listed whole.
    Unknown,
    /// It could not be read on one side or on both.
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
pub struct CompareError(pub Box<[Option<PlaceError>; 2]>);

impl std::fmt::Display for CompareError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut errors = self.0.iter().flatten();
        errors.next().map_or(Ok(()), |first| first.fmt(f))?;
        errors.try_for_each(|other| write!(f, "; {other}"))
    }
}

impl std::error::Error for CompareError {}

/// Lists both trees at once, and reads what listing does not tell.
///
/// # Errors
/// A place cannot be listed or read.
pub fn compare(
    mut trees: [&mut Tree; 2],
    digest: &Digest,
    sink: TreeSink,
) -> Result<Vec<Pair>, CompareError> {
    let [a, b] = &mut trees;
    let mut pairs = list([a, b], digest, sink)?;
    read(trees, digest, &mut pairs, sink)?;
    Ok(pairs)
}

/// Lists both trees at once, brings their files together by name, and settles what sizes tell. What is left is
/// [`FileStatus::Asked`].
///
/// # Errors
/// A place cannot be listed.
pub fn list(trees: [&mut Tree; 2], digest: &Digest, sink: TreeSink) -> Result<Vec<Pair>, CompareError> {
    let listed = both(trees, |side, tree| list_one(tree, digest, &|event| sink(side, event)));
    match listed {
        [Ok(a), Ok(b)] => Ok(paired(a, b)),
        [a, b] => Err(CompareError(Box::new([a.err(), b.err()]))),
    }
}

/// Reads the files that are [`FileStatus::Asked`], on both sides at once, and settles them. A side that fails in the
/// middle leaves files unreadable.
///
/// # Errors
/// A place fails; what was found before it does is in the pairs.
pub fn read(
    trees: [&mut Tree; 2],
    digest: &Digest,
    pairs: &mut [Pair],
    sink: TreeSink,
) -> Result<(), CompareError> {
    let asked = |side: usize, root: &[u8]| -> Vec<FileRequest> {
        let asked = pairs.iter().enumerate().filter(|(_, pair)| pair.status == FileStatus::Asked);
        let request = |(tag, pair): (usize, &Pair)| {
            let file = pair.files[side].as_ref().filter(|file| file.read.is_none())?;
            Some(FileRequest {
                path: joined(root, &pair.name),
                tag: tag as u64,
                seen: file.seen,
                ..FileRequest::default()
            })
        };
        asked.filter_map(request).collect()
    };
    let [a, b] = trees;
    let requests = [(asked(0, &a.root), a), (asked(1, &b.root), b)];
    let shared = Mutex::new(&mut *pairs);
    let ended = both(requests, |side, (requests, tree)| {
        let answered = |event: PlaceEvent| match event {
            PlaceEvent::Answer(FileAnswer { request, result }) => {
                let result = match result {
                    Ok(read) => read.digest().ok_or(Reason::Failed(String::new())),
                    Err(error) => Err(error.reason()),
                };
                let mut pairs = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(file) = &mut pairs[request.tag as usize].files[side] {
                    file.read = Some(result);
                }
                true
            }
            // Every file has an answer, whatever its program said beside.
            PlaceEvent::Unlisted(line) => sink(side, PlaceEvent::Note(line)),
            other => sink(side, other),
        };
        match requests.is_empty() {
            true => Ok(()),
            false => {
                let digests = std::slice::from_ref(digest);
                tree.place.hash(digests, Files::Named(&mut requests.into_iter()), &answered)
            }
        }
    });
    for pair in pairs.iter_mut().filter(|pair| pair.status == FileStatus::Asked) {
        let [one, other] =
            pair.files.each_ref().map(|file| file.as_ref().and_then(|file| file.read.as_ref()));
        pair.status = match (one, other) {
            (Some(Ok(one)), Some(Ok(other))) if one == other => FileStatus::Same,
            (Some(Ok(_)), Some(Ok(_))) => FileStatus::Differs,
            (Some(Err(Reason::Missing)), Some(Ok(_))) => FileStatus::Extra,
            (Some(Ok(_)), Some(Err(Reason::Missing))) => FileStatus::Missing,
            _ => FileStatus::Unreadable,
        };
    }
    match ended {
        [Ok(()), Ok(())] => Ok(()),
        [a, b] => Err(CompareError(Box::new([a.err(), b.err()]))),
    }
}

/// The files of a tree by their names, and whether something could not be listed.
type Listing = (Vec<(Vec<u8>, FileState)>, bool);

fn list_one(
    tree: &mut Tree,
    digest: &Digest,
    sink: &(dyn Fn(PlaceEvent) -> bool + Sync),
) -> Result<Listing, PlaceError> {
    let found: Mutex<Vec<(Vec<u8>, FileState)>> = Mutex::default();
    let (incomplete, twice) = (AtomicBool::new(false), Mutex::new(None));
    let root = tree.root.clone();
    let note = |event: PlaceEvent| match event {
        PlaceEvent::Answer(FileAnswer { request, result: Ok(_) }) => {
            let Some(name) = below(&root, &request.path).map(<[u8]>::to_vec) else { return true };
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            if found.last().is_some_and(|(last, _)| *last == name) {
                *twice.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.path);
                return false;
            }
            found.push((name, request.seen));
            true
        }
        PlaceEvent::Answer(_) | PlaceEvent::Unlisted(_) => {
            incomplete.store(true, Ordering::Relaxed);
            sink(event)
        }
        other => sink(other),
    };
    tree.place.capabilities(std::slice::from_ref(digest), &note)?;
    tree.place.list(&tree.root, &note)?;
    match twice.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(path) => Err(PlaceError::ListedTwice(path)),
        None => Ok((found.into_inner().unwrap_or_else(PoisonError::into_inner), incomplete.into_inner())),
    }
}

/// Brings the files of both sides together by name.
fn paired((a, a_incomplete): Listing, (b, b_incomplete): Listing) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(a.len().max(b.len()));
    let file = |seen| Some(ComparedFile { seen, read: None });
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(one), Some(other)) => one.0.cmp(&other.0),
        };
        let (one, other) = (a.next_if(|_| order.is_le()), b.next_if(|_| order.is_ge()));
        let status = match (&one, &other) {
            (Some((_, one)), Some((_, other))) => match (one.size, other.size) {
                (Some(one), Some(other)) if one != other => FileStatus::Differs,
                _ => FileStatus::Asked,
            },
            (Some(_), None) if b_incomplete => FileStatus::Unknown,
            (Some(_), None) => FileStatus::Missing,
            _ if a_incomplete => FileStatus::Unknown,
            _ => FileStatus::Extra,
        };
        let seen = [one.as_ref(), other.as_ref()].map(|file| file.map(|(_, seen)| *seen));
        let name = one.or(other).map(|(name, _)| name).unwrap_or_default();
        pairs.push(Pair { name, files: seen.map(|seen| seen.and_then(file)), status });
    }
}

/// Does the same on both sides at once.
fn both<T: Send, U: Send>(of: [T; 2], work: impl Fn(usize, T) -> U + Sync) -> [U; 2] {
    let [a, b] = of;
    thread::scope(|scope| {
        let other = scope.spawn(|| work(1, b));
        let first = work(0, a);
        match other.join() {
            Ok(second) => [first, second],
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The path of a file below a tree.
fn joined(root: &[u8], name: &[u8]) -> Vec<u8> {
    match (root, name) {
        (root, b"") => root.to_vec(),
        (b"/", name) => [b"/", name].concat(),
        (root, name) => [root, b"/", name].concat(),
    }
}
