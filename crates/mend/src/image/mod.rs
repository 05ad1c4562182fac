//! Repairs disk images in place: replaces blocks that differ from a block map by blocks of other copies.
//!
//! Only bytes with the digest of the map are written. Each batch of blocks goes to a journal first: a kill or a loss
//! of power leaves, of each block, the old bytes, the new ones, or what the next run mends from the journal. Where no
//! copy is good as a whole, one gives one block, another the next.
//!
//! Non-goals: images in formats other than raw, and finding the copies.

mod journal;
mod open;
mod replaceable;

pub use open::{journal_of, open_to_write};
pub use replaceable::{is_map, require_replaceable};

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use verisum_blockhash::BlockMap;
use verisum_files::text::of_system;
use verisum_files::{ReplaceError, Stop};

use crate::repair::Taken;

/// Bytes that are fetched at once, unless a block is larger.
const PIECE: u64 = 4 << 20;

/// Bytes that go to a journal at once.
const BATCH: usize = 64 << 20;

/// Fills all of a buffer with the bytes of a copy at an offset.
pub type ReadAt<'a> = Box<dyn FnMut(&mut [u8], u64) -> io::Result<()> + 'a>;

/// An image that is repaired.
pub struct Target<'a> {
    /// What it should be.
    pub map: &'a BlockMap,
    /// The raw image, open to read and write.
    pub file: &'a File,
    /// Its name, for errors.
    pub name: &'a Path,
    /// Where the image ends, in bytes: the map may take a last sector for full. Nothing is written after it.
    pub end: u64,
    /// Where the journal is while blocks are written.
    pub journal: &'a Path,
}

/// What a repair of an image came to. All ranges are whole blocks of the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mended {
    /// What was repaired, or could be.
    pub repaired: Vec<MendedRange>,
    /// What no copy has.
    pub left: Vec<Range<u64>>,
    /// The numbers of the copies that have a block which is neither as the map says.
    pub bad_copies: BTreeSet<usize>,
    /// The numbers of the copies that could not be read somewhere, and why not, where that was first.
    pub unreadable_copies: BTreeMap<usize, String>,
    /// Bytes that were read from the copies.
    pub fetched: u64,
    /// Whether [`Stop`] ended it early.
    pub interrupted: bool,
}

/// A part of an image that a copy has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MendedRange {
    /// Where it is in the image, in bytes.
    pub range: Range<u64>,
    /// The number of the copy that gave it.
    pub copy: usize,
}

impl Mended {
    /// What was taken from the copies, which have these names.
    pub fn taken(&self, names: &[PathBuf]) -> Vec<Taken> {
        let of = |(which, from): (usize, &PathBuf)| {
            let of_it = self.repaired.iter().filter(|one| one.copy == which);
            let ranges: Vec<Range<u64>> = of_it.map(|one| one.range.clone()).collect();
            let bytes = ranges.iter().map(range_len).sum();
            (bytes > 0).then(|| Taken { from: from.clone(), bytes, ranges: Some(ranges) })
        };
        names.iter().enumerate().filter_map(of).collect()
    }
}

/// Why an image is not repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageRepairError {
    /// The map cannot be read, or contradicts itself.
    #[error(transparent)]
    Map(#[from] verisum_blockhash::BlockHashError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] ReplaceError),
    /// The journal of an earlier run cannot be used.
    #[error("{}: {why}", path.display())]
    JournalUnfit {
        /// The journal.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The image cannot be read or written.
    #[error("{}: {operation} at {offset}: {source}", path.display())]
    Image {
        /// The image.
        path: PathBuf,
        /// `read`, `write` or `sync`.
        operation: &'static str,
        /// Where, in bytes.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// Hardly anything in it is as the map says.
    #[error(
        "{}: {good} of {of} blocks with data are as the map says: it may be another image (--overwrite)", path.display()
    )]
    Another {
        /// The image.
        path: PathBuf,
        /// How many blocks are as the map says.
        good: u64,
        /// Of how many, blocks of zeros and those after its end left out.
        of: u64,
    },
    /// A last block is bad, and neither the map nor a copy says where in it the image ends.
    #[error(
        "{}: neither the map nor a copy says where it ends: give a raw copy too, or a map made with --exact",
        path.display()
    )]
    EndUnknown {
        /// The image.
        path: PathBuf,
    },
    /// What was written reads back as something else.
    #[error("{}: read back at {offset}: not what was written: do not trust this storage", path.display())]
    Different {
        /// The image.
        path: PathBuf,
        /// Where, in bytes.
        offset: u64,
    },
}

