//! Compares two trees or more, each in any place: by names, by sizes, and by digests where those do not tell.
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

/// Takes what the trees say beside answers, the first of them being 0; false to end the work.
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
        match (&one.read, &other.read) {
            (Some(Ok(one)), Some(Ok(other))) => Some(one == other),
            _ => (!one.may_be(other)).then_some(false),
        }
    }

    /// Whether a side has it, by its listing and by what came of reading it.
    pub fn has(&self, side: usize) -> bool {
        self.files[side].as_ref().is_some_and(|file| !matches!(file.read, Some(Err(Reason::Missing))))
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

    /// What is known after reading.
    fn settled(&self) -> FileStatus {
        if self.couples().any(|(one, other)| self.is_same(one, other) == Some(false)) {
            return FileStatus::Differs;
        }
        let failed = |file: &Option<ComparedFile>| {
            file.as_ref().is_some_and(|file| !matches!(file.read, Some(Ok(_) | Err(Reason::Missing)) | None))
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
    read(trees, digest, &mut pairs, sink)?;
    Ok(pairs)
}

/// Lists all trees at once, brings their files together by name, and settles what sizes tell. What is left is
/// [`FileStatus::Asked`].
///
/// # Errors
/// A place cannot be listed.
pub fn list<const N: usize>(
    trees: [&mut Tree; N],
    digest: &Digest,
    sink: TreeSink,
) -> Result<Vec<Pair<N>>, CompareError> {
    let listed = at_once(trees, |side, tree| list_one(tree, digest, &|event| sink(side, event)));
    if listed.iter().all(Result::is_ok) {
        return Ok(paired(listed.map(Result::unwrap_or_default)));
    }
    Err(CompareError(listed.map(Result::err).into()))
}

/// Reads the files that are [`FileStatus::Asked`], on all sides at once, and settles them. A side that fails in the
/// middle leaves files unreadable.
///
/// # Errors
/// A place fails; what was found before it does is in the pairs.
pub fn read<const N: usize>(
    trees: [&mut Tree; N],
    digest: &Digest,
    pairs: &mut [Pair<N>],
    sink: TreeSink,
) -> Result<(), CompareError> {
    let shared = Mutex::new(&mut *pairs);
    let ended = at_once(trees, |side, tree| {
        let mut requests =
            asked(&shared.lock().unwrap_or_else(PoisonError::into_inner), side, tree).into_iter();
        if requests.len() == 0 {
            return Ok(());
        }
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
        tree.place.hash(std::slice::from_ref(digest), Files::Named(&mut requests), &answered)
    });
    for pair in pairs.iter_mut().filter(|pair| pair.status == FileStatus::Asked) {
        pair.status = pair.settled();
    }
    match ended.iter().all(Result::is_ok) {
        true => Ok(()),
        false => Err(CompareError(ended.map(Result::err).into())),
    }
}

/// The files of a side that have to be read.
fn asked<const N: usize>(pairs: &[Pair<N>], side: usize, tree: &Tree) -> Vec<FileRequest> {
    let asked = pairs.iter().enumerate().filter(|(_, pair)| pair.status == FileStatus::Asked);
    let request = |(tag, pair): (usize, &Pair<N>)| {
        let file = pair.files[side].as_ref().filter(|_| pair.is_to_read(side))?;
        let path = tree.path_of(&pair.name);
        Some(FileRequest { path, tag: tag as u64, seen: file.seen, ..FileRequest::default() })
    };
    asked.filter_map(request).collect()
}

/// Settles files that are [`FileStatus::Asked`] and the same by what the keeper of one place recorded of them, be it the
/// MD5 of the file or of its parts. Only the other side is read, if it is this machine. Returns how many are settled. Of more than two trees all are read.
///
/// # Errors
/// The files of this machine cannot be read; what was found before is in the pairs.
pub fn settle_recorded<const N: usize>(
    trees: [&mut Tree; N],
    pairs: &mut [Pair<N>],
    sink: TreeSink,
) -> Result<u64, CompareError> {
    if N != 2 {
        return Ok(0);
    }
    let mut settled = 0;
    let asked = |pair: &&mut Pair<N>| pair.status == FileStatus::Asked;
    for pair in pairs.iter_mut().filter(asked) {
        if let [Some(a), Some(b)] = &pair.files[..]
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
            let mut errors = [const { None }; N];
            errors[side] = Some(error);
            CompareError(errors.into())
        })?;
    }
    Ok(settled)
}

/// Reads the files of one side of which the other has a record.
fn settle_read<const N: usize>(
    (side, tree): (usize, &mut Tree),
    pairs: &mut [Pair<N>],
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
            let digests = digests_of(recorded, size);
            if !digests.is_empty() {
                groups.entry(digests).or_default().push(at);
            }
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

/// The digests of which one may be the recorded one of a file of this length; none if no usual parts are as many.
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

/// Brings the files of all sides together by name.
fn paired<const N: usize>(listings: [Listing; N]) -> Vec<Pair<N>> {
    let longest = listings.iter().map(|(files, _)| files.len()).max().unwrap_or_default();
    let mut pairs: Vec<Pair<N>> = Vec::with_capacity(longest);
    let is_incomplete = listings.each_ref().map(|(_, is_incomplete)| *is_incomplete);
    let mut sides = listings.map(|(files, _)| files.into_iter().peekable());
    loop {
        let first = sides.iter_mut().filter_map(|side| side.peek().map(|file| &file.name)).min();
        let Some(name) = first.cloned() else { return pairs };
        let files = sides.each_mut().map(|side| {
            let ListedFile { seen, recorded, .. } = side.next_if(|other| other.name == name)?;
            Some(ComparedFile { seen, read: None, recorded })
        });
        let mut pair = Pair { name, files, status: FileStatus::Asked };
        if (0..N).any(|side| is_incomplete[side] && !pair.has(side)) {
            pair.status = FileStatus::Unknown;
        } else if !(0..N).any(|side| pair.is_to_read(side)) {
            pair.status = pair.settled();
        }
        pairs.push(pair);
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
