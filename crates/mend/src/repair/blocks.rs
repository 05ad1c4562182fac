//! Makes a file from blocks of the bad file and of its copies, none of which must be good as a whole.
//!
//! Digests of blocks say which block of which copy to take; only blocks that the bad file lacks are asked for. That the
//! whole is good its record says, as always.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use verisum_blockhash::BlockMap;
use verisum_digest::{Digest, Output, Policy};
use verisum_files::Stop;
use verisum_files::place::BlockDigests;

use super::damaged::Damaged;
use super::fill::{FillError, prove, write};
use super::helper::{FAILURES, Helper, is_absent, unreadable};
use super::journal::Block;
use super::record::Taken;
use super::source::{Candidate, Source};

/// Bytes that are held at once, unless a block is longer.
const WINDOW: u64 = 4 << 20;

/// The longest block of a map that is held.
const LONGEST: u32 = 16 << 20;

/// The most blocks whose digests are held.
const MOST: u64 = 1 << 21;

/// Why a file cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CombineError {
    /// Blocks that nothing has.
    #[error("{0} bytes of it are in no copy")]
    Lost(u64),
    /// The digests of the blocks are those of different content.
    #[error("its blocks are those of different content")]
    Other,
    /// It was to end.
    #[error("interrupted")]
    Stopped,
    /// It cannot be written or read.
    #[error(transparent)]
    Fill(#[from] FillError),
}

/// A file that is to be put together.
pub(super) struct Combination<'a> {
    pub(super) blocks: &'a BlockDigests,
    /// The bad file; none if it is missing.
    pub(super) old: Option<&'a File>,
    /// The empty new file; none to find out only whether it can be done.
    pub(super) new: Option<&'a File>,
    /// The record of the whole.
    pub(super) digest: &'a Digest,
    pub(super) recorded: &'a Output,
    /// Whether blocks of zeros become holes.
    pub(super) is_sparse: bool,
    /// Whether what the bad blocks are is told with what they are to be.
    pub(super) keeps_old: bool,
    pub(super) stop: &'a Stop,
}

/// A block that is not good in the bad file.
struct BadBlock {
    number: usize,
    /// The number of the copy that gave it.
    copy: usize,
    /// What it is, if it can be read and that is wanted.
    old: Option<Vec<u8>>,
}

/// What gives blocks.
pub(super) struct Givers<'a, 's> {
    pub(super) sources: &'a mut [Source<'s>],
    /// The copies, in the order in which they are asked.
    pub(super) copies: Vec<Giver>,
    /// What helps parity, if anything is to, and the files that it may ask for.
    pub(super) helper: Option<&'a mut Helper>,
    pub(super) damaged: &'a [Damaged],
    /// The copies in which a block was found that is not good.
    pub(super) bad_copies: &'a mut BTreeSet<PathBuf>,
}

/// A copy, by the number of its source, and how often in a row it failed.
pub(super) struct Giver {
    pub(super) source: usize,
    pub(super) candidate: Candidate,
    pub(super) failures: u32,
}

impl<'a> Combination<'a> {
    /// Blocks of copies alone, to find out whether they can be put together.
    pub(super) fn of(
        blocks: &'a BlockDigests,
        digest: &'a Digest,
        recorded: &'a Output,
        stop: &'a Stop,
    ) -> Combination<'a> {
        Combination {
            blocks,
            old: None,
            new: None,
            digest,
            recorded,
            is_sparse: false,
            keeps_old: false,
            stop,
        }
    }
}