impl Target<'_> {
    fn block_size(&self) -> u64 {
        u64::from(self.map.params().block_bytes())
    }

    /// The bytes of a block.
    fn block(&self, number: u64) -> Range<u64> {
        let start = number * self.block_size();
        start..(start + self.block_size()).min(self.map.length())
    }

    /// Whether the last block is what the map says.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn has_last_block(&self, read: &mut ReadAt) -> Result<bool, ImageRepairError> {
        let Some(number) = self.map.blocks().checked_sub(1) else { return Ok(true) };
        let block = self.block(number);
        let mut bytes = vec![0; range_len(&block) as usize];
        Ok(read(&mut bytes, block.start).is_ok() && self.is_good(number, &bytes)?)
    }

    /// Whether bytes are what the map says of a block.
    fn is_good(&self, number: u64, bytes: &[u8]) -> Result<bool, ImageRepairError> {
        let expected = self.map.digests(number..number + 1)?;
        let digest =
            self.map.params().digest().hash(bytes).map_err(verisum_blockhash::BlockHashError::from)?;
        Ok(bytes.len() as u64 == range_len(&self.block(number)) && digest.as_bytes() == &expected[..])
    }

    /// Finishes what the journal of an earlier run has, if there is one; says how many blocks that were.
    ///
    /// # Errors
    /// Also for a journal of another map.
    pub fn recover(&self) -> Result<u64, ImageRepairError> {
        let Some(mut journal) = journal::Reader::open(self)? else { return Ok(0) };
        let mut count = 0;
        while let Some((number, bytes)) = journal.next(self)? {
            self.write(number, &bytes)?;
            count += 1;
        }
        self.sync()?;
        journal::remove(self.journal)?;
        Ok(count)
    }

    /// The blocks that [`recover`](Target::recover) would write.
    ///
    /// # Errors
    /// As that.
    pub fn recoverable(&self) -> Result<Vec<Range<u64>>, ImageRepairError> {
        let Some(mut journal) = journal::Reader::open(self)? else { return Ok(Vec::new()) };
        let mut blocks = Vec::new();
        while let Some((number, _)) = journal.next(self)? {
            blocks.push(self.block(number));
        }
        Ok(blocks)
    }

    /// The blocks that differ from the map or cannot be read, read one after the other: for images that cannot be
    /// hashed as a whole because their storage fails.
    pub fn scan(&self, read: &mut ReadAt, stop: &Stop) -> Result<Vec<Range<u64>>, ImageRepairError> {
        let mut bad: Vec<Range<u64>> = Vec::new();
        let mut room = Vec::new();
        for number in 0..self.map.blocks() {
            if stop.is_due() {
                break;
            }
            let block = self.block(number);
            room.resize(range_len(&block) as usize, 0);
            if read(&mut room, block.start).is_ok() && self.is_good(number, &room)? {
                continue;
            }
            match bad.last_mut() {
                Some(last) if last.end == block.start => last.end = block.end,
                _ => bad.push(block),
            }
        }
        Ok(bad)
    }

    /// Fails if hardly anything in an image of this length is as the map says, whose bad ranges these are: then it is
    /// another image.
    ///
    /// # Errors
    /// [`ImageRepairError::Another`], or the map cannot be read.
    pub fn require_same(&self, bad: &[Range<u64>], length: u64) -> Result<(), ImageRepairError> {
        let zeros = vec![0; self.map.params().block_bytes() as usize];
        let zero =
            self.map.params().digest().hash(&zeros).map_err(verisum_blockhash::BlockHashError::from)?;
        // Zeros tell nothing, and what was cut off overwrites nothing.
        let whole = length.min(self.map.length()) / self.block_size();
        let (mut good, mut of) = (0, 0);
        let mut bad = bad.iter().peekable();
        for number in 0..whole {
            let block = self.block(number);
            while bad.next_if(|range| range.end <= block.start).is_some() {}
            if *self.map.digests(number..number + 1)? == *zero.as_bytes() {
                continue;
            }
            of += 1;
            good += u64::from(bad.peek().is_none_or(|range| range.start >= block.end));
        }
        match of > 0 && good * 10 < of {
            true => Err(ImageRepairError::Another { path: self.name.to_path_buf(), good, of }),
            false => Ok(()),
        }
    }

    /// Repairs ranges from copies, which are tried in their order for each block. Without `writes` it only finds out
    /// what could be repaired.
    pub fn repair(
        &self,
        bad: &[Range<u64>],
        copies: &mut [ReadAt],
        writes: bool,
        stop: &Stop,
    ) -> Result<Mended, ImageRepairError> {
        let mut mended = Mended::default();
        let mut batch = Batch { blocks: Vec::new(), bytes: 0, writes };
        for range in bad {
            let mut at = range.start / self.block_size();
            let end = range.end.min(self.map.length()).div_ceil(self.block_size());
            while at < end {
                if stop.is_due() {
                    mended.interrupted = true;
                    batch.end(self)?;
                    return Ok(mended);
                }
                let next = (at + (PIECE / self.block_size()).max(1)).min(end);
                self.piece(at..next, copies, &mut mended, &mut batch)?;
                at = next;
            }
        }
        batch.end(self)?;
        Ok(mended)
    }

    /// Fetches some blocks that follow each other.
    fn piece(
        &self,
        blocks: Range<u64>,
        copies: &mut [ReadAt],
        mended: &mut Mended,
        batch: &mut Batch,
    ) -> Result<(), ImageRepairError> {
        let mut wanted: Vec<u64> = blocks.collect();
        for (which, copy) in copies.iter_mut().enumerate() {
            let mut left = Vec::new();
            for run in runs(&wanted) {
                let range = self.block(run.start).start..self.block(run.end - 1).end;
                let mut bytes = vec![0; range_len(&range) as usize];
                let whole = copy(&mut bytes, range.start).is_ok();
                mended.fetched += if whole { range_len(&range) } else { 0 };
                for number in run {
                    let block = self.block(number);
                    let place = (block.start - range.start) as usize..(block.end - range.start) as usize;
                    let mut found = bytes[place].to_vec();
                    // A copy may fail in one place only.
                    let read = if whole { Ok(()) } else { copy(&mut found, block.start) };
                    let is_read = read.is_ok();
                    if let Err(error) = read {
                        mended.unreadable_copies.entry(which).or_insert_with(|| of_system(&error));
                    } else if !whole {
                        mended.fetched += range_len(&block);
                    }
                    if !is_read || !self.is_good(number, &found)? {
                        mended.bad_copies.extend(is_read.then_some(which));
                        left.push(number);
                        continue;
                    }
                    push(&mut mended.repaired, block, which);
                    batch.add(self, number, found)?;
                }
            }
            wanted = left;
        }
        for number in wanted {
            let block = self.block(number);
            match mended.left.last_mut() {
                Some(last) if last.end == block.start => last.end = block.end,
                _ => mended.left.push(block),
            }
        }
        Ok(())
    }

    /// Reads repaired ranges again, and fails unless they are what the map says.
    pub fn verify(&self, mended: &Mended, read: &mut ReadAt) -> Result<(), ImageRepairError> {
        for MendedRange { range, .. } in &mended.repaired {
            let end = range.end.div_ceil(self.block_size());
            for number in range.start / self.block_size()..end {
                let block = self.block(number);
                let mut bytes = vec![0; range_len(&block) as usize];
                read(&mut bytes, block.start).map_err(self.failed("read", block.start))?;
                if !self.is_good(number, &bytes)? {
                    return Err(ImageRepairError::Different {
                        path: self.name.to_path_buf(),
                        offset: block.start,
                    });
                }
            }
        }
        Ok(())
    }

    fn write(&self, number: u64, bytes: &[u8]) -> Result<(), ImageRepairError> {
        let block = self.block(number);
        let stored = (self.end.saturating_sub(block.start)).min(bytes.len() as u64) as usize;
        let bytes = &bytes[..stored];
        let failed = self.failed("write", block.start);
        // Zeros after the end of a file that was cut need no room.
        if bytes.iter().all(|byte| *byte == 0) {
            let found = self.file.metadata().map_err(&failed)?;
            if found.is_file() && found.len() <= block.start {
                return self.file.set_len(block.start + stored as u64).map_err(failed);
            }
        }
        self.file.write_all_at(bytes, block.start).map_err(failed)
    }

    fn sync(&self) -> Result<(), ImageRepairError> {
        self.file.sync_all().map_err(self.failed("sync", 0))
    }

    fn failed(&self, operation: &'static str, offset: u64) -> impl Fn(io::Error) -> ImageRepairError {
        move |source| ImageRepairError::Image { path: self.name.to_path_buf(), operation, offset, source }
    }
}

