//! Compares the data of a set with its record.

use std::fs::File;
use std::io;
use std::ops::Range;

use verisum_files::Stat;

use crate::ParityError;
use crate::digest::Hasher;
use crate::head::{PartDigest, Piece, SetHead};
use crate::read::{Source, read_blocks};
use crate::tree::{Tree, time};
use crate::verdict::FileVerdict;

/// What was found of a piece.
#[derive(Debug)]
pub(crate) struct PieceState {
    /// Bytes in parts that are not as recorded.
    pub(crate) bad: u64,
    /// Where in the file these parts are, ascending.
    pub(crate) ranges: Vec<Range<u64>>,
    file: ScannedFile,
}

#[derive(Debug)]
enum ScannedFile {
    Open {
        is_same_time: bool,
        is_same_size: bool,
        is_steady: bool,
    },
    Missing,
    /// A directory, a link or something else has its name.
    Replaced,
    Unreadable(verisum_files::FileError),
}

/// What was found of a set's data.
pub(crate) struct Scanned {
    /// Of each piece.
    pub(crate) pieces: Vec<PieceState>,
    /// The blocks of which any part is not as recorded, ascending.
    pub(crate) lost: Vec<usize>,
}

impl PieceState {
    /// The verdict on the file, as far as this piece tells, given whether the parity of its set suffices; none if it is as
    /// recorded.
    pub(crate) fn verdict(self, can_be_repaired: bool) -> Option<FileVerdict> {
        let bytes = self.bad;
        // What lost nothing needs no parity: an empty file, or one that is only too long.
        let can_be_repaired = can_be_repaired || bytes == 0;
        match self.file {
            ScannedFile::Missing => Some(FileVerdict::Missing { can_be_repaired }),
            ScannedFile::Replaced => Some(FileVerdict::Changed),
            ScannedFile::Unreadable(error) => Some(FileVerdict::Unreadable(error)),
            ScannedFile::Open { is_same_size: true, is_same_time, .. } if bytes == 0 => {
                (!is_same_time).then_some(FileVerdict::Touched)
            }
            ScannedFile::Open { is_same_time: false, .. } => Some(FileVerdict::Changed),
            ScannedFile::Open { is_steady: false, .. } => Some(FileVerdict::Busy),
            ScannedFile::Open { .. } => Some(FileVerdict::Damaged { bytes, can_be_repaired }),
        }
    }

    /// Whether anything is to be said of the file.
    pub(crate) fn is_notable(&self) -> bool {
        let is_same = matches!(self.file, ScannedFile::Open { is_same_time: true, is_same_size: true, .. });
        !is_same || self.bad > 0
    }

    /// Whether a file is there that is not as recorded, though somebody wrote to it since.
    pub(crate) fn is_changed_file(&self) -> bool {
        matches!(self.file, ScannedFile::Open { is_same_time: false, is_same_size, .. } if !is_same_size || self.bad > 0)
    }

    /// Whether a file is there that is as long as recorded.
    pub(crate) fn has_its_size(&self) -> bool {
        matches!(self.file, ScannedFile::Open { is_same_size: true, .. })
    }
}

/// Takes a block: its number, its bytes, and whether it is as it was.
pub(crate) type TakeJudged<'a> = dyn FnMut(usize, &[u8], bool) -> Result<(), ParityError> + 'a;

/// Finds a part elsewhere: fills the room with the bytes of a file at an offset, if something has those of the digest.
pub(crate) type FindPart<'a> = dyn FnMut(&[u8], u64, &mut [u8], &PartDigest) -> bool + 'a;

/// Reads all data of a set and compares it with the record. `each` gets every block, and whether it is as it was;
/// one that is not is zeros.
pub(crate) fn scan(
    tree: &Tree,
    head: &SetHead,
    hasher: &mut Hasher,
    each: &mut TakeJudged<'_>,
) -> Result<Scanned, ParityError> {
    scan_helped(tree, head, hasher, each, &mut |_, _, _, _| false)
}