impl Combination<'_> {
    /// Fills the new file, and proves that it is as recorded. Returns what was taken from each copy that gave something,
    /// with its number. Each block that the bad file lacks is given to `changed`, in their order.
    pub(super) fn fill(
        &self,
        givers: &mut Givers,
        changed: &mut dyn FnMut(Block) -> io::Result<()>,
    ) -> Result<Vec<(usize, Taken)>, CombineError> {
        let digest_failed = |error| CombineError::Fill(FillError::Digest(error));
        let mut stream = self.digest.stream().map_err(digest_failed)?;
        let mut taken: Vec<Vec<Range<u64>>> = givers.copies.iter().map(|_| Vec::new()).collect();
        let mut window = Vec::new();
        let mut at = 0;
        while at < self.blocks.count() {
            if self.stop.is_due() {
                return Err(CombineError::Stopped);
            }
            let start = self.blocks.block(at).start;
            let mut end = at + 1;
            while end < self.blocks.count() && self.blocks.block(end).end - start <= WINDOW {
                end += 1;
            }
            window.resize((self.blocks.block(end - 1).end - start) as usize, 0);
            let mut bad = self.left_by_old(at..end, &mut window).map_err(digest_failed)?;
            let mut wanted: Vec<usize> = bad.iter().map(|bad| bad.number).collect();
            for (number, taken) in taken.iter_mut().enumerate() {
                if !wanted.is_empty() && givers.copies[number].failures < FAILURES {
                    let left = self
                        .fetch((&wanted, start), &mut window, (givers, number), taken)
                        .map_err(digest_failed)?;
                    let those = bad.iter_mut().filter(|bad| self.keeps_old && wanted.contains(&bad.number));
                    for bad in those {
                        bad.copy = number;
                    }
                    wanted = left;
                }
            }
            if !wanted.is_empty() {
                let blocks = wanted.iter().map(|number| self.blocks.block(*number));
                return Err(CombineError::Lost(blocks.map(|block| block.end - block.start).sum()));
            }
            for BadBlock { number, copy, old } in bad.into_iter().filter(|_| self.keeps_old) {
                let block = self.blocks.block(number);
                let new = window[(block.start - start) as usize..(block.end - start) as usize].to_vec();
                changed(Block { offset: block.start, copy, old, new }).map_err(FillError::Write)?;
            }
            stream.update(&window).map_err(digest_failed)?;
            if let Some(new) = self.new {
                write(new, &window, start, self.is_sparse).map_err(FillError::Write)?;
            }
            at = end;
        }
        let mut output = Output::zeroed(self.digest.len());
        stream.finish(output.as_mut_bytes()).map_err(digest_failed)?;
        if output != *self.recorded {
            return Err(CombineError::Other);
        }
        if let Some(new) = self.new {
            new.set_len(self.blocks.length()).map_err(FillError::Write)?;
            prove(new, (self.digest, self.recorded), self.stop)?;
        }
        let all = givers.copies.iter().zip(taken).enumerate().filter(|(_, (_, ranges))| !ranges.is_empty());
        Ok(all.map(|(number, (giver, ranges))| (number, of_giver(giver, ranges))).collect())
    }

    /// Reads some blocks of the bad file. Returns those that are not good.
    fn left_by_old(
        &self,
        blocks: Range<usize>,
        window: &mut [u8],
    ) -> Result<Vec<BadBlock>, verisum_digest::DigestError> {
        let Some(old) = self.old else {
            return Ok(blocks.map(|number| BadBlock { number, copy: 0, old: None }).collect());
        };
        let start = self.blocks.block(blocks.start).start;
        let is_whole = old.read_exact_at(window, start).is_ok();
        let mut wanted = Vec::new();
        for number in blocks {
            let block = self.blocks.block(number);
            let bytes = &mut window[(block.start - start) as usize..(block.end - start) as usize];
            let is_read = is_whole || old.read_exact_at(bytes, block.start).is_ok();
            if !is_read || !self.blocks.is_good(number, bytes)? {
                let old = (is_read && self.keeps_old).then(|| bytes.to_vec());
                wanted.push(BadBlock { number, copy: 0, old });
            }
        }
        Ok(wanted)
    }

    /// Reads blocks of a copy into the window, which begins at `start`. Returns those that are not good there either.
    fn fetch(
        &self,
        (wanted, start): (&[usize], u64),
        window: &mut [u8],
        (givers, which): (&mut Givers, usize),
        taken: &mut Vec<Range<u64>>,
    ) -> Result<Vec<usize>, verisum_digest::DigestError> {
        let mut left = Vec::new();
        for run in wanted.chunk_by(|one, next| one + 1 == *next) {
            let [first, .., last] = run else {
                let [only] = run else { continue };
                left.extend(self.fetch_run(*only..only + 1, start, window, (givers, which), taken)?);
                continue;
            };
            left.extend(self.fetch_run(*first..last + 1, start, window, (givers, which), taken)?);
        }
        Ok(left)
    }

    fn fetch_run(
        &self,
        run: Range<usize>,
        start: u64,
        window: &mut [u8],
        (givers, which): (&mut Givers, usize),
        taken: &mut Vec<Range<u64>>,
    ) -> Result<Vec<usize>, verisum_digest::DigestError> {
        let Givers { sources, copies, helper, damaged, bad_copies } = givers;
        let giver = &mut copies[which];
        let within = |range: &Range<u64>| (range.start - start) as usize..(range.end - start) as usize;
        let mut read = |range: Range<u64>, bytes: &mut [u8]| -> bool {
            if giver.failures >= FAILURES {
                return false;
            }
            let path = &giver.candidate.path;
            let read = match helper {
                Some(helper) => {
                    helper.read((&mut **sources, giver.source), damaged, path, (range.start, bytes))
                }
                None => {
                    let content = sources[giver.source].place.read(path, range);
                    content.and_then(|mut content| content.read_exact(bytes).map_err(unreadable))
                }
            };
            giver.failures = match &read {
                Ok(()) => 0,
                Err(error) if is_absent(error) => FAILURES,
                Err(_) => giver.failures + 1,
            };
            read.is_ok()
        };
        let range = self.blocks.block(run.start).start..self.blocks.block(run.end - 1).end;
        let is_whole = read(range.clone(), &mut window[within(&range)]);
        let (mut left, mut is_bad) = (Vec::new(), false);
        let is_single = run.len() == 1;
        for number in run {
            let block = self.blocks.block(number);
            let bytes = &mut window[within(&block)];
            // A copy may fail in one place only.
            let is_read = is_whole || !is_single && read(block.clone(), bytes);
            if !is_read || !self.blocks.is_good(number, bytes)? {
                is_bad |= is_read;
                left.push(number);
                continue;
            }
            match taken.last_mut() {
                Some(last) if last.end == block.start => last.end = block.end,
                _ => taken.push(block),
            }
        }
        // What parity does not give is not what it has.
        if is_bad && !sources[giver.source].is_parity {
            bad_copies.insert(giver.candidate.shown.clone());
        }
        Ok(left)
    }
}

fn of_giver(giver: &Giver, ranges: Vec<Range<u64>>) -> Taken {
    let bytes = ranges.iter().map(|range| range.end - range.start).sum();
    Taken { from: giver.candidate.shown.clone(), bytes, ranges: Some(ranges) }
}

/// The digests of a file's blocks that a map has, as `verisum image map` writes it.
pub(super) fn of_map(map: &Path) -> Option<BlockDigests> {
    let map = BlockMap::open(map, &Policy::default()).ok()?;
    let (size, digest) = (map.params().block_bytes(), map.params().digest().clone());
    if size > LONGEST || map.blocks() > MOST {
        return None;
    }
    let length = digest.len();
    let mut blocks = BlockDigests::new(digest, length);
    let values = map.digests(0..map.blocks()).ok()?;
    for (number, value) in (0..).zip(values.chunks(length)) {
        let start = number * u64::from(size);
        blocks.push((map.length() - start).min(u64::from(size)), value);
    }
    Some(blocks)
}
