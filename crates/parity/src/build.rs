//! Makes sets: cuts files into pieces and pieces into sets, reads them, and writes their parity.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use verisum_files::Stat;

use crate::ParityError;
use crate::code::Encoder;
use crate::digest::Hasher;
use crate::folder::ParityFolder;
use crate::head::{LONGEST_LIST, MOST_PIECES, Piece, SetHead};
use crate::index::Index;
use crate::options;
use crate::parallel;
use crate::read::{Source, read_blocks};
use crate::tree::{Tree, is_as_recorded};
use crate::verdict::{FileVerdict, Finding};

/// Cuts pieces, which come in order, into sets.
struct Planner<I: Iterator<Item = Piece>> {
    pieces: I,
    /// The rest of a piece that was too long for its set.
    rest: Option<Piece>,
    set_bytes: u64,
}

impl<I: Iterator<Item = Piece>> Planner<I> {
    fn next_set(&mut self) -> Option<Vec<Piece>> {
        let mut set = Vec::new();
        let (mut bytes, mut list) = (0, 0);
        while set.len() < MOST_PIECES && bytes < self.set_bytes && list < LONGEST_LIST / 4 {
            let Some(mut piece) = self.rest.take().or_else(|| self.pieces.next()) else { break };
            let room = self.set_bytes - bytes;
            if piece.length > room {
                let rest =
                    Piece { offset: piece.offset + room, length: piece.length - room, ..piece.clone() };
                self.rest = Some(rest);
                piece.length = room;
            }
            bytes += piece.length;
            list += piece.path.len() + 80;
            set.push(piece);
        }
        (!set.is_empty()).then_some(set)
    }
}

/// What was made.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) sets: Vec<u64>,
    /// Bytes of data in them.
    pub(crate) data: u64,
    /// Bytes of the set files.
    pub(crate) stored: u64,
}

/// What sets are made with.
pub(crate) struct Builder<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) parity_folder: &'a ParityFolder,
    pub(crate) set_bytes: u64,
    pub(crate) threads: usize,
}

impl Builder<'_> {
    /// Makes sets of pieces that are in order. Files that cannot be read or change meanwhile are left out and
    /// told to `report`.
    pub(crate) fn build(
        &self,
        index: &mut Index,
        pieces: Vec<Piece>,
        report: &mut dyn FnMut(Finding),
    ) -> Result<Built, ParityError> {
        let number = AtomicU64::new(index.next);
        self.tree.expect(pieces.iter().map(|piece| piece.length).sum());
        let mut planner = Planner { pieces: pieces.into_iter(), rest: None, set_bytes: self.set_bytes };
        let mut built = Built::default();
        let redundancy = index.redundancy;
        parallel::each(
            self.threads,
            || planner.next_set(),
            |pieces| self.set(pieces, redundancy, &number),
            |made: BuiltSet| {
                made.left_out.into_iter().for_each(&mut *report);
                if let Some(number) = made.number {
                    built.sets.push(number);
                    built.data += made.data;
                    built.stored += made.stored;
                }
                Ok(())
            },
        )?;
        built.sets.sort_unstable();
        index.next = number.into_inner();
        Ok(built)
    }

    /// Makes one set; again without the files that do not hold still.
    fn set(
        &self,
        mut pieces: Vec<Piece>,
        redundancy: u32,
        numbers: &AtomicU64,
    ) -> Result<BuiltSet, ParityError> {
        let mut made = BuiltSet::default();
        while !pieces.is_empty() {
            let length: u64 = pieces.iter().map(|piece| piece.length).sum();
            let mut head = SetHead {
                number: 0,
                block: options::block_bytes(length) as usize,
                parity_blocks: 0,
                pieces,
                parts: Vec::new(),
                parity: Vec::new(),
            };
            let mut source = Steady { tree: self.tree, pieces: &head.pieces, opened: None, lost: Vec::new() };
            let (shape, parts, parity) = encode(&head, redundancy, &mut source)?;
            let lost = std::mem::take(&mut source.lost);
            if lost.is_empty() {
                head.number = numbers.fetch_add(1, Ordering::Relaxed);
                (head.parity_blocks, head.parts) = (shape, parts);
                let mut hasher = Hasher::new()?;
                for index in 0..shape {
                    self.tree.go_on()?;
                    let block = parity.as_ref().map(|parity| parity.block(index)).unwrap_or_default();
                    head.parity.push(hasher.part(&block)?);
                }
                let block = |index| parity.as_ref().map(|parity| parity.block(index)).unwrap_or_default();
                made.stored = self.parity_folder.write_set(&head, block, true)?;
                (made.number, made.data) = (Some(head.number), length);
                return Ok(made);
            }
            let mut left = Vec::new();
            let mut lost = lost.into_iter().peekable();
            for (at, piece) in head.pieces.into_iter().enumerate() {
                match lost.next_if(|(lost, _)| *lost == at) {
                    Some((_, verdict)) => made.left_out.push(Finding::of(&piece.path, verdict)),
                    None => left.push(piece),
                }
            }
            pieces = left;
        }
        Ok(made)
    }
}

