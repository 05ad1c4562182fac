//! Parity as a place: repairs of trees take files from it that no copy has.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use verisum_digest::{Digest, Output};
use verisum_files::lock;
use verisum_files::place::{
    BlockDigests, Capabilities, FileAnswer, FileRead, FileRequest, FileRights, FileState, Files, Help,
    KnownState, LostPart, Modified, Place, PlaceError, PlaceEvent, Reason, Sink,
};

use crate::ParityError;
use crate::digest::Hasher;
use crate::folder::{ParityFolder, ParityLocation, SetFile};
use crate::head::{BlockPart, PartDigest};
use crate::newest::{Newest, number_of};
use crate::scan::FindPart;
use crate::solve::{Solved, lost_blocks_helped};
use crate::tree::Tree;

/// More pieces than these take too much memory, 400 MB; files of a few hundred bytes have one each.
const MOST_PIECES: usize = 1 << 24;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

/// A place with the files of a tree as they were when its parity was made. What is left of a file is read where it is,
/// what is lost is computed; only the sets that have the file are read. Paths begin at the top of the tree.
///
/// It vouches for nothing: who reads a file from it compares the whole with a record.
pub struct ParityPlace(Arc<Shared>);

struct Shared {
    tree: Tree,
    parity_folder: ParityFolder,
    /// Where the pieces of all files are.
    pieces: Pieces,
    /// The set that was solved last: files that follow each other share it.
    last: Mutex<Option<Arc<SolvedSet>>>,
}

/// Where a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PieceOf {
    /// A number that stands for the path.
    path: u64,
    offset: u64,
    set: u64,
}

/// Where the pieces of all files are; ascending.
struct Pieces(Vec<PieceOf>);

impl Pieces {
    fn read(parity_folder: &ParityFolder) -> Result<Pieces, ParityError> {
        let mut all: Vec<PieceOf> = Vec::new();
        let sets = parity_folder.index()?.sets;
        let newest = Newest::of(parity_folder, &sets)?;
        for number in sets {
            // Others may do without a set that cannot be read.
            let Some(set) = parity_folder.set_unless_lost(number)? else { continue };
            let first = all.len();
            let pieces = set.head.pieces.iter().filter(|piece| newest.counts(number, piece));
            all.extend(pieces.map(|piece| PieceOf {
                path: number_of(&piece.path),
                offset: piece.offset,
                set: number,
            }));
            all[first..].sort_unstable();
            let mut of_set = all.split_off(first);
            of_set.dedup_by_key(|piece| piece.path);
            all.append(&mut of_set);
            if all.len() > MOST_PIECES {
                return Err(ParityError::Damaged {
                    path: parity_folder.path().to_path_buf(),
                    what: "it has too many files",
                });
            }
        }
        all.sort_unstable();
        Ok(Pieces(all))
    }

    /// The sets that have a file, in the order of its bytes.
    fn sets_of(&self, path: &[u8]) -> impl Iterator<Item = u64> {
        self.of(path).iter().map(|piece| piece.set)
    }

    /// The pieces of a file, in the order of its bytes.
    fn of(&self, path: &[u8]) -> &[PieceOf] {
        let path = number_of(path);
        let from = self.0.partition_point(|piece| piece.path < path);
        let count = self.0[from..].partition_point(|piece| piece.path == path);
        &self.0[from..from + count]
    }
}

/// The files that have parity: what [`ParityPlace`] would look for, with nothing kept open.
pub struct ParityFiles(Pieces);

impl ParityFiles {
    /// Reads which files the parity of `tree` in the folder `parity` has; none is the tree's own one.
    ///
    /// # Errors
    /// As [`ParityPlace::open`].
    pub fn read<'p>(tree: &Path, parity: impl Into<ParityLocation<'p>>) -> Result<ParityFiles, ParityError> {
        Ok(ParityFiles(Pieces::read(&ParityFolder::open(tree, parity.into(), false)?)?))
    }

    /// Whether a file had parity when it was made, by its path from the top of the tree.
    pub fn has(&self, path: &Path) -> bool {
        self.0.sets_of(path.as_os_str().as_bytes()).next().is_some()
    }
}

/// A set, and what is lost of it.
struct SolvedSet {
    set: SetFile,
    solved: Solved,
    /// Whether parts that are not in the tree were found elsewhere.
    is_helped: bool,
}