/// The same, with what is not as recorded taken from elsewhere, as far as it is found.
pub(crate) fn scan_helped(
    tree: &Tree,
    head: &SetHead,
    hasher: &mut Hasher,
    each: &mut TakeJudged<'_>,
    find: &mut FindPart<'_>,
) -> Result<Scanned, ParityError> {
    let mut source = Found { tree, head, states: Vec::with_capacity(head.pieces.len()), opened: None };
    let mut bad = vec![(0, Vec::new()); head.pieces.len()];
    let mut lost = Vec::new();
    read_blocks(head, &mut source, &mut |number, block, parts| {
        let mut is_good = true;
        for read in parts {
            let range = read.part.range.clone();
            let expected = &head.parts[read.part.index];
            if (!read.is_read || hasher.part(&block[range.clone()])? != *expected)
                && !find(&head.pieces[read.piece].path, read.part.offset, &mut block[range.clone()], expected)
            {
                let (bytes, ranges) = &mut bad[read.piece];
                *bytes += range.len() as u64;
                add(ranges, read.part.offset..read.part.offset + range.len() as u64);
                is_good = false;
            }
        }
        if !is_good {
            lost.push(number);
            block.fill(0);
        }
        each(number, block, is_good)
    })?;
    let states = source.states.into_iter().zip(bad);
    Ok(Scanned {
        pieces: states.map(|(file, (bad, ranges))| PieceState { bad, ranges, file }).collect(),
        lost,
    })
}

/// Adds a range that begins after all others.
pub(crate) fn add(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// Files as they are now.
struct Found<'a> {
    tree: &'a Tree,
    head: &'a SetHead,
    states: Vec<ScannedFile>,
    opened: Option<Stat>,
}

impl Source for Found<'_> {
    fn open(&mut self, piece: usize) -> Option<File> {
        let record: &Piece = &self.head.pieces[piece];
        let opened = self.tree.file(&record.path).and_then(|(entry, file)| {
            let stat = Stat::of(&file);
            let stat = stat.map_err(|errno| entry.failed(verisum_files::Operation::Stat, errno))?;
            Ok((file, stat))
        });
        let (file, state) = match opened {
            Ok((file, stat)) => {
                self.opened = Some(stat);
                let is_same_time = time(stat.modified) == record.modified;
                let is_same_size = stat.size == record.size;
                (Some(file), ScannedFile::Open { is_same_time, is_same_size, is_steady: true })
            }
            Err(error) => (None, state_of(error)),
        };
        self.states.push(state);
        file
    }

    fn go_on(&self, piece: usize) -> Result<(), ParityError> {
        self.tree.is_at(&self.head.pieces[piece].path);
        self.tree.go_on()
    }

    fn close(&mut self, piece: usize, file: &File) {
        self.tree.was_read(&self.head.pieces[piece]);
        let before = self.opened.take();
        let now = Stat::of(file);
        if let Some(ScannedFile::Open { is_steady, .. }) = self.states.last_mut() {
            *is_steady = now.is_ok_and(|now| before.is_some_and(|before| before.is_same_state(&now)));
        }
    }
}

/// What it means that a file cannot be opened.
fn state_of(error: verisum_files::FileError) -> ScannedFile {
    match error {
        verisum_files::FileError::NotAFile { .. } | verisum_files::FileError::IsLink { .. } => {
            ScannedFile::Replaced
        }
        verisum_files::FileError::Io { ref source, .. } if is_absent(source) => ScannedFile::Missing,
        // A link has the name of a directory: what is behind it is no file of the tree, as for scrubs.
        verisum_files::FileError::Io { ref source, .. } if source.to_string() == verisum_files::LEADS_OUT => {
            ScannedFile::Missing
        }
        error => ScannedFile::Unreadable(error),
    }
}

pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Merges what two pieces say of one file: the worse of both.
pub(crate) fn merge(one: FileVerdict, other: FileVerdict) -> FileVerdict {
    use FileVerdict::{Damaged, Missing};
    match (one, other) {
        (
            Damaged { bytes: one, can_be_repaired: first },
            Damaged { bytes: other, can_be_repaired: second },
        ) => Damaged { bytes: one + other, can_be_repaired: first && second },
        (Missing { can_be_repaired: first }, Missing { can_be_repaired: second }) => {
            Missing { can_be_repaired: first && second }
        }
        (one, other) if rank(&one) >= rank(&other) => one,
        (_, other) => other,
    }
}

fn rank(verdict: &FileVerdict) -> u32 {
    match verdict {
        FileVerdict::Touched => 0,
        FileVerdict::Repaired { .. } | FileVerdict::Finished { .. } => 1,
        FileVerdict::Changed => 2,
        FileVerdict::Busy => 3,
        FileVerdict::Missing { .. } => 4,
        FileVerdict::Damaged { .. } => 5,
        FileVerdict::Unreadable(_) => 6,
        FileVerdict::NotRepaired(_) => 7,
    }
}