type Encoded = (usize, Vec<crate::head::PartDigest>, Option<crate::code::Parity>);

/// Reads the data of a set, and computes the digests of its parts and its parity.
fn encode(head: &SetHead, redundancy: u32, source: &mut Steady<'_>) -> Result<Encoded, ParityError> {
    let mut planned = head.clone();
    planned.parts = vec![[0; 16]; head.count_parts() as usize];
    let parity = match head.length() {
        0 => 0,
        _ => options::parity_blocks(head, redundancy, planned.encode().len() as u64),
    };
    planned.parity_blocks = parity;
    let mut encoder = planned.shape().map(Encoder::new);
    let mut hasher = Hasher::new()?;
    let mut parts = Vec::with_capacity(planned.parts.len());
    read_blocks(head, source, &mut |_, block, read| {
        for part in read {
            parts.push(hasher.part(&block[part.part.range.clone()])?);
        }
        if let Some(encoder) = &mut encoder {
            encoder.add(block);
        }
        Ok(())
    })?;
    source.tree.go_on()?;
    Ok((parity, parts, encoder.map(Encoder::finish)))
}

#[derive(Default)]
struct BuiltSet {
    number: Option<u64>,
    data: u64,
    stored: u64,
    left_out: Vec<Finding>,
}

/// Files that must be as they were when they were found, before and after they are read.
struct Steady<'a> {
    tree: &'a Tree,
    pieces: &'a [Piece],
    /// What was said of the file that is open.
    opened: Option<Stat>,
    /// Which pieces cannot be used, ascending.
    lost: Vec<(usize, FileVerdict)>,
}

impl Source for Steady<'_> {
    fn open(&mut self, piece: usize) -> Option<File> {
        let record = &self.pieces[piece];
        let opened = self.tree.file(&record.path).and_then(|(entry, file)| {
            let failed = |errno| entry.failed(verisum_files::Operation::Stat, errno);
            let mut stat = Stat::of(&file).map_err(failed)?;
            // Whoever writes from now on moves the times.
            if verisum_files::settle(&file, &stat) {
                stat = Stat::of(&file).map_err(failed)?;
            }
            Ok((file, stat))
        });
        match opened {
            Ok((file, stat)) if is_as_recorded(&stat, record) => {
                self.opened = Some(stat);
                Some(file)
            }
            Ok(_) => {
                self.lost.push((piece, FileVerdict::Busy));
                None
            }
            Err(error) => {
                self.lost.push((piece, FileVerdict::Unreadable(error)));
                None
            }
        }
    }

    fn go_on(&self, piece: usize) -> Result<(), ParityError> {
        self.tree.is_at(&self.pieces[piece].path);
        self.tree.go_on()
    }

    fn close(&mut self, piece: usize, file: &File) {
        self.tree.was_read(&self.pieces[piece]);
        let before = self.opened.take();
        let is_same =
            Stat::of(file).is_ok_and(|after| before.is_some_and(|before| before.is_same_state(&after)));
        if !is_same {
            self.lost.push((piece, FileVerdict::Busy));
        }
    }
}