impl ParityPlace {
    /// Opens the parity of `tree` in the folder `parity` to read; none is the tree's own one.
    ///
    /// # Errors
    /// There is none, or another process writes to it.
    pub fn open<'p>(tree: &Path, parity: impl Into<ParityLocation<'p>>) -> Result<ParityPlace, ParityError> {
        let parity_folder = ParityFolder::open(tree, parity.into(), false)?;
        let pieces = Pieces::read(&parity_folder)?;
        let tree = Tree::open(tree, &Arc::default(), &Arc::default())?;
        Ok(ParityPlace(Arc::new(Shared { tree, parity_folder, pieces, last: Mutex::default() })))
    }

    fn content(&self, path: &[u8], range: Range<u64>) -> Content {
        let path: Box<[u8]> = path.strip_prefix(b"/").unwrap_or(path).into();
        let pieces = self.0.pieces.of(&path);
        // Sets before the range are not read.
        let first = pieces.partition_point(|piece| piece.offset <= range.start).saturating_sub(1);
        let at = pieces.get(first).map_or(0, |piece| piece.offset);
        let sets: VecDeque<u64> = pieces[first.min(pieces.len())..].iter().map(|piece| piece.set).collect();
        Content { path, range, sets, at, ..Content::new(&self.0) }
    }

    /// The content of a file that has parity.
    fn recorded(&self, path: &[u8], range: Range<u64>) -> Result<Content, PlaceError> {
        let content = self.content(path, range);
        match content.sets.is_empty() {
            true => {
                let path = OsStr::from_bytes(path).into();
                Err(verisum_files::FileError::NotRead { path, reason: Reason::Missing }.into())
            }
            false => Ok(content),
        }
    }

    /// The digests of a file.
    fn digests(&self, path: &[u8], digests: &[Digest]) -> Result<Vec<Output>, Reason> {
        let failed = |error: &dyn std::fmt::Display| Reason::Failed(error.to_string());
        let mut content = self.content(path, 0..u64::MAX);
        if content.sets.is_empty() {
            return Err(Reason::Missing);
        }
        let mut streams = Vec::new();
        for digest in digests {
            streams.push(digest.stream().map_err(|error| failed(&error))?);
        }
        loop {
            let bytes = content.next_chunk(None).map_err(|error| failed(&error))?;
            if bytes.is_empty() {
                break;
            }
            for stream in &mut streams {
                stream.update(bytes).map_err(|error| failed(&error))?;
            }
        }
        let mut outputs = Vec::new();
        for (digest, mut stream) in digests.iter().zip(streams) {
            let mut output = Output::zeroed(digest.len());
            stream.finish(output.as_mut_bytes()).map_err(|error| failed(&error))?;
            outputs.push(output);
        }
        Ok(outputs)
    }
}

impl Place for ParityPlace {
    fn capabilities(&mut self, _: &[Digest], _: Sink) -> Result<Capabilities, PlaceError> {
        let mut capabilities = Capabilities::new("parity");
        (capabilities.in_order, capabilities.reads_ranges) = (true, true);
        Ok(capabilities)
    }

    fn list(&mut self, _: &[u8], _: Sink) -> Result<(), PlaceError> {
        Err(PlaceError::Unsupported("list"))
    }

    fn hash(&mut self, digests: &[Digest], files: Files, sink: Sink) -> Result<(), PlaceError> {
        let Files::Named(requests) = files else { return Err(PlaceError::Unsupported("list")) };
        for request in requests {
            let answer = match self.digests(&request.path, digests) {
                Ok(digests) => {
                    let read = FileRead { digests, ..FileRead::default() };
                    FileAnswer { request: FileRequest { ..request }, result: Ok(read) }
                }
                Err(reason) => FileAnswer::failed(request, reason),
            };
            if !sink(PlaceEvent::Answer(answer)) {
                break;
            }
        }
        Ok(())
    }