/// Blocks that are to be written together.
struct Batch {
    blocks: Vec<(u64, Vec<u8>)>,
    bytes: usize,
    writes: bool,
}

impl Batch {
    fn add(&mut self, target: &Target, number: u64, bytes: Vec<u8>) -> Result<(), ImageRepairError> {
        if !self.writes {
            return Ok(());
        }
        self.bytes += bytes.len();
        self.blocks.push((number, bytes));
        if self.bytes >= BATCH { self.end(target) } else { Ok(()) }
    }

    /// Writes them: to the journal, then to their places.
    fn end(&mut self, target: &Target) -> Result<(), ImageRepairError> {
        if self.blocks.is_empty() {
            return Ok(());
        }
        journal::write(target, &self.blocks)?;
        for (number, bytes) in &self.blocks {
            target.write(*number, bytes)?;
        }
        target.sync()?;
        journal::remove(target.journal)?;
        (self.blocks, self.bytes) = (Vec::new(), 0);
        Ok(())
    }
}

/// Numbers that follow each other, as ranges.
fn runs(numbers: &[u64]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(last) if last.end == *number => last.end += 1,
            _ => runs.push(*number..number + 1),
        }
    }
    runs
}

fn push(ranges: &mut Vec<MendedRange>, block: Range<u64>, copy: usize) {
    match ranges.last_mut() {
        Some(last) if last.range.end == block.start && last.copy == copy => last.range.end = block.end,
        _ => ranges.push(MendedRange { range: block, copy }),
    }
}

fn range_len(range: &Range<u64>) -> u64 {
    range.end - range.start
}
