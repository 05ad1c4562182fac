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

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use verisum_digest::{Digest, Output};

use crate::place::{
    FileAnswer, FileRead, FileRequest, FileState, Files, Place, PlaceError, PlaceEvent, Reason, Recorded,
    below, join,
};

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
    /// What the keeper of its place recorded of it.
    pub recorded: Option<Recorded>,
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
                path: join(root, &pair.name),
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

/// Settles files that are [`FileStatus::Asked`] and the same by what the keeper of one place recorded of them, be it the
/// MD5 of the file or of its parts. Only the other side is read, if it is this machine. Returns how many are settled.
///
/// # Errors
/// The files of this machine cannot be read; what was found before is in the pairs.
pub fn settle_recorded(
    trees: [&mut Tree; 2],
    pairs: &mut [Pair],
    sink: TreeSink,
) -> Result<u64, CompareError> {
    let mut settled = 0;
    let asked = |pair: &&mut Pair| pair.status == FileStatus::Asked;
    for pair in pairs.iter_mut().filter(asked) {
        if let [Some(a), Some(b)] = &pair.files
            && a.recorded.is_some()
            && a.recorded == b.recorded
            && a.seen.size.is_some()
        {
            pair.status = FileStatus::Same;
            settled += 1;
        }
    }
    for (side, tree) in trees.into_iter().enumerate() {
        let read = settle_read((side, tree), pairs, sink);
        settled += read.map_err(|error| {
            let mut errors = [None, None];
            errors[side] = Some(error);
            CompareError(Box::new(errors))
        })?;
    }
    Ok(settled)
}

/// Reads the files of one side of which the other has a record.
fn settle_read(
    (side, tree): (usize, &mut Tree),
    pairs: &mut [Pair],
    sink: TreeSink,
) -> Result<u64, PlaceError> {
    if !tree.place.is_here() {
        return Ok(0);
    }
    // By the digests to compute, the places of the pairs.
    let mut groups: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for (at, pair) in pairs.iter().enumerate().filter(|(_, pair)| pair.status == FileStatus::Asked) {
        let [Some(_), Some(other)] = [&pair.files[side], &pair.files[1 - side]] else { continue };
        if let (Some(recorded), Some(size)) = (&other.recorded, other.seen.size) {
            groups.entry(digests_of(recorded, size)).or_default().push(at);
        }
    }
    let mut settled = 0;
    for (names, members) in groups {
        let wrong = |error: verisum_digest::Error| PlaceError::Digest(error.to_string());
        let digests: Vec<Digest> =
            names.iter().map(|name| Digest::find(name)).collect::<Result<_, _>>().map_err(wrong)?;
        let same: Mutex<Vec<usize>> = Mutex::default();
        let answered = |event: PlaceEvent| match event {
            PlaceEvent::Answer(FileAnswer { request, result }) => {
                let tag = request.tag as usize;
                let recorded = pairs[tag].files[1 - side].as_ref().and_then(|file| file.recorded);
                // What cannot be read is said by whoever reads it in earnest.
                if let (Ok(read), Some(recorded)) = (result, recorded)
                    && !read.changed
                    && read.digests.iter().any(|digest| is_recorded(digest, &recorded))
                {
                    same.lock().unwrap_or_else(PoisonError::into_inner).push(tag);
                }
                true
            }
            PlaceEvent::Unlisted(line) => sink(side, PlaceEvent::Note(line)),
            other => sink(side, other),
        };
        let mut requests = members.iter().map(|at| FileRequest {
            path: join(&tree.root, &pairs[*at].name),
            tag: *at as u64,
            seen: pairs[*at].files[side].as_ref().map(|file| file.seen).unwrap_or_default(),
            ..FileRequest::default()
        });
        tree.place.hash(&digests, Files::Named(&mut requests), &answered)?;
        drop(requests);
        for tag in same.into_inner().unwrap_or_else(PoisonError::into_inner) {
            pairs[tag].status = FileStatus::Same;
            settled += 1;
        }
    }
    Ok(settled)
}

/// Whether the digest of a file is the recorded one.
fn is_recorded(digest: &Output, recorded: &Recorded) -> bool {
    match recorded.parts {
        // The only part is the file.
        Some(NonZeroU32::MIN) => {
            let found = Digest::find("md5").and_then(|md5| md5.hash(digest.as_bytes()));
            found.is_ok_and(|found| found.as_bytes() == recorded.md5)
        }
        _ => digest.as_bytes() == recorded.md5,
    }
}

/// The lengths of parts that programs use, in MiB. A record of parts does not tell theirs.
const PARTS: [u64; 13] = [5, 8, 10, 15, 16, 25, 32, 50, 64, 100, 128, 256, 512];

/// The digests of which one may be the recorded one of a file of this length.
fn digests_of(recorded: &Recorded, size: u64) -> Vec<String> {
    const MIB: u64 = 1 << 20;
    let parts = match recorded.parts {
        None | Some(NonZeroU32::MIN) => return vec!["md5".to_string()],
        Some(parts) => u64::from(parts.get()),
    };
    let even = size.div_ceil(parts).div_ceil(MIB);
    let mut lengths: Vec<u64> = PARTS.into_iter().chain([even]).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths.retain(|length| *length > 0 && size.div_ceil(length * MIB) == parts);
    lengths.into_iter().map(|length| format!("s3-etag:{length}M")).collect()
}

/// A file of a tree, by its name.
struct ListedFile {
    name: Vec<u8>,
    seen: FileState,
    recorded: Option<Recorded>,
}

/// The files of a tree, and whether something could not be listed.
type Listing = (Vec<ListedFile>, bool);

fn list_one(
    tree: &mut Tree,
    digest: &Digest,
    sink: &(dyn Fn(PlaceEvent) -> bool + Sync),
) -> Result<Listing, PlaceError> {
    let found: Mutex<Vec<ListedFile>> = Mutex::default();
    let (incomplete, twice) = (AtomicBool::new(false), Mutex::new(None));
    let root = tree.root.clone();
    let note = |event: PlaceEvent| match event {
        PlaceEvent::Answer(FileAnswer { request, result: Ok(FileRead { recorded, .. }) }) => {
            let Some(name) = below(&root, &request.path).map(<[u8]>::to_vec) else { return true };
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            if found.last().is_some_and(|last| last.name == name) {
                *twice.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.path);
                return false;
            }
            found.push(ListedFile { name, seen: request.seen, recorded });
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
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(one), Some(other)) => one.name.cmp(&other.name),
        };
        let (one, other) = (a.next_if(|_| order.is_le()), b.next_if(|_| order.is_ge()));
        let status = match (&one, &other) {
            (Some(one), Some(other)) => match (one.seen.size, other.seen.size) {
                (Some(one), Some(other)) if one != other => FileStatus::Differs,
                _ => FileStatus::Asked,
            },
            (Some(_), None) if b_incomplete => FileStatus::Unknown,
            (Some(_), None) => FileStatus::Missing,
            _ if a_incomplete => FileStatus::Unknown,
            _ => FileStatus::Extra,
        };
        let name = one.as_ref().or(other.as_ref()).map(|file| file.name.clone()).unwrap_or_default();
        let files = [one, other].map(|file| {
            file.map(|file| ComparedFile { seen: file.seen, read: None, recorded: file.recorded })
        });
        pairs.push(Pair { name, files, status });
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