    fn state(&mut self, path: &[u8]) -> Result<KnownState, PlaceError> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let set = self.0.pieces.sets_of(path).next().and_then(|number| self.0.parity_folder.set(number).ok());
        let piece = set.as_ref().and_then(|set| set.head.pieces.iter().find(|piece| &*piece.path == path));
        let Some(piece) = piece else {
            let path = OsStr::from_bytes(path).into();
            return Err(verisum_files::FileError::NotRead { path, reason: Reason::Missing }.into());
        };
        let modified = Modified { time: piece.modified, is_exact: true };
        let now = FileState { size: Some(piece.size), modified: Some(modified), identity: None };
        let (user, group) = piece.owner;
        Ok(KnownState { now, original: None, rights: Some(FileRights { mode: piece.mode, user, group }) })
    }

    fn block_digests(&mut self, path: &[u8]) -> Option<BlockDigests> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let mut blocks = BlockDigests::new(Digest::find("blake3").ok()?, size_of::<PartDigest>());
        let mut size = None;
        for number in self.0.pieces.sets_of(path) {
            // Files that follow each other share the set that was solved last.
            let last = self.0.last_set(number);
            let read = if last.is_none() { Some(self.0.parity_folder.set(number).ok()?.head) } else { None };
            let head = last.as_ref().map(|last| &last.set.head).or(read.as_ref())?;
            for (piece, parts) in head.parts_of_pieces() {
                let piece = &head.pieces[piece];
                if &*piece.path != path {
                    continue;
                }
                size = Some(piece.size);
                for part in parts {
                    // All that follows a gap is elsewhere.
                    (part.offset == blocks.length()).then_some(())?;
                    blocks.push(part.range.len() as u64, &head.parts[part.index]);
                }
            }
        }
        (size == Some(blocks.length())).then_some(blocks)
    }

    fn read(&mut self, path: &[u8], range: Range<u64>) -> Result<Box<dyn Read + Send>, PlaceError> {
        Ok(Box::new(self.recorded(path, range)?))
    }

    fn read_helped(
        &mut self,
        path: &[u8],
        (offset, buffer): (u64, &mut [u8]),
        help: &mut Help,
    ) -> Result<(), PlaceError> {
        let mut content = self.recorded(path, offset..offset + buffer.len() as u64)?;
        let mut filled = 0;
        while filled < buffer.len() {
            let chunk = content.next_chunk(Some(help)).map_err(|error| PlaceError::Machine(error.into()))?;
            if chunk.is_empty() {
                return Err(PlaceError::Machine(gap().into()));
            }
            buffer[filled..filled + chunk.len()].copy_from_slice(chunk);
            filled += chunk.len();
        }
        Ok(())
    }
}

impl Shared {
    /// The set that was solved last, if it has this number.
    fn last_set(&self, number: u64) -> Option<Arc<SolvedSet>> {
        let last = lock(&self.last);
        last.as_ref().filter(|last| last.set.head.number == number).cloned()
    }

    /// What is lost of a set. With help, parts of files that something else has do not count as lost.
    fn solved(&self, number: u64, help: Option<&mut Help>) -> Result<Arc<SolvedSet>, ParityError> {
        let mut last = lock(&self.last);
        if let Some(last) = last.as_ref().filter(|last| last.set.head.number == number) {
            return Ok(last.clone());
        }
        // Its room is needed.
        *last = None;
        let set = self.parity_folder.set(number)?;
        let alone = lost_blocks_helped(&self.tree, &set, &mut |_, _, _, _| false)?;
        let is_helped = alone.is_err();
        let solved = match (alone, help) {
            (Err(lost), Some(help)) if help.in_vain.get(&number).is_none_or(|before| lost < *before) => {
                let solved = lost_blocks_helped(&self.tree, &set, &mut *finder(help)?)?;
                if solved.is_err() {
                    help.in_vain.insert(number, lost);
                }
                solved
            }
            (alone, _) => alone,
        };
        let too_much = |_| ParityError::damaged(set.path(), "more is lost than its parity gives");
        let solved = solved.map_err(too_much)?;
        Ok(last.insert(Arc::new(SolvedSet { set, solved, is_helped })).clone())
    }
}

/// Asks for help, and compares what comes.
fn finder<'f>(help: &'f mut Help<'_>) -> Result<Box<FindPart<'f>>, ParityError> {
    let mut hasher = Hasher::new()?;
    Ok(Box::new(move |path, offset, bytes, expected| {
        let mut is_good = |bytes: &[u8]| hasher.part(bytes).is_ok_and(|found| found == *expected);
        (help.find)(LostPart { path, offset, bytes, is_good: &mut is_good })
    }))
}

/// The content of a file, piece by piece.
struct Content {
    shared: Arc<Shared>,
    path: Box<[u8]>,
    /// What is wanted of it.
    range: Range<u64>,
    /// The sets that have the rest of it, in the order of their pieces.
    sets: VecDeque<u64>,
    current: Option<Arc<SolvedSet>>,
    parts: VecDeque<BlockPart>,
    /// What is left of it where it is.
    file: Option<File>,
    /// How many bytes came, and how many there are.
    at: u64,
    size: Option<u64>,
    chunk: Vec<u8>,
    /// How many bytes of the chunk were given.
    given: usize,
}

impl Content {
    fn new(shared: &Arc<Shared>) -> Content {
        Content {
            shared: shared.clone(),
            path: Box::default(),
            range: 0..0,
            sets: VecDeque::new(),
            current: None,
            parts: VecDeque::new(),
            file: None,
            at: 0,
            size: None,
            chunk: Vec::new(),
            given: 0,
        }
    }

    /// The next bytes; none at the end of the range, or of the file.
    fn next_chunk(&mut self, mut help: Option<&mut Help>) -> io::Result<&[u8]> {
        self.chunk.clear();
        self.given = 0;
        while self.chunk.len() < CHUNK && self.at < self.range.end {
            match self.parts.pop_front() {
                Some(part) => self.part(&part, help.as_deref_mut())?,
                None if !self.enter(help.as_deref_mut())? => break,
                None => {}
            }
        }
        if self.chunk.is_empty() && self.at < self.range.end && self.size.is_some_and(|size| size != self.at)
        {
            return Err(gap());
        }
        Ok(&self.chunk)
    }

    /// Goes on to the next set. False if that was the last.
    fn enter(&mut self, help: Option<&mut Help>) -> io::Result<bool> {
        let Some(number) = self.sets.pop_front() else { return Ok(false) };
        let current = self.shared.solved(number, help).map_err(io::Error::other)?;
        let head = &current.set.head;
        for (piece, parts) in head.parts_of_pieces() {
            let piece = &head.pieces[piece];
            if piece.path == self.path {
                self.size = Some(piece.size);
                self.parts.extend(parts);
            }
        }
        if self.file.is_none() {
            self.file = self.shared.tree.file(&self.path).ok().map(|(_, file)| file);
        }
        self.current = Some(current);
        Ok(true)
    }

    /// Adds a part to the chunk, as far as it is wanted.
    fn part(&mut self, part: &BlockPart, help: Option<&mut Help>) -> io::Result<()> {
        if part.offset != self.at {
            return Err(gap());
        }
        let length = part.range.len();
        let whole = self.at..self.at + length as u64;
        self.at = whole.end;
        let wanted = whole.start.max(self.range.start)..whole.end.min(self.range.end);
        if wanted.is_empty() {
            return Ok(());
        }
        let within = (wanted.start - whole.start) as usize..(wanted.end - whole.start) as usize;
        let Some(current) = &self.current else { return Ok(()) };
        let help = help.filter(|_| current.is_helped);
        match (current.solved.get(&part.block), help, &self.file) {
            (Some(block), ..) => self.chunk.extend_from_slice(&block[part.range.clone()][within]),
            (None, Some(help), file) => {
                let (mut bytes, expected) = (vec![0; length], &current.set.head.parts[part.index]);
                let is_read =
                    file.as_ref().is_some_and(|file| file.read_exact_at(&mut bytes, whole.start).is_ok());
                let is_good = is_read
                    && Hasher::new().and_then(|mut hasher| hasher.part(&bytes)).map_err(io::Error::other)?
                        == *expected;
                if !is_good
                    && !finder(help).map_err(io::Error::other)?(&self.path, whole.start, &mut bytes, expected)
                {
                    return Err(changed());
                }
                self.chunk.extend_from_slice(&bytes[within]);
            }
            (None, None, Some(file)) => {
                let before = self.chunk.len();
                self.chunk.resize(before + within.len(), 0);
                file.read_exact_at(&mut self.chunk[before..], wanted.start)?;
            }
            (None, None, None) => return Err(changed()),
        }
        Ok(())
    }
}

impl Read for Content {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.given == self.chunk.len() {
            self.next_chunk(None)?;
        }
        let left = &self.chunk[self.given..];
        let count = left.len().min(room.len());
        room[..count].copy_from_slice(&left[..count]);
        self.given += count;
        Ok(count)
    }
}

fn changed() -> io::Error {
    io::Error::other("it changed while it was read")
}

fn gap() -> io::Error {
    io::Error::other("a part of it has no parity that can be read")
}
